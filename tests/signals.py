"""`plan` as a process of its own, signals as it should find them, and when to send one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PLAN = (sys.executable, "-m", "pipeplan")
PATIENCE_S = 600.0


def hear_ctrl_c() -> None:
    """For `preexec_fn`: a job in the background of a script ignores SIGINT, which its children inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ignore_ctrl_c() -> None:
    """For `preexec_fn`: as a shell starts a job in the background of a script."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def after_work(pid: int, seconds: float, patience_s: float = PATIENCE_S) -> None:
    """Wait until a process has had so much processor time, which a busy machine gives it later, or for that long."""
    stat, end = Path(f"/proc/{pid}/stat"), time.monotonic() + patience_s
    while time.monotonic() < end:
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        if (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") >= seconds:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} had less than {seconds} s of processor time in {patience_s:g} s")


@contextlib.contextmanager
def started(*words: object, born: Callable[[], None] = hear_ctrl_c) -> Iterator[subprocess.Popen[str]]:
    """A `plan` process that does not outlive the test; `born`: what its signals are at its birth."""
    process = subprocess.Popen(
        [*PLAN, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=born,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
