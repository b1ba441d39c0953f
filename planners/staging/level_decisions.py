"""Devices within devices, thousands of them: the program of `hierarchy` with tables for one limit at a time.

For a limit on all loads only the most that may come later matters. For the layers between two downsets D' in D on one
device of level l + 1, of which there are `above` copies in all,

    most[D][k, x] = the largest sum of copies of all later stages, in copies of that device, with which the layers
                    D - D' can be on at most k devices of level l in stages whose copies sum to at most x

(-1: there is none), where a plan needs a table by all sums of later copies. Fewer copies never hurt what comes before:
in a stage there are fewer micro-batches in flight, so its memory suffices as well. For the same reason the highest
level needs only the least sum of copies by devices. A stage on `devices` devices in `copies` copies, with which and
behind which there may be `reach` copies in all, is an `_Option`; for a stage of a higher level these are the steps of
the last row of `most` inside of it. The rows before are needed for one D' and one number of copies above at a time.

The least limit is found by bisection, each answer snapped to the plan that it has. What is decided is what `hierarchy`
decides, for at most (not exactly) N micro-batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...instances.registry import evaluation_of
from ...instances.staging.plan import LeveledPlan, LeveledStage
from ...instances.staging.problem import StagingProblem
from .links import upper_load
from .memory import StagingMemory
from .model import ROUNDING
from .search import FASTER, FIRST_TRY, Found, least_load
from .stage_costs import Shape, StageCosts

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


class LevelDecisions:
    """Finds plans with all loads within a limit, for one problem."""

    def __init__(
        self,
        problem: StagingProblem,
        sets: list[int],
        memory: StagingMemory,
        tick: Callable[[], None],
        degrees: tuple[int, tuple[int, ...]] | None = None,
    ) -> None:
        self.problem, self.sets, self.tick = problem, sets, tick
        self.degrees = degrees
        """The tensor-parallel degree and the replicas on each level that all stages must have; None: any."""
        self.most = min(problem.micro_batches, problem.devices)
        """The largest sum of copies."""
        self.rooms = [level.devices for level in problem.levels]
        self.inside = [math.prod(self.rooms[: level + 1]) for level in range(len(self.rooms))]
        """Innermost devices that a group of a level has."""
        flat = problem.replace(levels=(), bandwidth=problem.levels[0].bandwidth)
        self.costs = StageCosts(flat, "paper", memory)
        self.larger = [[j for j in range(i + 1, len(sets)) if not sets[i] & ~sets[j]] for i in range(len(sets))]
        works = [
            min((t * way.time for t, ways in layer.configurations.items() for way in ways if t <= self.rooms[0]),
                default=math.inf)
            for layer in problem.layers
        ]  # fmt: skip
        self.work = cache(lambda members: math.fsum(w for v, w in enumerate(works) if members >> v & 1))
        self.links = cache(
            lambda members, level, d: upper_load(problem, members, d, problem.levels[level].bandwidth)
        )
        self.decisions = 0
        self.fewest_copies = 1
        """The fewest copies that a stage may have on all levels together, in the last decision."""

    def may_have(self, level: int, d: int, t: int = 0) -> bool:
        """May a stage of that level have d replicas and, on the innermost, the tensor-parallel degree t?"""
        if self.degrees is None:
            return True
        return self.degrees[1][level] == d and t in (0, self.degrees[0])

    def best(self, hear: Callable[[Found[LeveledPlan], float], None]) -> Found[LeveledPlan] | None:
        """The plan of the least load; None where none fits. `hear` gets each better plan and the bound at that time."""
        low = self.work(self.sets[-1]) / self.problem.devices * (1 - ROUNDING)
        if math.isinf(low):
            return None  # a layer runs nowhere
        best = self._first(low)
        return best and least_load(best, low, self.decide, hear)

    def _first(self, low: float) -> Found[LeveledPlan] | None:
        """Any plan; None where none fits. Low limits come first, since they are decided fastest."""
        above = FIRST_TRY - 1
        for _ in range(MOST_TRIES if low > 0 else 0):
            stages = self.decide(low * (1 + above))
            if stages is not None:
                return stages
            above *= FASTER
        return self.decide(math.inf)

    def decide(self, limit: float, fewest_copies: int = 1) -> Found[LeveledPlan] | None:
        """A plan with all loads within the limit and at least so many copies of each stage, and the fewest in all."""
        self.decisions += 1
        self.fewest_copies = fewest_copies
        stages = _Decision(self, limit).stages()
        if stages is None:
            return None
        plan = LeveledPlan(tuple(stages))
        return Found(plan, evaluation_of(self.problem, plan).time_per_micro_batch)


class _Decision:
    """Tables for one limit."""

    def __init__(self, parent: LevelDecisions, limit: float) -> None:
        self.parent, self.limit = parent, limit
        self.sets, self.problem = parent.sets, parent.problem
        self.top = len(parent.rooms) - 1
        self.groups = cache(self._groups)
        self.chosen: dict[tuple[int, int], list[_Option]] = {}
        """Stages of the highest level that keep the limit, by their two downsets."""
        self._computed: dict[tuple[int, int, int, int], list[_Option]] = {}

    def stages(self) -> list[LeveledStage] | None:
        """The highest level's stages of a plan; None where there is none."""
        parent, room, beyond = self.parent, self.parent.rooms[-1], self.parent.most + 1
        last = len(self.sets) - 1
        self.least = [np.full(room + 1, beyond, dtype=np.int64) for _ in self.sets]
        self.least[0][:] = 0
        needs = [self._need(self.sets[last] & ~members) for members in self.sets]
        for i in range(last):
            for j in parent.larger[i]:
                most = room - self._need(self.sets[i]) - needs[j]
                options = list(self._options(self.top, 1, i, j, most))
                if options:
                    self.chosen[i, j] = options
                for option in options:
                    total = self.least[i][: room + 1 - option.devices] + option.copies
                    total = np.where(total <= min(option.reach, parent.most), total, beyond)
                    target = self.least[j][option.devices :]
                    np.minimum(target, total, out=target)
        return None if self.least[last][room] >= beyond else list(self._back())

    def _need(self, members: int) -> int:
        """Devices of the highest level that some layers need at least."""
        if not members:
            return 0
        below = self.parent.inside[self.top - 1] if self.top else 1
        devices = self.parent.work(members) / (self.limit * below)
        return max(1, math.ceil(min(devices, 10**9) * (1 - ROUNDING)))

    # ---- stages of a level --------------------------------------------------------------------------------

    def _options(self, level: int, above: int, i: int, j: int, most: int) -> Iterator[_Option]:
        """Stages between two downsets on at most `most` devices of a level, in groups with `above` copies."""
        self.parent.tick()
        members, limit = self.sets[j] & ~self.sets[i], self.limit * above
        if level:
            options = self._higher(level, above, i, j, most)
        else:
            copies, fewest = -(-self.parent.most // above), -(-self.parent.fewest_copies // above)
            options = self._innermost(self._shared(above), members, limit, copies, most, fewest)
        kept: list[_Option] = []
        for option in sorted(options, key=lambda option: (option.devices, option.copies, -option.reach)):
            if not any(other.copies <= option.copies and other.reach >= option.reach for other in kept):
                kept.append(option)
        yield from kept

    def _shared(self, above: int) -> int:
        """Copies around a stage, where they matter to what it holds."""
        return above if self.problem.zero else 1

    def _innermost(
        self, above: int, members: int, limit: float, copies: int, most: int, fewest: int
    ) -> Iterator[_Option]:
        costs = self.parent.costs
        for t in self.problem.degrees:
            shape = Shape(members, 0, t, above)
            if t > most or not costs.possible(shape):
                continue
            largest = min(most // t, copies if self.problem.replication else 1)
            least = costs.floor(shape) * (1 - ROUNDING) / limit
            for d in range(max(fewest, math.ceil(min(least, largest + 1) - ROUNDING)), largest + 1):
                if not self.parent.may_have(0, d, t):
                    continue
                in_flight = costs.most_in_flight(shape, d, limit, -(-copies // d))
                if in_flight:
                    yield _Option(d * t, d, d * in_flight, d, t)
                    if d * in_flight >= copies:
                        break  # more replicas reach no further

    def _higher(self, level: int, above: int, i: int, j: int, most: int) -> Iterator[_Option]:
        parent, members, limit = self.parent, self.sets[j] & ~self.sets[i], self.limit * above
        least = parent.work(members) / (limit * parent.inside[level - 1])
        largest = min(most, -(-parent.most // above)) if self.problem.replication else min(most, 1)
        for d in range(max(1, math.ceil(min(least, largest + 1) * (1 - ROUNDING))), largest + 1):
            if not parent.may_have(level, d) or parent.links(members, level, d) > limit:
                continue
            reach, before = self.groups(level - 1, above * d, i).get(j, ()), NONE
            for copies, later in enumerate(reach):
                if later > before:
                    yield _Option(d, d * copies, d * (int(later) + copies), d, 1)
                    before = later

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
                for option in self._between(level, above, i, j):
                    if option.devices <= room and option.copies <= largest:
                        before = tables[i][: room + 1 - option.devices, : largest + 1 - option.copies]
                        target = table[option.devices :, option.copies :]
                        np.maximum(target, np.minimum(before, option.reach - copies[option.copies :]), out=target)
            np.maximum(table, NONE, out=table)
            if table[-1].max() > NONE:
                tables[j] = np.maximum.accumulate(table, axis=1)
        return tables

    def _between(self, level: int, above: int, i: int, j: int) -> list[_Option]:
        """The stages of a level below the highest between two downsets, computed once."""
        options = self._computed.get((level, above, i, j))
        if options is None:
            options = list(self._options(level, above, i, j, self.parent.rooms[level]))
            self._computed[level, above, i, j] = options
        return options

    # ---- back ---------------------------------------------------------------------------------------------

    def _back(self) -> Iterator[LeveledStage]:
        """The stages of the plan in execution order: the same numbers as on the way forward."""
        j, k = len(self.sets) - 1, self.parent.rooms[-1]
        while j:
            value = int(self.least[j][k])
            i, option = next(
                (i, option)
                for i in range(j)
                for option in self.chosen.get((i, j), ())
                if option.devices <= k
                and value <= option.reach
                and self.least[i][k - option.devices] + option.copies == value
            )
            yield self._stage(self.top, 1, i, j, option, value)
            j, k = i, k - option.devices

    def _stage(self, level: int, above: int, i: int, j: int, option: _Option, suffix: int) -> LeveledStage:
        """The stage of an option; `suffix`: the copies of it and of all that is behind it."""
        members, d = self.sets[j] & ~self.sets[i], option.data_parallel
        ids = tuple(self.parent.costs.ids(members))
        if level == 0:
            shape = Shape(members, 0, option.tensor_parallel, self._shared(above))
            ways = self.parent.costs.ways(shape, d, -(-suffix // d))
            return LeveledStage(ids, d, option.tensor_parallel, ways)
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
                for option in self._between(level, above, i, j)
                if option.devices <= k and option.copies <= x
                if min(tables[i][k - option.devices, x - option.copies], option.reach - x) >= later
            )
            yield self._stage(level, above, i, j, option, later + x)
            j, k, x = i, k - option.devices, x - option.copies
