"""ONNX models as profiles, for inference: what each module costs on a named device, by the roofline rule.

Of weights only the sizes are read; nothing is executed. An operator takes the start of a kernel, and the larger of the
times of its arithmetic and of the bytes that it reads and writes. Views are free; look-ups move only what they return.
An operator that is unknown is added to `FORMULAS` (its arithmetic) or to `MOVERS` (so little that its bytes count).
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from ..instances.base.errors import InputError, errors_in, show, unknown_choice
from ..instances.base.graph import strong_components
from ..instances.base.json_file import check_path, read_bytes
from ..instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor
from ..instances.networks.profile.work import Kernels, Work, calculated, merged
from ..instances.physics.hardware import Hardware
from .from_torch import calculated_on, require


def import_onnx(
    path: str | os.PathLike[str],
    *,
    hardware: Hardware | str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    granularity: str = "block",
    efficiency: float | None = None,
    kernel_start_s: float | None = None,
    allow_uncounted: bool = False,
) -> Profile:
    """A profile of an ONNX model in inference.

    Parameters
    ----------
    path : str or PathLike
        The .onnx file; weights in files beside it are not needed.
    hardware : Hardware or str, optional
        The device whose times are calculated. None: an error lists the devices.
    shapes : mapping of str to sequence of int, optional
        Sizes of inputs, by name. None: those of the file, which must be numbers.
    granularity : str
        "block", the outermost module with a number; "module", the innermost module; or "op", each operator.
    efficiency : float, optional
        Share of its peak that the device reaches. None: the device's own figure.
    kernel_start_s : float, optional
        Seconds that the start of a kernel takes. None: the device's own figure.
    allow_uncounted : bool
        Let operators without a formula for their floating-point operations count none.

    Returns
    -------
    Profile
        The costs of one forward pass, over as many samples as the first input has.

    Raises
    ------
    InputError
        The file is no ONNX model, a size is unknown, or an operator has no formula: the message names it.
    UsageError
        No hardware is named, or there is no such hardware or granularity.
    """
    check_path(path)
    device = calculated_on(hardware, efficiency, kernel_start_s)
    if granularity not in GRANULARITIES:
        raise unknown_choice("--granularity", granularity, GRANULARITIES)
    wanted = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    for name, shape in wanted.items():
        if any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in shape):
            what = f"gives {name!r} a size that is no whole number >= 1"
            raise InputError("--shape", what, f"give {name}=1,3,224,224")
    with errors_in(path):
        graph = read_onnx(path, wanted, allow_uncounted=allow_uncounted)
        nodes = group(graph, granularity)
    parameters = _held(nodes)
    return Profile(
        nodes=tuple(_profile_nodes(graph, nodes, parameters, device)),
        tensors=tuple(_tensors(graph, nodes)),
        name=graph.name or Path(path).stem,
        training=False,
        micro_batch=graph.samples,
        source={"how": "onnx", **graph.facts, "granularity": granularity, "times": calculated(device)},
        tied=tuple(
            (first, name)
            for names in parameters
            for name, first in names.items()
            if name != first and first not in graph.buffers
        ),
    )


def _held(nodes: Sequence[OnnxNode]) -> list[dict[str, str]]:
    """For each node its parameters by name: in the profile, where further copies have a number, and in the file."""
    copies: Counter[str] = Counter()
    parameters = []
    for node in nodes:
        names: dict[str, str] = {}
        for name in dict.fromkeys(name for operation in node.operations for name in operation.parameters):
            names[f"{name}@{copies[name]}" if copies[name] else name] = name
            copies[name] += 1
        parameters.append(names)
    return parameters


def _profile_nodes(
    graph: OnnxGraph, nodes: Sequence[OnnxNode], parameters: Sequence[Mapping[str, str]], device: Hardware
) -> Iterator[ProfileNode]:
    for node, names in zip(nodes, parameters, strict=True):
        sizes = {name: float(graph.parameters[original].bytes) for name, original in names.items()}
        work = Work(
            merged(
                Kernels(operation.flops, operation.moved_bytes, 1, operation.element_bytes)
                for operation in node.operations
                if operation.kind not in VIEWS
            )
        )
        yield ProfileNode(
            node.id,
            work.seconds("forward", device),
            buffer_bytes=math.fsum(sizes[name] for name, original in names.items() if original in graph.buffers),
            parameters={name: size for name, size in sizes.items() if names[name] not in graph.buffers},
            flops_forward=work.flops("forward"),
            modules=node.modules,
            work=work,
        )


def _tensors(graph: OnnxGraph, nodes: Sequence[OnnxNode]) -> Iterator[ProfileTensor]:
    """What one node makes and others read, and what the model returns."""
    owner = {name: node.id for node in nodes for operation in node.operations for name in operation.writes}
    readers: dict[str, dict[str, None]] = {name: {} for name in owner}
    for node in nodes:
        for name in (name for operation in node.operations for name in operation.reads):
            if owner.get(name, node.id) != node.id:
                readers[name][node.id] = None
    for name, producer in owner.items():
        if readers[name] or name in graph.outputs:
            tensor = graph.tensors[name]
            yield ProfileTensor(
                name, producer, tuple(readers[name]), float(tensor.bytes), False, tensor.shape, tensor.dtype
            )


# ---- onnx groups ------------------------------------------------------------
# Operations of an ONNX graph as nodes of a profile: by modules, with no circle between them.
#
# Operations that depend on no parameter and are not random (masks, positions) are auxiliary: whoever reads them
# computes them again, and they are no nodes.


# The outermost module with a number (a transformer layer); the innermost module; each operator.
GRANULARITIES = ("block", "module", "op")

# Largest share of the floating-point operations that may be auxiliary, since a profile leaves these out.
MOST_AUXILIARY = 0.01

_NUMBERED = re.compile(r"(?:^|.*\.)\d+")


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """Operations that are planned as one."""

    id: str
    modules: tuple[str, ...]
    operations: tuple[Operation, ...]


def group(graph: OnnxGraph, granularity: str) -> tuple[OnnxNode, ...]:
    """The nodes in topological order, named like their modules; the node of a second call ends in `@1`.

    Operations of one key that read from each other are one node, and so are nodes that wait for each other.
    """
    operations = _without_auxiliary(graph)
    writers = {name: i for i, operation in enumerate(operations) for name in operation.writes}
    producers = [[writers[name] for name in operation.reads if name in writers] for operation in operations]
    keys = _keys(operations, producers, granularity)
    arcs = [(j, i) for i, sources in enumerate(producers) for j in sources]
    within = [(i, j) for j, i in arcs if keys[i] == keys[j]]
    calls: Counter[str] = Counter()
    nodes = []
    for members in strong_components(len(keys), [*arcs, *within]):
        name = keys[members[0]]
        modules = tuple(dict.fromkeys(keys[i] for i in members))
        number = f"@{calls[name]}" if calls[name] else ""
        nodes.append(OnnxNode(name + number, modules, tuple(operations[i] for i in members)))
        calls[name] += 1
    return tuple(nodes)


def _without_auxiliary(graph: OnnxGraph) -> tuple[Operation, ...]:
    """The operations that depend on a parameter or are random; the others must be light."""
    derived: set[str] = set()
    kept, lost = [], 0.0
    for operation in graph.operations:
        if operation.parameters or operation.kind in RANDOM or not derived.isdisjoint(operation.reads):
            derived.update(operation.writes)
            kept.append(operation)
        else:
            lost += operation.flops
    if not kept:
        raise InputError(
            "graph", "has no operator that depends on a parameter", "export the model with its weights"
        )
    if lost > MOST_AUXILIARY * (lost + sum(operation.flops for operation in kept)):
        raise InputError(
            "graph",
            f"has {lost:.3g} floating-point operations that depend on no parameter, more than 1 % of all",
            "leave that part out of the model",
        )
    return tuple(kept)


def _keys(operations: Sequence[Operation], producers: Sequence[Sequence[int]], granularity: str) -> list[str]:
    """The module of each operation; what a container does between its parts goes with the operation that it reads."""
    names = [_module(operation, granularity) for operation in operations]
    # Every module around a module, the model itself included.
    containers = {
        around for name in names if name for around in ("", *accumulate(name.split(".")[:-1], "{}.{}".format))
    }
    keys: list[str] = []
    for i, (name, operation) in enumerate(zip(names, operations, strict=True)):
        # Where others have modules, what has none was made by the exporter and stands in the model itself.
        inside = "" if name is None and containers else name
        sources = {keys[j] for j in producers[i]} if inside in containers and not operation.parameters else set()
        keys.append(sources.pop() if len(sources) == 1 else name or operation.name)
    return keys


def _module(operation: Operation, granularity: str) -> str | None:
    """The module of an operation, where an empty name is the model itself; None: the operation's own name counts."""
    scopes = operation.scopes
    if scopes is None or granularity == "op":
        return None
    if granularity == "block":
        numbered = next((scope for scope in scopes if _NUMBERED.fullmatch(scope)), None)
        if numbered is not None:
            return numbered
    return scopes[-1] if scopes else ""


