"""The command line of pipeplan."""

from __future__ import annotations

import os
import sys


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit code. With PIPEPLAN_PROFILE=1 stderr tells at the end where the time went."""
    if os.environ.get("PIPEPLAN_PROFILE") != "1":
        from .app import main as run

        return run(argv)
    from ..instances import stopwatch

    watch = stopwatch.start()
    try:
        from .app import main as run

        return run(argv)
    finally:
        stopwatch.stop()
        sys.stderr.write(stopwatch.told(watch))
