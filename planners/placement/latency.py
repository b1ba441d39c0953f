"""Placements for the latency of one sample: what stands between plans and the kernel, and planners that do not search.

`World` holds arrays, places, and the choice of compiled or plain code; the search is `latency_lns`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...instances.base.compiled import compiled, repays_loading
from ...instances.base.graph import in_turn
from ...instances.base.result import Stop
from ...instances.physics.tolerances import SAFETY
from ...instances.placement.plan import Device, NotAnAssignmentError, PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.registry import evaluation_of
from .. import search as incumbent
from ..contract import Board, Outcome, Request
from ..registry import PLANNERS
from . import latency_kernel as kernel
from .annealing import ragged
from .heuristics import Expert

# Nodes from which on compiling pays: the first time it takes seconds, later a moment to load the machine code.
COMPILED_FROM = 24

# The place of a node that has none yet.
UNPLACED = -1


class World:
    """One problem with q pieces per accelerator. Place 0: the CPUs; 1 + d q + j: piece j of accelerator d."""

    def __init__(self, problem: PlacementProblem, pieces: int) -> None:
        self.problem, self.pieces = problem, pieces
        self.accelerators = min(problem.accelerators, len(problem.nodes))
        self.slots = self.accelerators * pieces
        self.classes = problem.color_classes
        whole = problem.safe_sizes
        self.node_sizes = tuple(map(float, whole.amounts))
        """Sizes of nodes in whole numbers, so that all sums are exact; what fits here fits in truth."""
        self.sizes = tuple(sum(self.node_sizes[i] for i in members) for members in self.classes)
        self.capacity = math.inf if whole.limits[0] is None else float(whole.limits[0])
        self.allowed = tuple(
            size <= self.capacity and all(problem.nodes[i].supported for i in members)
            for size, members in zip(self.sizes, self.classes, strict=True)
        )
        self.compiled = repays_loading(len(problem.nodes), COMPILED_FROM)
        self.tables = self._tables()
        self.scratch = self.paper()
        function = compiled(kernel, "evaluate") if self.compiled else kernel.evaluate
        self._evaluate: Callable[..., float] = function

    def latency(self, place: Sequence[int], scratch: kernel.Scratch | None = None) -> float:
        """The latency of the nodes that are placed; `inf` where pieces wait for each other. Memory, support and colours
        are not looked at."""
        value = float(self._evaluate(self.tables, scratch or self.scratch, np.array(place, dtype=np.int64)))
        return math.inf if value >= kernel.NEVER else value

    def fits(self, place: Sequence[int]) -> bool:
        """Does the placement keep to memory, support and colours, and use CPUs only if there are any?"""
        used = [0.0] * self.accelerators
        for c, members in enumerate(self.classes):
            devices = {self.device(place[i]) for i in members}
            if len(devices) > 1 or (devices == {None} and not self.problem.cpus):
                return False
            device = devices.pop()
            if device is not None:
                used[device] += self.sizes[c]
                if not self.allowed[c]:
                    return False
        return all(amount <= self.capacity for amount in used)

    def device(self, place: int) -> int | None:
        return (place - 1) // self.pieces if place > 0 else None

    # ---- plans ------------------------------------------------------------------------------------------

    def plan(self, place: Sequence[int]) -> PlacementPlan:
        """The plan of a placement; all nodes that are not on an accelerator are on the first CPU."""
        ids = [node.id for node in self.problem.nodes]
        devices = []
        for d in range(self.problem.accelerators):
            mine = range(1 + d * self.pieces, 1 + (d + 1) * self.pieces)
            nodes_of = [tuple(ids[v] for v, at in enumerate(place) if at == slot) for slot in mine]
            pieces = tuple(piece for piece in nodes_of if piece)
            devices.append(Device(f"acc{d}", "accelerator", tuple(i for piece in pieces for i in piece), pieces))
        for c in range(self.problem.cpus):
            pool = tuple(ids[v] for v, at in enumerate(place) if at == 0) if c == 0 else ()
            devices.append(Device(f"cpu{c}", "cpu", pool))
        return PlacementPlan(tuple(devices))

    def places(self, plan: PlacementPlan) -> list[int] | None:
        """The place of each node; None where it is no plan, or an accelerator needs more pieces than it may have."""
        try:
            evaluation = evaluation_of(self.problem, plan, objective="latency")
        except NotAnAssignmentError:
            return None
        if evaluation.latency is None:
            return None
        place = [0] * len(self.problem.nodes)
        numbers: dict[str, int] = {}
        counts: dict[str, int] = {}
        for piece in evaluation.pieces:
            d = numbers.setdefault(piece.device, len(numbers))
            j = counts.get(piece.device, 0)
            counts[piece.device] = j + 1
            if d >= self.accelerators or j >= self.pieces:
                return None
            for node_id in piece.nodes:
                place[self.problem.index[node_id]] = 1 + d * self.pieces + j
        return place

    # ---- arrays -----------------------------------------------------------------------------------------

    def _tables(self) -> kernel.Tables:
        nodes = self.problem.nodes
        class_of = np.zeros(len(nodes), dtype=np.int64)
        allowed = np.zeros(len(nodes), dtype=np.bool_)
        for c, members in enumerate(self.classes):
            class_of[list(members)] = c
            allowed[list(members)] = self.allowed[c]
        return kernel.Tables(
            *ragged(self.problem.successors),
            *ragged(self.problem.predecessors),
            np.array([node.accelerator_time for node in nodes], dtype=np.float64),
            np.array([node.cpu_time for node in nodes], dtype=np.float64),
            np.array([node.transfer_time for node in nodes], dtype=np.float64),
            np.array(self.node_sizes, dtype=np.float64),
            allowed,
            class_of,
            *ragged(self.classes),
            self.pieces,
            self.slots,
            int(self.problem.cpus > 0),
            self.capacity,
        )

    def paper(self) -> kernel.Scratch:
        """Scratch arrays for one thread."""
        nodes, units = len(self.problem.nodes), len(self.problem.nodes) + self.slots
        return kernel.Scratch(
            np.zeros(units, dtype=np.int64),
            np.zeros(units),
            np.zeros(units, dtype=np.int64),
            np.zeros(self.slots + 1),
            np.zeros(self.slots + 1, dtype=np.int64),
            np.zeros(self.slots + 1, dtype=np.int64),
            np.zeros(nodes, dtype=np.int64),
            np.zeros(units),
        )


class Annealing:
    """One thread's annealing in a world."""

    def __init__(self, world: World, place: Sequence[int], seed: int) -> None:
        self.tables, self.scratch = world.tables, world.paper()
        self.place: Any = np.array(place, dtype=np.int64)
        random = np.array([seed | 1], dtype=np.uint64) if world.compiled else [seed | 1]
        changed, old, mark, best = (np.zeros_like(self.place) for _ in range(4))
        self.moves = kernel.Moves(random, changed, old, mark, np.zeros(max(1, world.accelerators)), best)
        function = compiled(kernel, "anneal") if world.compiled else kernel.anneal
        self._anneal: Callable[..., float] = function

    def run(self, steps: int, hot: float, cold: float, value: float) -> list[int] | None:
        """Anneal on; the best placement met, if it is better than `value`. Temperatures are times."""
        goal = value * (1 - 1e-12) if math.isfinite(value) else kernel.NEVER
        reached = self._anneal(self.tables, self.scratch, self.moves, self.place, steps, hot, cold, goal)
        return [int(at) for at in self.moves.best] if reached < goal else None


