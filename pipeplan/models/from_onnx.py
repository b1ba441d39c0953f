"""ONNX models as profiles, for inference: what each module costs on a named device, by the roofline rule.

Of weights only the sizes are read; nothing is executed. An operator takes the start of a kernel, and the larger of the
times of its arithmetic and of the bytes that it reads and writes. Views are free; look-ups move only what they return.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..instances.base.errors import InputError, unknown_choice
from ..instances.base.json_file import check_path
from ..instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor
from ..instances.networks.profile.work import Kernels, Work, calculated, merged
from ..instances.physics.hardware import Hardware
from .from_torch import calculated_on
from .onnx_graph import OnnxGraph, read_onnx
from .onnx_groups import GRANULARITIES, OnnxNode, group, owners


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
    wanted = {name: _checked(name, shape) for name, shape in (shapes or {}).items()}
    try:
        graph = read_onnx(path, wanted, allow_uncounted=allow_uncounted)
        nodes = group(graph, granularity)
    except InputError as error:
        raise error if error.file else error.in_file(str(path)) from None
    parameters = _held(graph, nodes)
    return Profile(
        nodes=tuple(_profile_nodes(graph, nodes, parameters, device)),
        tensors=tuple(_tensors(graph, nodes)),
        name=graph.name or Path(path).stem,
        training=False,
        micro_batch=graph.samples,
        source={
            "how": "onnx",
            **graph.facts,
            "granularity": granularity,
            "times": calculated(device),
        },
        tied=tuple(_tied(graph, parameters)),
    )


def _checked(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    if any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in shape):
        raise InputError(
            "--shape", f"gives {name!r} a size that is no whole number >= 1", f"give {name}=1,3,224,224"
        )
    return tuple(shape)


def _held(graph: OnnxGraph, nodes: Sequence[OnnxNode]) -> list[dict[str, str]]:
    """For each node its parameters by name: in the profile, where further copies have a number, and in the file."""
    copies: dict[str, int] = {}
    parameters = []
    for node in nodes:
        names: dict[str, str] = {}
        for name in dict.fromkeys(name for operation in node.operations for name in operation.parameters):
            number = copies.get(name, 0)
            copies[name] = number + 1
            names[f"{name}@{number}" if number else name] = name
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
                if not operation.is_free
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


def _tied(graph: OnnxGraph, parameters: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Pairs of names in the profile that are one parameter of the file."""
    for names in parameters:
        yield from ((first, name) for name, first in names.items() if name != first and first not in graph.buffers)


def _tensors(graph: OnnxGraph, nodes: Sequence[OnnxNode]) -> Iterator[ProfileTensor]:
    """What one node makes and others read, and what the model returns."""
    owner = owners(nodes)
    readers: dict[str, dict[str, None]] = {name: {} for name in owner}
    for node in nodes:
        for name in (name for operation in node.operations for name in operation.reads):
            if name in owner and owner[name] != node.id:
                readers[name][node.id] = None
    for name, producer in owner.items():
        if readers[name] or name in graph.outputs:
            tensor = graph.tensors[name]
            yield ProfileTensor(
                name, producer, tuple(readers[name]), float(tensor.bytes), False, tensor.shape, tensor.dtype
            )
