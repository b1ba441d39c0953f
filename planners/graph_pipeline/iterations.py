"""Bounds and plans for iterations, by a dynamic program that builds pipelines from their end.

Stages are those of the decomposition, all with one micro-batch size. What is minimised is the iteration: filling,
passes, draining, and transfers that nothing hides (see `fronts`). Told the longest iteration that matters, the program
finds the shortest such pipeline, or proves that there is none; so it begins with one that is too short, and goes up in
steps. What it refutes bounds the iterations of all plans. A plan takes longer where its passes wait for each other in
between: the referee says how long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise, product
from operator import add, mul
from typing import Any, NamedTuple

from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.series_parallel import Parallel, Series, Tree, decompose, depth, operators
from ...instances.physics.tolerances import SAFETY
from .configurations import allowed_degrees, by_the_rule, menu
from .costs import whole_graph_memory
from .search import Decision, plan_of

# ---- fronts ----------------------------------------------------------------------------------------------
# What a stage that comes earlier has to know of a part of the pipeline that reaches to its end.
#
# The part begins with one stage, or with several side by side: its *front*. Fronts are compared for one micro-batch
# size. Before the first forward pass of a front, F passes, until one forward pass of each stage before it has run,
# one after the other, with the transfers between them; after its last backward pass G passes in the same way. Let m
# be the micro-batches of an iteration, and f and g forward and backward time of a stage. In between it runs all its
# passes, so that an iteration T takes no less than
#
#     F + m (f + g) + G    and    F + m (f + g) + synchronisation.
#
# With c for the transfer to the part of the pipeline that follows, a front thus has the least F + G + `whole` and
# the least F + `synced` for all its stages, and a stage before it adds to them
#
#     whole  = max(f + 2 c + g + whole, m (f + g)),    synced = max(f + c + synced, m (f + g) + synchronisation).
#
# Micro-batch 1 goes to the end of the pipeline and back, which takes `trip`, before the other m - 1 go back; and so
# does micro-batch m after the others went forward: for m (f + g) one may read trip + (m - 1) max(f, g), where that
# is more. All that holds for every kFkB and for any samples in flight.
#
# Transfers that nothing hides (`waits`: k = 1 everywhere). `held` are the micro-batches in flight: a stage holds at
# least one more than each one that follows it, or all m. Take stages u, ..., w, each of which sends to the next and
# holds just one more than that: n stages, held(u) = held(w) + n - 1 < m. With 1F1B the forward pass j of w comes
# before its backward pass j - held(w) + 1, and that backward pass of u before the forward pass j - held(w) + 1 +
# held(u) = j + n of u. So u, ..., w run one forward and one backward pass each, one after the other with the
# transfers there and back, in every n micro-batches: `rounds[n - 1]` is how long that takes once. A round starts
# with the forward pass j0 of u and ends with its backward pass j0 - held(w) + 1, and (m - j0) div n + 1 rounds
# follow each other; before the last of them u runs a forward and a backward pass (m - j0) mod n times more, and
# after it held(w) - 1 backward passes. The first round may start at j0 = held(w), after held(w) - 1 forward passes
# of u; or at j0 = held(u) + 1, after the trip of micro-batch 1. The trip of micro-batch m may take longer than the
# last round with what follows. n = 1 is u alone.

# Stages that wait for transfers together.
MOST_IN_ROUND = 5

# Up to this, it is told apart how many micro-batches more a stage holds than the next one. For a stage that holds
# more, no waiting is counted, and it is kept as holding just one more than this. So what is kept is never above the
# truth; and stages before it are counted as waiting with it only where it is the truth, for these hold one more
# than what is kept.
MORE_HELD = 3

# Limit on sums of memory: Python's whole numbers are unlimited, so memory is as good as always exact.
ANY_NUMBER = 2**1000


class Placed(NamedTuple):
    """One stage: its operators as a bit set, its devices, and the fewest micro-batches in flight that it may
    hold."""

    members: int
    devices: int
    held: int


class Front(NamedTuple):
    """What a stage before has to know of the first stages of a part and of what comes after them."""

    held: int
    """Micro-batches in flight of its first stage."""
    devices: int
    """Devices of its largest stage; 0: nothing follows."""
    whole: float
    synced: float
    trip: float
    rounds: tuple[float, ...]
    """rounds[n - 1]: seconds of one round of n stages, see above; 0: there are no such stages. Where several stages are
    side by side, the rounds of those that hold most."""
    single: bool
    """Is it one stage, which reads all that is sent to this part?"""
    built: Any
    """The stages of the part, from which `iterations.stages_of` makes a plan."""


# Behind the last stage.
END = Front(0, 0, 0.0, 0.0, 0.0, (), False, None)


def is_better(one: Front, other: Front) -> bool:
    """Is the first front no worse than the other one for every stage that comes before?"""
    return (
        one.held <= other.held
        and one.devices >= other.devices
        and one.whole <= other.whole
        and one.synced <= other.synced
        and one.trip <= other.trip
        and one.single <= other.single
        and (one.held < other.held or all(a <= b for a, b in zip(one.rounds, other.rounds, strict=False)))
    )


def keep(fronts: list[Front], new: Front) -> None:
    """Add a front to those kept, unless one of them is no worse; drop those that are worse than it."""
    if not any(is_better(front, new) for front in fronts):
        fronts[:] = [front for front in fronts if not is_better(new, front)]
        fronts.append(new)


def side_by_side(one: Front, other: Front, built: Any) -> Front:
    """The front of two parts of a pipeline that run side by side, as one stage before both sees it; `built`:
    the stages of both."""
    most_held = max(one.held, other.held)
    rounds = [front.rounds for front in (one, other) if front.held == most_held]
    return Front(
        most_held,
        max(one.devices, other.devices),
        max(one.whole, other.whole),
        max(one.synced, other.synced),
        max(one.trip, other.trip),
        tuple(map(max, *rounds)) if len(rounds) > 1 else rounds[0],
        False,
        built,
    )


class Readers(NamedTuple):
    """What comes next, as bit sets: all its operators, and those of them that read from none of the others."""

    members: int
    sources: int


class _Operators(NamedTuple):
    """What a set of operators costs, whatever its devices. `least`: seconds of one device for its work in an
    iteration, each operator with its best share."""

    inside: list[int]
    least: float
    weight_bytes: float
    fixed: int
    stashes: int


class _Stage(NamedTuple):
    """Seconds of one stage per micro-batch, and of its synchronisation per iteration."""

    forward: float
    backward: float
    synchronised: float
    most: int
    """Micro-batches for which the memory suffices, all of an iteration at most."""


class Stages:
    """Prices of stages for one micro-batch size, and what they make of the fronts that follow them."""

    def __init__(self, problem: GraphPipelineProblem, size: int, degrees: str, waits: bool) -> None:
        self.problem, self.size, self.waits = problem, size, waits
        self.count = problem.mini_batch // size
        self.degrees = allowed_degrees([size], problem.devices, degrees)
        self.longest = math.inf
        """Only shorter iterations matter."""
        self.useful_degrees = cache(self._useful_degrees)
        self._set, self._stage = cache(self._operators), cache(self._priced)
        self._memory = whole_graph_memory(problem, set(self.degrees), ANY_NUMBER)
        self._passes = {
            d: [(x.forward(size / d), x.backward(size / d)) for x in problem.operators] for d in self.degrees
        }
        self._readers = [sum(1 << v for v in row) for row in problem.successors]

    def least_work(self, members: int) -> float:
        """The seconds of work of these operators on one device in an iteration, each with its best share."""
        return self._set(members).least

    def limit(self, longest: float) -> None:
        """Only iterations up to this one matter from now on."""
        self.longest, self.useful_degrees = longest, cache(self._useful_degrees)

    def _useful_degrees(self, members: int) -> list[tuple[int, float]]:
        """Numbers of devices with which a stage of these operators may be fast enough, the fewest first, each with the
        time that its devices then do nothing in the longest iteration: those with which it runs all its passes in that
        time, if nothing makes it wait."""
        useful, work = [], self.least_work(members)
        for d in self.degrees:
            stage = self._stage(members, d)
            busy = self.count * (stage.forward + stage.backward) + stage.synchronised
            if stage.most >= 1 and busy <= self.longest:
                useful.append((d, d * self.longest - work))
        return useful

    def before(self, front: Front, members: int, devices: int, readers: Readers) -> Iterator[Front]:
        """Fronts of one stage with these members and one of their useful degrees that sends to `readers`, each short
        enough for the limit."""
        stage, count = self._stage(members, devices), self.count
        both = stage.forward + stage.backward
        busy = count * both
        sent = self._sent(members, devices, front, readers)
        trip, alone = both + 2 * sent + front.trip, (both,) + (0.0,) * (MOST_IN_ROUND - 1)
        least = max(busy, trip + (count - 1) * max(stage.forward, stage.backward))
        whole = max(both + 2 * sent + front.whole, least)
        synced = max(stage.forward + sent + front.synced, least + stage.synchronised)
        if whole > self.longest or synced > self.longest:
            return

        def made(held: int, whole: float, synced: float, rounds: tuple[float, ...]) -> Front:
            return Front(held, devices, whole, synced, trip, rounds, True, Placed(members, devices, held))

        if stage.most == count:
            yield made(count, whole, synced, alone)
        if front.held == count:
            return
        for more in range(1, MORE_HELD + 2 if self.waits else 2):
            held = front.held + more
            if held > min(stage.most, count - 1):
                return
            if not self.waits or more > MORE_HELD:
                yield made(held, whole, synced, alone)
                continue
            rounds = alone
            if more == 1 and front.rounds:
                rounds = (both, *(both + 2 * sent + once if once else 0.0 for once in front.rounds[:-1]))
            waited = max(_waited(stage, held, count, rounds, trip))
            if max(waited, waited + stage.synchronised) <= self.longest:
                yield made(held, max(whole, waited), max(synced, waited + stage.synchronised), rounds)

    def _sent(self, members: int, devices: int, front: Front, readers: Readers) -> float:
        """Seconds of one message to `readers`, over as many links as the smaller of the two stages has devices.
        A single stage reads what any operator sends to what comes next; to each of several stages goes what is
        sent to all sources."""
        if not front.devices:
            return 0.0
        amount = 0.0
        for u in self._set(members).inside:
            told, sources = self._readers[u], readers.sources
            if told & readers.members if front.single else sources and told & sources == sources:
                amount += self.problem.operators[u].output_bytes
        return self.problem.boundary_link.seconds(amount * self.size / min(devices, front.devices))

    def _operators(self, members: int) -> _Operators:
        """What the operators of this set cost, whatever devices they have."""
        inside = [v for v in range(len(self.problem.operators)) if members >> v & 1]
        return _Operators(
            inside,
            self.count * math.fsum(min(d * sum(row[v]) for d, row in self._passes.items()) for v in inside),
            math.fsum(self.problem.operators[v].weight_bytes for v in inside),
            sum(self._memory.fixed[v] for v in inside),
            sum(self._memory.stashes[v] for v in inside),
        )

    def _priced(self, members: int, devices: int) -> _Stage:
        """Seconds of a stage on this number of devices, and the micro-batches that its memory can hold."""
        operators, passes, d = self._set(members), self._passes[devices], devices
        link = self.problem.inner_link(d)
        room, per_batch = self._memory.limits[d] - d * operators.fixed, operators.stashes * self.size
        return _Stage(
            math.fsum(passes[v][0] for v in operators.inside),
            math.fsum(passes[v][1] for v in operators.inside),
            0.0 if d == 1 else link.seconds(2 * (d - 1) / d * operators.weight_bytes),
            0 if room < 0 else self.count if self.count * per_batch <= room else room // per_batch,
        )


def _waited(stage: _Stage, held: int, count: int, rounds: tuple[float, ...], trip: float) -> Iterator[float]:
    """The times between F and G (see above), by the rounds of each row of stages that begins with this stage."""
    forward, backward = stage.forward, stage.backward
    for n, once in enumerate(rounds[:held], start=1):
        if n > 1 and not once:
            return
        last = held - n + 1
        for early, first in (((last - 1) * forward, last), (trip, held + 1)):
            number, rest = divmod(count - first, n)
            each = forward + backward if count - rest >= held else forward
            so_far = early + number * once + rest * each
            yield so_far + once + (last - 1) * backward
            yield so_far + trip


# ---- iterations ------------------------------------------------------------

# Factor from one longest iteration to the next.
GROWTH = 1.03

# Plans of each micro-batch size that are tried, the shortest ones first.
MOST_PLANS = 4

# To look at the clock takes as long as a step.
STEPS_BETWEEN_TICKS = 64

# Levels of the tree: the program goes down by recursion, in several steps for each level.
MOST_LEVELS = 100


class OutOfStepsError(Exception):
    """Ends a search that has used up its steps."""


@dataclass
class Iterations:
    """The program for all micro-batch sizes of a problem.

    `waits`: count transfers that nothing hides, which is right for plans with k = 1 alone. `more_held`: plans may hold
    more samples than the rule asks for.
    """

    problem: GraphPipelineProblem
    sizes: Sequence[int]
    degrees: str
    waits: bool
    more_held: bool
    tick: Callable[[], None]
    refuted: float = 0.0
    """No plan has a shorter iteration."""
    watcher: Callable[[float], None] = lambda bound: None
    seen: float = 0.0
    """All plans with a shorter iteration than this have been looked at."""
    steps: int = 0
    most_steps: int | None = None
    """Limit on the steps; None: there is none."""

    @cached_property
    def tree(self) -> Tree:
        return decompose(len(self.problem.operators), self.problem.arcs)

    @cached_property
    def possible(self) -> bool:
        """Is the graph neither too deep nor too wide for the program?"""
        return depth(self.tree) <= MOST_LEVELS and choices_beside(self.problem, self.tree) <= MOST_BESIDE

    @cached_property
    def stages(self) -> Mapping[int, Stages]:
        """Prices of stages, by micro-batch size."""
        return {b: Stages(self.problem, b, self.degrees, self.waits) for b in self.sizes}

    @cached_property
    def least(self) -> Mapping[int, float]:
        """A lower bound on iterations for each micro-batch size: the work alone, spread evenly."""
        everything = (1 << len(self.problem.operators)) - 1
        return {b: stages.least_work(everything) / self.problem.devices for b, stages in self.stages.items()}

    def climb(self, known: float) -> Iterator[StageGraphPlan]:
        """Plans within the first of growing limits that allows any; the last limit is the known iteration."""
        longest = min(self.least.values())
        while longest < known:
            longest = min(max(longest, known * 1e-6) * GROWTH, known)
            fronts = self.fronts(longest)
            if fronts:
                self.refute(min(iteration_of(front) for front, *_ in fronts.values()))
                yield from self.plans(fronts)
                return
            self.refute(longest)

    def within(self, longest: float) -> Iterator[StageGraphPlan]:
        """Plans whose iteration may be as short as `longest`."""
        yield from self.plans(self.fronts(longest))

    def step(self) -> None:
        """Count a step of the search, which may end it."""
        self.steps += 1
        if self.steps % STEPS_BETWEEN_TICKS == 0:
            self.tick()
        if self.most_steps is not None and self.steps > self.most_steps:
            raise OutOfStepsError

    def refute(self, below: float) -> None:
        """Note that no plan has an iteration shorter than `below`."""
        self.refuted = max(self.refuted, below * (1 - SAFETY))
        self.watcher(self.refuted)

    def fronts(self, longest: float) -> dict[int, list[Front]]:
        """Pipelines of at most `longest` for each size that has any, with a hair added, so that rounding loses none."""
        limit, fronts_of = longest * (1 + SAFETY / 2), {}
        for b, stages in self.stages.items():
            if self.least[b] <= limit:
                fronts = shortest(stages, self.tree, limit, self.step)
                if fronts:
                    fronts_of[b] = fronts
        self.seen = max(self.seen, longest)
        return fronts_of

    def plans(self, fronts: Mapping[int, list[Front]]) -> Iterator[StageGraphPlan]:
        """Plans of these fronts, the shortest first: with the samples in flight of the rule, and with the program's."""
        rows = sorted(
            (iteration_of(front), b, n) for b, row in fronts.items() for n, front in enumerate(row[:MOST_PLANS])
        )
        for _, b, n in rows:
            self.tick()
            plan = self.plan(b, stages_of(self.problem, fronts[b][n].built))
            yield by_the_rule(self.problem, plan)
            if self.more_held:
                yield plan

    def plan(self, b: int, placed: Sequence[Placed]) -> StageGraphPlan:
        """The stages with one micro-batch size, as they are placed."""
        choice = menu(self.problem, [b], degrees=self.degrees)
        numbers, most = range(len(self.problem.operators)), self.problem.mini_batch
        decisions = [
            Decision(tuple(v for v in numbers if members >> v & 1), 0, devices, min(held * b, most))
            for members, devices, held in placed
        ]
        return plan_of(self.problem, choice, decisions)


