"""The native model of a schedule of given micro-batches as plain data for a worker, and its builder there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..native import NativeBuilder, NativeBuilt
from .finite_memory import MemoryRow
from .finite_problem import SPAN, FiniteProblem, Node, Windows

BUILDER = f"{__name__}:build"

# The largest value of a row, so that sums of rows stay within the integers of the solver.
LARGEST = 2**60
# The base in which sums that may be larger are written, digit by digit.
BASE = 2**24


def start_name(b: int, n: int) -> str:
    return f"s[{b},{n}]"


def order_name(first: Sequence[int], second: Sequence[int]) -> str:
    return f"o[{first[0]},{first[1]},{second[0]},{second[1]}]"


def rank_name(b: int, n: int) -> str:
    return f"r[{b},{n}]"


def plain_data(
    finite: FiniteProblem,
    windows: Windows,
    rows: Iterable[MemoryRow],
    objective: str,
    least: int,
    limit: int,
    factor: int,
    loss: int = 0,
) -> dict[str, Any]:
    """The problem as the payload of `build` holds it; starts are in parts of a step, `factor` of them to each."""
    return {
        "times": list(finite.times),
        "arcs": [[arc.source, arc.target, arc.wait, arc.offset] for arc in finite.arcs],
        "batches": finite.batches,
        "on_device": [list(blocks) for blocks in finite.on_device],
        "early": [list(row) for row in windows.early],
        "late": [list(row) for row in windows.late],
        "rows": [[[list(term) for term in row.terms], row.most] for row in rows],
        "span": objective == SPAN,
        "least": least,
        "limit": limit,
        "factor": factor,
        "scale": float(finite.steps * factor),
        "loss": loss / (finite.steps * factor),
        "hint": {},
    }


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker: values from `least` to `limit` parts of a step."""
    builder = FiniteModel(data)
    builder.build()
    for name, value in data["hint"].items():
        if name in builder.variables:
            builder.model.add_hint(builder.variables[name], value)
    return NativeBuilt(builder.model, builder.variables, data["scale"], 0.0, data["loss"])


