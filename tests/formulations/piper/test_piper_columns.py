"""What stands in the models: suffix sets, stages between them, columns and their ranges, numbered equations."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from oracles.staging import best_stages
from problems.nasty import in_fifteen_digits, nasty, scaled

import pipeplan
from pipeplan.formulations.contract import BuiltModel, Refuted
from pipeplan.formulations.piper import lattice
from pipeplan.formulations.piper.candidates import Column, find_candidates, undominated
from pipeplan.formulations.piper.columns import LARGEST_LOAD, load_unit
from pipeplan.formulations.piper.formulation import FORMULATION, column_bound
from pipeplan.formulations.piper.stages import StageBook
from pipeplan.instances.base.errors import InputError, TooLargeError
from pipeplan.instances.staging.kind_functions import staging_from_published
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingProblem
from pipeplan.planners.backends.model import compile_pyomo

PAPER = {"semantics": "paper"}


def chain(count: int, **changes: Any) -> StagingProblem:
    """Layers of one unit of time in a row, with a slower way that needs no memory for batches in flight."""
    ways = (
        Configuration("keep", 1.0, memory_per_batch=1.0, memory_fixed=1.0),
        Configuration("again", 1.5, memory_fixed=1.0),
    )
    problem = StagingProblem(
        layers=tuple(Layer(v, {1: ways}) for v in range(count)),
        edges=tuple(Edge(v, v + 1) for v in range(count - 1)),
        devices=4,
        bandwidth=1.0,
        micro_batches=8,
    )
    return problem.replace(**changes)


def published(workloads: Path, name: str) -> StagingProblem:
    return staging_from_published(json.loads((workloads / "piper" / f"{name}.json").read_text()))


def every_stage(problem: StagingProblem) -> lattice.Lattice:
    return lattice.build_lattice(problem, lattice.suffix_sets(problem), lambda members: True)


# ---- suffix sets -----------------------------------------------------------------------------------------


@pytest.mark.workloads
@pytest.mark.parametrize(("name", "sets", "stages"), [("bert32a100", 43, 890), ("resnet", 242, 28_729)])
def test_published_graphs_have_the_published_numbers_of_sets(
    workloads: Path, name: str, sets: int, stages: int
) -> None:
    found = every_stage(published(workloads, name))
    assert (len(found.sets), sum(map(len, found.stages_from))) == (sets, stages)


def test_a_graph_with_too_many_sets_is_refused_with_a_remedy() -> None:
    """Twenty layers side by side have 2^20 suffix sets."""
    with pytest.raises(InputError, match=r"more than 5000 sets.*coarsen"):
        FORMULATION.build(chain(20, edges=()), PAPER, native=False)


def test_of_too_many_stages_no_list_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice, "MAX_STAGES", 9)
    with pytest.raises(TooLargeError, match="more than 9 stages"):
        every_stage(chain(4))
    result = pipeplan.solve(chain(5, replication=False), formulation="mip-piper")
    assert (result.stop, result.objective) == (pipeplan.Stop.MEMORY, 2.0), "the plan of the dynamic program stays"
    monkeypatch.setattr(lattice, "MAX_STAGES", 10)
    assert sum(map(len, every_stage(chain(4)).stages_from)) == 10


# ---- columns ---------------------------------------------------------------------------------------------


def test_ranges_end_where_more_in_flight_costs_more() -> None:
    """Room for 4: a layer kept takes y + 1 with y in flight, otherwise 1; y is what is carried plus 1."""
    book = StageBook(chain(2, memory_bytes=4.0, devices=6), "paper")
    columns = find_candidates(book, None, 0.0).columns
    of_first = sorted((c.low, c.high, c.cost) for c in columns if c.members == 0b01 and c.d == 1)
    assert of_first == [(1, 2, 1.0), (3, 5, 1.5)]
    of_last = [(c.low, c.high, c.cost) for c in columns if c.members == 0b10 and c.d == 1]
    assert of_last == [(0, 0, 1.0)], "nothing is carried into the last stage"


def test_a_column_is_dropped_for_another_that_can_always_stand_in() -> None:
    """No worse in cost, devices, replicas and range; where the degrees have an exact sum, with as many replicas."""
    base = Column(0, 1, members=1, t=2, d=2, low=0, high=4, cost=3.0)
    worse = [replace(base, t=3), replace(base, high=3), replace(base, cost=4.0)]
    faster, longer = replace(base, t=1, d=4, cost=2.0), replace(base, high=5, cost=4.0)
    assert undominated([*worse, faster, base, longer]) == [faster, base, longer]
    # As many devices but fewer replicas: earlier stages need less memory.
    fewer = replace(base, t=4, d=1)
    assert undominated([base, fewer]) == [fewer]


def test_a_cut_off_drops_columns_and_what_they_leave_no_room_for() -> None:
    """Four layers of time 1 on four devices: below 2 no stage has two layers on one device."""
    book = StageBook(chain(4), "paper")
    everything, below = (find_candidates(book, cutoff, 0.0).columns for cutoff in (None, 1.9))
    assert 0 < len(below) < len(everything)
    assert all(bin(c.members).count("1") <= c.d * 1.9 for c in below)
    assert not find_candidates(book, 0.9, 0.0).columns


# ---- the contract ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem",
    [
        chain(3, memory_bytes=0.5),
        StagingProblem((Layer("a", {4: (Configuration("x", 1.0),)}),), (), 2, 1.0, 1),
    ],
    ids=["too little memory", "a layer that needs more devices"],
)
def test_what_cannot_run_is_refuted_without_a_solver(problem: StagingProblem) -> None:
    assert isinstance(FORMULATION.build(problem, PAPER, native=False), Refuted)
    assert math.isfinite(FORMULATION.lower_bound(problem, PAPER))


def test_a_cut_off_below_the_bound_is_refuted_at_once() -> None:
    problem = chain(4)
    bound = FORMULATION.lower_bound(problem, PAPER)
    assert bound == pytest.approx(1.0, rel=1e-3)
    assert isinstance(FORMULATION.build(problem, PAPER, native=False, cutoff=bound * 0.99), Refuted)


def test_a_plan_of_other_layers_is_no_start() -> None:
    built = FORMULATION.build(chain(2), PAPER, native=False)
    assert isinstance(built, BuiltModel)
    assert built.encode(StagedPlan((PlannedStage((0, 7), 1, 1, {0: "keep", 7: "keep"}),))) is None


# ---- the published network -------------------------------------------------------------------------------


@pytest.mark.at_once(1)
@pytest.mark.workloads
@pytest.mark.parametrize(
    ("devices", "micro_batches", "gibibytes", "optimum"),
    [(8, 8, 8, 0.16585575000000002), (8, 4, 8, 0.22465724999999998), (32, 32, 8, 0.044554714003086096)],
)
def test_bert_is_proven_within_a_thousandth_by_the_columns_alone(
    workloads: Path, devices: int, micro_batches: int, gibibytes: int, optimum: float
) -> None:
    """Plans of the published value are left, and none that is a thousandth better."""
    problem = published(workloads, "bert32a100").replace(
        devices=devices, micro_batches=micro_batches, memory_bytes=gibibytes * 2.0**30, bandwidth=25 * 2.0**30
    )
    options = {"semantics": "reference"}
    bound = FORMULATION.lower_bound(problem, options)
    assert 0.999 * optimum < bound <= optimum
    assert isinstance(FORMULATION.build(problem, options, native=False, cutoff=0.999 * optimum), Refuted)
    assert isinstance(FORMULATION.build(problem, options, native=False, cutoff=optimum), BuiltModel)


def test_loads_are_counted_in_a_unit_that_keeps_their_numbers_small() -> None:
    assert load_unit(3.0, 4.0) == 3.0
    assert load_unit(3.0, 3.0 * LARGEST_LOAD) == 3.0 * LARGEST_LOAD
    assert load_unit(0.0, 7.0) == 7.0
    assert load_unit(0.0, 0.0) == 1.0
    layers = tuple(Layer(v, {1: (Configuration("x", 1e16), Configuration("y", 2.5))}) for v in range(3))
    problem = StagingProblem(layers, (Edge(0, 1, 1e12),), 2, 1.0, 2, memory_bytes=1.0)
    model = FORMULATION.build(problem, {"semantics": "paper"}, native=False)
    assert isinstance(model, BuiltModel)
    matrix = compile_pyomo(model.model)
    assert abs(matrix.coefficients).max() <= 4 * LARGEST_LOAD


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_without_a_solver_is_none_too_high_in_any_unit(seed: int) -> None:
    problem, semantics = in_fifteen_digits(nasty("staging", seed)), ("paper", "reference")[seed % 2]
    best = best_stages(problem, semantics)
    bounds = []
    for time, memory in ((0, 0), (-9, 0), (9, 9), (0, -9), (-6, 6)):
        book = StageBook(scaled(problem, time, memory), semantics)
        bounds.append(column_bound(book) / 10.0**time)
        if best is not None:
            assert bounds[-1] <= best[0] * (1 + 1e-9)
    assert bounds == pytest.approx([bounds[0]] * len(bounds), rel=1e-6, abs=0)
