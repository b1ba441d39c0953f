"""One run of a comparison, as plain data: what is to be solved by what, how a process executes it, and its record.

`python -P -m pipeplan.studies.compare.run PARENT` is that process: a job on stdin, an answer on stdout. A process of
its own for each run makes limits hard, crashes harmless and times comparable: nobody inherits another's warm caches.
A field may be added to a run or a record; a run's key is a digest of all its fields, so that stored runs are then
repeated.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import IO, Any

from ...instances.base.clock import wall, when_compiling
from ...instances.base.compiled import child_environment, own_python
from ...instances.base.errors import PipeplanError, UsageError
from ...instances.base.result import Found, Result, Stop
from ...instances.files import problem_from_text, problem_to_text
from ...instances.registry import Problem
from ...instances.stored_results import result_from_json
from ...planners.backends import process as processes
from ...planners.options import LATE_SHARE, SolveOptions
from ...planners.registry import find_method
from ..journal import changed, own_version, plugin_code

SCHEMA = "pipeplan.run/1"


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that decides a run; tables name it by its labels."""

    instance: str
    setting: str
    """Label of the cluster that overrides the instance's own; empty where there is none."""
    method: str
    kind: str
    problem_hash: str
    formulation: str | None = None
    planner: str | None = None
    solver: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `SolveOptions`, the seed among them, and `processor_s`: seconds that all its processes may work."""
    made_by: Mapping[str, str | None] = field(default_factory=dict)
    """Versions of what computes the result, and digests of plug-ins' code: another one makes it another run."""

    @property
    def key(self) -> str:
        """A digest of all fields: a resumed comparison does not repeat a run with the same key."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def question(self) -> str:
        """A digest of what is asked, whoever answers it and within what limits: by it stored runs are told as stale."""
        return replace(self, made_by={}, limits={"seed": self.seed}).key

    @property
    def seed(self) -> int:
        return int(self.limits.get("seed", 0))

    @property
    def title(self) -> str:
        return " ".join(filter(None, (self.instance, self.setting, self.method, f"seed {self.seed}")))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Status(StrEnum):
    """How the process of a run ended; what the method found is in its result."""

    DONE = "done"
    REFUSED = "refused"
    """The method cannot plan this problem, or an option does not fit: the message says why."""
    CRASHED = "crashed"
    TIME = "time"
    """Killed long after its own limit."""
    MEMORY = "memory"
    """Killed at its memory limit."""


@dataclass(frozen=True, slots=True)
class Record:
    """A finished run. `result` is a `pipeplan.result/1` object, None where there is none."""

    run: Run
    status: Status
    result: Mapping[str, Any] | None = None
    message: str | None = None
    wall_s: float | None = None
    peak_memory_bytes: int | None = None
    versions: Mapping[str, str | None] = field(default_factory=dict)
    output: str = ""
    """The end of what the process printed."""

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "key": self.run.key, **asdict(self), "status": str(self.status)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        if data["schema"] != SCHEMA:
            raise ValueError(data["schema"])
        fields = {name: data[name] for name in ("result", "message", "wall_s", "peak_memory_bytes", "versions")}
        return cls(Run(**data["run"]), Status(data["status"]), **fields, output=data.get("output", ""))


# ---- the process of a run, as its parent sees it --------------------------------------------------------------


Tell = Callable[[Record], None]
# Seconds between two looks at the process of a run.
TICK_S = 0.1
# Marks in front of the answer: the method has begun; a further one, that it has made machine code.
BEGUN = 1
# So many seconds after a limit, and after the share by which a method may be late, its process is killed. A method
# keeps its limit or is interrupted, and its plan must still be judged. Limits of time count from where it begins.
GRACE_S = 20.0
# To begin, and to make machine code (a minute or two, once on a machine), which counts in no limit, it may take longer,
# and so it may on a busy machine, where it works for more than this share of the time and has not worked GRACE_S yet.
SLOW_S, WAITING = 150.0, 0.02
INTERRUPTED = "was killed after Ctrl-C, as it had no plan"
CHILD = f"{__package__}.run"


def execute(run: Run, problem: str, cancelled: threading.Event | None = None) -> Record | None:
    """Execute a run in a process and return its record; None where it was cancelled. `problem` is in our own format."""
    started = wall()
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as chatter:
        process = _start(run, problem, answer, chatter)
        try:
            status, why, peak = _watch(process, answer, run.limits, started, cancelled)
        finally:
            _kill(process)
        if status is None and cancelled is not None and cancelled.is_set():
            return None
        wall_s = wall() - started
        return _record(
            run,
            status,
            why,
            process.wait(),
            _read(answer),
            _read(chatter, processes.LONGEST_LAST_WORDS),
            wall_s,
            peak,
        )


def solve_apart(problem: Problem, planner: str, options: Mapping[str, Any], limits: SolveOptions) -> Result:
    """Plan by a function in a user's file, as comparisons do: in a process of its own, whose limits are hard, whose
    result is data, and of whose output the end goes to stderr."""
    from ...planners.run.solve import describe

    entry = find_method(planner)
    assert entry is not None, "the caller has found it"
    told = {name: value for name, value in limits.to_json().items() if name not in ("log_path", "native")}
    run = Run(problem.name, "", planner, problem.kind, problem.hash, planner=planner, options=options, limits=told)
    run = replace(run, made_by=plugin_code(entry.for_kind(problem.kind), run.solver))
    record = execute(run, problem_to_text(problem))
    assert record is not None, "nobody cancels it"
    sys.stderr.write(record.output and f"{record.output}\n")
    if record.result is not None:
        return replace(result_from_json(record.result), subject=problem)
    if record.status in (Status.REFUSED, Status.CRASHED):
        raise UsageError(str(record.message))
    ended = Stop.INTERRUPTED if record.message == INTERRUPTED else Stop.TIME
    stop = Stop.MEMORY if record.status == Status.MEMORY else ended
    return Result(
        describe(problem), stop, Found.NOTHING, planner=planner, messages=(f"{planner} {record.message}",)
    )


def _start(run: Run, problem: str, answer: IO[bytes], chatter: IO[bytes]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        own_python("-m", CHILD, str(os.getpid())),
        stdin=subprocess.PIPE,
        stdout=answer,
        stderr=chatter,
        env=child_environment(),
        start_new_session=True,  # a Ctrl-C in the terminal is for the parent alone
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps({"run": run.to_json(), "problem": problem}).encode())
    return process


def _watch(
    process: subprocess.Popen[bytes],
    answer: IO[bytes],
    limits: Mapping[str, Any],
    started: float,
    cancelled: threading.Event | None,
) -> tuple[Status | None, str, int | None]:
    """Wait until the process ends or must be killed; return its status, None if cancelled, why it must be killed, and
    the peak memory seen. An interrupt of the user's is handed on, for the best plan; a second one kills."""
    time_limit, memory_limit = limits.get("time_limit_s"), limits.get("memory_limit_bytes")
    processor_limit, peak, begun, end = limits.get("processor_s"), None, False, math.inf
    why, worked_before = "", None
    while True:
        try:
            process.wait(TICK_S)
            return Status.DONE, why, peak
        except subprocess.TimeoutExpired:
            pass
        except KeyboardInterrupt:
            if why == INTERRUPTED or not begun:
                return Status.TIME, INTERRUPTED, peak
            process.send_signal(signal.SIGINT)
            why, end = INTERRUPTED, wall()
        marks = os.fstat(answer.fileno()).st_size
        if not begun and (marks or wall() > started + SLOW_S):
            begun = True
            end = min(end, math.inf if time_limit is None else wall() + time_limit * (1 + LATE_SHARE))
        if cancelled is not None and cancelled.is_set():
            return None, why, peak
        bytes_resident = processes.resident_bytes(process.pid)
        peak = bytes_resident if peak is None else max(peak, bytes_resident or 0)
        if memory_limit is not None and bytes_resident is not None and bytes_resident > memory_limit:
            return Status.MEMORY, f"held more than {memory_limit} bytes", peak
        worked, late = processes.processor_seconds(process.pid), wall() - end
        if processor_limit is not None and (worked or 0.0) > processor_limit:
            process.send_signal(signal.SIGINT)  # it answers with its best plan
            processor_limit, end = None, min(end, wall())
        if late > 0 and worked_before is None:
            worked_before = worked
        since = None if worked is None or worked_before is None or marks != BEGUN else worked - worked_before
        if late > (grace := _grace(since, late)):
            late_by = f"was killed, as it gave no answer within {grace:g} s of its limit and {LATE_SHARE:.0%} of it"
            return Status.TIME, why or late_by, peak


