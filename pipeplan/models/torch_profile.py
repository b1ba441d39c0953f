"""A captured model with its costs as a profile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

import torch

from ..instances.base.checks import check_whole
from ..instances.base.curve import TimeCurve
from ..instances.base.errors import InputError
from ..instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor, Time
from ..instances.networks.profile.work import Kernels, Work, calculated, merged
from ..instances.physics.hardware import Hardware
from .capture import Build, Captured, capture, outputs_of, place_in_model
from .grouping import AUXILIARY, Foreign, Grouped, Piece, extract, group
from .kernels import Trace, trace


@dataclass(frozen=True, slots=True)
class Costing:
    """How a model becomes a profile; with hardware its times are calculated, else measured."""

    hardware: Hardware | None = None
    repeats: int = 10
    training: bool = True
    granularity: str = "block"
    attention: str = "fused"
    loss: str | None = None
    allow_uncounted: bool = False


@dataclass(frozen=True)
class Costed:
    """A model with the costs of one micro-batch."""

    captured: Captured
    grouped: Grouped
    seen: Trace
    costs: Mapping[str, NodeCost]
    times: str
    """How times were calculated or measured, in words."""


def costed(build: Build, how: Costing) -> Costed:
    """Capture the model and find what its nodes cost."""
    analytic = how.hardware is not None
    captured = capture(build, training=how.training, fake=analytic, loss=how.loss)
    # Where passes are measured, what they keep is what this machine's kernels keep.
    as_here = not analytic and clock_for(captured).words.startswith("cpu") and how.attention == "fused"
    seen = trace(captured, attention=None if as_here else how.attention, allow_uncounted=how.allow_uncounted)
    grouped = group(captured, how.granularity, flops=seen.flops())
    costs_of = costs(seen, captured, grouped, how.hardware)
    if how.hardware is not None:
        return Costed(captured, grouped, seen, costs_of, calculated(how.hardware))
    measured = measure(captured, grouped, how.repeats)
    for name, cost in costs_of.items():
        cost.forward_s, cost.backward_s = measured.forward[name], measured.backward[name]
    return Costed(captured, grouped, seen, costs_of, measured.how)


def torch_profile(
    build_for: Callable[[int | None], Build],
    sizes: Sequence[int],
    how: Costing,
    *,
    name: str | None = None,
    source: Mapping[str, Any] | None = None,
) -> Profile:
    """The profile of a model; times are curves where there are several sizes of micro-batches.

    The first size is that of all other amounts; without sizes it is what the inputs say.
    """
    first = costed(build_for(sizes[0] if sizes else None), how)
    curves = {size: _times(costed(build_for(size), how), first, size) for size in sizes[1:]}
    if curves:
        curves[sizes[0]] = {node: (cost.forward_s, cost.backward_s) for node, cost in first.costs.items()}
    return Profile(
        nodes=tuple(_node(first, node, curves) for node in first.grouped.nodes),
        tensors=tuple(_tensors(first)),
        name=name or type(first.captured.model).__name__,
        training=how.training,
        micro_batch=sizes[0] if sizes else samples_of(first.captured),
        source=_source(first, how) | dict(source or {}),
        tied=first.grouped.tied,
    )


def samples_of(captured: Captured) -> int:
    """The first dimension of the first input that has one; 1 where none has."""
    sizes = (value.shape for value in captured.inputs.values() if isinstance(value, torch.Tensor))
    return next((int(shape[0]) for shape in sizes if len(shape) and shape[0] > 0), 1)


# Seconds of the forward and the backward pass of each node.
_Times = dict[str, tuple[float, float]]


def _times(other: Costed, first: Costed, size: int) -> _Times:
    if set(other.costs) != set(first.costs):
        raise InputError(
            "--micro-batch", f"{size} gives other nodes than the first size", "give sizes with one graph"
        )
    return {node: (cost.forward_s, cost.backward_s) for node, cost in other.costs.items()}


def _node(first: Costed, node: str, curves: Mapping[int, _Times]) -> ProfileNode:
    cost, training = first.costs[node], first.captured.training
    forward: Time = cost.forward_s
    backward: Time = cost.backward_s
    if curves:
        forward, backward = (
            TimeCurve(tuple(map(float, sorted(curves))), tuple(curves[size][node][i] for size in sorted(curves)))
            for i in (0, 1)
        )
    return ProfileNode(
        node,
        forward,
        backward if training else 0.0,
        saved_bytes=cost.saved_bytes,
        buffer_bytes=first.grouped.buffer_bytes[node],
        parameters=first.grouped.parameters[node],
        flops_forward=cost.flops_forward,
        flops_backward=cost.flops_backward if training else None,
        modules=first.grouped.modules[node],
        work=None if curves else Work(merged(cost.kernels_forward), merged(cost.kernels_backward)),
    )


def _tensors(first: Costed) -> list[ProfileTensor]:
    """The values that nodes read of each other, and those that the model returns."""
    readers = first.grouped.readers()
    final = [value for value in outputs_of(first.captured.graph) if value in first.grouped.owner]
    tensors = []
    for value in dict.fromkeys((*readers, *final)):
        tensor = value.meta.get("val")
        if isinstance(tensor, torch.Tensor):
            read = readers.get(value, ())
            tensors.append(
                ProfileTensor(
                    value.name,
                    first.grouped.owner[value],
                    read,
                    float(tensor.numel() * tensor.element_size()),
                    gradient=bool(read) and value.name in first.seen.gradients and first.captured.training,
                    shape=tuple(map(int, tensor.shape)),
                    dtype=str(tensor.dtype).removeprefix("torch."),
                )
            )
    return tensors


def _source(first: Costed, how: Costing) -> dict[str, Any]:
    return {
        "how": "torch-export",
        "torch": str(torch.__version__),
        "granularity": how.granularity,
        "graph_sha256": first.captured.sha256,
        "times": first.times,
        "attention": how.attention,
        **({} if how.loss is None else {"loss": how.loss}),
        **({"warnings": list(first.captured.warnings)} if first.captured.warnings else {}),
    }


# ---- measure ------------------------------------------------------------
# How long the nodes of a profile take on this machine: real passes, each node at its place in a training step.
#
# Nodes run one after the other in one process, forward in order, backward in reverse, cut off from each other, so
# that caches and memory are as in a step; alone they would be several percent faster. Gradients accumulate, as they
# do over micro-batches. On CPUs the processor time of one thread counts, on CUDA devices, which were not tried, the
# time between events.


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


# ---- analytic ------------------------------------------------------------
# What the nodes of a profile cost by calculation: operations, bytes, and times by the roofline rule.
#
# The time of a pass is the sum over its kernels, each with its start. That is an estimate for execution operation by
# operation; fused kernels are faster.


# Largest share of the floating-point operations that may be in auxiliary operations, which every stage repeats.
MOST_AUXILIARY = 0.01
# Largest share of them that may be inside torch.autocast, which hides operations from a profile.
MOST_AUTOCAST = 0.1


@dataclass(slots=True)
class NodeCost:
    """Costs of a node for one micro-batch; times are None where they are measured instead."""

    flops_forward: float = 0.0
    flops_backward: float = 0.0
    saved_bytes: float = 0.0
    forward_s: float = 0.0
    backward_s: float = 0.0
    kernels_forward: list[Kernels] = field(default_factory=list)
    kernels_backward: list[Kernels] = field(default_factory=list)


def costs(seen: Trace, captured: Captured, grouped: Grouped, hardware: Hardware | None) -> dict[str, NodeCost]:
    """Costs of each node; without hardware they have no times."""
    _refuse_heavy(seen, captured, grouped)
    owner = {node.name: name for node, name in grouped.owner.items()}
    cost_of = {name: NodeCost() for name in grouped.nodes}
    for kernel in seen.kernels:
        node = owner.get(kernel.operation or "")
        if node is None:
            continue
        amounts = (kernel.flops, kernel.moved_bytes)
        seconds = 0.0 if hardware is None else hardware.seconds(*amounts, kernel.element_bytes)
        cost = cost_of[node]
        kernels = cost.kernels_backward if kernel.backward else cost.kernels_forward
        kernels.append(Kernels(*amounts, 1, kernel.element_bytes))
        if kernel.backward:
            cost.flops_backward += kernel.flops
            cost.backward_s += seconds
        else:
            cost.flops_forward += kernel.flops
            cost.forward_s += seconds
    for name, operations in grouped.nodes.items():
        # Memory that two operations of a node keep counts once.
        kept = {key: size for op in operations for key, size in seen.saved.get(op.name, {}).items()}
        cost_of[name].saved_bytes = sum(kept.values())
    return cost_of


# ---- what a profile cannot say -------------------------------------------------------------------------


def _refuse_heavy(seen: Trace, captured: Captured, grouped: Grouped) -> None:
    """Refuse a model with much of its work in auxiliary operations or inside torch.autocast."""
    flops = seen.flops()
    total = sum(flops.values())
    cast = [node for node in captured.operations if "wrap_with_autocast" in str(node.target)]
    for nodes, most, problem, remedy in (
        (
            *(grouped.auxiliary, MOST_AUXILIARY),
            "calculates {share:.0%} of the floating-point operations from the inputs alone, which every stage would "
            "repeat",
            "give their results as inputs, or make a parameter of what they read",
        ),
        (
            *(cast, MOST_AUTOCAST),
            "has {share:.0%} of the floating-point operations inside torch.autocast, which hides them from a profile",
            "give the model in bfloat16 instead",
        ),
    ):
        work = {node: flops.get(node.name, 0.0) for node in nodes}
        share = sum(work.values()) / total if total else 0.0
        if share > most:
            raise InputError(place_in_model(max(work, key=work.__getitem__)), problem.format(share=share), remedy)
