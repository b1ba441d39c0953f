"""Why a model cannot be captured, in one sentence with its module and line."""

from __future__ import annotations

import os
import sysconfig
from types import FrameType
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves

from ..instances.base.errors import InputError

# Folders of code that the user did not write.
_TORCH = torch.__path__[0]
_OURS = os.path.dirname(__file__)
_PYTHON = sysconfig.get_paths()["stdlib"]


def explained(error: Exception, model: torch.nn.Module) -> InputError:
    """The exception of `torch.export` as an error that says what to change in the model, and where."""
    place = _place(error, model)
    text = str(error)
    if isinstance(error, GuardOnDataDependentSymNode) or "data-dependent" in text:
        problem = "branches on or takes sizes from the values of tensors"
        return InputError(place, problem, "make it static, or replace that part by a module that is")
    if ".numpy()" in text:
        return InputError(place, "leaves torch with .numpy()", "write this part with torch's own operations")
    return InputError(
        place,
        f"cannot be captured by torch.export ({type(error).__name__}: {_first_line(text)})",
        "change this part, or wrap the model in one without it",
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")[:200].rstrip(".")


def _place(error: Exception, model: torch.nn.Module) -> str:
    """The innermost line of the user's code that led there, and its module."""
    frames: list[tuple[FrameType, int]] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    names = {id(module): name for name, module in model.named_modules()}
    owners = (names.get(id(frame.f_locals.get("self"))) for frame, _ in reversed(frames))
    owner = next((name for name in owners if name is not None), None)
    lines = ((frame.f_code.co_filename, line) for frame, line in reversed(frames))
    innermost = next(((path, line) for path, line in lines if _is_users(path)), None)
    if owner is None or innermost is None:
        return "the model"
    return f"{_module(owner)}, {_short(innermost[0])} line {innermost[1]},"


def _is_users(path: str) -> bool:
    """Is the file the user's: neither torch's nor Python's nor ours?"""
    ours = path.startswith((_TORCH, _OURS))
    return not ours and ("site-packages" in path or not path.startswith(_PYTHON)) and not path.startswith("<")


def _module(name: str) -> str:
    return f"module {name}" if name else "the model"


def _short(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def refuse_unknown_sizes(graph: fx.GraphModule) -> None:
    """Refuse a graph in which a number or a size depends on the values of a tensor."""
    for node in graph.graph.nodes:
        value = node.meta.get("val")
        if any(_is_unknown(leaf) for leaf in tree_leaves(value)):
            path = list((node.meta.get("nn_module_stack") or {}).values())
            raise InputError(
                f"{_module(str(path[-1][0]) if path else '')}{_line_of(node)}",
                f"takes a number or a size from the values of a tensor ({node.target})",
                "use operations whose results have fixed sizes, such as torch.where or a mask",
            )


def _is_unknown(leaf: Any) -> bool:
    symbolic = (torch.SymInt, torch.SymFloat, torch.SymBool)
    sizes = leaf.shape if isinstance(leaf, torch.Tensor) else ()
    return isinstance(leaf, symbolic) or any(isinstance(size, torch.SymInt) for size in sizes)


def _line_of(node: fx.Node) -> str:
    lines = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines()]
    places = [line for line in lines if line.startswith("File ") and _TORCH not in line]
    if not places:
        return ""
    path, _, rest = places[-1].removeprefix('File "').partition('", line ')
    return f", {_short(path)} line {rest.split(',')[0]},"
