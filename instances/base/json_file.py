"""Files in, files out: JSON that is read with suspicion, and writes that happen whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

from .errors import InputError, nearest, wrong_argument
from .fields import join, shorten

# The path of standard input, which is kept when it is read: a pipe cannot be read again.
STDIN = "/dev/stdin"

# A larger file is refused before it is read, unless the caller asks for more.
MAX_FILE_BYTES = 256 * 2**20


def read_json(path: str | os.PathLike[str], *, max_bytes: int = MAX_FILE_BYTES) -> Any:
    """Parse a JSON file; NaN and Infinity come through as floats so that their field can be named later."""
    return parse_json(read_text(path, max_bytes=max_bytes), str(path))


def read_text(path: str | os.PathLike[str], *, max_bytes: int = MAX_FILE_BYTES) -> str:
    """The text of a UTF-8 file, or an `InputError`; a byte order mark is dropped."""
    file = str(path)
    raw = read_bytes(path, max_bytes)
    if not raw.strip():
        raise InputError("content", "is empty", "give a file with an instance or a plan in it", file)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"byte {error.start + 1}", "is not UTF-8 text", "save the file with the encoding UTF-8", file
        ) from None


def holds_json(path: str | os.PathLike[str]) -> bool:
    """Does the file begin like an object or a list?"""
    return read_text(path).lstrip().startswith(("{", "["))


def begins_with(path: str | os.PathLike[str], words: str) -> bool:
    """Are these words at the beginning of the file? Where there is no file, they are not; standard input is left."""
    try:
        with open(path if str(path) != STDIN else os.devnull, "rb") as stream:
            return words.encode() in stream.read(200)
    except (OSError, ValueError):
        return False


def check_path(path: object) -> None:
    """Raise an InputError unless this is a path: Python takes a number for an open file, such as the terminal."""
    if not isinstance(path, (str, os.PathLike)):
        raise wrong_argument("path", path, "a path", "name a file, as a text or a pathlib.Path")


def read_bytes(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """The content of a file of at most so many bytes, or an `InputError`."""
    check_path(path)
    file = str(path)
    try:
        raw = _read_stdin(sys.stdin, max_bytes) if file == STDIN else _read_file(path, max_bytes)
    except FileNotFoundError:
        remedy = "check the path" if Path(file).suffix or os.sep in file else "name a file, not a packaged instance"
        raise InputError("file", f"does not exist{beside(file)}", remedy, file) from None
    except IsADirectoryError:
        raise InputError("file", "is a directory", "name a file in it", file) from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("file", f"cannot be read ({reason})", "check the path and its permissions", file) from None
    if len(raw) > max_bytes:
        raise _too_large(file, f"more than {max_bytes}", max_bytes)
    return raw


def beside(file: str) -> str:
    """A file of the same folder whose name is much like it, as a question."""
    folder, name = os.path.split(file)
    try:
        neighbour = nearest(name, os.listdir(folder or "."))
    except (OSError, ValueError):  # there is no such folder
        return ""
    return "" if neighbour is None else f" (did you mean {neighbour!r}?)"


def _read_file(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    with open(path, "rb") as stream:
        # Pipes and devices have no size; the read that follows is limited all the same.
        status = os.fstat(stream.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size > max_bytes:
            raise _too_large(str(path), str(status.st_size), max_bytes)
        return stream.read(max_bytes + 1)


@lru_cache(maxsize=1)
def _read_stdin(stream: TextIO, max_bytes: int) -> bytes:
    return stream.buffer.read(max_bytes + 1)


def _too_large(file: str, size: str, max_bytes: int) -> InputError:
    return InputError("file", f"has {size} bytes", f"give a file of at most {max_bytes} bytes", file)


# ---- JSON ----------------------------------------------------------------------------------------------


# Python's reader of TOML takes a time that is quadratic in the length of a dotted key.
MAX_TOML_BYTES = 128 * 2**10


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Parse a TOML file."""
    import tomllib  # few commands read TOML

    try:
        return tomllib.loads(read_text(path, max_bytes=MAX_TOML_BYTES))
    except RecursionError:
        raise InputError("content", "is nested too deeply", "correct the text there", str(path)) from None
    except ValueError as error:  # also for a whole number of thousands of digits
        raise InputError("content", f"is no TOML ({error})", "correct the text there", str(path)) from None


