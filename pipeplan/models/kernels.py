"""Every kernel of one training step, seen on tensors without memory: its operations, its bytes, and whose it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from ..instances.base.errors import InputError, show
from .capture import Captured, Fakes, attribute, place_in_model, tensors_in

ATTENTIONS = ("fused", "math")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One call of one kernel."""

    operation: str | None
    """Name of the operation of the graph that the kernel belongs to; None: it belongs to none."""
    backward: bool
    name: str
    flops: float
    moved_bytes: float
    """Bytes that the kernel reads and writes."""
    element_bytes: int


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
                flops_of[kernel.operation] = flops_of.get(kernel.operation, 0.0) + kernel.flops
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

    def __init__(self, guard: _Guard) -> None:
        super().__init__()
        self.guard = guard
        self.operation: fx.Node | None = None
        self.backward = False
        self.kernels: list[Kernel] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        read, made = tensors_in((args, kwargs)), tensors_in(out)
        if not made or _is_view(function, read, made):
            return out
        flops = flops_of(function, args, kwargs, out)
        self.guard.check(self.operation, function, read, made, flops)
        read = [] if is_look_up(function) else list({id(tensor): tensor for tensor in read}.values())
        moved = sum(tensor.numel() * tensor.element_size() for tensor in (*read, *made))
        # Bytes of one number of the first tensor of floating-point numbers; 4 where there is none.
        size = next((tensor.element_size() for tensor in (*read, *made) if tensor.is_floating_point()), 4)
        name = self.operation.name if self.operation is not None else None
        self.kernels.append(Kernel(name, self.backward, str(function), flops or 0.0, moved, size))
        return out


def _is_view(function: Any, read: list[torch.Tensor], made: list[torch.Tensor]) -> bool:
    """Does the kernel write nothing, and return only memory that it was given?"""
    schema = getattr(function, "_schema", None)
    if schema is not None and schema.is_mutable:
        return False
    storages_read = {tensor.untyped_storage()._cdata for tensor in read}
    return all(tensor.untyped_storage()._cdata in storages_read for tensor in made)


class _Guard:
    """Refuses kernels that read weights and have no formula: a layer must not seem to cost nothing."""

    def __init__(self, captured: Captured, fakes: Fakes, allow: bool) -> None:
        self.allow = allow
        # By memory the parameter's name, and the tensor, which is kept so that its memory is not used again.
        self.weights: dict[int, tuple[str, torch.Tensor]] = {}
        for name, parameter in captured.model.named_parameters():
            if parameter.dim() >= 2:
                self._know(name, fakes(parameter))

    def _know(self, name: str, tensor: torch.Tensor) -> None:
        self.weights[tensor.untyped_storage()._cdata] = (name, tensor)

    def check(
        self,
        operation: fx.Node | None,
        function: Any,
        read: list[torch.Tensor],
        made: list[torch.Tensor],
        flops: int | None,
    ) -> None:
        if flops is not None or self.allow:
            return
        names = [entry[0] for t in read if (entry := self.weights.get(t.untyped_storage()._cdata)) is not None]
        if not names:
            return
        if not is_light(function):
            raise InputError(
                place_in_model(operation),
                f"has the operation {function}, which reads the parameter {names[0]} and whose floating-point "
                "operations are unknown",
                "register them with torch.utils.flop_counter.register_flop_formula, or give --allow-uncounted",
            )
        if len(names) == len(read) and not is_look_up(function):
            for tensor in made:  # a copy of weights in another type or place is weights, too
                self._know(names[0], tensor)


class _Step(fx.Interpreter):
    """Runs the graph operation by operation."""

    def __init__(self, captured: Captured, fakes: Fakes, *, fused: bool, allow_uncounted: bool) -> None:
        super().__init__(captured.graph)
        self.captured, self.fakes, self.fused = captured, fakes, fused
        self.watch = _Watch(_Guard(captured, fakes, allow_uncounted))
        self.saved: dict[str, dict[int, float]] = {}
        self.gradients: set[str] = set()
        self._loss: torch.Tensor | None = None
        # Storages whose memory must not be used again, since `saved` knows them by their addresses.
        self._kept: list[Any] = []
        self._seen: set[Any] = set()
        tensors = [*captured.model.parameters(), *captured.model.buffers()]
        self._fixed = {fakes(tensor).untyped_storage()._cdata for tensor in tensors}

    def run_all(self) -> None:
        with _gradients_held(self.captured, self.fakes):
            self.run(*(self.fakes(value) for value in self.captured.inputs.values()))
            if self._loss is not None:
                self.watch.operation, self.watch.backward = None, True
                with self.watch:
                    self._loss.backward()

    def explained(self, error: Exception) -> InputError:
        """An error that names the operation that was running, with what torch says of it."""
        node = self.watch.operation
        text = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")[:200]
        what = f"the operation {node.target}" if node is not None else "the loss"
        return InputError(
            place_in_model(node),
            f"has {what}, whose {'backward' if self.watch.backward else 'forward'} pass fails on tensors without "
            f"values ({type(error).__name__}: {text.rstrip('.')})",
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


@contextmanager
def _gradients_held(captured: Captured, fakes: Fakes) -> Iterator[None]:
    """Gradients are there already, as after the first micro-batch: adding to them is part of a backward pass."""
    parameters = [fakes(parameter) for parameter in captured.model.parameters() if parameter.requires_grad]
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters if captured.training else ():
        parameter.grad = torch.empty_like(parameter)
    try:
        yield
    finally:
        for parameter, gradient in zip(parameters, before, strict=True):
            parameter.grad = gradient


# ---- flops ------------------------------------------------------------
# Floating-point operations of one kernel, which kernels only look things up, and which need no formula.


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))


