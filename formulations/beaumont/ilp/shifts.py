"""Equations (23)-(30): by how many batches the next activity lags behind in the period.

An activity that starts before the previous one of its chain has ended works on an older batch: one shift; two where
the lag exceeds a period. Only the rows that ask for shifts are needed, since a shift costs memory; the paper's other
half, which forbids needless ones, is in the printed variant alone.
"""

from __future__ import annotations

from typing import Any

from .errata import LOCAL_TRANSFERS, TIES
from .frame import Frame


def add(frame: Frame) -> None:
    facts, model = frame.facts, frame.model
    ends = {t: model.tau[t] + facts.durations[t] for t in frame.tasks}
    outward = {e: ends[e] - model.tc[e] for e in facts.staged}
    inward = {}
    for e in range(1, facts.tasks):
        sent = model.tc[e] + frame.transfer_time(e) if e in outward else ends[e]
        inward[e] = sent - model.tau[e + 1]
    _shifts(frame, outward, inward)
    if LOCAL_TRANSFERS in frame.errata:
        return
    rows = {("v", e): model.v2[e] <= model.v[e] for e in outward}
    rows |= {("u", e): model.u2[e] <= model.u[e] for e in inward}
    frame.rows("second_shift", rows, "(E3a) no second shift without the first one")
    _local(frame)
    if facts.problem.exclusive_buffers:
        _exclusive(frame, outward)


def _shifts(frame: Frame, outward: dict[int, Any], inward: dict[int, Any]) -> None:
    """(23)-(30). As printed, there are rows in both directions, all with one large constant, and for local edges as for
    others (E3)."""
    facts, model, period, printed = frame.facts, frame.model, frame.model.T, LOCAL_TRANSFERS in frame.errata
    large = 2 * (facts.upper + max(facts.durations) + max(facts.transfers))
    first_out = {e: large if printed else facts.upper + facts.transfers[e] for e in outward}
    first_in = {e: large if printed else facts.upper + facts.durations[e + 1] for e in inward}
    second_out = {e: large if printed else facts.transfers[e] for e in outward}
    second_in = {e: large if printed else facts.durations[e + 1] for e in inward}
    if printed:
        rows = {e: late >= -large * (1 - model.v[e]) for e, late in outward.items()}
        frame.rows("eq_23", rows, "no shift before the transfer where none is needed")
    rows = {e: late <= first_out[e] * model.v[e] for e, late in outward.items()}
    frame.rows("eq_24", rows, "a shift before a transfer that would begin before its task has ended")
    if printed:
        rows = {e: late >= -large * (1 - model.u[e]) for e, late in inward.items()}
        frame.rows("eq_25", rows, "no shift before task e + 1 where none is needed")
    rows = {e: late <= first_in[e] * model.u[e] for e, late in inward.items()}
    frame.rows("eq_26", rows, "a shift before task e + 1 where it would begin before the transfer has ended")
    rows = {e: late <= period + second_out[e] * model.v2[e] for e, late in outward.items()}
    frame.rows("eq_27", rows, "a second shift before the transfer where one is not enough")
    if printed:
        rows = {e: late >= period - large * (1 - model.v2[e]) for e, late in outward.items()}
        frame.rows("eq_28", rows, "no second shift before the transfer where one is enough")
    rows = {e: late <= period + second_in[e] * model.u2[e] for e, late in inward.items()}
    frame.rows("eq_29", rows, "a second shift before task e + 1 where one is not enough")
    if printed:
        rows = {e: late >= period - large * (1 - model.u2[e]) for e, late in inward.items()}
        frame.rows("eq_30", rows, "no second shift before task e + 1 where one is enough")


def _local(frame: Frame) -> None:
    """On one GPU the order alone says whether there is a shift; also where activities take no time (E4)."""
    facts, model = frame.facts, frame.model
    rows: dict[Any, Any] = {}
    for e in range(1, facts.tasks):
        remote = 0 if e == facts.layers else frame.remote(e)
        if frame.timeless & {e, e + 1}:
            rows |= _timeless(frame, e, remote)
        else:
            later = frame.w(e + 1, e)
            if TIES not in frame.errata:
                rows["least", e] = model.u[e] >= later
                rows["most", e] = model.u[e] <= later + remote
            rows["u2", e] = model.u2[e] <= remote
        if e in facts.staged:
            rows["v", e] = model.v[e] <= remote
    frame.rows("local_edges", rows, "(E4a) on one GPU the order alone says whether there is a shift")


def _timeless(frame: Frame, e: int, remote: Any) -> dict[Any, Any]:
    """The rows of `_local` for an edge between two tasks of which one takes no time."""
    model = frame.model
    done = frame.w(e, e + 1) if e in frame.timeless else model.ended[e, e + 1]
    far = model.far[e + 1, e] if e in frame.timeless and e + 1 not in frame.timeless else 0
    return {
        ("least", e): model.u[e] >= 1 - remote - done,
        ("most", e): model.u[e] <= 1 - done,
        ("u2", e): model.u2[e] <= remote + far,
        ("u2 far", e): model.u2[e] >= far,
    }


def _exclusive(frame: Frame, outward: dict[int, Any]) -> None:
    """The slots at both ends of a transfer are free again after at most one period (E5).

    That is: from the end of the task to that of the transfer, and from the transfer's start to the next task, shifts
    included. With ends in [0, T] the case without a shift needs no row on the sender's side.
    """
    facts, model, period = frame.facts, frame.model, frame.model.T
    rows: dict[Any, Any] = {}
    for e, late in outward.items():
        kept = frame.transfer_time(e) - late
        read = model.tau[e + 1] - model.tc[e]
        rows["sent", e, 1] = kept <= facts.upper * (1 - model.v[e])
        rows["sent", e, 2] = kept <= -period + 2 * facts.upper * (1 - model.v2[e])
        rows["read", e, 0] = read <= period
        rows["read", e, 1] = read <= facts.upper * (1 - model.u[e])
        rows["read", e, 2] = read <= -period + 2 * facts.upper * (1 - model.u2[e])
    frame.rows("exclusive_buffers", rows, "(E5a) slots at both ends of a transfer are free again after one period")
