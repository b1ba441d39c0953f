"""One rank of a run: it works through its passes, receives what they read and sends what they make.

While a pass computes, what the next one reads is already on its way. A backward pass may come in two parts. A value
that several stages read gets the sum of their gradients; the loss of each micro-batch counts 1 / number of
micro-batches; at the end, gradients of parameters that several ranks hold are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from ...instances.timeline.model import INPUTS, WEIGHTS, Pass
from ..capture import Captured
from ..grouping import Foreign, ModelInput, Piece
from ..torch_profile import CpuClock, Moment
from .orders import Layout, Message, Value

# ---- divided ---------------------------------------------------------------------------------------------
# A backward pass in two parts: first the gradients that other stages wait for, later those of the stage's weights.
#
# The first part runs backward from what the stage made to what it read. On this way lie the operations that also
# lead to weights: what arrives at each of them is kept. The second part runs each of these once more, from what
# arrived there to its own weights alone; other ones that it would pass on the way are given zeros, for they have
# their own turn. Whatever leads to no input, and on a stage that reads none that is everything, is left to the
# second part as a whole.

# A tensor that a stage made, and its gradient.
Pair = tuple[torch.Tensor, torch.Tensor]
Gradients = tuple[torch.Tensor | None, ...]


class DividedBackward:
    """Both parts for one micro-batch; the graph is kept until the second one has run."""

    def __init__(self, pairs: Sequence[Pair], leaves: Sequence[torch.Tensor]) -> None:
        self._pairs = pairs
        self._leaves = [leaf for leaf in leaves if leaf.requires_grad]
        roots = [get_gradient_edge(tensor).node for tensor, _ in pairs]
        self._graph = _Graph(roots, [get_gradient_edge(leaf).node for leaf in self._leaves])
        self._roots = roots
        self._arrived: dict[Node, Gradients] = {}

    def inputs(self) -> None:
        """Compute the gradients of what was read, as `grad` of the leaves."""
        pairs = [pair for pair, root in zip(self._pairs, self._roots, strict=True) if root in self._graph.to_inputs]
        if not pairs:
            return
        with _hooked({node: partial(self._arrived.__setitem__, node) for node in self._graph.forks}):
            gradients = _gradients(
                [tensor for tensor, _ in pairs], self._leaves, [gradient for _, gradient in pairs]
            )
        for leaf, gradient in zip(self._leaves, gradients, strict=True):
            leaf.grad = gradient

    def weights(self) -> None:
        """Compute the gradients of the weights, and add them to their `grad`.

        While one operation runs, the others that lead to weights of it get zeros.
        """
        forks = self._graph.forks
        for node, arrived in self._arrived.items():
            outputs = [(GradientEdge(node, i), g) for i, g in enumerate(arrived) if g is not None]
            others = [other for other in self._arrived if other is not node and forks[other] & forks[node]]
            with _hooked(dict.fromkeys(others, _zeros)):
                _add(outputs, forks[node])
        rest = [i for i, root in enumerate(self._roots) if root not in self._graph.to_inputs]
        _add([self._pairs[i] for i in rest], _below([self._roots[i] for i in rest]))


def _add(outputs: Sequence[tuple[Any, torch.Tensor]], weights: set[Node]) -> None:
    """Run backward from the outputs, and add what arrives at the weights to their gradients."""
    if outputs and weights:
        targets = list(weights)
        edges = [GradientEdge(target, 0) for target in targets]
        totals = _gradients([output for output, _ in outputs], edges, [gradient for _, gradient in outputs])
        for target, gradient in zip(targets, totals, strict=True):
            weight: torch.Tensor = target.variable
            if gradient is not None:
                weight.grad = gradient if weight.grad is None else weight.grad + gradient


@contextmanager
def _hooked(hooks: Mapping[Node, Callable[[Gradients], Any]]) -> Iterator[None]:
    """Let the hooks see, or change, what arrives at these operations inside the block."""
    handles = [node.register_prehook(hook) for node, hook in hooks.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Graph:
    """The operations of one micro-batch on a stage."""

    def __init__(self, roots: Sequence[Node], leaves: Sequence[Node]) -> None:
        before: dict[Node, list[Node]] = {}
        for node in _all(roots):
            for target in _next(node):
                before.setdefault(target, []).append(node)
        # The operations from which a path leads to an input, and the inputs.
        self.to_inputs = set(leaves)
        waiting = list(leaves)
        while waiting:
            for node in before.get(waiting.pop(), ()):
                if node not in self.to_inputs:
                    self.to_inputs.add(node)
                    waiting.append(node)
        # The operations from which paths lead to inputs and, apart from them, to weights; each with these weights.
        self.forks: dict[Node, set[Node]] = {}
        for node in self.to_inputs - set(leaves):
            weights = _below([target for target in _next(node) if target not in self.to_inputs])
            if weights:
                self.forks[node] = weights


def _next(node: Node) -> Iterator[Node]:
    return (target for target, _ in node.next_functions if target is not None)


def _all(roots: Sequence[Node]) -> set[Node]:
    nodes, waiting = set(roots), list(roots)
    while waiting:
        for target in _next(waiting.pop()):
            if target not in nodes:
                nodes.add(target)
                waiting.append(target)
    return nodes


def _below(roots: Sequence[Node]) -> set[Node]:
    """The weights to which these operations lead: nodes that hold a tensor of the caller's."""
    return {node for node in _all(roots) if hasattr(node, "variable")}


def _gradients(outputs: Sequence[Any], targets: Sequence[Any], gradients: Sequence[torch.Tensor]) -> Gradients:
    result: Gradients = torch.autograd.grad(outputs, targets, gradients, retain_graph=True, allow_unused=True)
    return result


def _zeros(gradients: Gradients) -> Gradients:
    return tuple(None if gradient is None else torch.zeros_like(gradient) for gradient in gradients)


# ---- engine ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """A pass as it was measured."""

    stage: int
    micro_batch: int
    """Signed: + forward, - backward."""
    part: str
    """The part of a backward pass, as in `Pass`."""
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
            # What this pass and the next one read from other ranks is on its way.
            for message in (m for p in self.order[place : place + 2] for m in self.layout.read_by(p)):
                if self.layout.sender(message) != self.rank:
                    self.links.expect(message)
            if run_pass.micro_batch > 0:
                marks.append(self._forward(run_pass, inputs[run_pass.micro_batch - 1]))
            else:
                marks.append(self._weights(run_pass) if run_pass.part == WEIGHTS else self._backward(run_pass))
        if self.training:
            add_up(self.shared)
        self.links.finish()
        end = self.clock.mark()
        read = self.clock.read
        spans = tuple(Span(*p, read(first), read(last)) for p, (first, last) in zip(self.order, marks, strict=True))
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

    def _weights(self, run_pass: Pass) -> tuple[Any, Any]:
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
