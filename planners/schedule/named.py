"""Schedules of pipelines as they are known by name: each device's order of passes, at the earliest starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from ...instances.base.errors import UsageError, show
from ...instances.base.result import Stop
from ...instances.physics.schedules import LOOP, ROW, SCHEDULES, V_SHAPE, ScheduleRule
from ...instances.registry import evaluation_of, violations_of
from ...instances.schedule.order import Deadlock, Run, earliest_starts
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import BlockEdge, ScheduleProblem
from ..contract import Outcome, Request
from .alone import order_alone
from .chain_shape import ChainShape, chain_shape
from .listing import Rank, Rule, as_plan, late, listed, why_none
from .whole import WholeProblem, in_whole_numbers


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
# After the heuristic that Qi et al. describe in Zero Bubble Pipeline Parallelism, 2024: forward passes first, as many
# as the memory takes; then I and F in turn, or I whenever one is there; W where a device would idle otherwise or has
# no memory for anything else. As there, a handful of variants are tried and the best is kept.

# How long a device waits for another pass rather than start a pass for weights, as shares of the time of that pass.
PATIENCE = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))
# Patience of our own variants, which need less of it.
SHORT_PATIENCE = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))


class ZeroBubbleGreedy:
    def plan(self, request: Request) -> Outcome:
        """The best variant; each plan is posted as soon as it is there."""
        objective, board = str(request.options["objective"]), request.board
        for plan in greedy_schedules(request.problem, objective):
            value = evaluation_of(request.problem, plan).objective(objective)
            assert value is not None, "the micro-batches have an end"
            board.post(plan, float(value))
            if request.out_of_time():
                return Outcome(Stop.TIME, board.plan, board.value)
        messages = (why_none(request.problem),) if board.plan is None else ()
        return Outcome(Stop.COMPLETED, board.plan, board.value, messages=messages)


ZB_GREEDY = ZeroBubbleGreedy()


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
