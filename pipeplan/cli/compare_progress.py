"""Progress of a comparison on stderr: a line for each finished run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..instances.base.clock import wall
from ..show.console import clean, say_note
from ..show.words import amount_or, several

if TYPE_CHECKING:
    from ..studies.compare.comparison import Progress


class Lines:
    """A line on stderr for each run that ends: how many of all have ended, the result, its time, and the time left."""

    def __init__(self) -> None:
        self.started = wall()
        self.reused = 0

    def __call__(self, progress: Progress) -> None:
        for remark in progress.remarks:
            say_note(remark)
        if progress.record is None:
            self.reused = progress.finished
            words = f"{several(progress.total, 'run')}, {progress.finished} of them done before"
        else:
            words = f"[{progress.finished}/{progress.total}] {self._facts(progress)}"
        sys.stderr.write(clean(words) + "\n")
        sys.stderr.flush()

    def _facts(self, progress: Progress) -> str:
        record = progress.record
        assert record is not None
        result = record.result or {}
        word = str(result.get("stop") or record.status)
        parts = [
            record.run.title,
            word,
            amount_or(result.get("objective"), result.get("problem", {}).get("time_unit"), "no plan"),
            "" if record.wall_s is None else f"{record.wall_s:.1f} s",
            self._left(progress),
        ]
        return "  ".join(filter(None, parts))

    def _left(self, progress: Progress) -> str:
        done, left = progress.finished - self.reused, progress.total - progress.finished
        return f"about {(wall() - self.started) / done * left:.0f} s left" if left else ""
