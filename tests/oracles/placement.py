"""Every placement of a tiny problem, from the definitions: shares no code with the planners, models and referee."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from oracles.placement_definitions import chain_constraints, contiguous

from pipeplan.instances.base.amounts import fits
from pipeplan.instances.placement.problem import PlacementProblem

OBJECTIVES = ("max-load", "gpipe")
CONTIGUITIES = ("chain", "device", "none")

Held = frozenset[int]
"""Positions of the nodes on one device."""


def best_placements(problem: PlacementProblem) -> dict[tuple[str, str], float | None]:
    """The least value by objective and contiguity; None where there is no plan."""
    book = Book(problem)
    best: dict[tuple[str, str], float | None] = dict.fromkeys(itertools.product(OBJECTIVES, CONTIGUITIES))
    for held in _assignments(problem):
        parts = [book.parts(d < problem.accelerators, nodes) for d, nodes in enumerate(held)]
        if None in parts:
            continue
        loads = [part for part in parts if part is not None]
        values = {
            "max-load": max(forward + backward for forward, backward in loads),
            "gpipe": max(forward for forward, _ in loads) + max(backward for _, backward in loads),
        }
        notions = ["none"]
        if all(book.contiguous(nodes) for nodes in held):
            notions.append("device")
        if book.is_chain(held):
            notions.append("chain")
        for objective, notion in itertools.product(OBJECTIVES, notions):
            known = best[objective, notion]
            best[objective, notion] = values[objective] if known is None else min(known, values[objective])
    return best


def _assignments(problem: PlacementProblem) -> Iterator[list[Held]]:
    """Colour classes to devices; of devices of a kind that are still empty only the first is tried."""
    classes = problem.color_classes
    devices: list[list[int]] = [[] for _ in range(problem.accelerators + problem.cpus)]

    def place(number: int) -> Iterator[list[Held]]:
        if number == len(classes):
            yield [frozenset(held) for held in devices]
            return
        for kind in (range(problem.accelerators), range(problem.accelerators, len(devices))):
            for d in kind:
                empty = not devices[d]
                devices[d] += classes[number]
                yield from place(number + 1)
                del devices[d][len(devices[d]) - len(classes[number]) :]
                if empty:
                    break

    return place(0)


class Book:
    """What is known of sets of nodes, each worked out once."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        self._parts: dict[tuple[bool, Held], tuple[float, float] | None] = {}
        self._contiguous: dict[Held, bool] = {}
        index = problem.index
        self._constraints = {(index[u], index[v]) for u, v in chain_constraints(problem)}

    def parts(self, accelerator: bool, held: Held) -> tuple[float, float] | None:
        """Forward and backward load; None: the device cannot hold them."""
        key = (accelerator, held)
        if key not in self._parts:
            self._parts[key] = self._load(held) if accelerator else self._cpu_load(held)
        return self._parts[key]

    def _load(self, held: Held) -> tuple[float, float] | None:
        nodes = self.problem.nodes
        if not all(nodes[v].supported for v in held):
            return None
        if not fits((nodes[v].size_bytes for v in held), self.problem.memory_bytes):
            return None
        read = {u for u, v in self.problem.arcs if v in held and u not in held}
        sent = {u for u, v in self.problem.arcs if u in held and v not in held}
        times = [(nodes[v].backward, nodes[v].accelerator_time) for v in held]
        times += [(nodes[u].backward, nodes[u].transfer_time) for u in (*read, *sent)]
        return _split(times)

    def _cpu_load(self, held: Held) -> tuple[float, float]:
        return _split([(self.problem.nodes[v].backward, self.problem.nodes[v].cpu_time) for v in held])

    def contiguous(self, held: Held) -> bool:
        """The forward nodes alone; no path leaves them and comes back."""
        if held not in self._contiguous:
            nodes = self.problem.nodes
            inside = {nodes[v].id for v in held if not nodes[v].backward}
            self._contiguous[held] = contiguous(self.problem, inside)
        return self._contiguous[held]

    def is_chain(self, held: Sequence[Held]) -> bool:
        """Can the devices stand in a row against which no constraint points?"""
        device = {v: d for d, nodes in enumerate(held) for v in nodes}
        waits = {(device[u], device[v]) for u, v in self._constraints if device[u] != device[v]}
        left = set(range(len(held)))
        while left:
            free = {d for d in left if not any(v == d and u in left for u, v in waits)}
            if not free:
                return False
            left -= free
        return True


def _split(times: Sequence[tuple[bool, float]]) -> tuple[float, float]:
    forward = math.fsum(time for backward, time in times if not backward)
    return forward, math.fsum(time for backward, time in times if backward)
