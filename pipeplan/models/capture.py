"""A PyTorch model and one micro-batch as a graph of operations, by `torch.export`.

The graph is the one that trains: operations can be differentiated, dropout and writes in place are as written. It takes
the leaves of the arguments, in order, and returns a flat tuple.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, field
from operator import attrgetter
from traceback import walk_tb
from typing import Any

import torch
import torch.utils.checkpoint as checkpointing
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves, tree_map

from ..instances.base.errors import InputError, show

# A function without arguments. It returns the model, and the positional and keyword arguments of one micro-batch.
Build = Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]

# How the loss is chosen. None: the first scalar output that can be differentiated. "sum": the sum of the first output.
LOSSES = (None, "sum")

_NO_LOSS = "give --loss sum, or wrap the model in one that returns its loss"


@dataclass(frozen=True)
class Captured:
    """A model as a graph, with the micro-batch that it was captured for."""

    graph: fx.GraphModule
    model: torch.nn.Module
    inputs: Mapping[str, Any]
    """The arguments of one micro-batch by the names of the graph's placeholders, in their order."""
    training: bool
    loss: str | None
    """The name of the loss in the graph; None where nothing is trained."""
    warnings: tuple[str, ...] = ()
    sha256: str = ""
    """Hash of the graph's text with all sizes. Profiles keep it, since a plan runs only on the same graph."""
    mode: FakeTensorMode | None = field(default=None, repr=False)
    """Mode of a model without values, whose tensors have sizes and no memory; None where values are there."""

    @property
    def operations(self) -> tuple[fx.Node, ...]:
        return tuple(node for node in self.graph.graph.nodes if node.op == "call_function")


def capture(build: Build, *, training: bool = True, fake: bool = False, loss: str | None = None) -> Captured:
    """The graph of what `build` returns; `fake` builds the model without memory for its weights."""
    if loss not in LOSSES:
        raise InputError("--loss", f"is {show(loss)}", "give sum, or leave it out")
    mode = FakeTensorMode(allow_non_fake_inputs=True) if fake else None
    model, args, kwargs = built(build, mode)
    model.train(training)
    with _quiet(), _noting_what_is_lost() as notes, mode or nullcontext():
        try:
            exported = torch.export.export(model, args, kwargs, strict=False).module(check_guards=False)
        except Exception as error:
            raise explained(error, model) from error
        graph = _plain(exported)
    refuse_unknown_sizes(graph)
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    named = dict(zip(names, tree_leaves((args, kwargs)), strict=True))
    loss_name = _loss_of(graph, loss) if training else None
    graph.recompile()
    digest = hashlib.sha256("\n".join(_lines(graph)).encode()).hexdigest()
    return Captured(graph, model, named, training, loss_name, tuple(dict.fromkeys(notes)), digest, mode)


# ---- the user's function -------------------------------------------------------------------------------


def built(build: Build, mode: FakeTensorMode | None) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """What the function returns, checked; under a mode of fake tensors all its tensors are fake."""
    if mode is None:
        return _checked(_called(build), build)
    try:
        with mode, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
            made = build()
    except Exception:
        # Some constructors look at values (truncated normals draw until all fit), which fake tensors do not have.
        # Operations on meta tensors do not look at values, and a mistake in the function itself is raised again.
        with torch.device("meta"):
            made = _called(build)
    model, args, kwargs = _checked(made, build)
    as_fake = Fakes(mode)
    as_fake.change(model)
    return model, *tree_map(as_fake, (args, kwargs))


def _called(build: Build) -> Any:
    try:
        return build()
    except InputError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(_name_of(build), f"raised {type(error).__name__}: {text}", f"let it {_RETURN}") from error


_RETURN = "return (model, args, kwargs)"


def _name_of(build: Build) -> str:
    return str(getattr(build, "__name__", "build"))


def _type(value: object) -> str:
    return "a tensor" if isinstance(value, torch.Tensor) else f"an object of type {type(value).__name__}"


def _checked(made: Any, build: Build) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    function = _name_of(build)
    if not isinstance(made, (tuple, list)) or len(made) != 3:
        what = f"{len(made)} values" if isinstance(made, (tuple, list)) else _type(made)
        raise InputError(function, f"returns {what}", f"let it {_RETURN}")
    model, args, kwargs = made
    for value, kind, name in ((model, torch.nn.Module, "a torch.nn.Module"), (kwargs, Mapping, "a dict")):
        if not isinstance(value, kind):
            raise InputError(function, f"returns {_type(value)}, not {name}", _RETURN)
    if not isinstance(args, (tuple, list)):
        raise InputError(function, f"returns {_type(args)} as args", "return a tuple of them")
    return model, tuple(args), dict(kwargs)


