"""How a command ends: by an exit code, or by Ctrl-C and SIGTERM.

These end the search, not the program: what was found is still judged, printed and saved.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..instances.base.result import Result


# ---- exit codes -----------------------------------------------------------------------------------------------


# A plan that the referee accepts (for lists and conversions: done).
OK = 0
# Infeasible, or a limit with nothing found; a proof that could not be confirmed.
NO_PLAN = 1
BAD_INPUT = 2
# The referee rejected a plan or contradicts the method, a result claims what is not so, or a second proof contradicts
# the first.
REJECTED = 3
# An error inside pipeplan: a bug.
INTERNAL = 70
# Interrupted with nothing to show.
INTERRUPTED = 130
# The reader of our output went away.
BROKEN_PIPE = 141


def exit_code(result: Result) -> int:
    """The code with which `plan` ends after this result: 0 for a verified plan, 3 for a rejected or
    contradicted one, 130 for an interrupt, else 1."""
    from ..instances.base.result import Found, Stop

    if result.contradicted or result.found == Found.REJECTED:
        return REJECTED
    if result.verified:
        return OK
    return INTERRUPTED if result.stop == Stop.INTERRUPTED else NO_PLAN


# ---- signals --------------------------------------------------------------------------------------------------


# The signals that end a search.
HEARD = (signal.SIGINT, signal.SIGTERM)

# At the third signal we no longer tidy up.
PATIENCE = 3

# Seconds after which an interrupt that Python dropped is raised again.
AGAIN_S = 0.05

# Does this process run nothing but the command line?
_alone = False
_searching = False
# Signals since the search began.
_count = 0


def in_own_process() -> None:
    """Take the signals of a process that runs this command alone: from here on they raise KeyboardInterrupt."""
    global _alone
    _alone = True
    for number in _heard():
        signal.signal(number, _interrupt)
    sys.unraisablehook = _again


def hear_no_more() -> None:
    """Hear no signal once a search has ended or the first file is written: none disturbs what is shown and saved.

    While a search goes on its files are a journal, and a signal still ends the search.
    """
    if _alone and not _searching and threading.current_thread() is threading.main_thread():
        for number in _heard():
            signal.signal(number, lambda number, frame: None)


def wind_down() -> None:
    """Ignore signals after the exit code is decided: Python drops handlers when it ends, and keeps what is ignored."""
    for number in HEARD:
        signal.signal(number, signal.SIG_IGN)
    # A KeyboardInterrupt that passed through code run from a string, as dataclasses and namedtuples do, makes Python
    # die of SIGINT at its end although it was caught; the next code run from a string makes it forget that.
    exec("")


def _heard() -> list[signal.Signals]:
    """The signals that our parent does not ignore: a Ctrl-C is not meant for a script's job in the background."""
    return [number for number in HEARD if signal.getsignal(number) != signal.SIG_IGN]


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _again(dropped: sys.UnraisableHookArgs) -> None:
    """Send an interrupt again that Python dropped, as it does with all that a finaliser raises."""
    global _count
    if dropped.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(dropped)
        return
    _count -= 1
    threading.Timer(AGAIN_S, signal.pthread_kill, [threading.main_thread().ident, _heard()[0]]).start()


@contextmanager
def graceful() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt in the search; later ones do not disturb the tidying up."""
    global _searching, _count
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _count = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        global _count
        _count += 1
        if _count == 1 or _count >= PATIENCE:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, on_signal) for number in _heard()}
    _searching = True
    try:
        yield
    finally:
        _searching = False
        hear_no_more()
        if not _alone:
            for number, handler in before.items():
                signal.signal(number, handler)
