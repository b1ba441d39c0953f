"""The execution of runs: each in a watched process of its own, on this machine or on the workers of a dask cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import IO, Any

from ...instances.base.clock import wall
from ...instances.base.compiled import child_environment, own_python
from ...instances.base.errors import UsageError
from ...planners.backends.process import LONGEST_LAST_WORDS, describe_end, resident_bytes
from .run import Record, Run, Status

Tell = Callable[[Record], None]
# Seconds between two looks at the process of a run, and at all runs that are under way.
TICK_S, POOL_TICK_S = 0.1, 0.2
# Seconds to wait for the first word of a dask scheduler.
CONNECT_S = 5.0
# A method keeps its own time limit, but compiling machine code (a minute or two, once on a machine) does not count, and
# its plan must still be judged. So many seconds after the limit its process is killed.
GRACE_S = 150.0
CHILD = f"{__package__}.child"


def execute(run: Run, problem: str, cancelled: threading.Event | None = None) -> Record | None:
    """Execute a run in a process and return its record; None where it was cancelled. `problem` is in our own format."""
    started = wall()
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as chatter:
        process = _start(run, problem, answer, chatter)
        try:
            status, peak = _watch(process, run.limits, started, cancelled)
        finally:
            _kill(process)
        if status is None and cancelled is not None and cancelled.is_set():
            return None
        wall_s = wall() - started
        return _record(run, status, process.wait(), _read(answer), _read(chatter, LONGEST_LAST_WORDS), wall_s, peak)


def execute_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Execute a run from plain data to plain data, which can travel to another machine."""
    record = execute(Run(**job["run"]), job["problem"])
    assert record is not None, "nobody cancels it"
    return record.to_json()


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
    process: subprocess.Popen[bytes], limits: Mapping[str, Any], started: float, cancelled: threading.Event | None
) -> tuple[Status | None, int | None]:
    """Wait until the process ends or must be killed; return its status, None if cancelled, and the peak memory seen."""
    time_limit, memory_limit = limits.get("time_limit_s"), limits.get("memory_limit_bytes")
    peak: int | None = None
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TICK_S)
            return Status.DONE, peak
        if cancelled is not None and cancelled.is_set():
            return None, peak
        bytes_resident = resident_bytes(process.pid)
        peak = bytes_resident if peak is None else max(peak, bytes_resident or 0)
        if memory_limit is not None and bytes_resident is not None and bytes_resident > memory_limit:
            return Status.MEMORY, peak
        if time_limit is not None and wall() - started > time_limit + GRACE_S:
            return Status.TIME, peak


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


def _record(
    run: Run, status: Status | None, code: int, answer: str, last_words: str, wall_s: float, peak: int | None
) -> Record:
    facts: dict[str, Any] = {"wall_s": wall_s, "peak_memory_bytes": peak}
    if status == Status.MEMORY:
        return Record(run, status, message=f"held more than {run.limits['memory_limit_bytes']} bytes", **facts)
    if status == Status.TIME:
        return Record(run, status, message=f"still ran {GRACE_S:g} s after its limit", **facts)
    data = _parsed(answer) if code == 0 else None
    if data is None:
        return Record(run, Status.CRASHED, message=describe_end(code, last_words, "run's"), **facts)
    if "refused" in data:
        return Record(run, Status.REFUSED, message=data["refused"], versions=data["versions"], **facts)
    return Record(run, Status.DONE, data["result"], versions=data["versions"], **facts)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def run_here(runs: Sequence[Run], problems: Mapping[str, str], jobs: int, tell: Tell) -> None:
    """Execute `jobs` runs at a time, in their order. An interrupt kills those under way; they count as not begun."""
    cancelled = threading.Event()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        pending: set[Future[Record | None]] = {
            pool.submit(execute, run, problems[run.problem_hash], cancelled) for run in runs
        }
        try:
            while pending:
                finished, pending = wait(pending, POOL_TICK_S, FIRST_COMPLETED)
                for future in finished:
                    record = future.result()
                    if record is not None:
                        tell(record)
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise


def run_on_cluster(runs: Sequence[Run], problems: Mapping[str, str], address: str, tell: Tell) -> None:
    """Execute runs on the workers of a dask scheduler. A run whose worker dies is given to another by dask itself."""
    distributed = _distributed()
    _check_scheduler(distributed, address)
    with distributed.Client(address, timeout=CONNECT_S, set_as_default=False) as client:
        futures = {}
        for run in runs:
            job = {"run": run.to_json(), "problem": problems[run.problem_hash]}
            # The key must be this comparison's own: dask would answer a known key from its memory.
            futures[client.submit(execute_job, job, pure=False)] = run
        for future in distributed.as_completed(futures, loop=client.loop):
            error = future.exception()
            run = futures[future]
            tell(
                Record.from_json(future.result())
                if error is None
                else Record(run, Status.CRASHED, message=str(error))
            )


def _check_scheduler(distributed: Any, address: str) -> None:
    """Refuse an address where no dask scheduler answers. A client would try for long, and fail again when it ends."""

    async def hello() -> None:
        _, writer = await asyncio.open_connection(*distributed.comm.get_address_host_port(address))
        writer.close()  # somebody listens
        security = distributed.Security().get_connection_args("client")
        async with distributed.rpc(address, connection_args=security) as scheduler:
            await scheduler.identity()

    try:
        asyncio.run(asyncio.wait_for(hello(), CONNECT_S))
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error) or f"no answer within {CONNECT_S:g} s"
        raise UsageError(
            f"No dask scheduler answers at {address!r} ({reason}); start one with `dask scheduler`, and give the "
            "address that it prints (tcp://HOST:8786)."
        ) from None


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise UsageError(
            "--cluster needs dask's scheduler; install it with `pip install 'pipeplan[compare]'`."
        ) from None
    return distributed
