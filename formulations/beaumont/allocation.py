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

from ..native import NativeBuilt
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
    borders = range(1, chain.layers)
    twins = [[chain.transfers[edge] for edge in chain.twins(border)] for border in borders]
    data: dict[str, Any] = {
        "gpus": chain.gpus,
        "period": period,
        "loads": [chain.load(layer) for layer in range(chain.layers)],
        "transfers": twins if chain.full_duplex else [[sum(pair)] for pair in twins],
        "refuted": [_clause_facts(known) for known in refuted],
        "memory": None if period is None or chain.memory is None else _memory_facts(chain, period),
        "start": None if start is None else list(start),
    }
    return data


def _clause_facts(known: Known) -> tuple[list[list[int]], list[list[int]], list[int]]:
    return [sorted(group) for group in known.groups], [sorted(apart) for apart in known.apart], sorted(known.cuts)


def _memory_facts(chain: IntegerChain, period: int) -> dict[str, Any]:
    separation = Separation(chain, period)
    layers = range(chain.layers)
    lives = [separation.life(layer) for layer in layers]
    tasks = range(chain.tasks)
    return {
        "limit": chain.memory,
        "weights": list(chain.weights),
        "slots": [0 if chain.inputs_only else chain.border_size(border) for border in range(1, chain.layers)],
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


@dataclass(frozen=True)
class _Choice:
    """The variables: who is where, and which borders are cut."""

    model: Any
    on: Sequence[Sequence[Any]]
    """Indexed by layer and GPU: is the layer on this GPU?"""
    at: Sequence[Sequence[Any]]
    """at[border - 1][gpu]: is exactly one of the two layers beside the border on this GPU?"""
    cut: Sequence[Any]

    @property
    def layers(self) -> range:
        return range(len(self.on))

    @property
    def gpus(self) -> range:
        return range(len(self.on[0]))


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """The CP-SAT model of an allocation, whose period is fixed or minimised."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    choice = _choose(model, len(data["loads"]), data["gpus"])
    period = data["period"]
    if period is None:
        limit = sum(data["loads"]) + sum(map(sum, data["transfers"]))
        period = model.new_int_var(_least_load(data), limit, "period")
        model.minimize(period)
    for g in choice.gpus:
        model.add(sum(load * choice.on[i][g] for i, load in enumerate(data["loads"])) <= period)
    _link_rows(choice, data["transfers"], period)
    if data["memory"] is not None:
        _memory_rows(choice, data["memory"], data["period"])
    for groups, apart, cuts in data["refuted"]:
        _forbid(choice, groups, apart, cuts)
    for layer, gpu in enumerate(data["start"] or ()):
        model.add_hint(choice.on[layer][gpu], True)
    names = {f"x{i}_{g}": choice.on[i][g] for i in choice.layers for g in choice.gpus}
    return NativeBuilt(model, names if data["period"] is not None else {**names, "period": period})


def _least_load(data: Mapping[str, Any]) -> int:
    """Lower bound on the largest load: the largest layer, an even share, and the least two layers that must meet."""
    loads, gpus = sorted(data["loads"], reverse=True), data["gpus"]
    shared = loads[gpus - 1] + loads[gpus] if len(loads) > gpus else 0
    least: int = max(loads[0], -(-sum(loads) // gpus), shared)
    return least


def partition(model: Any, layers: int, gpus: int) -> list[list[Any]]:
    """on[layer][gpu]: GPUs are numbered by their first layers, so each partition has one form."""
    on = [[model.new_bool_var(f"x{i}_{g}") for g in range(gpus)] for i in range(layers)]
    for i, row in enumerate(on):
        model.add_exactly_one(row)
        for g in range(1, gpus):
            model.add_bool_or([on[k][g - 1] for k in range(i)] + [row[g].negated()])
    return on


def _choose(model: Any, layers: int, gpus: int) -> _Choice:
    on = partition(model, layers, gpus)
    at, cut = [], []
    for left, right in pairwise(on):
        ends = [model.new_bool_var("") for _ in range(gpus)]
        for end, a, b in zip(ends, left, right, strict=True):
            model.add_bool_xor([a, b, end.negated()])
        is_cut = model.new_bool_var("")
        model.add(sum(ends) == 2 * is_cut)
        at.append(ends)
        cut.append(is_cut)
    return _Choice(model, on, at, cut)


def _link_rows(choice: _Choice, transfers: Sequence[Sequence[int]], period: Any) -> None:
    """Traffic between two GPUs; with full duplex the two directions have a link each."""
    full_duplex = any(len(pair) > 1 for pair in transfers)
    used = [b for b, times in enumerate(transfers) if any(times)]
    for g, h in combinations(choice.gpus, 2) if used else ():
        ways: tuple[list[Any], list[Any]] = ([], [])
        for b in used:
            up = _both(choice.model, choice.on[b][g], choice.on[b + 1][h])
            down = _both(choice.model, choice.on[b][h], choice.on[b + 1][g])
            times = transfers[b]
            ways[0].append(times[0] * up + times[-1] * down)
            if full_duplex:
                ways[1].append(times[0] * down + times[-1] * up)
        for way in ways:
            if way:
                choice.model.add(sum(way) <= period)


def _both(model: Any, a: Any, b: Any) -> Any:
    both = model.new_bool_var("")
    model.add_bool_or([a.negated(), b.negated(), both])
    model.add_implication(both, a)
    model.add_implication(both, b)
    return both


def _memory_rows(choice: _Choice, facts: Mapping[str, Any], period: int) -> None:
    """Rows for each task that may run on a GPU: weights, slots, kept copies and the task's own memory fit there."""
    model, layers = choice.model, choice.layers
    delays = _delays(choice, facts)
    extra = _extra_copies(choice, facts, delays, period)
    for g in choice.gpus:
        standing = sum(facts["weights"][i] * choice.on[i][g] for i in layers)
        standing += sum(size * choice.at[b][g] for b, size in enumerate(facts["slots"]) if size)
        _area_row(choice, facts, g, delays, standing, period)
        more = _on_gpu(choice, extra, g)
        for task, copies in enumerate(facts["copies"]):
            if copies is None:
                continue  # it holds nothing, and others may run then
            layer = min(task, len(facts["copies"]) - 1 - task)
            room = facts["limit"] - facts["own"][task]
            kept = [
                size * count * choice.on[i][g]
                for i, (size, count) in enumerate(zip(facts["kept"], copies, strict=False))
            ]
            here = choice.on[layer][g]
            model.add(standing + sum(kept) <= room).only_enforce_if(here)
            if more:
                late = [
                    size * (facts["lives"][i] // period * choice.on[i][g] + more.get(i, 0))
                    for i, size in enumerate(facts["kept"])
                    if i != layer
                ]
                own = facts["kept"][layer] * copies[layer]
                model.add(standing + sum(late) + own <= room).only_enforce_if(here)


def _delays(choice: _Choice, facts: Mapping[str, Any]) -> list[Any]:
    """By how much the transfers at cut borders behind each layer lengthen its life; 0 where nothing can be sent."""
    delays: list[Any] = []
    for layer in choice.layers:
        hops = [(choice.cut[b], t) for b, t in enumerate(facts["hops"]) if b >= layer and t]
        delays.append(sum(t * cut for cut, t in hops) if hops else 0)
    return delays


def _most_delay(facts: Mapping[str, Any], layer: int) -> int:
    return sum(facts["hops"][layer:])


def _extra_copies(
    choice: _Choice, facts: Mapping[str, Any], delays: Sequence[Any], period: int
) -> dict[int, tuple[Any, int]]:
    """By layer, copies beyond those of the lifted life that the delays enforce, and how many these can be."""
    extra = {}
    for i, delay in enumerate(delays):
        plain = facts["lives"][i] - facts["lifted"][i]
        counted = facts["lives"][i] // period
        most = (plain + _most_delay(facts, i)) // period - counted
        if not isinstance(delay, int) and most > 0:
            count = choice.model.new_int_var(0, most, "")
            choice.model.add(period * (count + counted + 1) >= plain + delay + 1)
            extra[i] = count, most
    return extra


def _on_gpu(choice: _Choice, extra: Mapping[int, tuple[Any, int]], g: int) -> dict[int, Any]:
    """The extra copies of layers that are on GPU g: all or none."""
    here = {}
    for i, (count, most) in extra.items():
        here[i] = choice.model.new_int_var(0, most, "")
        choice.model.add(here[i] >= count - most + most * choice.on[i][g])
    return here


def _area_row(
    choice: _Choice, facts: Mapping[str, Any], g: int, delays: Sequence[Any], standing: Any, period: int
) -> None:
    """Little's law: sizes times lives fill at most the free memory of one period."""
    coarse = max(1, period * facts["limit"] // AREA_STEPS)
    filled = []
    for i, size in enumerate(facts["kept"]):
        fixed = size * facts["lives"][i] + facts["current"][i]
        filled.append(fixed // coarse * choice.on[i][g])
        most = _most_delay(facts, i) - facts["lifted"][i]
        if size and not isinstance(delays[i], int) and most > 0:
            late = choice.model.new_int_var(0, most, "")
            choice.model.add(late >= delays[i] - facts["lifted"][i] - most + most * choice.on[i][g])
            filled.append(size // coarse * late)
    weights = sum(w * period // coarse * choice.on[i][g] for i, w in enumerate(facts["weights"]))
    slots = sum(s * period // coarse * choice.at[b][g] for b, s in enumerate(facts["slots"]) if s)
    choice.model.add(sum(filled) + weights + slots <= -(-period * facts["limit"] // coarse))


def _forbid(
    choice: _Choice, groups: Sequence[Sequence[int]], apart: Sequence[Sequence[int]], cuts: Sequence[int]
) -> None:
    """Forbid these groups on any GPUs where the layers `apart` of each are elsewhere and the borders `cuts` are cut."""
    whole = sum(map(len, groups)) == len(choice.on)
    labellings = [tuple(range(len(groups)))] if whole else permutations(choice.gpus, len(groups))
    for gpus in labellings:
        clause = [choice.cut[border - 1].negated() for border in cuts]
        for g, group, others in zip(gpus, groups, apart, strict=True):
            clause += [choice.on[i][g].negated() for i in group]
            clause += [choice.on[i][g] for i in others]
        if all(min(group) >= g for g, group in zip(gpus, groups, strict=True)):
            choice.model.add_bool_or(clause)
