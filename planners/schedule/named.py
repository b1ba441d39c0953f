"""Schedules of pipelines as they are known by name: each device's order of passes, at the earliest starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ...formulations.zero_bubble.period_bounds import longest_paths
from ...instances.base.errors import UsageError, show
from ...instances.base.result import Stop
from ...instances.physics.schedules import LOOP, ROW, SCHEDULES, V_SHAPE, ScheduleRule
from ...instances.registry import evaluation_of, violations_of
from ...instances.schedule.generators import device_of
from ...instances.schedule.order import Deadlock, Run, earliest_starts
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import BlockEdge, ScheduleProblem
from ..contract import Outcome, Request
from .listing import Rank, Rule, WholeProblem, as_plan, in_whole_numbers, late, listed, order_alone, why_none

# ---- chain shape -----------------------------------------------------------------------------------------
# The shape that the named rules know: stages in a row, one or several of them on each device, in a loop or in a V.


@dataclass(frozen=True, slots=True)
class Stage:
    """The device of a stage, and the positions of its blocks."""

    device: int
    forward: int
    backward: int
    """Position of the backward pass, or of that for inputs where it is divided."""
    weights: int | None
    """Position of the backward pass for weights; None: the backward pass is not divided."""


@dataclass(frozen=True, slots=True)
class ChainShape:
    """A pipeline of stages in the order of the network."""

    problem: ScheduleProblem
    stages: tuple[Stage, ...]
    devices: tuple[int, ...]
    """In the order in which the first stages visit them; links are not among them."""
    layout: str | None
    """How several stages lie on each device: `loop` or `v`; None: neither."""
    divided: bool
    """Has every stage a backward pass for weights?"""

    @property
    def virtual(self) -> int:
        """Stages on each device."""
        return len(self.stages) // len(self.devices)

    def chunk(self, rank: int, chunk: int) -> Stage:
        """A stage of a device by its number there, in the order of the network."""
        return [stage for stage in self.stages if stage.device == self.devices[rank]][chunk]


def chain_shape(problem: ScheduleProblem, rule: str) -> ChainShape:
    """The shape of a problem; errors name `rule`, which is for such a shape alone.

    Raises
    ------
    UsageError
        The problem is no pipeline of stages in a row.
    """

    def refused(why: str) -> UsageError:
        return UsageError(f"The rule {rule} is for stages in a row, and {why}; choose --planner list-schedule.")

    if problem.micro_batches is None:
        raise UsageError(f"The rule {rule} needs a number of micro-batches; give --micro-batches.")
    follow = _passes_after(problem)
    forward = _in_a_row([b for b, block in enumerate(problem.blocks) if block.kind == "F"], follow)
    if not forward:
        raise refused("the forward passes of this problem are not one chain")
    back = _in_a_row([b for b, block in enumerate(problem.blocks) if block.kind in "BI"], follow)
    if len(back) != len(forward):
        raise refused("this problem has not one backward pass for each forward pass, in the opposite order")
    stages = []
    weights = {b for b, block in enumerate(problem.blocks) if block.kind == "W"}
    index = problem.device_index
    for f, b in zip(forward, reversed(back), strict=True):
        weight_passes = sorted(follow[b] & weights)
        devices = {problem.blocks[i].devices for i in (f, b, *weight_passes)}
        name = show(problem.blocks[f].id)
        if len(devices) != 1 or len(problem.blocks[f].devices) != 1:
            raise refused(f"the passes of the stage of block {name} are not all on one device")
        if len(weight_passes) > 1:
            raise refused(f"the stage of block {name} has {len(weight_passes)} backward passes for weights")
        if longest_paths(problem, f)[b] is None:
            raise refused(f"no backward pass waits for block {name}")
        weight_pass = weight_passes[0] if weight_passes else None
        stages.append(Stage(index[problem.blocks[f].devices[0]], f, b, weight_pass))
    if sum(stage.weights is not None for stage in stages) != len(weights):
        raise refused("a backward pass for weights belongs to no stage")
    devices_in_order = tuple(dict.fromkeys(stage.device for stage in stages))
    if len(stages) % len(devices_in_order) or any(
        sum(stage.device == d for stage in stages) != len(stages) // len(devices_in_order) for d in devices_in_order
    ):
        raise refused("its devices have different numbers of stages")
    divided = {stage.weights is not None for stage in stages}
    if len(divided) > 1:
        raise refused("only some of its backward passes are divided")
    if any(edge.offset for edge in problem.edges):
        raise refused("micro-batches of this problem wait for each other")
    for block in problem.blocks:
        if block.kind == "X" and any(index[name] in devices_in_order for name in block.devices):
            raise refused(f"block {show(block.id)} of the kind X runs on a device of the stages")
    return ChainShape(problem, tuple(stages), devices_in_order, _layout(stages, devices_in_order), divided.pop())


def _layout(stages: Sequence[Stage], devices: Sequence[int]) -> str | None:
    for layout in (LOOP, V_SHAPE):
        if all(stage.device == devices[device_of(i, len(devices), layout)] for i, stage in enumerate(stages)):
            return layout
    return None


def _passes_after(problem: ScheduleProblem) -> list[set[int]]:
    """The passes that wait for each block, directly or through blocks of kind X (transfers over links, say)."""
    direct: list[set[int]] = [set() for _ in problem.blocks]
    for (i, j), edge in zip(problem.ends, problem.edges, strict=True):
        if not edge.offset:
            direct[i].add(j)
    passes: list[set[int]] = [set() for _ in problem.blocks]
    for b in reversed(problem.order):
        for j in direct[b]:
            passes[b] |= passes[j] if problem.blocks[j].kind == "X" else {j}
    return passes


def _in_a_row(blocks: Sequence[int], follow: Sequence[set[int]]) -> list[int]:
    """The blocks as a chain, each waiting for the one before; empty: they are none."""
    among = set(blocks)
    after = {b: follow[b] & among for b in blocks}
    firsts = among.difference(*after.values())
    if len(firsts) != 1:
        return []
    row = [firsts.pop()]
    while following := after[row[-1]]:
        # An edge past the next stage says nothing more where the chain is whole.
        nearest = [b for b in following if not any(b in after[other] for other in following)]
        if len(nearest) != 1:
            return []
        row.append(nearest[0])
    return row if len(row) == len(blocks) else []


# ---- named ------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """The planner of one rule."""

    rule: ScheduleRule

    @property
    def name(self) -> str:
        return self.rule.name

    def plan(self, request: Request) -> Outcome:
        plan = schedule_by(self, request.problem)
        evaluation = evaluation_of(request.problem, plan)
        value = evaluation.objective(str(request.options["objective"]))
        assert value is not None, "the micro-batches have an end"
        full = [use for use in evaluation.devices if use.limit is not None and use.peak > use.limit]
        if full:
            worst = max(full, key=lambda use: use.peak - (use.limit or 0))
            assert worst.limit is not None
            peak, limit = map(request.problem.in_memory_unit, (worst.peak, worst.limit))
            message = f"{self.name} needs {peak} on {show(worst.name)}, above its memory of {limit}"
            return Outcome(Stop.COMPLETED, messages=(message,))
        request.board.post(plan, float(value))
        return Outcome(Stop.COMPLETED, plan, float(value))


def schedule_by(named: Named, problem: ScheduleProblem) -> SchedulePlan:
    """The rule's schedule, whatever memory it takes.

    Raises
    ------
    UsageError
        The rule does not fit the problem.
    """
    shape = chain_shape(problem, named.name)
    _check_fit(named, shape)
    batches = problem.micro_batches or 0
    orders: dict[str, list[Run]] = {}
    for rank, device in enumerate(shape.devices):
        runs = orders[problem.devices[device].name] = []
        for kind, chunk, n in named.rule.order(rank, len(shape.devices), shape.virtual, batches):
            stage = shape.chunk(rank, chunk)
            of_kind: dict[str, list[int | None]] = {
                "F": [stage.forward],
                "I": [stage.backward],
                "W": [stage.weights],
            }
            blocks = of_kind.get(kind, [stage.backward, stage.weights])
            runs += [(block, n) for block in blocks if block is not None]
    starts = earliest_starts(problem if named.rule.divided else _undivided(shape), orders)
    assert not isinstance(starts, Deadlock), "the rules' passes wait for earlier ones alone"
    return starts


def _check_fit(named: Named, shape: ChainShape) -> None:
    def refused(why: str) -> UsageError:
        return UsageError(f"The rule {named.name} is for {why}; choose --planner list-schedule.")

    rule, p = named.rule, len(shape.devices)
    if rule.shape == ROW and shape.virtual != 1:
        raise refused(f"one stage on each device, and here are {shape.virtual}")
    if rule.shape != ROW and shape.virtual == 1:
        raise refused("several stages on each device, and here is one")
    if rule.shape == LOOP and shape.layout != LOOP and shape.virtual > 1:
        raise refused("stages that go through the devices in a loop, and these do not")
    if rule.shape == V_SHAPE and (shape.layout != V_SHAPE or shape.virtual != 2) and p > 1:
        raise refused("two stages on each device in a V, there and back, and these are not")
    if rule.divided and not shape.divided:
        raise refused("backward passes in two parts (I and W), and these are in one (B)")
    if rule.in_groups and (shape.problem.micro_batches or 0) % p:
        raise refused(f"multiples of {p} micro-batches on {p} devices, and here are {shape.problem.micro_batches}")


def _undivided(shape: ChainShape) -> ScheduleProblem:
    """The problem in which a gradient is passed on only after the whole backward pass, as these rules run it."""
    weights = {
        shape.problem.blocks[stage.backward].id: shape.problem.blocks[stage.weights].id
        for stage in shape.stages
        if stage.weights is not None
    }

    def later(edge: BlockEdge) -> BlockEdge:
        last = weights.get(edge.source)
        return edge if last in (None, edge.target) else replace(edge, source=str(last))

    return shape.problem.replace(edges=tuple(map(later, shape.problem.edges)))


GPIPE = Named(SCHEDULES["gpipe"])
ONE_F_ONE_B = Named(SCHEDULES["1f1b"])
INTERLEAVED = Named(SCHEDULES["interleaved-1f1b"])
ZB_H1 = Named(SCHEDULES["zb-h1"])
ZB_H2 = Named(SCHEDULES["zb-h2"])
ZB_V = Named(SCHEDULES["zb-v"])
DUALPIPE_V = Named(SCHEDULES["dualpipe-v"])

# The rules; those that usually have the shortest schedules come first.
RULES = (ZB_V, DUALPIPE_V, INTERLEAVED, ZB_H2, ZB_H1, ONE_F_ONE_B, GPIPE)


def rule_schedules(problem: ScheduleProblem) -> Iterator[tuple[str, SchedulePlan]]:
    """The schedule of each rule that fits the problem's shape and memory, by the rule's name."""
    for named in RULES:
        try:
            plan = schedule_by(named, problem)
        except UsageError:
            continue
        if not violations_of(problem, plan):
            yield named.name, plan


# ---- Greedy schedules with divided backward passes, within memory: passes for weights fill what is idle ------
# After the heuristic that Qi et al. describe in Zero Bubble Pipeline Parallelism, 2024: forward passes first, as
# many as the memory takes; then I and F in turn, or I whenever one is there; W where a device would idle otherwise
# or has no memory for anything else. As there, a handful of variants are tried and the best is kept.

# How long a device waits for another pass rather than start a pass for weights, as shares of the time of that pass.
PATIENCE = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))
# Patience of our own variants, which need less of it.
SHORT_PATIENCE = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))


def best_of(request: Request, plans: Iterable[SchedulePlan]) -> Outcome:
    """The best of plans that the referee accepts; each is posted as soon as it is there, until time is over."""
    objective, board = str(request.options["objective"]), request.board
    for plan in plans:
        value = evaluation_of(request.problem, plan).objective(objective)
        assert value is not None, "the micro-batches have an end"
        board.post(plan, float(value))
        if request.out_of_time():
            break
    stop = Stop.TIME if request.out_of_time() else Stop.COMPLETED
    messages = (why_none(request.problem),) if board.plan is None else ()
    return Outcome(stop, board.plan, board.value, messages=messages)


def plan_greedily(request: Request) -> Outcome:
    """The best of the schedules that fill idle time greedily."""
    return best_of(request, greedy_schedules(request.problem, str(request.options["objective"])))


def greedy_schedules(problem: ScheduleProblem, objective: str) -> Iterator[SchedulePlan]:
    """Schedules of all variants that the referee accepts: each as it is, and as late as its order lets it be.

    Raises
    ------
    UsageError
        The problem is no pipeline of stages in a row, or its backward passes are in one part.
    """
    shape = chain_shape(problem, "zb-greedy")
    if not shape.divided:
        raise UsageError(
            "The rule zb-greedy is for backward passes in two parts (I and W), and these are in one (B); choose "
            "--planner list-schedule."
        )
    whole = in_whole_numbers(problem)
    alone = order_alone(whole)
    if isinstance(alone, bool):
        return
    for rule in variants(whole, shape):
        starts = listed(whole, rule, alone, problem.micro_batches or 0)
        for moved in () if starts is None else (starts, late(whole, starts)):
            plan = as_plan(whole, moved)
            if not violations_of(problem, plan):
                yield plan


def variants(whole: WholeProblem, shape: ChainShape) -> Iterator[Rule]:
    """The rules that are tried: they differ in which of I and F comes first where both may start, in how long to wait
    rather than begin a W, and in how many micro-batches a stage may begin before a gradient comes."""
    kinds = [block.kind for block in whole.problem.blocks]
    heads, tails = whole.heads, whole.tails
    ranks: tuple[Rank, ...] = (
        lambda b, n: ("IFXW".index(kinds[b]), n, -heads[b]),  # I first
        lambda b, n: ("FIXW".index(kinds[b]), n, -heads[b]),  # F first, as far as the memory goes
        lambda b, n: (kinds[b] == "W", n, -tails[b]),  # the older micro-batch first
        # In turn: a forward pass counts as one before the backward pass that it makes room for.
        lambda b, n: (kinds[b] == "W", n * max(whole.load, 1) + heads[b]),
    )
    if shape.virtual == 1 and not any(name == ZB_H2.name for name, _ in rule_schedules(whole.problem)):
        p = len(shape.stages)
        between = {stage.forward: (stage.backward, 2 * (p - k) - 1) for k, stage in enumerate(shape.stages)}
        for patience in SHORT_PATIENCE:
            yield Rule(ranks[0], patience, None, between, frozenset(shape.devices[:1]))
    for patience in PATIENCE:
        for rank in ranks:
            yield Rule(rank, patience)
