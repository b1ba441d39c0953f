"""What a stage costs: least load for given degrees and micro-batches in flight, by the exact knapsack."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from operator import and_
from typing import NamedTuple, TypeVar

from ...instances.physics.tolerances import SUM_ROUNDING
from ...instances.staging.problem import Configuration, Edge, Layer, StagingProblem
from ..contract import FLOAT_ROOM
from .lattice import Lattice, build_lattice, suffix_sets
from .memory import SYNC_TRIPS, TRIPS, Bytes, full_weight, memory_of

# ---- knapsacks ------------------------------------------------------------------------------------------------
# The exact multiple-choice knapsack: one option per layer, least cost, memory (whole numbers) within a limit.
#
# Partial choices are extended layer by layer; what is dominated (another one is neither dearer nor larger) or
# cannot end below the best known choice, by the bound of the linear relaxation, is dropped. Equal layers lead
# to equal partial choices, different ones are decided by the bound, so both ends of the scale stay small.


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


# ---- stages ------------------------------------------------------------


class StageBook:
    """All stages of a problem, each priced once. A set of layers is a bit mask of positions.

    With levels these are the stages of level 1.
    """

    def __init__(self, problem: StagingProblem, semantics: str) -> None:
        self.problem = problem
        self.semantics = semantics
        self.everything = (1 << len(problem.layers)) - 1
        self.near: list[list[tuple[int, Edge, bool]]] = [[] for _ in problem.layers]
        """Per layer: the one at the other end of an edge, the edge, does it come in?"""
        for (u, v), edge in zip(problem.arcs, problem.edges, strict=True):
            self.near[v].append((u, edge, True))
            self.near[u].append((v, edge, False))
        self.bandwidth = problem.levels[0].bandwidth if problem.levels else problem.bandwidth
        self.most = min(problem.devices, problem.micro_batches)
        """Upper bound on the copies of all stages of a plan, and on the micro-batches that a device has in flight."""
        self.counts = [problem.levels[0].devices] if problem.levels else [kind.devices for kind in problem.types]
        """Devices that a stage of each type may be on."""
        self.memory = memory_of(problem)
        self.limits = self.memory.limits
        """Memory of a device of each type in the whole units in which all memory is counted here; None: there is no
        limit."""
        self.fastest = max(kind.speed for kind in problem.types)
        self.capacity = sum(kind.devices * kind.speed for kind in problem.types) / self.fastest
        """All devices, counted in those of the fastest type."""
        self.least_work, self.least_time = _least(problem, max(self.counts), self.fastest)
        self._stages: dict[tuple[int, int, int, int], Stage] = {}
        self._degrees = [
            sum(1 << t for t, ways in layer.configurations.items() if ways and t <= max(self.counts))
            for layer in problem.layers
        ]

    @cached_property
    def lattice(self) -> Lattice:
        """All stages; a `TooLargeError` where there are too many to list."""
        return build_lattice(self.problem, suffix_sets(self.problem), self.may_be_stage)

    @cached_property
    def worst_load(self) -> float:
        """No stage costs more than every layer at its slowest with all transfers, in one stage without replicas; with
        room for float solvers."""
        total, slowest = 0.0, min(kind.speed for kind in self.problem.types)
        bandwidth = min([self.bandwidth, *(level.bandwidth for level in self.problem.levels)])
        for v, layer in enumerate(self.problem.layers):
            moved = math.fsum(edge.bytes for _, edge, _ in self.near[v])
            total += max(
                way.time / slowest
                + (
                    TRIPS * (moved + sum(way.gather_in.values()) + sum(way.gather_out.values()))
                    + sum(SYNC_TRIPS[self.problem.zero]) * self._weights(layer, way)
                )
                / bandwidth
                for ways in layer.configurations.values()
                for way in ways
            )
        return total * (1 + FLOAT_ROOM) or 1.0

    def _weights(self, layer: Layer, way: Configuration) -> float:
        """Bytes that copies of a layer exchange at most: above level 1 those of the whole layer."""
        return max(way.weight_bytes, full_weight(layer)) if self.problem.levels else way.weight_bytes

    def may_be_stage(self, members: int) -> bool:
        """Do its layers share a degree in which they fit into the memory, with one micro-batch in flight?"""
        stages = (self.stage(members, t, kind, self.most, relaxed=True) for kind, t in self.sorts(members))
        return any(stage.fits_until for stage in stages)

    def sorts(self, members: int) -> list[tuple[int, int]]:
        """(type of devices, tensor-parallel degree) that these layers may share: degrees that all of them offer."""
        common = reduce(and_, (self._degrees[v] for v in positions(members)), -1)
        degrees = [t for t in self.problem.degrees if common >> t & 1]
        return [(kind, t) for kind, count in enumerate(self.counts) for t in degrees if t <= count]

    def stage(self, members: int, t: int, kind: int = 0, copies: int = 1, relaxed: bool = False) -> Stage:
        """The stage of these layers. `copies`: on all levels, which matter where they divide what they hold; `relaxed`:
        without the memory that these gather."""
        shards = copies if self.problem.zero else 1
        key = (members, t, kind, -shards if relaxed and self.problem.zero else shards)
        stage = self._stages.get(key)
        if stage is None:
            limit = self.memory.limit(kind, t, 1 if relaxed else shards)
            stage = self._stages[key] = Stage(self, members, t, kind, shards, limit)
        return stage

    def replicas(self, t: int, kind: int = 0) -> list[int]:
        """Data-parallel degrees that a stage of tensor-parallel degree t may have; with levels on level 1."""
        batches = self.problem.micro_batches
        most = min(self.counts[kind] // t, batches if self.problem.replication else 1)
        return [d for d in range(1, most + 1) if self.semantics == "paper" or batches % d == 0]

    @cached_property
    def above(self) -> list[tuple[int, ...]]:
        """Copies on each level above the first, from level 2 on; without levels there is but ()."""
        levels = self.problem.levels[1:]
        most = [level.devices if self.problem.replication else 1 for level in levels]
        choices = itertools.product(*(range(1, count + 1) for count in most))
        return [copies for copies in choices if math.prod(copies) <= self.most]

    def sync_time(self, d: int) -> float:
        """Time to synchronise a byte of weights, times d: a stage's load is (its work + this x its bytes) / d."""
        samples = d if self.semantics == "paper" else self.problem.micro_batches
        once, each = SYNC_TRIPS[self.problem.zero]
        return once * (d - 1) / samples / self.bandwidth + each * (d - 1) / d / self.bandwidth


