"""Finished runs on disk, one JSON line each, written through at once: what a killed comparison goes on from."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from ...instances.errors import InputError
from .run import SCHEMA, Record


class Journal:
    """An append-only file. A half-written last line, left by a kill, counts as not written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def exists(self) -> bool:
        return self.path.exists()

    def read(self) -> dict[str, Record]:
        """Finished runs by key; of runs with the same key the last."""
        if not self.path.exists():
            return {}
        lines = self.path.read_bytes().split(b"\n")
        # What follows the last line break is empty, or a line that was never finished.
        records = (self._record(number, line) for number, line in enumerate(lines[:-1], start=1))
        return {record.run.key: record for record in records}

    def _record(self, number: int, line: bytes) -> Record:
        try:
            data = json.loads(line)
            if data["schema"] != SCHEMA:
                raise ValueError(data["schema"])
            return Record.from_json(data)
        except (ValueError, KeyError, TypeError):
            field, remedy = f"line {number}", "delete the line, or compare into another folder"
            raise InputError(field, f"is no record of a run ({SCHEMA})", remedy, str(self.path)) from None

    def append(self, record: Record) -> None:
        self.extend([record])

    def extend(self, records: Iterable[Record]) -> None:
        """Write through to the disk before anybody hears of the run."""
        text = "".join(json.dumps(record.to_json(), allow_nan=False) + "\n" for record in records)
        with self._lock, self.path.open("ab+") as file:
            self._drop_half_line(file.fileno())
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def _drop_half_line(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            whole = self.path.read_bytes().rfind(b"\n") + 1
            os.ftruncate(descriptor, whole)
