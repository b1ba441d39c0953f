"""Splits that were not made for latency, evaluated for it: all on CPUs, an expert's, and the best for throughput."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....formulations.contract import OptionSpec
from ....instances.base.kind import load_address
from ....instances.base.result import Stop
from ....instances.placement.plan import PlacementPlan
from ....instances.placement.problem import PlacementProblem
from ....instances.registry import evaluation_of
from ...contract import Board, Outcome, Request
from ...registry import IDEALS_OPTIONS, PLACEMENT_OPTIONS
from ..heuristics.expert import Expert
from ..orders import in_turn
from .world import UNPLACED, Incumbent, World, world_of


class LatencyCpu:
    def plan(self, request: Request) -> Outcome:
        """Every node runs on the CPUs as soon as its inputs are there; without CPUs there is no such plan."""
        incumbent = Incumbent(request, world_of(request))
        if not request.problem.cpus:
            return incumbent.outcome(Stop.COMPLETED, "the problem has no CPU")
        incumbent.offer([0] * len(request.problem.nodes))
        return incumbent.outcome(Stop.COMPLETED)


@dataclass(frozen=True)
class _Borrowed:
    """The plan that another planner makes for throughput."""

    lender: str
    lent_from: str
    its_options: tuple[OptionSpec, ...]

    def plan(self, request: Request) -> Outcome:
        options = {spec.name: spec.default for spec in self.its_options}
        board = Board(started=request.board.started)
        answer = load_address(self.lent_from).plan(Request(request.problem, options, request.limits, board=board))
        world = world_of(request)
        incumbent = Incumbent(request, world)
        if not isinstance(answer.plan, PlacementPlan):
            return incumbent.outcome(answer.stop, f"{self.lender} found no plan", *answer.messages)
        place = world.places(answer.plan)
        if place is None or not math.isfinite(world.latency(place)):
            message = f"the plan of {self.lender} needs more than {world.pieces} subgraphs per device"
            return incumbent.outcome(Stop.COMPLETED, message)
        incumbent.offer(place)
        return incumbent.outcome(Stop.COMPLETED)


CPU = LatencyCpu()
EXPERT = Expert(
    "latency-expert", lambda request, plan: evaluation_of(request.problem, plan, objective="latency").latency
)
DP = _Borrowed("dp", "pipeplan.planners.placement.dp.planner:PLANNER", IDEALS_OPTIONS)
LINEAR_DP = _Borrowed(
    "linear-dp", "pipeplan.planners.placement.heuristics.linear_dp:PLANNER", PLACEMENT_OPTIONS["linear-dp"]
)
PARTITION = _Borrowed(
    "partition", "pipeplan.planners.placement.heuristics.partition:PLANNER", PLACEMENT_OPTIONS["partition"]
)


# Greedy list scheduling (`listed`), and accelerators filled one after the other (`filled`).


class LatencyGreedy:
    def plan(self, request: Request) -> Outcome:
        """The best of both rules over a few topological orders, and of no accelerator at all."""
        world = world_of(request)
        incumbent = Incumbent(request, world)
        incumbent.offer([0] * len(request.problem.nodes))
        places = (rule(world, order) for order in class_orders(request.problem) for rule in (filled, listed))
        return incumbent.tried(places, "no order of the nodes gave a plan that fits the memory")


GREEDY = LatencyGreedy()


def class_orders(problem: PlacementProblem) -> Iterator[list[int]]:
    """Classes by their first node: in the problem's order, depth first, and depth first along the longest way ahead."""
    class_of = {i: c for c, members in enumerate(problem.color_classes) for i in members}
    ahead = [0.0] * len(problem.nodes)
    for v in reversed(problem.topological_order):
        ahead[v] = problem.nodes[v].cpu_time + max((ahead[w] for w in problem.successors[v]), default=0.0)
    ways = (
        problem.topological_order,
        _depth_first(problem, range(len(problem.nodes))),
        _depth_first(problem, sorted(range(len(problem.nodes)), key=lambda v: ahead[v])),
    )
    for order in ways:
        yield list(dict.fromkeys(class_of[v] for v in order))


def _depth_first(problem: PlacementProblem, preference: Sequence[int]) -> list[int]:
    """A topological order that follows one branch to its end; nodes that come late in `preference` go first."""
    rank = {v: r for r, v in enumerate(preference)}
    after = [sorted(row, key=rank.__getitem__) for row in problem.successors]
    return in_turn(after, list.pop, first=preference)


def filled(world: World, order: Sequence[int]) -> list[int] | None:
    """Accelerators one after the other up to their memory, one piece each; the rest on the CPUs."""
    place = [0] * len(world.problem.nodes)
    device, used = 0, 0.0
    for c in order:
        if not world.allowed[c]:
            continue
        if used + world.sizes[c] > world.capacity:
            device, used = device + 1, 0.0
        if device >= world.accelerators:
            break
        used += world.sizes[c]
        for v in world.classes[c]:
            place[v] = 1 + device * world.pieces
    return place


def listed(world: World, order: Sequence[int]) -> list[int] | None:
    """Each class where everything placed so far then ends soonest; nodes that are not placed yet take no part."""
    place = [UNPLACED] * len(world.problem.nodes)
    used = [0.0] * world.accelerators
    for c in order:
        best, chosen = math.inf, None
        for slot in _choices(world, c, used, place):
            for v in world.classes[c]:
                place[v] = slot
            value = world.latency(place)
            if value < best:
                best, chosen = value, slot
        if chosen is None:
            return None
        for v in world.classes[c]:
            place[v] = chosen
        device = world.device(chosen)
        if device is not None:
            used[device] += world.sizes[c]
    return place


def _choices(world: World, c: int, used: Sequence[float], place: Sequence[int]) -> Iterator[int]:
    """Places for a class: later accelerators first, where its neighbours are, with one of the empty ones; CPUs last."""
    if world.allowed[c]:
        busy = {world.device(at) for at in place if at > 0}
        fresh = next((d for d in range(world.accelerators) if d not in busy), None)
        for d in reversed(range(world.accelerators)):
            if used[d] + world.sizes[c] <= world.capacity and (d in busy or d == fresh):
                yield from range(1 + d * world.pieces, 1 + (d + 1) * world.pieces)
    if world.problem.cpus:
        yield 0
