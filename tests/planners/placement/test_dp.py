"""The dynamic program over ideals equals brute force by both of its ways, on replicas, levels and types too, at the
edges of arithmetic (memory to the last digit, costs that mean "forbidden"), and says what it knows of too large
problems."""

from __future__ import annotations

import math
import random
import sys
from dataclasses import replace
from typing import Any

import pytest
import random_placements
from oracles.extended_placement import best_value, tiny_types
from problems.nasty import nasty
from problems.placements import limited_placement, optimum, random_placement

from pipeplan import Found, Progress, Result, SolveOptions, StartOutcome, Stop, solve
from pipeplan.instances.placement.problem import AcceleratorType, Node, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.planners.placement import dp
from pipeplan.planners.placement.ideals import Lattice, all_ideals, build

pytestmark = pytest.mark.xdist_group("dp")  # one worker compiles

CASES = range(300)
"""Seeds of the problems that are held against brute force."""


@pytest.fixture(params=["dense", "pruned"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to solve a small lattice; the pruned one is compiled, however small it is."""
    if request.param == "pruned":
        monkeypatch.setattr(dp, "SMALL_IDEALS", 0)
    return str(request.param)


@pytest.fixture
def pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp, "SMALL_IDEALS", 0)


def plan(problem: PlacementProblem, limits: dict[str, Any] | None = None, **options: Any) -> Result:
    return solve(problem, planner="dp", options=options, limits=SolveOptions(**{"threads": 1, **(limits or {})}))


def blocks(nodes: int, **facts: Any) -> PlacementProblem:
    """A block of four branches of nine nodes, with nodes before and behind."""
    return random_placements.blocks(nodes=nodes, **{"branches": 4, "length": 9, **facts})


def check(problem: PlacementProblem, best: float | None, objective: str = "max-load") -> bool:
    """Proven, and equal to the best of all plans; was there any?"""
    result = plan(problem, objective=objective)
    if best is None:
        assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING), result.messages
        return False
    assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
    assert (result.objective, result.bound) == (pytest.approx(best, rel=1e-9, abs=1e-12),) * 2
    assert result.plan is not None
    assert not verify(problem, result.plan, contiguity="chain")
    return True


# ---- against all plans ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("seeds", [CASES[start::10] for start in range(10)], ids=lambda seeds: f"{seeds[0]} mod 10")
def test_equals_brute_force(seeds: range) -> None:
    for seed in seeds:
        problem = limited_placement(seed)
        check(problem, optimum(problem))


@pytest.mark.parametrize(
    "seeds", [range(start, 240, 8) for start in range(8)], ids=lambda seeds: f"{seeds[0]} mod 8"
)
def test_equals_brute_force_at_the_edges(seeds: range, way: str) -> None:
    for seed in seeds:
        problem = nasty("placement", seed)
        value, rounded = optimum(problem), way == "pruned" and not problem.whole_sizes.exact
        result = plan(problem) if rounded else None
        if result is not None and result.stop in (Stop.COMPLETED, Stop.INFEASIBLE):
            # Rounded sizes let a plan through; the bound holds nevertheless.
            assert value is None or any("too many digits" in message for message in result.messages)
            assert value is None or (result.bound or math.inf) <= value * (1 + 1e-9)
            assert value is None or result.objective is None or result.objective >= value * (1 - 1e-9)
        elif value is not None or not rounded:
            check(problem, value)


def with_forbidden(problem: PlacementProblem, seed: int) -> PlacementProblem:
    """Some costs become numbers that mean "forbidden"."""
    rng = random.Random(seed)

    def cost(value: Any) -> Any:
        return rng.choice((1e7, 1e12, 1e20)) if value and rng.random() < 0.15 else value

    costs = ("accelerator_time", "cpu_time", "transfer_time")
    return problem.replace(
        nodes=tuple(
            replace(
                node,
                **{name: cost(getattr(node, name)) for name in costs},
                other_times=tuple(map(cost, node.other_times)),
            )
            for node in problem.nodes
        )
    )


@pytest.mark.at_once(4)
@pytest.mark.parametrize(("objective", "small", "forbidden", "least"), [
    ("max-load", True, False, 30), ("gpipe", True, False, 15), ("max-load", False, False, 30),
    ("max-load", True, True, 1), ("gpipe", True, True, 1), ("max-load", False, True, 20),
])  # fmt: skip
def test_equals_the_best_of_all_plans(
    objective: str, small: bool, forbidden: bool, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several types of accelerators: both programs, and costs that mean forbidden."""
    if not small:
        monkeypatch.setattr(dp, "SMALL_IDEALS", 0)
    seeds = range(100, 140) if forbidden else range(30 if objective == "gpipe" else 60)
    problems = [with_forbidden(tiny_types(seed), seed) if forbidden else tiny_types(seed) for seed in seeds]
    assert sum(check(problem, best_value(problem, objective), objective) for problem in problems) >= least


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_integer_program_on_medium_problems(seed: int) -> None:
    rng = random.Random(seed)
    name = rng.choice(["series-parallel", "layered", "dnn", "heterogeneous", "blocks"])
    arguments: dict[str, Any] = {"nodes": rng.randint(16, 30), "accelerators": rng.randint(2, 4), "seed": seed}
    arguments |= {} if name == "dnn" else {"training": seed % 3 == 0}
    arguments |= {"length": 3} if name == "blocks" else {}
    problem = random_placements.FAMILIES[name](**arguments)
    if seed % 2:
        size = sum(node.size_bytes for node in problem.nodes)
        problem = problem.replace(memory_bytes=size / problem.accelerators * 1.1, cpus=1)
    result = solve(problem, formulation="ip-tarnawski", limits=SolveOptions(threads=1), cross_check=True)
    assert (result.stop, result.contradicted) == (Stop.PROVEN, False), result.messages
    assert result.cross_check["found"] == "optimal"
    assert result.cross_check["objective"] == pytest.approx(result.objective, rel=2e-6)


# ---- costs that mean "forbidden" -----------------------------------------------------------------------


def chain(*times: tuple[float, float], supported: tuple[bool, ...] = ()) -> PlacementProblem:
    """Nodes with times on accelerators and CPUs, one after the other, on two accelerators and a CPU."""
    flags = supported or (True,) * len(times)
    nodes = tuple(Node(i, *pair, supported=ok) for i, (pair, ok) in enumerate(zip(times, flags, strict=True)))
    return PlacementProblem(nodes, tuple((i, i + 1) for i in range(len(times) - 1)), 2, 1)


def barred(forbidden: float) -> PlacementProblem:
    return chain((2.0, forbidden), (1.3, 1.0), (2.7, 1.5), (1.1, forbidden))


def unsupported(forbidden: float) -> PlacementProblem:
    """The time of a node that is not supported means nothing."""
    return chain((forbidden, 1.0), (1.3, 100.0), (2.7, 100.0), (1.1, 100.0), supported=(False, True, True, True))


TOGETHER = PlacementProblem(
    (Node(0, 1.3, 50.0, transfer_time=1e16), Node(1, 1.1, 50.0, transfer_time=0.1), Node(2, 2.0, 50.0)),
    *(((0, 1), (1, 2)), 2, 0),
)
TYPED = (Node(0, 1e15, 1.0, other_times=(2.0,)), Node(1, 1.5, 1.0, other_times=(1e15,)))


def over(size_bytes: int, memory_bytes: int = 2**34) -> PlacementProblem:
    """Two nodes that exceed the memory by so much."""
    nodes = (Node("a", 1.0, 9.0, 2**33, 5.0), Node("b", 1.0, 9.0, 2**33 + size_bytes))
    return PlacementProblem(nodes, (("a", "b"),), 2, 0, memory_bytes)


TENTHS = tuple(Node(i, 1.0, 100.0, size, color=7) for i, size in enumerate((0.1, 0.2)))
"""A class: the sum of floats is above 0.3, the sum of decimals is not."""
BY_HAND = {
    **{f"a time of {size:g}": (barred(size), 2.5) for size in (1e12, 1e6, 1e9, 1e16, 1e30, 1e100)},
    **{f"a time of {size:g} that means nothing": (unsupported(size), 3.8) for size in (1e12, 1e30)},
    "a transfer that means together": (TOGETHER, 2.5),
    "nothing else is possible": (chain((1, 1e12), (1, 1e12), (2, 0.5), supported=(False, False, True)), 2e12),
    "on another type": (PlacementProblem(TYPED, ((0, 1),), 1, 0, other_types=(AcceleratorType("old", 1),)), 2.0),
    "a value of nothing next to costs": (chain((0.0, 1.3), (1.7, 0.0), (0.0, 1e9)), 0.0),
    **{f"{size} bytes too much": (over(size), 6.0) for size in (1, 17, 1000)},
    "room for these bytes": (over(17, 2**34 + 17), 2.0),
    "tenths": (PlacementProblem(TENTHS, (), 1, 1, 0.3), 2.0),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", BY_HAND)
def test_forbidding_costs_and_full_memories_cost_no_digit(name: str) -> None:
    """Differences of sums with 1e16 in them do not see a second: 3.8 used to be called optimal for 2.5."""
    problem, value = BY_HAND[name]
    result = plan(problem)
    assert (result.stop, result.objective) == (Stop.PROVEN, pytest.approx(value)), result.messages


# ---- memory ----------------------------------------------------------------------------------------------


SIZES = (0.12345678901234567, 98765.43210987654, 33333.333333333336)
SEVENTEEN_DIGITS = PlacementProblem(
    tuple(Node(i, 1.0, 9.0, size, transfer_time=0.5 * (i < 2)) for i, size in enumerate(SIZES)),
    *(((0, 1), (1, 2)), 2, 1, math.nextafter(SIZES[0] + SIZES[1], 0)),
)


def test_a_plan_that_exceeds_the_memory_by_a_hair_is_replaced_and_its_bound_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rounded sizes of the pruned program let a plan through; the plan that is offered instead is no optimum."""
    truth = optimum(SEVENTEEN_DIGITS)
    assert not SEVENTEEN_DIGITS.whole_sizes.exact
    check(SEVENTEEN_DIGITS, truth)
    monkeypatch.setattr(dp, "SMALL_IDEALS", 0)
    result = plan(SEVENTEEN_DIGITS)
    assert result.plan is not None
    assert not verify(SEVENTEEN_DIGITS, result.plan, contiguity="chain")
    assert result.objective == evaluate(SEVENTEEN_DIGITS, result.plan).max_load
    assert (result.stop, result.objective) == (Stop.COMPLETED, truth)
    assert (result.bound or math.inf) < truth
    assert any("too many digits" in message for message in result.messages)


# ---- large problems and limits ---------------------------------------------------------------------------


@pytest.mark.usefixtures("pruned")
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_share_the_work_and_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeplan.planners.placement.dp.PARALLEL_FROM", 0)
    result = plan(blocks(60, branches=3, length=7, accelerators=5, seed=3), {"threads": threads})
    assert (result.stop, result.objective) == (Stop.PROVEN, pytest.approx(38.141, abs=1e-9))


def test_a_small_problem_needs_no_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert plan(random_placements.series_parallel(nodes=30, accelerators=4, seed=1)).stop == Stop.PROVEN


def test_too_many_ideals_end_in_a_plan_with_its_gap() -> None:
    """Ten thousand ideals and a thousand allowed, by the option or by memory: the best of some, and it says so."""
    problem = blocks(38, accelerators=4)
    result, best = plan(problem, max_ideals=1000), plan(problem, {"memory_limit_bytes": 10**8})
    assert (result.stop, result.found, result.verified) == (Stop.MEMORY, Found.FEASIBLE, True)
    assert 0 < (result.gap or 0.0) < 0.1
    assert "give --option max-ideals" in result.messages[0]
    assert "restricted to" in result.messages[1]
    assert best.stop == Stop.PROVEN
    assert (result.bound or math.inf) <= (best.objective or 0.0) <= (result.objective or 0.0)
    assert plan(problem, {"memory_limit_bytes": 10**6}).stop == Stop.MEMORY


def test_a_gap_that_is_asked_for_ends_the_run_and_bounds_the_optimum() -> None:
    problem = blocks(80, accelerators=8)
    best, near = plan(problem), plan(problem, {"rel_gap": 0.05})
    assert best.stop == Stop.PROVEN
    assert near.stop in (Stop.GAP, Stop.PROVEN)
    assert near.gap <= 0.05
    assert (near.bound or math.inf) <= (best.objective or 0.0)


def test_no_time_is_no_success() -> None:
    result = plan(blocks(38), {"time_limit_s": 0.0})
    assert (result.stop, result.found) == (Stop.TIME, Found.NOTHING)
    assert result.bound is not None


@pytest.mark.usefixtures("pruned")
def test_progress_tells_ideals_incumbent_and_bound() -> None:
    heard: list[Progress] = []
    result = solve(blocks(42, accelerators=6), planner="dp", on_progress=heard.append)
    bounds = [record.bound for record in heard if record.bound is not None]
    assert result.stop == Stop.PROVEN
    assert any(record.nodes for record in heard)
    assert bounds == sorted(bounds)
    assert result.model_size["ideals"] == 10_006  # 10 ** 4 in the block, one for each node around it and for none
    assert "warm_up" in result.seconds


# ---- starts --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("planner", ["dp", "one-device"])
def test_a_start_is_kept_or_improved_and_proven(planner: str, way: str) -> None:
    problem = blocks(42, accelerators=6) if way == "pruned" and planner == "one-device" else random_placement(5)
    start = solve(problem, planner=planner).plan
    assert start is not None
    result = solve(problem, planner="dp", warm_start=start)
    assert (result.stop, result.warm_start.outcome) == (Stop.PROVEN, StartOutcome.ACCEPTED)
    assert result.objective == plan(problem).objective


# ---- ideals ------------------------------------------------------------------------------------------------
# Ideals of more groups than a machine word has bits.


def sets(lattice: Lattice) -> list[frozenset[int]]:
    return [
        frozenset(g for g in range(lattice.model.count) if int(row[g // 64]) >> (g % 64) & 1)
        for row in lattice.bits
    ]


def test_more_groups_than_a_machine_word_has_bits() -> None:
    count = 150
    nodes = tuple(Node(i, 1.0, 5.0, transfer_time=0.5 * (i < count - 1)) for i in range(count))
    edges = tuple((i, i + 1) for i in range(count - 1))
    lattice = all_ideals(build(PlacementProblem(nodes, edges, accelerators=4, cpus=0)), 1000)
    assert sets(lattice) == [frozenset(range(size)) for size in range(count + 1)]
    assert lattice.prefix([float(g) for g in range(count)])[-1] == count * (count - 1) / 2
