"""What the caller says about the cluster, in place of what a file says, and what it means for staging problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import UsageError, show

if TYPE_CHECKING:
    from .staging import StagingProblem

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Of the time units that rates per second can be turned into."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """None: what the file says. Infinite memory: no limit."""

    devices: int | None = None
    cpus: int | None = None
    memory_bytes: float | None = None
    bandwidth: float | None = None
    cpu_slowdown: float | None = None
    training: bool | None = None
    batch: int | None = None
    exact_batches: bool | None = None
    levels: Sequence[tuple[int, float]] | None = None
    """Devices and bandwidth of each level, the innermost first; empty: a flat network."""
    time_unit: str | None = None


STAGING_OPTIONS = ("exact_batches", "levels", "time_unit")
"""Fields that only staging problems have."""


def refuse_staging_options(cluster: Cluster) -> None:
    for name in STAGING_OPTIONS:
        if getattr(cluster, name) is not None:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} is for staging problems: this one is none; drop {option}.")


def staging_on(problem: StagingProblem, cluster: Cluster) -> StagingProblem:
    """The problem on the caller's cluster; rates per second become rates per time unit of the problem."""
    if cluster.time_unit is not None:
        problem = _in_unit(problem, cluster.time_unit)
    changes: dict[str, Any] = {}
    if cluster.memory_bytes is not None:
        changes["memory_bytes"] = None if cluster.memory_bytes == math.inf else cluster.memory_bytes
    own = {"devices": cluster.devices, "micro_batches": cluster.batch, "exact_batches": cluster.exact_batches}
    changes |= {field: value for field, value in own.items() if value is not None}
    if cluster.levels is not None:
        changes |= _levels(problem, cluster)
    elif cluster.bandwidth is not None and problem.levels:
        raise UsageError("--bandwidth is for flat networks and this problem has levels; give --levels.")
    if cluster.bandwidth is not None:
        changes["bandwidth"] = _per_unit(problem, cluster.bandwidth, "--bandwidth")
    return problem.replace(**changes) if changes else problem


def _levels(problem: StagingProblem, cluster: Cluster) -> dict[str, Any]:
    from .staging import StagingLevel

    assert cluster.levels is not None
    if cluster.bandwidth is not None and cluster.levels:
        raise UsageError(
            "--bandwidth is for flat networks and --levels have bandwidths of their own; drop one of them."
        )
    levels = tuple(StagingLevel(count, _per_unit(problem, rate, "--levels")) for count, rate in cluster.levels)
    devices = math.prod(level.devices for level in levels)
    return {"levels": levels, **({"devices": devices} if levels and cluster.devices is None else {})}


def _in_unit(problem: StagingProblem, unit: str) -> StagingProblem:
    """Of a problem that does not say in which unit its times are; its bandwidth is per second until now."""
    if problem.time_unit is not None and problem.time_unit != unit:
        raise UsageError(
            f"--time-unit is for files that name no unit of time, and this problem is in {problem.time_unit}; "
            "drop --time-unit."
        )
    if unit not in SECONDS:
        raise UsageError(f"--time-unit is {show(unit)}; give one of {', '.join(SECONDS)}.")
    if problem.time_unit is not None:
        return problem
    return problem.replace(time_unit=unit, bandwidth=problem.bandwidth * SECONDS[unit])


def _per_unit(problem: StagingProblem, rate: float, option: str) -> float:
    """Where the problem names no unit of time, rates stay as they are: in the file's own."""
    if problem.time_unit is None:
        return rate
    if problem.time_unit not in SECONDS:
        raise UsageError(
            f"{option} is in bytes per second, but the problem's times are in {show(problem.time_unit)}; write the "
            "bandwidth into the file."
        )
    return rate * SECONDS[problem.time_unit]