def last_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to `high` for which `holds` is true. It is taken to be true for `low`, and false for all
    numbers above one for which it is false."""
    if holds(high):
        return high
    return low + bisect_left(range(low + 1, high), True, key=lambda number: not holds(number))


@dataclass(frozen=True, slots=True)
class _Way:
    """A configuration in its stage: `work` is its time with its share of the transfers, for one replica."""

    work: float
    configuration: Configuration
    held: Bytes

    def memory(self, in_flight: int) -> int:
        """Memory of the layer in whole units, with so many micro-batches in flight."""
        return self.held[0] * in_flight + self.held[1]


class Stage:
    """Layers that run together with tensor-parallel degree t on devices of one type."""

    def __init__(self, book: StageBook, members: int, t: int, kind: int, copies: int, limit: int | None) -> None:
        self.book = book
        self.t = t
        self.limit = limit
        self.layers = positions(members)
        self.ways = [_ways(book, v, members, t, book.problem.types[kind].speed, copies) for v in self.layers]
        self.least_work = sum(min(way.work for way in row) for row in self.ways)
        self.least_weight = sum(min(way.configuration.weight_bytes for way in row) for row in self.ways)
        uniform = all(len({way.configuration.weight_bytes for way in row}) == 1 for row in self.ways)
        self.uniform_weight = self.least_weight if uniform else None
        self.fits_until = self._largest(book.most, self.least_memory)
        """The most micro-batches in flight with which the stage fits into the memory at all."""
        fast = [min(row, key=lambda way: way.work) for row in self.ways]
        self.free_until = self._largest(self.fits_until, lambda y: sum(way.memory(y) for way in fast))
        """The most micro-batches in flight with which its fastest configurations fit."""
        self._priced: dict[tuple[float, int], _Priced] = {}

    def least_load(self, d: int) -> float:
        """A lower bound on the load, whatever is in flight."""
        return (self.least_work + self.book.sync_time(d) * self.least_weight) / d

    def least_memory(self, in_flight: int) -> int:
        return sum(min(way.memory(in_flight) for way in row) for row in self.ways)

    def load(self, d: int, in_flight: int) -> float | None:
        """The least load with so many micro-batches in flight per replica; None where none fits."""
        priced = self._price(d, in_flight)
        best = None if priced is None else priced.best()
        return None if best is None else (best.cost + self._common(d)) / d

    def keeps_to(self, load: float | None, d: int, in_flight: int) -> bool:
        """Is the least load at most this (None: is there any)? Asks for the exact one only where it has to."""
        priced = self._price(d, in_flight)
        most = math.inf if load is None else load * d * (1 + SUM_ROUNDING) - self._common(d)
        return priced is not None and priced.is_at_most(most)

    def configurations(self, d: int, in_flight: int) -> dict[int, str]:
        """The configuration of each layer that gives the least load; there is one."""
        priced = self._price(d, in_flight)
        selection = None if priced is None else priced.best()
        assert selection is not None, "the stage was priced before"
        return {
            v: row[number].configuration.id
            for v, row, number in zip(self.layers, self.ways, selection.numbers, strict=True)
        }

    def most_in_flight(self, d: int, low: int, high: int, at_most: float | None) -> int | None:
        """The largest number between `low` and `high` for which the load is `at_most`; loads grow with it."""
        if not self.keeps_to(at_most, d, low):
            return None
        return last_true(low, high, lambda in_flight: self.keeps_to(at_most, d, in_flight))

    def _common(self, d: int) -> float:
        """The part that every choice adds to d times the load."""
        return 0.0 if self.uniform_weight is None else self.book.sync_time(d) * self.uniform_weight

    def _largest(self, most: int, memory: Callable[[int], int]) -> int:
        """The largest number in flight, up to `most`, for which the memory is enough; 0 where one is too many."""
        limit = self.limit
        return most if limit is None else last_true(0, most, lambda in_flight: memory(in_flight) <= limit)

    def _price(self, d: int, in_flight: int) -> _Priced | None:
        """Loads times d, without what is common to all choices; where weights are equal one table serves all d."""
        if in_flight > self.fits_until:
            return None
        rate = 0.0 if self.uniform_weight is not None else self.book.sync_time(d)
        if not rate:
            in_flight = max(in_flight, self.free_until)  # up to there nothing changes
        priced = self._priced.get((rate, in_flight))
        if priced is None:
            priced = self._priced[rate, in_flight] = _Priced(self, rate, in_flight)
        return priced

    def knapsack(self, rate: float, in_flight: int) -> tuple[list[list[Option]], int | None]:
        """Options of each layer, a byte of weights costing `rate`, and the memory where it limits anything."""
        rows = [
            [
                Option(way.work + rate * way.configuration.weight_bytes, way.memory(in_flight), number)
                for number, way in enumerate(row)
            ]
            for row in self.ways
        ]
        free = not rate and in_flight <= self.free_until
        return rows, None if free else self.limit


class _Priced:
    """One knapsack. Its least cost is enclosed at once; it is solved, once, when that does not answer a question."""

    def __init__(self, stage: Stage, rate: float, in_flight: int) -> None:
        self._of: tuple[Stage, float, int] | None = (stage, rate, in_flight)  # its options would fill the memory
        self._enclosure = enclosure(*stage.knapsack(rate, in_flight))
        self._best: Selection | None = None

    def is_at_most(self, cost: float) -> bool:
        if self._enclosure is None or self._enclosure[0] > cost:
            return False
        if self._enclosure[1] <= cost:
            return True
        best = self.best()
        return best is not None and best.cost <= cost

    def best(self) -> Selection | None:
        if self._of is not None:
            stage, rate, in_flight = self._of
            self._best, self._of = select(*stage.knapsack(rate, in_flight)), None
        return self._best


def _least(problem: StagingProblem, room: int, fastest: float) -> tuple[list[float], list[float]]:
    """The least device time and the least time of each layer; infinite where the layer cannot run at all."""
    ways_of = [
        [(t, way.time / fastest) for t, ways in layer.configurations.items() if t <= room for way in ways]
        for layer in problem.layers
    ]
    work = [min((t * time for t, time in ways), default=math.inf) for ways in ways_of]
    return work, [min((time for _, time in ways), default=math.inf) for ways in ways_of]


def _ways(book: StageBook, v: int, members: int, t: int, speed: float, copies: int) -> list[_Way]:
    """Every configuration of a layer, with the transfers that it pays in this stage."""
    cut = [(edge, incoming) for other, edge, incoming in book.near[v] if not members >> other & 1]
    ways = []
    for way, held in zip(book.problem.layers[v].configurations[t], book.memory.held(v, t, copies), strict=True):
        moved = 0.0
        for edge, incoming in cut:
            gathered = way.gather_in.get(edge.source, 0.0) if incoming else way.gather_out.get(edge.target, 0.0)
            moved += edge.bytes + gathered
        ways.append(_Way(way.time / speed + TRIPS * moved / book.bandwidth, way, held))
    return ways


def positions(members: int) -> list[int]:
    """The positions of the bits that are set."""
    return [v for v in range(members.bit_length()) if members >> v & 1]
