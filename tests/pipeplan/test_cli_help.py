"""Help that fits a screen, guesses at misspelt names, standard input, pictures for papers, and what was written."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Plan, refused

import pipeplan
from pipeplan.cli.app import COMMANDS, app
from pipeplan.instances.base.errors import did_you_mean, nearest
from pipeplan.planners.registry import all_methods

ROOT = Path(__file__).parents[2]
LINES = 45
"""Of a screen, in 80 columns."""


def commands() -> dict[str, Any]:
    found: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return found


def options_of(command: Any) -> Iterator[Any]:
    return (parameter for parameter in command.params if parameter.param_type_name == "option")


# ---- help pages ----------------------------------------------------------------------------------------


def test_the_help_of_solve_fits_a_screen_and_says_where_the_rest_is(plan: Plan) -> None:
    page = plan("solve", "--help").out
    assert len(page.splitlines()) <= LINES
    listed = [option for option in options_of(commands()["solve"]) if not option.hidden]
    assert 20 <= len(listed) <= 31
    assert {"--kind", "--optimizer", "--recompute", "--data-parallel", "--tensor-parallel"} <= {
        option.opts[0] for option in listed
    }
    assert all(option.opts[0] in page for option in listed)
    assert all(words in page for words in ("plan planners NAME", "--help-all"))
    everything = plan("solve", "--help-all").out
    assert all(option.opts[0] in everything for option in options_of(commands()["solve"]))


def test_every_option_that_is_accepted_is_documented_somewhere(plan: Plan) -> None:
    """On the command's own pages, with its method, or with what plug-ins are."""
    of_methods = {"--" + spec.name.replace("_", "-") for entry in all_methods() for spec in entry.options}
    extending = (ROOT / "docs" / "extending.md").read_text("utf-8")
    for name, command in commands().items():
        two = any(option.opts[0] == "--help-all" for option in options_of(command))
        page = plan(name, "--help-all" if two else "--help").out
        for option in options_of(command):
            flag = option.opts[0]
            elsewhere = flag in of_methods or flag in extending
            assert flag in page or (option.hidden and elsewhere), (name, flag)


def test_help_texts_are_phrases_that_stand_alone() -> None:
    """Each begins like a sentence and ends like one, and none is put together from several methods'."""
    for name, command in commands().items():
        for option in options_of(command):
            text = option.help or ""
            assert text[:1].isupper(), (name, option.opts)
            assert text.endswith("."), (name, option.opts)
            assert not text.startswith(("Of ", "As of ", "See ")), (name, text)
    for entry in all_methods():
        for spec in entry.options:
            assert spec.help[0].isupper(), spec.help
            assert spec.help.endswith("."), spec.help


def test_titles_of_methods_can_be_read_alone() -> None:
    assert not [entry.name for entry in all_methods() if "The same" in entry.title]


def test_the_list_of_instances_reads_none_of_them() -> None:
    script = (
        "from pipeplan.instances import catalogue; from pipeplan.cli import main; main(['instances', '--json']); "
        "assert not catalogue._load.cache_info().misses"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=ROOT)


# ---- completion ----------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_can_be_installed(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "SHELL": shutil.which("bash") or ""}
    command = f"'{sys.executable}' -m pipeplan --install-completion; true"
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert "completion installed" in done.stdout, done.stderr
    assert "_PLAN_COMPLETE=complete_bash" in (tmp_path / ".bash_completions" / "plan.sh").read_text()


