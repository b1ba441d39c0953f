"""Parsed JSON and records: fetch what must be there, refuse what must not, name the place in every error.

`check_members` and `check_numbers` read what a record's annotations say of its members: a constructor that calls them
needs no checks of types of its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from types import MappingProxyType, NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from .checks import NodeId, check_amount, check_flag, check_id, check_whole
from .errors import InputError, nearest, show
from .quantities import several

Read = TypeVar("Read")
Record = TypeVar("Record")
# Function from a place in a file and the value there to what the value says.
Reader = Callable[[str, Any], Any]
# The metadata of a field of a record that no file holds.
AS_TEXT_NEVER: Mapping[str, bool] = MappingProxyType({"as text": False})
# Types whose values JSON holds as they are.
SIMPLE = frozenset({str, int, float, bool, type(None)})
NO_NAMES: Mapping[str, str] = MappingProxyType({})


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


def as_tuple(where: str, value: object) -> tuple[Any, ...]:
    """The entries of a JSON list."""
    return tuple(as_list(where, value))


def as_whole(where: str, value: object) -> int:
    """The value if it is a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(where, f"is {show(value)}, not a whole number", "give a whole number")
    return value


def as_number(where: str, value: object) -> float:
    """The value if it is a finite number, of either sign."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(where, f"is {show(value)}, not a number", "give a finite number")
    if not abs(value) <= sys.float_info.max:
        raise InputError(where, "is NaN" if value != value else "is infinite", "give a finite number")
    return value


def each(read: Callable[[str, Any], Read]) -> Callable[[str, Any], tuple[Read, ...]]:
    """The reader of a list whose entries `read` reads, each with its place in the file."""
    return lambda where, value: tuple(read(f"{where}[{i}]", entry) for i, entry in enumerate(as_list(where, value)))


def by_key(read: Callable[[str, Any], Read]) -> Callable[[str, Any], dict[str, Read]]:
    """The reader of an object whose entries `read` reads."""
    return lambda where, value: {k: read(join(where, k), entry) for k, entry in as_object(where, value).items()}


def read_pairs(where: str, value: object, example: str, check: Callable[[str, Any], None]) -> dict[NodeId, Any]:
    """Values by layer, from a list of pairs: keys of a JSON object could not tell the ids 1 and "1" apart."""
    values: dict[NodeId, Any] = {}
    for i, entry in enumerate(as_list(where, value)):
        node_id, layer_value = as_entries(f"{where}[{i}]", entry, 2, f"give two: {example}")
        check_id(f"{where}[{i}][0]", node_id)
        check(f"{where}[{i}][1]", layer_value)
        if node_id in values:
            raise InputError(f"{where}[{i}]", f"repeats {show(node_id)}", "name each layer once")
        values[node_id] = layer_value
    return values


def read_entries(
    where: str, data: Mapping[str, Any], key: str, read: Callable[[str, Any], Read]
) -> tuple[Read, ...]:
    """The entries of a list that must be there."""
    return each(read)(join(where, key), require(where, data, key))


def checked(check: Callable[[str, Any], None]) -> Reader:
    """The reader that takes a value as it stands in the file where `check` accepts it."""

    def read(where: str, value: Any) -> Any:
        check(where, value)
        return value

    return read


def as_entries(where: str, value: object, count: int, remedy: str) -> list[Any]:
    """The value if it is a JSON list of so many entries."""
    entries = as_list(where, value)
    if len(entries) != count:
        raise InputError(where, f"has {several(len(entries), 'entry')}", remedy)
    return entries


def refuse_unknown(where: str, data: Mapping[str, Any], known: Collection[str]) -> None:
    """An unknown key is an error: a misspelt option must not vanish in silence."""
    for key in data:
        if key not in known:
            raise InputError(join(where, shorten(key)), "is an unknown key", f"{_nearest(key, known)} or remove it")


def _nearest(word: str, known: Collection[str]) -> str:
    close = nearest(word, known)
    return f'write "{close}"' if close else "use one of " + ", ".join(known)


def shorten(key: str) -> str:
    """A key as part of a field path: bare where it is a plain short word, quoted otherwise."""
    return key if key.isidentifier() and len(key) <= 40 else show(key)


def check_schema(top: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Files say which format and version they are in; others are refused, not guessed at."""
    schema = require("", top, "schema")
    if schema not in known:
        raise InputError("schema", f"is {show(schema)}", "give " + " or ".join(known))


# ---- records: frozen dataclasses as JSON objects, whose fields are the keys ----------------------------