# All pipelines of stages of the decomposition whose iteration may be short enough, from the end to the beginning.
# Stages are leaves, runs of children of a series node, whole branches of a parallel node, or the end of one branch
# with what follows the join. A part of the tree that is put before a `Front` becomes new fronts, by the number of
# devices. Two things show that a front cannot become a plan: an iteration that is longer than the longest that
# matters, and too much time in which devices do nothing. A stage on d devices whose operators are w of work (in
# time of one device, each with its best share) leaves d x longest - w of them idle; all stages together leave
# devices x longest less all work, no more.
#
# Branches are alike if they are chains of equal operators between the same neighbours. They can change places, so
# only their number counts.

# Relative error by which rounding may shorten the time that devices do nothing.
ROOM = 1e-9

# Choices of branches of one parallel node, at most: the program leaves wider graphs alone.
MOST_BESIDE = 5_000

# What reads the outputs of the last part.
NOBODY = Readers(0, 0)

# Fronts by the number of devices.
Cells = dict[int, list[Front]]


class Then(NamedTuple):
    """The stages of a part (`first`), and those of what follows it."""

    first: Any
    rest: Any


class Beside(NamedTuple):
    """Branches that stand in one stage or in stages of their own, and what stands beside them."""

    number: Sequence[int]
    """Number of branches of each class that stand here."""
    built: Any
    beside: Any
    classes: Sequence[Sequence[tuple[int, ...]]]
    """For each class, the operators of each of its branches."""


