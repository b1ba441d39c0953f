"""Frozen records as JSON objects: their fields are the keys, and what equals its default may be left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar

from .fields import as_object, join, refuse_unknown, require

Record = TypeVar("Record")


@cache
def _defaults(kind: Any) -> Mapping[str, Any]:
    """By the names of all fields; `MISSING`: none."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
    }


def read_record(
    record: type[Record],
    where: str,
    value: object,
    example: str | None = None,
    **readers: Callable[[str, Any], Any],
) -> Record:
    """The record in a JSON object; `readers` take fields that are not what JSON says, each with its place."""
    kind: Any = record
    defaults = _defaults(kind)
    data = as_object(where, value, example or "{" + ", ".join(f'"{key}": ...' for key in defaults) + "}")
    refuse_unknown(where, data, tuple(defaults))
    given = {
        key: require(where, data, key) for key, default in defaults.items() if key in data or default is MISSING
    }
    readers = {key: read for key, read in readers.items() if key in given}
    return record(**given | {key: read(join(where, key), given[key]) for key, read in readers.items()})


def to_record(value: Any) -> dict[str, Any]:
    """The fields that have no default or another value."""
    kind: Any = type(value)
    defaults = _defaults(kind)
    given = {key: getattr(value, key) for key in defaults}
    return {key: _plain(own) for key, own in given.items() if defaults[key] is MISSING or own != defaults[key]}


def _plain(value: Any) -> Any:
    """What JSON can hold; pairs for a mapping, since keys of JSON objects could not tell the ids 1 and "1" apart."""
    if isinstance(value, Mapping):
        return [list(pair) for pair in value.items()]
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value