def _read_defaults(kind: Any) -> Mapping[str, Any]:
    """The defaults by the names of all fields that files hold; `MISSING` where a field has none."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
        if field.metadata != AS_TEXT_NEVER
    }


_defaults: Callable[[Any], Mapping[str, Any]] = cache(_read_defaults)


def read_record(
    record: type[Record],
    where: str,
    value: object,
    example: str | None = None,
    /,
    names: Mapping[str, str] = NO_NAMES,
    refuse: Callable[[str, Mapping[str, Any], Collection[str]], None] | None = refuse_unknown,
    **readers: Reader,
) -> Record:
    """The record in a JSON object; what equals its default may be missing there.

    `readers` turn a place in the file and the value there into a field; a null that is the default stays None.
    `names` are the keys of fields that have another name in the file; `refuse` judges keys that are no fields.
    """
    defaults = _defaults(record)
    keys = [names.get(name, name) for name in defaults] if names else list(defaults)
    data = as_object(where, value, example or "{" + ", ".join(f'"{key}": ...' for key in keys) + "}")
    if refuse is not None:
        refuse(where, data, keys)
    values: dict[str, Any] = {}
    for (name, default), key in zip(defaults.items(), keys, strict=True):
        if key in data or default is MISSING:
            entry = require(where, data, key)
            as_it_is = name not in readers or (entry is None and default is None)
            values[name] = entry if as_it_is else readers[name](join(where, key), entry)
    return record(**values)


def read_problem(
    problem: type[Record],
    schema: str,
    data: object,
    names: Mapping[str, str] = NO_NAMES,
    refuse: Callable[[str, Mapping[str, Any], Collection[str]], None] = refuse_unknown,
    **readers: Any,
) -> Record:
    """The problem in a file of our own format: a record with a schema. An `InputError` names the field."""
    top = as_object("", data, f'{{"schema": "{schema}", ...}}')
    check_schema(top, (schema,))
    keys = (names.get(name, name) for name in _defaults(problem))
    refuse("", top, tuple(dict.fromkeys(("schema", "name", "time_unit", *keys))))
    return read_record(problem, "", top, names=names, refuse=None, **readers)


def read_plan(plan: type[Record], kind: str, where: str, data: object, example: str, **readers: Any) -> Record:
    """The plan of that kind: shape and types are read, and merits are not judged. `where` is its path in the file."""
    top = as_object(where, data, example)
    if require(where, top, "kind") != kind:
        raise InputError(join(where, "kind"), f"is {show(top['kind'])}", f'give "{kind}"')
    return read_record(plan, where, top, refuse=None, **readers)


def to_record(value: Any, names: Mapping[str, str] = NO_NAMES, **written: Any) -> dict[str, Any]:
    """The fields that differ from their defaults or have none; for those in `written`, the values there."""
    entries = ((name, getattr(value, name), default) for name, default in _defaults(type(value)).items())
    return {
        names.get(name, name): written[name] if name in written else plain(entry)
        for name, entry, default in entries
        if default is MISSING or entry != default
    }


def write_problem(problem: Any, schema: str, always: Sequence[str], **written: Any) -> dict[str, Any]:
    """The problem as JSON data: `always` first, and of the other fields those that differ from their defaults."""
    first = {name: written[name] if name in written else plain(getattr(problem, name)) for name in always}
    return {"schema": schema, **first, **to_record(problem, **{**first, **written})}


def plain(value: Any) -> Any:
    """A value in the form that JSON can hold: lists for tuples, objects for mappings and records."""
    if type(value) in SIMPLE:  # most values are, and are told at once
        return value
    if isinstance(value, tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, StrEnum):
        return str(value)
    if not is_dataclass(value):
        return as_python(value)
    return value.to_json() if hasattr(value, "to_json") else plain_fields(value)


def plain_fields(value: Any) -> dict[str, Any]:
    """All fields of a record by name, as JSON holds them."""
    return {name: plain(getattr(value, name)) for name in _defaults(type(value))}


def facts_of(
    problem: Any, counted: Sequence[str], told: Sequence[str], extensions: Sequence[str] = ()
) -> dict[str, Any]:
    """Facts of a problem: the number of entries of the fields `counted`, the values of the fields `told`, and the
    entries of those `extensions` that have any."""
    counts = {name: len(getattr(problem, name)) for name in counted}
    said = {name: getattr(problem, name) for name in told}
    extended = {name: plain(getattr(problem, name)) for name in extensions}
    return counts | said | {name: entries for name, entries in extended.items() if entries}


# ---- members of records that programs build ------------------------------------------------------------


def check_members(record: Any, where: str = "") -> None:
    """Refuse members of a record that are no records, lists or objects where its types ask for some, however deep.

    A constructor calls it before it reads members; lists become tuples on the way, and numbers, arrays and columns of
    numpy and pandas become those of Python. Numbers and texts are left to the checks that know their bounds and
    remedies. A type that is not understood here is not checked.
    """
    try:
        _settle_members(record)
    except InputError as error:
        raise InputError((where + error.field).removeprefix("."), error.problem, error.remedy) from None


Settler = Callable[[Any], Any]


def _members_of(kind: Any) -> tuple[tuple[str, Settler], ...]:
    """What checks each member that is more than a number or a text, by the type that its record declares."""
    hints = get_type_hints(kind)
    settlers = ((field.name, _settler(hints[field.name])) for field in fields(kind))
    return tuple((name, settle) for name, settle in settlers if settle is not None)


_settlers: Callable[[Any], tuple[tuple[str, Settler], ...]] = cache(_members_of)


def _settler(hint: Any) -> Settler | None:
    """The function that returns a value of this type as it is kept, or raises; None: any value will do."""
    origin, inner = get_origin(hint), get_args(hint)
    types = set(inner) if origin in (Union, UnionType) else {hint}
    if types <= SIMPLE and types & {int, float, bool}:
        return _settle_number
    if origin in (Union, UnionType):
        others = [each for each in inner if each is not NoneType]
        settle = _settler(others[0]) if len(others) == 1 else None
        return None if settle is None else lambda value: None if value is None else settle(value)
    if origin is tuple and inner[1:] == (...,):
        return partial(_settle_list, settle=_settler(inner[0]))
    if origin is tuple:  # edges, and pairs of names
        return partial(_settle_pair, types=inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_settle_object, settle=_settler(inner[1]))
    return partial(_settle_record, kind=hint) if isinstance(hint, type) and is_dataclass(hint) else None


def _settle_members(record: Any) -> None:
    """Settle all members; an error names the place from this record on, beginning with a dot or a bracket."""
    for name, settle in _settlers(type(record)):
        value = getattr(record, name)
        try:
            settled = settle(value)
        except InputError as error:
            raise InputError(f".{name}{error.field}", error.problem, error.remedy) from None
        if settled is not value:
            object.__setattr__(record, name, settled)


def as_python(value: Any) -> Any:
    """The value, or that of Python for a number, an array or a column of numpy or pandas, which are not imported."""
    return value.tolist() if hasattr(value, "tolist") else value


def _settle_number(value: Any) -> Any:
    return value if type(value) in SIMPLE else as_python(value)


def _settle_list(value: object, settle: Settler | None) -> tuple[Any, ...]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise InputError("", f"is {show(value)}, not a list", "give a list")
    entries = tuple(as_python(value))
    return entries if settle is None else _settle_entries(enumerate(entries), entries, settle)


def _settle_object(value: object, settle: Settler | None) -> Mapping[Any, Any]:
    if type(value) is not dict and not isinstance(value, Mapping):
        raise InputError("", f"is {show(value)}, not an object", "give {...}")
    if settle is None or not value:
        return value
    return dict(zip(value, _settle_entries(value.items(), tuple(value.values()), settle), strict=True))


def _settle_entries(
    entries: Iterable[tuple[Any, Any]], values: tuple[Any, ...], settle: Settler
) -> tuple[Any, ...]:
    """The settled values; they are settled one by one with their keys only where that raises."""
    try:
        return tuple(map(settle, values))
    except InputError:
        for key, value in entries:
            try:
                settle(value)
            except InputError as error:
                raise InputError(f"[{show(key)}]{error.field}", error.problem, error.remedy) from None
        raise


def _settle_pair(value: object, types: tuple[Any, ...]) -> tuple[Any, ...]:
    value = as_python(value)
    if not isinstance(value, (tuple, list)) or len(value) != len(types):
        what = "texts" if set(types) == {str} else "node ids: (source, target)"
        raise InputError("", f"is {show(value)}, not a pair", f"give two {what}")
    return tuple(map(_settle_number, value))


def _settle_record(value: object, kind: type) -> object:
    if not isinstance(value, kind):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__)
        article = "an" if words[0] in "AEIOU" else "a"
        raise InputError("", f"is {show(value)}, not {article} {words.lower()}", f"give {article} {kind.__name__}")
    if _settlers(kind):
        _settle_members(value)
    return value


def check_numbers(
    record: Any, where: str, most: int, limits: Mapping[str, tuple[int, int]] = MappingProxyType({})
) -> None:
    """Check every member that is a flag, a whole number or an amount by its declared type; None where that is allowed.

    Whole numbers are from 1 to `most`, or from the least to the most that `limits` has for them.
    """
    for name, kind, optional in _numbers(type(record)):
        value, place = getattr(record, name), join(where, name)
        if optional and value is None:
            continue
        if kind is bool:
            check_flag(place, value)
        elif kind is float:
            check_amount(place, value)
        else:
            least, largest = limits.get(name, (1, most))
            check_whole(place, value, largest, least)


def _numbers_of(kind: Any) -> tuple[tuple[str, type, bool], ...]:
    """Names of the numbers and flags of a record, the type of each, and whether it may be None."""
    found = []
    for name, hint in get_type_hints(kind).items():
        types = set(get_args(hint)) or {hint}
        (*only,) = types & {bool, int, float}
        if len(only) == 1 and types <= {*only, NoneType}:
            found.append((name, only[0], NoneType in types))
    return tuple(found)


_numbers: Callable[[Any], tuple[tuple[str, type, bool], ...]] = cache(_numbers_of)