# ---- onnx graph ------------------------------------------------------------
# An ONNX file as operations on tensors of known shapes.
#
# Operators whose results follow from weights and shapes alone are left out: runtimes compute them once, when they load
# the model.


# Largest protocol buffer; larger models keep their weights in files beside it, which are not read.
MAX_MODEL_BYTES = 2**31 - 1

# The numbers of longer tensors are forgotten: shapes, axes and the like are short.
KEPT_NUMBERS = 1024

# Operators that make no new numbers; dropout makes none in inference.
VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout"})
# Operators that read as much as they write, however long the table is.
LOOK_UPS = frozenset({"Gather", "GatherElements", "GatherND"})
# Operators that draw random numbers, so that runtimes cannot compute them once.
RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
# Operators that are refused, since their cost depends on data.
BRANCHES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
# Operators that read sizes alone, which are constant here.
SHAPES = frozenset({"Shape", "Size"})
# The key under which torch's exporter writes the modules around an operator.
SCOPES = "pkg.torch.onnx.name_scopes"
# The domains of ONNX's own operators, for which there are formulas.
OWN_DOMAINS = ("", "ai.onnx")
# Types of indices and the like, which are no parameters; some count as buffers where they have several dimensions.
WHOLE_NUMBERS = ("bool", "int16", "uint16", "int32", "int64", "uint64")


