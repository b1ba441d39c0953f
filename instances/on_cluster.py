"""What the caller says about the cluster, in place of what a problem says: files and packaged problems alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from .amounts import as_written
from .errors import UsageError, show

if TYPE_CHECKING:
    from .kinds import Problem
    from .staging.problem import StagingProblem

SECONDS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6), "ns": Fraction(1, 10**9)}
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
PROFILE_OPTIONS = {"bandwidth": "--bandwidth", "cpu_slowdown": "--cpu-slowdown", "training": "--inference"}

FIELDS: Mapping[str, Mapping[str, str]] = {
    "placement": {"devices": "accelerators", "cpus": "cpus", "memory_bytes": "memory_bytes"},
    "chain": {"devices": "gpus", "memory_bytes": "memory_bytes", "bandwidth": "bandwidth"},
    "staging": {
        "devices": "devices",
        "memory_bytes": "memory_bytes",
        "bandwidth": "bandwidth",
        "batch": "micro_batches",
        **{name: name for name in STAGING_OPTIONS},
    },
    "graph-pipeline": {"devices": "devices", "memory_bytes": "memory_bytes", "batch": "mini_batch"},
}
"""Which fields of each kind of problem can be overridden."""

WITHOUT_CPUS = {"chain": "a chain runs on GPUs", "staging": "stages run on devices"}


def refuse_others(kind: str, cluster: Cluster) -> None:
    """Raise where something is given that problems of this kind do not have; no CPUs are what they have."""
    given = [name for name in Cluster.__dataclass_fields__ if getattr(cluster, name) is not None]
    for name in given:
        if name not in FIELDS[kind] and not (name == "cpus" and cluster.cpus == 0):
            raise UsageError(_refusal(name, kind))


def refuse_staging_options(cluster: Cluster) -> None:
    for name in STAGING_OPTIONS:
        if getattr(cluster, name) is not None:
            raise UsageError(_refusal(name, ""))


def _refusal(name: str, kind: str) -> str:
    if name in STAGING_OPTIONS:
        option = "--" + name.replace("_", "-")
        return f"{option} is for staging problems: this one is none; drop {option}."
    if name == "cpus":
        here = WITHOUT_CPUS.get(kind, "a graph pipeline runs on devices")
        return f"--cpus is for placement problems: {here} alone; drop --cpus."
    if name == "batch":
        return "--batch is for staging problems and graph pipelines: this one has no micro-batches; drop --batch."
    option = PROFILE_OPTIONS[name]
    return f"{option} is for PipeDream profiles: this problem already holds its times; drop {option}."


def overridden(kind: str, cluster: Cluster, time_unit: object = None) -> dict[str, Any]:
    """New values by the names of the problem's fields, of every kind but staging problems; others are refused."""
    refuse_others(kind, cluster)
    names = FIELDS[kind]
    given = {name: getattr(cluster, name) for name in names if getattr(cluster, name) is not None}
    changes = {names[name]: None if value == math.inf else value for name, value in given.items()}
    if "bandwidth" in given:
        changes["bandwidth"] = _rate_of_chain(given["bandwidth"], time_unit)
        changes["transfer_times"] = None
    return changes


def on_cluster(problem: Problem, cluster: Cluster) -> Problem:
    """A problem on the caller's cluster."""
    from .staging.problem import StagingProblem

    if isinstance(problem, StagingProblem):
        return staging_on(problem, cluster)
    changes = overridden(problem.kind, cluster, getattr(problem, "time_unit", None))
    return problem.replace(**changes) if changes else problem


def per_unit(rate: float, time_unit: str) -> float:
    """Bytes per second as bytes per time unit, in decimals."""
    return rate if rate == math.inf else float(as_written(rate) * SECONDS[time_unit])


def _rate_of_chain(rate: float, time_unit: object) -> float | None:
    if not isinstance(time_unit, str) or time_unit not in SECONDS:
        raise UsageError(
            f"--bandwidth is in bytes per second, but the chain's time_unit is {show(time_unit)}: give its file one of "
            f"{', '.join(SECONDS)}, or write the bandwidth into it."
        )
    return None if rate == math.inf else per_unit(rate, time_unit)


def staging_on(problem: StagingProblem, cluster: Cluster) -> StagingProblem:
    """The problem on the caller's cluster; rates per second become rates per time unit of the problem."""
    refuse_others(problem.kind, cluster)
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
    from .staging.problem import StagingLevel

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
    return problem.replace(time_unit=unit, bandwidth=per_unit(problem.bandwidth, unit))


def _per_unit(problem: StagingProblem, rate: float, option: str) -> float:
    """Where the problem names no unit of time, rates stay as they are: in the file's own."""
    if problem.time_unit is None:
        return rate
    if problem.time_unit not in SECONDS:
        raise UsageError(
            f"{option} is in bytes per second, but the problem's times are in {show(problem.time_unit)}; write the "
            "bandwidth into the file."
        )
    return per_unit(rate, problem.time_unit)
