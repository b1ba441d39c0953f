"""torchtitan: the modules of each part of the model, as fields of its section `parallelism`.

torchtitan's own models have other names than those of Hugging Face; `--rename` maps them.
"""

from __future__ import annotations

import json

from .contract import (
    Exported,
    ToExport,
    check_accelerators,
    check_in_model_order,
    check_neighbours,
    check_ordered,
    check_round_robin,
    degrees_of,
    usual_notes,
)
from .passes import check_one_micro_batch
from .torch_pipelining import SCHEDULE, TIES, modules_by_stage, schedule_of, split_points

FILE = "parallelism.toml"


def export(job: ToExport) -> Exported:
    """Rows, with one or several stages on a rank; stage i is on rank i mod the number of ranks."""
    check_accelerators(job)
    check_ordered(job)
    check_round_robin(job)
    check_neighbours(job)
    check_in_model_order(job)
    replicas, tensor = degrees_of(job)
    check_one_micro_batch(job)
    stages = modules_by_stage(job)
    notes = usual_notes(job, ties=TIES)
    schedule = schedule_of(job, notes)
    lines = ["[parallelism]", f"pipeline_parallel_degree = {job.plan.ranks}"]
    lines += [f"tensor_parallel_degree = {tensor}"] * (tensor > 1)
    lines += [f"data_parallel_replicate_degree = {replicas}"] * (replicas > 1)
    if job.options.legacy:
        lines.append(f"pipeline_parallel_split_points = {_value(split_points(stages))}")
    else:
        lines.append(f"module_fqns_per_model_part = {_value(stages)}")
    interleaved = len(stages) > job.plan.ranks
    lines.append(f'pipeline_parallel_schedule = "{"Interleaved1F1B" if interleaved else "1F1B"}"')
    lines += [f'pipeline_parallel_schedule_csv = "{SCHEDULE}"'] * bool(schedule)
    return Exported({FILE: "\n".join(lines) + "\n", **schedule}, tuple(notes))


def _value(value: object) -> str:
    """A list of texts is written alike in TOML, Python and JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
