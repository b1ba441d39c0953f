"""One worker process, seen from the parent: started, listened to, watched and, where it must be, killed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...instances.base.clock import speed, wall
from ...instances.base.compiled import child_environment, own_python
from ...instances.base.errors import UsageError

if TYPE_CHECKING:
    from .client import Job

# How often deadlines and memory are looked at.
TICK_S = 0.1
# Bytes at the end of what a process printed that are kept for the message on its death.
LONGEST_LAST_WORDS = 2000

MODULE = f"{__package__}.worker"

# PR_SET_PDEATHSIG of Linux's prctl.
SET_PARENT_DEATH_SIGNAL = 1
_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Ask Linux to end this process when the thread that started it ends; elsewhere nothing happens here."""
    if _LIBRARY is not None:
        _LIBRARY.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


class Worker:
    """A process for one backend. Its thread starts it and lives as long as it does.

    (Linux ends a child when the *thread* that started it ends, so the caller's own thread will not do.)
    """

    def __init__(self, backend: str, on_death: Callable[[Worker], None]) -> None:
        if os.name == "nt":
            raise UsageError(
                f"{backend} runs in a process of its own, which pipeplan can start on Linux and macOS alone; on "
                "Windows use WSL (docs/start.md), or a method without a solver, which `plan planners` lists."
            )
        self.backend = backend
        self.listener: Job | None = None
        """Whom it tells: all calls come from the worker's own thread."""
        self._on_death = on_death
        self._send_lock = threading.Lock()
        self._started = threading.Event()
        self._chatter = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        ours, theirs = socket.socketpair()
        self._theirs = theirs
        self._connection: Connection[Any, Any] = Connection(ours.detach())
        threading.Thread(target=self._live, name=f"pipeplan-{backend}", daemon=True).start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def send(self, word: Any) -> None:
        """Hand over a task, or a message about it; that a worker is dead is no error here, and told elsewhere."""
        with self._send_lock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send(word)

    def kill(self) -> None:
        """End the process and every program that it started."""
        if self.alive():  # the number of a process that has ended may be somebody else's by now
            self._end_group(signal.SIGKILL)

    def ask_to_end(self) -> None:
        """SIGTERM: an idle worker ends at once, one inside a solver perhaps never."""
        if self.alive():
            self._end_group(signal.SIGTERM)

    def end_by(self, deadline: float) -> None:
        """Wait until the deadline (of `wall`), then kill."""
        while self.alive() and wall() < deadline:
            time.sleep(0.005)
        self.kill()

    def _end_group(self, how: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, how)

    def memory_bytes(self) -> int | None:
        """Bytes that the process and its children hold; None where the system does not say."""
        return resident_bytes(self.pid)

    # ---- the worker's thread ---------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            self._process = self._start()
        except OSError as error:
            self._failure = error
            return
        finally:
            self._theirs.close()
            self._started.set()
        self._listen()
        self._end_group(signal.SIGKILL)  # programs that it started may have survived it
        how = describe_end(self._process.wait(), self._last_words())
        self._chatter.close()
        self._on_death(self)
        if self.listener is not None:
            self.listener.died(how)

    def _start(self) -> subprocess.Popen[bytes]:
        descriptor = self._theirs.fileno()
        return subprocess.Popen(
            own_python("-m", MODULE, self.backend, str(descriptor), str(os.getpid())),
            stdin=subprocess.DEVNULL,
            stdout=self._chatter,
            stderr=self._chatter,
            pass_fds=(descriptor,),
            env=child_environment(),
            start_new_session=True,  # a Ctrl-C in the terminal is for the parent alone
        )

    def _listen(self) -> None:
        while True:
            try:
                message = self._connection.recv() if self._connection.poll(TICK_S) else None
            except (EOFError, OSError):
                return
            listener = self.listener
            if listener is None:
                continue
            if message is not None:
                listener.receive(message)
            listener.tick()

    def _last_words(self) -> str:
        """The end of what the process printed."""
        size = self._chatter.seek(0, os.SEEK_END)
        self._chatter.seek(max(0, size - LONGEST_LAST_WORDS))
        return self._chatter.read().decode(errors="replace").strip()


def describe_end(code: int, last_words: str, what: str = "solver") -> str:
    """Says in words how a process ended."""
    if code >= 0:
        last_line = last_words.splitlines()[-1] if last_words else ""
        return f"the {what} process ended with exit code {code}" + (f": {last_line}" if last_line else "")
    return f"the {what} process was killed (signal {-code})"


def resident_bytes(pid: int) -> int | None:
    """Bytes that the process and all that it started hold; None where the system does not say."""
    page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
    return _summed(pid, lambda folder: int((folder / "statm").read_text().split()[1]) * page)


def processor_seconds(pid: int) -> float | None:
    """Seconds that the process and all that it started have worked; None where the system does not say."""

    def worked(folder: Path) -> int:
        # After the name, which may hold spaces: its own ticks, and those of children that have ended.
        return sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:15]))

    ticks = _summed(pid, worked)
    return None if ticks is None else speed() * ticks / os.sysconf("SC_CLK_TCK")


def _summed(pid: int, amount: Callable[[Path], int]) -> int | None:
    """An amount of the process and of all that it started."""
    folder = Path(f"/proc/{pid}")
    try:
        total = amount(folder)
        # A child belongs to the thread that started it.
        children = [c for task in (folder / "task").iterdir() for c in (task / "children").read_text().split()]
    except (OSError, IndexError, ValueError):
        return None
    return total + sum(_summed(int(child), amount) or 0 for child in children)
