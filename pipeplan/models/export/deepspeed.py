"""DeepSpeed: a subclass of `PipelineModule` that divides its list of layers as planned.

No `partition_method` takes a list, so the method that divides is overridden. The list of layers is the user's own; its
entries are taken to be the nodes of the plan, one each, in the order of the model.
"""

from __future__ import annotations

from itertools import accumulate

from .contract import Exported, ToExport, check_one_stage_per_rank, check_row, degrees_of, usual_notes

FILE = "planned_pipeline.py"
TIES = "write both as TiedLayerSpec of one key"

TEXT = '''\
"""The layers of each pipeline stage as planned, for DeepSpeed: layers = [{count} entries], num_stages={stages}."""

from deepspeed.pipe import PipelineModule

parts = {parts}
# Stage i runs the entries parts[i] to parts[i + 1] - 1 of the list of layers, which are in the plan:
planned_layers = [
{names}
]


class PlannedPipelineModule(PipelineModule):
    def _partition_layers(self, method="planned"):
        if self.num_stages != len(parts) - 1 or len(self._layer_specs) != parts[-1]:
            raise ValueError(f"the plan is for {{len(parts) - 1}} stages and {{parts[-1]}} layers")
        self.parts = parts
        stage = self._topo.get_coord(self.global_rank).pipe
        self._set_bounds(start=parts[stage], stop=parts[stage + 1])
'''


def export(job: ToExport) -> Exported:
    """The file for a row of stages, one on each rank; other plans are refused."""
    check_row(job, check_one_stage_per_rank)
    replicas, _ = degrees_of(job, tensor=False)
    parts = [0, *accumulate(len(stage.nodes) for stage in job.stages)]
    names = "\n".join(f"    {node!r}," for stage in job.stages for node in stage.nodes)
    notes = usual_notes(job, ties=TIES)
    notes.append(f"the list of layers must have {parts[-1]} entries, the nodes of the plan in their order")
    if replicas > 1:
        notes.append(f"{replicas} replicas are not in the text: start it on {replicas * len(job.stages)} devices")
    text = TEXT.format(count=parts[-1], stages=len(job.stages), parts=parts, names=names)
    return Exported({FILE: text}, tuple(notes))
