"""Schedules for the stages of a plan: every named one and the best that a search finds, with time, idle share and
memory; schedules that need more memory than there is are shown as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..instances.base.clock import now
from ..instances.base.errors import PipeplanError, UsageError
from ..instances.base.result import Found
from ..instances.physics.schedules import LOOP, ROW, SCHEDULES, V_SHAPE
from ..instances.registry import Plan, Problem, kind_of
from ..instances.schedule.kind_functions import held, with_memory
from ..instances.schedule.plan import AnySchedule
from ..instances.schedule.problem import ScheduleProblem
from ..instances.schedule.referee.evaluate import evaluate_schedule
from ..instances.schedule.referee.verify import verify_schedule
from ..instances.simulate import check_has_stages, lower_to_schedule
from ..planners.options import SolveOptions
from ..planners.run.solve import solve
from ..planners.schedule.named import RULES, Named, greedy_schedules, schedule_by

OBJECTIVE = "makespan"
# The usual share of a backward pass that is for inputs.
HALF = 0.5
# Micro-batches for each device where neither the problem nor the user says how many an iteration has.
FOR_EACH_DEVICE = 4
# The usual seconds of all searches together.
TIME_LIMIT_S = 30.0
# Names of the schedules that no single rule makes.
BEST, GREEDY = "best", "zb-greedy"


@dataclass(frozen=True, slots=True)
class Cut:
    """How the stages of a plan become blocks."""

    words: str
    divided: bool
    virtual: int | None = None
    shape: str = ROW

    @property
    def rules(self) -> tuple[Named, ...]:
        """The rules for such stages, the simplest ones first."""
        fitting = (own for own in RULES if (own.rule.shape, own.rule.divided) == (self.shape, self.divided))
        return tuple(sorted(fitting, key=lambda own: (not own.rule.all_first, list(SCHEDULES).index(own.name))))


CUTS = (
    Cut("whole stages", divided=False),
    Cut("two chunks in a loop", divided=False, virtual=2, shape=LOOP),
    Cut("whole, backward in two", divided=True),
    Cut("two chunks in a V, backward in two", divided=True, shape=V_SHAPE),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One schedule, or why there is none."""

    name: str
    cut: str
    problem: ScheduleProblem | None = None
    plan: AnySchedule | None = None
    time: float | None = None
    idle: float | None = None
    """Share of the time in which the devices wait, from the first start of all to the last end of all."""
    peak: float | None = None
    """Peak memory of the fullest device, in the problem's memory unit."""
    fits: bool = False
    verified: bool = False
    """Does the referee accept the schedule if memory has no limit?"""
    proof: str = ""
    """Status of a search: `proven`, or the gap that is left; empty for a fixed schedule."""
    why_none: str = ""

    def to_json(self) -> dict[str, Any]:
        kept = ("name", "cut", "time", "idle", "peak", "fits", "verified", "proof", "why_none")
        return {name: getattr(self, name) for name in kept}


@dataclass(frozen=True, slots=True)
class ScheduleComparison:
    """All schedules for one number of micro-batches."""

    rows: tuple[Row, ...]
    micro_batches: int
    notes: tuple[str, ...] = ()
    memory_unit: str | None = None
    time_unit: str | None = None
    limit: float | None = None
    """Memory of the smallest device; None: memory has no limit."""

    @property
    def best(self) -> Row | None:
        """The shortest schedule that fits."""
        fitting = [row for row in self.rows if row.fits and row.time is not None]
        return min(fitting, key=lambda row: row.time or 0.0, default=None)

    def to_json(self) -> dict[str, Any]:
        best = self.best
        return {
            "micro_batches": self.micro_batches,
            "time_unit": self.time_unit,
            "memory_unit": self.memory_unit,
            "limit": self.limit,
            "rows": [row.to_json() for row in self.rows],
            "best": None if best is None else best.name,
            "notes": list(self.notes),
        }


