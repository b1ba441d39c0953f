"""A captured model with its costs as a profile: each node's kernels, and its times, measured or by the roofline rule.

A kernel without a formula is added to `_OURS` (its operations) or to `_LIGHT` (so few that its bytes decide its time).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from ..instances.base.checks import check_whole
from ..instances.base.curve import TimeCurve
from ..instances.base.errors import InputError, show
from ..instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor, Time
from ..instances.networks.profile.work import Kernels, Work, calculated, merged
from ..instances.physics.hardware import Hardware
from ..instances.timeline.model import Pass
from .capture import Build, Captured, Fakes, attribute, capture, first_line, outputs_of, place_in_model, tensors_in
from .grouping import AUXILIARY, Grouped, extract, group


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
    forward, backward = measure(captured, grouped, how.repeats)
    for name, cost in costs_of.items():
        cost.forward_s, cost.backward_s = forward[name], backward[name]
    words = f"measured: {clock_for(captured).words}, median of {how.repeats}"
    return Costed(captured, grouped, seen, costs_of, words)


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
    work = cost.work
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
        flops_forward=work.flops("forward"),
        flops_backward=work.flops("backward") if training else None,
        modules=first.grouped.modules[node],
        work=None if curves else work,
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
# Nodes run one after the other in one process, forward in order, backward in reverse, cut off from each other as the
# stages of a run are, so that caches and memory are as in a step; alone they would be several percent faster. Gradients
# accumulate, as they do over micro-batches. On CPUs the processor time of one thread counts, on CUDA devices, which
# were not tried, the time between events.


# A larger number is taken for a mistake.
MAX_REPEATS = 10_000
# Rounds that are dropped: the first one makes the gradients, and the second one still gets memory from the system.
WARM_UP = 2


def measure(captured: Captured, grouped: Grouped, repeats: int = 10) -> list[dict[str, float]]:
    """Seconds of the forward and of the backward passes, by node: medians over `repeats` rounds.

    Some rounds before them warm up, and are dropped.
    """
    check_whole("--repeats", repeats, MAX_REPEATS)
    from .run.engine import Engine, Links, values_of  # which takes its clock from here
    from .run.orders import Layout, RunStage

    places = {name: x for x, name in enumerate(grouped.nodes, 1)}
    # Masks and positions would be calculated anew in each node, as no run does: stage 0 does it once.
    pieces = [extract(captured, grouped, places, x, apart=True) for x in (AUXILIARY, *places.values())]
    values = [
        replace(value, gradient=value.gradient and value.producer > 0) for value in values_of(captured, pieces)
    ]
    layout = Layout(tuple(RunStage(name, (), (0,)) for name in ("", *places)), tuple(values), 1)
    order = [Pass(x, 1) for x in range(len(pieces))]
    order += [Pass(x, -1) for x in reversed(places.values())] if captured.training else []
    clock, parameters = clock_for(captured), list(captured.model.parameters())
    engine = Engine(0, dict(enumerate(pieces)), layout, order, Links(layout), clock, captured.training)
    with one_thread(), _gradients(parameters, lambda _: None):
        steps = [engine.step([captured.inputs]).spans for _ in range(WARM_UP + repeats)][WARM_UP:]
    seconds = {p: median(spans[k].begin.until(spans[k].end) for spans in steps) for k, p in enumerate(order)}
    return [{name: seconds.get(Pass(x, sign), 0.0) for name, x in places.items()} for sign in (1, -1)]


# ---- clocks --------------------------------------------------------------------------------------------


class Moment(NamedTuple):
    """Seconds; the wall clock is that of the machine, the same for all processes."""

    wall: float
    cpu: float | None
    """CPU time of this thread; None: a GPU works without it."""

    def until(self, end: Moment) -> float:
        """Seconds from here to the end: CPU time where there is some, since what others do does not count there."""
        return end.wall - self.wall if self.cpu is None or end.cpu is None else end.cpu - self.cpu


class CpuClock:
    """For one thread: backward passes on a CPU run in the thread that asks for them.

    Marks of a clock are cheap to set, and are read when the step is over.
    """

    words = "cpu, 1 thread, thread time"

    def begin(self) -> None:
        """To be called before the first mark of a step; there is nothing to prepare on a CPU."""

    def mark(self) -> Any:
        """Set a mark now; `read` tells its moment later."""
        return Moment(time.perf_counter(), time.thread_time())

    def read(self, mark: Any) -> Moment:
        """The moment at which the mark was set."""
        moment: Moment = mark
        return moment


class CudaClock(CpuClock):
    """Events on the current stream, placed on the machine's clock by the first of them."""

    words = "cuda, events"

    def begin(self) -> None:
        torch.cuda.synchronize()
        self._start = self.mark()
        self._wall = time.perf_counter()

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def read(self, mark: torch.cuda.Event) -> Moment:
        mark.synchronize()
        return Moment(self._wall + self._start.elapsed_time(mark) / 1e3, None)


