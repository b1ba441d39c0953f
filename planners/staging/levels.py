"""Piper's dynamic program for devices within devices: the best tree of stages.

For every level l, from the innermost, and every pair of downsets D' in D (closed under successors: what is left to do
after a stage is one),

    f[D, D'][k, later, x] = min over D' <= Do < D, d of max( f[Do, D'][k - d, later, x - x0],
                                                            links_l(D - Do, d),
                                                            f_inner[D, Do][K_inner, (later + x) / d ..., x0 / d] / d )

is the least time of the layers D - D' on at most k devices of level l, where x is the sum of the copies (on the levels
up to l) of all stages of D - D', and `later` that of the stages after them; on level 1 the last two terms are the load
of a single stage, a knapsack over its layers' configurations, with tensor parallelism. A stage with d copies holds
ceil((later + x) / d) micro-batches, and ceilings nest: what counts is right on every level. The `basic` and `crude`
variants count no copies: x = later = 0.

Plain numpy over all pairs of downsets: for lattices of up to `MAX_DOWNSETS`, which take minutes. `dp-piper` comes here
where a problem has levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...instances.base.errors import InputError
from ...instances.registry import evaluation_of
from ...instances.staging.plan import LeveledPlan, LeveledStage
from ...instances.staging.problem import StagingProblem, check_levels
from ..placement.ideals import closed_sets
from .costs import Shape, StageCosts, StagingMemory, upper_load, whole_memory
from .model import ROUNDING
from .search import FASTER, FIRST_TRY, Found, least_load

MAX_DOWNSETS = 300
# From so many entries in the table of a level on, `LevelDecisions` decides one limit after the other instead.
MANY_ENTRIES = 1_000_000
# Largest number of entries in the table of a level.
MAX_ENTRIES = 40_000_000


@dataclass(frozen=True, slots=True)
class _Stage:
    """The shape of a stage that a level may hold, whatever it costs."""

    devices: int
    data_parallel: int
    tensor_parallel: int
    copies: int
    """Copies on this level and those below; 0 where the variant does not count them."""


def plan_levels(
    problem: StagingProblem,
    variant: str = "precise",
    tick: Callable[[], None] = lambda: None,
    inside: bool = False,
    hear: Callable[[Found[LeveledPlan], float], None] = lambda best, low: None,
) -> Found[LeveledPlan] | None:
    """The best plan on the levels of the problem; None where none obeys the variant's rules.

    `tick` is called now and then: it may raise to stop. `hear` gets each better plan and the bound at that time, where
    plans are found one after the other. `inside` plans in a slightly smaller memory where memory has too many digits
    to be counted exactly, so that what fits there is sure to fit.
    """
    check_levels(problem, variant)
    memory = whole_memory(problem, problem.devices)
    program = _Hierarchy(problem, variant, memory.inside() if inside else memory, tick)
    if problem.zero and problem.exact_batches:
        raise InputError(
            "exact_batches",
            "is not planned with ZeRO on levels",
            "plan for at most N, or give --formulation mip-piper",
        )
    # With ZeRO copies divide what they hold, which only `LevelDecisions` counts.
    many = problem.zero or program.entries() > MANY_ENTRIES
    if variant == "precise" and not problem.exact_batches and many:
        return LevelDecisions(problem, program.sets, program.memory, tick).best(hear)
    return program.solve()


def downsets(
    problem: StagingProblem, most: int = MAX_DOWNSETS, what: str = "for small graphs on several levels"
) -> list[int]:
    """Sets of layers, as bits, that hold all successors of their members; smaller ones first."""
    sets = closed_sets([sum(1 << v for v in set(near)) for near in problem.successors], most)
    if sets is None:
        remedy = f"merge layers to blocks: this program is {what}"
        raise InputError("layers", f"have more than {most} downsets", remedy)
    return sets


class _Hierarchy:
    """Tables of all levels, and the way back through them."""

    def __init__(
        self, problem: StagingProblem, variant: str, memory: StagingMemory, tick: Callable[[], None]
    ) -> None:
        self.problem, self.variant, self.memory, self.tick = problem, variant, memory, tick
        self.sets = downsets(problem)
        self.most = min(problem.micro_batches, problem.devices) if variant == "precise" else 0
        """The largest sum of copies."""
        self.inside = [
            math.prod(level.devices for level in problem.levels[: i + 1]) for i in range(len(problem.levels))
        ]
        self.tables: list[list[Any]] = []
        self.by_suffix = cache(self._by_suffix)
        flat = problem.replace(levels=(), bandwidth=problem.levels[0].bandwidth)
        unlimited = replace(memory, limits=(None,)) if variant == "basic" else memory
        self.costs = StageCosts(flat, "paper", unlimited)
        """Costs of stages on the innermost level."""

    def solve(self) -> Found[LeveledPlan] | None:
        for level in range(len(self.problem.levels)):
            self.tables.append(self._table(level))
        devices = self.problem.levels[-1].devices
        values = self.tables[-1][len(self.sets) - 1][0, devices, 0]
        if self.problem.exact_batches:
            if self.problem.micro_batches > self.most:
                return None
            x = self.problem.micro_batches
        else:
            x = int(np.argmin(values))
        if not np.isfinite(values[x]):
            return None
        top = len(self.problem.levels) - 1
        stages = self._back(top, len(self.sets) - 1, 0, devices, 0, x)
        return Found(LeveledPlan(tuple(stages)), float(values[x]))

    # ---- forward -----------------------------------------------------------------------------------------

    def _table(self, level: int) -> list[Any]:
        """For each downset D an array by D', devices, later copies, own copies."""
        ends = self._shape_of(level)[0]
        shape = self._shape_of(level)
        if math.prod(shape) * len(self.sets) > MAX_ENTRIES:
            raise InputError(
                "levels",
                f"need a table of {math.prod(shape) * len(self.sets):.3g} numbers for exactly N micro-batches",
                "plan for at most N, or fewer devices",
            )
        table: list[Any] = []
        for j in range(len(self.sets)):
            values = np.full(shape, np.inf)
            if j < ends:
                values[j, :, :, 0] = 0.0
            for i in self._below(j):
                self.tick()
                for stage in self._stages(level):
                    self._relax(values, table[i], stage, self.by_suffix(level, j, i, stage))
            table.append(values)
        return table

    def _shape_of(self, level: int) -> tuple[int, int, int, int]:
        top = level == len(self.problem.levels) - 1
        own, devices = min(self.most, self.inside[level]), self.problem.levels[level].devices
        return (1 if top else len(self.sets), devices + 1, 1 if top else self.most + 1, own + 1)

    def entries(self) -> int:
        """Number of entries in the largest table of a level."""
        return max(math.prod(self._shape_of(level)) for level in range(len(self.inside))) * len(self.sets)

    def _relax(self, values: Any, rest: Any, stage: _Stage, cost: Any) -> None:
        """Put the stage before the best of the rest, for all ends, devices, later and own copies."""
        if cost is None:
            return
        x0, k = stage.copies, stage.devices
        if x0 >= values.shape[3]:
            return
        own, later = np.arange(x0, values.shape[3]), np.arange(values.shape[2])
        here = cost[np.minimum(later[:, None] + own, len(cost) - 1)]
        before = rest[:, : rest.shape[1] - k, :, : rest.shape[3] - x0]
        target = values[:, k:, :, x0:]
        np.minimum(target, np.maximum(before, here), out=target)

    def _below(self, j: int) -> Iterator[int]:
        """Downsets that are smaller parts of downset j."""
        return (i for i in range(j) if not self.sets[i] & ~self.sets[j])

    def _stages(self, level: int) -> Iterator[_Stage]:
        """All shapes of a stage on a level."""
        there = self.problem.levels[level].devices
        copies = there if self.problem.replication else 1
        counted = self.variant == "precise"
        if level == 0:
            for t in self.problem.degrees:
                for d in range(1, min(there // t, copies) + 1):
                    if not counted or d <= self.most:
                        yield _Stage(d * t, d, t, d if counted else 0)
            return
        for d in range(1, copies + 1):
            if not counted:
                yield _Stage(d, d, 1, 0)
            else:
                for below in range(1, min(self.inside[level - 1], self.most // d) + 1):
                    yield _Stage(d, d, 1, d * below)

    # ---- costs -------------------------------------------------------------------------------------------

    def _by_suffix(self, level: int, j: int, i: int, stage: _Stage) -> Any:
        """Time of the stage D_j - D_i by the sum of copies of it and all later stages; the last entry is infinite.

        None where it can never be: no sum up to the largest makes it finite.
        """
        costs = np.full(self.most + 2, np.inf)
        suffix = np.arange(stage.copies, self.most + 1)
        if level == 0:
            in_flight = self._in_flight(stage, suffix)
            least, most = int(in_flight[0]), int(in_flight[-1])
            loads, shape = np.full(most - least + 1, np.inf), self._shape(j, i, stage)
            for held in range(least, most + 1):  # its memory grows with them
                load = self.costs.load(shape, stage.data_parallel, held)
                if load is None:
                    break
                loads[held - least] = load
            costs[stage.copies : -1] = loads[in_flight - least]
        else:
            # The larger of the links' time and the inner time, for each sum of copies.
            d, below = stage.data_parallel, stage.copies // stage.data_parallel
            links = upper_load(self.problem, self.sets[j] & ~self.sets[i], d, self.problem.levels[level].bandwidth)
            inner = self.tables[level - 1][j][i, self.problem.levels[level - 1].devices]
            costs[stage.copies : -1] = np.maximum(links, inner[-(-suffix // d) - below, below] / d)
        return costs if np.isfinite(costs).any() else None

    def _in_flight(self, stage: _Stage, suffix: Any) -> Any:
        """Micro-batches that a copy holds, by the sum of copies."""
        if self.variant == "precise":
            return -(-suffix // stage.data_parallel)
        return 0 * suffix + (0 if self.variant == "basic" else -(-self.problem.devices // stage.data_parallel))

    def _shape(self, j: int, i: int, stage: _Stage) -> Shape:
        return Shape(self.sets[j] & ~self.sets[i], 0, stage.tensor_parallel)

    # ---- back --------------------------------------------------------------------------------------------

    def _back(self, level: int, j: int, end: int, k: int, later: int, x: int) -> list[LeveledStage]:
        """The stages behind an entry of a table, in execution order."""
        stages: list[LeveledStage] = []
        while j != end:
            i, stage = self._step(level, j, end, k, later, x)
            stages.append(self._stage(level, j, i, stage, later + x))
            j, k, x = i, k - stage.devices, x - stage.copies
        return stages

    def _step(self, level: int, j: int, end: int, k: int, later: int, x: int) -> tuple[int, _Stage]:
        """The first stage of the best division, and what comes after it: the same numbers as on the way forward."""
        table = self.tables[level]
        value = table[j][end, k, later, x]
        for i in self._below(j):
            for stage in self._stages(level):
                if stage.devices > k or stage.copies > x:
                    continue
                cost = self.by_suffix(level, j, i, stage)
                if cost is not None:
                    rest = table[i][end, k - stage.devices, later, x - stage.copies]
                    if max(rest, cost[min(later + x, len(cost) - 1)]) == value:
                        return i, stage
        raise AssertionError("every finite entry has been reached by a stage")

    def _stage(self, level: int, j: int, i: int, stage: _Stage, suffix: int) -> LeveledStage:
        d, shape = stage.data_parallel, self._shape(j, i, stage)
        ids = tuple(self.costs.ids(shape.inside))
        if level == 0:
            names = self.costs.ways(shape, d, self._in_flight(stage, suffix))
            return LeveledStage(ids, d, stage.tensor_parallel, names)
        below = stage.copies // d
        devices = self.problem.levels[level - 1].devices
        children = self._back(level - 1, j, i, devices, -(-suffix // d) - below, below)
        return LeveledStage(ids, d, children=tuple(children))


# ---- Thousands of devices: tables for one limit at a time ---------------------------------------------------------
# Devices within devices, thousands of them: the program of `_Hierarchy` with tables for one limit at a time.
#
# For a limit on all loads only the most that may come later matters. For the layers between two downsets D' in D on
# one device of level l + 1, of which there are `above` copies in all,
#
#     most[D][k, x] = the largest sum of copies of all later stages, in copies of that device, with which the layers
#                     D - D' can be on at most k devices of level l in stages whose copies sum to at most x
#
# (-1: there is none), where a plan needs a table by all sums of later copies. Fewer copies never hurt what comes
# before: in a stage there are fewer micro-batches in flight, so its memory suffices as well. For the same reason the
# highest level needs only the least sum of copies by devices. A stage on `devices` devices in `copies` copies, with
# which and behind which there may be `reach` copies in all, is an `_Option`; for a stage of a higher level these are
# the steps of the last row of `most` inside of it. The rows before are needed for one D' and one number of copies
# above at a time.
#
# The least limit is found by bisection, each answer snapped to the plan that it has. What is decided is what
# `_Hierarchy` decides, for at most (not exactly) N micro-batches.


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
        self.between = cache(self._between)

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
                for option in self.between(level, above, i, j)
                if option.devices <= k and option.copies <= x
                if min(tables[i][k - option.devices, x - option.copies], option.reach - x) >= later
            )
            yield self._stage(level, above, i, j, option, later + x)
            j, k, x = i, k - option.devices, x - option.copies
