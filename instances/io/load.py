"""One door for every file: the format is told from the content, and a problem, plan or result is saved by type."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ..chain import ChainProblem
from ..errors import InputError, UsageError, show
from ..graph_pipeline import GraphPipelineProblem
from ..kinds import Plan, Problem
from ..on_cluster import SECONDS, Cluster, refuse_staging_options, staging_on
from ..placement import PlacementProblem
from ..result import SCHEMA as RESULT_SCHEMA
from ..result import Result
from ..staging import StagingProblem
from .chain import SCHEMA as CHAIN_SCHEMA
from .chain import chain_from_json, chain_to_json
from .graph_pipeline import GRAPH_PIPELINE_SCHEMA, graph_pipeline_from_json, graph_pipeline_to_json
from .json_file import MAX_FILE_BYTES, dump_json, parse_json, read_text, write_text_atomically
from .own import placement_from_json, placement_to_json
from .pipedream import ProfileCluster, looks_like_profile, lower_profile, parse_profile, profile_name
from .published import placement_from_published, placement_to_published
from .staging import (
    PUBLISHED_STAGING_MARKS,
    STAGING_SCHEMA,
    staging_from_json,
    staging_from_published,
    staging_to_json,
    staging_to_published,
)

FORMATS = ("own", "published", "pipedream")
WRITABLE_FORMATS = ("own", "published")
KNOWN_FORMATS = (
    'own JSON ("schema": "pipeplan.placement/1", "pipeplan.chain/1", "pipeplan.staging/1" or '
    '"pipeplan.graph-pipeline/1"), a published JSON ("maxFPGAs" or "maxDevices", "nodes", "edges") or a PipeDream '
    "profile (graph.txt)"
)
PUBLISHED_MARKS = ("maxFPGAs", "maxCPUs", "maxSizePerFPGA")


def load(
    path: str | os.PathLike[str],
    *,
    kind: Literal["placement", "chain", "staging", "graph-pipeline"] | None = None,
    format: str | None = None,
    devices: int | None = None,
    cpus: int | None = None,
    memory_bytes: float | None = None,
    bandwidth: float | None = None,
    cpu_slowdown: float | None = None,
    training: bool | None = None,
    batch: int | None = None,
    exact_batches: bool | None = None,
    levels: Sequence[tuple[int, float]] | None = None,
    time_unit: str | None = None,
    max_bytes: int = MAX_FILE_BYTES,
) -> Problem:
    """Read a problem; its format is detected unless `format` names it, and its kind is checked if `kind` names it.

    `devices`, `cpus` and `memory_bytes` (infinity: no limit) override what the file says, and so does `bandwidth`
    (bytes per second; infinity: transfers take no time) for a chain, and `bandwidth` and `batch` (micro-batches)
    for a staging problem. Only staging problems have `exact_batches` (the replicas of all stages are exactly `batch`),
    `levels` (devices and bytes per second of each, the innermost first) and `time_unit`, for files that name none:
    "ms" says that their times are milliseconds. Of a graph pipeline `devices`, `memory_bytes`
    and `batch` (samples of a mini-batch) can be overridden. A PipeDream profile says nothing about a
    cluster: `devices`, `memory_bytes` and `bandwidth` are required, `cpus` are 0 and `training` is true unless
    given, and CPUs need `cpu_slowdown`.
    """
    cluster = Cluster(
        *(devices, cpus, memory_bytes, bandwidth, cpu_slowdown, training, batch, exact_batches, levels, time_unit)
    )
    text = read_text(path, max_bytes=max_bytes)
    try:
        problem = _parse(text, path, _known_format(format), cluster)
        if kind not in (None, problem.kind):
            raise InputError(
                "content", f"is a problem of the kind {problem.kind}", f"give a problem of the kind {kind}"
            )
        return problem
    except InputError as error:
        raise error.in_file(str(path)) from None


def _known_format(name: str | None) -> str | None:
    if name is not None and name not in FORMATS:
        raise UsageError(f"The format {show(name)} is unknown; give one of {', '.join(FORMATS)}.")
    return name


def _parse(text: str, path: str | os.PathLike[str], name: str | None, cluster: Cluster) -> Problem:
    if name is None:
        starts_as_json = text.lstrip()[:1] in ("{", "[")
        if not starts_as_json and not looks_like_profile(text):
            raise InputError("content", "is in no known format", f"give {KNOWN_FORMATS}")
        name = None if starts_as_json else "pipedream"
    if name == "pipedream":
        refuse_staging_options(cluster)
        return _lower(text, path, cluster)
    data = parse_json(text, str(path))
    name = name or _json_format(data)
    if _is_staging(data):
        return _staging(data, cluster, Path(path).stem)
    refuse_staging_options(cluster)
    if _has_schema(data, GRAPH_PIPELINE_SCHEMA):
        return _graph_pipeline(data, cluster)
    if cluster.batch is not None:
        raise UsageError(
            "--batch is for staging problems and graph pipelines: this one has no micro-batches; drop --batch."
        )
    if name == "own" and _is_chain(data):
        return _chain(data, cluster)
    _refuse_profile_options(cluster)
    if name == "published":
        names = {"accelerators": "maxFPGAs", "cpus": "maxCPUs", "memory_bytes": "maxSizePerFPGA"}
        return placement_from_published(_overridden(data, cluster, names), name=Path(path).stem)
    return placement_from_json(_overridden(data, cluster, {}))


def _json_format(data: object) -> str:
    if not isinstance(data, dict):
        raise InputError("content", f"is {show(data)}, not an object", f"give {KNOWN_FORMATS}")
    if data.get("schema") == RESULT_SCHEMA:
        raise InputError("schema", f"is {show(RESULT_SCHEMA)}: a result, not a problem", "give the file of the problem")
    if "schema" in data or "accelerators" in data:
        return "own"
    if any(mark in data for mark in (*PUBLISHED_MARKS, *PUBLISHED_STAGING_MARKS)):
        return "published"
    raise InputError("content", "is in no known format", f"give {KNOWN_FORMATS}")


def _overridden(data: Any, cluster: Cluster, names: Mapping[str, str]) -> Any:
    """The data with the caller's cluster in it: overriding before the checks lets it mend what the file lacks."""
    given = {"accelerators": cluster.devices, "cpus": cluster.cpus, "memory_bytes": cluster.memory_bytes}
    changes = {names.get(key, key): _finite(value) for key, value in given.items() if value is not None}
    return {**data, **changes} if changes and isinstance(data, dict) else data


