"""Functions of the kind `chain`: how its problems are read, changed, described, simulated and held in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ..base.amounts import as_written
from ..base.cluster import SECONDS, Cluster, changes, per_unit
from ..base.errors import InputError, UsageError, Violation, refuse_broken, show
from ..base.fields import as_list, as_object, facts_of, read_problem, write_problem
from ..base.quantities import several
from ..registry import CHAIN
from ..timeline.model import Pipeline, check_tasks, given
from .layout import shape_faults
from .plan import PatternPlan
from .problem import ChainProblem
from .referee import evaluate_pattern
from .simulated import chain_pipeline

# ---- files -----------------------------------------------------------------------------------------------
# Our own format for chains, ``pipeplan.chain/1``: versioned, strict, with every field of the problem.
#
# What equals its default may be omitted; an unknown key is an error.

SCHEMA = "pipeplan.chain/1"
LISTS = ("forward", "backward", "activations", "weights")
# Where the file's name of a field is not ours.
FIELDS = {"memory_bytes": "memory"}


def chain_to_json(problem: ChainProblem) -> dict[str, Any]:
    """The problem as JSON data, with every default written out but the absent list of transfer times."""
    later = ("bandwidth", "duplex", "weight_copies", "memory_mode", "exclusive_buffers")
    data = write_problem(problem, SCHEMA, ("name", "time_unit", *LISTS, "gpus", "memory_bytes", *later))
    return {FIELDS.get(name, name): value for name, value in data.items()}


def chain_from_json(data: object) -> ChainProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    top = as_object("", data)
    try:
        readers: dict[str, Any] = dict.fromkeys(LISTS, as_list)
        return read_problem(ChainProblem, SCHEMA, data, FIELDS, **readers)
    except InputError as error:
        raise (error if error.field in top else error.renamed(FIELDS)) from None  # the file's own word, or ours


# ---- what every problem type is asked -----------------------------------------------------------------


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> ChainProblem:
    """The problem in JSON data; the caller's cluster may supply what the data lack."""
    values = _changes(cluster, data.get("time_unit", ChainProblem.time_unit))
    return chain_from_json({**data, **{FIELDS.get(key, key): value for key, value in values.items()}})


def adjusted(problem: ChainProblem, cluster: Cluster) -> ChainProblem:
    """The problem on the caller's cluster; rates per second become rates per time unit of the problem."""
    values = _changes(cluster, problem.time_unit)
    return problem.replace(**values) if values else problem


def _changes(cluster: Cluster, time_unit: object) -> dict[str, Any]:
    values = changes(CHAIN, cluster)
    if cluster.bandwidth is not None:
        values |= {"bandwidth": _rate(cluster.bandwidth, time_unit), "transfer_times": None}
    return values


def _rate(rate: float, time_unit: object) -> float | None:
    if not isinstance(time_unit, str) or time_unit not in SECONDS:
        raise UsageError(
            f"--bandwidth is in bytes per second, but the chain's time_unit is {show(time_unit)}: give its file one of "
            f"{', '.join(SECONDS)}, or write the bandwidth into it."
        )
    return None if rate == math.inf else per_unit(rate, time_unit)


def facts(problem: ChainProblem) -> dict[str, Any]:
    return facts_of(problem, (), ("layers", "gpus", "memory_bytes", "memory_mode"))


def size(problem: ChainProblem) -> str:
    return several(problem.layers, "layer")


def pipeline(problem: ChainProblem, plan: PatternPlan, micro_batches: int | None, schedule: str) -> Pipeline:
    """The pipeline of a pattern's allocation; the starts in the pattern do not count."""
    refuse_broken(Violation("shape", fault) for fault in shape_faults(problem, plan))
    check_tasks([given(micro_batches)] * problem.gpus)
    return chain_pipeline(problem, plan, given(micro_batches), schedule)


# ---- memory of each device ----------------------------------------------------------------------------


def held(problem: ChainProblem, plan: PatternPlan, options: Mapping[str, Any]) -> Fraction:
    """What the GPU with the highest peak holds, in bytes."""
    return as_written(evaluate_pattern(problem, plan).peak_bytes)
