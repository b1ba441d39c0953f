"""A periodic pattern as one picture: a period, the pipeline from its first batch on, and the memory of each GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee.evaluate import PatternEvaluation, evaluate_pattern, memory_profiles
from ...instances.chain.referee.memory import TERMS, Profile
from ...instances.chain.referee.unrolled import Activity, resources, steady_from, unroll
from ...instances.kind import Rules
from .canvas import COLOURS, canvas, legible, write_picture
from .scales import byte_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCH_COLOURS = COLOURS[:6]
TERM_COLOURS = dict(zip(TERMS, (COLOURS[6], *COLOURS[:4]), strict=True))
TERM_NAMES = {"kept": "kept activations"}
BACKWARD_SHADE = 0.62
"""Backward tasks have their batch's colour, darker."""
STEADY_PERIODS = 3
"""So many periods are shown after the pipeline has filled."""
MOST_PERIODS = 24
MOST_GPUS = 64
MEMORY_COLUMNS = 4
LABEL_SHARE = 0.012
"""A bar that is narrower than this share of its panel, per character, has no label."""

WIDTH_IN = 11.0
ROW_IN = 0.26
PANEL_IN = 0.9
MEMORY_IN = 1.9


def picture(problem: ChainProblem, plan: PatternPlan, rules: Rules, path: str | os.PathLike[str]) -> None:
    """Write the picture of a pattern; raises `NotAPatternError` where it cannot be laid out."""
    evaluation = evaluate_pattern(problem, plan)
    names = resources(problem, plan)
    profiles = memory_profiles(problem, plan)[:MOST_GPUS]
    gantt_in = PANEL_IN + ROW_IN * len(names)
    memory_rows = -(-len(profiles) // MEMORY_COLUMNS)
    heights = (gantt_in, gantt_in, MEMORY_IN * memory_rows)
    with canvas(WIDTH_IN, sum(heights) + 0.4) as figure:
        figure.suptitle(_title(problem, evaluation))
        parts: Any = figure.subfigures(3, 1, height_ratios=heights)
        _draw_period(parts[0].subplots(), problem, plan, names)
        _draw_unrolled(parts[1].subplots(), problem, plan, names, evaluation)
        _draw_memory(parts[2], problem, profiles, memory_rows, evaluation.period)
        write_picture(figure, path)


def _title(problem: ChainProblem, evaluation: PatternEvaluation) -> str:
    batches = evaluation.batches_per_period
    per = f" for {batches} batches" if batches > 1 else ""
    period = f"period {evaluation.period:.6g}{_unit(problem)}{per}"
    return f"{legible(problem.name)}: {period}, batches under way: {evaluation.in_flight}"


def _unit(problem: ChainProblem) -> str:
    return f" {problem.time_unit}" if problem.time_unit else ""


# ---- Gantt charts --------------------------------------------------------------------------------------


def _draw_period(axes: Axes, problem: ChainProblem, plan: PatternPlan, names: Sequence[str]) -> None:
    """Labels are tasks; colours tell batches apart."""
    period = float(plan.period)
    activities = unroll(problem, plan, 0, period, first_batch=None)
    _gantt(axes, activities, names, (0.0, period), [activity.name for activity in activities])
    axes.set_title("one period (light: forward, dark: backward; one colour per batch)", loc="left")


def _draw_unrolled(
    axes: Axes, problem: ChainProblem, plan: PatternPlan, names: Sequence[str], evaluation: PatternEvaluation
) -> None:
    """Labels are batches, from the first one on."""
    steady, period = steady_from(problem, plan), evaluation.period
    end = min(steady + STEADY_PERIODS * period, MOST_PERIODS * period)
    begin = min(0.0, float(min(min(row) for row in plan.starts)))
    activities = unroll(problem, plan, begin, end)
    _gantt(axes, activities, names, (begin, end), [str(activity.batch) for activity in activities])
    if begin < steady < end:
        axes.axvline(steady, color="black", linestyle="--", linewidth=1)
    axes.set_title("from the first batch on, by batch number (dashed: from here on everything repeats)", loc="left")
    axes.set_xlabel(f"time ({problem.time_unit})" if problem.time_unit else "time")


def _gantt(
    axes: Axes, activities: Sequence[Activity], names: Sequence[str], window: tuple[float, float], labels: Sequence[str]
) -> None:
    row_of = {name: row for row, name in enumerate(names)}
    for activity, label in zip(activities, labels, strict=True):
        start, end = max(activity.start, window[0]), min(activity.end, window[1])
        row, colour = row_of[activity.resource], _colour(activity)
        axes.broken_barh([(start, end - start)], (row - 0.42, 0.84), facecolors=[colour], edgecolor="white", lw=0.4)
        if end - start > LABEL_SHARE * len(label) * (window[1] - window[0]):
            ink = "white" if activity.backward else "black"
            axes.text((start + end) / 2, row, label, ha="center", va="center", color=ink, fontsize=7, clip_on=True)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(*window)
    axes.tick_params(axis="y", length=0)


def _colour(activity: Activity) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(BATCH_COLOURS[activity.batch % len(BATCH_COLOURS)])
    if activity.backward:
        return (red * BACKWARD_SHADE, green * BACKWARD_SHADE, blue * BACKWARD_SHADE)
    return (0.4 + 0.6 * red, 0.4 + 0.6 * green, 0.4 + 0.6 * blue)


# ---- memory --------------------------------------------------------------------------------------------


def _draw_memory(part: Any, problem: ChainProblem, profiles: Sequence[Profile], rows: int, period: float) -> None:
    """One panel per GPU, with the limit and all scales alike; the legend names the kinds that occur."""
    columns = min(len(profiles), MEMORY_COLUMNS)
    panels = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    peak = max(profile.peak.bytes for profile in profiles)
    factor, unit = byte_scale(max(peak, problem.memory_bytes or 0))
    used = [term for term in TERMS if any(any(_amounts(profile, term, 1)) for profile in profiles)]
    flat = [axes for row in panels for axes in row]
    for axes, profile in zip(flat, profiles, strict=False):
        _memory_panel(axes, problem, profile, factor, period)
    for axes in flat[len(profiles) :]:
        axes.set_visible(False)
    for row in panels:
        row[0].set_ylabel(f"memory ({unit})")
    handles, labels = flat[0].get_legend_handles_labels()
    wanted = [(h, label) for h, label in zip(handles, labels, strict=True) if label == "limit" or _term(label) in used]
    part.legend([h for h, _ in wanted], [label for _, label in wanted], loc="outside lower center", ncols=6)


def _term(label: str) -> str:
    return next((term for term, name in TERM_NAMES.items() if name == label), label)


def _amounts(profile: Profile, term: str, factor: float) -> list[float]:
    return [getattr(instant.terms, term) / factor for instant in profile.instants]


def _memory_panel(axes: Axes, problem: ChainProblem, profile: Profile, factor: float, period: float) -> None:
    """The kinds stacked; between two instants nothing changes, so the last one is drawn to the period's end."""
    times = [instant.time for instant in profile.instants]
    layers = [_amounts(profile, term, factor) for term in TERMS]
    axes.stackplot(
        [*times, period],
        [[*layer, layer[-1]] for layer in layers],
        labels=[TERM_NAMES.get(term, term) for term in TERMS],
        colors=[TERM_COLOURS[term] for term in TERMS],
        step="post",
    )
    if problem.memory_bytes is not None:
        axes.axhline(problem.memory_bytes / factor, color="black", linestyle="--", linewidth=1, label="limit")
    axes.set_xlim(0, period)
    axes.set_title(f"gpu{profile.gpu}: peak {profile.peak.bytes / factor:.4g}", loc="left", fontsize=8)