class Fakes:
    """Makes tensors of the same sizes without memory, on the CPU; one for each, so that tied parameters stay tied."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        # By the id of the original; the original is kept as well, since a freed tensor's id is given to another.
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if getattr(value, "fake_mode", None) is self.mode and value.device.type == "cpu":
            return value
        if id(value) not in self._made:
            self._made[id(value)] = (value, self._like(value))
        return self._made[id(value)][1]

    def _like(self, value: torch.Tensor) -> torch.Tensor:
        with self.mode:
            made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cpu")
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(made, requires_grad=value.requires_grad)
        return made.requires_grad_(value.requires_grad) if value.is_leaf else made

    def change(self, model: torch.nn.Module) -> None:
        """Replace every tensor that the model's modules hold."""
        for module in model.modules():
            for table in (module._parameters, module._buffers, vars(module)):
                for name, value in list(table.items()):
                    if isinstance(value, torch.Tensor):
                        table[name] = self(value)


# ---- the graph -----------------------------------------------------------------------------------------


def _plain(module: fx.GraphModule) -> fx.GraphModule:
    """The graph without checks of metadata and values that nobody reads, and with flat inputs and outputs."""
    graph = module.graph
    for node in list(graph.nodes):
        if "_assert_tensor_metadata" in str(node.target) or node.target == "_guards_fn":
            graph.erase_node(node)
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or bool(written(node)))
    graph.set_codegen(fx.graph.CodeGen())
    return fx.GraphModule(module, graph)


def outputs_of(graph: fx.GraphModule) -> list[fx.Node]:
    """The values that the graph returns, without constants."""
    return [value for value in tree_leaves(graph.graph.output_node().args) if isinstance(value, fx.Node)]


def _loss_of(graph: fx.GraphModule, loss: str | None) -> str:
    """The name of the loss in the graph, to which the loss "sum" is added."""
    trained = _trained(graph)
    tensors = [value for value in outputs_of(graph) if isinstance(value.meta.get("val"), torch.Tensor)]
    floats = [value for value in tensors if value in trained and value.meta["val"].is_floating_point()]
    if not floats:
        raise InputError("the model", "returns nothing that can be differentiated", _NO_LOSS)
    if loss == "sum":
        return _summed(graph, floats[0])
    scalar = next((value for value in floats if value.meta["val"].numel() == 1), None)
    if scalar is None:
        raise InputError("the model", "returns no scalar that could be the loss", _NO_LOSS)
    return str(scalar.name)


def _trained(graph: fx.GraphModule) -> set[fx.Node]:
    """The values from which a gradient can flow back to a parameter."""
    trained: set[fx.Node] = set()
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = attribute(graph, node.target)
            follows = isinstance(value, torch.nn.Parameter) and value.requires_grad
        else:
            follows = any(source in trained for source in node.all_input_nodes) and not (
                node.target in (torch.ops.aten.detach.default, torch.ops.aten.detach_.default)
                or ("wrap_with_set_grad_enabled" in str(node.target) and node.args[0] is False)
            )
        if follows:
            trained.add(node)
    return trained


def _summed(graph: fx.GraphModule, value: fx.Node) -> str:
    output = graph.graph.output_node()
    with graph.graph.inserting_before(output):
        total = graph.graph.call_function(torch.ops.aten.sum.default, (value,))
    fake = value.meta["val"]
    total.meta["val"] = fake.new_empty((), dtype=fake.dtype)
    output.args = ((total, *output.args[0]),)
    return str(total.name)


def place_in_model(node: fx.Node | None) -> str:
    """The module of an operation as an error names it."""
    return _module(module_path(node)) if node is not None else "the model"


def module_path(node: fx.Node) -> str:
    """The module whose code the operation is, such as `h.0.attn`; in the second call of `h` it is `h@1.0.attn`."""
    path, plain, call = "", "", ""
    for key, (name, _) in (node.meta.get("nn_module_stack") or {}).items():
        number = str(key).partition("@")[2]
        if plain and not name.startswith(plain + "."):  # not inside the module before: the path starts anew
            path, plain, call = "", "", ""
        path += name[len(plain) :] + (f"@{number}" if number and number != call else "")
        plain, call = name, number or call
    return path


def _lines(graph: fx.GraphModule) -> Iterator[str]:
    for node in graph.graph.nodes:
        target = node.target if isinstance(node.target, str) else torch.typename(node.target)
        target = str(node.target) if isinstance(node.target, torch._ops.OpOverload) else target
        made = [(list(t.shape), str(t.dtype)) for t in tensors_in(node.meta.get("val"))]
        yield f"{node.op} {node.name} {target} {node.args} {node.kwargs} {made}"
        inner = attribute(graph, node.target) if node.op == "get_attr" else None
        if isinstance(inner, fx.GraphModule):
            yield from _lines(inner)


# ---- what the export changes without a word ------------------------------------------------------------


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides warnings and logs. What goes to stderr is shown at the end, or dropped for our own sentence on an error."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    said = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stderr(said):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
    sys.stderr.write(said.getvalue())


