"""One rank of a run: it works through its passes, receives what they read and sends what they make.

While a pass computes, what the next one reads is already on its way. A value that several stages read gets the sum of
their gradients; the loss of each micro-batch counts 1 / number of micro-batches; at the end, gradients of parameters
that several ranks hold are added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from ...instances.timeline.model import Pass
from ..capture import Captured
from ..grouping import Foreign, ModelInput, Piece
from ..torch_profile import CpuClock, Moment
from .orders import Layout, Message, Value


@dataclass(frozen=True, slots=True)
class Span:
    """A pass as it was measured."""

    stage: int
    micro_batch: int
    """Signed: + forward, - backward."""
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
    order: Sequence[Pass]
    links: Links
    clock: CpuClock
    training: bool
    shared: Sequence[SharedParameter] = ()
    _local: dict[Message, torch.Tensor] = field(default_factory=dict)
    _kept: dict[tuple[int, int], _Kept] = field(default_factory=dict)
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
            # What this pass and the next one read from other ranks is on its way.
            for message in (m for p in self.order[place : place + 2] for m in self.layout.read_by(p)):
                if self.layout.sender(message) != self.rank:
                    self.links.expect(message)
            if run_pass.micro_batch > 0:
                marks.append(self._forward(run_pass, inputs[run_pass.micro_batch - 1]))
            else:
                marks.append(self._backward(run_pass))
        if self.training:
            add_up(self.shared)
        self.links.finish()
        end = self.clock.mark()
        read = self.clock.read
        spans = tuple(
            Span(p.stage, p.micro_batch, read(first), read(last))
            for p, (first, last) in zip(self.order, marks, strict=True)
        )
        sent = self.links.sent_bytes - before
        total = float(sum(map(float, self._losses))) / self.layout.micro_batches if self._losses else None
        return Step(read(begin), read(end), spans, sent, total)

    # ---- messages ------------------------------------------------------------------------------------

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

    def _forward(self, run_pass: Pass, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
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

    def _backward(self, run_pass: Pass) -> tuple[Any, Any]:
        kept = self._kept.pop((run_pass.stage, -run_pass.micro_batch))
        gradients: dict[int, torch.Tensor] = {}
        for message in self.layout.read_by(run_pass):
            gradient = self._take(message)
            total = gradients.get(message.value)
            gradients[message.value] = gradient if total is None else total + gradient
        pairs = [(kept.outputs[v], g) for v, g in gradients.items() if kept.outputs[v].requires_grad]
        if kept.loss is not None and kept.loss.requires_grad:
            pairs.append((kept.loss, torch.full_like(kept.loss, 1.0 / self.layout.micro_batches)))
        begin = self.clock.mark()
        if pairs:
            torch.autograd.backward([tensor for tensor, _ in pairs], [gradient for _, gradient in pairs])
        end = self.clock.mark()
        for message in self.layout.made_by(run_pass):
            leaf = kept.leaves[message.value]
            self._give(message, torch.zeros_like(leaf) if leaf.grad is None else leaf.grad)
        return begin, end


def add_up(shared: Sequence[SharedParameter]) -> None:
    """Add up the gradients that ranks have of a parameter that several of them hold."""
    for entry in shared:
        if entry.parameter.grad is None:
            entry.parameter.grad = torch.zeros_like(entry.parameter)
        dist.all_reduce(entry.parameter.grad, group=entry.group)


def values_of(captured: Captured, pieces: Sequence[Piece]) -> list[Value]:
    """What stages read of each other, the same on all ranks. Whatever can have a gradient gets one back."""
    made = {name: x for x, piece in enumerate(pieces) for name in piece.outputs}
    readers: dict[str, list[int]] = {name: [] for name in made}
    for x, piece in enumerate(pieces):
        for entry in piece.inputs:
            if isinstance(entry, Foreign):
                readers[entry.value].append(x)
    values = {node.name: node.meta["val"] for node in captured.operations}
    return [
        Value(
            name,
            producer,
            tuple(readers[name]),
            tuple(map(int, values[name].shape)),
            str(values[name].dtype).removeprefix("torch."),
            captured.training and (values[name].is_floating_point() or values[name].is_complex()),
        )
        for name, producer in made.items()
    ]


# ---- links ------------------------------------------------------------


class Links:
    """Sends and receives the messages of one rank in one step, each by a tag of its own, so they may arrive in any
    order; tensors stay alive until they have been sent."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.sent_bytes = layout, 0
        self._inbox: dict[Message, tuple[torch.Tensor, Any]] = {}
        self._outbox: list[tuple[Any, torch.Tensor]] = []

    def expect(self, message: Message) -> None:
        """Begin to receive the message, unless that has begun."""
        if message not in self._inbox:
            value = self.layout.values[message.value]
            space = torch.empty(value.shape, dtype=getattr(torch, value.dtype))
            work = dist.irecv(space, self.layout.sender(message), tag=self.layout.tag(message))
            self._inbox[message] = (space, work)

    def send(self, message: Message, tensor: torch.Tensor) -> None:
        """Begin to send the tensor."""
        tensor = tensor.contiguous()
        work = dist.isend(tensor, self.layout.receiver(message), tag=self.layout.tag(message))
        self.sent_bytes += tensor.numel() * tensor.element_size()
        self._outbox = [entry for entry in self._outbox if not entry[0].is_completed()]
        self._outbox.append((work, tensor))

    def take(self, message: Message) -> torch.Tensor:
        """Wait until the message is there, and return its tensor."""
        self.expect(message)
        tensor, work = self._inbox.pop(message)
        work.wait()
        return tensor

    def finish(self) -> None:
        """Wait until everything has been sent."""
        for work, _ in self._outbox:
            work.wait()
        self._outbox.clear()
