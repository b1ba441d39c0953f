"""Records of runs that never were, and tables of them."""

from __future__ import annotations

from typing import Any

from pipeplan.studies.compare.run import Record, Run, Status
from pipeplan.studies.compare.suite import Published
from pipeplan.studies.compare.table import tidy


def run(instance: str, method: str, seed: int = 0) -> Run:
    return Run(instance, "", method, "placement", f"hash of {instance}", planner=method, limits={"seed": seed})


def record(of: Run, value: float | None, stop: str = "completed", *, wall_s: float = 1.0, **more: Any) -> Record:
    """A finished run; `more` is what its result says besides."""
    result = {"verified": value is not None, "objective": value, "stop": stop, "seconds": {"total": wall_s}, **more}
    return Record(of, Status.DONE, result, wall_s=wall_s, peak_memory_bytes=300 * 2**20)


def frame(*records: Record, published: tuple[Published, ...] = ()) -> Any:
    return tidy([r.run for r in records], {r.run.key: r for r in records}, published)
