"""Helpers for parsed JSON: fetch what must be there, refuse what must not, name the place in every error."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from .errors import InputError, nearest, show

Read = TypeVar("Read")


def join(where: str, key: str) -> str:
    """The path of a key inside an object; the top of a file has the empty path."""
    return f"{where}.{key}" if where else key


def as_object(where: str, value: object, example: str = "{...}") -> Mapping[str, Any]:
    """The value if it is a JSON object."""
    if not isinstance(value, Mapping):
        raise InputError(where or "content", f"is {show(value)}, not an object", f"give {example}")
    return value


def as_list(where: str, value: object) -> list[Any]:
    """The value if it is a JSON list."""
    if not isinstance(value, list):
        raise InputError(where or "content", f"is {show(value)}, not a list", "give a list: [...]")
    return value


def require(where: str, data: Mapping[str, Any], key: str) -> Any:
    """The value of a key that must be there."""
    try:
        return data[key]
    except KeyError:
        raise InputError(join(where, key), "is missing", f'add the key "{key}"') from None


def require_object(where: str, data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return as_object(join(where, key), require(where, data, key))


def require_list(where: str, data: Mapping[str, Any], key: str) -> list[Any]:
    return as_list(join(where, key), require(where, data, key))


def read_entries(
    where: str, data: Mapping[str, Any], key: str, read: Callable[[str, Any], Read], optional: bool = False
) -> tuple[Read, ...]:
    """The entries of a list, each read with its place in the file; `optional`: none where the key is missing."""
    place = join(where, key)
    entries = [] if optional and key not in data else require_list(where, data, key)
    return tuple(read(f"{place}[{i}]", entry) for i, entry in enumerate(entries))


def as_entries(where: str, value: object, count: int, remedy: str) -> list[Any]:
    """The value if it is a JSON list of so many entries."""
    entries = as_list(where, value)
    if len(entries) != count:
        raise InputError(where, f"has {len(entries)} entries", remedy)
    return entries


def refuse_unknown(where: str, data: Mapping[str, Any], known: Collection[str]) -> None:
    """An unknown key is an error: a misspelt option must not vanish in silence."""
    for key in data:
        if key not in known:
            raise InputError(join(where, shorten(key)), "is an unknown key", f"{_nearest(key, known)} or remove it")


def _nearest(word: str, known: Collection[str]) -> str:
    close = nearest(word, known, cutoff=0.5)
    return f'write "{close}"' if close else "use one of " + ", ".join(known)


def shorten(key: str) -> str:
    """A key as part of a field path: bare where it is a plain short word, quoted otherwise."""
    return key if key.isidentifier() and len(key) <= 40 else show(key)


def as_own_format(data: object, schema: str, known: Collection[str]) -> Mapping[str, Any]:
    """A file in a format of ours, at its top."""
    top = as_object("", data, f'{{"schema": "{schema}", ...}}')
    check_schema(top, (schema,))
    refuse_unknown("", top, known)
    return top


def as_plan(where: str, data: object, kind: str, example: str) -> Mapping[str, Any]:
    """A plan of that kind."""
    top = as_object(where, data, example)
    found = require(where, top, "kind")
    if found != kind:
        raise InputError(join(where, "kind"), f"is {show(found)}", f'give "{kind}"')
    return top


def check_schema(top: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Files say which format and version they are in; others are refused, not guessed at."""
    schema = require("", top, "schema")
    if schema not in known:
        raise InputError("schema", f"is {show(schema)}", "give " + " or ".join(known))
