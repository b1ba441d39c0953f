"""Finished work on disk, one JSON line each, written through at once, so that a study that was killed can go on."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..instances.base.errors import InputError
from ..instances.base.json_file import MAX_FILE_BYTES, read_bytes

Parsed = TypeVar("Parsed")


class Journal:
    """An append-only file. A half-written last line, left by a kill, counts as not written."""

    def __init__(self, path: Path | None, what: str, remedy: str) -> None:
        """Errors say `what` every line should be, and the `remedy`. Without a path nothing is kept."""
        self.path = path
        self._what, self._remedy = what, remedy
        self._lock = threading.Lock()

    def exists(self) -> bool:
        return self.path is not None and self.path.exists()

    def read(self, parse: Callable[[Any], Parsed]) -> list[tuple[int, Parsed]]:
        """All lines, each with its number in the file."""
        if self.path is None or not self.path.exists():
            return []
        # What follows the last line break is empty, or a line that was never finished.
        whole = read_bytes(self.path, MAX_FILE_BYTES).split(b"\n")[:-1]
        return [(n, self._parsed(n, line, parse)) for n, line in enumerate(whole, start=1) if line.strip()]

    def _parsed(self, number: int, line: bytes, parse: Callable[[Any], Parsed]) -> Parsed:
        try:
            return parse(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"line {number}", f"is no {self._what}", self._remedy, str(self.path)) from None

    def append(self, content: Mapping[str, Any]) -> None:
        self.extend([content])

    def extend(self, contents: Iterable[Mapping[str, Any]]) -> None:
        """Write lines through to the disk; the work counts as finished only afterwards."""
        if self.path is None:
            return
        text = "".join(map(line_of, contents))
        with self._lock, self.path.open("ab+") as file:
            _drop_half_line(self.path, file.fileno())
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def line_of(content: Mapping[str, Any]) -> str:
    return json.dumps(content, allow_nan=False) + "\n"


def _drop_half_line(path: Path, descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        whole = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(descriptor, whole)
