"""Which layers may share a GPU at a given period? A relaxation without any schedule, as a native CP-SAT model.

Loads of GPUs and links, Little's law (AREA) and the least memory while each task runs (INSTANT), all in the
least times that layers stay alive; and clauses for everything that schedules have refuted before. Without a
memory limit the loads alone decide, and the period is minimised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import Any

from ..native import NativeBuilder, NativeBuilt
from .fixed_allocation import Known, lifted
from .integer_chain import IntegerChain

BUILDER = f"{__name__}:build"

# Number of steps of the AREA rows: exact products of times and sizes would overflow the solver's integers.
AREA_STEPS = 2**36


@dataclass(frozen=True)
class Separation:
    """The least time between the starts of two tasks of one GPU, at a period."""

    chain: IntegerChain
    period: int

    def __call__(self, first: int, second: int) -> int:
        """Tasks of one GPU cannot meet modulo the period: the elapsed time is lifted to one where they do not.

        Those that take no time can.
        """
        chain, period = self.chain, self.period
        least = chain.elapsed[second] - chain.elapsed[first]
        if chain.timeless[first] or chain.timeless[second]:
            return least
        return lifted(least, chain.durations[first], chain.durations[second], period)

    def life(self, layer: int) -> int:
        """Time from the start of a layer's forward task to the end of its backward task."""
        last = self.chain.backward(layer)
        return self(layer, last) + self.chain.durations[last]

    def copies(self, layer: int, task: int) -> int:
        """The least number of kept inputs of a layer on the GPU while a task of the same GPU runs, besides its own.

        All are counted at the start of the task. Where all tasks take time nothing changes before its end.
        """
        chain, period = self.chain, self.period
        first, last = layer, chain.backward(layer)
        if task == first:
            return max(0, -(-self.life(layer) // period) - 1)
        if task == last:
            return self(first, last) // period + 1
        life = self.life(layer)
        least = life // period
        changing = chain.timeless[first] or chain.timeless[last]
        if not changing and life % period and period - life % period < chain.durations[task]:
            least += 1
        if first < task < last:
            ended = self(task, last) + chain.durations[last]
            least = max(least, self(first, task) // period - (-ended // period))
        return least


def payload(
    chain: IntegerChain, period: int | None, refuted: Iterable[Known] = (), start: Sequence[int] | None = None
) -> dict[str, Any]:
    """Plain data for `build`; a period of None minimises it, with the loads alone (no memory limit)."""
    twins = [[chain.transfers[edge] for edge in chain.twins(border)] for border in range(1, chain.layers)]
    return {
        "gpus": chain.gpus,
        "period": period,
        "loads": [chain.load(layer) for layer in range(chain.layers)],
        "transfers": twins if chain.full_duplex else [[sum(pair)] for pair in twins],
        "refuted": [
            (
                [sorted(group) for group in known.groups],
                [sorted(apart) for apart in known.apart],
                sorted(known.cuts),
            )
            for known in refuted
        ],
        "memory": None if period is None or chain.memory is None else _memory_facts(chain, period),
        "start": None if start is None else list(start),
    }


def _memory_facts(chain: IntegerChain, period: int) -> dict[str, Any]:
    separation = Separation(chain, period)
    layers = range(chain.layers)
    lives = [separation.life(layer) for layer in layers]
    tasks = range(chain.tasks)
    return {
        "limit": chain.memory,
        "weights": list(chain.weights),
        "slots": [chain.border_size(border) if chain.reserved else 0 for border in range(1, chain.layers)],
        "kept": list(chain.activations[: chain.layers]),
        "lives": lives,
        "lifted": [lives[i] - chain.elapsed[chain.backward(i) + 1] + chain.elapsed[i] for i in layers],
        "current": [chain.current_area(layer) for layer in layers],
        "own": [chain.own_size(task) for task in tasks],
        "copies": [
            None if chain.timeless[task] else [separation.copies(layer, task) for layer in layers] for task in tasks
        ],
        "hops": [chain.border_transfer(border) for border in range(1, chain.layers)],
    }


# ---- inside the worker -----------------------------------------------------------------------------------


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """The CP-SAT model of an allocation, whose period is fixed or minimised."""
    return _Allocation(data).build()


def partition(model: Any, layers: int, gpus: int) -> list[list[Any]]:
    """on[layer][gpu]: GPUs are numbered by their first layers, so each partition has one form."""
    on = [[model.new_bool_var(f"x{i}_{g}") for g in range(gpus)] for i in range(layers)]
    for i, row in enumerate(on):
        model.add_exactly_one(row)
        for g in range(1, gpus):
            model.add_bool_or([on[k][g - 1] for k in range(i)] + [row[g].negated()])
    return on


class _Allocation(NativeBuilder):
    """The variables say who is where, and which borders are cut; one method per family of rows."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__()
        self.data, self.period = data, data["period"]
        self.layers, self.gpus = range(len(data["loads"])), range(data["gpus"])
        self.on = partition(self.model, len(self.layers), len(self.gpus))
        """Indexed by layer and GPU: is the layer on this GPU?"""
        self.at: list[list[Any]] = []
        """at[border - 1][gpu]: is exactly one of the two layers beside the border on this GPU?"""
        self.cut: list[Any] = []
        for left, right in pairwise(self.on):
            ends = [self.flag() for _ in self.gpus]
            for end, a, b in zip(ends, left, right, strict=True):
                self.model.add_bool_xor([a, b, end.negated()])
            self.cut.append(self.flag())
            self.model.add(sum(ends) == 2 * self.cut[-1])
            self.at.append(ends)

    def build(self) -> NativeBuilt:
        data, model = self.data, self.model
        names = {f"x{i}_{g}": self.on[i][g] for i in self.layers for g in self.gpus}
        if self.period is None:
            limit = sum(data["loads"]) + sum(map(sum, data["transfers"]))
            # No largest load is below the largest layer, an even share, and the least two layers that must meet.
            loads, gpus = sorted(data["loads"], reverse=True), len(self.gpus)
            shared = loads[gpus - 1] + loads[gpus] if len(loads) > gpus else 0
            least = max(loads[0], -(-sum(loads) // gpus), shared)
            self.period = names["period"] = model.new_int_var(least, limit, "period")
            model.minimize(self.period)
        for g in self.gpus:
            model.add(sum(load * self.on[i][g] for i, load in enumerate(data["loads"])) <= self.period)
        self.link_rows(data["transfers"])
        if data["memory"] is not None:
            self.memory_rows(data["memory"])
        for groups, apart, cuts in data["refuted"]:
            self.forbid(groups, apart, cuts)
        for layer, gpu in enumerate(data["start"] or ()):
            model.add_hint(self.on[layer][gpu], True)
        return NativeBuilt(model, names)

    def link_rows(self, transfers: Sequence[Sequence[int]]) -> None:
        """Traffic between two GPUs; with full duplex the two directions have a link each."""
        full_duplex = any(len(pair) > 1 for pair in transfers)
        used = [b for b, times in enumerate(transfers) if any(times)]
        for g, h in combinations(self.gpus, 2) if used else ():
            ways: tuple[list[Any], list[Any]] = ([], [])
            for b in used:
                up = self.both(self.on[b][g], self.on[b + 1][h])
                down = self.both(self.on[b][h], self.on[b + 1][g])
                times = transfers[b]
                ways[0].append(times[0] * up + times[-1] * down)
                if full_duplex:
                    ways[1].append(times[0] * down + times[-1] * up)
            for way in ways:
                if way:
                    self.model.add(sum(way) <= self.period)

    def both(self, a: Any, b: Any) -> Any:
        both = self.flag()
        self.model.add_bool_or([a.negated(), b.negated(), both])
        self.model.add_implication(both, a)
        self.model.add_implication(both, b)
        return both

    def memory_rows(self, facts: Mapping[str, Any]) -> None:
        """Rows for each task that may run on a GPU: weights, slots, kept copies and the task's own memory fit there."""
        # By how much the transfers at cut borders behind each layer lengthen its life; 0 where nothing can be sent.
        hops = [(b, time) for b, time in enumerate(facts["hops"]) if time]
        delays = [sum(time * self.cut[b] for b, time in hops if b >= layer) for layer in self.layers]
        extra = self.extra_copies(facts, delays)
        for g in self.gpus:
            standing = sum(facts["weights"][i] * self.on[i][g] for i in self.layers)
            standing += sum(size * self.at[b][g] for b, size in enumerate(facts["slots"]) if size)
            self.area_row(facts, g, delays, standing)
            more = self.extra_here(extra, g)
            for task, copies in enumerate(facts["copies"]):
                if copies is None:
                    continue  # it holds nothing, and others may run then
                layer = min(task, len(facts["copies"]) - 1 - task)
                room, here = facts["limit"] - facts["own"][task], self.on[layer][g]
                kept = [size * copies[i] * self.on[i][g] for i, size in enumerate(facts["kept"])]
                self.require(standing + sum(kept) <= room, here)
                if more:
                    late = [
                        size * (facts["lives"][i] // self.period * self.on[i][g] + more.get(i, 0))
                        for i, size in enumerate(facts["kept"])
                        if i != layer
                    ]
                    own = facts["kept"][layer] * copies[layer]
                    self.require(standing + sum(late) + own <= room, here)

    def extra_copies(self, facts: Mapping[str, Any], delays: Sequence[Any]) -> dict[int, tuple[Any, int]]:
        """By layer, copies beyond those of the lifted life that the delays enforce, and how many these can be."""
        extra = {}
        for i, delay in enumerate(delays):
            plain = facts["lives"][i] - facts["lifted"][i]
            counted = facts["lives"][i] // self.period
            most = (plain + sum(facts["hops"][i:])) // self.period - counted
            if not isinstance(delay, int) and most > 0:
                count = self.model.new_int_var(0, most, "")
                self.model.add(self.period * (count + counted + 1) >= plain + delay + 1)
                extra[i] = count, most
        return extra

    def extra_here(self, extra: Mapping[int, tuple[Any, int]], g: int) -> dict[int, Any]:
        """The extra copies of layers that are on GPU g: all or none."""
        here = {}
        for i, (count, most) in extra.items():
            here[i] = self.model.new_int_var(0, most, "")
            self.model.add(here[i] >= count - most + most * self.on[i][g])
        return here

    def area_row(self, facts: Mapping[str, Any], g: int, delays: Sequence[Any], standing: Any) -> None:
        """Little's law: sizes times lives fill at most the free memory of one period."""
        period = self.period
        coarse = max(1, period * facts["limit"] // AREA_STEPS)
        filled = []
        for i, size in enumerate(facts["kept"]):
            fixed = size * facts["lives"][i] + facts["current"][i]
            filled.append(fixed // coarse * self.on[i][g])
            most = sum(facts["hops"][i:]) - facts["lifted"][i]
            if size and not isinstance(delays[i], int) and most > 0:
                late = self.model.new_int_var(0, most, "")
                self.model.add(late >= delays[i] - facts["lifted"][i] - most + most * self.on[i][g])
                filled.append(size // coarse * late)
        weights = sum(w * period // coarse * self.on[i][g] for i, w in enumerate(facts["weights"]))
        slots = sum(s * period // coarse * self.at[b][g] for b, s in enumerate(facts["slots"]) if s)
        self.model.add(sum(filled) + weights + slots <= -(-period * facts["limit"] // coarse))

    def forbid(self, groups: Sequence[Sequence[int]], apart: Sequence[Sequence[int]], cuts: Sequence[int]) -> None:
        """Forbid these groups on any GPUs where the layers `apart` of each are elsewhere and the borders `cuts` are
        cut."""
        whole = sum(map(len, groups)) == len(self.on)
        labellings = [tuple(range(len(groups)))] if whole else permutations(self.gpus, len(groups))
        for gpus in labellings:
            clause = [self.cut[border - 1].negated() for border in cuts]
            for g, group, others in zip(gpus, groups, apart, strict=True):
                clause += [self.on[i][g].negated() for i in group]
                clause += [self.on[i][g] for i in others]
            if all(min(group) >= g for g, group in zip(gpus, groups, strict=True)):
                self.model.add_bool_or(clause)
