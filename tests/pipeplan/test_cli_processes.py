"""`plan` as a process of its own: signals, closed pipes, a killed solver, how soon help is there; every command that
writes a file keeps the old one on a full disk, and no signal disturbs a written one."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from signals import PATIENCE_S, PLAN, hear_ctrl_c, ignore_ctrl_c, started

import pipeplan
from pipeplan.cli import main

pytestmark = pytest.mark.timing


@pytest.fixture
def hard(tmp_path: Path) -> Path:
    """An instance whose proof takes much longer than any test: many different operators, much traffic."""
    count = 60
    nodes = [
        pipeplan.Node(i, 1.0 + (i * 7919 % 97) / 97, 50.0, transfer_time=0.05 + (i * 104729 % 89) / 300)
        for i in range(count)
    ]
    edges = [(i, j) for i in range(count) for j in (i + 1, i + 5, i + 11) if j < count]
    nodes[-1] = pipeplan.Node(count - 1, 1.0, 50.0)
    path = tmp_path / "hard.json"
    pipeplan.save(pipeplan.PlacementProblem(tuple(nodes), tuple(edges), 6, 0, name="hard"), path)
    return path


def wait_for_incumbent(process: subprocess.Popen[str]) -> None:
    """Read progress until there is a plan, and a bound."""
    for line in process.stderr:
        if line.startswith("{") and None not in (json.loads(line)["incumbent"], json.loads(line)["bound"]):
            return
    raise AssertionError("the process ended without a plan")


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def wait_for_children(pid: int) -> list[int]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := children(pid):
            return found
        time.sleep(0.05)
    raise AssertionError("no solver process was started")


HARD = ("--non-contiguous", "--json", "--progress", "json")


@pytest.mark.sweeps("15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_prints_and_saves_the_incumbent(hard: Path, tmp_path: Path, number: int) -> None:
    saved = tmp_path / "saved.json"
    with started("solve", hard, *HARD, "--output", saved) as process:
        wait_for_incumbent(process)
        wait_for_children(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    result = json.loads(out)
    assert process.returncode == 0
    assert (result["stop"], result["found"], result["verified"]) == ("interrupted", "feasible", True)
    assert result["gap"] is not None
    assert json.loads(saved.read_text()) == result
    assert "Traceback" not in err


def test_ctrl_c_reaches_the_whole_group_of_processes(hard: Path) -> None:
    """As a terminal sends it: the workers get it too, and must leave the last word to the parent."""
    with started("solve", hard, *HARD) as process:
        wait_for_incumbent(process)
        wait_for_children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, json.loads(out)["stop"]) == (0, "interrupted")
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_job_in_the_background_of_a_script_hears_sigterm_alone(hard: Path) -> None:
    """Its SIGINT is ignored, so that the Ctrl-C meant for another job of the script does not end this one."""
    with started("solve", hard, *HARD, born=ignore_ctrl_c) as process:
        wait_for_incumbent(process)
        wait_for_children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.0)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, json.loads(out)["stop"]) == (0, "interrupted")
    assert "Traceback" not in err


def test_an_interrupt_before_there_is_a_plan(hard: Path) -> None:
    """Without a warm start and with a solver that cannot find a plan in an instant."""
    with started("solve", hard, *HARD, "--warm-start", "none", "--variant", "plain", "--devices", 60) as process:
        wait_for_children(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    result = json.loads(out)
    assert (process.returncode, result["stop"], result["found"]) == (130, "interrupted", "nothing")
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_search_changes_nothing(tmp_path: Path, number: int) -> None:
    """It comes while the result is shown: the exit code is that of the result, which is written whole."""
    saved = tmp_path / "saved.json"
    body = f"""
import os, sys
from pipeplan.cli import main, solve
show = solve.show_result
def shown(*arguments, **named):
    os.kill(os.getpid(), {int(number)})
    show(*arguments, **named)
    os.kill(os.getpid(), {int(number)})
solve.show_result = shown
sys.argv = ["plan", "solve", "tiny-chain", "--planner", "greedy", "--output", {str(saved)!r}]
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", body], capture_output=True, text=True, preexec_fn=hear_ctrl_c, timeout=PATIENCE_S
    )
    assert (done.returncode, json.loads(saved.read_text())["verified"]) == (0, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("instances",), ("planners",), ("instances", "--json")])
def test_a_closed_pipe_is_silent(arguments: tuple[str, ...]) -> None:
    """`plan instances | head -0`: the reader is gone before the first word."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PLAN, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 141


def test_help_is_there_at_once() -> None:
    """Three tenths of a second are the promise; on a slow machine three times what any help page takes there.

    The processor's time is measured, because other tests may keep the machine busy.
    """

    def spent(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    help_alone = min(spent(sys.executable, "-c", "import typer, typer.rich_utils") for _ in range(3))
    ours = min(spent(*PLAN, "--help") for _ in range(3))
    assert ours < max(0.3, 3 * help_alone)
    assert min(spent(*PLAN, "instances") for _ in range(3)) < max(0.4, 3 * help_alone)


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
    "pareto golden-4 --points 2 --method contiguous --no-resume -o {new}.jsonl",
    "simulate tiny-chain placed.json --micro-batches 2 --picture {new}.png",
    "explore golden-4 chained.json -o {new}.html",
    "schedule golden-4 chained.json --micro-batches 2 --planner list-schedule --problem-output {new}.json",
    "export scheduled.json blocks.json --to torch -o {new}.csv",
    "generate pipeline --stages 2 -o {new}.json",
    "import table table.csv -o {new}.json",
)
EACH = [pytest.param(words, marks=() if words in QUICK else pytest.mark.slow) for words in COMMANDS]
PACKAGE = Path(pipeplan.__file__).parent
# Streams of solvers, ranks and runs, files in temporary folders, a journal of whole lines, and the package's makers.
OTHERS = {
    "instances/base/json_file.py", "planners/backends/client.py", "planners/backends/cp_sat.py",
    "planners/backends/scip.py", "pipeplan/models/calibration.py", "pipeplan/models/run/launch.py",
    "pipeplan/studies/journal.py", "pipeplan/studies/supervisor.py",
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