def compare_schedules(
    problem: Problem,
    plan: Plan,
    *,
    micro_batches: int | None = None,
    memory: float | None = None,
    split_backward: float | Sequence[float] = HALF,
    limits: SolveOptions | None = None,
    **lowering: Any,
) -> ScheduleComparison:
    """All named schedules, and the best that a search finds for each way to cut the stages.

    `memory` is the limit of each device: infinite for none, None for that of the plan's problem. The time in `limits`
    is for all searches together; `lowering` are further options of `lower_to_schedule` for all rows.
    """
    check_has_stages(problem, plan)
    limits = limits or SolveOptions()
    count = micro_batches or usual_micro_batches(problem, plan)
    ends = now() + (limits.time_limit_s if limits.time_limit_s is not None else TIME_LIMIT_S)
    rows: list[Row] = []
    notes: dict[str, None] = {}
    cuts: list[tuple[Cut, ScheduleProblem]] = []
    for cut in CUTS:
        try:
            lowered = lower_to_schedule(
                problem,
                plan,
                micro_batches=count,
                split_backward=split_backward if cut.divided else None,
                virtual=cut.virtual,
                shape=cut.shape if cut.shape == V_SHAPE else None,
                **lowering,
            )
        except UsageError as error:
            rows += [Row(named.name, cut.words, why_none=_reason(error)) for named in cut.rules]
            continue
        notes |= dict.fromkeys(lowered.notes)
        made = lowered.problem if memory is None else with_memory(lowered.problem, _limit(memory))
        cuts.append((cut, made))
        rows += [_named(cut, named, made) for named in cut.rules]
        if cut.divided and cut.shape == ROW:
            rows.append(_greedy(cut, made))
    for number, (cut, made) in enumerate(cuts):
        seconds = max(0.5, (ends - now()) / (len(cuts) - number))
        rows.append(_searched(cut, made, rows, replace(limits, time_limit_s=seconds)))
    first = cuts[0][1] if cuts else None
    return ScheduleComparison(
        tuple(rows),
        count,
        tuple(notes),
        None if first is None else first.memory_unit,
        None if first is None else first.time_unit,
        None if first is None else first.memory_bytes,
    )


def usual_micro_batches(problem: Problem, plan: Plan) -> int:
    """The micro-batches in the batch of the problem, or `FOR_EACH_DEVICE` for each device."""
    field, lowered = kind_of(problem).batch, lower_to_schedule(problem, plan)
    if field is not None:
        return -(-int(getattr(problem, field)) // lowered.samples)
    return FOR_EACH_DEVICE * len(lowered.problem.computing)


def _limit(memory: float) -> float | None:
    return None if memory == float("inf") else memory


def _reason(error: Exception) -> str:
    """The error without its remedy, which is for a command that asks for one schedule alone."""
    return str(error).partition(";")[0].rstrip(".")


def _named(cut: Cut, named: Named, problem: ScheduleProblem) -> Row:
    try:
        return _judged(named.name, cut, problem, schedule_by(named, problem))
    except UsageError as error:
        return Row(named.name, cut.words, why_none=_reason(error))


def _greedy(cut: Cut, problem: ScheduleProblem) -> Row:
    """The shortest of the greedy schedules, which obey the limit of memory."""
    try:
        plans = list(greedy_schedules(problem, OBJECTIVE))
    except UsageError as error:
        return Row(GREEDY, cut.words, why_none=_reason(error))
    rows = (_judged(GREEDY, cut, problem, plan) for plan in plans)
    best = min(rows, key=lambda row: row.time or 0.0, default=None)
    return best or Row(GREEDY, cut.words, why_none="it finds no schedule within the memory")


def _judged(name: str, cut: Cut, problem: ScheduleProblem, plan: AnySchedule) -> Row:
    """The row of a schedule that the referee has judged, with the limit of memory and without."""
    evaluation = evaluate_schedule(problem, plan)
    value = evaluation.objective(OBJECTIVE)
    return Row(
        name,
        cut.words,
        problem,
        plan,
        None if value is None else float(value),
        None if value is None else float(evaluation.idle_share(value)),
        float(held(problem, plan, {})),
        fits=not verify_schedule(problem, plan),
        verified=not verify_schedule(with_memory(problem, None), plan),
    )


def _searched(cut: Cut, problem: ScheduleProblem, rows: Sequence[Row], limits: SolveOptions) -> Row:
    """The best schedule that a search finds in time; it starts from the best row of the same cut that fits."""
    same = [row for row in rows if row.cut == cut.words and row.fits and row.plan is not None]
    start = min(same, key=lambda row: row.time or 0.0, default=None)
    try:
        result = solve(
            problem,
            options={"objective": OBJECTIVE},
            limits=limits,
            warm_start="auto" if start is None or start.plan is None else start.plan,
        )
    except PipeplanError as error:
        return Row(BEST, cut.words, why_none=_reason(error))
    if result.plan is None or not result.verified:
        reason = (
            "proven: none fits"
            if result.found != Found.REJECTED and str(result.stop) == "infeasible"
            else "none found"
        )
        return Row(BEST, cut.words, why_none=reason)
    row = _judged(BEST, cut, problem, result.plan)  # type: ignore[arg-type]
    gap = "" if result.gap is None else f"within {100 * result.gap:.2g} %"
    return replace(row, proof="proven" if result.found == Found.OPTIMAL else gap)