@dataclass(frozen=True, eq=False, slots=True)
class Branch:
    """A part of the tree; made once, and compared as an object."""

    tree: Tree
    readers: Readers
    order: tuple[int, ...]
    """The branch's operators, in topological order."""
    members: int
    """Its operators as a bit set."""
    facts: Any
    """Equal for branches that are alike."""

    @classmethod
    def of(cls, problem: GraphPipelineProblem, tree: Tree, readers: Readers) -> Branch:
        order = operators(tree)
        return cls(tree, readers, order, _bits(tree), (_facts(problem, order), readers))


class _End(NamedTuple):
    """The end of a branch, whose stage goes on after the join: that end, and what stands beside it or before."""

    members: int
    rest: tuple[Branch, ...]


def shortest(stages: Stages, tree: Tree, longest: float, tick: Callable[[], None]) -> list[Front]:
    """Fronts of whole pipelines with iterations of at most `longest`, the shortest one among them."""
    stages.limit(longest)
    everything = sum(1 << v for v in operators(tree))
    devices = stages.problem.devices
    idle = devices * longest - stages.least_work(everything)
    if idle < 0:
        return []
    search = _Search(stages, tick, ROOM * devices * longest)
    found = search.place(Branch.of(stages.problem, tree, NOBODY), END, devices, idle).get(devices, [])
    return sorted(found, key=iteration_of)


