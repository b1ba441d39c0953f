"""Equations (17)-(21): everything that is done on a GPU or a link fits into one period."""

from __future__ import annotations

from .frame import Frame


def add(frame: Frame) -> None:
    facts, model = frame.facts, frame.model
    period, tau, tc = model.T, model.tau, model.tc
    ends = {t: tau[t] + facts.durations[t] for t in frame.tasks}
    frame.rows("eq_17", {t: ends[t] <= period for t in frame.tasks}, "each task ends within the period")
    arrivals = {e: tc[e] + frame.transfer_time(e) for e in facts.staged}
    frame.rows("eq_18_start", {e: arrivals[e] >= 0 for e in arrivals}, "no transfer ends before the period begins")
    frame.rows("eq_18", {e: arrivals[e] <= period for e in arrivals}, "each transfer ends within the period")
    frame.rows("eq_19", {0: tau[1] == 0}, "the first task starts at 0")
    window = {}
    for t, u in frame.ordered_pairs(frame.tasks):
        apart = facts.durations[u] * (1 - frame.together(t, u))
        if t in frame.timeless and u not in frame.timeless:
            apart += facts.durations[u] * model.far[u, t]
        window[t, u] = ends[t] - tau[u] <= period + apart
    frame.rows("eq_20", window, "tasks of one GPU lie within one period of each other")
    window = {}
    for pair in frame.competing():
        for e, f in (pair, pair[::-1]):
            apart = (facts.transfers[e] + facts.transfers[f]) * (1 - frame.same_link(e, f))
            window[e, f] = tc[e] + facts.transfers[e] - tc[f] <= period + apart
    frame.rows("eq_21", window, "transfers of one link lie within one period of each other")
