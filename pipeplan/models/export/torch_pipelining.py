"""torch.distributed.pipelining: the modules of each stage, where to split, and the order of all passes.

`split_spec` is what `pipeline()` takes, with `SplitPoint[...]` for its values; `schedule.csv` is for
`_PipelineScheduleRuntime._load_csv(file, format="compute_only")`.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from ...instances.base.errors import show
from .contract import (
    Exported,
    ToExport,
    check_accelerators,
    check_in_model_order,
    check_neighbours,
    check_ordered,
    degrees_of,
    usual_notes,
)
from .names import NodeNames, around_of
from .passes import check_one_micro_batch, schedule_csv

STAGES, SCHEDULE = "stages.json", "schedule.csv"
TIES = "torch adds up no gradients between stages; untie them, or all-reduce them after each step"


def export(job: ToExport) -> Exported:
    """Rows, with one or several stages on a rank."""
    check_accelerators(job)
    check_ordered(job)
    check_neighbours(job)
    check_in_model_order(job)
    degrees_of(job, replicas=False, tensor=False)
    check_one_micro_batch(job)
    stages = modules_by_stage(job)
    split = dict.fromkeys(split_points(stages), "BEGINNING")
    files = {STAGES: json.dumps({"stages": stages, "split_spec": split}) + "\n"}
    notes = usual_notes(job, ties=TIES)
    files |= schedule_of(job, notes)
    return Exported(files, tuple(notes))


def modules_by_stage(job: ToExport) -> list[list[str]]:
    """In the order of the model, each module once and in one stage."""
    names, homes = NodeNames(job), dict[str, int]()
    stages: list[list[str]] = []
    for number, stage in enumerate(job.stages):
        held: dict[str, str] = {}
        for node in stage.nodes:
            held |= {module: held.get(module, node) for module in names.paths(node)}
        for module, node in held.items():
            if homes.setdefault(module, number) != number and names.holds_parameters(node, module):
                raise job.refusal(
                    f"the node {show(node)} on stage {number} is the module {show(module)}, which stage "
                    f"{homes[module]} holds too, and a module is on one stage",
                    "keep its calls together, or `plan run`",
                )
        if all(homes[module] != number for module in held):
            raise job.refusal(
                f"stage {number}, with the node {show(stage.nodes[0])}, holds no module by name, and stages begin at "
                "one",
                "import the model with another --granularity",
            )
        stages.append(_outermost(held))
    _check_nesting(job, stages)
    return stages


def _outermost(names: Collection[str]) -> list[str]:
    return [name for name in names if not any(around in names for around in around_of(name))]


def split_points(stages: list[list[str]]) -> list[str]:
    """The first module of each stage but the first that no earlier stage has (a dropout may be on several)."""
    found, seen = [], set(stages[0])
    for names in stages[1:]:
        found.append(next(name for name in names if name not in seen))
        seen |= set(names)
    return found


def _check_nesting(job: ToExport, stages: list[list[str]]) -> None:
    """No module on one stage while another stage holds a part of it."""
    homes = {name: number for number, held in enumerate(stages) for name in held}
    for name, number in homes.items():
        for around in around_of(name):
            if homes.get(around, number) != number:
                raise job.refusal(
                    f"the module {show(name)} is on stage {number} and {show(around)}, which it is a part of, on stage "
                    f"{homes[around]}, and a module is on one stage",
                    "import the model with --granularity block and plan again",
                )


def schedule_of(job: ToExport, notes: list[str]) -> dict[str, str]:
    """The file with the order of all passes, or a note on why there is none."""
    if job.plan.training is False:
        notes.append(f"no {SCHEDULE}: it is for training")
        return {}
    if job.options.micro_batches is None:
        notes.append(f"no {SCHEDULE}, the order of all passes: say for how many --micro-batches")
        return {}
    return {SCHEDULE: schedule_csv(job, job.options.micro_batches)}
