"""Piper's dynamic program for devices within devices or of several types, and for flushes.

Plans are asked for with all loads within a limit, which is bisected, each answer snapped to the plan that it has; so
thousands of devices are within reach. For a limit only the most that may come later matters. For the layers between two
downsets D' in D (closed under successors: what is left to do after a stage is one) on one device of level l + 1, of
which there are `above` copies in all,

    most[D][k, x] = the largest sum of copies of all later stages, in copies of that device, with which the layers
                    D - D' can be on at most k devices of level l in stages whose copies sum to at most x

(-1: there is none). A stage with d copies holds ceil((later + x) / d) micro-batches, and ceilings nest: what counts is
right on every level. On level 1 the load of a stage is a knapsack over its layers' configurations, with tensor
parallelism; above, its links and what is inside of it must keep the limit. Fewer copies never hurt what comes before:
in a stage there are fewer micro-batches in flight, so its memory suffices as well. For the same reason the highest
level needs only the least sum of copies by devices. A stage on `devices` devices in `copies` copies, with which and
behind which there may be `reach` copies in all, is an `_Option`; for a stage of a higher level these are the steps of
the last row of `most` inside of it. The rows before are needed for one D' and one number of copies above at a time.

Without levels there is one, whose devices may be of several types: then the least sum of copies has an axis for each
type. A flush asks for at least so many copies of each stage.

Plain numpy over all pairs of downsets: for lattices of up to `MAX_DOWNSETS`, which take minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...instances.base.errors import InputError
from ...instances.base.graph import closed_sets
from ...instances.staging.plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan
from ...instances.staging.problem import StagingLevel, StagingProblem
from .costs import Shape, StageCosts, StagingMemory, upper_load, whole_memory
from .model import ROUNDING
from .search import FASTER, FIRST_TRY, Found, least_load

MAX_DOWNSETS = 300
# Without levels the table has a dimension for each type of devices, and at most so many entries.
MAX_TYPES = 3
MAX_TYPED_ENTRIES = 60_000_000


def decisions_of(
    problem: StagingProblem,
    options: Mapping[str, Any],
    tick: Callable[[], None] = lambda: None,
    inside: bool = False,
) -> LevelDecisions:
    """The program for a problem, after its checks.

    `tick` is called now and then: it may raise to stop. `inside` plans in a slightly smaller memory where memory has
    too many digits to be counted exactly, so that what fits there is sure to fit.
    """
    if problem.levels:
        sets, in_flight = downsets(problem), problem.devices
    else:
        sets, in_flight = _flat_downsets(problem), min(problem.devices, problem.micro_batches)
    memory = whole_memory(problem, in_flight)
    memory = memory.inside() if inside else memory
    return LevelDecisions(problem, sets, memory, tick, semantics=options.get("semantics", "paper"))


def _flat_downsets(problem: StagingProblem) -> list[int]:
    """The downsets of a problem without levels that has not too many of them, of types or of devices."""
    if len(problem.device_types) > MAX_TYPES:
        raise InputError("device_types", f"are {len(problem.device_types)}", f"give at most {MAX_TYPES}")
    sets = downsets(problem, what="for small graphs, where copies or types are counted")
    entries = math.prod(kind.devices + 1 for kind in problem.types) * len(sets)
    if entries > MAX_TYPED_ENTRIES:
        raise InputError("devices", f"need a table of {entries:.3g} numbers", "give fewer")
    return sets


def downsets(
    problem: StagingProblem, most: int = MAX_DOWNSETS, what: str = "for small graphs on several levels"
) -> list[int]:
    """Sets of layers, as bits, that hold all successors of their members; smaller ones first."""
    sets = closed_sets([sum(1 << v for v in set(near)) for near in problem.successors], most)
    if sets is None:
        remedy = f"merge layers to blocks: this program is {what}"
        raise InputError("layers", f"have more than {most} downsets", remedy)
    return sets


# Limits that are tried before any load is allowed; the last of them is more than 100 times the bound.
MOST_TRIES = 14

# Entry of `most` where there is no division into stages.
NONE = -1


class _Option(NamedTuple):
    """A stage that keeps a limit: what it takes, and how many copies there may be with it and behind it."""

    devices: int
    copies: int
    reach: int
    data_parallel: int
    tensor_parallel: int
    kind: int = 0


class LevelDecisions:
    """Finds plans with all loads within a limit, for one problem."""

    def __init__(
        self,
        problem: StagingProblem,
        sets: list[int],
        memory: StagingMemory,
        tick: Callable[[], None],
        degrees: tuple[int, tuple[int, ...]] | None = None,
        semantics: str = "paper",
    ) -> None:
        self.problem, self.sets, self.tick, self.semantics = problem, sets, tick, semantics
        self.degrees = degrees
        """The tensor-parallel degree and the replicas on each level that all stages must have; None: any."""
        self.most = min(problem.micro_batches, problem.devices)
        """The largest sum of copies."""
        levels = problem.levels or (StagingLevel(problem.devices, problem.bandwidth),)
        self.rooms = [level.devices for level in levels]
        self.counts = (self.rooms[-1],) if problem.levels else tuple(kind.devices for kind in problem.types)
        """Devices of the highest level, by their types."""
        self.inside = [math.prod(self.rooms[: level + 1]) for level in range(len(self.rooms))]
        """Innermost devices that a group of a level has."""
        flat = problem.replace(levels=(), bandwidth=levels[0].bandwidth)
        self.costs = StageCosts(flat, semantics, memory)
        self.larger = [[j for j in range(i + 1, len(sets)) if not sets[i] & ~sets[j]] for i in range(len(sets))]
        works = [
            min((t * way.time for t, ways in layer.configurations.items() for way in ways if t <= self.rooms[0]),
                default=math.inf)
            for layer in problem.layers
        ]  # fmt: skip
        self.work = cache(lambda members: math.fsum(w for v, w in enumerate(works) if members >> v & 1))
        self.links = cache(lambda members, level, d: upper_load(problem, members, d, levels[level].bandwidth))
        self.decisions = 0
        self.fewest_copies = 1
        """The fewest copies that a stage may have on all levels together, in the last decision."""

    def size(self) -> dict[str, int]:
        return {"downsets": len(self.sets), "decisions": self.decisions}

    def may_have(self, level: int, d: int, t: int = 0) -> bool:
        """May a stage of that level have d replicas and, on the innermost, the tensor-parallel degree t?"""
        if self.semantics == "reference" and self.problem.micro_batches % d:
            return False
        if self.degrees is None:
            return True
        return self.degrees[1][level] == d and t in (0, self.degrees[0])

    def best(self, hear: Callable[[Found[Any], float], None] = lambda found, low: None) -> Found[Any] | None:
        """The plan of the least load; None where none fits. `hear` gets each better plan and the bound at that time."""
        speed = sum(kind.devices * kind.speed for kind in self.problem.types)
        low = self.work(self.sets[-1]) / speed * (1 - ROUNDING)
        if math.isinf(low):
            return None  # a layer runs nowhere
        best = self._first(low)
        return best and least_load(best, low, self.decide, hear)

    def _first(self, low: float) -> Found[Any] | None:
        """Any plan; None where none fits. Low limits come first, since they are decided fastest."""
        above = FIRST_TRY - 1
        for _ in range(MOST_TRIES if low > 0 else 0):
            stages = self.decide(low * (1 + above))
            if stages is not None:
                return stages
            above *= FASTER
        return self.decide(math.inf)

    def decide(self, limit: float, fewest_copies: int = 1) -> Found[Any] | None:
        """A plan with all loads within the limit and at least so many copies of each stage, and the fewest in all."""
        self.decisions += 1
        self.fewest_copies = fewest_copies
        decision = _Decision(self, limit)
        stages = decision.stages()
        if stages is None:
            return None
        return Found((LeveledPlan if self.problem.levels else StagedPlan)(tuple(stages)), decision.load)


class _Decision:
    """Tables for one limit."""

    def __init__(self, parent: LevelDecisions, limit: float) -> None:
        self.parent, self.limit = parent, limit
        self.sets, self.problem = parent.sets, parent.problem
        self.top = len(parent.rooms) - 1
        self.groups = cache(self._groups)
        self.chosen: dict[tuple[int, int], list[_Option]] = {}
        """Stages of the highest level that keep the limit, by their two downsets."""
        self.between = cache(self._between)
        self.load = 0.0
        """The largest load of the stages made, by the costs that decided: the referee's is another reading."""

    def stages(self) -> list[Any] | None:
        """The highest level's stages of a plan; None where there is none."""
        parent, counts, beyond = self.parent, self.parent.counts, self.parent.most + 1
        last = len(self.sets) - 1
        self.least = [np.full([n + 1 for n in counts], beyond, dtype=np.int64) for _ in self.sets]
        self.least[0][...] = 0
        needs = [self._need(self.sets[last] & ~members) for members in self.sets]
        for i in range(last):
            for j in parent.larger[i]:
                kept = self._need(self.sets[i]) + needs[j]
                rooms = enumerate(counts)
                options = [o for kind, n in rooms for o in self._options(self.top, 1, i, j, n - kept, kind)]
                if options:
                    self.chosen[i, j] = options
                for option in options:
                    along = (slice(None),) * option.kind
                    total = self.least[i][(*along, slice(-option.devices))] + option.copies
                    total = np.where(total <= min(option.reach, parent.most), total, beyond)
                    target = self.least[j][(*along, slice(option.devices, None))]
                    np.minimum(target, total, out=target)
        return None if self.least[last][counts] >= beyond else list(self._back())

    def _need(self, members: int) -> int:
        """Devices of the highest level that some layers need at least; 0 where types may share them."""
        if not members or self.problem.device_types:
            return 0
        below = self.parent.inside[self.top - 1] if self.top else 1
        devices = self.parent.work(members) / (self.limit * below)
        return max(1, math.ceil(min(devices, 10**9) * (1 - ROUNDING)))

    # ---- stages of a level --------------------------------------------------------------------------------

    def _options(self, level: int, above: int, i: int, j: int, most: int, kind: int = 0) -> Iterator[_Option]:
        """Stages between two downsets on at most `most` devices of a level and type, in groups with `above` copies."""
        self.parent.tick()
        members, limit = self.sets[j] & ~self.sets[i], self.limit * above
        if level:
            options = self._higher(level, above, i, j, most)
        else:
            copies, fewest = -(-self.parent.most // above), -(-self.parent.fewest_copies // above)
            options = self._innermost(self._shape(members, kind, above), limit, copies, most, fewest)
        kept: list[_Option] = []
        for option in sorted(options, key=lambda option: (option.devices, option.copies, -option.reach)):
            beaten = any(other.copies <= option.copies and other.reach >= option.reach for other in kept)
            if not beaten:
                kept.append(option)
        yield from kept

    def _shape(self, members: int, kind: int, above: int) -> Shape:
        """Without a degree; with the copies around the stage where they matter to what it holds."""
        return Shape(members, kind, 0, above if self.problem.zero else 1)

    def _innermost(self, shape: Shape, limit: float, copies: int, most: int, fewest: int) -> Iterator[_Option]:
        costs = self.parent.costs
        for t in self.problem.degrees:
            shape = shape._replace(tensor_parallel=t)
            if t > most or not costs.possible(shape):
                continue
            largest = min(most // t, copies if self.problem.replication else 1)
            least = costs.floor(shape) * (1 - ROUNDING) / limit
            for d in range(max(fewest, math.ceil(min(least, largest + 1) - ROUNDING)), largest + 1):
                if not self.parent.may_have(0, d, t):
                    continue
                in_flight = costs.most_in_flight(shape, d, limit, -(-copies // d))
                if in_flight:
                    yield _Option(d * t, d, d * in_flight, d, t, shape.kind)
                    if d * in_flight >= copies:
                        break  # more replicas reach no further

    def _higher(self, level: int, above: int, i: int, j: int, most: int) -> Iterator[_Option]:
        parent, members, limit = self.parent, self.sets[j] & ~self.sets[i], self.limit * above
        least = parent.work(members) / (limit * parent.inside[level - 1])
        largest = min(most, -(-parent.most // above))
        largest = largest if self.problem.replication else min(most, 1)
        for d in range(max(1, math.ceil(min(least, largest + 1) * (1 - ROUNDING))), largest + 1):
            if not parent.may_have(level, d) or parent.links(members, level, d) > limit:
                continue
            reach, before = self.groups(level - 1, above * d, i).get(j, ()), NONE
            for copies, later in enumerate(reach):
                if later > before:
                    yield _Option(d, d * copies, d * (int(later) + copies), d, 1)
                    before = later

    def _between(self, level: int, above: int, i: int, j: int) -> list[_Option]:
        """The stages of a level below the highest between two downsets."""
        return list(self._options(level, above, i, j, self.parent.rooms[level]))

    # ---- inside a device of the next level ----------------------------------------------------------------

    def _groups(self, level: int, above: int, start: int) -> Mapping[int, Any]:
        """For each downset D above a start D', the most that may come later, by copies, with all devices."""
        return {j: table[-1].tolist() for j, table in self._tables(level, above, start).items() if j != start}

    def _tables(self, level: int, above: int, start: int) -> dict[int, Any]:
        """`most` of each downset that has any stages within the limit."""
        parent, room = self.parent, self.parent.rooms[level]
        largest = min(parent.inside[level], parent.most // above)
        copies = np.arange(largest + 1)
        enough = -(-parent.most // above)
        tables = {start: np.full((room + 1, largest + 1), enough, dtype=np.int32)}
        reachable = self.limit * above * parent.inside[level] * (1 + ROUNDING)
        ends = [j for j in parent.larger[start] if parent.work(self.sets[j] & ~self.sets[start]) <= reachable]
        for j in ends:
            table = np.full((room + 1, largest + 1), NONE, dtype=np.int32)
            for i in (start, *ends):
                if i >= j:
                    break
                if i not in tables or self.sets[i] & ~self.sets[j]:
                    continue
                for option in self.between(level, above, i, j):
                    if option.devices <= room and option.copies <= largest:
                        before = tables[i][: room + 1 - option.devices, : largest + 1 - option.copies]
                        target = table[option.devices :, option.copies :]
                        np.maximum(target, np.minimum(before, option.reach - copies[option.copies :]), out=target)
            np.maximum(table, NONE, out=table)
            if table[-1].max() > NONE:
                tables[j] = np.maximum.accumulate(table, axis=1)
        return tables

    # ---- back ---------------------------------------------------------------------------------------------

    def _back(self) -> Iterator[LeveledStage | PlannedStage]:
        """The stages of the plan in execution order: the same numbers as on the way forward."""
        j, at = len(self.sets) - 1, self.parent.counts
        while j:
            value = int(self.least[j][at])
            i, option, left = next(
                (i, option, left)
                for i in range(j)
                for option in self.chosen.get((i, j), ())
                if option.devices <= at[option.kind] and value <= option.reach
                for left in [(*at[: option.kind], at[option.kind] - option.devices, *at[option.kind + 1 :])]
                if self.least[i][left] + option.copies == value
            )
            stage = self._stage(self.top, 1, i, j, option, value)
            types = self.problem.device_types
            kind = types[option.kind].name if types else None
            degrees = option.data_parallel, option.tensor_parallel
            ways = stage.configurations
            yield stage if self.problem.levels else PlannedStage(stage.nodes, *degrees, ways, kind)
            j, at = i, left

    def _stage(self, level: int, above: int, i: int, j: int, option: _Option, suffix: int) -> LeveledStage:
        """The stage of an option; `suffix`: the copies of it and of all that is behind it."""
        members, d = self.sets[j] & ~self.sets[i], option.data_parallel
        ids = tuple(self.parent.costs.ids(members))
        if level == 0:
            shape = self._shape(members, option.kind, above)._replace(tensor_parallel=option.tensor_parallel)
            in_flight = -(-suffix // d)
            ways, load = self.parent.costs.ways(shape, d, in_flight), self.parent.costs.load(shape, d, in_flight)
            assert load is not None, "a stage that was chosen fits"
            self.load = max(self.load, load / above)
            return LeveledStage(ids, d, option.tensor_parallel, ways)
        self.load = max(self.load, self.parent.links(members, level, d) / above)
        copies = option.copies // d
        children = self._inside(level - 1, above * d, i, j, -(-suffix // d) - copies, copies)
        return LeveledStage(ids, d, children=tuple(children))

    def _inside(self, level: int, above: int, start: int, j: int, later: int, x: int) -> Iterator[LeveledStage]:
        """The stages of a group with at most x copies and `later` later ones, in execution order."""
        tables, k = self._tables(level, above, start), self.parent.rooms[level]
        while j != start:
            while x and tables[j][k, x - 1] >= later:
                x -= 1
            i, option = next(
                (i, option)
                for i in tables
                if i < j and not self.sets[i] & ~self.sets[j]
                for option in self.between(level, above, i, j)
                if option.devices <= k and option.copies <= x
                if min(tables[i][k - option.devices, x - option.copies], option.reach - x) >= later
            )
            yield self._stage(level, above, i, j, option, later + x)
            j, k, x = i, k - option.devices, x - option.copies
