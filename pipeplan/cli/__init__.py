"""The command line of pipeplan."""

from __future__ import annotations

from .exits import INTERRUPTED, in_own_process, wind_down


def main(argv: list[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    if argv is not None:
        return _run(argv)
    in_own_process()
    try:
        return _run(argv)
    finally:
        wind_down()


def _run(argv: list[str] | None) -> int:
    try:
        from .app import main as run

        return run(argv)
    except KeyboardInterrupt:  # while modules are loaded, or a second time
        return INTERRUPTED
