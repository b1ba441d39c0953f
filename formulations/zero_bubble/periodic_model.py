"""Is there a periodic schedule of a given period? A native CP-SAT model in whole numbers, built in a worker.

Each block has a position s in [0, P) and a height h: micro-batch n starts it at s + P (h + n). For blocks a and b of
one device the literal before(a, b) says that a comes first within the period. The number of micro-batches of which a
has changed the device's memory when b starts is then before(a, b) - h(a), beside a number that is the same for all a;
since the changes of one micro-batch sum to 0, it does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..native import NativeBuilder, NativeBuilt

BUILDER = f"{__name__}:build"

# These models are logic: clauses refute them many times faster than linear relaxations, but for some whose memory
# is tight on average; so one worker has no relaxation, another one the strongest, and none looks for solutions at
# random. Symmetries are not looked for, either: in ortools 9.15 that raises an IndexError on some models of
# periods.
SEARCH: Mapping[str, Any] = {
    "linearization_level": 0,
    "subsolvers": ["no_lp", "max_lp", "quick_restart_no_lp", "default_lp", "quick_restart", "reduced_costs"],
    "ignore_subsolvers": [
        *("fj", "fs_random", "fs_random_no_lp", "fs_random_quick_restart", "fs_random_quick_restart_no_lp")
    ],
    "use_feasibility_jump": False,
    "num_violation_ls": 0,
    "symmetry_level": 0,
}

# Above this, products of times and sizes would come near the limits of the solver's integers: no area rows are made.
AREA_STEPS = 2**55


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker."""
    return PeriodModel(data).build()


