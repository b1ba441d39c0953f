"""One rank of a run: it works through its passes, receives what they read and sends what they make.

While a pass computes, what the next one reads is already on its way. A backward pass may come in two parts. A value
that several stages read gets the sum of their gradients; the loss of each micro-batch counts 1 / number of
micro-batches; at the end, gradients of parameters that several ranks hold are added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from ..grouping import ModelInput, Piece
from .clocks import Clock, Moment
from .divided import DividedBackward
from .layout import Layout, Message
from .links import Links
from .passes import INPUTS, WEIGHTS, RunPass


@dataclass(frozen=True, slots=True)
class Span:
    """A pass as it was measured."""

    stage: int
    micro_batch: int
    """Signed: + forward, - backward."""
    part: str
    """The part of a backward pass, as in `RunPass`."""
    begin: Moment
    end: Moment


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration of one rank."""

    begin: Moment
    end: Moment
    spans: tuple[Span, ...]
    sent_bytes: int
    loss: float | None
    """Sum of the losses that were computed on this rank, divided by the number of all micro-batches; None: none was."""


@dataclass(frozen=True, slots=True)
class SharedParameter:
    """A parameter that several ranks hold: this rank's object, and the group of these ranks."""

    parameter: torch.nn.Parameter
    group: Any


@dataclass(slots=True)
class _Kept:
    """What a forward pass leaves for its backward pass."""

    leaves: dict[int, torch.Tensor]
    """Tensors that other stages sent, by the number of the value."""
    outputs: dict[int, torch.Tensor]
    loss: torch.Tensor | None


@dataclass
class Engine:
    """A rank; `pieces` are those of its own stages."""

    rank: int
    pieces: Mapping[int, Piece]
    layout: Layout
    order: Sequence[RunPass]
    links: Links
    clock: Clock
    training: bool
    shared: Sequence[SharedParameter] = ()
    schedule: str = "the plan's"
    """The order of the passes, in words: "the plan's" or "the given"."""
    _local: dict[Message, torch.Tensor] = field(default_factory=dict)
    _kept: dict[tuple[int, int], _Kept] = field(default_factory=dict)
    _divided: dict[tuple[int, int], DividedBackward] = field(default_factory=dict)
    """Backward passes whose gradients of the weights have still to be computed."""
    _losses: list[torch.Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.numbers = {value.name: number for number, value in enumerate(self.layout.values)}

    def step(self, inputs: Sequence[Mapping[str, Any]]) -> Step:
        """One iteration over all micro-batches; `inputs` are those of each."""
        self._losses.clear()
        before = self.links.sent_bytes
        self.clock.begin()
        begin, marks = self.clock.mark(), []
        for place, run_pass in enumerate(self.order):
            self._expect(self.order[place : place + 2])
            marks.append(self._run(run_pass, inputs))
        if self.training:
            add_up(self.shared)
        self.links.finish()
        end = self.clock.mark()
        read = self.clock.read
        spans = tuple(Span(*p, read(first), read(last)) for p, (first, last) in zip(self.order, marks, strict=True))
        sent = self.links.sent_bytes - before
        return Step(read(begin), read(end), spans, sent, self._loss())

    def _loss(self) -> float | None:
        if not self._losses:
            return None
        return float(sum(float(loss) for loss in self._losses)) / self.layout.micro_batches

    # ---- messages ------------------------------------------------------------------------------------

    def _expect(self, passes: Sequence[RunPass]) -> None:
        """Begin to receive what these passes read from other ranks."""
        for run_pass in passes:
            for message in self.layout.read_by(run_pass):
                if self.layout.sender(message) != self.rank:
                    self.links.expect(message)

    def _take(self, message: Message) -> torch.Tensor:
        if self.layout.sender(message) == self.rank:
            return self._local.pop(message)
        return self.links.take(message)

    def _give(self, message: Message, tensor: torch.Tensor) -> None:
        if self.layout.receiver(message) == self.rank:
            self._local[message] = tensor
        else:
            self.links.send(message, tensor)

    # ---- passes --------------------------------------------------------------------------------------

    def _run(self, run_pass: RunPass, inputs: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
        """Run a pass, and return the marks of when it began and ended."""
        if run_pass.micro_batch > 0:
            return self._forward(run_pass, inputs[run_pass.micro_batch - 1])
        return self._weights(run_pass) if run_pass.part == WEIGHTS else self._backward(run_pass)

    def _forward(self, run_pass: RunPass, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
        piece, leaves = self.pieces[run_pass.stage], {}
        for message in self.layout.read_by(run_pass):
            leaf = self._take(message).detach()
            gradient = self.training and self.layout.values[message.value].gradient
            leaves[message.value] = leaf.requires_grad_() if gradient else leaf
        arguments = [
            inputs[entry.name] if isinstance(entry, ModelInput) else leaves[self.numbers[entry.value]]
            for entry in piece.inputs
        ]
        begin = self.clock.mark()
        with torch.set_grad_enabled(self.training):
            outputs, finals = piece.module(*arguments)
        end = self.clock.mark()
        made = {self.numbers[name]: tensor for name, tensor in zip(piece.outputs, outputs, strict=True)}
        loss = None if piece.loss is None else finals[piece.finals.index(piece.loss)]
        if loss is not None:
            self._losses.append(loss.detach())
        for message in self.layout.made_by(run_pass):
            self._give(message, made[message.value].detach())
        if self.training:
            self._kept[run_pass.stage, run_pass.micro_batch] = _Kept(leaves, made, loss)
        return begin, end

    def _backward(self, run_pass: RunPass) -> tuple[Any, Any]:
        """Run a whole backward pass, or the part of it that other stages wait for."""
        key = run_pass.stage, -run_pass.micro_batch
        kept = self._kept.pop(key)
        gradients: dict[int, torch.Tensor] = {}
        for message in self.layout.read_by(run_pass):
            gradient = self._take(message)
            total = gradients.get(message.value)
            gradients[message.value] = gradient if total is None else total + gradient
        pairs = [(kept.outputs[v], g) for v, g in gradients.items() if kept.outputs[v].requires_grad]
        if kept.loss is not None and kept.loss.requires_grad:
            pairs.append((kept.loss, torch.full_like(kept.loss, 1.0 / self.layout.micro_batches)))
        begin = self.clock.mark()
        if run_pass.part == INPUTS:
            self._divided[key] = DividedBackward(pairs, list(kept.leaves.values()))
            self._divided[key].inputs()
        elif pairs:
            torch.autograd.backward([tensor for tensor, _ in pairs], [gradient for _, gradient in pairs])
        end = self.clock.mark()
        for message in self.layout.made_by(run_pass):
            leaf = kept.leaves[message.value]
            self._give(message, torch.zeros_like(leaf) if leaf.grad is None else leaf.grad)
        return begin, end

    def _weights(self, run_pass: RunPass) -> tuple[Any, Any]:
        """Run the part of a divided backward pass that is left."""
        left = self._divided.pop((run_pass.stage, -run_pass.micro_batch))
        begin = self.clock.mark()
        left.weights()
        return begin, self.clock.mark()


def add_up(shared: Sequence[SharedParameter]) -> None:
    """Add up the gradients that ranks have of a parameter that several of them hold."""
    for entry in shared:
        if entry.parameter.grad is None:
            entry.parameter.grad = torch.zeros_like(entry.parameter)
        dist.all_reduce(entry.parameter.grad, group=entry.group)