class _Repeating(dict[str, Any]):
    """An object in which a key stands twice; kept until its place in the file is known."""

    repeated: str


def parse_json(text: str, file: str) -> Any:
    """Strict JSON (keys once, nesting limited), except that NaN and Infinity pass."""
    repeating: list[_Repeating] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) == len(pairs):
            return built
        marked = _Repeating(built)
        seen: set[str] = set()
        marked.repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        repeating.append(marked)
        return marked

    data = _loads(text, file, build)
    if repeating:
        where, key = next((where, obj.repeated) for where, obj in _objects(data) if isinstance(obj, _Repeating))
        raise InputError(join(where, shorten(key)), "stands twice in one object", "give every key once", file)
    return data


def _loads(text: str, file: str, build: Any) -> Any:
    try:
        try:
            return json.loads(text, object_pairs_hook=build)
        except json.JSONDecodeError:
            raise
        except ValueError:
            # Python refuses to convert integers of thousands of digits: let the field check refuse them.
            return json.loads(text, object_pairs_hook=build, parse_int=_whole_or_infinite)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at").lower()
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(place, f"is not JSON ({what})", "correct the text there", file) from None
    except RecursionError:
        raise InputError(
            "content", "is nested too deeply", "give a file in one of the known formats", file
        ) from None


def _whole_or_infinite(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _objects(data: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object with its path. Iterative: the file may be nested as deeply as the parser allows."""
    pending = [("", data)]
    while pending:
        where, value = pending.pop()
        if isinstance(value, dict):
            yield where, value
            pending.extend((join(where, shorten(key)), child) for key, child in value.items())
        elif isinstance(value, list):
            pending.extend((f"{where}[{i}]", child) for i, child in enumerate(value))


# ---- writing -------------------------------------------------------------------------------------------


def write_json(path: str | os.PathLike[str], data: Any) -> None:
    """Write data as strict JSON, as `dump_json` lays it out, whole or not at all."""
    write_text_atomically(path, dump_json(data))


def dump_json(data: Any) -> str:
    """Strict JSON text; lists of records get one line per record, so that files can be read and compared."""
    if not isinstance(data, dict):
        return json.dumps(data, allow_nan=False) + "\n"
    entries = [f"  {json.dumps(key)}: {_dump_entry(value)}" for key, value in data.items()]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _dump_entry(value: Any) -> str:
    if not isinstance(value, list) or not value or not isinstance(value[0], (list, dict)):
        return json.dumps(value, allow_nan=False)
    return "[\n" + ",\n".join("    " + json.dumps(element, allow_nan=False) for element in value) + "\n  ]"


# What a spreadsheet takes for the beginning of a formula, and the apostrophe that says that a text is none.
FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r", "'")


def csv_cell(value: Any) -> Any:
    """A text that a spreadsheet would run gets an apostrophe in front, which is to be dropped on reading it back."""
    if not isinstance(value, str) or not value.startswith(FORMULA_MARKS) or _PLAIN_NUMBER.fullmatch(value):
        return value
    return "'" + value


_PLAIN_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


_announcements: list[Callable[[], None]] = []


def before_writing(announce: Callable[[], None]) -> None:
    """Have `announce` called before each file is written, so that the program may ignore interrupts from then on."""
    _announcements[:] = [announce]


def write_text_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Replace the file in one step: a reader, or a crash, sees the old file or the new one, never a part."""
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: str | os.PathLike[str], raw: bytes) -> None:
    """Replace a file that is no text, such as a picture, in one step."""
    check_path(path)
    for announce in _announcements:
        announce()
    try:
        # A link is followed, so that it stays a link to the new content.
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            # A terminal, a pipe or /dev/null cannot be replaced and is written to directly.
            target.write_bytes(raw)
            return
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
        _replace(target, raw, mode)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            "file",
            f"cannot be written ({reason})",
            "name a file in an existing folder that you may write to",
            str(path),
        ) from None


def _replace(target: Path, raw: bytes, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name[:50]}.", suffix=".tmp", dir=target.parent)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    """The permissions that new files are denied; there is no way to ask but to set it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
