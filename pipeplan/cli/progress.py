"""Progress on stderr: a live line, plain lines, JSON lines, or nothing; of a comparison a line for each ended run."""

from __future__ import annotations

import json
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from ..instances.base.clock import wall
from ..planners.options import Progress
from ..show.console import clean, number, say_note
from ..show.words import amount_or, several

if TYPE_CHECKING:
    from rich.live import Live

    from ..studies.compare.comparison import Progress as OfComparison

# Seconds between two plain lines where no better plan comes.
PLAIN_LINE_EVERY_S = 2.0


class Reporter:
    """Reports nothing, and is the base of those that do. Records may come from several threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __enter__(self) -> Reporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, record: Progress) -> None:
        with self.lock:
            self.tell(record)

    def tell(self, record: Progress) -> None:
        pass

    def close(self) -> None:
        pass


class JsonLines(Reporter):
    def tell(self, record: Progress) -> None:
        sys.stderr.write(json.dumps(record.to_json()) + "\n")
        sys.stderr.flush()


class PlainLines(Reporter):
    """A line for every better plan, and one every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.incumbent: float | None = None
        self.said_at = 0.0

    def tell(self, record: Progress) -> None:
        if record.incumbent != self.incumbent or record.seconds - self.said_at >= PLAIN_LINE_EVERY_S:
            self.incumbent, self.said_at = record.incumbent, record.seconds
            sys.stderr.write(line(record) + "\n")
            sys.stderr.flush()


class LiveLine(Reporter):
    """One line that is redrawn in place and vanishes at the end."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.live import Live

        self.live: Live = Live(
            console=Console(file=sys.stderr), refresh_per_second=4, transient=True, redirect_stdout=False
        )

    def __enter__(self) -> Reporter:
        self.live.start()
        return self

    def tell(self, record: Progress) -> None:
        from rich.text import Text

        self.live.update(Text(line(record), overflow="ellipsis", no_wrap=True))

    def close(self) -> None:
        self.live.stop()


def line(record: Progress) -> str:
    """Incumbent, bound, gap and time in one line."""
    gap = "-" if record.gap is None else f"{100 * record.gap:.3f} %"
    values = f"incumbent {number(record.incumbent)}  bound {number(record.bound)}  gap {gap}"
    source = f"  {clean(record.source)}" if record.source else ""
    return f"{record.seconds:7.1f} s  {values}{source}"


def reporter(mode: str | None) -> Reporter:
    """The reporter of a mode; None, where no mode is asked for, draws on a terminal and is silent elsewhere."""
    if mode == "json":
        return JsonLines()
    if mode != "none" and sys.stderr.isatty():
        return LiveLine()
    return PlainLines() if mode == "auto" else Reporter()


# ---- comparisons ----------------------------------------------------------------------------------------------


class Lines:
    """A line on stderr for each run that ends: how many of all have ended, the result, its time, and the time left."""

    def __init__(self) -> None:
        self.started = wall()
        self.reused = 0

    def __call__(self, progress: OfComparison) -> None:
        for remark in progress.remarks:
            say_note(remark)
        if progress.record is None:
            self.reused = progress.finished
            words = f"{several(progress.total, 'run')}, {progress.finished} of them done before"
        else:
            words = f"[{progress.finished}/{progress.total}] {self._facts(progress)}"
        sys.stderr.write(clean(words) + "\n")
        sys.stderr.flush()

    def _facts(self, progress: OfComparison) -> str:
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

    def _left(self, progress: OfComparison) -> str:
        done, left = progress.finished - self.reused, progress.total - progress.finished
        return f"about {(wall() - self.started) / done * left:.0f} s left" if left else ""
