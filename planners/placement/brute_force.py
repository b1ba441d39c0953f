"""Brute force: every plan of a tiny problem. It is the ground truth of all cross-checks, hence plain.

It works on the nodes and edges of the problem as they are and shares nothing with the other planners. Identical
devices are tried in order of their first use only; a branch is left when the work that it has already placed costs
more, without any transfer, than the best plan, or when memory or support is broken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from ...instances.base.errors import InputError
from ...instances.base.quantities import several
from ...instances.base.result import Stop
from ...instances.placement.plan import PlacementPlan
from ..contract import FunctionPlanner, Outcome, Request

# Plans that are tried at most: about those of 12 groups on 4 devices, up to the order of identical devices.
MAX_PLANS = 5_000_000

# Steps between two looks at the clock.
LOOK_AT_CLOCK = 2_000


def enumerate_plans(request: Request) -> Outcome:
    problem = request.problem
    groups, devices = len(problem.color_classes), problem.accelerators + problem.cpus
    if plan_count(groups, problem.accelerators, problem.cpus) > MAX_PLANS:
        raise InputError(
            "nodes",
            f"make {several(groups, 'group')} on {several(devices, 'device')}, more than brute force can try",
            f"give a problem of at most {MAX_PLANS} plans, say 12 groups on 4 devices, or use the planner exact",
        )
    return _Enumeration(request).outcome()


PLANNER = FunctionPlanner(enumerate_plans)


def plan_count(groups: int, accelerators: int, cpus: int) -> int:
    """Assignments up to the order of identical devices; counting ends once there are too many."""
    ways = {(0, 0): 1}
    for _ in range(groups):
        more: dict[tuple[int, int], int] = {}
        for (a, c), number in ways.items():
            for key, factor in (((a, c), a + c), ((a + 1, c), int(a < accelerators)), ((a, c + 1), int(c < cpus))):
                if factor:
                    more[key] = more.get(key, 0) + number * factor
        ways = more
        if sum(ways.values()) > MAX_PLANS:
            break
    return sum(ways.values())


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class _Enumeration:
    """Sets of nodes are bit masks over positions in `problem.nodes`."""

    def __init__(self, request: Request) -> None:
        problem = request.problem
        self.request = request
        self.problem = problem
        self.gpipe = request.options.get("objective", "max-load") == "gpipe"
        self.chain = not request.options.get("non_contiguous", False)
        each_device = request.options.get("device_contiguity", False)
        self.is_contiguous = self._is_contiguous_by_device if each_device else self._is_chain
        self.classes = [sum(1 << i for i in members) for members in problem.color_classes]
        self.readers = [sum(1 << v for v in targets) for targets in problem.successors]
        self.backward = sum(1 << i for i, node in enumerate(problem.nodes) if node.backward)
        self.stage_arcs = self._stage_arcs()
        self.below = self._descendants()
        self.load = cache(self._load)
        self.held = [0] * (problem.accelerators + problem.cpus)
        self.best: list[int] | None = None
        self.value = math.inf
        self.steps = 0
        self.late = False

    def outcome(self) -> Outcome:
        self._place(0, 0, 0)
        stop = Stop.TIME if self.late else Stop.INFEASIBLE if self.best is None else Stop.PROVEN
        checks = ("every plan was looked at, one by one",)
        size = {"steps": self.steps}
        if self.best is None:
            return Outcome(stop, model_size=size, checks=checks)
        bound = self.value if stop == Stop.PROVEN else None
        return Outcome(stop, self._as_plan(self.best), self.value, bound, model_size=size, checks=checks)

    def _as_plan(self, held: list[int]) -> PlacementPlan:
        device_of = {self.problem.nodes[i].id: d for d, mask in enumerate(held) for i in _bits(mask)}
        return PlacementPlan.from_assignment(self.problem, device_of)

    # ---- enumeration ----------------------------------------------------------------------------------

    def _place(self, number: int, used_accelerators: int, used_cpus: int) -> None:
        """Put class `number` on each device in turn; of the unused ones, which are all alike, on the first."""
        self.steps += 1
        if self.steps % LOOK_AT_CLOCK == 0 and self.request.out_of_time():
            self.late = True
        if self.late:
            return
        if number == len(self.classes):
            self._judge()
            return
        k = self.problem.accelerators
        fast = range(min(used_accelerators + 1, k))
        slow = range(k, k + min(used_cpus + 1, self.problem.cpus))
        for device in (*fast, *slow):
            self.held[device] |= self.classes[number]
            if self._fits(device) and self._work() <= self.value:
                new = self.held[device] == self.classes[number]
                on_accelerator = device < k
                self._place(
                    number + 1,
                    used_accelerators + (new and on_accelerator),
                    used_cpus + (new and not on_accelerator),
                )
            self.held[device] &= ~self.classes[number]

    def _fits(self, device: int) -> bool:
        if device >= self.problem.accelerators:
            return True
        nodes = list(_bits(self.held[device]))
        return all(self.problem.nodes[i].supported for i in nodes) and self.problem.holds(nodes)

    def _judge(self) -> None:
        value = self._objective(transfers=True)
        if value < self.value and (not self.chain or self.is_contiguous()):
            self.value, self.best = value, list(self.held)
            self.request.board.post(self._as_plan(self.best), value)

    # ---- what a plan costs ----------------------------------------------------------------------------

    def _work(self) -> float:
        """A lower bound on what any completion costs, less what rounding may add to it."""
        return self._objective(transfers=False) * (1 - 1e-12)

    def _objective(self, transfers: bool) -> float:
        loads = [
            self.load(mask, device < self.problem.accelerators, transfers) for device, mask in enumerate(self.held)
        ]
        if self.gpipe:
            return max(forward for forward, _, _ in loads) + max(backward for _, backward, _ in loads)
        return max(total for _, _, total in loads)

    def _load(self, mask: int, on_accelerator: bool, transfers: bool) -> tuple[float, float, float]:
        """Forward, backward and whole load of a device that holds the mask."""
        terms: tuple[list[float], list[float]] = ([], [])
        for i in _bits(mask):
            node = self.problem.nodes[i]
            terms[node.backward].append(node.accelerator_time if on_accelerator else node.cpu_time)
        if on_accelerator and transfers:
            for u, node in enumerate(self.problem.nodes):
                inside = mask >> u & 1
                crossing = self.readers[u] & (~mask if inside else mask)
                if crossing:
                    terms[node.backward].append(node.transfer_time)
        return math.fsum(terms[0]), math.fsum(terms[1]), math.fsum(terms[0] + terms[1])

    # ---- contiguity -----------------------------------------------------------------------------------

    def _stage_arcs(self) -> list[tuple[int, int]]:
        """(u, v): u's stage may not be after v's. Backward edges count, reversed, at classes without forward nodes."""
        orphans = 0
        for members in self.classes:
            if not members & ~self.backward:
                orphans |= members
        arcs = []
        for u, v in self.problem.arcs:
            if not self.problem.nodes[v].backward:
                arcs.append((u, v))
            elif self.problem.nodes[u].backward and orphans & (1 << u | 1 << v):
                arcs.append((v, u))
        return arcs

    def _descendants(self) -> list[int]:
        """For each node, the nodes to which a path leads from it."""
        below = list(self.readers)
        for u in reversed(self.problem.topological_order):
            for v in self.problem.successors[u]:
                below[u] |= below[v]
        return below

    def _is_contiguous_by_device(self) -> bool:
        """Does no path leave a device and come back?"""
        for inside in (mask & ~self.backward for mask in self.held):
            reached = 0
            for u in _bits(inside):
                reached |= self.below[u]
            if any(self.below[v] & inside for v in _bits(reached & ~inside & ~self.backward)):
                return False
        return True

    def _is_chain(self) -> bool:
        """Can the devices be taken away one by one, each with nothing before it?"""
        owner = {i: d for d, mask in enumerate(self.held) for i in _bits(mask)}
        steps = {(owner[u], owner[v]) for u, v in self.stage_arcs if owner[u] != owner[v]}
        while steps:
            last = {d for _, d in steps}
            kept = {(a, b) for a, b in steps if a in last}
            if len(kept) == len(steps):
                return False
            steps = kept
        return True