def _attention_backward(gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_backward_flop_count(gradient.shape, query.shape, key.shape, value.shape))


def _grouped_product(first: Any, second: Any, *_: Any, **__: Any) -> int:
    """Two stacks are multiplied group by group; what is no stack is shared out among the groups."""
    groups = first.shape[0] if first.dim() == 3 and second.dim() == 3 else 1
    rows, inner, columns = first.shape[-2], first.shape[-1], second.shape[-1]
    return int(2 * groups * rows * inner * columns)


def _matrix_vector(*operands: Any, **__: Any) -> int:
    """A matrix and a vector, behind what they may be added to."""
    return int(2 * operands[-2].numel())


def _recurrent(inputs: Any, for_input: Any, for_state: Any, *_: Any, **__: Any) -> int:
    """Every step of every sample multiplies with both matrices."""
    steps = inputs.numel() // inputs.shape[-1]
    return int(2 * steps * (for_input.numel() + for_state.numel()))


# Operations that torch's own table lacks.
_OURS: Mapping[str, Callable[..., int]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten::_grouped_mm": _grouped_product,
    "aten::mv": _matrix_vector,
    "aten::addmv": _matrix_vector,
    "aten::mkldnn_rnn_layer": _recurrent,
    "aten::mkldnn_rnn_layer_backward": lambda *args, **_: 2 * _recurrent(*args),
    # Mixtures of experts in transformers, where weights are not of bfloat16.
    "transformers::grouped_mm_fallback": _grouped_product,
    "transformers::grouped_mm_fallback_backward": lambda *args, **_: 2 * _grouped_product(*args),
}

# Operations that read no more of their tables than they return.
_LOOK_UPS = frozenset({"embedding", "index", "gather", "index_select", "take", "_unsafe_index"})

# Operations that move elements, or read and calculate a little for each.
_MOVERS = """
    cat clone copy_ _to_copy stack repeat constant_pad_nd roll flip contiguous tril triu index_put index_put_
    split_with_sizes_copy new_zeros masked_fill upsample_bicubic2d upsample_bilinear2d upsample_nearest2d bernoulli
    bernoulli_ native_dropout zeros_like ones_like empty_like full_like
    sum mean norm linalg_vector_norm amax amin max min var var_mean std prod _weight_norm_interface
    _weight_norm_interface_backward _softmax _log_softmax native_layer_norm native_group_norm any all
    native_batch_norm _native_batch_norm_legit cumsum
"""
_LIGHT = _LOOK_UPS.union(_MOVERS.split())


def flops_of(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> int | None:
    """Floating-point operations by formula; None where there is no formula."""
    name = getattr(getattr(function, "_schema", None), "name", "")
    if name in _OURS:
        return _OURS[name](*args, **kwargs)
    packet = getattr(function, "_overloadpacket", None)
    if packet in flop_registry:
        return int(flop_registry[packet](*args, **kwargs, out_val=out))
    return None


def short_name(function: Any) -> str:
    """The kernel's name without its library: embedding."""
    schema = getattr(function, "_schema", None)
    return str(schema.name.split("::")[-1] if schema is not None else function)


def is_look_up(function: Any) -> bool:
    """Does the kernel read no more of its tables than it returns?"""
    return short_name(function) in _LOOK_UPS


def is_light(function: Any) -> bool:
    """May the kernel go uncounted? It calculates so little for each element that its bytes decide its time."""
    name = short_name(function)
    from_torch = getattr(getattr(function, "_schema", None), "name", "").startswith(("aten::", "prims::"))
    return from_torch and (name in _LIGHT or torch.Tag.pointwise in getattr(function, "tags", ()))
