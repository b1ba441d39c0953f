"""A method describes itself once: its entry is all that is said of it, and what entries say of each other is true."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pipeplan import UsageError, load_packaged
from pipeplan.formulations.contract import Stage, side_by_side
from pipeplan.formulations.registry import FORMULATIONS, Entry
from pipeplan.planners import exact
from pipeplan.planners.exact import share
from pipeplan.planners.registry import (
    EXACT,
    PLANNERS,
    all_methods,
    cross_check_of,
    default_formulation,
    default_method,
    example_of,
    methods_of,
    quick_planners,
    usual_objective,
)
from pipeplan.planners.run.choose import choose

KINDS = sorted({entry.problem_kind for entry in all_methods()} - {"any"})
METADATA = {field.name for field in fields(Entry)}


@pytest.mark.parametrize("entry", list(all_methods()), ids=lambda entry: entry.name)
def test_a_class_repeats_nothing_of_its_entry(entry: Entry) -> None:
    """A name it may have where one class serves several entries."""
    method = entry.load()
    assert METADATA & set(dir(method)) <= {"name"}
    assert getattr(method, "name", entry.name) == entry.name
    duties = (
        ("check", "contiguity", "portfolio", "lower_bound", "build") if entry.name in FORMULATIONS else ("plan",)
    )
    assert all(callable(getattr(method, duty)) for duty in duties)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_one_default_method_with_an_example(kind: str) -> None:
    (default,) = (entry for entry in all_methods() if entry.problem_kind == kind and entry.default)
    assert default_method(kind) is default
    assert default.example is not None
    formulation = default_formulation(kind)
    assert formulation is None or formulation.problem_kind == kind


@pytest.mark.parametrize("entry", list(all_methods()), ids=lambda entry: entry.name)
def test_every_method_has_an_example_of_its_kind(entry: Entry) -> None:
    example = example_of(entry)
    assert example is not None
    assert entry.problem_kind in (load_packaged(example).kind, "any")


def test_a_kind_without_methods_has_neither_default_nor_check() -> None:
    assert (default_method("cloud"), default_formulation("cloud"), methods_of("cloud")) == (None, None, [])
    assert usual_objective("cloud") is None


def test_what_cannot_be_planned_by_the_default_goes_to_an_exact_method_that_can() -> None:
    found = [default_method(kind, {"types"}) for kind in ("placement", "staging", "chain")]
    assert [entry and entry.name for entry in found] == ["dp", "dp-piper", None]
    assert default_method("placement", {"levels"}) is None, "stagings have levels"


@pytest.mark.parametrize("entry", list(all_methods()), ids=lambda entry: entry.name)
def test_starts_and_checks_are_methods_for_the_same_problems(entry: Entry) -> None:
    quick = [start for asked in entry.starts for start in quick_planners(entry, asked)]
    check = cross_check_of(entry)
    assert {other.problem_kind for other in (*quick, *filter(None, [check]))} <= {entry.problem_kind}
    assert set(entry.start_options) <= {spec.name for start in quick for spec in start.options}
    if check is not None:
        assert check.name != entry.name
        assert check.scope is not None, "it has bounds"
        assert set(check.check_options) <= {spec.name for spec in check.options}


def test_cross_checks_go_both_ways() -> None:
    asked = {
        "dp": "ip-tarnawski", "greedy": None, "equi": "dp-piper", "cp-graphpipe": "graphpipe", "cp-periodic": None,
    }  # fmt: skip
    checks = {name: cross_check_of((PLANNERS | FORMULATIONS)[name]) for name in asked}
    assert {name: check and check.name for name, check in checks.items()} == asked


# ---- the exact planner knows no kind -------------------------------------------------------------------


def test_the_exact_planner_names_no_kind_no_method_and_no_option_of_one_formulation() -> None:
    """Words of the code; what a docstring explains by an example is no knowledge."""
    foreign = {*KINDS, *PLANNERS, *FORMULATIONS, *(spec.name for entry in all_methods() for spec in entry.options)}
    nodes = ast.walk(ast.parse(Path(exact.__file__).read_text("utf-8")))
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert not words & (foreign - {EXACT})


FREE = {"variant": "strong", "non_contiguous": True}
CP, BOTH = Stage("decide", ("cp-sat",), 5.0), Stage("decide", ("highs", "cp-sat"))
OPENING = Stage("decide", ("cp-sat",), 2.0)
LNS = [Stage("search", seconds=seconds, planner="lns", options={"cycles": 10_000}) for seconds in (4.0, 8.0)]
DEVICES = Stage("search", seconds=900.0, planner="device-sets", share=0.8)


@pytest.mark.parametrize(("options", "found", "stages"), [
    ({"variant": "plain", "non_contiguous": True}, True, side_by_side("highs")),
    ({"variant": "strong", "non_contiguous": False}, True, side_by_side("cp-sat")),
    (FREE, False, (CP, BOTH)),
    (FREE, True, (OPENING, LNS[0], DEVICES, CP, LNS[1], BOTH)),
])  # fmt: skip
def test_the_portfolio_of_placements(options: Any, found: bool, stages: tuple[Stage, ...]) -> None:
    formulation = FORMULATIONS["ip-tarnawski"].load()
    assert formulation.portfolio(None, options, found=found) == stages


@pytest.mark.parametrize(("variant", "solver"), [("strong", "cp-sat"), ("plain", "highs")])
def test_other_formulations_run_their_solvers_to_the_end(variant: str, solver: str) -> None:
    formulation = FORMULATIONS["ip-tarnawski-latency"].load()
    assert formulation.portfolio(None, {"variant": variant}, found=True) == side_by_side(solver)


def test_threads_are_shared_and_the_last_solver_has_most() -> None:
    assert share(("highs", "cp-sat"), 8) == {"highs": 1, "cp-sat": 7}
    assert share(("highs", "cp-sat"), 1) == {"highs": 1, "cp-sat": 1}
    assert share(("cp-sat",), 4) == {"cp-sat": 4}


# ---- one name for several kinds ------------------------------------------------------------------------


def test_the_problem_says_which_method_of_a_name_is_meant() -> None:
    """What nobody of that name plans goes to the first, which says so."""
    gpipe = PLANNERS["gpipe"]
    found = {kind: gpipe.for_kind(kind) for kind in ("chain", "schedule", "staging")}
    assert [entry.problem_kind for entry in found.values()] == ["chain", "schedule", "chain"]
    assert {entry.name for entry in found.values()} == {"gpipe"}
    assert {*gpipe.declared} == {"batches_per_flush", "objective"}
    assert [entry for entry in all_methods() if entry.name == "gpipe"] == [*gpipe.all_kinds]
    with pytest.raises(UsageError, match="plans problems of kind 'chain', but this one is of kind 'staging'"):
        choose(load_packaged("tiny-stages"), None, "gpipe", "auto", {})


def test_names_of_one_kind_are_told_apart() -> None:
    named = [(entry.name, entry.problem_kind) for entry in all_methods()]
    assert len(named) == len(set(named))
