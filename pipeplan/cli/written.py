"""`wrote FILE` on stderr: the one place that says so, whoever has written the file."""

from __future__ import annotations

import os
import stat

import typer

from ..show.console import say_written


def watch(context: typer.Context, path: str) -> None:
    """Say at the end of the command that the file was written, if it was."""
    before = _state(path)

    def tell() -> None:
        if _state(path) not in (None, before):
            say_written(path)

    context.call_on_close(tell)


def _state(path: str) -> tuple[int, ...] | None:
    """What changes whenever a file is written; None where there is no file, or a terminal or a pipe in its place."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size) if stat.S_ISREG(found.st_mode) else None
