"""The least memory for which an allocation of a chain has any pattern at all, as a native CP-SAT model.

The longer the period, the less waits: one batch at a time holds the least that any pattern of its allocation holds.
So periods and schedules play no part. While a task of layer l runs, its GPU holds its weights and slots, the kept
inputs of its layers up to l, and what the task itself reads and writes; the other GPUs hold the kept inputs of their
layers before l. That matters where tasks take no time: what they leave behind is only there if something that does
take time comes between, be it a transfer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ...instances.base.amounts import common_unit
from ..native import NativeBuilt
from .allocation import partition

if TYPE_CHECKING:
    from ...instances.chain.problem import ChainProblem

BUILDER = f"{__name__}:build"

# Sizes whose exact sum has more units than this are rounded down to this many.
MOST_UNITS = 2**36


@dataclass(frozen=True)
class Sizes:
    """What counts in the problem's memory mode, exactly; layers from 0, border b between layers b - 1 and b."""

    weights: tuple[Fraction, ...]
    """Bytes of each layer's weights, all copies together."""
    kept: tuple[Fraction, ...]
    forward: tuple[Fraction, ...]
    """Held only while the forward task of a layer runs."""
    backward: tuple[Fraction, ...]
    slots: tuple[Fraction, ...]
    """Bytes that border b, at position b - 1, reserves on both GPUs where it is cut."""
    timed: tuple[bool, ...]
    """Does this layer or one behind it take time? Then its kept input is there for some time."""
    moved: tuple[Fraction | None, ...]
    """Bytes that both ends hold during the transfer over border b (at position b - 1), besides slots; None
    where they tell nothing new, since transfers take no time or all tasks take some."""

    @property
    def layers(self) -> range:
        return range(len(self.weights))

    def own(self, layer: int) -> Fraction:
        """What a task of the layer holds while it runs: the larger amount of its two tasks."""
        return max(self.forward[layer], self.backward[layer])

    @property
    def total(self) -> Fraction:
        moved = (size for size in self.moved if size is not None)
        parts = (*self.weights, *self.kept, *self.forward, *self.backward, *self.slots, *self.slots, *moved)
        return sum(parts, Fraction(0))


def sizes_of(problem: ChainProblem) -> Sizes:
    """The sizes of a chain in its memory mode."""
    mode, tasks = problem.memory_mode, problem.tasks
    a = problem.held_activations
    layers = range(problem.layers)
    current = mode in ("reserved", "strict")
    return Sizes(
        weights=problem.held_weights,
        kept=a[: problem.layers],
        forward=tuple(a[i + 1] if current and problem.forward[i] else Fraction(0) for i in layers),
        backward=tuple(
            a[tasks - 1 - i] + a[tasks - i] if current and problem.backward[i] else Fraction(0) for i in layers
        ),
        slots=tuple(a[b] + a[tasks - b] if mode == "reserved" else Fraction(0) for b in layers if b),
        timed=tuple(any(problem.forward[i:]) or any(problem.backward[i:]) for i in layers),
        moved=tuple(_moved(problem, b) for b in layers if b),
    )


def _moved(problem: ChainProblem, border: int) -> Fraction | None:
    edges = [e for e in (border, problem.tasks - border) if problem.edge_times[e - 1]]
    if not edges or all(problem.durations):
        return None
    held = [problem.held_activations[e] for e in edges if problem.memory_mode == "strict"]
    return max(held, default=Fraction(0))


def unit_of(sizes: Sizes) -> Fraction:
    """Bytes per unit: exact where that takes few units, else so that what is rounded down hardly matters."""
    moved = [size for size in sizes.moved if size is not None]
    every = [*sizes.weights, *sizes.kept, *sizes.forward, *sizes.backward, *sizes.slots, *moved]
    return max(common_unit(every) or Fraction(1), sizes.total / MOST_UNITS)


def payload(sizes: Sizes, gpus: int, start: Sequence[int], least: int = 0) -> dict[str, Any]:
    """Plain data for `build`; sizes are rounded down to units, so its bound holds for the true sizes too.

    `least`: units that are known to be needed.
    """
    unit = unit_of(sizes)

    def units(amounts: Sequence[Fraction]) -> list[int]:
        return [math.floor(amount / unit) for amount in amounts]

    return {
        "gpus": gpus,
        "weights": units(sizes.weights),
        "kept": units(sizes.kept),
        "own": units([sizes.own(layer) for layer in sizes.layers]),
        "slots": units(sizes.slots),
        "timed": list(sizes.timed),
        "moved": [None if size is None else math.floor(size / unit) for size in sizes.moved],
        "start": list(start),
        "least": least,
    }


# ---- inside the worker -----------------------------------------------------------------------------------


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """The CP-SAT model of the least memory of a GPU."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    layers, gpus = range(len(data["weights"])), range(data["gpus"])
    on = partition(model, len(layers), len(gpus))
    moved = {b: size for b, size in enumerate(data["moved"]) if size is not None}
    most = sum(data["weights"]) + sum(data["kept"]) + max([*data["own"], *moved.values()]) + sum(data["slots"])
    cut = {b: _cut(model, on[b], on[b + 1]) for b in moved}
    memory = model.new_int_var(data["least"], most, "memory")
    for g in gpus:
        here = [on[i][g] for i in layers]
        standing = sum(w * x for w, x in zip(data["weights"], here, strict=True))
        standing += sum(size * _ends(model, here[b], here[b + 1]) for b, size in enumerate(data["slots"]) if size)
        kept = [size * x for size, x in zip(data["kept"], here, strict=True)]
        for b, size in moved.items():
            at_end = size * _ends(model, here[b], here[b + 1]) if size else 0
            model.add(standing + sum(kept[: b + 1]) + at_end <= memory).only_enforce_if(cut[b])
        for i in layers:  # where layer i is elsewhere, the row says less than that of the last layer before it
            if data["timed"][i]:
                model.add(standing + sum(kept[: i + 1]) + data["own"][i] * here[i] <= memory)
    model.minimize(memory)
    for layer, gpu in enumerate(data["start"]):
        for g in gpus:
            model.add_hint(on[layer][g], g == gpu)
    names = {f"x{i}_{g}": on[i][g] for i in layers for g in gpus}
    return NativeBuilt(model, {**names, "memory": memory})


def _cut(model: Any, left: Sequence[Any], right: Sequence[Any]) -> Any:
    """A literal that must be true where two neighbours are on different GPUs."""
    cut = model.new_bool_var("")
    for a, b in zip(left, right, strict=True):
        model.add_bool_or([a.negated(), b, cut])
    return cut


def _ends(model: Any, left: Any, right: Any) -> Any:
    """A literal: exactly one of two neighbours is on the GPU. Rows only push it down, so two clauses are enough."""
    end = model.new_bool_var("")
    model.add_bool_or([left.negated(), right, end])
    model.add_bool_or([left, right.negated(), end])
    return end
