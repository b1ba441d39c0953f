"""Equations (5)-(16): the order of tasks on a GPU and of transfers on a link.

Rows (10)-(13) of the paper keep zc from being larger than needed; nothing pushes it up, so they are left out.
"""

from __future__ import annotations

from . import timeless
from .errata import TIES
from .frame import Frame


def add(frame: Frame) -> None:
    """Add the rows (5)-(16), and those of `timeless` where tasks take no time."""
    _tasks(frame)
    _links(frame)
    _transfers(frame)
    if frame.timeless:
        timeless.add(frame)


def _tasks(frame: Frame) -> None:
    """(5)-(7). With w_ut = z - w_tu one row per direction is enough; the paper has two for each w."""
    facts, tau, pairs = frame.facts, frame.model.tau, frame.model.w
    after, before = {}, {}
    timed = [(t, u) for t, u in pairs if not frame.timeless & {t, u}]
    for t, u in timed:
        shared, first = frame.together(t, u), pairs[t, u]
        late_u = facts.upper + facts.durations[t]
        late_t = facts.upper + facts.durations[u]
        after[t, u] = tau[t] >= tau[u] + facts.durations[u] - late_u * (1 - shared + first)
        # w <= z, so w alone may switch the row on; the paper's form switches with both.
        slack = (2 - shared - first) if TIES in frame.errata else (1 - first)
        before[t, u] = tau[u] >= tau[t] + facts.durations[t] - late_t * slack
    frame.rows("eq_5", after, "t starts after u has ended where u comes first on their GPU")
    frame.rows("eq_6", before, "u starts after t has ended where t comes first")
    only = {(t, u): pairs[t, u] <= frame.together(t, u) for t, u in pairs}
    frame.rows("eq_7", only, "only tasks that share a GPU are ordered")


def _links(frame: Frame) -> None:
    """(8), (9): transfers e and f share a link where their ends are on the same GPUs, (9) crosswise.

    Crosswise they go opposite ways, which matters only where both ways share a link.
    """
    facts, same, crossed = frame.facts, {}, {}
    for e, f in frame.competing():
        key = frame.link_key(e, f)
        zc = frame.same_link(e, f)
        if e + f == facts.tasks:
            crossed[key] = zc >= frame.remote(e)
        elif key not in same and key not in crossed:
            along = frame.together(e, f) + frame.together(e + 1, f + 1) - frame.together(e, e + 1) - 1
            across = frame.together(e, f + 1) + frame.together(e + 1, f) - frame.together(e, e + 1) - 1
            same[key] = zc >= along
            if facts.problem.duplex == "half":
                crossed[key] = zc >= across
    frame.rows("eq_8", same, "transfers between the same two GPUs share a link")
    frame.rows("eq_9", crossed, "transfers between the same two GPUs, crosswise, share a link")


def _transfers(frame: Frame) -> None:
    """(14)-(16), for transfers as (5)-(7) for tasks."""
    facts, start, pairs = frame.facts, frame.model.tc, frame.model.wc
    after, before = {}, {}
    for e, f in pairs:
        shared, first = frame.same_link(e, f), pairs[e, f]
        late_f = facts.upper + facts.transfers[e] + facts.transfers[f]
        after[e, f] = start[e] >= start[f] + facts.transfers[f] - late_f * (1 - shared + first)
        slack = (2 - shared - first) if TIES in frame.errata else (1 - first)
        before[e, f] = start[f] >= start[e] + facts.transfers[e] - late_f * slack
    frame.rows("eq_14", after, "as (5), for transfers on one link")
    frame.rows("eq_15", before, "as (6), for transfers on one link")
    frame.rows("eq_16", {(e, f): pairs[e, f] <= frame.same_link(e, f) for e, f in pairs}, "as (7), for transfers")