class FiniteModel(NativeBuilder):
    """The model: a start for each run, and an order for two runs of a device where its memory depends on it."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__()
        self.data = data
        self.batches: int = data["batches"]
        self.times = [time * data["factor"] for time in data["times"]]
        self.start: dict[Node, Any] = {}
        self.before: dict[tuple[Node, Node], Any] = {}
        """Literals for "the first run is before the second", by two runs, the smaller one first."""
        self.rank: dict[Node, Any] = {}

    def build(self) -> None:
        self._starts()
        self._paths()
        for blocks in self.data["on_device"]:
            self._no_overlap(blocks)
        for terms, most in self.data["rows"]:
            self._at_most([(change, self._first(tuple(i), tuple(k)), 1) for i, k, change in terms], most)
        self._orders_follow()
        self._value()

    def _starts(self) -> None:
        factor = self.data["factor"]
        for b, (early, late) in enumerate(zip(self.data["early"], self.data["late"], strict=True)):
            for n in range(self.batches):
                self.start[b, n] = self.integer(start_name(b, n), early[n] * factor, late[n] * factor)

    def _paths(self) -> None:
        factor = self.data["factor"]
        for i, j, wait, offset in self.data["arcs"]:
            for n in range(self.batches - offset):
                self.model.add(self.start[j, n + offset] >= self.start[i, n] + wait * factor)
        for b, time in enumerate(self.times):
            for n in range(self.batches - 1):
                self.model.add(self.start[b, n + 1] >= self.start[b, n] + time)

    def _no_overlap(self, blocks: Sequence[int]) -> None:
        self.model.add_no_overlap(
            self.model.new_fixed_size_interval_var(self.start[b, n], self.times[b], "")
            for b in blocks
            for n in range(self.batches)
        )

    def _at_most(self, terms: list[tuple[int, Any, int]], most: int) -> None:
        """Add the row: the sum of coefficients times variables is at most `most`.

        A term is (coefficient, variable, upper bound of the variable); lower bounds are 0. Where the sum is too long
        for the solver's integers, it is written to the base `BASE`: what the last digits make beyond those of `most`
        is carried to the next ones, in whole units of them.
        """
        while sum(abs(change) * far for change, _, far in terms) + abs(most) > LARGEST:
            far = sum(far for _, _, far in terms)
            carry = self.model.new_int_var(0, far, "")
            self.model.add(sum(change % BASE * x for change, x, _ in terms) <= most % BASE + BASE * carry)
            terms = [(1, carry, far), *((change // BASE, x, far) for change, x, far in terms if change // BASE)]
            most //= BASE
        self.model.add(sum(change * x for change, x, _ in terms) <= most)

    def _first(self, first: Node, second: Node) -> Any:
        """A literal for "the first run is before the second", in whichever order they are given."""
        return self._precedes(first, second) if first < second else ~self._precedes(second, first)

    def _precedes(self, first: Node, second: Node) -> Any:
        """A literal: the first run ends before the second one starts; where it is false, the other way round."""
        if (first, second) not in self.before:
            literal = self.flag(order_name(first, second))
            self.before[first, second] = literal
            for (i, n), (k, u), side in ((first, second, literal), (second, first, ~literal)):
                self.require(self.start[i, n] + self.times[i] <= self.start[k, u], side)
            if not self.times[first[0]] and not self.times[second[0]]:
                self._rank_apart(first, second, literal)
        return self.before[first, second]

    def _rank_apart(self, first: Node, second: Node, literal: Any) -> None:
        """Several blocks without time may run at one instant; then ranks keep their orders free of cycles."""
        self._make_ranks()
        self.require(self.rank[first] + 1 <= self.rank[second], literal)
        self.require(self.rank[second] + 1 <= self.rank[first], ~literal)

    def _make_ranks(self) -> None:
        if self.rank:
            return
        timeless = [(b, n) for b, time in enumerate(self.times) if not time for n in range(self.batches)]
        for b, n in timeless:
            self.rank[b, n] = self.integer(rank_name(b, n), 0, len(timeless) - 1)
        loops = [(b, b, 0, 1) for b, time in enumerate(self.times) if not time]
        for i, j, wait, offset in [*self.data["arcs"], *loops]:
            if not wait and not self.times[j]:
                for n in range(self.batches - offset):
                    self.model.add(self.rank[i, n] + 1 <= self.rank[j, n + offset])

    def _orders_follow(self) -> None:
        """Blocks run their micro-batches in order: what comes before a run comes before all later ones of its block."""
        for ((i, n), (k, u)), literal in self.before.items():
            earlier, later = self.before.get(((i, n - 1), (k, u))), self.before.get(((i, n), (k, u + 1)))
            for other in (earlier, later):
                if other is not None and i != k:
                    self.model.add_implication(literal, other)

    def _value(self) -> None:
        data, model, last = self.data, self.model, self.batches - 1
        value = self.integer("T", data["least"], data["limit"])
        if not data["span"]:
            for b, time in enumerate(self.times):
                model.add(value >= self.start[b, last] + time)
        else:
            for blocks in data["on_device"]:
                firsts, lasts = self._extremes(blocks)
                for a in firsts:
                    for b in lasts:
                        model.add(value >= self.start[b, last] + self.times[b] - self.start[a, 0])
        model.minimize(value)

    def _extremes(self, blocks: Sequence[int]) -> tuple[list[int], list[int]]:
        """Blocks of a device that may start first, and those that may end last: no other one comes before, or after."""
        within = [(i, j) for i, j, _, offset in self.data["arcs"] if not offset]
        here = set(blocks)
        after = {b: _reachable(b, within) & here for b in blocks}
        follows = set().union(*after.values()) if after else set()
        return [b for b in blocks if b not in follows], [b for b in blocks if not after[b]]


def _reachable(block: int, edges: Sequence[tuple[int, int]]) -> set[int]:
    """The blocks to which paths lead from this one."""
    following: dict[int, list[int]] = {}
    for i, j in edges:
        following.setdefault(i, []).append(j)
    reached: set[int] = set()
    waiting = [block]
    while waiting:
        for j in following.get(waiting.pop(), ()):
            if j not in reached:
                reached.add(j)
                waiting.append(j)
    return reached
