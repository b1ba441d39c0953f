"""The view of a schedule: what every device runs when, how long it idles, and what it holds over the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import Any

from ...instances.base.amounts import as_written
from ...instances.base.kind import Rules
from ...instances.schedule.plan import AnySchedule
from ...instances.schedule.problem import BlockKind, ScheduleProblem
from ...instances.schedule.referee import DeviceUse, ScheduleEvaluation, Unrolled, held_over_time, unroll
from ..words import amount, memory_unit, percent, several, time_scale
from . import MOST_TOLD, PHASE_NAMES, Bar, Curve, PlanView, Row, Table, Timeline, in_order

# Number of the colour of each kind of block.
COLOUR_OF: dict[BlockKind, int] = {"F": 0, "B": 1, "I": 1, "W": 2, "X": 3}
# Name of the first part of divided backward passes.
FIRST_HALF = "backward (for inputs)"
# From these shares of the time on, a device is said to limit the schedule, and to be always busy but for rounding.
NEARLY_ALWAYS, ALWAYS = 0.95, 1 - 1e-9
WINDOWS = ("filling", "between", "draining")
PERIODIC_WINDOWS = ("filling", "between", "last periods")
# Uses of memory.
STANDING, TAKEN, WORKSPACE = "standing", "taken by micro-batches", "workspace"
# Number of periods that are shown after the pipeline has filled.
STEADY_PERIODS = 2
# Heading of the share of the time from a device's first pass to its last in which it idles.
IDLE = "idle in own span"


def even_plans(problem: ScheduleProblem) -> tuple[()]:
    """There is no even plan: a schedule divides no layers among devices."""
    return ()


def facts(problem: ScheduleProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    kinds, batches = Counter(block.kind for block in problem.blocks), problem.micro_batches
    made = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    limits = sorted({device.memory for device in problem.devices if device.memory is not None})
    ends = map(memory_unit(problem.memory_unit).text, dict.fromkeys((*limits[:1], *limits[-1:])))
    return {
        "blocks": f"{several(len(problem.blocks), 'block')} of a micro-batch ({made})",
        "devices": f"{several(len(problem.devices), 'device')}, memory {' to '.join(ends) or 'without limit'}",
        "micro-batches": "steady state only" if batches is None else str(batches),
        "work": f"{amount(float(max(problem.loads)), problem.time_unit)} on the fullest device, for each micro-batch",
    }


def assumptions(problem: ScheduleProblem, rules: Rules) -> tuple[str, ...]:
    return (
        "Micro-batches are all the same; a device runs one block at a time; a block occupies all its devices at once.",
        "Memory is taken when a block starts and freed when it ends; what it needs only while it runs counts too.",
    )


def value_name(rules: Rules) -> str:
    return {"span": "span of the slowest device"}.get(rules.objective, rules.objective)


def view(problem: ScheduleProblem, plan: AnySchedule, rules: Rules) -> PlanView:
    """Devices with their work and memory, the timeline, and memory over the same time."""
    evaluation: ScheduleEvaluation = rules.evaluation(problem, plan)
    unrolled = unroll(problem, plan)
    value, unit = evaluation.objective(rules.objective), problem.time_unit
    assert value is not None, "the rules say what the plan has"
    end, most = _end(unrolled), float(max(use.span for use in evaluation.devices))
    of_what = "per micro-batch"
    if rules.objective != "period":
        of_what = f"for {problem.micro_batches} micro-batch{'' if problem.micro_batches == 1 else 'es'}"
    text = f"{amount(float(value), unit)} {of_what}"
    return PlanView(
        value=f"{rules.objective} {text}",
        headline=f"{value_name(rules)} {text}, {_idle_in_words(evaluation, value, rules)}",
        tables=(Table("device", tuple(_rows(evaluation, value, rules))),),
        full_load=most,
        limits=_limits(evaluation, value, rules, unit),
        sentences=tuple(_sentences(evaluation, unit)),
        legend=f"load: {time_scale(most, unit)[1] or 'time'} that a device works "
        + ("in a period" if unrolled.period else "for all micro-batches"),
        timelines=(_timeline(unrolled, end),),
        memory=_memory(unrolled, end),
        memory_unit=memory_unit(problem.memory_unit),
    )


def _rows(evaluation: ScheduleEvaluation, value: Fraction, rules: Rules) -> Iterator[Row]:
    """A row for each device; idle time is counted over the same span as in the headline."""
    most = max(use.busy for use in evaluation.devices)
    for use in evaluation.devices:
        idle = "" if use.bubble is None else percent(_idle_of(use, value, rules))
        memory = None  # of links and the like, which have no limit and hold nothing
        if use.limit is not None or use.peak:
            taken = max(0.0, float(use.peak - use.standing))
            memory = {STANDING: float(min(use.standing, use.peak)), "taken by blocks": taken}
        yield Row(
            name=use.name,
            load=float(use.busy),
            parts={"busy": float(use.busy)},
            cells={IDLE if rules.objective == "span" else "idle": idle},
            memory=memory,
            limit=None if use.limit is None else float(use.limit),
            slowest=use.busy == most,
            told={"at its peak": "" if memory is None else _peak_block(use)},
        )


def _idle_of(use: DeviceUse, value: Fraction, rules: Rules) -> float:
    """The idle share of the device's own span, where spans are minimised, or of the value."""
    if rules.objective == "span":
        return max(0.0, float(use.bubble or 0))
    return max(0.0, float(1 - use.busy / value)) if value else 0.0