def choices_beside(problem: GraphPipelineProblem, tree: Tree) -> int:
    """The most choices of branches of a parallel node that the program tells apart."""
    most, pending = 1, [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Parallel):
            most = max(most, math.prod(len(alike) + 1 for alike in _classes(_branches(problem, node, NOBODY))))
        if isinstance(node, Series | Parallel):
            pending.extend(node.children)
    return most


def iteration_of(front: Front) -> float:
    """The iteration of a pipeline whose front has nothing before it."""
    return max(front.whole, front.synced)


def stages_of(problem: GraphPipelineProblem, built: Any) -> list[Placed]:
    """The stages with the operators that really are in them: alike branches take the places in turn."""
    stages: list[Placed] = []
    _collect(built, {v: v for v in range(len(problem.operators))}, stages)
    return stages


def _collect(built: Any, name: Mapping[int, int], stages: list[Placed]) -> None:
    """Append the stages of what was built; `name`: the operator that takes the place of each."""
    if isinstance(built, Placed):
        members = sum(1 << actual for v, actual in name.items() if built.members >> v & 1)
        stages.append(built._replace(members=members))
    elif isinstance(built, Then):
        _collect(built.first, name, stages)
        _collect(built.rest, name, stages)
    elif isinstance(built, Beside):
        _collect_beside(built, name, stages)


