"""Profiles as files: ``pipeplan.profile/1``, versioned and strict; what equals its default is left out of entries."""

from __future__ import annotations

from typing import Any

from ...base.curve import TimeCurve, curve_from_json, curve_to_json
from ...base.errors import InputError, show
from ...base.fields import as_list, as_object, check_schema, refuse_unknown, require, require_list
from .marks import PROFILE_SCHEMA
from .profile import Profile, ProfileNode, ProfileTensor, Time
from .work import work_from_json, work_to_json

_DEFAULTS: dict[str, Any] = {"name": "profile", "training": True, "micro_batch": 1, "time_unit": "s"}
_TOP = ("schema", *_DEFAULTS, "source", "nodes", "tensors", "tied")
_SIZES = ("saved_bytes", "buffer_bytes")
_FLOPS = ("flops_forward", "flops_backward")
_NUMBERS: dict[tuple[str, ...], Any] = {_SIZES: 0.0, _FLOPS: None}
_NODE = ("id", "forward", "backward", *_SIZES, "parameters", *_FLOPS, "modules", "work")
_TENSOR = ("id", "producer", "readers", "bytes", "gradient", "shape", "dtype")


def profile_to_json(profile: Profile) -> dict[str, Any]:
    """The profile as JSON data."""
    return {
        "schema": PROFILE_SCHEMA,
        **{key: getattr(profile, key) for key in _DEFAULTS},
        "source": dict(profile.source),
        "nodes": [_node_to_json(node) for node in profile.nodes],
        "tensors": [_tensor_to_json(tensor) for tensor in profile.tensors],
        "tied": [list(pair) for pair in profile.tied],
    }


def _node_to_json(node: ProfileNode) -> dict[str, Any]:
    data: dict[str, Any] = {"id": node.id, "forward": _time_to_json(node.forward)}
    if node.backward != 0:
        data["backward"] = _time_to_json(node.backward)
    data |= {key: getattr(node, key) for key in _SIZES if getattr(node, key)}
    data |= {key: getattr(node, key) for key in _FLOPS if getattr(node, key) is not None}
    if node.parameters:
        data["parameters"] = dict(node.parameters)
    if node.modules:
        data["modules"] = list(node.modules)
    return data | ({} if node.work is None else {"work": work_to_json(node.work)})


def _time_to_json(time: Time) -> Any:
    return curve_to_json(time) if isinstance(time, TimeCurve) else time


def _tensor_to_json(tensor: ProfileTensor) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": tensor.id,
        "producer": tensor.producer,
        "readers": list(tensor.readers),
        "bytes": tensor.bytes,
    }
    if not tensor.gradient:
        data["gradient"] = False
    if tensor.shape is not None:
        data["shape"] = list(tensor.shape)
    return data | ({"dtype": tensor.dtype} if tensor.dtype is not None else {})


def profile_from_json(data: object) -> Profile:
    """The profile in JSON data, or an `InputError` that names the field."""
    top = as_object("", data, f'{{"schema": "{PROFILE_SCHEMA}", ...}}')
    check_schema(top, (PROFILE_SCHEMA,))
    refuse_unknown("", top, _TOP)
    return Profile(
        nodes=tuple(
            _node_from_json(f"nodes[{i}]", entry) for i, entry in enumerate(require_list("", top, "nodes"))
        ),
        tensors=tuple(
            _tensor_from_json(f"tensors[{i}]", entry) for i, entry in enumerate(require_list("", top, "tensors"))
        ),
        source=as_object("source", top.get("source", {})),
        tied=tuple(_pair(f"tied[{i}]", entry) for i, entry in enumerate(as_list("tied", top.get("tied", [])))),
        **{key: top.get(key, default) for key, default in _DEFAULTS.items()},
    )


def _node_from_json(where: str, value: object) -> ProfileNode:
    data = as_object(where, value, '{"id": ..., "forward": ..., "backward": ...}')
    refuse_unknown(where, data, _NODE)
    return ProfileNode(
        id=require(where, data, "id"),
        forward=_time(f"{where}.forward", require(where, data, "forward")),
        backward=_time(f"{where}.backward", data.get("backward", 0.0)),
        parameters=as_object(f"{where}.parameters", data.get("parameters", {})),
        modules=tuple(as_list(f"{where}.modules", data.get("modules", []))),
        work=work_from_json(f"{where}.work", data["work"]) if data.get("work") is not None else None,
        **{key: data.get(key, default) for keys, default in _NUMBERS.items() for key in keys},
    )


def _time(where: str, value: Any) -> Any:
    """A number, which the profile checks, or a curve."""
    return curve_from_json(where, value) if isinstance(value, dict) else value


def _tensor_from_json(where: str, value: object) -> ProfileTensor:
    data = as_object(where, value, '{"id": ..., "producer": ..., "readers": [...], "bytes": ...}')
    refuse_unknown(where, data, _TENSOR)
    ends = [require(where, data, "producer"), *require_list(where, data, "readers")]
    for end in ends:
        if not isinstance(end, str):
            raise InputError(f"{where}.readers", f"hold {show(end)}, not the id of a node", "give texts")
    shape = data.get("shape")
    return ProfileTensor(
        id=require(where, data, "id"),
        producer=ends[0],
        readers=tuple(ends[1:]),
        bytes=require(where, data, "bytes"),
        gradient=data.get("gradient", True),
        shape=None if shape is None else tuple(as_list(f"{where}.shape", shape)),
        dtype=data.get("dtype"),
    )


def _pair(where: str, value: object) -> tuple[str, str]:
    pair = as_list(where, value)
    if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        raise InputError(where, "is no pair of texts", 'give two names of parameters: ["first", "second"]')
    return pair[0], pair[1]