def clock_for(captured: Captured) -> CpuClock:
    """The clock for the device that the model is on."""
    kinds = {parameter.device.type for parameter in captured.model.parameters()}
    if kinds <= {"cpu"}:
        return CpuClock()
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
def _gradients(
    parameters: Sequence[torch.Tensor], first: Callable[[torch.Tensor], torch.Tensor | None]
) -> Iterator[None]:
    """The parameters with these first gradients inside the block; the gradients that they had come back at the end."""
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = first(parameter)
    try:
        yield
    finally:
        for parameter, gradient in zip(parameters, before, strict=True):
            parameter.grad = gradient


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
    """Kernels and times of a node for one micro-batch; times are 0 until they are measured, or calculated."""

    forward: list[Kernels] = field(default_factory=list)
    backward: list[Kernels] = field(default_factory=list)
    saved_bytes: float = 0.0
    forward_s: float = 0.0
    backward_s: float = 0.0

    @property
    def work(self) -> Work:
        """All its kernels."""
        return Work(merged(self.forward), merged(self.backward))


def costs(seen: Trace, captured: Captured, grouped: Grouped, hardware: Hardware | None) -> dict[str, NodeCost]:
    """Costs of each node; without hardware they have no times."""
    _refuse_heavy(seen, captured, grouped)
    owner = {node.name: name for node, name in grouped.owner.items()}
    cost_of = {name: NodeCost() for name in grouped.nodes}
    for kernel in seen.kernels:
        node = owner.get(kernel.operation or "")
        if node is not None:
            (cost_of[node].backward if kernel.backward else cost_of[node].forward).append(kernel.work)
    for name, cost in cost_of.items():
        # Memory that two operations of a node keep counts once.
        kept = {key: size for op in grouped.nodes[name] for key, size in seen.saved.get(op.name, {}).items()}
        cost.saved_bytes = sum(kept.values())
        if hardware is not None:
            cost.forward_s = sum((kernel.seconds(hardware) for kernel in cost.forward), 0.0)
            cost.backward_s = sum((kernel.seconds(hardware) for kernel in cost.backward), 0.0)
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


# ---- kernels ------------------------------------------------------------
# Every kernel of one training step, seen on tensors without memory: its operations, its bytes, and whose it is.


