"""The lists, conversions and the small words of `plan`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Plan, refused
from typer.testing import CliRunner

import pipeplan
from pipeplan.cli.app import app
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.planners.registry import PLANNERS, all_methods
from pipeplan.show.console import bar, clean
from pipeplan.show.words import size


def test_version_and_help() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).output == f"pipeplan {pipeplan.__version__}\n"
    help_text = runner.invoke(app, ["--help"]).output
    assert "Exit codes" in help_text


def test_declared_options_are_options_of_solve() -> None:
    solve = command_named("solve")
    known = {flag[2:] for parameter in solve.params for flag in parameter.opts} | solve.callback.narrow.keys()
    for entry in all_methods():
        assert {spec.name.replace("_", "-") for spec in entry.options} <= known


def test_options_of_one_method_or_source_are_given_by_name_and_the_old_spelling_is_understood(plan: Plan) -> None:
    by_name = plan(
        "solve", "tiny-graph", "--planner", "graphpipe", "--option", "k=2", "--option", "join=tree", "--json"
    )
    before = plan("solve", "tiny-graph", "--planner", "graphpipe", "--k", 2, "--join=tree", "--json")
    assert by_name.json["objective"] == before.json["objective"]
    assert before.err == (
        "Note: --k is written --option k=2 now.\nNote: --join is written --option join=tree now.\n"
    )
    flags = plan("solve", "tiny-stages", "--no-exact-batches", "--uniform")
    assert "exact-batches=false now" in flags.err
    assert "--option uniform now" in flags.err
    denied = plan("solve", "tiny-stages", "--uniform=false", "--no-k")
    assert "--option uniform=false now" in denied.err
    assert "There is no option '--no-k'" in denied.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("k=two",), "--option k is 'two', not a whole number; write 2."),
        (("k",), "--option k lacks its value; write it as --option k=VALUE."),
        (("jion=tree",), "There is no option 'jion' (did you mean 'join'?); 'graphpipe' has "),
        (
            ("mixed-micro-batches=maybe",),
            "write --option mixed-micro-batches alone, or --option mixed-micro-batches=false.",
        ),
        (("kay",), "There is no option 'kay'; --option takes allocation, "),
    ],
)
def test_an_option_that_cannot_be_read_is_one_sentence(plan: Plan, words: tuple[str, ...], sentence: str) -> None:
    refused(plan("solve", "tiny-graph", "--planner", "graphpipe", "--option", *words), sentence)


def test_solve_has_at_most_forty_options(plan: Plan) -> None:
    listed = re.findall(r"^│ *(--[a-z-]+)", plan("solve", "--help-all").out, re.MULTILINE)
    assert len(set(listed)) <= 40


def command_named(name: str) -> Any:
    return typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]


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
    assert "tiny-graph: two branches and a join by hand, for teaching" in narrow
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


def test_a_method_that_is_none(plan: Plan) -> None:
    said = plan("formulations", "ip-nobody")
    assert said.code == 2
    names = ", ".join(FORMULATIONS)
    assert said.err == f"Error: There is no formulation named 'ip-nobody'; choose one of {names}.\n"


# ---- conversions ---------------------------------------------------------------------------------------


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    nodes = (pipeplan.Node(1, 1.0, 2.0, transfer_time=0.5), pipeplan.Node(2, 3.0, 4.0))
    path = tmp_path / "two.json"
    pipeplan.save(pipeplan.PlacementProblem(nodes, ((1, 2),), 1, 1, memory_bytes=5.0, name="two"), path)
    return path


def test_there_and_back_again(plan: Plan, instance: Path, tmp_path: Path) -> None:
    published, own = tmp_path / "published.json", tmp_path / "own.json"
    said = plan("convert", instance, "-o", published, "--to", "published")
    assert (said.code, said.err) == (0, f"wrote {published}\n")
    assert said.out.startswith(f"{published}: a placement problem of 2 nodes, ")
    assert said.out.endswith(", in the published format\n")
    assert json.loads(published.read_text())["maxFPGAs"] == 1
    report = plan("convert", published, "-o", own, "--json").json
    assert report["problem"]["hash"] == pipeplan.load(instance).hash == pipeplan.load(own).hash


def test_the_cluster_can_be_changed_on_the_way(plan: Plan, instance: Path, tmp_path: Path) -> None:
    plan("convert", instance, "-o", tmp_path / "more.json", "--devices", 4, "--cpus", 0, "--memory", "1GiB")
    problem = pipeplan.load(tmp_path / "more.json")
    assert (problem.accelerators, problem.cpus, problem.memory_bytes) == (4, 0, 2**30)


def test_conversions_that_cannot_be(plan: Plan, instance: Path, tmp_path: Path) -> None:
    assert plan("convert", instance, "-o", tmp_path, "--to", "own").code == 2
    assert plan("convert", instance, "-o", tmp_path / "x.json", "--to", "onnx").code == 2
    assert plan("convert", instance, "-o", tmp_path / "no" / "x.json").code == 2
    assert plan("convert", instance, "-o", "x.json", "--inference").code == 2


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


def test_bars() -> None:
    assert len({len(bar(value, 4.0)) for value in (0.0, 1.0, 4.0)}) == 1
    assert bar(0.0, 0.0) == bar(0.0, 4.0)


def test_a_listed_command_has_the_words_of_the_real_one() -> None:
    """The help page reads the sources of the commands and imports none of them."""
    from pipeplan.cli.app import COMMANDS, GROUPS, build

    pages = [CliRunner().invoke(build(loaded), ["--help"]).output for loaded in ([], [*COMMANDS, *GROUPS])]
    assert pages[0] == pages[1]
    assert all(name in pages[0] for name in COMMANDS)
