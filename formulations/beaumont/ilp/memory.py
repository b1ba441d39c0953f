"""Equations (22) and (31)-(36): what a GPU holds while each of its tasks runs fits its memory."""

from __future__ import annotations

from typing import Any

from .errata import SIGN
from .frame import Frame

# More batches than the shifts and orders of one edge can add up to.
MOST_WAITING = 8


def add(frame: Frame) -> None:
    if frame.facts.memory is None:
        return
    _copies(frame)
    _waiting(frame)
    _slots(frame)
    standing = {i: standing_memory(frame, i) for i in frame.layers}
    rows = {}
    for t in frame.tasks:
        bytes_held = (
            standing[frame.facts.layer(t)] + _activations(frame, t) + _running(frame, t) + _direct(frame, t)
        )
        rows[t] = bytes_held <= frame.facts.memory
    frame.rows("eq_36", rows, "weights, slots, copies and what task t reads and writes fit the memory while t runs")


def _copies(frame: Frame) -> None:
    """(31), (32): sigma_il is S_l where layer l is on the GPU of layer i; otherwise it may be 0."""
    facts, sigma = frame.facts, frame.model.sigma
    if SIGN in frame.errata:
        # Without a sign, sigma_il may be as low as -8L where the layers are apart: memory for nothing (E2).
        most = 8 * facts.layers
        rows = {(i, m): sigma[i, m] <= most * frame.z(i, m) for i, m in sigma}
        frame.rows("eq_31", rows, "no copies of layers on other GPUs")
        most_of = dict.fromkeys(facts.kept, most)
    else:
        most_of = {m: _most_copies(frame, m) for m in facts.kept}
    rows = {(i, m): sigma[i, m] >= frame.batches_behind(m) - most_of[m] * (1 - frame.z(i, m)) for i, m in sigma}
    frame.rows("eq_32", rows, "as many copies of layer l as its backward task lags behind")


def _most_copies(frame: Frame, layer: int) -> int:
    """S_l at most: by the stages between F_l and B_l, and by the memory of the GPU that keeps the copies."""
    facts = frame.facts
    assert facts.memory is not None
    by_stages = sum(facts.most_shifts(e) for e in range(layer, facts.backward(layer)))
    if frame.timeless & {layer, facts.backward(layer)}:
        return by_stages  # it may be there for no time at all, so its size says nothing
    room = facts.memory - facts.weights[layer] - facts.own_size(layer)
    return int(max(1, min(by_stages, room / facts.sizes[layer - 1] + 1 + 1e-6)))


def copies(frame: Frame, i: int, layer: int) -> Any:
    """sigma_il; for the layer's own GPU the number itself."""
    return frame.batches_behind(layer) if i == layer else frame.model.sigma[i, layer]


def _waiting(frame: Frame) -> None:
    """(22): what task e wrote waits for task e + 1 while t runs: the three come in this order around the period.

    No row asks whether they share a GPU: otherwise at most one of the three w can be 1.
    """
    rows = {}
    for t, e in frame.model.o:
        if frame.timeless & {t, e, e + 1}:
            apart = 2 - frame.together(e, e + 1) - frame.together(e, t)
            batches = frame.shifts(e) + frame.done(e, t) - frame.begun(e + 1, t)
            rows[t, e] = frame.model.o[t, e] >= batches - MOST_WAITING * apart
            continue
        around = frame.w(e, t) + frame.w(t, e + 1) + frame.w(e + 1, e)
        rows[t, e] = frame.model.o[t, e] >= around - 1
    frame.rows("eq_22", rows, "what edge e carries waits while t runs where t comes between its two tasks")


def _slots(frame: Frame) -> None:
    """(34), (35): b_ij is 1 where exactly one of layers j and j + 1 is on the GPU of layer i."""
    b, z = frame.model.b, frame.z
    rows = {(i, j): b[i, j] >= z(i, j) - z(i, j + 1) for i, j in b}
    frame.rows("eq_34", rows, "b is 1 where j is on the GPU of i and j + 1 is not")
    rows = {(i, j): b[i, j] >= z(i, j + 1) - z(i, j) for i, j in b}
    frame.rows("eq_35", rows, "b is 1 where j + 1 is on the GPU of i and j is not")


def standing_memory(frame: Frame, i: int) -> Any:
    """(33) and BUF: weights and reserved slots on the GPU of layer i."""
    facts = frame.facts
    bytes_held: Any = sum(facts.weights[j] * frame.z(i, j) for j in frame.layers if facts.weights[j])
    if facts.current:
        for j in frame.layers[:-1]:
            if facts.border_size(j):
                bytes_held += facts.border_size(j) * _at_border(frame, i, j)
    return bytes_held


def _at_border(frame: Frame, i: int, j: int) -> Any:
    return frame.remote(j) if i in (j, j + 1) else frame.model.b[i, j]


def _activations(frame: Frame, t: int) -> Any:
    """ACT: kept inputs of all layers on the GPU (Lemma 10), and what the task itself reads and writes."""
    facts = frame.facts
    bytes_held: Any = 0 if t in frame.timeless else facts.own_size(t)
    for m in facts.kept:
        number = copies(frame, facts.layer(t), m) + frame.begun(m, t) - frame.done(facts.backward(m), t)
        bytes_held += facts.sizes[m - 1] * number
    return bytes_held


def _running(frame: Frame, t: int) -> Any:
    """What other tasks hold while they run, where the task itself takes no time and may happen within them."""
    facts = frame.facts
    if t not in frame.timeless or not facts.current:
        return 0
    bytes_held: Any = 0
    for x in frame.tasks:
        size = facts.sizes[x] + (facts.sizes[x - 1] if x > facts.layers else 0.0)
        if x not in frame.timeless and size:
            bytes_held += size * (frame.begun(x, t) - frame.done(x, t))
    return bytes_held


def _direct(frame: Frame, t: int) -> Any:
    """DIR: tensors on their way between tasks of this GPU."""
    facts = frame.facts
    return sum(facts.sizes[e] * frame.model.o[t, e] for e in facts.waiting if frame.may_wait(t, e))
