"""One process for each rank on this machine: started together, ended together, whatever happens to one of them.

Ranks are told their job as JSON, in a folder that the launcher makes and removes. What a `Job` holds may be changed
freely, since both sides are of one version.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...instances.base.clock import wall
from ...instances.base.compiled import child_environment, own_python
from ...instances.base.errors import PipeplanError, UsageError
from ...instances.base.json_file import read_json, write_json
from ...instances.timeline.model import Pass
from ..from_torch import place_of
from .orders import RunStage, Schedule

# Seconds between two looks at the processes.
POLL_S = 0.05
# Seconds for the others to fail, too, after one rank has: the first cause may be theirs.
GRACE_S = 5.0
# Words in the sentence of a rank that only lost its connection to another.
CONSEQUENCES = ("connection", "gloo", "timed out", "timeout", "peer")
# One thread and few messages for each rank; gloo talks over the machine's own interface.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
if sys.platform == "linux":
    ENVIRONMENT["GLOO_SOCKET_IFNAME"] = "lo"


class RunError(PipeplanError):
    """The run ended without a measurement; the message says which rank failed and why."""


def launch(job: Job) -> list[dict[str, Any]]:
    """Run all ranks, and return what each measured."""
    with tempfile.TemporaryDirectory(prefix="pipeplan-run-") as name:
        folder = Path(name)
        job.write(folder)
        with _started(folder, job.ranks) as processes:
            _wait(processes, folder, job.deadline_s)
        return [read_json(answer_file(folder, rank)) for rank in range(job.ranks)]


@contextmanager
def _started(folder: Path, ranks: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """All ranks, started in sessions of their own, so that a Ctrl-C comes to us alone; they end with the block."""
    processes: list[subprocess.Popen[bytes]] = []
    command = own_python("-m", "pipeplan.models.run.rank", str(folder))
    try:
        for rank in range(ranks):
            with (folder / f"rank-{rank}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [*command, str(rank)],
                        stdin=subprocess.PIPE,
                        stdout=log,
                        stderr=log,
                        env={**child_environment(), **ENVIRONMENT},
                        start_new_session=True,
                    )
                )
        yield processes
    finally:
        for process in processes:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with whatever it has started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    process.wait()


def _wait(processes: Sequence[subprocess.Popen[bytes]], folder: Path, deadline_s: float) -> None:
    """Wait until all processes have ended well; raise where one fails, or after `deadline_s` seconds."""
    end = wall() + deadline_s
    while True:
        codes = [process.poll() for process in processes]
        if any(codes):
            # The other ranks end soon, or one of them says what the user can mend.
            grace = wall() + GRACE_S
            while (
                wall() < grace and None in (codes := [process.poll() for process in processes]) and 2 not in codes
            ):
                time.sleep(POLL_S)
            raise _failure([process.poll() for process in processes], folder)
        if all(code == 0 for code in codes):
            return
        if wall() > end:
            running = ", ".join(str(rank) for rank, code in enumerate(codes) if code is None)
            raise RunError(
                f"The run has not ended after {deadline_s:g} s (rank {running} still runs); give fewer --steps or a "
                "longer --time-limit."
            )
        time.sleep(POLL_S)


def _failure(codes: Sequence[int | None], folder: Path) -> PipeplanError:
    """The error of the rank that failed first: one that the user can mend, else one that is no lost connection."""
    said = {rank: _said(folder, rank) for rank, code in enumerate(codes) if code}
    lost = {rank: any(word in said[rank].lower() for word in CONSEQUENCES) for rank in said}
    rank = min(said, key=lambda rank: (codes[rank] != 2, lost[rank], rank))
    text = said[rank]
    if codes[rank] == 2:
        return RunError(text)
    code = codes[rank] or 0
    how = (
        f"was ended by signal {-code}" if code < 0 else f"failed with {text}" if text else f"ended with code {code}"
    )
    log = folder / f"rank-{rank}.log"
    shown = "\n" + log.read_text(errors="replace") if os.environ.get("PIPEPLAN_DEBUG") == "1" else ""
    return RunError(f"Rank {rank} {how.rstrip('.')}; PIPEPLAN_DEBUG=1 shows where.{shown}")


def _said(folder: Path, rank: int) -> str:
    file = error_file(folder, rank)
    return file.read_text() if file.exists() else ""


def address_of(build: Callable[..., Any] | str) -> str:
    """FILE:FUNCTION with the whole path."""
    if isinstance(build, str):
        file, name = place_of(build, "--model")
        return f"{os.path.abspath(file)}:{name}"
    try:
        source = inspect.getsourcefile(build)
    except TypeError:
        source = None
    name = getattr(build, "__qualname__", "")
    if source is None or not name.isidentifier() or not os.path.isfile(source):
        raise UsageError(
            "Each rank is a process that calls the function anew; give a function at the top level of a file."
        )
    return f"{os.path.abspath(source)}:{name}"


# ---- job ------------------------------------------------------------
# What the ranks are told, as JSON, and the names of all files in the folder that the launcher makes and removes.


JOB, STORE = "job.json", "store"


@dataclass(frozen=True, slots=True)
class Case:
    """A plan to be run: its stages, and the orders of the ranks."""

    name: str
    stages: tuple[RunStage, ...]
    orders: tuple[tuple[Pass, ...], ...]

    @classmethod
    def of(cls, name: str, schedule: Schedule) -> Case:
        return cls(name, schedule.stages, schedule.orders)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Case:
        stages = tuple(RunStage(s["name"], tuple(s["nodes"]), tuple(s["ranks"])) for s in data["stages"])
        orders = tuple(tuple(Pass(*p) for p in order) for order in data["orders"])
        return cls(data["name"], stages, orders)


@dataclass(frozen=True, slots=True)
class Job:
    """All that a rank has to know; the same for all of them."""

    model: str
    """The function that makes the model, written as FILE:FUNCTION."""
    samples: int
    """Samples of a micro-batch, for functions that take their number."""
    graph_sha256: str
    granularity: str
    loss: str | None
    training: bool
    ranks: int
    micro_batches: int
    steps: int
    warm_up: int
    check: bool
    deadline_s: float
    cases: tuple[Case, ...]
    """Plans that are run in turn, step by step, so that load on the machine is shared by all."""
    seed: int = 0

    def write(self, folder: Path) -> None:
        write_json(folder / JOB, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Job:
        data = read_json(folder / JOB)
        return cls(**{**data, "cases": tuple(map(Case.from_json, data["cases"]))})


def answer_file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.json"


def error_file(folder: Path, rank: int) -> Path:
    """The file with the sentence that is shown where the rank fails."""
    return folder / f"rank-{rank}.error"
