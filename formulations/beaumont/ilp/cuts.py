"""Rows that the paper does not have: valid for every pattern, and what makes the relaxation say something.

Loads of GPUs and links; shifts between F_l and B_l in the least time that the layer is alive; Little's law and the
least number of kept copies on each GPU, both at the longest period that is still asked for.
"""

from __future__ import annotations

import math
from typing import Any

from .frame import Frame
from .memory import standing_memory


def add(frame: Frame) -> None:
    """Add all cuts to the model; those on memory only where memory is limited and activations are kept."""
    _loads(frame)
    _batches_behind(frame)
    if frame.facts.memory is not None and frame.facts.kept:
        _area(frame)
        if all(frame.facts.durations[1:]):
            _instant(frame)


def _loads(frame: Frame) -> None:
    facts, period = frame.facts, frame.model.T
    loads = {i: sum(facts.load(j) * frame.z(i, j) for j in frame.layers) <= period for i in frame.layers}
    frame.rows("gpu_load", loads, "(B1) implied: the work of the GPU of layer i fits the period")
    links: dict[int, Any] = {}
    for e in facts.edges:
        busy = facts.transfers[e] * frame.remote(e)
        for pair in frame.competing():
            if e in pair:
                other = pair[0] + pair[1] - e
                busy += facts.transfers[other] * frame.same_link(*pair)
        if facts.transfers[e]:
            links[e] = busy <= period
    frame.rows("link_load", links, "(B2) implied: the transfers of a link fit the period")


def _batches_behind(frame: Frame) -> None:
    """A batch needs at least the times between F_l and B_l, and all periods but one that it spans are shifts."""
    facts = frame.facts
    rows: dict[Any, Any] = {}
    for i in frame.layers:
        last = facts.backward(i)
        periods = frame.batches_behind(i) - frame.done(last, i) + 1
        hops = sum(facts.transfers[e] * frame.remote(e) for e in range(i, last) if e != facts.layers)
        rows["whole", i] = periods >= math.ceil(facts.lives[i] / facts.upper - 1e-9)
        rows["hops", i] = facts.upper * periods >= facts.lives[i] + hops
    frame.rows("least_lag", rows, "(B3) implied: a batch takes the times between both tasks of a layer")


def _area(frame: Frame) -> None:
    """Bytes times time that the layers of a GPU occupy per batch fit the room beside weights and slots."""
    facts = frame.facts
    assert facts.memory is not None
    rows = {}
    for i in frame.layers:
        area = sum(facts.areas[j] * frame.z(i, j) for j in facts.kept)
        rows[i] = area <= facts.upper * (facts.memory - standing_memory(frame, i))
    frame.rows("area", rows, "(B4) implied: bytes times time of the layers of a GPU fit its room")


def _instant(frame: Frame) -> None:
    """While F_i or B_i runs, every layer of the GPU has at least as many copies as its least life has periods."""
    facts = frame.facts
    assert facts.memory is not None
    rows: dict[Any, Any] = {}
    for i in frame.layers:
        last = facts.backward(i)
        others = standing_memory(frame, i)
        for j in facts.kept:
            if j != i:
                others += facts.sizes[j - 1] * math.floor(facts.lives[j] / facts.upper) * frame.z(i, j)
        at_start = math.ceil(facts.lives[i] / facts.upper - 1e-9)
        at_end = math.floor((facts.lives[i] - facts.durations[last]) / facts.upper) + 1
        written = facts.sizes[i] if facts.current else 0.0
        gradients = facts.sizes[last - 1] + facts.sizes[last] if facts.current else 0.0
        rows["forward", i] = others + facts.sizes[i - 1] * at_start + written <= facts.memory
        rows["backward", i] = others + facts.sizes[i - 1] * at_end + gradients <= facts.memory
    frame.rows("instant", rows, "(B5) implied: a layer has as many copies as its least life has periods")
