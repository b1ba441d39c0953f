"""A schedule: what every device runs when, how long it idles, and what it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ...instances.amounts import as_written
from ...instances.kind import Rules
from ...instances.schedule.plan import AnySchedule, PeriodicSchedulePlan
from ...instances.schedule.problem import BlockKind, ScheduleProblem
from ...instances.schedule.referee.evaluate import DeviceUse, ScheduleEvaluation
from ...instances.schedule.referee.memory import held_over_time
from ...instances.schedule.referee.unrolled import Unrolled, unroll
from ..view import Bar, Curve, PlanView, Row, Table, Timeline
from ..words import amount, percent, several

COLOUR_OF: dict[BlockKind, int] = {"F": 0, "B": 1, "I": 1, "W": 2, "X": 3}
COLOURS = ("forward", "backward (for inputs)", "backward for weights", "other")
ALWAYS = 1e-9
MARKS = "digits: forward, letters: backward, +: for weights, =: other (1 and a: micro-batch 1)"


def even_plans(problem: ScheduleProblem) -> tuple[()]:
    """Nothing is divided here, so that nothing can be divided evenly."""
    return ()


def facts(problem: ScheduleProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    kinds = Counter(block.kind for block in problem.blocks)
    made = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    batches = problem.micro_batches
    limits = {device.memory for device in problem.devices if device.memory is not None}
    span = f"{min(limits):g}" + (f" to {max(limits):g}" if len(limits) > 1 else "") if limits else "no limit"
    return {
        "blocks": f"{several(len(problem.blocks), 'block')} of a micro-batch ({made})",
        "devices": f"{several(len(problem.devices), 'device')}, memory {span} {problem.memory_unit or ''}".rstrip(),
        "micro-batches": "the steady state alone" if batches is None else str(batches),
        "work": f"{amount(float(max(problem.loads)), problem.time_unit)} on the fullest device, for each micro-batch",
    }


def assumptions(problem: ScheduleProblem, rules: Rules) -> tuple[str, ...]:
    return (
        "All micro-batches are alike; a device runs one block at a time, and a block occupies all its devices at once.",
        "Memory is taken as a block starts and given back as it ends.",
    )


def value_name(rules: Rules) -> str:
    return {"span": "span of the slowest device"}.get(rules.objective, rules.objective)


def view(problem: ScheduleProblem, plan: AnySchedule, rules: Rules) -> PlanView:
    """Devices with their work and memory, who runs what when, and memory over the same time."""
    evaluation: ScheduleEvaluation = rules.evaluation(problem, plan)
    unrolled = unroll(problem, plan)
    value, unit = evaluation.objective(rules.objective), problem.time_unit
    assert value is not None, "the rules say what the plan has"
    whole = float(_full(evaluation, plan))
    return PlanView(
        name=problem.name,
        value=f"{amount(float(value), unit)} {_of_what(problem, rules)}",
        headline=f"{value_name(rules)} {amount(float(value), unit)}"
        + ("" if evaluation.bubble is None else f", devices idle {percent(float(evaluation.bubble))} of it"),
        tables=(Table("device", tuple(_rows(problem, evaluation))),),
        unit=unit,
        full_load=whole,
        limits=_limits(evaluation, whole),
        sentences=tuple(_sentences(evaluation, unit)),
        time_unit=unit,
        timelines=(_timeline(unrolled, plan),),
        memory=_memory(unrolled),
    )


def _of_what(problem: ScheduleProblem, rules: Rules) -> str:
    if rules.objective == "period":
        return "per micro-batch"
    count = problem.micro_batches
    return f"for {count} micro-batch{'' if count == 1 else 'es'}"


def _full(evaluation: ScheduleEvaluation, plan: AnySchedule) -> Fraction:
    longest = max(use.span for use in evaluation.devices)
    return evaluation.period if evaluation.period is not None else longest


def _rows(problem: ScheduleProblem, evaluation: ScheduleEvaluation) -> Iterator[Row]:
    most = max(use.busy for use in evaluation.devices)
    unit = problem.memory_unit or ""
    for use in evaluation.devices:
        limit = "" if use.limit is None else f"{float(use.limit):g}"
        yield Row(
            name=use.name,
            load=float(use.busy),
            parts={"busy": float(use.busy)},
            cells={
                "idle": "" if use.bubble is None else percent(max(0.0, float(use.bubble))),
                f"peak {unit}".rstrip(): f"{float(use.peak):g}",
                "limit": limit,
            },
            slowest=use.busy == most,
        )


def _limits(evaluation: ScheduleEvaluation, whole: float) -> str:
    use = max(evaluation.devices, key=lambda use: use.busy)
    busy = float(use.busy) / whole if whole else 1.0
    if busy >= 1 - ALWAYS:
        return f"{use.name} limits the schedule and is always busy"
    return f"waiting for data or memory limits the schedule, {use.name} is busy for {percent(busy)} of the time"


def _sentences(evaluation: ScheduleEvaluation, unit: str | None) -> Iterator[str]:
    values = {name: evaluation.objective(name) for name in ("period", "makespan", "span")}
    told = [f"{name} {amount(float(value), unit)}" for name, value in values.items() if value is not None]
    yield f"{', '.join(told)}; micro-batches under way: {evaluation.in_flight}"
    for use in evaluation.devices:
        if use.peak_block is not None and use.limit is not None:
            yield f"{use.name} holds the most at {_when(use, unit)}"


def _when(use: DeviceUse, unit: str | None) -> str:
    return (
        f"{amount(float(use.peak_time), unit)}, when {use.peak_block} of micro-batch {use.peak_micro_batch} starts"
    )


def _timeline(unrolled: Unrolled, plan: AnySchedule) -> Timeline:
    problem = unrolled.problem
    bars = []
    for b, block in enumerate(problem.blocks):
        for n, start in enumerate(unrolled.starts[b]):
            begin, end = (float(unrolled.in_units(time)) for time in (start, start + unrolled.times[b]))
            for device in block.devices if end > begin else ():
                title = f"{block.id} of micro-batch {n}"
                backward = block.kind in "BIW"
                bars.append(
                    Bar(device, begin, end, _mark(block.kind, n), str(n), title, COLOUR_OF[block.kind], backward)
                )
    last = max((bar.end for bar in bars), default=0.0)
    periodic = isinstance(plan, PeriodicSchedulePlan)
    period = float(plan.period) if isinstance(plan, PeriodicSchedulePlan) else None
    return Timeline(
        "from the first micro-batch on" if periodic else "one iteration, by micro-batch",
        tuple(device.name for device in problem.devices),
        tuple(sorted(bars, key=lambda bar: (bar.start, bar.lane))),
        last,
        marks=MARKS,
        colours=COLOURS,
        period=period,
    )


def _mark(kind: BlockKind, n: int) -> str:
    if kind in "BI":
        return chr(ord("a") + (n - 1) % 26)
    return {"F": str(n % 10), "W": "+"}.get(kind, "=")


def _memory(unrolled: Unrolled) -> tuple[Curve, ...]:
    problem, curves = unrolled.problem, []
    end = max((row[-1] + time for row, time in zip(unrolled.starts, unrolled.times, strict=True)), default=0)
    for d, device in enumerate(problem.devices):
        held = list(held_over_time(unrolled, d))
        if device.memory is None and not any(one.amount for one in held):
            continue
        standing = float(as_written(device.standing))
        times = (0.0, *(float(unrolled.in_units(one.time)) for one in held))
        terms = {"changes": (0.0, *(max(0.0, float(one.amount)) for one in held))}
        if standing:
            terms = {"standing": (standing,) * len(times), **terms}
        limit = None if device.memory is None else float(device.memory)
        curves.append(Curve(device.name, times, terms, float(unrolled.in_units(end)), limit))
    return tuple(curves)
