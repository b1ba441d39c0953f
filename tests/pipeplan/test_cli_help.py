"""Help that fits a screen, lists, standard input, what was written, conversions and the small words of `plan`."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Plan, refused
from problems.malformed import PUBLISHED
from typer.testing import CliRunner

import pipeplan
from pipeplan.cli.app import COMMANDS, app
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.planners.registry import PLANNERS, all_methods
from pipeplan.show.console import clean
from pipeplan.show.words import size

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


COMPLETED = {
    "plan so": {"solve", "solvers"}, "plan solve --pla": {"--planner"},
    "plan solve --planner latency-d": {"latency-dp"}, "plan report --out": {"--output"},
}  # fmt: skip


@pytest.mark.at_once(2)
@pytest.mark.parametrize("line", COMPLETED)
def test_commands_options_and_methods_are_completed(line: str) -> None:
    typed = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    environment = {**os.environ, "_PLAN_COMPLETE": "complete_bash", **typed}
    command = [sys.executable, "-m", "pipeplan"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert set(done.stdout.split()) == COMPLETED[line], done.stderr


# ---- did you mean --------------------------------------------------------------------------------------


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    result = pipeplan.solve("tiny-chain", planner="greedy")
    pipeplan.save(result, path)
    return path


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
    refused(plan("verify", "-", "-"), "Two files cannot both be read from standard input")
    said = plan("solve", "-")
    assert said.code == 2
    assert said.err.startswith("Error: /dev/stdin: ")


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
    table = tmp_path / "table.csv"
    assert plan("solve", "tiny-stages", "--option", f"table={table}").err == f"wrote {table}\n"
    assert "," in table.read_text("utf-8")
    assert plan("solve", "tiny-chain", "--planner", "expert", "--option", f"split={plan_file}").err == ""


def test_nothing_is_said_of_a_file_that_was_not_written(plan: Plan, tmp_path: Path) -> None:
    old = tmp_path / "plan.svg"
    old.write_text("older")
    assert "wrote" not in plan("solve", "golden-4", "--memory", 8, "--picture", old).err
    assert "wrote" not in plan("solve", "tiny-chain", "--planner", "dp", "-o", "/dev/null").err


def test_version_and_help() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).output == f"pipeplan {pipeplan.__version__}\n"
    help_text = runner.invoke(app, ["--help"]).output
    assert "Exit codes" in help_text


def test_options_of_one_method_or_source_are_given_by_name_and_the_old_spelling_is_understood(plan: Plan) -> None:
    by_name = plan(
        "solve", "tiny-graph", "--planner", "graphpipe", "--option", "k=2", "--option", "join=tree", "--json"
    )
    before = plan("solve", "tiny-graph", "--planner", "graphpipe", "--k", 2, "--join=tree", "--json")
    assert by_name.json["objective"] == before.json["objective"]
    assert before.err == (
        "Note: --k is now written --option k=2.\nNote: --join is now written --option join=tree.\n"
    )
    flags = plan("solve", "tiny-stages", "--uniform")
    assert "now written --option uniform." in flags.err
    denied = plan("solve", "tiny-stages", "--uniform=false", "--no-k")
    assert "now written --option uniform=false." in denied.err
    assert "There is no option '--no-k'" in denied.err


def test_solve_has_at_most_forty_options(plan: Plan) -> None:
    listed = re.findall(r"^│ *(--[a-z-]+)", plan("solve", "--help-all").out, re.MULTILINE)
    assert len(set(listed)) <= 40


def test_help_pages_hold_defaults(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are markup, in which `[default: 8]` would be a style; those of methods stand in the methods' lists."""
    monkeypatch.setenv("COLUMNS", "200")
    assert plan("solve", "--help").out.count("[default:") == 1
    assert plan("solve", "--help-all").out.count("[default:") == 3
    assert "default: half the cores" in plan("compare", "--help").out
    assert "default: 8." in plan("pareto", "--help").out


def test_no_command_is_usage() -> None:
    assert CliRunner().invoke(app, []).exit_code == 2
    assert CliRunner().invoke(app, ["dance"]).exit_code == 2


@pytest.mark.parametrize("command", ["instances", "formulations", "planners", "solvers"])
def test_lists_for_people_and_machines(plan: Plan, command: str) -> None:
    rows = plan(command, "--json").json
    assert rows
    said = plan(command)
    assert said.code == 0
    assert all(row["name"] in said.out for row in rows)
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_what_instances_are_made_of_stands_beside_or_below_the_numbers(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = plan("instances").out.splitlines()
    assert not any("made of" in line for line in narrow)
    assert "tiny-graph: two hand-written branches and a join, for teaching" in narrow
    monkeypatch.setenv("COLUMNS", "160")
    wide = plan("instances").out.splitlines()
    assert any(line.startswith("tiny-graph ") and line.rstrip().endswith("for teaching") for line in wide)


def test_solvers_tell_what_they_can_do_and_where_to_get_them(plan: Plan) -> None:
    rows = {row["name"]: row for row in plan("solvers", "--json").json}
    assert rows["highs"]["available"] is True
    assert rows["highs"]["version"]
    assert rows["highs"]["capabilities"]["warm_start"] is True
    assert all(row["available"] or row["remedy"] for row in rows.values())


@pytest.mark.parametrize(("command", "table"), [("formulations", FORMULATIONS), ("planners", PLANNERS)])
def test_one_method_with_its_options(plan: Plan, command: str, table: dict[str, Any]) -> None:
    for name, entry in table.items():
        shown = plan(command, name)
        assert shown.code == 0
        assert all(spec.name.replace("_", "-") in shown.out for spec in entry.options)
        assert plan(command, name, "--json").json == json.loads(json.dumps(entry.to_json()))


# ---- conversions ---------------------------------------------------------------------------------------


def test_a_published_file_becomes_our_own(plan: Plan, tmp_path: Path) -> None:
    published, own = tmp_path / "published.json", tmp_path / "own.json"
    published.write_text(json.dumps(PUBLISHED))
    said = plan("convert", published, "-o", own)
    assert (said.code, said.err) == (0, f"wrote {own}\n")
    assert said.out.startswith(f"{own}: a placement problem of ")
    report = plan("convert", published, "-o", own, "--json").json
    assert report["problem"]["hash"] == pipeplan.load(published).hash == pipeplan.load(own).hash


# ---- small things --------------------------------------------------------------------------------------


def test_clean_keeps_letters_and_defuses_the_rest() -> None:
    assert clean("naïve ü 层") == "naïve ü 层"
    assert clean("a\x1b[0m\r\n\u202eb\ud800") == "a\\x1b[0m\\r\\n\\u202eb\\ud800"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (40e9, "40 GB"), (2**34, "17.2 GB"), (3e12, "3 TB")],
)
def test_sizes_for_eyes(count: float, text: str) -> None:
    assert size(count) == text


def test_a_listed_command_has_the_words_of_the_real_one() -> None:
    """The help page reads the sources of the commands and imports none of them."""
    from pipeplan.cli.app import GROUPS, build

    pages = [CliRunner().invoke(build(loaded), ["--help"]).output for loaded in ([], [*COMMANDS, *GROUPS])]
    assert pages[0] == pages[1]
    assert all(name in pages[0] for name in COMMANDS)