def _collect_beside(built: Beside | None, name: Mapping[int, int], stages: list[Placed]) -> None:
    """The same for branches side by side: each was built from the first of its classes, and takes the next ones."""
    taken = [0] * (len(built.classes) if built is not None else 0)
    while built is not None:
        actual = dict(name)
        for n, (branches, number) in enumerate(zip(built.classes, built.number, strict=True)):
            for own, other in zip(branches[:number], branches[taken[n] : taken[n] + number], strict=True):
                actual.update((v, name[u]) for v, u in zip(own, other, strict=True))
            taken[n] += number
        _collect(built.built, actual, stages)
        built = built.beside


@dataclass
class _Search:
    stages: Stages
    tick: Callable[[], None]
    room: float
    _known: dict[Any, Cells] = field(default_factory=dict)
    _children: dict[Branch, _Children] = field(default_factory=dict)
    _beside: dict[Branch, tuple[Branch, ...]] = field(default_factory=dict)

    def place(self, branch: Branch, after: Front, devices: int, idle: float) -> Cells:
        """Fronts of the branch before `after`, on at most `devices` devices with at most `idle` of idle time."""
        if isinstance(branch.tree, Series):
            return self.series(branch, after, devices, idle)
        if isinstance(branch.tree, Parallel):
            if branch not in self._beside:
                self._beside[branch] = _branches(self.stages.problem, branch.tree, branch.readers)
            return self.parallel(self._beside[branch], after, devices, idle)
        cells: Cells = {}
        for d, front in self.stage(after, branch.members, devices, idle, branch.readers):
            keep(cells.setdefault(d, []), front)
        return cells

    def stage(
        self, after: Front, members: int, devices: int, idle: float, readers: Readers
    ) -> Iterator[tuple[int, Front]]:
        """Fronts of one stage with these members before `after`, for each number of devices."""
        self.tick()
        for d, unused in self.stages.useful_degrees(members):
            if d > devices or unused > idle + self.room:
                return
            for front in self.stages.before(after, members, d, readers):
                self.tick()
                yield d, front

    # ---- one after the other -----------------------------------------------------------------------------

    def series(self, branch: Branch, after: Front, devices: int, idle: float) -> Cells:
        """Fronts of a row of children, by the place up to which it is built from its end."""
        if branch not in self._children:
            self._children[branch] = _Children.of(self.stages.problem, branch)
        node = self._children[branch]
        count, work, longest = len(node.parts), 0.0, self.stages.longest
        cells: list[Cells] = [{} for _ in range(count + 1)]
        cells[count] = {0: [after._replace(built=None)]}
        for place in range(count, 0, -1):
            for used, fronts in cells[place].items():
                spare = idle - (used * longest - work)
                if used < devices and spare >= -self.room:
                    for front in fronts:
                        self.extend(node, cells, place, used, front, devices - used, spare)
            work += self.stages.least_work(node.parts[place - 1])
        return cells[0]

    def extend(
        self, node: _Children, cells: list[Cells], place: int, used: int, front: Front, devices: int, idle: float
    ) -> None:
        """Extend a front by a stage, or by stages side by side, that end before `place`."""
        readers, longest, beside = node.readers[place], self.stages.longest, node.beside[place - 1]

        def add(first: int, more: int, new: Front) -> None:
            keep(cells[first].setdefault(used + more, []), new._replace(built=Then(new.built, front.built)))

        if beside:
            for d, fronts in self.parallel(beside, front, devices, idle).items():
                for new in fronts:
                    add(place - 1, d, new)
        members = 0
        for first in range(place - 1, -1, -1):
            members |= node.parts[first]
            if self.stages.least_work(members) > devices * longest:
                return
            if first < place - 1 or not beside:  # all branches in one stage: see `choices`
                for d, new in self.stage(front, members, devices, idle, readers):
                    add(first, d, new)
            for end in node.ends[first]:
                for d, new in self.with_branch_end(members, end, front, devices, idle, readers):
                    add(first - 1, d, new)

    def with_branch_end(
        self, members: int, end: _End, front: Front, devices: int, idle: float, readers: Readers
    ) -> Iterator[tuple[int, Front]]:
        """Fronts of a run in one stage with the end of a branch before it, and of the branches beside it."""
        members |= end.members
        spare = idle + self.stages.least_work(members)
        for d, stage in self.stage(front, members, devices, idle, readers):
            beside = self.parallel(end.rest, stage, devices - d, spare - d * self.stages.longest)
            for more, fronts in beside.items():
                for new in fronts:
                    yield d + more, new._replace(built=Then(new.built, stage.built))

    # ---- side by side ------------------------------------------------------------------------------------

    def parallel(self, branches: tuple[Branch, ...], after: Front, devices: int, idle: float) -> Cells:
        """Fronts of branches side by side, each in stages of its own, or whole in one stage with others."""
        rooms = math.ceil(idle / self.room)  # what differs by rounding alone is the same question
        key = (branches, after[:-1], devices, rooms)
        if key not in self._known:
            self._known[key] = self.beside(_classes(branches), after, devices, rooms * self.room)
        return self._known[key]

    def beside(self, classes: list[list[Branch]], after: Front, devices: int, idle: float) -> Cells:
        """Fronts of all branches, put together from `choices` in their order: none is taken up again after the next."""
        counts = tuple(map(len, classes))
        named = [[x.order for x in alike] for alike in classes]
        work = [self.stages.least_work(alike[0].members) for alike in classes]
        nothing, longest = (0,) * len(classes), self.stages.longest
        cells: dict[tuple[int, ...], Cells] = {nothing: {0: [END]}}
        for number, chosen in self.choices(classes, after, devices, idle):
            for before in product(*(range(most - n + 1) for most, n in zip(counts, number, strict=True))):
                now = tuple(map(add, before, number))
                spare = idle + math.fsum(map(mul, now, work)) + self.room
                for used, fronts in cells.get(before, {}).items():
                    for d, new in chosen:
                        if used + d <= devices and (used + d) * longest <= spare:
                            cell = cells.setdefault(now, {}).setdefault(used + d, [])
                            for front in fronts:
                                self.tick()
                                built = Beside(number, new.built, front.built, named)
                                keep(cell, side_by_side(front, new, built))
        return cells.get(counts, {})

    def choices(
        self, classes: list[list[Branch]], after: Front, devices: int, idle: float
    ) -> Iterator[tuple[tuple[int, ...], list[tuple[int, Front]]]]:
        """Ways to take the next branches: numbers of branches of each class, with their fronts. Each way takes one
        branch, or several whole ones in one stage."""
        for n, (branch, *_) in enumerate(classes):
            placed = self.place(branch, after._replace(built=None), devices, idle)
            alone = tuple(int(m == n) for m in range(len(classes)))
            yield alone, [(d, front) for d, fronts in placed.items() for front in fronts]
        for number in product(*(range(len(alike) + 1) for alike in classes)):
            taken = [x for alike, n in zip(classes, number, strict=True) for x in alike[:n]]
            if len(taken) > 1 and len({x.readers for x in taken}) == 1:  # a cut branch joins no other ones
                members = sum(x.members for x in taken)
                yield number, list(self.stage(after, members, devices, idle, taken[0].readers))


