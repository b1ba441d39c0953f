"""Interrupts at chosen moments: before the k-th line that a piece of work executes in the modules of searches."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
PLANNERS = (
    "chain",
    "exact",
    "graph_pipeline",
    "memory",
    "placement",
    "schedule",
    "search.py",
    "staging",
    "training",
)
SEARCHES = tuple(str(ROOT / "planners" / name) for name in PLANNERS)
"""Folders and modules of searches; what is around them (the front door, solvers in other processes) is none."""

Answer = TypeVar("Answer")


class Lines:
    """Counts the lines that this thread executes in searches, and raises `KeyboardInterrupt` before one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.count = at, 0
        self._known: dict[str, bool] = {}

    @property
    def came(self) -> bool:
        return self.at is not None and self.count >= self.at

    def of(self, work: Callable[[], Answer]) -> Answer:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            return work()
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in self._known:
            path = str(Path(name).resolve())  # loops of kernels hear nothing when they are machine code
            self._known[name] = path.startswith(SEARCHES) and not path.endswith("_kernel.py")
        return self._line if self._known[name] else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self.at:  # Python traces no further after this
                raise KeyboardInterrupt
        return self._line
