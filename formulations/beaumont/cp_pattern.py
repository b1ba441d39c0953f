"""The CP-SAT model of periodic patterns: allocation, orders, shifts and memory in whole numbers, built in a worker.

One row of activities per batch of the pattern. Numbers in brackets are the equations of the paper's program that
the constraints stand for; with literals none of its large constants is needed. `build` takes plain data; names of
variables are those that `cp.py` reads and writes. Each row stands on docs/models/cp-beaumont.md under its method and
number, and a test holds both together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

from ..native import NativeBuilt
from .instants import OrderBuilder
from .integer_chain import IntegerChain

# (row, task), or (row, edge) for transfers.
Node = tuple[int, int]


# Number of steps of the area rows: exact products of times and sizes would overflow the solver's integers.
AREA_STEPS = 2**36


class PatternModel(OrderBuilder[Node]):
    """One method per family of constraints; names of variables are those that decoding and starts use."""

    def __init__(self, chain: IntegerChain, batches: int, floor: int, ceiling: int, slack: int) -> None:
        self.nodes = [(r, t) for r in range(batches) for t in range(chain.tasks)]
        super().__init__(frozenset(node for node in self.nodes if chain.timeless[node[1]]))
        self.chain = chain
        self.ceiling = ceiling
        self.slack = slack
        self.rows = range(batches)
        self.layers = range(chain.layers)
        self.gpus = range(chain.gpus)
        self.edges = range(1, chain.tasks)
        self.period = self.integer("T", floor, ceiling)
        self.true = self.model.new_constant(1)
        self.same: dict[tuple[int, int], Any] = {}
        self.start: dict[Node, Any] = {}
        self.transfer: dict[Node, Any] = {}
        self.stages: dict[Node, list[Any]] = {}
        """Shifts of an edge in one row: literals whose number is the shift; those before the transfer first."""

    def build(self) -> None:
        self.allocate()
        self.place_tasks()
        self.order_tasks()
        for r in self.rows:
            for e in self.edges:
                self.shift(r, e)
        self.order_transfers()
        self.keep_batches_in_order()
        self.bound_batches_behind()
        if self.chain.memory is not None:
            self.fit_memory()
        self.model.minimize(self.period)

    # ---- small things ----------------------------------------------------------------------------------

    def pair_flag(self, family: str, a: Node, b: Node) -> Any:
        return self.flag(f"{family}[{a[0]},{a[1]},{b[0]},{b[1]}]")

    def together(self, i: int, j: int) -> Any:
        """Literal: do layers i and j share a GPU?"""
        return self.true if i == j else self.same[min(i, j), max(i, j)]

    def remote(self, e: int) -> Any:
        """Literal: are the two tasks of edge e on different GPUs?"""
        return self.together(self.chain.layer_of(e - 1), self.chain.layer_of(e)).negated()

    # ---- (1)-(4): allocation -----------------------------------------------------------------------------

    def allocate(self) -> None:
        """GPUs are numbered by their first layers."""
        model = self.model
        on = [[self.flag(f"on[{i},{g}]") for g in self.gpus] for i in self.layers]
        for i, row in enumerate(on):
            model.add_exactly_one(row)
            for g in self.gpus:
                if g > i:
                    model.add(row[g] == 0)
                elif g:
                    model.add_bool_or([on[j][g - 1] for j in range(i)] + [row[g].negated()])
        for i, j in combinations(self.layers, 2):
            shared = self.same[i, j] = self.flag()
            for a, b in zip(on[i], on[j], strict=True):
                model.add_bool_or([a.negated(), b.negated(), shared])
                model.add_bool_or([shared.negated(), a.negated(), b])
                model.add_bool_or([shared.negated(), a, b.negated()])
        self.on = on
        for g in self.gpus:
            load = sum(self.chain.load(i) * on[i][g] for i in self.layers)
            model.add(len(self.rows) * load <= self.period)

    # ---- (5)-(7), (17), (19), (20): tasks ------------------------------------------------------------------

    def place_tasks(self) -> None:
        """Give every task a start in the period; tasks of one GPU that take time do not overlap."""
        for r, t in self.nodes:
            duration = self.chain.durations[t]
            self.start[r, t] = self.integer(f"p[{r},{t}]", -duration, self.ceiling - duration)
            self.model.add(self.start[r, t] + duration <= self.period)
        self.model.add(self.start[0, 0] == 0)
        for g in self.gpus:
            intervals = [
                self.model.new_optional_fixed_size_interval_var(
                    self.start[r, t], self.chain.durations[t], self.on[self.chain.layer_of(t)][g], ""
                )
                for r, t in self.nodes
                if (r, t) not in self.timeless
            ]
            self.model.add_no_overlap(intervals)

    def order_tasks(self) -> None:
        """before[a, b]: a and b share a GPU, and a comes first within the period."""
        for a, b in combinations(self.nodes, 2):
            shared = self.together(self.chain.layer_of(a[1]), self.chain.layer_of(b[1]))
            if self.concerns(a, b):
                duration = sum(self.chain.durations[t] for _, t in {a, b} - self.timeless)
                self.order_with_timeless(a, b, self.start, duration, self.period, shared)
                continue
            first = self.pair_flag("w", a, b)
            second = first.negated() if shared is self.true else self.flag()
            if shared is not self.true:
                self.model.add_exactly_one([first, second, shared.negated()])
            self.before[a, b], self.before[b, a] = first, second
            for (x, y), literal in (((a, b), first), ((b, a), second)):
                gap = self.start[y] - self.start[x]
                self.require(gap >= self.chain.durations[x[1]], literal)
                self.require(gap + self.chain.durations[y[1]] <= self.period, literal)
        instant = [(r, t) for r, t in self.nodes if not self.chain.durations[t]]
        self.order_instants(node for node in instant if node not in self.timeless)
        self.keep_order(self.nodes, frozenset(instant))

    # ---- (18), (23)-(30): shifts and transfers -------------------------------------------------------------

    def shift(self, r: int, e: int) -> None:
        """Number of batches by which task e lags behind task e - 1 (both counted from 0)."""
        later, *twice = self.next_shifts((r, e - 1), (r, e))
        if e == self.chain.layers:
            self.stages[r, e] = [later, *twice]
            return
        end, start = self.start[r, e - 1] + self.chain.durations[e - 1], self.start[r, e]
        remote = self.remote(e)
        outward: list[Any] = []
        if self.chain.transfers[e] or self.chain.exclusive_buffers:  # the transfer is an activity of its own
            transfer, duration = self.place_transfer(r, e, remote), self.chain.transfers[e]
            outward = self.wrapped_shifts(f"v[{r},{e}]", end, transfer, remote)
            for literal in outward:
                self.model.add_implication(literal, remote)
            end = transfer + duration
        inward = self.wrapped_shifts(f"u[{r},{e}]", end, start, remote)
        if self.concerns((r, e - 1), (r, e)):
            self.model.add_bool_or([remote, later.negated(), inward[0]])  # without a GPU in common it says nothing
        else:
            self.model.add_implication(later, inward[0])
        self.model.add_bool_or([remote, inward[0].negated(), later])
        self.model.add_bool_or([remote, inward[1].negated(), *twice])
        for literal in twice:
            self.model.add_implication(literal, inward[1])
        self.stages[r, e] = [*outward, *inward]
        if self.chain.exclusive_buffers:
            self.exclude(r, e, outward, inward)

    def wrapped_shifts(self, name: str, end: Any, start: Any, remote: Any) -> list[Any]:
        """One shift where the next activity starts before this one ends; two where that is by more than a period."""
        once, twice = self.flag(name), self.flag(f"{name}2")
        self.model.add_implication(twice, once)
        self.require(end <= start, remote, once.negated())
        self.require(end - start <= self.period, remote, twice.negated())
        return [once, twice]

    def place_transfer(self, r: int, e: int, remote: Any) -> Any:
        duration = self.chain.transfers[e]
        start = self.transfer[r, e] = self.integer(f"c[{r},{e}]", -duration, self.ceiling - duration)
        self.require(start + duration <= self.period, remote)
        self.require(start == 0, remote.negated())
        return start

    def exclude(self, r: int, e: int, outward: list[Any], inward: list[Any]) -> None:
        """At most one period from the end of a task to that of its transfer, and from the transfer's start to the
        reader's."""
        remote, transfer, slack = self.remote(e), self.transfer[r, e], self.slack
        sent = transfer + self.chain.transfers[e] - self.start[r, e - 1] - self.chain.durations[e - 1]
        read = self.start[r, e] - transfer
        for held, (once, twice) in ((sent, outward), (read, inward)):
            self.require(held <= self.period + slack, remote, once.negated())
            self.require(held <= slack, remote, once, twice.negated())
            self.require(held <= slack - self.period, remote, twice)

    # ---- (8), (9), (14)-(16), (21): transfers on links -----------------------------------------------------

    def order_transfers(self) -> None:
        timed = [e for e in self.edges if e != self.chain.layers and self.chain.transfers[e]]
        shared = {(e, f): self.same_link(e, f) for e, f in combinations(timed, 2)}
        for e, f in combinations(timed, 2):
            if shared[e, f] is not None:
                for r in self.rows:
                    for q in self.rows:
                        self.order_pair((r, e), (q, f), shared[e, f])
        for e in timed:
            for r, q in combinations(self.rows, 2):
                self.order_pair((r, e), (q, e), self.remote(e))
        self.load_links(timed, shared)

    def same_link(self, e: int, f: int) -> Any:
        """A literal that is true where two transfers use one link; None where they never do."""
        chain = self.chain
        ends = [(chain.layer_of(edge - 1), chain.layer_of(edge)) for edge in (e, f)]
        (a, b), (c, d) = ends
        twins = e + f == chain.tasks
        if twins:
            return None if chain.full_duplex else self.remote(e)
        shared = self.flag()
        ways = [((a, c), (b, d))]
        if not chain.full_duplex:
            ways.append(((a, d), (b, c)))
        for pairs in ways:
            together = [self.together(*pair).negated() for pair in pairs]
            self.model.add_bool_or([shared, self.remote(e).negated(), *together])
        return shared

    def order_pair(self, a: Node, b: Node, shared: Any) -> None:
        first = self.pair_flag("wc", a, b)
        for (x, y), literal in (((a, b), first), ((b, a), first.negated())):
            gap = self.transfer[y] - self.transfer[x]
            self.require(gap >= self.chain.transfers[x[1]], shared, literal)
            self.require(gap + self.chain.transfers[y[1]] <= self.period, shared, literal)

    def load_links(self, timed: list[int], shared: Mapping[tuple[int, int], Any]) -> None:
        for e in timed:
            others = [
                self.chain.transfers[sum(pair) - e] * literal
                for pair, literal in shared.items()
                if e in pair and literal is not None
            ]
            busy = self.chain.transfers[e] + sum(others)
            self.require(len(self.rows) * busy <= self.period, self.remote(e))

    # ---- several batches, and what follows from the rest ---------------------------------------------------

    def laps(self, r: int, t: int) -> Any:
        """Periods between the first task of a row and task t."""
        return sum(literal for e in range(1, t + 1) for literal in self.stages[r, e])

    def keep_batches_in_order(self) -> None:
        """Each task works on the batches in turn: in one period before the next batch, or one lap ahead of it."""
        for t in range(self.chain.tasks):
            for r, q in combinations(self.rows, 2):
                ahead = self.laps(q, t) - self.laps(r, t)
                if not self.chain.timeless[t]:
                    self.model.add(ahead == self.before[(q, t), (r, t)])
                    continue
                wrapped = self.flag()
                self.model.add(ahead == wrapped)
                # The order itself, not the positions alone: times are moved later, and the order is kept then.
                self.model.add_implication(wrapped.negated(), self.before[(r, t), (q, t)])
                self.model.add_implication(wrapped, self.before[(q, t), (r, t)])

    def batches_behind(self, layer: int) -> Iterator[Any]:
        """Per row, by how many batches B lags behind F of a layer (Lemma 9)."""
        for r in self.rows:
            yield sum(
                literal for e in range(layer + 1, self.chain.backward(layer) + 1) for literal in self.stages[r, e]
            )

    def bound_batches_behind(self) -> None:
        """Between F and B a batch needs at least the times between; so many periods, but for one, are shifts."""
        elapsed = self.chain.elapsed
        for i in self.layers:
            last = self.chain.backward(i)
            least = math.ceil(Fraction(elapsed[last + 1] - elapsed[i], self.ceiling)) if self.ceiling else 0
            for r, behind in enumerate(self.batches_behind(i)):
                self.model.add(behind + 1 - self.done((r, last), (r, i)) >= least)

    # ---- memory -----------------------------------------------------------------------------------------

    def fit_memory(self) -> None:
        """(22) and (31)-(36): what a GPU holds while each of its tasks runs fits its memory.

        Sums of copies are taken over all rows: each batch of the pattern keeps copies of its own. Terms are listed and
        added once: the solver's expressions change in place under `+=`, whoever else holds them.
        """
        sizes = self.chain.activations
        kept = [i for i in self.layers if sizes[i]]
        waiting = [] if self.chain.inputs_only else [e for e in self.edges if sizes[e]]
        standing = [self._standing(i) for i in self.layers]
        copies = {(i, m): self._copies(i, m) for i in self.layers for m in kept}
        for node in self.nodes:
            layer = self.chain.layer_of(node[1])
            terms = [standing[layer], self.chain.own_size(node[1])]
            terms += [sizes[m] * (copies[layer, m] + self._started(m, node)) for m in kept]
            terms += [sizes[e] * self._direct(e, node) for e in waiting]
            terms += self._running(node)
            self.model.add(sum(terms) <= self.chain.memory)
        for layer in self.layers:
            self._area(layer)

    def _standing(self, i: int) -> Any:
        """(33)-(35): what the GPU of layer i holds all the time, its weights and both slots of each of its borders."""
        chain = self.chain
        terms = [chain.weights[j] * self.together(i, j) for j in self.layers]
        for border in range(1, chain.layers):
            size = 0 if chain.inputs_only else chain.border_size(border)
            if size:
                terms.append(size * self._at_border(i, border))
        return sum(terms)

    def _at_border(self, i: int, border: int) -> Any:
        """Literal: the GPU of layer i is at one side of the border, and another GPU at the other side."""
        left, right = self.together(i, border - 1), self.together(i, border)
        if i in (border - 1, border):
            return self.together(border - 1, border).negated()
        one = self.flag()
        self.model.add_bool_or([one, left.negated(), right])
        self.model.add_bool_or([one, left, right.negated()])
        return one

    def _copies(self, i: int, m: int) -> Any:
        """(32): by how many batches B of layer m is behind F, in all rows, as far as it is on the GPU of layer i."""
        behind = sum(self.batches_behind(m))
        if i == m:
            return behind
        most = self._most_copies(m)
        number = self.model.new_int_var(0, most, "")
        self.require(number >= behind, self.together(i, m))
        return number

    def _most_copies(self, m: int) -> int:
        """Upper bound on the copies of layer m, by the stages between F and B and by the GPU's memory."""
        chain, rows = self.chain, len(self.rows)
        assert chain.memory is not None
        stages = sum(len(self.stages[0, e]) for e in range(m + 1, chain.backward(m) + 1))
        if chain.timeless[m] or chain.timeless[chain.backward(m)]:
            return rows * stages  # it may be there for no time at all, so its size says nothing
        room = chain.memory - chain.weights[m] - chain.own_size(m)
        return max(0, min(rows * stages, room // chain.activations[m] + rows))

    def _started(self, m: int, at: Node) -> Any:
        """Lemma 10: rows in which F of layer m comes before a task, less those in which B does."""
        last = self.chain.backward(m)
        started = [self.begun((r, m), at) for r in self.rows if (r, m) != at or at in self.timeless]
        return sum(started) - sum(self.done((r, last), at) for r in self.rows)

    def _running(self, at: Node) -> list[Any]:
        """What other tasks of the GPU hold while they run, where this one takes no time and may be within them."""
        if at not in self.timeless:
            return []
        others = [(x, self.chain.current_size(x[1])) for x in self.nodes if x not in self.timeless]
        return [size * (self.begun(x, at) - self.done(x, at)) for x, size in others if size]

    def _direct(self, e: int, at: Node) -> Any:
        """(22): rows in which what task e - 1 wrote waits for task e while another task runs."""
        timeless = self.timeless
        terms = []
        for r in self.rows:
            a, b = (r, e - 1), (r, e)
            if timeless & {a, b, at}:
                terms.append(self._counted(a, b, at))
            elif at not in (a, b):
                terms.append(self.waits(a, b, at))
        return sum(terms)

    def _counted(self, a: Node, b: Node, at: Node) -> Any:
        """What `_direct` counts in literals, counted in numbers of batches, since one of the three tasks takes no
        time."""
        layers = [self.chain.layer_of(node[1]) for node in (a, b, at)]
        number = self.model.new_int_var(0, 2, "")
        shifts = sum(self.next_shifts(a, b))
        together = [self.together(layers[0], layers[1]), self.together(layers[0], layers[2])]
        self.require(number >= shifts + self.done(a, at) - self.begun(b, at), *together)
        return number

    def _area(self, i: int) -> None:
        """Little's law on the GPU of layer i, at the longest period that is asked for."""
        chain = self.chain
        assert chain.memory is not None
        total = max(1, self.ceiling * chain.memory)
        unit = max(1, total // AREA_STEPS)
        batches = len(self.rows)
        used = []
        for m in self.layers:
            life = chain.elapsed[chain.backward(m) + 1] - chain.elapsed[m]
            of_batch = chain.activations[m] * life + chain.current_area(m)
            area = batches * of_batch + self.ceiling * chain.weights[m]
            used.append((area // unit) * self.together(i, m))
        if not chain.inputs_only:
            for border in range(1, chain.layers):
                size = self.ceiling * chain.border_size(border) // unit
                if size:
                    used.append(size * self._at_border(i, border))
        self.model.add(sum(used) <= -(-total // unit))


BUILDER = f"{__name__}:build"


def plain_chain(chain: IntegerChain) -> dict[str, Any]:
    """The chain as the payload of `build` holds it: a worker needs no fractions."""
    return {name: getattr(chain, name) for name in IntegerChain.__dataclass_fields__ if name != "steps"}


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker: periods from `floor` to `ceiling` steps, for so many `batches` together.

    `slack`: steps beyond the period that an exclusive buffer may be held. `allocation`: the GPU of each layer where it
    is given, GPUs numbered by their first layers.
    """
    chain = IntegerChain(**data["chain"], steps=Fraction(1))
    builder = PatternModel(chain, data["batches"], data["floor"], data["ceiling"], data["slack"])
    builder.build()
    for layer, gpu in enumerate(data["allocation"] or ()):
        builder.model.add(builder.on[layer][gpu] == 1)
    offset = data["slack"] / data["scale"]  # what is held too long lengthens the period that a plan will have
    return NativeBuilt(builder.model, builder.variables, data["scale"], offset, data["loss"] + offset)
