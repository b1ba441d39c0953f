"""Signals as children of a test should find them."""

from __future__ import annotations

import signal


def hear_ctrl_c() -> None:
    """For `preexec_fn`: a job in the background of a script ignores SIGINT, which its children inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ignore_ctrl_c() -> None:
    """For `preexec_fn`: as a shell starts a job in the background of a script."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