def _idle_in_words(evaluation: ScheduleEvaluation, value: Fraction, rules: Rules) -> str:
    """Words on idle time, counted over the same span as in the column of the devices."""
    if rules.objective == "span":
        shares = [_idle_of(evaluation.devices[d], value, rules) for d in evaluation.computing]
        most = percent(max(shares, default=0.0))
        least = percent(min(shares, default=0.0)).removesuffix(" %")
        return f"devices are idle for {most if f'{least} %' == most else f'{least} to {most}'} of their own spans"
    return f"devices are idle for {percent(float(evaluation.idle_share(value)))} of the {rules.objective}"


def _limits(evaluation: ScheduleEvaluation, value: Fraction, rules: Rules, unit: str | None) -> str:
    """Words on what limits the schedule: devices that are nearly always busy, or waiting for data or memory."""
    most = max(use.busy for use in evaluation.devices)
    names = [use.name for use in evaluation.devices if use.busy == most]
    share = float(most / value) if value else 1.0
    alike = len(names) >= len(evaluation.computing) > 1
    idle = _idle_in_words(evaluation, value, rules)
    if alike and share >= ALWAYS:
        return "all devices are always busy"
    if alike:
        work = f"every device works for {amount(float(most), unit)}"
        if rules.objective != "span":
            return f"{work}; {idle}"
        share_idle = percent(float(evaluation.idle_share(value)))
        return (
            f"{work}; the slowest takes {amount(float(value), unit)} from its first pass to its last, "
            f"of which it idles {share_idle}"
        )
    who = several(len(names), "device") if len(names) > 2 else " and ".join(names)
    verb, limit_verb = ("is", "limits") if len(names) == 1 else ("are", "limit")
    if share >= ALWAYS:
        return f"{who} {limit_verb} it and {verb} always busy; {idle}"
    if share >= NEARLY_ALWAYS:
        return f"{who} {limit_verb} it, busy for {percent(share)} of it; {idle}"
    busy = f"even {who} {verb} busy for no more than {percent(share)} of it"
    return f"waiting for data or memory limits it, {busy}; {idle}"


def _sentences(evaluation: ScheduleEvaluation, unit: str | None) -> Iterator[str]:
    values = {name: evaluation.objective(name) for name in ("period", "makespan", "span")}
    told = [f"{name} {amount(float(value), unit)}" for name, value in values.items() if value is not None]
    yield f"{', '.join(told)}; micro-batches under way: {evaluation.in_flight}"
    for use in evaluation.devices[:MOST_TOLD]:
        if use.peak_block is not None and use.limit is not None:
            yield f"{use.name} holds the most at {amount(float(use.peak_time), unit)}, {_peak_block(use)}"


def _peak_block(use: DeviceUse) -> str:
    return "" if use.peak_block is None else f"when {use.peak_block} of micro-batch {use.peak_micro_batch} starts"


# ---- what runs when ------------------------------------------------------------------------------------


def _steady(unrolled: Unrolled) -> int | None:
    """The time, in steps, from which on everything repeats.

    That is one period before micro-batch 0 ends. From then on a micro-batch -1, had there been one, would have ended
    and hold nothing, so nothing is missing; a moment earlier its last block would be missing.
    """
    if unrolled.period is None:
        return None
    ends = (row[0] + time for row, time in zip(unrolled.starts, unrolled.times, strict=True))
    return max(0, max(ends) - unrolled.period)


