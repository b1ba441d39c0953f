"""Exact methods for placements agree at the edges of arithmetic: decimals at the limit, forbidden times, CPUs alone."""

from __future__ import annotations

from typing import Any

import pytest
from problems.nasty import nasty

from pipeplan import Found, Node, PlacementProblem, Result, SolveOptions, Stop, solve
from pipeplan.instances.placement.referee.verify import verify, verify_latency
from pipeplan.planners.registry import PLANNERS

THROUGHPUT: dict[str, dict[str, Any]] = {
    "stages": {},
    "devices": {"non_contiguous": True},
    "plain": {"variant": "plain"},
    "gpipe": {"objective": "gpipe"},
}

COLOUR_AT_LIMIT = PlacementProblem(
    tuple(Node(i, 1.0, 100.0, size, color=7) for i, size in enumerate((0.1, 0.2))), (), 1, 1, 0.3
)
CPUS_ALONE = PlacementProblem(tuple(Node(i, time, 1.0) for i, time in enumerate((0.1, 0.1, 0.4))), (), 0, 2)


def over_by(size_bytes: int) -> PlacementProblem:
    nodes = (Node("a", 1.0, 9.0, 2**33, 5.0), Node("b", 1.0, 9.0, 2**33 + size_bytes))
    return PlacementProblem(nodes, (("a", "b"),), 2, 0, 2**34)


def chain(*times: tuple[float, float]) -> PlacementProblem:
    """Without support for the first, where its time is forbidden on accelerators."""
    nodes = tuple(Node(i, *pair, supported=pair[0] < 1e6) for i, pair in enumerate(times))
    return PlacementProblem(nodes, tuple((i, i + 1) for i in range(len(times) - 1)), 2, 1)


FORBIDDEN_CPU = chain((2.0, 1e16), (1.3, 1.0), (2.7, 1.5), (1.1, 1e16))
FORBIDDEN_ACCELERATOR = chain((1e12, 1.0), (1.3, 100.0), (2.7, 100.0), (1.1, 100.0))


def by_model(
    problem: PlacementProblem,
    formulation: str,
    options: dict[str, Any],
    start: Any = "none",
    solver: str = "cp-sat",
) -> Result:
    limits = SolveOptions(threads=1)
    return solve(problem, formulation=formulation, solver=solver, options=options, limits=limits, warm_start=start)


@pytest.mark.parametrize(
    "method", ["dp", "brute-force", "stages", "devices", pytest.param("plain", marks=pytest.mark.sweeps)]
)
@pytest.mark.parametrize(("problem", "value", "apart"), [
    (COLOUR_AT_LIMIT, 2.0, 2.0), (over_by(17), 6.0, 6.0), (over_by(1000), 6.0, 6.0), (over_by(0), 2.0, 2.0),
    (CPUS_ALONE, 2.0, 2.0), (FORBIDDEN_CPU, 2.5, 2.4), (FORBIDDEN_ACCELERATOR, 3.8, 2.7),
], ids=[
    "colour", "17 bytes", "1000 bytes", "full", "CPUs alone", "forbidden CPU", "forbidden accelerator",
])  # fmt: skip
def test_known_values(problem: PlacementProblem, value: float, apart: float, method: str) -> None:
    """`apart`: where devices may hold any nodes."""
    if method in THROUGHPUT:
        result = by_model(problem, "ip-tarnawski", THROUGHPUT[method])
    else:
        result = solve(problem, planner=method, limits=SolveOptions(threads=1))
    assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
    assert result.objective == pytest.approx(apart if method == "devices" else value)


@pytest.mark.parametrize("solver", ["highs", "scip"])
@pytest.mark.parametrize("form", ["stages", "plain"])
@pytest.mark.parametrize("bytes_over", [0, 17, 1000])
def test_float_solvers_do_not_see_some_bytes_and_are_put_right(bytes_over: int, form: str, solver: str) -> None:
    """Their plan is refused and cut off, and they are asked again."""
    result = by_model(over_by(bytes_over), "ip-tarnawski", THROUGHPUT[form], solver=solver)
    assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
    assert result.objective == pytest.approx(6.0 if bytes_over else 2.0)


@pytest.mark.parametrize(("variant", "pieces"), [("strong", 1), ("strong", 2)])
@pytest.mark.parametrize(("problem", "value"), [
    (COLOUR_AT_LIMIT, 2.0), (over_by(17), 12.0), (over_by(0), 2.0), (FORBIDDEN_CPU, 5.6),
    (FORBIDDEN_ACCELERATOR, 6.1),
], ids=["colour", "17 bytes", "full", "forbidden CPU", "forbidden accelerator"])  # fmt: skip
def test_known_latencies(problem: PlacementProblem, value: float, variant: str, pieces: int) -> None:
    result = by_model(problem, "ip-tarnawski-latency", {"variant": variant, "subgraphs_per_device": pieces})
    assert result.stop == Stop.PROVEN, result.messages
    assert result.objective == pytest.approx(value)


HEURISTICS = [
    name
    for name, entry in PLANNERS.items()
    if entry.problem_kind == "placement"
    and not entry.exact
    and name not in ("pipedream", "expert", "latency-expert", "partition", "latency-partition")
]
"""All that look for plans within the memory, and need neither a file nor METIS."""


@pytest.mark.sweeps
@pytest.mark.parametrize("planner", HEURISTICS)
@pytest.mark.parametrize(
    "seeds", [range(start, 60, 3) for start in range(3)], ids=lambda seeds: f"{seeds[0]} mod 3"
)
def test_no_heuristic_offers_what_exceeds_a_memory_or_a_bound_above_its_plan(seeds: range, planner: str) -> None:
    for seed in seeds:
        problem = nasty("placement", seed)
        result = solve(problem, planner=planner, limits=SolveOptions(threads=1))
        assert result.found != Found.REJECTED, (seed, result.violations)
        assert result.stop != Stop.ERROR, (seed, result.messages)
        if result.plan is not None:
            rules = verify_latency(problem, result.plan) if "latency" in planner else verify(problem, result.plan)  # type: ignore[arg-type]
            assert not rules


@pytest.mark.parametrize("planner", ["linear-dp", "lns", "local-search", "greedy"])
def test_heuristics_see_small_times_next_to_forbidden_ones(planner: str) -> None:
    result = solve(FORBIDDEN_CPU, planner=planner, limits=SolveOptions(threads=1))
    assert result.objective == pytest.approx(2.5)
