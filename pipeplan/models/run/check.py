"""One process runs what all ranks ran, with the model as it was written: loss and every gradient must be the same.

Dropout is off on both sides, because the ranks draw other random numbers; everything else is as in the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import fx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from ...instances.base.errors import UsageError
from ..capture import Build, module_path
from ..grouping import is_random


def varied(inputs: Any, number: int) -> Any:
    """Micro-batch `number`, from 0, made by rolling the tensors in the inputs; number 0 is the inputs themselves."""
    return tree_map(lambda value: _rolled(value, number) if isinstance(value, torch.Tensor) else value, inputs)


def _rolled(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """The tensor rolled along its first dimension, and along the next ones once that has come round."""
    for dimension, size in enumerate(tensor.shape):
        if size > 1 and number:
            tensor = tensor.roll(number % size, dimension)
            number //= size
    return tensor


# The place of the probability among the arguments of functions that drop values.
PROBABILITY = {
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), 1),
    **dict.fromkeys(("feature_dropout", "alpha_dropout", "feature_alpha_dropout"), 1),
    "scaled_dot_product_attention": 4,
    "multi_head_attention_forward": 10,
}


def _place(target: Any) -> int | None:
    """Place of the probability among the arguments of an operation or a function of torch; None: it drops nothing."""
    packet = getattr(target, "overloadpacket", target)
    return PROBABILITY.get(str(getattr(packet, "__name__", packet)).rstrip("_"))


def _undropped(place: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with probability 0; where none is given, it is 0 or the function is told not to train."""
    kwargs = {key: 0.0 if key in ("p", "dropout_p") else value for key, value in kwargs.items()}
    return (*args[:place], *([0.0] if len(args) > place else []), *args[place + 1 :]), kwargs


# ---- without dropout -----------------------------------------------------------------------------------


@contextmanager
def without_dropout(graphs: Sequence[fx.GraphModule]) -> Iterator[None]:
    """The graphs with probability 0 inside the block; graphs that draw other random numbers are refused."""
    before: list[tuple[fx.Node, tuple[Any, ...], dict[str, Any]]] = []
    for graph in graphs:
        for node in graph.graph.nodes:
            place = _place(node.target) if node.op == "call_function" else None
            if place is not None:
                before.append((node, node.args, dict(node.kwargs)))
                node.args, node.kwargs = _undropped(place, node.args, dict(node.kwargs))
            elif node.op == "call_function" and is_random(node):
                raise UsageError(
                    f"The model draws random numbers ({node.target} in {module_path(node) or 'the model'}), of which "
                    "ranks and one process get others; drop --check."
                )
        graph.recompile()
    try:
        yield
    finally:
        for node, args, kwargs in before:
            node.args, node.kwargs = args, kwargs
        for graph in graphs:
            graph.recompile()


class _NoDropout(TorchFunctionMode):
    """Sets probabilities to 0 for a model that runs as it was written."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, place = dict(kwargs or {}), _place(func)
        if place is not None:
            args, kwargs = _undropped(place, args, kwargs)
        return func(*args, **kwargs)


# ---- one process ---------------------------------------------------------------------------------------


def reference(build: Build, seed: int, micro_batches: int, summed: bool) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients, by every name of a parameter; `summed`: the loss is the sum of the first output."""
    torch.manual_seed(seed)
    model, args, kwargs = build()
    model.train()
    total = 0.0
    for number in range(micro_batches):
        own_args, own_kwargs = varied((tuple(args), dict(kwargs)), number)
        with _NoDropout():
            loss = _loss(model(*own_args, **own_kwargs), summed)
        (loss / micro_batches).backward()
        total += float(loss.detach()) / micro_batches
    named = model.named_parameters(remove_duplicate=False)
    return total, {name: p.grad for name, p in named if p.grad is not None}


def _loss(output: Any, summed: bool) -> torch.Tensor:
    leaves = torch.utils._pytree.tree_leaves(output)
    candidates = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if summed:
        return candidates[0].sum()
    return next(leaf for leaf in candidates if leaf.numel() == 1).reshape(())


def largest_difference(
    parameters: Mapping[str, torch.nn.Parameter], expected: Mapping[str, torch.Tensor] | None, group: Any
) -> tuple[float | None, float, int]:
    """The largest difference between the gradients on this rank and those of rank 0, the largest finite gradient of
    all, and the number of gradients on this rank. None: one of them is not finite, so they cannot be compared.

    `expected` is known on rank 0, which sends one after the other. Gradients that are small as a whole, such as
    those of biases that a softmax cancels, are noise: only the largest of all is a measure.
    """
    message: list[Any] = [None]
    if expected is not None:
        largest = max(filter(math.isfinite, (float(g.abs().max()) for g in expected.values())), default=0.0)
        message = [(largest, [(name, tuple(g.shape), g.dtype) for name, g in expected.items()])]
    dist.broadcast_object_list(message, src=0, group=group)
    largest, entries = message[0]
    differences = []
    for name, shape, dtype in entries:
        gradient = expected[name].contiguous() if expected is not None else torch.empty(shape, dtype=dtype)
        dist.broadcast(gradient, src=0, group=group)
        if name in parameters:
            own_gradient = parameters[name].grad
            difference = gradient if own_gradient is None else own_gradient.cpu() - gradient
            differences.append(float(difference.abs().max()))
    finite = all(map(math.isfinite, differences))
    return max(differences, default=0.0) if finite else None, largest, len(differences)
