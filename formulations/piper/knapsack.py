"""The exact multiple-choice knapsack: one option per layer, least cost, memory (whole numbers) within a limit.

Partial choices are extended layer by layer; what is dominated (another one is neither dearer nor larger) or
cannot end below the best known choice, by the bound of the linear relaxation, is dropped. Equal layers lead
to equal partial choices, different ones are decided by the bound, so both ends of the scale stay small.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, TypeVar

from ...instances.physics.tolerances import SUM_ROUNDING


class Option(NamedTuple):
    cost: float
    memory: int
    number: int = 0
    """The number by which the caller knows the option."""


@dataclass(frozen=True, slots=True)
class Selection:
    cost: float
    numbers: tuple[int, ...]
    """The chosen option of each layer."""


class _Step(NamedTuple):
    """One exchange on the lower hull of a layer, which saves memory and costs more."""

    rate: float
    memory: int
    cost: float
    layer: int


class _Partial(NamedTuple):
    memory: int
    cost: float
    option: Option | None
    before: _Partial | None


_Choice = TypeVar("_Choice", Option, _Partial)


def select(layers: Sequence[Sequence[Option]], limit: int | None) -> Selection | None:
    """The cheapest choice of one option per layer; None where none fits."""
    if limit is None:
        return _selection([min(options, key=lambda option: option.cost) for options in layers])
    return _Search([undominated(options) for options in layers], limit).run()


def enclosure(layers: Sequence[Sequence[Option]], limit: int | None) -> tuple[float, float] | None:
    """A lower bound on the least cost, by the linear relaxation, and the cost of a choice that fits; far quicker than
    `select`. None where none fits."""
    if limit is None:
        selection = select(layers, None)
        return None if selection is None else (selection.cost, selection.cost)
    return _Search([undominated(options) for options in layers], limit).enclosure()


def _selection(chosen: Sequence[Option]) -> Selection:
    return Selection(sum(option.cost for option in chosen), tuple(option.number for option in chosen))


def undominated(choices: Iterable[_Choice]) -> list[_Choice]:
    """The options that no other one beats in both, by growing memory and falling cost."""
    kept: list[_Choice] = []
    for choice in sorted(choices, key=lambda choice: (choice.memory, choice.cost)):
        if not kept or choice.cost < kept[-1].cost:
            kept.append(choice)
    return kept


class _Search:
    """`layers` from here on: undominated options, ordered so that equal layers are neighbours."""

    def __init__(self, layers: list[list[Option]], limit: int) -> None:
        steps = [_hull_steps(options, v) for v, options in enumerate(layers)]
        best_rate = [max((step.rate for step in of_layer), default=0.0) for of_layer in steps]
        self.order = sorted(range(len(layers)), key=lambda v: (-best_rate[v], layers[v]))
        self.layers = [layers[v] for v in self.order]
        self.steps = [[step._replace(layer=i) for step in steps[v]] for i, v in enumerate(self.order)]
        self.limit = limit
        self.least_memory = [*accumulate((options[0].memory for options in reversed(self.layers)), initial=0)][::-1]
        self.most_memory = [*accumulate((options[-1].memory for options in reversed(self.layers)), initial=0)][::-1]
        self.cheapest = [*accumulate((options[-1].cost for options in reversed(self.layers)), initial=0.0)][::-1]

    def enclosure(self) -> tuple[float, float] | None:
        if self.least_memory[0] > self.limit:
            return None
        lower = self.cheapest[0] + _RestBound(self.steps).cost(self.most_memory[0] - self.limit)
        upper = sum(option.cost for option in self._greedy())
        return min(lower, upper) * (1 - SUM_ROUNDING), upper

    def run(self) -> Selection | None:
        if self.least_memory[0] > self.limit:
            return None
        chosen = self._greedy()
        cost = sum(option.cost for option in chosen)
        state = self._merge(cost)
        if state is not None and state.cost < cost:
            chosen = []
            while state is not None and state.option is not None:
                chosen.insert(0, state.option)
                state = state.before
        in_order = dict(zip(self.order, chosen, strict=True))
        return _selection([in_order[v] for v in range(len(chosen))])

    def _greedy(self) -> list[Option]:
        """Start from the smallest options and take exchanges while they fit, the most profitable ones first."""
        position = [options[0] for options in self.layers]
        blocked: set[int] = set()
        left = self.limit - self.least_memory[0]
        for step in sorted((step for of_layer in self.steps for step in of_layer), key=lambda step: -step.rate):
            if step.layer in blocked:
                continue
            if step.memory > left:
                blocked.add(step.layer)
                continue
            left -= step.memory
            now = position[step.layer].memory + step.memory
            position[step.layer] = min(self.layers[step.layer], key=lambda option: abs(option.memory - now))
        return position

    def _merge(self, ceiling: float) -> _Partial | None:
        """The cheapest full choice that costs at most `ceiling`."""
        bound = _RestBound(self.steps)
        states = [_Partial(0, 0.0, None, None)]
        most = ceiling * (1 + SUM_ROUNDING)
        for i, options in enumerate(self.layers):
            bound.drop(i)
            grown = []
            for state in states:
                for option in options:
                    memory, cost = state.memory + option.memory, state.cost + option.cost
                    if memory + self.least_memory[i + 1] > self.limit:
                        break
                    need = memory + self.most_memory[i + 1] - self.limit
                    if cost + self.cheapest[i + 1] + bound.cost(need) <= most:
                        grown.append(_Partial(memory, cost, option, state))
            states = undominated(grown)
        return states[-1] if states else None


def _hull_steps(options: list[Option], layer: int) -> list[_Step]:
    """Exchanges from the smallest option along the lower hull; their rates fall."""
    steps: list[_Step] = []
    here = 0
    while here + 1 < len(options):
        one = options[here]
        rates = [(one.cost - other.cost) / (other.memory - one.memory) for other in options[here + 1 :]]
        rate = max(rates)
        here += 1 + max(i for i, r in enumerate(rates) if r == rate)
        steps.append(_Step(rate, options[here].memory - one.memory, one.cost - options[here].cost, layer))
    return steps


class _RestBound:
    """What it costs the layers still open, at least, to hold so much less memory than their cheapest options do.

    Costs are only added up, from the cheapest exchange on: one that costs 1e16 ("forbidden") blurs none before it.
    """

    def __init__(self, steps: list[list[_Step]]) -> None:
        self.steps = sorted((step for of_layer in steps for step in of_layer), key=lambda step: step.rate)
        self._sum_up()

    def drop(self, layer: int) -> None:
        """Leave out a layer whose option is decided."""
        self.steps = [step for step in self.steps if step.layer != layer]
        self._sum_up()

    def _sum_up(self) -> None:
        self.memory = list(accumulate((step.memory for step in self.steps), initial=0))
        self.costs = list(accumulate((step.cost for step in self.steps), initial=0.0))

    def cost(self, memory: int) -> float:
        if memory <= 0:
            return 0.0
        i = bisect_right(self.memory, memory) - 1
        part = (memory - self.memory[i]) * self.steps[i].rate if i < len(self.steps) else 0.0
        return self.costs[i] + part
