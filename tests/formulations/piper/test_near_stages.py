"""Large lattices: only stages of plans within a limit are listed, and limits rise as proofs ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from oracles.staging import best_stages
from problems.nasty import in_fifteen_digits, nasty, scaled
from problems.stagings import random_staging

from pipeplan.formulations.contract import Refuted
from pipeplan.formulations.piper import formulation, lattice, near
from pipeplan.formulations.piper.formulation import FORMULATION, column_bound
from pipeplan.formulations.piper.near import NearStages
from pipeplan.formulations.piper.stages import StageBook
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Found, Stop
from pipeplan.instances.staging.plan import StagedPlan
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingProblem
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.run.solve import solve

SEMANTICS = ("paper", "reference")
OPTIONS = {"semantics": "paper"}


@pytest.fixture
def no_list(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every lattice is too large to list all its stages; books of other tests are forgotten."""
    monkeypatch.setattr(lattice, "LISTED_SETS", 1)
    caches = (formulation._book, formulation._bound)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def near_stages(problem: StagingProblem, semantics: str = "paper") -> NearStages:
    return StageBook(problem, semantics).near_stages


def pairs(found: lattice.Lattice) -> set[tuple[int, int]]:
    return {(found.sets[i], found.sets[j]) for i, outers in enumerate(found.stages_from) for j in outers}


def stages_of(problem: StagingProblem, plan: StagedPlan) -> set[tuple[int, int]]:
    inner, found = 0, set()
    for stage in reversed(plan.stages):
        outer = inner | sum(1 << problem.index[node] for node in stage.nodes)
        found.add((inner, outer))
        inner = outer
    return found


@pytest.mark.sweeps
@pytest.mark.parametrize("seed", range(6))
def test_compiled_loops_say_what_plain_ones_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_staging(seed, layers=(5, 6))
    plain = near_stages(problem)
    monkeypatch.setattr(near, "COMPILED_FROM", 0)
    machine = near_stages(problem)
    assert plain.plain
    assert not machine.plain
    for limit in (0.5, 1.0, 2.0, 4.0, 8.0, 30.0):
        assert pairs(plain.within(limit)) == pairs(machine.within(limit))


def test_only_what_is_short_enough_in_devices_is_near() -> None:
    """Four layers of time 1 on two devices: within 2 each device takes two, within 3 one may take three."""
    problem = chain_of(1.0, 1.0, 1.0, 1.0)
    stages = near_stages(problem)
    assert not stages.possible(1.9)
    # One stage of all layers on both devices is within 2 as well.
    assert pairs(stages.within(2.0)) == {(0, 0b1100), (0b1100, 0b1111), (0, 0b1111)}
    assert len(pairs(stages.within(3.0))) == 7


def chain_of(*times: float) -> StagingProblem:
    """Layers that take so long, on two devices."""
    layers = tuple(Layer(v, {1: (Configuration("keep", time),)}) for v, time in enumerate(times))
    edges = tuple(Edge(v, v + 1) for v in range(len(layers) - 1))
    return StagingProblem(layers, edges, devices=2, bandwidth=1.0, micro_batches=2)


def test_layers_that_take_no_time_are_within_every_limit() -> None:
    assert len(pairs(near_stages(chain_of(0.0, 0.0)).within(0.0))) == 3
    assert not pairs(near_stages(chain_of(0.0, 1.0)).within(0.0))


# ---- the model made of them ------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_list")
@pytest.mark.parametrize("most", [None, 6, 12])
def test_it_finds_the_best_plan_without_a_list_of_all_stages(
    most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where few stages may be listed, limits rise step by step: the proof is that of the whole model."""
    if most is not None:
        monkeypatch.setattr(near, "MAX_STAGES", most)
    proven = 0
    for seed in range(12):
        problem = random_staging(seed, layers=(4, 6))
        best = best_stages(problem)
        if best is None or near_stages(problem).few_within(best[0] * (1 + 1e-6)) is None:
            continue  # the optimum itself needs more
        result = solve(problem, formulation="mip-piper", limits=SolveOptions(threads=1), warm_start="none")
        assert result.found == Found.OPTIMAL, result.messages
        assert result.objective == pytest.approx(best[0], rel=1e-6)
        proven += 1
    assert proven >= 2


@pytest.mark.usefixtures("no_list")
def test_the_next_cut_off_is_as_far_as_the_model_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = chain_of(1.0, 1.0, 1.0, 1.0)

    def next_cutoff(bound: float | None, cutoff: float | None) -> Any:
        return FORMULATION.next_cutoff(problem, OPTIONS, bound, cutoff, lambda: False)

    assert next_cutoff(1.0, 2.5) == 2.5, "few stages are within it"
    monkeypatch.setattr(near, "MAX_STAGES", 3)
    assert 2.0 <= next_cutoff(1.0, 4.0) < 3.0
    assert 2.0 <= next_cutoff(1.0, None) < 3.0
    assert next_cutoff(1.0, 1.5) == 1.5, "nothing is within it: building refutes it"
    assert isinstance(FORMULATION.build(problem, OPTIONS, native=False, cutoff=1.5), Refuted)


@pytest.mark.usefixtures("no_list")
def test_too_many_stages_cost_the_proof_and_not_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a plan to keep, the error says what to do."""
    problem, value = _loosely_bounded()
    monkeypatch.setattr(near, "MAX_STAGES", 0)
    result = solve(problem, formulation="mip-piper", limits=SolveOptions(threads=1))
    assert result.stop == Stop.MEMORY
    assert result.objective == pytest.approx(value)
    assert result.bound < value
    assert any("more than 0 stages that are fast enough" in message for message in result.messages)
    with pytest.raises(InputError, match="coarsen the graph"):
        solve(problem, formulation="mip-piper", limits=SolveOptions(threads=1), warm_start="none")


@pytest.mark.usefixtures("no_list")
def test_without_time_no_limit_is_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a pass over all pairs of sets: it has to end between two of them."""
    problem = random_staging(1)
    stages, asked = near_stages(problem), 0

    def out_of_time() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    monkeypatch.setattr(NearStages, "few_within", lambda self, limit: None)
    assert stages.next_limit(1.0, 1e9, out_of_time) > 1.0
    assert asked == 3


def _loosely_bounded() -> tuple[StagingProblem, float]:
    """A problem whose optimum shortest paths alone do not prove."""
    for seed in range(60):
        problem = random_staging(seed)
        best = best_stages(problem)
        if best is not None and near_stages(problem).possible(0.9 * best[0]):
            return problem, best[0]
    raise AssertionError("none of these problems has a loose bound")


def test_full_lattices_are_listed_once() -> None:
    book = StageBook(random_staging(1), "paper")
    assert book.lattice(None) is book.lattice(1.0) is book.all_stages


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_without_a_solver_is_none_too_high_in_any_unit(seed: int) -> None:
    problem, semantics = in_fifteen_digits(nasty("staging", seed)), SEMANTICS[seed % 2]
    best = best_stages(problem, semantics)
    bounds = []
    for time, memory in ((0, 0), (-9, 0), (9, 9), (0, -9), (-6, 6)):
        book = StageBook(scaled(problem, time, memory), semantics)
        bounds.append(column_bound(book) / 10.0**time)
        if best is not None:
            limit = best[0] * 10.0**time
            assert bounds[-1] <= best[0] * (1 + 1e-9)
            assert book.near_stages.possible(limit), "a plan is within it"
            kept = book.near_stages.within(limit)
            assert pairs(kept) >= stages_of(problem, best[1])
    assert bounds == pytest.approx([bounds[0]] * len(bounds), rel=1e-6, abs=0)