def _grace(worked: float | None, late: float) -> float:
    """Seconds after its limit that a process has, which has worked so many of them; None: that does not count."""
    return SLOW_S if worked is None or WAITING * late < worked < GRACE_S else GRACE_S


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process of the run; the solvers that it started die with it."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(stream: IO[bytes], last: int | None = None) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0 if last is None else max(0, size - last))
    return stream.read().decode(errors="replace").strip()


# ---- many runs ------------------------------------------------------------------------------------------------


def _record(
    run: Run,
    status: Status | None,
    why: str,
    code: int,
    answer: str,
    last_words: str,
    wall_s: float,
    peak: int | None,
) -> Record:
    facts: dict[str, Any] = {"wall_s": wall_s, "peak_memory_bytes": peak, "output": last_words}
    if status in (Status.MEMORY, Status.TIME):
        return Record(run, status, message=why, **facts)
    if code == -signal.SIGINT:
        return Record(run, Status.TIME, message=why or "was interrupted at its limit, and had no plan", **facts)
    data = None
    if code == 0:
        with contextlib.suppress(ValueError):
            data = json.loads(answer)
    if data is None:
        return Record(run, Status.CRASHED, message=processes.describe_end(code, last_words, "run's"), **facts)
    if "status" in data:
        return Record(run, Status(data["status"]), message=data["message"], versions=data["versions"], **facts)
    return Record(run, Status.DONE, data["result"], versions=data["versions"], **facts)


