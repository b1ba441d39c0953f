"""The parts of the large-neighbourhood search: the annealing loop's books, starts and limits."""

from __future__ import annotations

import random

import pytest
from problems.placements import random_placement

from pipeplan.instances.base.result import StartOutcome, Stop
from pipeplan.instances.placement.plan import PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.planners.contract import Board, Outcome, Request
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.placement.annealing import PLANNER, Kernel
from pipeplan.planners.placement.groups import Groups, contract


def network(layers: int = 60) -> PlacementProblem:
    """A long network with side branches, on three accelerators and a CPU."""
    nodes = tuple(Node(i, 1 + i % 4, 7, size_bytes=1, transfer_time=float(i < layers - 2)) for i in range(layers))
    edges = [(i, i + 2) for i in range(layers - 2)] + [(i, i + 5) for i in range(0, layers - 5, 7)]
    return PlacementProblem(nodes, tuple(edges), accelerators=3, cpus=1, memory_bytes=layers / 2)


def any_devices(groups: Groups, rng: random.Random) -> list[int]:
    return [rng.randrange(groups.accelerators if ok and groups.accelerators else groups.devices) if ok
            else groups.devices - 1 for ok in groups.supported]  # fmt: skip


@pytest.mark.parametrize("objective", ["max-load", "gpipe"])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.machine_code)])
def test_the_loop_keeps_its_books(compiled: bool, objective: str) -> None:
    """After thousands of accepted and refused moves, counts and loads are what the assignment says."""
    problem = network() if compiled else random_placement(4, layers=7, training=True)
    groups = contract(problem, False, objective)
    kernel = Kernel(groups, seed=5, compiled=compiled)
    kernel.start(any_devices(groups, random.Random(1)))
    kernel.run(4_000, hot=0.2, cold=1e-3, squarings=3, value=0.0)
    assert kernel.state is not None
    device_of = [int(d) for d in kernel.state.device]
    assert kernel.state.load.tolist() == [pytest.approx(row, abs=1e-9) for row in groups.loads(device_of)]
    for e, (pins, _, _) in enumerate(groups.nets):
        for d in range(groups.accelerators):
            assert kernel.state.held[e, d] == sum(device_of[g] == d for g in pins)


def test_the_stage_order_is_kept() -> None:
    problem = network()
    groups = contract(problem, True)
    start = [min(2, 3 * g // groups.count) for g in range(groups.count)]
    kernel = Kernel(groups, seed=5)
    kernel.start(start, stages=[0, 1, 2, 3])
    kernel.run(20_000, hot=0.2, cold=1e-3, squarings=3, value=0.0)
    assert kernel.state is not None
    device = kernel.state.device
    assert list(device) != start
    assert all(device[u] <= device[v] for u, v in groups.arcs)


def search(problem: PlacementProblem, warm: PlacementPlan | None = None, **limits: float) -> Outcome:
    options = {"non_contiguous": True, "cycles": 3, "steps": 20_000}
    return PLANNER.plan(Request(problem, options, SolveOptions(**limits), warm))  # type: ignore[arg-type]


def test_compiled_runs_repeat_themselves() -> None:
    first, second = search(network(), seed=3), search(network(), seed=3)
    assert (first.plan, first.claimed) == (second.plan, second.claimed)


def test_a_warm_start_is_never_lost() -> None:
    best = search(network())
    again = search(network(), warm=best.plan, time_limit_s=0.0)
    assert again.warm_start.outcome == StartOutcome.ACCEPTED
    assert again.claimed is not None
    assert best.claimed is not None
    assert again.claimed <= best.claimed
    assert again.stop == Stop.TIME


def test_a_warm_start_that_exceeds_the_memory_is_refused() -> None:
    problem = network()
    crowded = PlacementPlan.from_assignment(problem, {node.id: 0 for node in problem.nodes})
    assert search(problem, warm=crowded).warm_start.outcome == StartOutcome.REJECTED


def test_a_gap_that_is_reached_ends_the_search() -> None:
    board = Board(bound=1.0)
    options = {"non_contiguous": True, "cycles": 1_000_000, "steps": 20_000}
    outcome = PLANNER.plan(Request(network(), options, SolveOptions(rel_gap=0.999), board=board))
    assert outcome.stop == Stop.COMPLETED
