"""Signals as children of a test should find them, and when to send one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def hear_ctrl_c() -> None:
    """For `preexec_fn`: a job in the background of a script ignores SIGINT, which its children inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ignore_ctrl_c() -> None:
    """For `preexec_fn`: as a shell starts a job in the background of a script."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def after_work(pid: int, seconds: float, patience_s: float = 600.0) -> None:
    """Wait until a process has had so much processor time, which a busy machine gives it later, or for that long."""
    stat, end = Path(f"/proc/{pid}/stat"), time.monotonic() + patience_s
    while time.monotonic() < end:
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        if (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") >= seconds:
            return
        time.sleep(0.05)