def run_here(runs: Sequence[Run], problems: Mapping[str, str], jobs: int, tell: Tell) -> None:
    """Execute `jobs` runs at a time, in their order. An interrupt kills those under way; they count as not begun."""
    cancelled = threading.Event()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            futures = [pool.submit(execute, run, problems[run.problem_hash], cancelled) for run in runs]
            for future in as_completed(futures):
                if (record := future.result()) is not None:
                    tell(record)
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise


# ---- the process itself ---------------------------------------------------------------------------------------


def main(parent: int) -> None:
    processes.die_with_parent()
    if os.getppid() != parent:
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have turned off
    job = json.load(sys.stdin)
    # What anybody prints, in whatever way, must not get into the answer.
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)
        when_compiling(mark := lambda: print(file=answer, flush=True))
        json.dump(_answer(job, mark), answer, allow_nan=False)


def _answer(job: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    from ...formulations.plugins import PluginMistakeError
    from ...planners.run.solve import solve

    run = job["run"]
    try:
        _check_code(run)
        method = {name: run[name] for name in ("formulation", "planner", "solver", "options")}
        problem, own = problem_from_text(job["problem"]), dict(run["limits"])
        processor_limit = own.pop("processor_s", None)
        begin()
        result = solve(problem, **method, limits=SolveOptions(**own))
        if result.stop == Stop.INTERRUPTED and processor_limit is not None:  # nobody else interrupts it
            result = replace(result, stop=Stop.TIME)
    except PipeplanError as error:
        status = Status.CRASHED if isinstance(error, PluginMistakeError) else Status.REFUSED
        return {"status": status, "message": str(error), "versions": versions()}
    return {"result": result.to_json(), "versions": versions()}


def _check_code(run: dict[str, Any]) -> None:
    """Refuse to run other code of a plug-in than the run names."""

    entry = find_method(run["formulation"] or run["planner"])
    now = {} if entry is None else plugin_code(entry.for_kind(run["kind"]), run["solver"])
    others = [name for name in changed(run["made_by"], now) if name in now]
    if others:
        raise UsageError(
            f"A plug-in has changed since the comparison began, or differs on this machine ({', '.join(others)}); "
            "the same command with --resume runs it again."
        )


def versions() -> dict[str, str | None]:
    """Versions of what computes; solvers name theirs in the result."""

    system = platform.platform(terse=True)
    return {"pipeplan": own_version(), "python": platform.python_version(), "system": system}


if __name__ == "__main__":
    main(int(sys.argv[1]))