@pytest.mark.at_once(2)
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("plan so", {"solve", "solvers"}),
        ("plan solve --pla", {"--planner"}),
        ("plan solve --planner latency-d", {"latency-dp"}),
        ("plan report --out", {"--output"}),
    ],
)
def test_commands_options_and_methods_are_completed(line: str, found: set[str]) -> None:
    environment = {
        **os.environ,
        "_PLAN_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    command = [sys.executable, "-m", "pipeplan"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert set(done.stdout.split()) == found, done.stderr


# ---- did you mean --------------------------------------------------------------------------------------

MISSPELT = [
    (("slove",), "There is no command 'slove' (did you mean 'solve'?)"),
    (("solve", "tiny-chain", "--planer", "dp"), "There is no option '--planer' (did you mean '--planner'?)"),
    (("solve", "tiny-chain", "--gpus", "4"), "There is no option '--gpus' (did you mean '--devices'?)"),
    (("schedule", "tiny-chain", "{plan}", "--num-microbatches", "4"), "(did you mean '--micro-batches'?)"),
    (("generate", "layered", "--gpu", "4"), "(did you mean '--gpus'?)"),
    (("solve", "tiny-chain", "--non-contigous"), "(did you mean '--non-contiguous'?)"),
    (("solve", "tiny-chian"), "(did you mean 'tiny-chain'?)"),
    (("solve", "bert"), "(did you mean 'bert-base-operators'?)"),
    (("solve", "tiny-chain", "--planner", "gredy"), "no planner named 'gredy' (did you mean 'greedy'?)"),
    (("planners", "gredy"), "no planner named 'gredy' (did you mean 'greedy'?)"),
    (("solve", "tiny-chain", "--formulation", "ip-tarnavski"), "(did you mean 'ip-tarnawski'?)"),
    (("formulations", "ip-tarnavski"), "(did you mean 'ip-tarnawski'?)"),
    (("solve", "tiny-chain", "--solver", "higs"), "no solver named 'higs' (did you mean 'highs'?)"),
    (("solve", "tiny-chain", "--option", "variant=strng"), "(did you mean 'strong'?)"),
    (("solve", "tiny-chain", "--progress", "jsn"), "(did you mean 'json'?)"),
    (("generate", "layred"), "(did you mean 'layered'?)"),
    (("generate", "vgg61"), "(did you mean 'vgg16'?)"),
    (("generate", "vgg16", "--hardware", "a100-40g"), "(did you mean 'a100-40gb'?)"),
    (("generate", "vgg16", "--kind", "stagin"), "(did you mean 'staging'?)"),
    (("generate", "mmt", "--cluster", "summit-v10"), "(did you mean 'summit-v100'?)"),
    (("simulate", "tiny-chain", "p.json", "--schedule", "gpip"), "(did you mean 'gpipe'?)"),
    (("verify", "tiny-chain", "{plan}", "--contiguity", "chian"), "(did you mean 'chain'?)"),
    (("convert", "tiny-chain", "-o", "x.json", "--to", "publised"), "(did you mean 'published'?)"),
    (("pareto", "--method", "contigous"), "(did you mean 'contiguous'?)"),
    (("compare", "--suite", "tarnawsky"), "(did you mean 'tarnawski"),
    (("compare", "tiny-chain", "--method", "gredy", "-o", "x"), "(did you mean 'greedy'?)"),
]


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    result = pipeplan.solve("tiny-chain", planner="greedy")
    pipeplan.save(result, path)
    return path


@pytest.mark.parametrize(("arguments", "words"), MISSPELT, ids=lambda value: " ".join(value)[:40])
def test_the_nearest_name_is_asked_for(
    plan: Plan, plan_file: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(plan_file.parent)
    refused(plan(*(word.format(plan=plan_file) for word in arguments)), words)


def test_no_guess_where_nothing_is_near() -> None:
    assert nearest("zzz", ["solve", "show"]) is None
    assert did_you_mean("zzz", ["solve", "show"]) == ""
    assert nearest("", COMMANDS) is None
    assert nearest("SOLVE", COMMANDS) == "solve"


# ---- standard input ------------------------------------------------------------------------------------


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """What stands on standard input."""

    def give(raw: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))

    return give


def test_an_instance_comes_from_standard_input(plan: Plan, piped: Callable[[bytes], None], tmp_path: Path) -> None:
    pipeplan.save(pipeplan.load_packaged("tiny-chain"), tmp_path / "x.json")
    piped((tmp_path / "x.json").read_bytes())
    assert plan("solve", "-", "--planner", "dp", "--json").json["problem"]["name"] == "tiny-chain"


@pytest.mark.parametrize("command", ["verify", "show", "simulate"])
def test_a_result_comes_from_standard_input(
    plan: Plan, piped: Callable[[bytes], None], plan_file: Path, command: str
) -> None:
    more = ("--micro-batches", 4) if command == "simulate" else ()
    expected = plan(command, "tiny-chain", plan_file, *more)
    piped(plan_file.read_bytes())
    assert plan(command, "tiny-chain", "-", *more) == expected
    assert expected.code == 0


def test_reports_and_starts_come_from_standard_input(
    plan: Plan, piped: Callable[[bytes], None], plan_file: Path, tmp_path: Path
) -> None:
    piped(plan_file.read_bytes())
    assert plan("report", "-", "-o", tmp_path / "x.html").code == 0
    piped(plan_file.read_bytes())
    found = plan("solve", "tiny-chain", "--formulation", "ip-tarnawski", "--warm-start", "-", "--json").json
    assert found["warm_start"]["outcome"] == "accepted"


def test_standard_input_is_read_once_and_its_mistakes_are_named(plan: Plan, piped: Callable[[bytes], None]) -> None:
    piped(b"{}")
    refused(plan("verify", "-", "-"), "Two files are to be read from standard input")
    said = plan("solve", "-")
    assert said.code == 2
    assert said.err.startswith("Error: /dev/stdin: ")


def test_a_pipe_between_two_commands() -> None:
    plan = f"'{sys.executable}' -m pipeplan"
    command = f"{plan} generate chain --nodes 5 | {plan} solve - --planner greedy --json"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert '"verified": true' in done.stdout


# ---- what was written ----------------------------------------------------------------------------------


def test_every_file_that_was_written_is_named_on_stderr(plan: Plan, tmp_path: Path) -> None:
    names = {"--output": "out.json", "--picture": "plan.pdf", "--export-model": "model.lp", "--log": "solver.log"}
    words = [word for flag, name in names.items() for word in (flag, tmp_path / name)]
    said = plan("solve", "tiny-chain", "--formulation", "ip-tarnawski", "--solver", "highs", *words, "--json")
    wrote = {line.removeprefix("wrote ") for line in said.err.splitlines() if line.startswith("wrote ")}
    assert wrote == {str(tmp_path / name) for name in (*names.values(), "model.lp.md")}
    assert (tmp_path / "plan.pdf").read_bytes().startswith(b"%PDF")


def test_a_table_of_a_planner_is_named_and_a_split_that_is_read_is_not(
    plan: Plan, plan_file: Path, tmp_path: Path
) -> None:
    table = tmp_path / "table.pdf"
    assert plan("solve", "tiny-stages", "--option", f"table={table}").err == f"wrote {table}\n"
    assert table.read_bytes().startswith(b"%PDF")
    assert plan("solve", "tiny-chain", "--planner", "expert", "--option", f"split={plan_file}").err == ""


def test_nothing_is_said_of_a_file_that_was_not_written(plan: Plan, tmp_path: Path) -> None:
    old = tmp_path / "plan.svg"
    old.write_text("older")
    assert "wrote" not in plan("solve", "golden-4", "--memory", 8, "--picture", old).err
    assert "wrote" not in plan("solve", "tiny-chain", "--planner", "dp", "-o", "/dev/null").err


# ---- gaps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "gap"), [("0.01", 0.01), ("1%", 0.01), ("57%", 0.57), ("100%", 1.0), ("0", 0.0)])
def test_a_relative_gap_is_a_share(text: str, gap: float) -> None:
    from pipeplan.instances.base.quantities import share

    assert share(text) == gap


@pytest.mark.parametrize(
    ("text", "unit", "gap"),
    [("5", "ms", 5.0), ("5ms", "ms", 5.0), ("5ms", "s", 0.005), ("0.5s", "us", 5e5), ("3", None, 3.0)],
)
def test_an_absolute_gap_is_turned_into_the_unit_of_the_instance(text: str, unit: str | None, gap: float) -> None:
    from pipeplan.cli.arguments import limits_for
    from pipeplan.instances.base.quantities import time_gap

    problem = pipeplan.load_packaged("tiny-chain").replace(time_unit=unit)
    assert limits_for(problem, {"abs_gap": time_gap(text)}).abs_gap == gap


def test_an_absolute_gap_reaches_the_search(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "no_unit.json"
    pipeplan.save(pipeplan.load_packaged("tiny-chain").replace(time_unit=None), path)
    words = ("--planner", "dp", "--abs-gap", "5ms")
    assert plan("solve", "tiny-chain", *words).code == 0
    said = plan("solve", path, *words)
    assert said.code == 2
    assert said.err == (
        "Error: --abs-gap is in ms, and the instance's times are in no unit; give a number in its unit.\n"
    )
