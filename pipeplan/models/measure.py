"""How long the nodes of a profile take on this machine: real passes, each node at its place in a training step.

Nodes run one after the other in one process, forward in order, backward in reverse, cut off from each other, so that
caches and memory are as in a step; alone they would be several percent faster. Gradients accumulate, as they do over
micro-batches. On CPUs the processor time of one thread counts, on CUDA devices, which were not tried, the time between
events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

import torch

from ..instances.base.checks import check_whole
from ..instances.base.errors import InputError
from .capture import Captured
from .extraction import AUXILIARY, Foreign, Piece, extract
from .grouping import Grouped

# A larger number is taken for a mistake.
MAX_REPEATS = 10_000
# Rounds that are dropped: the first one makes the gradients, and the second one still gets memory from the system.
WARM_UP = 2


@dataclass(frozen=True)
class Measured:
    """Seconds by node, the median over the repeats."""

    forward: Mapping[str, float]
    backward: Mapping[str, float]
    how: str


def measure(captured: Captured, grouped: Grouped, repeats: int = 10) -> Measured:
    """Times of the nodes over `repeats` rounds, after some that warm up and are dropped."""
    check_whole("--repeats", repeats, MAX_REPEATS)
    names = list(grouped.nodes)
    places = {name: i for i, name in enumerate(names)}
    # Masks and positions would be calculated anew in each node, as no run does: a stage does it once.
    before, *pieces = (extract(captured, grouped, places, i, apart=True) for i in (AUXILIARY, *range(len(names))))
    clock = clock_for(captured)
    with one_thread(), _fresh_gradients(captured.model), torch.set_grad_enabled(captured.training):
        rounds = [_Round(captured, before, pieces, clock).run() for _ in range(WARM_UP + repeats)][WARM_UP:]
    forward, backward = (
        {name: median(done[part][i] for done in rounds) for i, name in enumerate(names)} for part in (0, 1)
    )
    return Measured(forward, backward, f"measured: {clock.words}, median of {repeats}")


# ---- clocks --------------------------------------------------------------------------------------------


class Clock(Protocol):
    words: str

    def now(self) -> Any: ...

    def between(self, start: Any, end: Any) -> float:
        """Seconds from start to end; to be called only after the last `now` of a round."""
        ...


class ThreadClock:
    """The processor time of this thread; what others do on the machine does not count."""

    words = "cpu, 1 thread, thread time"

    def now(self) -> float:
        return time.thread_time()

    def between(self, start: float, end: float) -> float:
        return end - start


class CudaClock:
    """The time between events of the device."""

    words = "cuda, events"

    def now(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


def clock_for(captured: Captured) -> Clock:
    """The clock for the device that the model is on."""
    kinds = {parameter.device.type for parameter in captured.model.parameters()}
    if kinds <= {"cpu"}:
        return ThreadClock()
    if kinds == {"cuda"}:
        return CudaClock()
    raise InputError(
        "the model", f"lies on {' and '.join(sorted(kinds))}", "put it on one CPU or one CUDA device to measure it"
    )


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _fresh_gradients(model: torch.nn.Module) -> Iterator[None]:
    """The model without gradients inside the block; the gradients that it had come back at the end."""
    before = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in before:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in before:
            parameter.grad = gradient


# ---- one step ------------------------------------------------------------------------------------------


@dataclass
class _Pass:
    """What a node's forward pass leaves for its backward pass."""

    leaves: dict[str, torch.Tensor]
    outputs: dict[str, Any]
    loss: torch.Tensor | None


@dataclass
class _Round:
    """One training step, node by node."""

    captured: Captured
    before: Piece
    """The auxiliary operations, which are not measured."""
    pieces: list[Piece]
    clock: Clock
    values: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)

    def run(self) -> tuple[list[float], list[float]]:
        """Seconds of the forward passes and of the backward passes, in the order of the nodes."""
        forward, backward, passes = [], [], []
        self._keep(self.before, self.before.module(*self._arguments(self.before, {})))
        for piece in self.pieces:
            done, start, end = self._forward(piece)
            passes.append(done)
            forward.append((start, end))
        while passes:
            backward.append(self._backward(passes.pop()))
        backward.reverse()
        ahead, back = ([self.clock.between(*pair) for pair in part] for part in (forward, backward))
        return ahead, back

    def _forward(self, piece: Piece) -> tuple[_Pass, Any, Any]:
        leaves: dict[str, torch.Tensor] = {}
        args = self._arguments(piece, leaves)
        start = self.clock.now()
        made, finals = piece.module(*args)
        end = self.clock.now()
        outputs = self._keep(piece, (made, finals))
        loss = dict(zip(piece.finals, finals, strict=True)).get(piece.loss) if piece.loss else None
        return _Pass(leaves, outputs, loss), start, end

    def _arguments(self, piece: Piece, leaves: dict[str, torch.Tensor]) -> list[Any]:
        """Arguments of a piece; those that can be differentiated become leaves, whose gradients are kept."""
        return [
            self._cut_off(entry.value, leaves) if isinstance(entry, Foreign) else self.captured.inputs[entry.name]
            for entry in piece.inputs
        ]

    def _keep(self, piece: Piece, made: tuple[tuple[Any, ...], Any]) -> dict[str, Any]:
        outputs = dict(zip(piece.outputs, made[0], strict=True))
        self.values.update(outputs)
        return outputs

    def _cut_off(self, name: str, leaves: dict[str, torch.Tensor]) -> Any:
        value = self.values[name]
        if not isinstance(value, torch.Tensor):
            return value
        leaf = value.detach()
        if value.requires_grad:
            leaves[name] = leaf.requires_grad_()
        return leaf

    def _backward(self, done: _Pass) -> tuple[Any, Any]:
        ends = [
            (value, self.gradients.pop(name))
            for name, value in done.outputs.items()
            if name in self.gradients and value.requires_grad
        ]
        if done.loss is not None:
            ends.append((done.loss, torch.ones_like(done.loss)))
        start = self.clock.now()
        if ends:
            torch.autograd.backward([value for value, _ in ends], [gradient for _, gradient in ends])
        end = self.clock.now()
        for name, leaf in done.leaves.items():
            if leaf.grad is not None:
                total = self.gradients.get(name)
                self.gradients[name] = leaf.grad if total is None else total + leaf.grad
        return start, end
