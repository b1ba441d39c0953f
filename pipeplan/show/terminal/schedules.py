"""The table of `plan schedule --compare`: a row for each schedule, the best that fits marked."""

from __future__ import annotations

from ...instances.physics.schedules import SCHEDULES
from ...studies.schedule_comparison import Row, ScheduleComparison
from ..console import columns, draw_table, new_table, out, styled
from ..words import amount, is_noise, memory_unit, percent, several

# What readers call the schedules.
TITLES = {
    **{name: rule.title for name, rule in SCHEDULES.items()},
    "zb-greedy": "zero bubble, greedy",
    "best": "best found",
}
LEGEND = (
    "idle: of the devices' time together; backward in two: one pass for inputs and a later one for weights, "
    "half of the time each unless --split-backward says otherwise; within x %: of the best of its kind"
)


def draw_comparison(found: ScheduleComparison) -> None:
    """Print the answer, the schedules by the way in which stages are cut, and why some are missing."""
    console, best = out(), found.best
    unit = memory_unit(found.memory_unit).like([row.peak for row in found.rows] + [found.limit])
    console.print(styled(_answer(found), "bold"))
    table = new_table()
    columns(table, "schedule,time,idle,memory,fits", left="schedule,fits")
    cut = ""
    for row in sorted(found.rows, key=lambda row: [each.cut for each in found.rows].index(row.cut)):
        if row.time is None or row.idle is None or row.peak is None:
            continue
        if row.cut != cut:
            cut = row.cut
            table.add_row(styled(f"{cut}:"), "", "", "", "")
        cells = (amount(row.time, found.time_unit), percent(row.idle), unit.text(row.peak), _fits(row))
        style = "bold" if row is best else ""
        table.add_row(*(styled(text, style) for text in (f"  {TITLES[row.name]}", *cells)))
    draw_table(table)
    for row in found.rows:
        if row.why_none:
            console.print(styled(f"no {TITLES[row.name]} ({row.cut}): {row.why_none}"))
    limit = "no limit" if found.limit is None else unit.text(found.limit)
    rejected = [row for row in found.rows if row.time is not None and not row.verified]
    verdict = "yes, every row" if not rejected else f"no: {', '.join(TITLES[row.name] for row in rejected)}"
    console.print(styled(f"memory: of the fullest device, of {limit}; {LEGEND}"))
    console.print(styled(f"verified: {verdict}", "bold green" if not rejected else "bold red"))


def _fits(row: Row) -> str:
    return ("yes" if row.fits else "no") + (f", {row.proof}" if row.proof else "")


def _answer(found: ScheduleComparison) -> str:
    best = found.best
    many = several(found.micro_batches, "micro-batch")
    if best is None or best.time is None or best.idle is None:
        return f"no schedule of {many} fits the memory"
    others = [row for row in found.rows if row.fits and row.name == "1f1b" and row.time]
    gain = "" if not others or others[0].time is None else _gain(best.time, others[0].time)
    return (
        f"{TITLES[best.name]} ({best.cut}) is the shortest that fits: {many} in {amount(best.time, found.time_unit)}, "
        f"devices idle {percent(best.idle)} of it{gain}"
    )


def _gain(time: float, other: float) -> str:
    return "" if time >= other or is_noise(1 - time / other) else f"; {percent(1 - time / other)} less than 1F1B"
