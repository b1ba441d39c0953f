"""Floating-point operations of one kernel, which kernels only look things up, and which need no formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))


def _attention_backward(gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_backward_flop_count(gradient.shape, query.shape, key.shape, value.shape))


def _grouped_product(first: Any, second: Any, *_: Any, **__: Any) -> int:
    """Two stacks are multiplied group by group; what is no stack is shared out among the groups."""
    groups = first.shape[0] if first.dim() == 3 and second.dim() == 3 else 1
    rows, inner, columns = first.shape[-2], first.shape[-1], second.shape[-1]
    return int(2 * groups * rows * inner * columns)


def _grouped_product_backward(first: Any, second: Any, *_: Any, **__: Any) -> int:
    return 2 * _grouped_product(first, second)


def _matrix_vector(matrix: Any, _vector: Any, **__: Any) -> int:
    return int(2 * matrix.numel())


def _added_matrix_vector(_start: Any, matrix: Any, _vector: Any, **__: Any) -> int:
    return int(2 * matrix.numel())


def _recurrent(inputs: Any, for_input: Any, for_state: Any, *_: Any, **__: Any) -> int:
    """Every step of every sample multiplies with both matrices."""
    steps = inputs.numel() // inputs.shape[-1]
    return int(2 * steps * (for_input.numel() + for_state.numel()))


def _recurrent_backward(*args: Any, **__: Any) -> int:
    return 2 * _recurrent(*args)


# Operations that torch's own table lacks.
_OURS: Mapping[str, Callable[..., int]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten::_grouped_mm": _grouped_product,
    "aten::mv": _matrix_vector,
    "aten::addmv": _added_matrix_vector,
    "aten::mkldnn_rnn_layer": _recurrent,
    "aten::mkldnn_rnn_layer_backward": _recurrent_backward,
    # Mixtures of experts in transformers, where weights are not of bfloat16.
    "transformers::grouped_mm_fallback": _grouped_product,
    "transformers::grouped_mm_fallback_backward": _grouped_product_backward,
}

# Operations that read no more of their tables than they return.
_LOOK_UPS = frozenset({"embedding", "index", "gather", "index_select", "take", "_unsafe_index"})

# Operations that move elements and calculate little for each.
_COPIES = frozenset(
    {
        "cat",
        "clone",
        "copy_",
        "_to_copy",
        "stack",
        "repeat",
        "constant_pad_nd",
        "roll",
        "flip",
        "contiguous",
        "tril",
    }
    | {"triu", "index_put", "index_put_", "split_with_sizes_copy", "new_zeros", "masked_fill", "upsample_bicubic2d"}
    | {
        "upsample_bilinear2d",
        "upsample_nearest2d",
        "bernoulli",
        "bernoulli_",
        "native_dropout",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
    }
)

# Operations that calculate a little for each element that they read.
_REDUCTIONS = frozenset(
    {"sum", "mean", "norm", "linalg_vector_norm", "amax", "amin", "max", "min", "var", "var_mean", "std", "prod"}
    | {
        "_weight_norm_interface",
        "_weight_norm_interface_backward",
        "_softmax",
        "_log_softmax",
        "native_layer_norm",
        "native_group_norm",
        "any",
        "all",
    }
    | {"native_batch_norm", "_native_batch_norm_legit", "cumsum"}
)


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
    is_listed = name in _LOOK_UPS | _COPIES | _REDUCTIONS
    return from_torch and (is_listed or torch.Tag.pointwise in getattr(function, "tags", ()))
