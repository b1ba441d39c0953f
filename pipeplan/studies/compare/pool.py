"""Where runs run: processes of this machine, or the workers of a dask cluster; each finished one is told at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from ...instances.base.errors import UsageError
from .execute import execute, execute_job
from .run import Record, Run, Status

Tell = Callable[[Record], None]
TICK_S = 0.2
CONNECT_S = 10.0


def run_here(runs: Sequence[Run], problems: Mapping[str, str], jobs: int, tell: Tell) -> None:
    """`jobs` runs at a time, in their order. An interrupt kills those that run; they count as not begun."""
    cancelled = threading.Event()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        open_: set[Future[Record | None]] = {
            pool.submit(execute, run, problems[run.problem_hash], cancelled) for run in runs
        }
        try:
            while open_:
                finished, open_ = wait(open_, TICK_S, FIRST_COMPLETED)
                for future in finished:
                    record = future.result()
                    if record is not None:
                        tell(record)
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise


def run_on_cluster(runs: Sequence[Run], problems: Mapping[str, str], address: str, tell: Tell) -> None:
    """On the workers behind a dask scheduler. A run whose worker dies is given to another by dask itself."""
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as reason:
        raise UsageError(
            f"No dask scheduler answers at {address!r} ({reason}); start one with `dask scheduler`."
        ) from None
    with client:
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


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise UsageError(
            "--cluster needs dask's scheduler; install it with `pip install 'pipeplan[compare]'`."
        ) from None
    return distributed
