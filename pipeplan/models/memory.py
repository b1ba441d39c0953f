"""Which memory the operations of a graph write: in place, and inside the parts of it that run without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves


def attribute(module: torch.nn.Module, target: str) -> Any:
    """The object that a dotted name of a graph stands for."""
    value: Any = module
    for name in target.split("."):
        value = getattr(value, name)
    return value


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def storages(node: fx.Node) -> set[int]:
    """The memory that a value lies in; views of one tensor share it."""
    return {tensor.untyped_storage()._cdata for tensor in tensors_in(node.meta.get("val"))}


def written(node: fx.Node) -> list[fx.Node]:
    """The arguments that the operation changes in place."""
    return [*_by_schema(node), *_inside(node)]


def _by_schema(node: fx.Node) -> list[fx.Node]:
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.is_mutable:
        return []
    by_name = {entry.name: node.kwargs.get(entry.name) for entry in schema.arguments}
    by_name |= {entry.name: value for entry, value in zip(schema.arguments, node.args, strict=False)}
    changed = [by_name[e.name] for e in schema.arguments if e.alias_info is not None and e.alias_info.is_write]
    return [value for value in tree_leaves(changed) if isinstance(value, fx.Node)]


def _inside(node: fx.Node) -> Iterator[fx.Node]:
    """The arguments that the graph inside an operation changes; code under no_grad is such a graph."""
    arguments = list(node.args) if node.op == "call_function" else []
    for i, argument in enumerate(arguments):
        if not isinstance(argument, fx.Node) or argument.op != "get_attr":
            continue
        inner = attribute(node.graph.owning_module, str(argument.target))
        if isinstance(inner, fx.GraphModule):
            changed = {s for part in inner.graph.nodes for target in written(part) for s in storages(target)}
            entries = [part for part in inner.graph.nodes if part.op == "placeholder"]
            for entry, value in zip(entries, arguments[i + 1 :], strict=False):
                if storages(entry) & changed and isinstance(value, fx.Node):
                    yield value