@dataclass(frozen=True)
class _Children:
    """The children of a series node."""

    parts: list[int]
    """The operators of each child, as a bit set."""
    readers: list[Readers]
    """What reads the outputs of what comes before: each part itself; and, behind the last, what follows the node."""
    beside: list[tuple[Branch, ...]]
    """The branches of each part that has branches side by side."""
    ends: list[list[_End]]
    """Ends of branches before each part."""

    @classmethod
    def of(cls, problem: GraphPipelineProblem, branch: Branch) -> _Children:
        assert isinstance(branch.tree, Series)
        children = branch.tree.children
        readers = [*(_readers(problem, child) for child in children), branch.readers]
        beside = [_branches(problem, child, readers[n + 1]) for n, child in enumerate(children)]
        ends = [[], *(list(_ends(problem, some)) for some in beside)]
        return cls([_bits(child) for child in children], readers, beside, ends)


def _branches(problem: GraphPipelineProblem, tree: Tree, readers: Readers) -> tuple[Branch, ...]:
    """The branches of a parallel node; none where nothing is side by side."""
    children = tree.children if isinstance(tree, Parallel) else ()
    return tuple(Branch.of(problem, child, readers) for child in children)


def _ends(problem: GraphPipelineProblem, branches: tuple[Branch, ...]) -> Iterator[_End]:
    """The ends of branches that can be cut off. Of branches that are alike, only the first one is cut."""
    for branch, *_ in _classes(branches):
        parts = branch.tree.children if isinstance(branch.tree, Series) else (branch.tree,)
        others = tuple(x for x in branches if x is not branch)
        for cut in range(len(parts)):
            end = sum(map(_bits, parts[cut:]))
            if cut:
                start = parts[0] if cut == 1 else Series(tuple(parts[:cut]))
                yield _End(end, (*others, Branch.of(problem, start, _readers(problem, parts[cut]))))
            else:
                yield _End(end, others)


def _bits(tree: Tree) -> int:
    return sum(1 << v for v in operators(tree))


def _readers(problem: GraphPipelineProblem, tree: Tree) -> Readers:
    inside = set(operators(tree))
    sources = sum(1 << v for v in inside if inside.isdisjoint(problem.predecessors[v]))
    return Readers(_bits(tree), sources)


def _classes(branches: Sequence[Branch]) -> list[list[Branch]]:
    """Branches that are alike, together."""
    classes: dict[Any, list[Branch]] = {}
    for branch in branches:
        classes.setdefault(branch.facts, []).append(branch)
    return list(classes.values())


def _facts(problem: GraphPipelineProblem, row: tuple[int, ...]) -> Any:
    """All of a chain of operators that a plan's value can depend on; a branch that is no chain is like no other."""
    if any(problem.successors[u] != (v,) or problem.predecessors[v] != (u,) for u, v in pairwise(row)):
        return row
    facts = [problem.operators[v] for v in row]
    return (
        frozenset(problem.predecessors[row[0]]),
        frozenset(problem.successors[row[-1]]),
        tuple((x.forward, x.backward, x.weight_bytes, x.stash_bytes, x.output_bytes) for x in facts),
    )
