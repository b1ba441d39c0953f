"""Ctrl-C and SIGTERM end the search, not the program: what was found is still judged, printed and saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HEARD = (signal.SIGINT, signal.SIGTERM)

PATIENCE = 3
"""At the third signal we no longer tidy up."""


@contextmanager
def graceful() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt in the search; later ones do not disturb the tidying up.

    What whoever started us had ignored stays ignored: a Ctrl-C is not meant for a job in the background of a script.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count == 1 or count >= PATIENCE:
            raise KeyboardInterrupt

    heard = [number for number in HEARD if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
