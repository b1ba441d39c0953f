"""Runs of a command for `plan tune --command`: started, watched, ended, and what their output says.

The command comes from the command line, never from a file. It is split once, without a shell, and `supervisor.py`
stays with each run. A run is found again by the number of that process and the time of its start, so that a number
that somebody else has by now is left alone. What a run prints is data: numbers are checked, lines are shortened.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..instances.base.clock import wall
from ..instances.base.compiled import own_python
from ..instances.base.errors import InputError, PipeplanError, UsageError, show
from ..instances.base.json_file import write_text_atomically
from ..instances.base.quantities import several
from ..instances.training.plan import Configuration
from ..instances.training.problem import TrainingProblem
from ..instances.training.words import words_of
from ..planners.training.measured import Logged, run_of_text
from ..planners.training.runs import Run
from . import supervisor

State = Literal["started", "measured", "out of memory", "failed", "interrupted"]

# The most bytes of a run's output that are kept, besides its end.
MOST_LOG_BYTES = 64 * 2**20
# Seconds between SIGTERM and SIGKILL, between two looks at a run, and between two looks at what it printed.
GRACE_S, POLL_S = 20.0, 0.1
# Bytes at the end of an output in which its last line is looked for, and the most characters of it that are told.
LAST_BYTES, LAST_CHARACTERS = 4000, 120
# A run that is ended by its limit counts as measured from so many iterations on.
ENOUGH_ITERATIONS = 3


# ---- the command ---------------------------------------------------------------------------------------


# By framework the placeholder that stands for a configuration in its words; others are told the flags of Megatron.
PLACEHOLDERS = {"torchtitan": "{toml}", "deepspeed": "{json}"}
FLAGS = "{flags}"
# The placeholder that every framework has: key=value, each a word.
WORDS = "{words}"


@dataclass(frozen=True, slots=True)
class Command:
    """A command with placeholders, as it stood on the command line."""

    parts: tuple[str, ...]

    @classmethod
    def read(cls, text: str, framework: str) -> Command:
        """The command, split once; an error says what it lacks."""
        try:
            parts = shlex.split(text)
        except ValueError as error:
            raise InputError(
                "--command", f"cannot be split into words ({str(error).lower()})", "close every quote"
            ) from None
        usual = PLACEHOLDERS.get(framework, FLAGS)
        if not parts:
            raise InputError("--command", "is empty", f"give one, as in './train.sh {usual}'")
        for name in re.findall(r"\{\w*\}", text):
            if name not in (usual, WORDS):
                raise InputError(
                    "--command", f"has {name}, which {framework} does not have", f"write {usual} or {WORDS}"
                )
        if usual not in text and WORDS not in text:
            raise InputError(
                "--command", "names no configuration, so that all runs would be the same", f"add {usual} or {WORDS}"
            )
        for name in (FLAGS, WORDS):
            if any(name in part and part != name for part in parts):
                raise InputError("--command", f"has {name} within a word", "write it as a word of its own")
        program = shutil.which(parts[0])
        if program is None:
            exists = os.path.exists(parts[0])
            problem = "cannot be executed" if exists else "is no program that is found"
            remedy = f"chmod +x {parts[0]}" if exists else "check the path"
            raise InputError("--command", f"begins with {show(parts[0])}, which {problem}", remedy)
        return cls(tuple(parts))

    @property
    def digest(self) -> str:
        """What a campaign keeps of the command: enough to see that it changed, too little to run it."""
        return hashlib.sha256("\0".join(self.parts).encode()).hexdigest()

    def of(self, problem: TrainingProblem, plan: Configuration, folder: str | None) -> list[str]:
        """The words of a run; files are written to its folder. None: nothing is written, and FOLDER stands for it."""
        text, name = in_words_of(problem, plan)
        path = os.path.join(folder or "FOLDER", name)
        words: list[str] = []
        for part in self.parts:
            if part == FLAGS:
                words += shlex.split(text)
            elif part == WORDS:
                words += words_of(plan).split()
            else:
                words.append(part.replace("{toml}", path).replace("{json}", path))
        if folder is not None and words and not name.endswith(".args"):
            write_text_atomically(path, text)
        return words


def in_words_of(problem: TrainingProblem, plan: Configuration) -> tuple[str, str]:
    """A configuration as the framework is told it, and the name of the file with that text."""
    from ..kinds import EXPORT_OPTIONS, shown_kind

    exports = shown_kind(problem).exports
    exported = exports.get(problem.framework, exports["megatron"])(problem, plan, EXPORT_OPTIONS())
    return exported.text, next(iter(exported.files))


# ---- one run -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Process:
    """A run's process: its number, and the time of its start as the system tells it."""

    pid: int
    born: str

    def is_alive(self) -> bool:
        if self.pid < 1:
            return False
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)  # one of ours that has ended is let go
        return birth_of(self.pid) == self.born

    def send(self, number: signal.Signals) -> None:
        """A signal to the process and all that it started; one that leads no group of its own is none of ours."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.is_alive() and os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, number)

    def end(self) -> None:
        """SIGTERM, and after a while SIGKILL; a KeyboardInterrupt meanwhile kills at once."""
        self.send(signal.SIGTERM)
        try:
            end = wall() + GRACE_S
            while self.is_alive() and wall() < end:
                time.sleep(POLL_S)
        finally:
            self.send(signal.SIGKILL)
            while self.is_alive():
                time.sleep(POLL_S / 10)


def birth_of(pid: int) -> str | None:
    """When the process started, on a clock of the system's own; None where it has ended."""
    if os.path.exists("/proc/self/stat"):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    told = subprocess.run(  # macOS
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, born = told.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else born.strip()


def start(words: Sequence[str], folder: str) -> tuple[Process, Callable[[], None]]:
    """A process that waits, and the function that lets it run the command; if nobody calls it, nothing runs."""
    if os.name == "nt":
        raise UsageError("--command needs process groups, which Windows does not have; use WSL (docs/start.md).")
    theirs, ours = os.pipe()
    program = own_python("-I", "-S", str(supervisor.__file__), str(theirs), folder, str(MOST_LOG_BYTES), *words)
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            program, stdin=nothing, stdout=nothing, stderr=nothing, pass_fds=(theirs,), start_new_session=True
        )
    finally:
        os.close(theirs)
    process.returncode = 0  # `Process.is_alive` lets it go, not the destructor

    def go() -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(ours, supervisor.GO)
        os.close(ours)

    return Process(process.pid, birth_of(process.pid) or ""), go