def _is_chain(data: Any) -> bool:
    """Of whatever version: others than ours are refused by the reader of chains, which names ours."""
    return _has_schema(data, CHAIN_SCHEMA)


def _has_schema(data: Any, ours: str) -> bool:
    """Ours, of whatever version."""
    schema = data.get("schema") if isinstance(data, dict) else None
    return isinstance(schema, str) and schema.startswith(ours.rpartition("/")[0] + "/")


def _is_staging(data: Any) -> bool:
    if not isinstance(data, dict):
        return False
    if isinstance(data.get("schema"), str):
        return _has_schema(data, STAGING_SCHEMA)
    return any(mark in data for mark in PUBLISHED_STAGING_MARKS)


def _staging(data: dict[str, Any], cluster: Cluster, name: str) -> StagingProblem:
    if cluster.cpus:
        raise UsageError("--cpus is for placement problems: stages run on devices alone; drop --cpus.")
    _refuse_profile_options(replace(cluster, bandwidth=None))
    problem = staging_from_json(data) if "schema" in data else staging_from_published(data, name)
    return staging_on(problem, cluster)


def _graph_pipeline(data: dict[str, Any], cluster: Cluster) -> GraphPipelineProblem:
    """The graph pipeline with the caller's cluster in it: overridden before the checks, like a placement."""
    if cluster.cpus:
        raise UsageError("--cpus is for placement problems: a graph pipeline runs on devices alone; drop --cpus.")
    _refuse_profile_options(cluster)
    given = {"devices": cluster.devices, "memory_bytes": cluster.memory_bytes, "mini_batch": cluster.batch}
    changes = {key: _finite(value) for key, value in given.items() if value is not None}
    return graph_pipeline_from_json({**data, **changes})


