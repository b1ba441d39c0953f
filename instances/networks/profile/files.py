"""Profiles as files: ``pipeplan.profile/1``, versioned and strict; nodes and tensors leave out default values."""

from __future__ import annotations

from typing import Any

from ...base.curve import curve_from_json
from ...base.errors import InputError, show
from ...base.fields import (
    as_list,
    as_object,
    as_tuple,
    each,
    read_problem,
    read_record,
    to_record,
    write_problem,
)
from .marks import PROFILE_SCHEMA
from .profile import Profile, ProfileNode, ProfileTensor
from .work import work_from_json, work_to_json

# Fields that are written even where they equal their defaults.
ALWAYS = ("name", "training", "micro_batch", "time_unit", "source", "nodes", "tensors", "tied")


def profile_to_json(profile: Profile) -> dict[str, Any]:
    """The profile as JSON data."""
    nodes = [to_record(node, **({"work": work_to_json(node.work)} if node.work else {})) for node in profile.nodes]
    tensors = [to_record(tensor) for tensor in profile.tensors]
    return write_problem(profile, PROFILE_SCHEMA, ALWAYS, source=dict(profile.source), nodes=nodes, tensors=tensors)


def profile_from_json(data: object) -> Profile:
    """The profile in JSON data, or an `InputError` that names the field."""
    return read_problem(
        Profile,
        PROFILE_SCHEMA,
        data,
        nodes=each(_node_from_json),
        tensors=each(_tensor_from_json),
        source=as_object,
        tied=each(_pair),
    )


def _node_from_json(where: str, value: object) -> ProfileNode:
    return read_record(
        ProfileNode,
        where,
        value,
        '{"id": ..., "forward": ..., "backward": ...}',
        forward=_time,
        backward=_time,
        parameters=as_object,
        modules=as_tuple,
        work=work_from_json,
    )


def _time(where: str, value: Any) -> Any:
    """A number, which the profile checks, or a curve."""
    return curve_from_json(where, value) if isinstance(value, dict) else value


def _tensor_from_json(where: str, value: object) -> ProfileTensor:
    example = '{"id": ..., "producer": ..., "readers": [...], "bytes": ...}'
    return read_record(
        ProfileTensor, where, value, example, producer=_node_id, readers=each(_node_id), shape=as_tuple
    )


def _node_id(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(where, f"is {show(value)}, not the id of a node", "give a text")
    return value


def _pair(where: str, value: object) -> tuple[str, str]:
    pair = as_list(where, value)
    if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        raise InputError(where, "is no pair of texts", 'give two names of parameters: ["first", "second"]')
    return pair[0], pair[1]
