"""The command line of pipeplan."""

from __future__ import annotations

import os
import sys

from .exits import INTERRUPTED, in_own_process, wind_down


def main(argv: list[str] | None = None) -> int:
    """Run the command line, and return its exit code. With PIPEPLAN_PROFILE=1 stderr tells where the time went."""
    if argv is not None:
        return _run(argv)
    in_own_process()
    try:
        return _run(argv)
    finally:
        wind_down()


def _run(argv: list[str] | None) -> int:
    try:
        if os.environ.get("PIPEPLAN_PROFILE") == "1":
            return _profiled(argv)
        from .app import main as run

        return run(argv)
    except KeyboardInterrupt:  # while modules are loaded, or a second time
        return INTERRUPTED


def _profiled(argv: list[str] | None) -> int:
    from ..instances.base import clock

    watch = clock.start_watch()
    try:
        from .app import main as run

        return run(argv)
    finally:
        clock.stop_watch()
        sys.stderr.write(clock.where_the_time_went(watch))
