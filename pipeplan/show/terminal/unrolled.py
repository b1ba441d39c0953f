"""A pattern in the terminal beyond one period: the pipeline as it fills, and memory over time."""

from __future__ import annotations

from ...cli.console import can_draw, out, styled
from ...cli.progress import number
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee.evaluate import memory_profiles
from ...instances.chain.referee.memory import Profile
from ...instances.chain.referee.unrolled import Activity, resources, steady_from, unroll
from .shapes import MAX_DEVICES_DRAWN, size

WIDTH = 64
STEADY_PERIODS = 1.5
MOST_PERIODS = 12
BLOCKS, PLAIN_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"


def draw_unrolled(problem: ChainProblem, plan: PatternPlan) -> None:
    """Rows as in the period's Gantt; batches by their last digit."""
    for line in unrolled_gantt(problem, plan):
        out().print(styled(line), soft_wrap=True)


def unrolled_gantt(problem: ChainProblem, plan: PatternPlan) -> list[str]:
    """A row per GPU and link; the mark below shows from where on everything repeats."""
    period, steady = float(plan.period), steady_from(problem, plan)
    end = min(steady + STEADY_PERIODS * period, MOST_PERIODS * period)
    names = resources(problem, plan)
    idle = "·" if can_draw("·") else "."
    rows = {name: [idle] * WIDTH for name in names}
    for activity in unroll(problem, plan, 0, end):
        for cell in _cells(activity, end):
            rows[activity.resource][cell] = str(activity.batch % 10)
    width = max(map(len, names))
    lines = [f"{name:>{width}} |{''.join(cells)}|" for name, cells in rows.items()]
    mark = "" if steady >= end else f"{'':>{width}}  {'':>{int(steady / end * WIDTH)}}^ from here on everything repeats"
    scale = f"{'':>{width}}  0{number(end):>{WIDTH - 1}}"
    return [*lines, *filter(None, [mark]), scale, "from the first batch on; digits: batch number (its last digit)"]


def _cells(activity: Activity, end: float) -> list[int]:
    """Cells whose middle lies in the activity; at least the one of its start."""
    step = end / WIDTH
    cells = [x for x in range(WIDTH) if activity.start <= (x + 0.5) * step < activity.end]
    return cells or [min(WIDTH - 1, max(0, int(activity.start / step)))]


# ---- memory --------------------------------------------------------------------------------------------


def draw_memory(problem: ChainProblem, plan: PatternPlan) -> None:
    """One line per GPU: memory over one period in blocks."""
    profiles = memory_profiles(problem, plan)[:MAX_DEVICES_DRAWN]
    full = problem.memory_bytes or max(profile.peak.bytes for profile in profiles)
    width = max(len(f"gpu{profile.gpu}") for profile in profiles)
    console = out()
    for profile in profiles:
        line = spark(profile, float(plan.period), full)
        console.print(styled(f"{f'gpu{profile.gpu}':>{width}} |{line}|"), soft_wrap=True)
    what = "the limit" if problem.memory_bytes else "the largest peak"
    console.print(styled(f"memory over the same period; a full block is {what}, {size(full)}"))


def spark(profile: Profile, period: float, full: float) -> str:
    """The most bytes in each cell, as a block; rounded up, so that nothing but 0 looks like nothing."""
    blocks = BLOCKS if can_draw(BLOCKS) else PLAIN_BLOCKS
    most = [0.0] * WIDTH
    ends = [*(instant.time for instant in profile.instants[1:]), period]
    for instant, end in zip(profile.instants, ends, strict=True):
        first = min(WIDTH - 1, int(instant.time / period * WIDTH))
        last = max(first + 1, min(WIDTH, -int(-end / period * WIDTH // 1)))
        for cell in range(first, last):
            most[cell] = max(most[cell], instant.bytes)
    top = len(blocks) - 1
    return "".join(blocks[min(top, -int(-amount * top // full))] if full else blocks[0] for amount in most)