def _end(unrolled: Unrolled) -> int:
    """The time, in steps, at which the timeline ends: after all blocks, or after some periods of the steady state."""
    steady = _steady(unrolled)
    if steady is not None and unrolled.period:
        return steady + STEADY_PERIODS * unrolled.period
    return max(row[-1] + time for row, time in zip(unrolled.starts, unrolled.times, strict=True))


def _timeline(unrolled: Unrolled, end: int) -> Timeline:
    """The timeline up to `end`: labels are micro-batches, colours kinds of blocks, and each run of a block has a bar
    on each of its devices, cut off at `end`."""
    problem, steady, stop, bars = unrolled.problem, _steady(unrolled), float(unrolled.in_units(end)), list[Bar]()
    for b, block in enumerate(problem.blocks):
        for n, start in enumerate(unrolled.starts[b]):
            first, last = (float(unrolled.in_units(time)) for time in (start, start + unrolled.times[b]))
            run = (first, min(last, stop), _mark(block.kind, n), str(n), f"{block.id} of micro-batch {n}")
            bars += [Bar(device, *run, COLOUR_OF[block.kind]) for device in block.devices]
    kinds = {block.kind for block in problem.blocks}
    return Timeline(
        "one iteration, by number of the micro-batch"
        if steady is None
        else "starting with micro-batch 0, by its number",
        tuple(device.name for device in problem.devices),
        in_order(bars),
        stop,
        marks=_marks(kinds),
        colours=tuple(FIRST_HALF if "I" in kinds and name == "backward" else name for name in PHASE_NAMES),
        period=None if unrolled.period is None else float(unrolled.in_units(unrolled.period)),
        steady=None if steady is None else float(unrolled.in_units(steady)),
        windows=WINDOWS if steady is None else PERIODIC_WINDOWS,
        over_memory=True,
    )


# What the characters of each kind of block mean.
MARKS: dict[str, str] = {
    "F": "digits: forward",
    "B": "letters: backward",
    "W": "capitals: weight passes",
    "X": "=: other",
}


def _marks(kinds: set[BlockKind]) -> str:
    """A sentence on the characters that occur."""
    occur = {"B" if kind == "I" else kind for kind in kinds}
    told = ", ".join(words for kind, words in MARKS.items() if kind in occur)
    return told if occur == {"X"} else f"{told}; 0, a and A: micro-batch 0"


def _mark(kind: BlockKind, n: int) -> str:
    if kind == "F":
        return str(n % 10)
    return "=" if kind == "X" else chr(ord("A" if kind == "W" else "a") + n % 26)


# ---- memory --------------------------------------------------------------------------------------------


def _memory(unrolled: Unrolled, end: int) -> tuple[Curve, ...]:
    """Memory over time of each device that has a limit or holds anything; workspace that occurs nowhere is left out."""
    curves, last = [], float(unrolled.in_units(end))
    for d, device in enumerate(unrolled.problem.devices):
        curve = _curve(unrolled, d, end, last)
        if device.memory is not None or any(curve.totals):
            curves.append(curve)
    if any(any(curve.terms[WORKSPACE]) for curve in curves):
        return tuple(curves)
    terms = (STANDING, TAKEN)
    return tuple(replace(curve, terms={term: curve.terms[term] for term in terms}) for curve in curves)


def _curve(unrolled: Unrolled, d: int, end: int, last: float) -> Curve:
    """Memory of device `d` over time. Where blocks give memory back before any take it, the standing part shrinks."""
    device, none = unrolled.problem.devices[d], Fraction(0)
    standing = as_written(device.standing)
    times, instants = [0], [(standing, none, none)]
    for time, changes_at_once in groupby(held_over_time(unrolled, d), key=lambda changes: changes.time):
        if time >= end:
            break
        # Of several amounts at one time the last one stays. The largest one is drawn as well, without any width.
        changes = list(changes_at_once)
        for change in dict.fromkeys((max(changes, key=lambda change: change.amount), changes[-1])):
            times.append(time)
            instants.append((standing + min(none, change.changes), max(none, change.changes), change.workspace))
    stands, taken, workspace = (tuple(map(float, column)) for column in zip(*instants, strict=True))
    return Curve(
        device.name,
        tuple(float(unrolled.in_units(time)) for time in times),
        {STANDING: stands, TAKEN: taken, WORKSPACE: workspace},
        last,
        None if device.memory is None else float(device.memory),
    )