def _chain(data: dict[str, Any], cluster: Cluster) -> ChainProblem:
    """The chain with the caller's cluster in it."""
    if cluster.cpus:
        raise UsageError("--cpus is for placement problems: a chain runs on GPUs alone; drop --cpus.")
    _refuse_profile_options(replace(cluster, bandwidth=None))
    changes: dict[str, Any] = {}
    if cluster.devices is not None:
        changes["gpus"] = cluster.devices
    if cluster.memory_bytes is not None:
        changes["memory"] = _finite(cluster.memory_bytes)
    if cluster.bandwidth is not None:
        changes["bandwidth"] = _finite(cluster.bandwidth * _seconds(data.get("time_unit", "s")))
        changes["transfer_times"] = None
    return chain_from_json({**data, **changes})


def _seconds(time_unit: object) -> float:
    """A time unit in seconds, to turn bytes per second into bytes per unit."""
    if not isinstance(time_unit, str) or time_unit not in SECONDS:
        known = ", ".join(SECONDS)
        raise UsageError(
            f"--bandwidth is in bytes per second, but the file's time_unit is {show(time_unit)}: give the file one of "
            f"{known}, or write the bandwidth into it."
        )
    return SECONDS[time_unit]


def _finite(value: float) -> float | None:
    return None if value == math.inf else value


def _refuse_profile_options(cluster: Cluster) -> None:
    options = {
        "--bandwidth": cluster.bandwidth,
        "--cpu-slowdown": cluster.cpu_slowdown,
        "--inference": cluster.training,
    }
    for option, value in options.items():
        if value is not None:
            raise UsageError(f"{option} is for PipeDream profiles: this file already holds its times; drop {option}.")


def _lower(text: str, path: str | os.PathLike[str], cluster: Cluster) -> PlacementProblem:
    options = {"--devices": cluster.devices, "--memory": cluster.memory_bytes, "--bandwidth": cluster.bandwidth}
    missing = [option for option, value in options.items() if value is None]
    if cluster.devices is None or cluster.memory_bytes is None or cluster.bandwidth is None:
        raise InputError("cluster", "is missing: a PipeDream profile names none", "give " + " and ".join(missing))
    profile_cluster = ProfileCluster(
        cluster.devices, _finite(cluster.memory_bytes), cluster.bandwidth, cluster.cpus or 0, cluster.cpu_slowdown
    )
    training = cluster.training is not False
    return lower_profile(parse_profile(text), profile_cluster, training=training, name=profile_name(path))


# ---- writing -------------------------------------------------------------------------------------------


def save(value: Problem | Plan | Result, path: str | os.PathLike[str], *, format: str = "own") -> None:
    """Write a problem (`own` format; placement problems also as `published`), a plan or a result, atomically."""
    if format not in WRITABLE_FORMATS:
        raise UsageError(f"The format {show(format)} cannot be written; give one of {', '.join(WRITABLE_FORMATS)}.")
    write_text_atomically(path, dump_json(_to_json(value, format)))


def problem_to_text(problem: Problem) -> str:
    """The problem in our own format, for another process."""
    return dump_json(_to_json(problem, "own"))


def problem_from_text(text: str) -> Problem:
    """The problem that `problem_to_text` wrote."""
    return _parse(text, "the message", "own", Cluster())


def _to_json(value: Problem | Plan | Result, format: str) -> Any:
    if isinstance(value, PlacementProblem):
        return placement_to_json(value) if format == "own" else placement_to_published(value)
    if isinstance(value, StagingProblem):
        return staging_to_json(value) if format == "own" else staging_to_published(value)
    if format != "own":
        raise UsageError("Only placement and staging problems have a published format; save in the own format.")
    if isinstance(value, GraphPipelineProblem):
        return graph_pipeline_to_json(value)
    return chain_to_json(value) if isinstance(value, ChainProblem) else value.to_json()