def watch(process: Process, folder: str, limit_s: float | None, heard: Callable[[str], None]) -> bool:
    """Wait for the end of a run, or end it at its limit, at a Ctrl-C, or whatever else happens to us.

    `heard` is told the last line of its output now and then. Returns whether the limit was met.
    """
    end = None if limit_s is None else wall() + limit_s
    try:
        while process.is_alive():
            if end is not None and wall() >= end:
                process.end()
                return True
            heard(last_line(folder))
            time.sleep(POLL_S)
    except BaseException:
        process.end()
        raise
    return False


def new_folder(parent: str, number: int) -> str:
    """A folder for one run, which nobody else may read, within a folder of the campaign."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(parent, 0o700)
    status = os.lstat(parent)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise InputError(parent, "is no folder of yours", "move it away: runs are to be written there")
    return tempfile.mkdtemp(prefix=f"run-{number}-", dir=parent)


FOLDER = re.compile(r"run-[0-9]{1,6}-[A-Za-z0-9_]{1,20}")


# ---- what a run says -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, and what it measured."""

    state: State
    said: str
    seconds: float | None = None
    peak_bytes: float | None = None


def outcome_of(
    problem: TrainingProblem, plan: Configuration, folder: str, at_limit: bool, limit_s: float | None
) -> Outcome:
    """What came of a run that has ended, by its exit code and its output."""
    text, code = output_of(folder), code_of(folder)
    logged = Logged.of(text, problem)
    if logged.out_of_memory and (code != 0 or logged.seconds is None):
        return Outcome("out of memory", "the GPU ran out of memory")
    enough = logged.iterations >= ENOUGH_ITERATIONS
    if at_limit and not enough:
        return Outcome(
            "failed", f"it did not end within {limit_s:g} s, and no {ENOUGH_ITERATIONS} iterations were told"
        )
    if code is None and not at_limit:
        return Outcome("interrupted", "it was killed from outside before its end")
    if code and not at_limit:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        last = last_line(folder)
        return Outcome("failed", f"the command {how}" + (f": {last}" if last else " and printed nothing"))
    if logged.seconds is None:
        what = "tells no iteration of Megatron or torchtitan" if text.strip() else "is empty"
        return Outcome("failed", f"its output {what}")
    try:
        other = _other_run(problem, plan, text)
        Run(problem, plan, logged.seconds, "the log", logged.peak_bytes).check_plausible(by_hand=False)
    except PipeplanError as error:
        return Outcome("failed", str(error).rstrip("."))
    if other:
        return Outcome(
            "failed", f"its log tells of another run ({other}): does the command pass on what it is given?"
        )
    said = f"the median of {several(logged.iterations, 'iteration')}" + ", ended at the limit of the run" * at_limit
    return Outcome("measured", said, logged.seconds, logged.peak_bytes)


def _other_run(problem: TrainingProblem, plan: Configuration, text: str) -> str:
    """In what the configuration in the log differs from the one that was asked for; logs without one differ in none."""
    try:
        run = run_of_text("the log", text, problem)
    except PipeplanError:
        return ""  # such a log names no configuration, or flags that are the user's own
    sizes = {
        name: (getattr(problem, name), getattr(run.problem, name)) for name in ("devices", "batch", "sequence")
    }
    degrees = {
        name: (getattr(plan.degrees, name), getattr(run.plan.degrees, name))
        for name in ("tensor", "context", "pipeline", "data")
    }
    every = {**sizes, **degrees, "micro-batch": (plan.micro_batch, run.plan.micro_batch)}
    return ", ".join(f"{name} {is_} for {asked}" for name, (asked, is_) in every.items() if is_ != asked)


def output_of(folder: str) -> str:
    """What a run printed, as text; empty where it printed nothing."""
    return _read(folder, "log", MOST_LOG_BYTES + 2 * supervisor.TAIL_BYTES).decode(errors="replace")


def code_of(folder: str) -> int | None:
    """The exit code of a run's command; None where it was killed together with its supervisor."""
    try:
        return int(_read(folder, "end", 20))
    except ValueError:
        return None


def last_line(folder: str) -> str:
    """The last line that a run has printed, shortened."""
    lines = _read(folder, "log", LAST_BYTES, from_end=True).decode(errors="replace").splitlines()
    last = next((line for line in reversed(lines) if line.strip()), "")
    return " ".join(last.split())[:LAST_CHARACTERS]


def _read(folder: str, name: str, most: int, from_end: bool = False) -> bytes:
    """At most so many bytes of a file of a run; a link or a pipe, which no run leaves there, has none."""
    try:
        descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        if from_end:
            file.seek(max(0, status.st_size - most))
        return file.read(most)