# ---- The best placement that a latency planner has seen, and the bound to measure it by --------------------


def world_of(request: Request) -> World:
    return World(request.problem, request.options.get("subgraphs_per_device", 1))


class Incumbent(incumbent.Incumbent):
    """Placements that break memory, support or colours, or wait in a circle, count for nothing."""

    def __init__(self, request: Request, world: World) -> None:
        super().__init__(request, world.latency, world.fits, world.plan, lambda: lower_bound(world.problem))


def lower_bound(problem: PlacementProblem) -> float | None:
    """A bound on all plans: the longest path with every node on the faster kind of device that can run it, without
    transfers; None where some node can run nowhere."""
    finish = [0.0] * len(problem.nodes)
    for v in problem.topological_order:
        node = problem.nodes[v]
        choices = [node.accelerator_time] if node.supported and problem.accelerators else []
        choices += [node.cpu_time] if problem.cpus else []
        before = max((finish[u] for u in problem.predecessors[v]), default=0.0)
        finish[v] = before + min(choices, default=math.inf)
    bound = max(finish) * (1 - SAFETY)
    return bound if math.isfinite(bound) else None


# ---- Splits that were not made for latency, and greedy ones -------------------------------------------------------
# Splits that were not made for latency, evaluated for it: all on CPUs, an expert's, and the best for throughput.


def plan_on_cpus(request: Request) -> Outcome:
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

    def plan(self, request: Request) -> Outcome:
        entry, board = PLANNERS[self.lender], Board(started=request.board.started)
        options = {spec.name: spec.default for spec in entry.options}
        answer = entry.load().plan(Request(request.problem, options, request.limits, board=board))
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


EXPERT = Expert(
    "latency-expert", lambda request, plan: evaluation_of(request.problem, plan, objective="latency").latency
)
DP = _Borrowed("dp")
LINEAR_DP = _Borrowed("linear-dp")
PARTITION = _Borrowed("partition")


# Greedy list scheduling (`listed`), and accelerators filled one after the other (`filled`).


def plan_greedily(request: Request) -> Outcome:
    """The best of both rules over a few topological orders, and of no accelerator at all."""
    world = world_of(request)
    incumbent = Incumbent(request, world)
    incumbent.offer([0] * len(request.problem.nodes))
    places = (rule(world, order) for order in class_orders(request.problem) for rule in (filled, listed))
    return incumbent.tried(places, "no order of the nodes gave a plan that fits the memory")


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