@contextmanager
def _noting_what_is_lost() -> Iterator[list[str]]:
    """Collects sentences on checkpoints, which the graph lacks, and on backward passes that were written by hand."""
    said: list[str] = []
    apply = torch.autograd.Function.__dict__["apply"]
    generator = checkpointing._checkpoint_without_reentrant_generator

    def noted_apply(cls: type, *args: Any, **kwargs: Any) -> Any:
        if cls is checkpointing.CheckpointFunction:  # its forward pass keeps gradients out of the graph
            raise InputError("the model", "calls torch.utils.checkpoint with use_reentrant=True", _NOT_REENTRANT)
        if not cls.__module__.startswith("torch."):  # operations that torch wraps keep their backward passes
            said.append(
                f"the backward pass of {cls.__qualname__} (torch.autograd.Function) is replaced by the derivative of "
                "its forward pass"
            )
        return apply.__get__(None, cls)(*args, **kwargs)

    def noted_generator(*args: Any, **kwargs: Any) -> Any:
        said.append(_CHECKPOINT)
        return generator(*args, **kwargs)

    torch.autograd.Function.apply = classmethod(noted_apply)
    checkpointing._checkpoint_without_reentrant_generator = noted_generator
    try:
        yield said
    finally:
        torch.autograd.Function.apply = apply
        checkpointing._checkpoint_without_reentrant_generator = generator


_CHECKPOINT = (
    "the model uses torch.utils.checkpoint, which the graph does not: its activations count as kept; "
    "--recompute plans with recomputation"
)
_NOT_REENTRANT = "call it with use_reentrant=False, which the export sees through"


# ---- export errors ------------------------------------------------------------
# Why a model cannot be captured, in one sentence with its module and line.


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
        f"cannot be captured by torch.export ({type(error).__name__}: {first_line(error)})",
        "change this part, or wrap the model in one without it",
    )


def first_line(error: Exception) -> str:
    """The beginning of what an exception says, to be quoted in a sentence of ours."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), "no message")[:200].rstrip(".")


def _place(error: Exception, model: torch.nn.Module) -> str:
    """The innermost line of the user's code that led there, and its module."""
    frames = list(walk_tb(error.__traceback__))[::-1]
    names = {id(module): name for name, module in model.named_modules()}
    owners = (names.get(id(frame.f_locals.get("self"))) for frame, _ in frames)
    owner = next((name for name in owners if name is not None), None)
    innermost = next(((f.f_code.co_filename, line) for f, line in frames if _is_users(f.f_code.co_filename)), None)
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
    unknown = (torch.SymInt, torch.SymFloat, torch.SymBool)
    for node in graph.graph.nodes:
        leaves = tree_leaves(node.meta.get("val"))
        sizes = (size for leaf in leaves if isinstance(leaf, torch.Tensor) for size in leaf.shape)
        if any(isinstance(leaf, unknown) for leaf in (*leaves, *sizes)):
            path = list((node.meta.get("nn_module_stack") or {}).values())
            raise InputError(
                f"{_module(str(path[-1][0]) if path else '')}{_line_of(node)}",
                f"takes a number or a size from the values of a tensor ({node.target})",
                "use operations whose results have fixed sizes, such as torch.where or a mask",
            )


def _line_of(node: fx.Node) -> str:
    lines = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines()]
    places = [line for line in lines if line.startswith("File ") and _TORCH not in line]
    if not places:
        return ""
    path, _, rest = places[-1].removeprefix('File "').partition('", line ')
    return f", {_short(path)} line {rest.split(',')[0]},"


# ---- memory ------------------------------------------------------------
# Which memory the operations of a graph write: in place, and inside the parts of it that run without gradients.


def attribute(module: torch.nn.Module, target: str) -> Any:
    """The object that a dotted name of a graph stands for."""
    return attrgetter(target)(module)


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def storages(node: fx.Node) -> set[int]:
    """The memory that a value lies in; views of one tensor share it."""
    return {tensor.untyped_storage()._cdata for tensor in tensors_in(node.meta.get("val"))}


def written(node: fx.Node) -> list[fx.Node]:
    """The arguments that the operation changes in place."""
    return [*_by_schema(node), *_inside(node)] if node.op == "call_function" else []


def _by_schema(node: fx.Node) -> list[fx.Node]:
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    by_name = {entry.name: node.kwargs.get(entry.name) for entry in schema.arguments}
    by_name |= {entry.name: value for entry, value in zip(schema.arguments, node.args, strict=False)}
    changed = [by_name[e.name] for e in schema.arguments if e.alias_info is not None and e.alias_info.is_write]
    return [value for value in tree_leaves(changed) if isinstance(value, fx.Node)]


def _inside(node: fx.Node) -> Iterator[fx.Node]:
    """The arguments that the graph inside an operation changes; code under no_grad is such a graph."""
    for i, argument in enumerate(node.args):
        has_inner = isinstance(argument, fx.Node) and argument.op == "get_attr"
        inner = attribute(node.graph.owning_module, str(argument.target)) if has_inner else None
        if isinstance(inner, fx.GraphModule):
            changed = {s for part in inner.graph.nodes for target in written(part) for s in storages(target)}
            entries = [part for part in inner.graph.nodes if part.op == "placeholder"]
            for entry, value in zip(entries, node.args[i + 1 :], strict=False):
                if storages(entry) & changed and isinstance(value, fx.Node):
                    yield value
