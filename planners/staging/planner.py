"""`dp-piper` and what the paper compares it with: the same program with some choices taken away.

The bound is a proof where knapsacks are solved exactly. With the published greedy the plan is what the published
program finds; its bound comes from relaxed knapsacks and holds for all choices. Bounds of a restricted planner hold for
its restriction alone, so they are not reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ...instances.base.errors import InputError, UsageError
from ...instances.base.graph import closed_sets
from ...instances.base.json_file import write_text_atomically
from ...instances.base.result import Stop
from ...instances.physics.tolerances import BETTER
from ...instances.registry import violations_of
from ...instances.staging.plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan
from ...instances.staging.problem import FLUSH, StagingLevel, StagingProblem, check_question
from ..contract import Outcome, Request
from ..placement.heuristics import contract_to_path
from ..referee import rules_of
from ..registry import TABLE
from ..search import OutOfTimeError, tick_of
from .costs import Shape, StageCosts, StagingMemory, upper_load, whole_memory
from .equal import best_quick_tree, recomputes
from .model import ROUNDING, PiperModel, Restriction, TooManyPairsError, from_downsets, model_of
from .search import (
    FASTER,
    FIRST_TRY,
    Found,
    Search,
    Step,
    check_size,
    check_table,
    flushed_value,
    least_flushed,
    least_load,
    proven,
    table_of,
)

# ---- the program for levels, types and more -------------------------------------------------------------------
# Piper's dynamic program for devices within devices or of several types, and for flushes.
#
# Plans are asked for with all loads within a limit, which is bisected, each answer snapped to the plan that it has; so
# thousands of devices are within reach. For a limit only the most that may come later matters. For the layers between
# two downsets D' in D (closed under successors: what is left to do after a stage is one) on one device of level l +
# 1, of which there are `above` copies in all,
#
#     most[D][k, x] = the largest sum of copies of all later stages, in copies of that device, with which the layers
#                     D - D' can be on at most k devices of level l in stages whose copies sum to at most x
#
# (-1: there is none). A stage with d copies holds ceil((later + x) / d) micro-batches, and ceilings nest: what counts
# is right on every level. On level 1 the load of a stage is a knapsack over its layers' configurations, with tensor
# parallelism; above, its links and what is inside of it must keep the limit. Fewer copies never hurt what comes
# before: in a stage there are fewer micro-batches in flight, so its memory suffices as well. For the same reason the
# highest level needs only the least sum of copies by devices. A stage on `devices` devices in `copies` copies, with
# which and behind which there may be `reach` copies in all, is an `_Option`; for a stage of a higher level these are
# the steps of the last row of `most` inside of it. The rows before are needed for one D' and one number of copies
# above at a time.
#
# Without levels there is one, whose devices may be of several types: then the least sum of copies has an axis for each
# type. A flush asks for at least so many copies of each stage.
#
# Plain numpy over all pairs of downsets: for lattices of up to `MAX_DOWNSETS`, which take minutes.


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


# ---- planners ------------------------------------------------------------


@dataclass(frozen=True)
class PiperPlanner:
    restriction: Restriction | None = None
    """The choices that are left; None: the program decides over all of them, and its bounds are proofs."""

    def plan(self, request: Request) -> Outcome:
        check_question(request.problem, request.options)
        problem = request.problem
        if problem.levels or problem.device_types or request.options.get("objective") == FLUSH:
            if request.options.get(TABLE.name) is not None:
                what = "devices within devices" if problem.levels else "flushes and several types of devices"
                raise UsageError(
                    f"--{TABLE.name} is for one level, one type of device and throughput: with {what} drop it."
                )
            return plan_extended(request)
        return _plan_flat(self.restriction, request)


PLANNER = PiperPlanner()
NO_DATA_PARALLELISM = PiperPlanner(Restriction(replicas=lambda d: d == 1))
NO_TENSOR_PARALLELISM = PiperPlanner(Restriction(allowed=lambda degree, way: degree == 1))
NO_RECOMPUTATION = PiperPlanner(Restriction(allowed=lambda degree, way: not recomputes(way)))


def _plan_flat(restriction: Restriction | None, request: Request) -> Outcome:
    """The least load on devices that are alike."""
    options, board, tick, searches = request.options, request.board, tick_of(request), list[Search]()
    path, exact = options.get(TABLE.name), options.get("knapsack", "exact") == "exact"

    def best(inside: bool) -> Found[StagedPlan] | None:
        tick()
        if path is not None:
            check_table(path)
        model = model_of(request.problem, options, restriction or Restriction())
        if path is not None:
            check_size(model)
        search = Search(model.inside() if inside else model, exact, tick)
        searches.append(search)

        def hear(value: float, bound: float, steps: list[Step]) -> None:
            """Post the value and the bound, and the plan only where it is better and fits."""
            better = board.value is None or value < board.value
            plan = search.plan(steps) if better else None
            plan = plan if plan is not None and fits(Found(plan, value)) else None
            board.post(plan, value, None if inside or restriction else bound, nodes=search.decisions)

        answer = search.best(hear)
        if answer is None:
            return None
        value, steps = answer
        hear(value, search.bound, steps)
        if path is not None and not inside:
            with suppress(OutOfTimeError):
                write_text_atomically(path, table_of(search).to_csv())
        return Found(search.plan(steps), value)

    def fits(found: Found[StagedPlan]) -> bool:
        model = searches[0].model
        return model.memory.exact or not violations_of(model.problem, found.plan, semantics=model.semantics)

    try:
        outcome = proven(request, best, fits, (), lambda: searches[0].size() if searches else {})
    except TooManyPairsError:
        return Outcome(Stop.MEMORY, messages=("too many stages between downsets for the tables",))
    if not searches:
        return outcome
    decided = (
        f"decided over all {searches[0].model.downsets} downsets, with {'exact' if exact else 'relaxed'} knapsacks"
    )
    stop = Stop.COMPLETED if restriction and outcome.stop == Stop.INFEASIBLE else outcome.stop
    return replace(outcome, stop=stop, checks=(f"the dynamic program {decided}",))


# ---- Beyond the paper: devices within devices, devices of several types, and pipelines that are flushed -------------
# With a flush a batch of N micro-batches takes N + X - m slots where the stages have X copies in all and the fewest
# copies of a stage are m (`least_flushed`): fewer copies may be better than a smaller load.


def plan_extended(request: Request) -> Outcome:
    """The best plan, proven; the best so far where time runs out, at first a tree that needs no search."""
    problem, options, board, tick = request.problem, request.options, request.board, tick_of(request)
    trees, flush = bool(problem.levels), options.get("objective") == FLUSH
    if not trees and options.get("knapsack", "exact") != "exact":
        raise InputError(
            "option knapsack", "is greedy, but flushes and types of devices need exact knapsacks", "give exact"
        )
    rules, first = rules_of(problem, options), decisions_of(problem, options, tick)

    def fits(found: Found[Any]) -> bool:
        return not rules.violations(problem, found.plan)

    def best(inside: bool) -> Found[Any] | None:
        tick()
        search = decisions_of(problem, options, tick, inside) if inside else first

        def hear(found: Found[Any], bound: float) -> None:
            """A better plan, if it fits with all digits; a flush only adds to the largest load and its bounds."""
            plan, value = found.plan if fits(found) else None, rules.value(problem, found.plan)
            board.post(plan, value, None if inside else bound, nodes=None if trees else search.decisions)

        fastest = search.best(hear)
        if fastest is None:
            return None
        hear(fastest, fastest.load)
        if not flush:
            return fastest
        return least_flushed(problem, search.decide, fastest, fastest.load, _copies(search), hear)

    quick = best_quick_tree(problem, rules, request.out_of_time) if trees and not flush else None
    if quick is not None:
        board.post(quick, rules.value(problem, quick))
    claim = None if flush else lambda found: found.load
    checks = ("the dynamic program decided over all downsets, " + ("level by level" if trees else COUNTED),)
    return proven(request, best, fits, checks, dict if trees else first.size, claim)


COUNTED = "for each number of copies and of devices"


def _copies(search: LevelDecisions) -> set[int]:
    """Numbers of copies that a stage may have: so many on each level."""
    numbers = {1}
    for room in (*search.rooms[:-1], max(search.counts)) if search.problem.replication else ():
        numbers = {above * d for above in numbers for d in range(1, room + 1)}
    return {number for number in numbers if number <= search.problem.micro_batches}


# ---- PipeDream's partitioner for stagings -------------------------------------------------------------------------
# PipeDream's partitioner for stagings: cuts of a path and replication, all memory ignored.
#
# The graph is contracted between its articulation points to a path; the path is cut, and each piece gets a number of
# replicas, so that the largest load is least: Piper's program over the few downsets that are ends of the path,
# without tensor parallelism and without a memory. The referee may reject what comes out, and a message says so.


def plan_pipedream(request: Request) -> Outcome:
    problem, semantics = request.problem, request.options.get("semantics", "paper")
    tick = tick_of(request)
    try:
        tick()
        search = Search(path_model(problem, semantics), tick=tick)
        answer = search.best()
    except OutOfTimeError:
        return Outcome(Stop.TIME)
    if answer is None:
        return Outcome(Stop.COMPLETED, messages=("no cut of the path gives every layer a configuration",))
    value, steps = answer
    plan = search.plan(steps)
    broken = any(violation.rule == "memory" for violation in violations_of(problem, plan, semantics=semantics))
    messages = ("the plan exceeds the memory, which PipeDream's partitioner ignores",) if broken else ()
    return Outcome(Stop.COMPLETED, plan, value, messages=messages)


def path_model(problem: StagingProblem, semantics: str) -> PiperModel:
    """The model whose downsets are the ends of the path, with one device for each replica and no memory limit."""
    blocks = path_of(problem)
    ends = [frozenset(i for block in blocks[cut:] for i in block) for cut in range(len(blocks), -1, -1)]
    boundless = problem.replace(memory_bytes=None)
    return from_downsets(boundless, ends, semantics, Restriction(allowed=lambda degree, way: degree == 1))


def path_of(problem: StagingProblem) -> list[list[int]]:
    """Blocks of layers (by position), one after the other."""
    work = tuple(
        min((way.time for way in layer.configurations.get(1, ())), default=0.0) for layer in problem.layers
    )
    return [block for block in contract_to_path(problem.arcs, work, work) if block]


# ---- The same degrees on every stage ------------------------------------------------------------------------------
# `uniform`: the fastest plan whose stages all have the same degrees, which is what Megatron-LM and DeepSpeed can run.
#
# For each tensor-parallel degree and each number of replicas of every level, whether some plan is faster than the
# best so far is decided by the program of `levels` with these degrees alone; a flat network is one level.
# Where even perfectly shared work would take longer than the best plan, nothing is asked. With flushes
# (`least_flushed`), the best of each is sought.


NONE_FITS = "no plan with the same degrees on every stage fits"
# Up to so many replicas of a stage on one level every number is tried, and above it those that divide the level.
EVERY = 16

# The tensor-parallel degree, and the replicas of a stage on each level, the innermost first.
Degrees = tuple[int, tuple[int, ...]]


def plan_uniform(request: Request) -> Outcome:
    """Every way to give all stages the same degrees, those first that leave no device idle."""
    problem, board = request.problem, request.board
    check_question(problem, request.options)
    levels = problem.levels or (StagingLevel(problem.devices, problem.bandwidth),)
    leveled = problem.replace(levels=levels)
    tick = tick_of(request)
    try:
        sets, memory = downsets(problem), whole_memory(problem, problem.devices)
        for degrees in sorted(_choices(leveled), key=lambda each: _ideal(leveled, each)):
            tick()
            if board.value is not None and _ideal(leveled, degrees) >= board.value:
                break
            search = LevelDecisions(problem, sets, memory, tick, degrees)
            if request.options.get("objective") == FLUSH:
                _improve_flushed(request, search, _ideal(leveled, degrees))
            else:
                _improve(request, search)
    except OutOfTimeError:
        return Outcome(Stop.TIME, board.plan, board.value)
    messages = () if board.plan is not None else (NONE_FITS,)
    return Outcome(Stop.COMPLETED, board.plan, board.value, messages=messages)


def _choices(problem: StagingProblem) -> Iterator[Degrees]:
    """Every tensor-parallel degree with every number of replicas on each level that leaves room for a stage."""
    innermost, *upper = (level.devices for level in problem.levels)
    for t in problem.degrees:
        if t <= innermost and all(layer.configurations.get(t) for layer in problem.layers):
            rooms = [innermost // t, *upper]
            yield from ((t, copies) for copies in product(*(_replicas(problem, room) for room in rooms)))


def _replicas(problem: StagingProblem, room: int) -> list[int]:
    """Numbers of replicas to try on one level, which has room for `room` of them."""
    if not problem.replication:
        return [1]
    return [d for d in range(1, room + 1) if d <= EVERY or room % d == 0]


def _ideal(problem: StagingProblem, degrees: Degrees) -> float:
    """No plan of these degrees takes less time per micro-batch: the work of all layers, shared perfectly among
    the devices that its stages can have."""
    t, copies = degrees
    rooms = [problem.levels[0].devices // t, *(level.devices for level in problem.levels[1:])]
    used = t * math.prod(room // d * d for room, d in zip(rooms, copies, strict=True))
    stages = math.prod(room // d for room, d in zip(rooms, copies, strict=True))
    shared = min(len(problem.layers), stages, problem.micro_batches // math.prod(copies)) * t * math.prod(copies)
    work = math.fsum(t * min(way.time for way in layer.configurations[t]) for layer in problem.layers)
    return work / min(used, shared) if shared else math.inf


def _improve(request: Request, search: LevelDecisions) -> None:
    """Plans of these degrees, each better than the best so far, as long as there are any."""
    board = request.board
    while True:
        result = (
            search.best(lambda best, low: None)
            if board.value is None
            else search.decide(board.value * (1 - BETTER))
        )
        if result is None:
            return
        if violations_of(search.problem, result.plan):  # memory has more digits than are counted
            return
        board.post(result.plan, result.load)


def _improve_flushed(request: Request, search: LevelDecisions, ideal: float) -> None:
    """The best plan of these degrees with a flush behind every batch, if it is better than the best so far."""
    board = request.board

    def hear(found: Found[Any], low: float) -> None:
        if not violations_of(search.problem, found.plan):
            board.post(found.plan, flushed_value(search.problem, found))

    # A flush only adds to the largest load.
    first = search.decide(math.inf if board.value is None else board.value * (1 - BETTER))
    if first is not None and search.degrees is not None:
        copies = math.prod(search.degrees[1])
        least_flushed(search.problem, search.decide, first, ideal, [copies], hear)
