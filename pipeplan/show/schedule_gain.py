"""What a schedule gains over the plan's own and over the best named rule, in one line."""

from __future__ import annotations

from ..studies.stage_schedule import Rival, ScheduleStudy
from .words import amount, memory_unit, percent

SAME = 1e-9
"""Relative difference of values that count as the same."""


def gain(study: ScheduleStudy) -> str | None:
    """None where there is no schedule."""
    value, peak = study.result.objective, study.peak
    if value is None or peak is None:
        return None
    unit, limits = study.problem.time_unit, [device.memory for device in study.problem.devices]
    memory = memory_unit(study.problem.memory_unit).like(limits)
    here = f"{_name(study.objective)} {amount(value, unit)}, at most {memory.text(peak)} on a device"

    def against(rival: Rival, what: str) -> str:
        more = "" if rival.fits else ", more than there is"
        told = f"{amount(rival.value, unit)}, {memory.text(rival.peak)}{more}"
        return f"{_difference(value, rival.value)} {what} ({told})"

    told = [against(study.own, "the plan's own schedule")] if study.own is not None else []
    if study.rule is not None:
        told.append(against(study.rule, f"{study.rule.name}, the best named rule that fits"))
    if study.rule is None:
        told.append("no named rule is made for this shape and memory")
    return f"{here}: {'; '.join(told)}"


def _name(objective: str) -> str:
    return {"period": "a micro-batch every"}.get(objective, objective)


def _difference(value: float, other: float) -> str:
    if abs(value - other) <= SAME * max(abs(value), abs(other)):
        return "as long as"
    return (
        f"{percent(abs(other - value) / other)} {'less' if value < other else 'more'} than"
        if other
        else "more than"
    )