@dataclass(frozen=True, slots=True)
class Tensor:
    """What is known of a tensor without its numbers."""

    shape: Shape
    dtype: str
    bits: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return -(-self.count * self.bits // 8)

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype or self.dtype == "double"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operator on what flows through the model."""

    name: str
    kind: str
    scopes: tuple[str, ...] | None
    """The modules around it, the outermost first; None: the file names none."""
    reads: tuple[str, ...]
    """Tensors that other operations make."""
    writes: tuple[str, ...]
    parameters: tuple[str, ...]
    """The parameters that it reads, as they are or in another form."""
    flops: float
    moved_bytes: float
    element_bytes: int
    """Bytes of one of the numbers that it computes with."""


def read_onnx(
    path: str | os.PathLike[str], shapes: Mapping[str, Shape], *, allow_uncounted: bool = False
) -> OnnxGraph:
    """The operations in a file; inputs have the shapes that are given for them, else those of the file."""
    require("onnx")
    onnx: Any = importlib.import_module("onnx")
    raw = read_bytes(path, MAX_MODEL_BYTES)
    try:
        model = onnx.load_model_from_string(raw)
    except Exception:  # of whatever parser protocol buffers have in this installation
        model = None
    if model is None or not model.graph.node:
        raise InputError("content", "is no ONNX model with operators", "give a file that was exported as .onnx")
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) > KEPT_NUMBERS:
            for numbers in ("raw_data", "float_data", "double_data", "int32_data", "int64_data", "uint64_data"):
                tensor.ClearField(numbers)
    _fix_inputs(model.graph, shapes)
    try:
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:
        raise _disagreement(error) from None
    facts = {
        "onnx": onnx.__version__,
        "opset": max((entry.version for entry in model.opset_import if entry.domain in OWN_DOMAINS), default=None),
        "producer": " ".join(filter(None, (model.producer_name, model.producer_version))),
        "file_sha256": hashlib.sha256(raw).hexdigest(),
    }
    return OnnxGraph(onnx, model, {key: value for key, value in facts.items() if value}, allow_uncounted)


def _disagreement(error: Exception) -> InputError:
    reason = re.sub(r"\s+", " ", str(error)).strip().rstrip(".")
    return InputError("graph", f"has no shapes that agree ({reason[:300]})", "export the model again")


# ---- inputs --------------------------------------------------------------------------------------------


def _inputs(graph: Any) -> list[Any]:
    """The inputs of the model without its weights, which old files list as inputs, too."""
    weights = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def _fix_inputs(graph: Any, shapes: Mapping[str, Shape]) -> None:
    """Give inputs their sizes, and dimensions of one name the same size."""
    inputs = {value.name: value for value in _inputs(graph)}
    named: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            known = ", ".join(map(show, inputs)) or "none"
            raise InputError("--shape", f"names {show(name)}, which is no input", f"give one of {known}")
        _fix(name, inputs[name].type.tensor_type, shape, named)
    for value in inputs.values():
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param in named:
                dimension.dim_value = named[dimension.dim_param]
        _refuse_unknown(value)
    for value in (*graph.output, *graph.value_info):
        # What the file says of later shapes may name dimensions that are fixed now: they are inferred anew.
        if shapes:
            value.type.tensor_type.ClearField("shape")


def _fix(name: str, kind: Any, shape: Shape, named: dict[str, int]) -> None:
    dimensions = kind.shape.dim
    if kind.HasField("shape") and len(dimensions) != len(shape):
        raise InputError(
            "--shape", f"gives {show(name)} {len(shape)} dimensions", f"give {len(dimensions)}, as the file says"
        )
    if not kind.HasField("shape"):
        kind.shape.SetInParent()
        for _ in shape:
            dimensions.add()
    for i, (dimension, size) in enumerate(zip(dimensions, shape, strict=True)):
        if dimension.HasField("dim_value") and dimension.dim_value not in (size, 0, -1):
            raise InputError(
                "--shape",
                f"gives {size} for dimension {i} of {show(name)}, which is {dimension.dim_value} in the file",
                "give what the file says",
            )
        word = dimension.dim_param
        if word and named.setdefault(word, size) != size:
            raise InputError("--shape", f"gives two sizes for the dimension {show(word)}", "give one")
        dimension.dim_value = size


def _refuse_unknown(value: Any) -> None:
    kind = value.type.tensor_type
    if kind.HasField("shape") and all(dimension.dim_value > 0 for dimension in kind.shape.dim):
        return
    words = [
        str(dimension.dim_value) if dimension.dim_value > 0 else dimension.dim_param or "?"
        for dimension in kind.shape.dim
    ]
    unknown = [word for word in words if not word.isdecimal()]
    what = f"has the unknown dimension {show(unknown[0])}" if unknown else "has an unknown shape"
    example = ",".join(word if word.isdecimal() else "..." for word in words) or "1,3,224,224"
    raise InputError(f"input {show(value.name)}", what, f"fix it with --shape {value.name}={example}")


# ---- operations ----------------------------------------------------------------------------------------


class OnnxGraph:
    """The operations in topological order, and the tensors by name; notes which of them are constant."""

    def __init__(self, onnx: Any, model: Any, facts: Mapping[str, Any], allow_uncounted: bool) -> None:
        """`facts`: the versions of onnx and of its operators, who made the file, and its digest."""
        self.onnx, self.model, self.proto, self.allow_uncounted = onnx, model, model.graph, allow_uncounted
        self.tensors: dict[str, Tensor] = {}
        self.parameters: dict[str, Tensor] = {}
        # Parameters that no training updates.
        self.buffers: set[str] = set()
        # Tensors that follow from weights and shapes, and the parameters from which each follows.
        self.constant: dict[str, frozenset[str]] = {}
        # Why the shape of a tensor is unknown; that matters only where an operator needs it.
        self.unknown: dict[str, str] = {}
        self.name, self.facts = self.proto.name, facts
        for value in (*self.proto.input, *self.proto.value_info, *self.proto.output):
            self._note(value)
        for tensor in self.proto.initializer:
            self._weights(tensor.name, tensor)
        self.operations = tuple(filter(None, map(self._operation, range(len(self.proto.node)), self.proto.node)))
        first = next(iter(_inputs(self.proto)), None)
        shape = self.tensors[first.name].shape if first is not None else ()
        self.outputs = {value.name for value in self.proto.output}
        # The first dimension of the first input.
        self.samples = shape[0] if shape else 1

    def _note(self, value: Any) -> None:
        kind = value.type.tensor_type
        shape = tuple(dimension.dim_value for dimension in kind.shape.dim)
        is_fixed = [dimension.HasField("dim_value") and dimension.dim_value >= 0 for dimension in kind.shape.dim]
        if not value.type.HasField("tensor_type"):
            self.unknown[value.name] = "is no tensor"
        elif not kind.HasField("shape"):
            self.unknown[value.name] = "has an unknown shape"
        elif not all(is_fixed):
            word = kind.shape.dim[is_fixed.index(False)].dim_param or "?"
            self.unknown[value.name] = f"has the unknown dimension {show(word)}"
        else:
            self._add_tensor(value.name, shape, kind.elem_type)

    def _add_tensor(self, name: str, shape: Shape, kind: int) -> None:
        dtype = self.onnx.TensorProto.DataType.Name(kind).lower()
        # double, float, int64, bfloat16, float8e4m3fn, ...: the first number is that of the bits.
        digits = re.search(r"\d+", dtype)
        usual = {"float": 32, "double": 64, "bool": 8}
        if dtype not in usual and digits is None:
            self.unknown[name] = f"holds numbers of the type {dtype}"
            return
        self.tensors[name] = Tensor(shape, dtype, usual.get(dtype) or int(digits[0]) if digits else usual[dtype])

    def _weights(self, name: str, tensor: Any) -> None:
        """Note a tensor of numbers in the file: several floating-point or packed numbers are a parameter."""
        self._add_tensor(name, tuple(tensor.dims), tensor.data_type)
        weights = self.tensors.get(name)
        if weights is None:
            self.constant[name] = frozenset()
            return
        is_buffer = len(weights.shape) > 1 and weights.count > 1 and weights.dtype in ("bool", "int32", "int64")
        is_parameter = weights.count > 1 and weights.dtype not in WHOLE_NUMBERS
        if is_buffer or is_parameter:
            self.parameters[name] = weights
        if is_buffer:
            self.buffers.add(name)
        self.constant[name] = frozenset({name} if is_parameter or is_buffer else ())

    def _operation(self, number: int, node: Any) -> Operation | None:
        """The operation of a node; None where it is computed once, when the model is loaded."""
        name = node.name or f"{node.op_type}_{number}"
        if node.op_type in BRANCHES:
            raise InputError(
                f"operator {show(name)}",
                f"is a branch or a loop ({node.op_type}), whose cost depends on data",
                "export the model with that part made static",
            )
        inputs, outputs = [x for x in node.input if x], [x for x in node.output if x]
        if node.op_type == "Constant":
            value = next((entry.t for entry in node.attribute if entry.name == "value"), None)
            self.constant[node.output[0]] = frozenset()
            if value is not None:
                self._weights(node.output[0], value)
            return None
        if node.op_type in SHAPES or (node.op_type not in RANDOM and all(x in self.constant for x in inputs)):
            parameters = frozenset[str]() if node.op_type in SHAPES else self._parameters_of(inputs)
            self.constant.update(dict.fromkeys(outputs, parameters))
            return None
        return self._flowing(name, node, inputs, outputs)

    def _parameters_of(self, inputs: Iterable[str]) -> frozenset[str]:
        return frozenset().union(*(self.constant.get(x, frozenset()) for x in inputs))

    def _flowing(self, name: str, node: Any, inputs: list[str], outputs: list[str]) -> Operation:
        """The operation of an operator that depends on the model's inputs or on random numbers."""
        # Of the outputs only the first needs a shape: nobody may read the others, such as indices of a pooling layer.
        self._require(name, node.op_type, [*inputs, *outputs[:1]])
        if node.op_type in FORMULAS:
            # A constant matrix that a product reads is a parameter, also where the file fills it with one number.
            for x in inputs:
                matrix = self.tensors.get(x)
                if self.constant.get(x) == frozenset() and matrix and matrix.is_float and len(matrix.shape) > 1:
                    self.parameters[x] = matrix
                    self.constant[x] = frozenset({x})
        parameters = tuple(sorted(self._parameters_of(inputs)))
        if node.op_type == "BatchNormalization":
            self.buffers.update(*(self.constant.get(x, ()) for x in node.input[3:5]))
        flops = self._flops(name, node, parameters)
        made = [self.tensors[x] for x in outputs if x in self.tensors]
        read = [self.tensors[x] for x in dict.fromkeys(inputs) if x in self.tensors]
        moved = [] if node.op_type in VIEWS else made if node.op_type in LOOK_UPS else [*read, *made]
        return Operation(
            name=name,
            kind=node.op_type,
            scopes=_scopes(node),
            reads=tuple(x for x in dict.fromkeys(inputs) if x not in self.constant),
            writes=tuple(outputs),
            parameters=parameters,
            flops=flops,
            moved_bytes=float(sum(tensor.bytes for tensor in moved)),
            element_bytes=max((-(-x.bits // 8) for x in (*read, *made) if x.is_float), default=4),
        )

    def _require(self, name: str, kind: str, tensors: Iterable[str]) -> None:
        for tensor in tensors:
            if tensor not in self.tensors and tensor not in self.constant:
                try:  # the usual inference says nothing of shapes that contradict each other
                    self.onnx.shape_inference.infer_shapes(self.model, strict_mode=True, data_prop=True)
                except self.onnx.shape_inference.InferenceError as error:
                    raise _disagreement(error) from None
                raise InputError(
                    f"operator {show(name)} ({kind})",
                    f"has the tensor {show(tensor)}, which {self.unknown.get(tensor, 'has an unknown shape')}",
                    "fix the inputs with --shape input=1,3,224,224, or export the model with fixed shapes",
                )

    def _flops(self, name: str, node: Any, parameters: Iterable[str]) -> float:
        own = node.domain in OWN_DOMAINS
        if not own or node.op_type not in FORMULAS:
            self._guard(name, node, own, parameters)
            return 0.0
        shapes = Shapes({i: self.tensors[x].shape for i, x in enumerate(node.input) if x in self.tensors})
        shapes.inputs = len(node.input)
        shapes.update((MADE, self.tensors[x].shape) for x in node.output[:1] if x in self.tensors)
        attributes = {entry.name: self.onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        try:
            return FORMULAS[node.op_type](shapes, attributes)
        except (ValueError, IndexError, KeyError) as error:
            reason = str(error) if type(error) is ValueError else "has shapes that its formula does not know"
            place = f"operator {show(name)} ({node.op_type})"
            raise InputError(place, reason, "correct the model, or report the operator") from None

    def _guard(self, name: str, node: Any, own: bool, parameters: Iterable[str]) -> None:
        """Refuse an operator without a formula that multiplies weights or is not ONNX's own: it would count nothing."""
        large = [x for x in parameters if len(self.parameters[x].shape) >= 2]
        if self.allow_uncounted or (own and (node.op_type in MOVERS or node.op_type in RANDOM or not large)):
            return
        what = (
            f"reads the parameter {show(large[0])} and has" if large else f"is of the domain {node.domain} and has"
        )
        raise InputError(
            f"operator {show(name)} ({node.op_type})",
            f"{what} no formula for its floating-point operations",
            "export it as known operators, or give --allow-uncounted to count none",
        )


def _scopes(node: Any) -> tuple[str, ...] | None:
    """The modules around an operator, by what torch's exporter wrote, else by the name up to its last slash."""
    for entry in node.metadata_props:
        if entry.key == SCOPES:
            with suppress(
                ValueError, SyntaxError, MemoryError, RecursionError
            ):  # a list of texts as Python writes it
                scopes = ast.literal_eval(entry.value)
                if isinstance(scopes, list) and scopes and all(isinstance(scope, str) for scope in scopes):
                    return tuple(scope for scope in scopes[:-1] if scope)
    if "/" not in node.name:
        return None
    return tuple(_dotted(part for part in node.name.split("/")[:-1] if part))


def _dotted(parts: Iterable[str]) -> Iterator[str]:
    """Paths of nested modules: layer1, layer1.0 and conv give layer1, layer1.0 and layer1.0.conv.

    A part that begins with its parent's name replaces it in the path.
    """
    path: list[str] = []
    for part in parts:
        if path and part.startswith(path[-1] + "."):
            path.pop()
        path.append(part)
        yield ".".join(path)


# ---- onnx flops ------------------------------------------------------------
# Floating-point operations of ONNX operators, by formulas on shapes; a multiply-add counts as two.


Shape = tuple[int, ...]
Attributes = Mapping[str, Any]
# The key of the first output's shape, beside those of the inputs, which are their places.
MADE = -1


class Shapes(dict[int, Shape]):
    """The known shapes of an operator's inputs, by place, and of its first output; another one is an error."""

    # The number of inputs, those of unknown shape included.
    inputs: int

    def __missing__(self, place: int) -> Shape:
        raise ValueError(f"lacks the shape of its input or output {max(place, 0)}")


Formula = Callable[[Shapes, Attributes], float]

# Operators that move numbers and work on each one or on its neighbours: their time is that of the bytes.
MOVERS = frozenset(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor BitShift Cast CastLike Ceil Celu CenterCropPad Clip Compress Concat Cos Cosh
    CumSum DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Equal Erf Exp Expand EyeLike
    Flatten Floor Gather GatherElements GatherND Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool Greater
    GreaterOrEqual GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool LRN Max MaxPool Mean
    MeanVarianceNormalization Min Mish Mod Mul Neg Not OneHot Or Pad Pow PRelu QuantizeLinear Range Reciprocal
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Reshape Resize ReverseSequence RMSNormalization RotaryEmbedding Round Scatter
    ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign
    SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu
    Unsqueeze Upsample Where Xor
""".split()  # noqa: SIM905
)


def _product(shapes: Shapes, first: int, second: int) -> float:
    """The product of the matrices at these inputs; stacks of them are repeated as they are in NumPy."""
    depth, columns = shapes[first][-1], shapes[second]
    rows = columns[max(len(columns) - 2, 0)]
    if depth != rows:
        raise ValueError(f"multiplies {depth} columns by {rows} rows")
    return 2.0 * math.prod(shapes[MADE]) * depth


def _convolution(shapes: Shapes, weights: int) -> float:
    """The weights have the sizes: outputs, inputs of a group, and those of the kernel."""
    return 2.0 * math.prod(shapes[MADE]) * math.prod(shapes[weights][1:])


def _recurrent(shapes: Shapes, gates: int) -> float:
    """Products with the input and with the state before, of all gates, in each step and direction."""
    x, (ways, rows, width) = shapes[0], shapes[1]
    return 2.0 * x[0] * x[1] * ways * rows * (width + rows // gates)


def _attention(shapes: Shapes, attributes: Attributes) -> float:
    """Scores of queries with keys, and the values mixed by them; keys kept from earlier calls count, too."""
    query, key, value = (shapes[i] for i in range(3))
    past = shapes[4][2] if 4 in shapes else 0
    if len(query) == 4:
        batch, heads, rows, depth = query
        columns, mixed = key[2], value[3]
    else:
        heads = attributes["q_num_heads"]
        batch, rows, depth = query[0], query[1], query[2] // heads
        columns, mixed = key[1], value[2] // attributes.get("kv_num_heads", heads)
    return 2.0 * batch * heads * rows * (columns + past) * (depth + mixed)


def _einsum(shapes: Shapes, attributes: Attributes) -> float:
    """Formula for two tensors: a multiply-add for each combination of indices, if any is summed over."""
    terms = attributes["equation"].decode().replace(" ", "").partition("->")[0].split(",")
    if len(terms) != shapes.inputs:
        raise ValueError(f"has {shapes.inputs} inputs for {len(terms)} terms")
    if len(terms) == 1:
        return 0.0
    if len(terms) > 2:
        raise ValueError("multiplies more than two tensors at once")
    sizes: dict[str, int] = {}
    for i, term in enumerate(terms):
        for label, size in zip(_labels(term, len(shapes[i])), shapes[i], strict=True):
            sizes[label] = max(sizes.get(label, 1), size)
    combinations = math.prod(sizes.values())
    return 2.0 * combinations if combinations > math.prod(shapes[MADE]) else 0.0


def _labels(term: str, rank: int) -> list[str]:
    """A label for each dimension of a term; dimensions of an ellipsis are numbered from the last one."""
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after) if dots else 0
    return [*before, *(f".{i}" for i in range(hidden, 0, -1)), *after]


# Formulas by the operator's name in the domain ai.onnx.
FORMULAS: Mapping[str, Formula] = {
    "MatMul": lambda shapes, _: _product(shapes, 0, 1),
    "MatMulInteger": lambda shapes, _: _product(shapes, 0, 1),
    "QLinearMatMul": lambda shapes, _: _product(shapes, 0, 3),
    "Gemm": lambda shapes, how: 2.0 * math.prod(shapes[MADE]) * shapes[0][0 if how.get("transA") else 1],
    "Conv": lambda shapes, _: _convolution(shapes, 1),
    "ConvInteger": lambda shapes, _: _convolution(shapes, 1),
    "QLinearConv": lambda shapes, _: _convolution(shapes, 3),
    # Each number of the input meets the whole kernel of each output of its group.
    "ConvTranspose": lambda shapes, _: 2.0 * math.prod(shapes[0]) * math.prod(shapes[1][1:]),
    "Einsum": _einsum,
    "Attention": _attention,
    "RNN": lambda shapes, _: _recurrent(shapes, 1),
    "GRU": lambda shapes, _: _recurrent(shapes, 3),
    "LSTM": lambda shapes, _: _recurrent(shapes, 4),
}
