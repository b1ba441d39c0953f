"""The latency models: the IP as published and the CP-SAT model find what brute force finds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from oracles.latency import best_latency, random_latency_placement

from pipeplan import InputError, Node, PlacementProblem, Result, SolveOptions, Stop, UsageError, solve
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.formulations.tarnawski_latency.atoms import atoms_of, plan_of, read_staged, staged_of, write_staged
from pipeplan.formulations.tarnawski_latency.path_bound import path_bound
from pipeplan.instances.placement.referee.latency import evaluate_latency

NAME = "ip-tarnawski-latency"


def optimum(problem: PlacementProblem, pieces: int, variant: str = "strong", solver: str = "cp-sat") -> Result:
    options = {"subgraphs_per_device": pieces, "variant": variant}
    limits = SolveOptions(threads=1)
    return solve(problem, formulation=NAME, solver=solver, options=options, limits=limits, warm_start="none")


@cache
def truth(seed: int) -> tuple[PlacementProblem, int, float | None]:
    """Even seeds: one piece per accelerator; odd ones: two."""
    pieces = 1 + seed % 2
    problem = random_latency_placement(seed, 6 - pieces)
    return problem, pieces, best_latency(problem, pieces)


@pytest.mark.parametrize("seed", range(20))
def test_an_optimal_plan_is_a_start_of_the_same_value(seed: int) -> None:
    """encode and decode are inverse: the plan comes back with its latency."""
    problem, pieces, expected = truth(seed)
    if expected is None:
        return
    atoms = atoms_of(problem, pieces)
    plan = optimum(problem, pieces).plan
    staged = staged_of(problem, atoms, plan)  # type: ignore[arg-type]
    assert staged is not None
    again = plan_of(problem, atoms, read_staged(write_staged(staged, atoms), atoms))
    assert evaluate_latency(problem, again).latency == pytest.approx(expected)


def line(sizes: list[float], memory: float) -> PlacementProblem:
    nodes = tuple(Node(i, 1.0, 5.0, s, float(i < len(sizes) - 1)) for i, s in enumerate(sizes))
    return PlacementProblem(nodes, tuple((i, i + 1) for i in range(len(sizes) - 1)), 3, 1, memory)


def test_what_the_formulation_cannot_plan_is_refused_with_a_remedy() -> None:
    formulation = FORMULATIONS[NAME].load()
    options = {"subgraphs_per_device": 0, "variant": "strong", "objective": "latency"}
    with pytest.raises(InputError, match="whole number >= 1"):
        formulation.check(line([1.0], 1.0), options)
    with pytest.raises(UsageError, match="problems of kind 'placement'"):
        formulation.check("nonsense", options)


def test_the_divided_path_of_a_line_is_the_optimum() -> None:
    """Nothing is beside the path, so nothing is relaxed."""
    assert path_bound(atoms_of(line([1.0] * 5, 2.0), 1)) == pytest.approx(9)
    assert path_bound(atoms_of(line([2.0, 1.0, 1.0, 1.0, 2.0], 2.0), 1)) == pytest.approx(13)  # three pieces only


def test_what_has_no_room_beside_the_path_is_paid_for() -> None:
    """x hangs on the path and does not fit into the piece: its tensor is moved in."""
    nodes = (Node("a", 1.0, 90.0, 1.0, 1.0), Node("b", 1.0, 90.0, 1.0), Node("x", 0.0, 0.0, 1.0, 0.25))
    problem = PlacementProblem(nodes, (("a", "b"), ("x", "b")), 1, 1, 2.0)
    assert path_bound(atoms_of(problem, 1)) == pytest.approx(2.25) == optimum(problem, 1).objective


@pytest.mark.parametrize("solver", ["highs", "scip"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_what_a_stage_needs_no_more_may_be_late(solver: str, pieces: int) -> None:
    """A stage hands over when all of it is finished: its first node is not done earlier than its last."""
    nodes = (Node(0, 10.0, 100.0), Node(1, 30.0, 100.0))
    result = optimum(PlacementProblem(nodes, ((0, 1),), 1, 0), pieces, solver=solver)
    assert (result.stop, result.objective) == (Stop.PROVEN, 40)
    assert not any("left out" in message for message in result.messages)


@pytest.mark.parametrize("solver", ["highs", "scip"])
def test_the_slowest_plan_is_within_the_limit_of_a_float_solver(solver: str) -> None:
    """All work, one node after the other, is the best plan here; the model's own limit leaves room for tolerances."""
    nodes = (
        Node(0, 0.002, 0.001, 1e-9),
        Node(1, 0.002, 1e-18, 0.0, 1e-9),
        Node(2, 0.0, 1e-18, 1e-9, 2e-9),
        Node(3, 1e-18, 3e-18, 1e-9, 2e-9),
        Node(4, 1e-18, 3e-18),
    )
    edges = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4))
    result = optimum(PlacementProblem(nodes, edges, 2, 1, 1e-9), 2, variant="plain", solver=solver)
    assert (result.stop, result.objective) == (Stop.PROVEN, pytest.approx(0.001))


@pytest.mark.parametrize("seed", range(100))
def test_the_divided_path_is_a_bound_with_many_colours(seed: int) -> None:
    """Two pieces of one accelerator may share a class, and then they share its memory."""
    problem = random_latency_placement(2000 + seed, 5)
    nodes = tuple(replace(node, color="ab"[i * 7919 * (seed + 1) % 5 % 2]) for i, node in enumerate(problem.nodes))
    try:
        coloured = problem.replace(nodes=nodes)
    except InputError:
        return  # a class is too large for an accelerator, and there is no CPU
    best = best_latency(coloured, 2)
    assert best is None or path_bound(atoms_of(coloured, 2)) <= best * (1 + 1e-9)


def test_two_pieces_of_a_class_share_one_memory() -> None:
    """b and c share a device, which has no room for a and d besides: so there are three pieces, not two."""
    nodes = tuple(Node(v, 1.0, 20.0, 1.0, float(v < "d"), color="x" if v in "bc" else None) for v in "abcd")
    problem = PlacementProblem(nodes, (("a", "b"), ("b", "c"), ("c", "d")), 2, 1, 2.0)
    bound = path_bound(atoms_of(problem, 2))
    assert bound == pytest.approx(4 + 2 * 2) == best_latency(problem, 2)
    assert optimum(problem, 2, variant="plain", solver="highs").objective == pytest.approx(bound)
    free = problem.replace(nodes=tuple(replace(node, color=None) for node in nodes))
    assert path_bound(atoms_of(free, 2)) == pytest.approx(4 + 2)
