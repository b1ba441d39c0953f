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
    if LOCAL_TRANSFERS in frame.errata:
        _as_printed(frame, outward, inward)
    else:
        _corrected(frame, outward, inward)


def _corrected(frame: Frame, outward: dict[int, Any], inward: dict[int, Any]) -> None:
    facts, model, period = frame.facts, frame.model, frame.model.T
    late_out = {e: facts.upper + facts.transfers[e] for e in outward}
    late_in = {e: facts.upper + facts.durations[e + 1] for e in inward}
    frame.rows("eq_24", {e: late <= late_out[e] * model.v[e] for e, late in outward.items()})
    frame.rows("eq_26", {e: late <= late_in[e] * model.u[e] for e, late in inward.items()})
    frame.rows("eq_27", {e: late <= period + facts.transfers[e] * model.v2[e] for e, late in outward.items()})
    frame.rows("eq_29", {e: late <= period + facts.durations[e + 1] * model.u2[e] for e, late in inward.items()})
    rows = {("v", e): model.v2[e] <= model.v[e] for e in outward}
    frame.rows("second_shift", rows | {("u", e): model.u2[e] <= model.u[e] for e in inward})
    _local(frame)
    if facts.problem.exclusive_buffers:
        _exclusive(frame, outward)


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
    frame.rows("local_edges", rows)


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
    frame.rows("exclusive_buffers", rows)


def _as_printed(frame: Frame, outward: dict[int, Any], inward: dict[int, Any]) -> None:
    """Shifts in both directions, with one large constant, and for local edges as for others (E3)."""
    facts, model, period = frame.facts, frame.model, frame.model.T
    large = 2 * (facts.upper + max(facts.durations) + max(facts.transfers))
    frame.rows("eq_23", {e: late >= -large * (1 - model.v[e]) for e, late in outward.items()})
    frame.rows("eq_24", {e: late <= large * model.v[e] for e, late in outward.items()})
    frame.rows("eq_25", {e: late >= -large * (1 - model.u[e]) for e, late in inward.items()})
    frame.rows("eq_26", {e: late <= large * model.u[e] for e, late in inward.items()})
    frame.rows("eq_27", {e: late <= period + large * model.v2[e] for e, late in outward.items()})
    frame.rows("eq_28", {e: late >= period - large * (1 - model.v2[e]) for e, late in outward.items()})
    frame.rows("eq_29", {e: late <= period + large * model.u2[e] for e, late in inward.items()})
    frame.rows("eq_30", {e: late >= period - large * (1 - model.u2[e]) for e, late in inward.items()})
