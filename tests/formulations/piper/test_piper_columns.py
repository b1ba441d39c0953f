"""Models by columns: published numbers of sets, what is refused or refuted at once, and bounds of columns alone."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.staging import best_stages
from problems.nasty import in_fifteen_digits, nasty, scaled

import pipeplan
from pipeplan import Configuration, Edge, Layer, PlannedStage, StagedPlan, StagingProblem
from pipeplan.formulations.contract import BuiltModel, Refuted
from pipeplan.formulations.piper import lattice
from pipeplan.formulations.piper.formulation import FORMULATION, column_bound
from pipeplan.formulations.piper.stages import Option, StageBook, enclosure, select
from pipeplan.instances.base.errors import InputError, TooLargeError
from pipeplan.instances.staging.kind_functions import staging_from_published

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


# ---- the contract ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem",
    [chain(3, memory_bytes=0.5), StagingProblem((Layer("a", {4: (Configuration("x", 1.0),)}),), (), 2, 1.0, 1)],
    ids=["too little memory", "a layer that needs more devices"],
)
def test_what_cannot_run_is_refuted_without_a_solver(problem: StagingProblem) -> None:
    assert isinstance(FORMULATION.build(problem, PAPER, native=False), Refuted)
    assert math.isfinite(FORMULATION.lower_bound(problem, PAPER))


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


# ---- piper knapsack ----------------------------------------------------------------------------------------
# The exact knapsack against enumeration: any number of options, equal and different layers, tight and loose limits.


AMOUNTS = st.integers(0, 12)
LAYERS = st.lists(
    st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=4).map(
        lambda pairs: [Option(float(cost), memory, n) for n, (cost, memory) in enumerate(pairs)]
    ),
    min_size=1,
    max_size=5,
)


def cheapest(layers: list[list[Option]], limit: float | None) -> float | None:
    fitting = [
        sum(option.cost for option in choice)
        for choice in itertools.product(*layers)
        if limit is None or sum(option.memory for option in choice) <= limit
    ]
    return min(fitting, default=None)


@given(LAYERS, st.one_of(st.none(), st.integers(0, 40)))
def test_it_is_the_cheapest_choice_that_fits(layers: list[list[Option]], limit: int | None) -> None:
    """The enclosure holds its cost, and knows what cannot fit."""
    found, bounds, expected = select(layers, limit), enclosure(layers, limit), cheapest(layers, limit)
    assert (None if found is None else found.cost) == expected
    assert (bounds is None) == (expected is None)
    if found is not None and bounds is not None and expected is not None:
        assert bounds[0] <= expected <= bounds[1]
        chosen = [options[number] for options, number in zip(layers, found.numbers, strict=True)]
        assert sum(option.cost for option in chosen) == found.cost
        assert limit is None or sum(option.memory for option in chosen) <= limit


def test_forty_equal_layers_are_a_matter_of_how_many_not_of_which() -> None:
    """17 of 40 have room for the fast option; all 2^40 choices would never end."""
    layers = [[Option(1.0, 10, 0), Option(3.0, 4, 1)]] * 40
    found = select(layers, 40 * 4 + 17 * 6 + 5)
    assert found.cost == 17 * 1.0 + 23 * 3.0


def test_forbidden_options_do_not_blur_the_others() -> None:
    """The leanest options cost 1e16: bounds that start from them would have lost what the others cost."""
    for seed in range(1000):
        rng = random.Random(seed)
        layers = [
            [
                Option(round(rng.uniform(0, 5), 2), rng.randint(4, 9), 0),
                Option(round(rng.uniform(0, 5), 2), rng.randint(2, 6), 1),
                Option(1e16, rng.randint(0, 2), 2),
            ]
            for _ in range(rng.randint(2, 5))
        ]
        limit = rng.randint(0, 30)
        least, found, bounds = cheapest(layers, limit), select(layers, limit), enclosure(layers, limit)
        assert (found is None) == (bounds is None) == (least is None)
        if found is not None and bounds is not None and least is not None:
            assert found.cost == pytest.approx(least, rel=1e-12), seed
            assert bounds[0] <= least * (1 + 1e-12) <= bounds[1] * (1 + 1e-11), seed
