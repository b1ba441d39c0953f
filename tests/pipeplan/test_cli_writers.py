"""Every command that writes a file: on a full disk the old file stays, and no signal disturbs a written one."""

from __future__ import annotations

import ast
import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from signals import hear_ctrl_c

import pipeplan
from pipeplan.cli import main

# What is written last stands last. Files of others: a table, and plans of a placement, a chain and a schedule.
QUICK = ("convert tiny-chain -o {new}.json", "report placed.json -o {new}.html")
COMMANDS = (
    *QUICK,
    "solve tiny-chain --planner greedy -o {new}.json",
    "solve tiny-chain --planner greedy --picture {new}.svg",
    "solve tiny-chain --formulation ip-tarnawski --export-model {new}.mps",
    "solve tiny-chain --formulation ip-tarnawski --export-model {new}.lp",
    "show tiny-chain placed.json --picture {new}.pdf",
    "memory tiny-chain --points 0 -o {new}.json",
    "pareto golden-4 --points 2 --method contiguous --csv {new}.csv",
    "pareto golden-4 --points 2 --method contiguous --report {new}.html",
    "pareto golden-4 --points 2 --method contiguous --no-resume -o {new}.jsonl",
    "simulate tiny-chain placed.json --micro-batches 2 --picture {new}.png",
    "explore golden-4 chained.json -o {new}.html",
    "schedule golden-4 chained.json --micro-batches 2 --planner list-schedule --problem-output {new}.json",
    "export scheduled.json blocks.json --to torch -o {new}.csv",
    "generate layered --nodes 5 -o {new}.json",
    "import table table.csv -o {new}.json",
)
EACH = [pytest.param(words, marks=() if words in QUICK else pytest.mark.slow) for words in COMMANDS]
PACKAGE = Path(pipeplan.__file__).parent
# Streams of solvers and ranks, files in temporary folders, a journal of whole lines, and the makers of the package.
OTHERS = {
    "instances/base/json_file.py", "planners/backends/client.py", "planners/backends/cp_sat.py",
    "planners/backends/scip.py", "pipeplan/models/run/launch.py", "pipeplan/models/run/torch_engine.py",
    "pipeplan/studies/journal.py",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["solve", "tiny-chain", "--planner", "greedy", "-o", "placed.json"]) == 0
    assert main(["solve", "golden-4", "--planner", "contiguous", "-o", "chained.json"]) == 0
    assert main(["solve", "zero-bubble-4x12", "--planner", "zb-h1", "-o", "scheduled.json"]) == 0
    assert main(["convert", "zero-bubble-4x12", "-o", "blocks.json"]) == 0
    capsys.readouterr()
    assert main(["import", "table", "--template"]) == 0
    Path("table.csv").write_text(capsys.readouterr().out)
    return tmp_path


def run(words: str, body: str, limit: int = resource.RLIM_INFINITY) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which begins with that code and writes no longer files than the limit."""
    code = f"import os, sys\n{body}\nfrom pipeplan.cli import main\nsys.argv[0] = 'plan'\nsys.exit(main())"

    def born() -> None:
        hear_ctrl_c()
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-c", code, *shlex.split(words)], capture_output=True, text=True, preexec_fn=born,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize("words", EACH)
def test_a_full_disk_leaves_the_old_file(words: str, folder: Path) -> None:
    """A limit on the size of files stands for the disk: one sentence says why, and nothing else is left."""
    old = Path(words.format(new="new").split()[-1])
    old.write_text("what was there\n")
    before = sorted(path.name for path in folder.iterdir())
    done = run(words.format(new="new"), "", limit=100)
    assert (done.returncode, old.read_text()) == (2, "what was there\n"), done.stderr
    assert sorted(path.name for path in folder.iterdir()) == before
    assert "cannot be written" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", EACH)
def test_a_signal_after_the_file_is_written_changes_nothing(words: str, folder: Path) -> None:
    if "--export-model" in words or "--no-resume" in words:
        pytest.skip("the search goes on after this file, and a signal ends it")
    numbers = [int(signal.SIGINT), int(signal.SIGTERM)]
    body = f"""
from pipeplan.instances.base import json_file
replace = json_file._replace
def replace_and_hear(*arguments):
    replace(*arguments)
    for number in {numbers}:
        os.kill(os.getpid(), number)
json_file._replace = replace_and_hear
"""
    done = run(words.format(new="new"), body)
    assert done.returncode == 0, done.stderr
    assert Path(words.format(new="new").split()[-1]).stat().st_size > 0
    assert "nterrupt" not in done.stderr


@pytest.mark.timing
def test_an_interrupt_in_code_run_from_a_string_is_no_end_by_signal() -> None:
    """As dataclasses and namedtuples run it, while modules are loaded; Python would die of SIGINT at its end."""
    body = """
from pipeplan.cli import app
def main(words):
    exec(f"import os, time; os.kill(os.getpid(), {int(number)}); time.sleep(3600)")
app.main = main
"""
    for number in (signal.SIGINT, signal.SIGTERM):
        done = run("instances", f"number = {int(number)}\n{body}")
        assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.timing
def test_an_interrupt_that_python_drops_comes_again() -> None:
    """It met a finaliser, in which nothing can be caught."""
    body = f"""
import signal, time
from pipeplan.cli import app, exits
class Finalised:
    def __del__(self):
        os.kill(os.getpid(), {int(signal.SIGTERM)})
        time.sleep(0.1)
def main(words):
    with exits.graceful():
        Finalised()
        time.sleep(3600)
app.main = main
"""
    done = run("instances", body)
    assert (done.returncode, done.stderr) == (130, "")


def test_whoever_writes_a_file_of_the_user_writes_it_whole() -> None:
    """By the writer that replaces a file in one step; who writes otherwise is named above, with the reason."""
    found = set()
    for package in ("instances", "formulations", "planners", "pipeplan"):
        for path in (PACKAGE.parent / package).rglob("*.py"):
            text = path.read_text("utf-8")
            for node in ast.walk(ast.parse(text)) if "write_" in text or "open" in text else ():
                if isinstance(node, ast.Call) and writes(node):
                    found.add(str(path.relative_to(PACKAGE.parent)))
    assert found == OTHERS


def writes(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    modes = [word.value for word in call.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    return name in ("write_text", "write_bytes") or (
        name == "open" and any(set(mode) <= set("rwabxt+") and set(mode) & set("wax+") for mode in modes)
    )