class PeriodModel(NativeBuilder):
    """One method per family of constraints; blocks by their positions in the problem."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__()
        self.data = data
        self.period, self.times, self.most = data["period"], data["times"], data["most"]
        anchor = data["anchor"]
        self.starts = [
            self.integer(f"s[{b}]", 0, 0 if b == anchor else self.period - 1) for b in range(len(self.times))
        ]
        self.heights = [
            self.integer(f"h[{b}]", *((0, 0) if b == anchor else (-self.most, self.most)))
            for b in range(len(self.times))
        ]
        self.before: dict[tuple[int, int], Any] = {}

    def build(self) -> NativeBuilt:
        self.order_pairs()
        self.order_instants()
        self.keep_edges()
        self.keep_distances()
        for device in self.data["memory"]:
            self.memory(device)
            self.area(device)
            if device["early"]:
                self.warm_up_and_drain(device)
        return NativeBuilt(self.model, self.variables, offset=self.data["value"], parameters=SEARCH)

    def order_pairs(self) -> None:
        """Two blocks of one device come one after the other, around the period; at most one of them takes no time."""
        for a, b in self.data["pairs"]:
            first = self.flag(f"w[{a},{b}]")
            self.before[a, b], self.before[b, a] = first, first.negated()
            for x, y in ((a, b), (b, a)):
                gap = self.starts[y] - self.starts[x]
                self.require(gap >= self.times[x], self.before[x, y])
                self.require(gap <= self.period - self.times[y], self.before[x, y])

    def order_instants(self) -> None:
        """Blocks without time may share an instant; then the earlier micro-batch comes first, and in the same one a."""
        for a, b in self.data["instants"]:
            first, older = self.flag(f"w[{a},{b}]"), self.flag(f"g[{a},{b}]")
            self.before[a, b], self.before[b, a] = first, first.negated()
            ahead = self.heights[a] - self.heights[b]
            self.require(ahead >= 0, older)
            self.require(ahead <= -1, older.negated())
            gap = self.starts[b] - self.starts[a]
            self.require(gap >= 0, first)
            self.require(gap >= 1, first, older.negated())
            self.require(gap <= 0, first.negated())
            self.require(gap <= -1, first.negated(), older)

    def keep_edges(self) -> None:
        """A block starts as many whole periods later as its wait asks for beyond the gap of the two positions."""
        for a, b, least, offset in self.data["edges"]:
            waits = self.heights[b] - self.heights[a] + offset
            gap = self.starts[b] - self.starts[a]
            self.model.add(gap + self.period * waits >= least)
            if (a, b) in self.before:
                if a != b and least + self.times[b] > 0:
                    self.model.add(waits >= 1 - self.before[a, b])
            elif a != b and least > 1 - self.period:
                within = self.flag()
                self.require(gap >= least, within)
                self.require(gap <= least - 1, within.negated())
                self.model.add(waits >= 1 - within)

    def keep_distances(self) -> None:
        """Whole periods that the longest path between two blocks of one device takes: implied rows, and strong ones."""
        for a, b, if_first, if_later in self.data["distances"]:
            apart = self.heights[b] - self.heights[a]
            self.model.add(apart >= if_later - (if_later - if_first) * self.before[a, b])

    def changed(self, a: int, b: int) -> Any:
        """Number of micro-batches for which `a` has changed the memory when `b` starts."""
        return self.before[a, b] - self.heights[a]

    def memory(self, device: Mapping[str, Any]) -> None:
        """Memory suffices when a block starts that takes some or has a workspace; and where a micro-batch may give back
        before it takes, it gives no more than is there."""
        changes = device["changes"]
        for b, workspace in device["at"]:
            own = [] if b not in changes else [changes[b] * ((changes[b] > 0) - self.heights[b])]
            others = [change * self.changed(a, b) for a, change in changes.items() if a != b]
            if device["room"] is not None:
                self.model.add(workspace + sum(own + others) <= device["room"])
        if device["early"]:
            for b, change in changes.items():
                if change < 0:
                    others = [other * self.changed(a, b) for a, other in changes.items() if a != b]
                    self.model.add(change * (1 - self.heights[b]) + sum(others) >= -device["standing"])

    def area(self, device: Mapping[str, Any]) -> None:
        """Little's law: what the rows above say about instants, summed over the period. The linear relaxation sees by
        it that waiting costs memory."""
        room, period = device["room"], self.period
        largest = max([1, *(workspace for _, workspace in device["at"])])
        if room is None or 2 * self.most * period * max(room, largest) > AREA_STEPS:
            return
        held = [
            -change * (self.starts[b] + period * self.heights[b] + self.times[b] * (change < 0))
            for b, change in device["changes"].items()
        ]
        used = sum(workspace * self.times[b] for b, workspace in device["at"])
        self.model.add(sum(held) <= period * room - used)

    def warm_up_and_drain(self, device: Mapping[str, Any]) -> None:
        """The first micro-batches have none before them, the last ones none after them: events that the steady state
        counts for those are left out. Where no micro-batch gives before it takes, that never makes a device fuller."""
        changes, gives = device["changes"], {b: c for b, c in device["changes"].items() if c < 0}
        full = {} if device["room"] is None else dict(device["at"])
        for b in sorted({*full, *gives}):
            ahead = {a: self.heights[b] + self.changed(a, b) for a in changes if a != b}
            for n in range(-2 * self.most, 2 * self.most):
                # For n >= 0 this is micro-batch n; for n < 0 the one that comes -n before the first that does not come
                # any more.
                others = sum(changes[a] * self.counted(n, events) for a, events in ahead.items())
                own = n + 1 if n >= 0 else min(0, n + 1)
                if b in full:
                    taken = own if changes.get(b, 0) > 0 else own - 1
                    self.model.add(full[b] + changes.get(b, 0) * taken + others <= device["room"])
                if b in gives:
                    self.model.add(changes[b] * own + others >= -device["standing"])

    def counted(self, n: int, events: Any) -> Any:
        """n + events, but no less than 0 from the first micro-batch on, and no more than 0 before the end."""
        counted = self.model.new_int_var(-5 * self.most, 5 * self.most, "")
        if n >= 0:
            self.model.add_max_equality(counted, [n + events, 0])
        else:
            self.model.add_min_equality(counted, [n + events, 0])
        return counted
