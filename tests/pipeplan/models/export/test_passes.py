"""The order of all passes: the simulator's, and one that can be run."""

from __future__ import annotations

from export_samples import llama, on_stages, placed, stage_graph
from hypothesis import given
from hypothesis import strategies as st

from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.simulate import simulate
from pipeplan.models.export.contract import ToExport
from pipeplan.models.export.torch_pipelining import passes_by_rank
from pipeplan.models.stages import stages_of


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5))
def test_every_pass_runs_once_and_none_waits_for_itself(ranks: int, rounds: int, micro_batches: int) -> None:
    profile = llama(ranks * rounds)
    held = on_stages(profile, (1,) * (ranks * rounds))
    plan = placed([[node for part in held[rank::ranks] for node in part] for rank in range(ranks)])
    job = ToExport("torch", stages_of(plan, profile), profile)
    orders = passes_by_rank(job, micro_batches)
    stages = len(job.stages)
    done: set[tuple[int, int]] = set()
    at = [0] * len(orders)
    for _ in range(2 * stages * micro_batches):
        for rank, order in enumerate(orders):
            while at[rank] < len(order):
                stage, j, _ = order[at[rank]]
                before = (
                    [(stage - 1, j)] * (stage > 0)
                    if j > 0
                    else [(stage, -j), *[(stage + 1, j)] * (stage + 1 < stages)]
                )
                if not done.issuperset(before):
                    break
                done.add((stage, j))
                at[rank] += 1
    assert len(done) == 2 * stages * micro_batches


def test_a_stage_graph_keeps_its_own_order() -> None:
    """kFkB with the samples in flight that the plan says, as the simulator runs it."""
    profile = llama(4)
    held = on_stages(profile, (2, 2))
    plan = StageGraphPlan((GraphStage(held[0], 1, 2, 2, 8), GraphStage(held[1], 1, 2, 1, 2)), ((0, 1),))
    problem = profile.to_graph_pipeline(devices=2, memory_bytes=float("inf"), bandwidth=1e9, batch=12)
    job = ToExport("torch", stages_of(plan, profile), profile)
    simulated = [
        [task.micro_batch if task.kind == "forward" else -task.micro_batch for task in stage.tasks]
        for stage in simulate(problem, plan).stages
    ]
    assert [[j for _, j, _ in order] for order in passes_by_rank(job, 6)] == simulated
    assert simulated[0][:4] == [1, 2, 3, 4]
    assert stage_graph(held).stages[0].in_flight == 2