ATTENTIONS = ("fused", "math")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One call of one kernel."""

    operation: str | None
    """Name of the operation of the graph that the kernel belongs to; None: it belongs to none."""
    backward: bool
    work: Kernels
    """What it does, for one kernel."""


@dataclass(frozen=True)
class Trace:
    """One step: forward and, in training, backward."""

    kernels: tuple[Kernel, ...]
    saved: Mapping[str, Mapping[int, float]]
    """Bytes that each operation keeps for its backward pass, by memory; parameters and buffers are left out."""
    gradients: frozenset[str]
    """The values of the graph that a gradient comes back to."""

    def flops(self) -> dict[str, float]:
        """Floating-point operations of both passes, by operation of the graph."""
        flops_of: dict[str, float] = {}
        for kernel in self.kernels:
            if kernel.operation is not None:
                flops_of[kernel.operation] = flops_of.get(kernel.operation, 0.0) + kernel.work.flops
        return flops_of


def trace(captured: Captured, *, attention: str | None = "fused", allow_uncounted: bool = False) -> Trace:
    """One step of the captured graph.

    `attention` fused takes attention as one kernel without dropout, which keeps no matrix of scores; math takes it step
    by step; None takes what this machine's CPU would do.
    """
    if attention not in (None, *ATTENTIONS):
        raise InputError("--attention", f"is {show(attention)}", f"give {' or '.join(ATTENTIONS)}")
    mode = captured.mode or FakeTensorMode(allow_non_fake_inputs=True)
    chosen = sdpa_kernel(SDPBackend.MATH) if attention == "math" else nullcontext()
    with mode, chosen, torch.set_grad_enabled(captured.training):
        step = _Step(captured, Fakes(mode), fused=attention == "fused", allow_uncounted=allow_uncounted)
        try:
            step.run_all()
        except InputError:
            raise
        except Exception as error:
            raise step.explained(error) from error
    return Trace(tuple(step.watch.kernels), step.saved, frozenset(step.gradients))


class _Watch(TorchDispatchMode):
    """Notes every kernel for the operation that is running."""

    def __init__(self, captured: Captured, fakes: Fakes, allow_uncounted: bool) -> None:
        super().__init__()
        self.allow_uncounted = allow_uncounted
        self.operation: fx.Node | None = None
        self.backward = False
        self.kernels: list[Kernel] = []
        # By memory the parameter's name, and the tensor, which is kept so that its memory is not used again.
        self._weights: dict[int, tuple[str, torch.Tensor]] = {}
        for name, parameter in captured.model.named_parameters():
            if parameter.dim() >= 2:
                self._know(name, fakes(parameter))

    def _know(self, name: str, tensor: torch.Tensor) -> None:
        self._weights[tensor.untyped_storage()._cdata] = (name, tensor)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        read, made = tensors_in((args, kwargs)), tensors_in(out)
        if not made or _is_view(function, read, made):
            return out
        flops = flops_of(function, args, kwargs, out)
        if flops is None and not self.allow_uncounted:
            self._check(function, read, made)
        read = [] if is_look_up(function) else list({id(tensor): tensor for tensor in read}.values())
        moved = sum(tensor.numel() * tensor.element_size() for tensor in (*read, *made))
        # Bytes of one number of the first tensor of floating-point numbers; 4 where there is none.
        size = next((tensor.element_size() for tensor in (*read, *made) if tensor.is_floating_point()), 4)
        name = self.operation.name if self.operation is not None else None
        self.kernels.append(Kernel(name, self.backward, Kernels(flops or 0.0, moved, 1, size)))
        return out

    def _check(self, function: Any, read: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        """Refuse a kernel that reads weights and has no formula: a layer must not seem to cost nothing."""
        names = [entry[0] for t in read if (entry := self._weights.get(t.untyped_storage()._cdata)) is not None]
        if names and not is_light(function):
            raise InputError(
                place_in_model(self.operation),
                f"has the operation {function}, which reads the parameter {names[0]} and whose floating-point "
                "operations are unknown",
                "register them with torch.utils.flop_counter.register_flop_formula, or give --allow-uncounted",
            )
        if names and len(names) == len(read) and not is_look_up(function):
            for tensor in made:  # a copy of weights in another type or place is weights, too
                self._know(names[0], tensor)


def _is_view(function: Any, read: list[torch.Tensor], made: list[torch.Tensor]) -> bool:
    """Does the kernel write nothing, and return only memory that it was given?"""
    schema = getattr(function, "_schema", None)
    if schema is not None and schema.is_mutable:
        return False
    storages_read = {tensor.untyped_storage()._cdata for tensor in read}
    return all(tensor.untyped_storage()._cdata in storages_read for tensor in made)


class _Step(fx.Interpreter):
    """Runs the graph operation by operation."""

    def __init__(self, captured: Captured, fakes: Fakes, *, fused: bool, allow_uncounted: bool) -> None:
        super().__init__(captured.graph)
        self.captured, self.fakes, self.fused = captured, fakes, fused
        self.watch = _Watch(captured, fakes, allow_uncounted)
        self.saved: dict[str, dict[int, float]] = {}
        self.gradients: set[str] = set()
        self._loss: torch.Tensor | None = None
        # Storages whose memory must not be used again, since `saved` knows them by their addresses.
        self._kept: list[Any] = []
        self._seen: set[Any] = set()
        tensors = [*captured.model.parameters(), *captured.model.buffers()]
        self._fixed = {fakes(tensor).untyped_storage()._cdata for tensor in tensors}

    def run_all(self) -> None:
        trained = (p for p in self.captured.model.parameters() if p.requires_grad and self.captured.training)
        # Gradients are there already, as after the first micro-batch: adding to them is part of a backward pass.
        with _gradients([self.fakes(parameter) for parameter in trained], torch.empty_like):
            self.run(*(self.fakes(value) for value in self.captured.inputs.values()))
            if self._loss is not None:
                self.watch.operation, self.watch.backward = None, True
                with self.watch:
                    self._loss.backward()

    def explained(self, error: Exception) -> InputError:
        """An error that names the operation that was running, with what torch says of it."""
        node = self.watch.operation
        what = f"the operation {node.target}" if node is not None else "the loss"
        return InputError(
            place_in_model(node),
            f"has {what}, whose {'backward' if self.watch.backward else 'forward'} pass fails on tensors without "
            f"values ({type(error).__name__}: {first_line(error)})",
            "register what it returns with torch.library.register_fake, or replace it",
        )

    # The methods below are those that `fx.Interpreter` calls.

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.fakes(attribute(self.captured.graph, target))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map(_on_cpu, (args, kwargs))
        if self.fused and target is torch.ops.aten.scaled_dot_product_attention.default:
            args, kwargs = _without_dropout(args, kwargs)
        return super().call_function(target, args, kwargs)

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        self.watch.operation = n
        with self._noting_saved(n), self.watch:
            out = super().run_node(n)
        for tensor in tensors_in(out):
            if tensor.requires_grad:
                self.gradients.add(n.name)
            if tensor.grad_fn is not None:
                self._mark(tensor.grad_fn, n)
        if n.name == self.captured.loss:
            self._loss = out
        return out

    @contextmanager
    def _noting_saved(self, node: fx.Node) -> Iterator[None]:
        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in self._fixed:
                self.saved.setdefault(node.name, {})[storage._cdata] = float(storage.nbytes())
                self._kept.append(storage)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield

    def _mark(self, made: Any, node: fx.Node) -> None:
        """Let kernels of the new parts of the backward graph count for this operation."""
        todo = [made]
        while todo:
            function = todo.pop()
            if function is None or function in self._seen or "AccumulateGrad" in type(function).__name__:
                continue
            self._seen.add(function)
            function.register_prehook(lambda _, node=node: setattr(self.watch, "operation", node))
            todo += [further for further, _ in function.next_functions]


def _on_cpu(value: Any) -> Any:
    """Tensors without memory are on the CPU, whatever device the graph names."""
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _without_dropout(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Fused kernels draw their dropout again in the backward pass, and keep nothing of it."""
    changed = dict(kwargs)
    if "dropout_p" in changed:
        changed["dropout_p"] = 0.0
    return (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args, changed


# ---- flops ------------------------------------------------------------
# Floating-point operations of one kernel, which kernels only look things up, and which need no formula.


def _grouped_product(first: Any, second: Any, *_: Any, **__: Any) -> int:
    """Two stacks are multiplied group by group; what is no stack is shared out among the groups."""
    groups = first.shape[0] if first.dim() == 3 and second.dim() == 3 else 1
    rows, inner, columns = first.shape[-2], first.shape[-1], second.shape[-1]
    return int(2 * groups * rows * inner * columns)


def _recurrent(inputs: Any, for_input: Any, for_state: Any, *_: Any, **__: Any) -> int:
    """Every step of every sample multiplies with both matrices."""
    steps = inputs.numel() // inputs.shape[-1]
    return int(2 * steps * (for_input.numel() + for_state.numel()))


# Operations that torch's own table lacks.
_OURS: Mapping[str, Callable[..., int]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": (
        lambda query, key, value, *_, **__: int(sdpa_flop_count(query.shape, key.shape, value.shape))
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (
        lambda gradient, query, key, value, *_, **__: int(
            sdpa_backward_flop_count(gradient.shape, query.shape, key.shape, value.shape)
        )
    ),
    "aten::_grouped_mm": _grouped_product,
    # A matrix and a vector, behind what they may be added to.
    "aten::mv": lambda *operands, **_: int(2 * operands[-2].numel()),
    "aten::addmv": lambda *operands, **_: int(2 * operands[-2].numel()),
    "aten::mkldnn_rnn_layer": _recurrent,
    "aten::mkldnn_rnn_layer_backward": lambda *args, **_: 2 * _recurrent(*args),
    # Mixtures of experts in transformers, where weights are not of bfloat16.
    "transformers::grouped_mm_fallback": _grouped_product,
    "transformers::grouped_mm_fallback_backward": lambda *args, **_: 2 * _grouped_product(*args),
}

# Operations that read no more of their tables than they return.
_LOOK_UPS = frozenset({"embedding", "index", "gather", "index_select", "take", "_unsafe_index"})

# Operations that move elements, or read and calculate a little for each.
_LIGHT = _LOOK_UPS.union(
    """
    cat clone copy_ _to_copy stack repeat constant_pad_nd roll flip contiguous tril triu index_put index_put_
    split_with_sizes_copy new_zeros masked_fill upsample_bicubic2d upsample_bilinear2d upsample_nearest2d bernoulli
    bernoulli_ native_dropout zeros_like ones_like empty_like full_like
    sum mean norm linalg_vector_norm amax amin max min var var_mean std prod _weight_norm_interface
    _weight_norm_interface_backward _softmax _log_softmax native_layer_norm native_group_norm any all
    native_batch_norm _native_batch_norm_legit cumsum
    """.split()  # noqa: SIM905
)


def flops_of(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> int | None:
    """Floating-point operations by formula; None where there is no formula."""
    formula = _OURS.get(_name(function))
    if formula is not None:
        return formula(*args, **kwargs)
    packet = getattr(function, "_overloadpacket", None)
    return int(flop_registry[packet](*args, **kwargs, out_val=out)) if packet in flop_registry else None


def _name(function: Any) -> str:
    """The kernel's name with its library: aten::embedding."""
    return str(getattr(getattr(function, "_schema", None), "name", function))


def is_look_up(function: Any) -> bool:
    """Does the kernel read no more of its tables than it returns?"""
    return _name(function).split("::")[-1] in _LOOK_UPS


def is_light(function: Any) -> bool:
    """May the kernel go uncounted? It calculates so little for each element that its bytes decide its time."""
    library, _, name = _name(function).rpartition("::")
    is_pointwise = torch.Tag.pointwise in getattr(function, "tags", ())
    return library in ("aten", "prims") and (name in _LIGHT or is_pointwise)
