"""`plan solve` in process: what it prints, saves and returns, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_line import Plan, done, has, in_one_line, refused
from problems import malformed
from referencing import Registry, Resource

import pipeplan
from pipeplan import PlacementProblem
from pipeplan.instances.schemas import NAMES, read_schema


def validate(result: object) -> None:
    """Against the schema that is shipped."""
    registry: Registry[Any] = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in map(read_schema, NAMES)
    )
    jsonschema.Draft202012Validator(read_schema("result-1"), registry=registry).validate(result)


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """Four operators in a row on two devices: 1+2 | 3+4 costs 7 + transfers, 1+2+3 | 4 costs 6 + transfers."""
    nodes = [pipeplan.Node(f"op{i}", float(i), 10.0 * i, transfer_time=0.25 if i < 4 else 0.0) for i in range(1, 5)]
    edges = [("op1", "op2"), ("op2", "op3"), ("op3", "op4")]
    path = tmp_path / "row.json"
    pipeplan.save(PlacementProblem(tuple(nodes), tuple(edges), accelerators=2, cpus=0, name="row"), path)
    return path


OPTIMUM = 6.25


# ---- what comes back -----------------------------------------------------------------------------------


def test_a_result_for_machines(plan: Plan, instance: Path, tmp_path: Path) -> None:
    said = plan("solve", instance, "--json", "--output", tmp_path / "out.json")
    result = said.json
    assert (said.code, said.err) == (0, f"wrote {tmp_path / 'out.json'}\n")
    validate(result)
    assert (result["stop"], result["found"], result["objective"]) == ("proven", "optimal", pytest.approx(OPTIMUM))
    assert (result["planner"], result["formulation"], result["verified"]) == ("exact", "ip-tarnawski", True)
    assert json.loads((tmp_path / "out.json").read_text()) == result


def test_the_example_that_nobody_named_is_named_by_the_answer(plan: Plan) -> None:
    said = plan("solve", "--planner", "one-device").out
    assert said.startswith("bert-large-training on 6 accelerators: ")


def test_the_answer_comes_first_and_the_rest_on_demand(plan: Plan, instance: Path) -> None:
    said, more = plan("solve", instance).out, plan("solve", instance, "--verbose").out
    assert said.startswith("6.25 s per micro-batch: acc0 (nodes op1-op3) limits the pipeline")
    has(in_one_line(said), "An even split (", "Proven optimal")
    assert ["acc1", "op4"] in [line.split()[:2] for line in said.splitlines()]
    for heading in ("instance", "model", "run", "  options", "  seconds", "  proof"):
        assert any(line.startswith(heading) for line in more.splitlines()), heading
        assert not any(line.startswith(heading) for line in said.splitlines()), heading


@pytest.mark.parametrize(
    "words", [("--time-limit", "abc"), ("--devices", "x"), ("--planner",), ("more", "and", "more")]
)
def test_mistakes_in_the_command_are_json_lines_as_well(plan: Plan, words: tuple[str, ...]) -> None:
    said = plan("solve", "tiny-chain", "--progress=json", *words)
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert set(json.loads(line)) == {"error"}


def test_a_native_option_reaches_the_solver_and_a_misspelt_one_is_an_error(plan: Plan, instance: Path) -> None:
    fine = plan("solve", instance, "--solver", "highs", "--native", "mip_heuristic_effort=0.1", "--json")
    assert (fine.code, fine.json["found"]) == (0, "optimal")
    said = plan("solve", instance, "--solver", "highs", "--native", "mip_heuristic_effrt=0.1", "--json")
    refused(said, "mip_heuristic_effrt")


# ---- exit codes ----------------------------------------------------------------------------------------


def test_no_time_no_plan(plan: Plan, instance: Path) -> None:
    said = plan("solve", instance, "--time-limit", 0, "--json")
    validate(said.json)
    assert (said.code, said.json["stop"], said.json["found"], said.json["plan"]) == (1, "time", "nothing", None)


# ---- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", malformed.MALFORMED, ids=lambda case: case.name)
def test_malformed_files(plan: Plan, tmp_path: Path, case: malformed.Malformed) -> None:
    """File, field and remedy in one sentence; the same table that the readers are tested on."""
    path = malformed.write(case, tmp_path)
    extra = malformed.PROFILE_ARGUMENTS if case.is_profile else ()
    refused(plan("solve", path, *extra), path.name, case.field, case.remedy)


def test_text_from_files_is_neither_markup_nor_an_escape_sequence(plan: Plan, tmp_path: Path) -> None:
    nodes = (pipeplan.Node("[red]a[/red]\x1b[31m", 1.0, 1.0),)
    path = tmp_path / "odd.json"
    pipeplan.save(PlacementProblem(nodes, (), 1, 0, name="[bold]odd[/]\x1b]0;title\x07\n"), path)
    said = done(plan("solve", path, "--planner", "one-device", "-v"))
    assert "[bold]odd[/]" in said.out
    assert "\x1b" not in said.out + said.err
    assert "\x07" not in said.out


def test_errors_of_ours_are_called_so(plan: Plan, instance: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeplan.cli import solve

    def fail(*arguments: object, **shown: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(solve, "show_result", fail)
    said = plan("solve", instance, "--planner", "one-device")
    assert said.code == 70
    assert "internal error (RuntimeError: a mistake)" in said.err
    assert "Traceback" not in said.err
    monkeypatch.setenv("PIPEPLAN_DEBUG", "1")
    assert "Traceback" in plan("solve", instance, "--planner", "one-device").err
