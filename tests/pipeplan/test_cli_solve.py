"""`plan solve` in process: what it prints, saves and returns, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_line import Plan, done, has, refused
from problems import malformed
from referencing import Registry, Resource

import pipeplan
from pipeplan import PlacementProblem, Stop
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


def test_a_result_for_people(plan: Plan, instance: Path) -> None:
    said = done(plan("solve", instance, "-v"))
    assert all(len(line) <= 80 for line in said.out.splitlines())
    for word in ("row", "ip-tarnawski", "optimal", "gap", "acc0", "acc1", "6.25"):
        assert word in said.out
    assert said.out.splitlines()[-1] == "verified: yes, recomputed max-load 6.25 s"


def test_the_example_that_nobody_named_is_named_by_the_answer(plan: Plan) -> None:
    said = plan("solve", "--planner", "one-device").out
    assert said.startswith("bert-large-training on 6 accelerators: ")


def test_the_words_of_an_instance_and_its_model_are_explained(plan: Plan) -> None:
    said = " ".join(
        plan("solve", "tiny-chain", "--formulation", "ip-tarnawski", "--memory", "none", "-v").out.split()
    )
    has(said, "3 accelerators without a memory limit, 0 CPUs", "(nodes that must share a device are one)")


def test_the_answer_comes_first_and_the_rest_on_demand(plan: Plan, instance: Path) -> None:
    said, more = plan("solve", instance).out, plan("solve", instance, "--verbose").out
    assert said.startswith("6.25 s per micro-batch: acc0 (nodes op1-op3) limits the pipeline")
    has(said, "an even split (", "optimal, proven")
    assert ["acc1", "op4"] in [line.split()[:2] for line in said.splitlines()]
    for heading in ("instance", "model", "run", "  options", "  seconds", "  proof"):
        assert any(line.startswith(heading) for line in more.splitlines()), heading
        assert not any(line.startswith(heading) for line in said.splitlines()), heading


def test_optimal_is_not_printed_without_a_proof(plan: Plan, instance: Path) -> None:
    said = done(plan("solve", instance, "--planner", "greedy"))
    assert "optimal" not in said.out
    assert "verified: yes" in said.out


def test_own_options_reach_their_method(plan: Plan, instance: Path) -> None:
    options = plan("solve", instance, "--non-contiguous", "--variant", "plain", "--solver", "highs", "--json").json[
        "options"
    ]
    assert (options["non_contiguous"], options["variant"], options["contiguity"]) == (True, "plain", "none")


def test_a_plan_is_a_warm_start(plan: Plan, instance: Path, tmp_path: Path) -> None:
    plan("solve", instance, "--planner", "greedy", "--output", tmp_path / "start.json")
    result = plan("solve", instance, "--warm-start", tmp_path / "start.json", "--json").json
    assert result["warm_start"]["outcome"] == "accepted"
    assert result["warm_start"]["source"] == "user"
    assert result["objective"] == pytest.approx(OPTIMUM)


@pytest.mark.parametrize(
    "words", [("--time-limit", "abc"), ("--devices", "x"), ("--planner",), ("more", "and", "more")]
)
def test_mistakes_in_the_command_are_json_lines_as_well(plan: Plan, words: tuple[str, ...]) -> None:
    said = plan("solve", "tiny-chain", "--progress=json", *words)
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert set(json.loads(line)) == {"error"}


def test_progress_as_json_lines_on_stderr(plan: Plan, instance: Path) -> None:
    said = plan("solve", instance, "--progress", "json", "--json")
    records = [json.loads(line) for line in said.err.splitlines()]
    assert records
    assert records[-1]["incumbent"] == pytest.approx(said.json["objective"])


def test_a_native_option_reaches_the_solver_and_a_misspelt_one_is_an_error(plan: Plan, instance: Path) -> None:
    fine = plan("solve", instance, "--solver", "highs", "--native", "mip_heuristic_effort=0.1", "--json")
    assert (fine.code, fine.json["found"]) == (0, "optimal")
    said = plan("solve", instance, "--solver", "highs", "--native", "mip_heuristic_effrt=0.1", "--json")
    refused(said, "mip_heuristic_effrt")


def test_the_solvers_log_goes_to_a_file(plan: Plan, instance: Path, tmp_path: Path) -> None:
    log = tmp_path / "highs.txt"
    assert plan("solve", instance, "--solver", "highs", "--warm-start", "none", "--log", log, "--json").code == 0
    assert "HiGHS" in log.read_text()


# ---- exit codes ----------------------------------------------------------------------------------------


def test_no_time_no_plan(plan: Plan, instance: Path) -> None:
    said = plan("solve", instance, "--time-limit", 0, "--json")
    validate(said.json)
    assert (said.code, said.json["stop"], said.json["found"], said.json["plan"]) == (1, "time", "nothing", None)


def test_infeasible(plan: Plan, tmp_path: Path) -> None:
    """Two nodes of 6 bytes fit two devices of 10, three do not."""
    nodes = tuple(pipeplan.Node(i, 1.0, 1.0, size_bytes=6.0) for i in range(3))
    pipeplan.save(PlacementProblem(nodes, (), 2, 0, memory_bytes=10.0), tmp_path / "full.json")
    said = plan("solve", tmp_path / "full.json", "--json")
    assert (said.code, said.json["stop"], said.json["found"]) == (1, "infeasible", "nothing")


def test_a_plan_that_the_referee_rejects(plan: Plan, instance: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeplan.formulations.registry import Entry
    from pipeplan.planners.contract import Outcome, Request

    class Wrong:
        def plan(self, request: Request) -> Outcome:
            return Outcome(Stop.COMPLETED, plan=pipeplan.PlacementPlan(()))

    monkeypatch.setattr(Entry, "load", lambda self: Wrong())
    said = plan("solve", instance, "--planner", "greedy", "--json")
    assert (said.code, said.json["found"], said.json["verified"]) == (3, "rejected", False)
    assert said.json["violations"]
    people = plan("solve", instance, "--planner", "greedy")
    assert people.code == 3
    assert "verified: no" in people.out


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
