"""How schedule problems come in and go out, and what is said of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..base.cluster import Cluster, refuse_others
from ..base.fields import facts_of
from ..base.quantities import several
from ..registry import SCHEDULE
from .each_device import with_memory
from .files import schedule_from_json
from .problem import ScheduleProblem


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> ScheduleProblem:
    return adjusted(schedule_from_json({"name": name, **data}), cluster)


def adjusted(problem: ScheduleProblem, cluster: Cluster) -> ScheduleProblem:
    """The problem with other micro-batches, or another memory on every device that is no link."""
    refuse_others(SCHEDULE, cluster)
    if cluster.batch is not None:
        problem = problem.replace(micro_batches=cluster.batch)
    if cluster.memory_bytes is not None:
        memory = cluster.memory_bytes
        problem = with_memory(problem, None if memory == math.inf else memory)
    return problem


def facts(problem: ScheduleProblem) -> dict[str, Any]:
    return facts_of(problem, ("devices", "blocks", "edges"), ("micro_batches",))


def size(problem: ScheduleProblem) -> str:
    if problem.micro_batches in (None, 1):
        return f"{several(len(problem.blocks), 'block')} of one micro-batch"
    return f"{several(len(problem.blocks), 'block')} of {several(problem.micro_batches, 'micro-batch')}"
