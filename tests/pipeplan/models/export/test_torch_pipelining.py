"""The order of all passes in PyTorch's words: of plans, the simulator's, and of schedules, that of their problem."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from export_samples import llama, on_stages, placed
from hypothesis import given
from hypothesis import strategies as st
from problems.schedule_tables import SHAPES, planned

from pipeplan import GraphStage, InputError, ScheduleProblem, StageGraphPlan, UsageError, simulate
from pipeplan.instances.schedule.csv_file import schedule_from_csv, table_from_csv
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.plan import PeriodicSchedulePlan, SchedulePlan
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule
from pipeplan.models.export.contract import ToExport, export
from pipeplan.models.export.torch_pipelining import passes_by_rank
from pipeplan.models.stages import stages_of


@pytest.mark.at_once(1, "slow")
@pytest.mark.parametrize("name", SHAPES)
def test_the_order_comes_back_and_is_no_later(name: str) -> None:
    problem, plan = planned(name)
    text = export(plan, problem, to="torch")
    again = schedule_from_csv(text, problem)
    assert verify_schedule(problem, again) == ()
    assert export(again, problem, to="torch") == text
    own, earliest = evaluate_schedule(problem, plan).makespan, evaluate_schedule(problem, again).makespan
    assert earliest <= own


# ---- steady states -------------------------------------------------------------------------------------


def steady() -> tuple[ScheduleProblem, PeriodicSchedulePlan]:
    problem = divided_pipeline(equal_stages(1, 1, 1, 1), None, None)
    return problem, PeriodicSchedulePlan.from_json(
        {"kind": "periodic-schedule", "period": 3, "starts": {"F0": 0, "I0": 1, "W0": 5}}
    )


def test_a_steady_state_is_written_for_so_many_micro_batches() -> None:
    problem, plan = steady()
    assert verify_schedule(problem, plan) == ()
    assert export(plan, problem, to="torch", micro_batches=3) == "0F0,0I0,0F1,0I1,0W0,0F2,0I2,0W1,0W2\n"


# What is asked for and what is exported, as changes of a schedule with its problem, and a part of the sentence.
PROBLEM, PLAN = planned("1f1b")
FASTER = SchedulePlan({name: tuple(start / 2 for start in row) for name, row in PLAN.starts.items()})
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"to": "vllm"}, "A plan of the kind schedule cannot be written for vllm; give --to torch"),
    ({"profile": None}, "is exported with its problem; name that after the plan"),
    ({"rename": {"a": "b"}}, "--rename is for modules, and a plan of the kind schedule has none"),
    ({"micro_batches": 8}, "plan runs 6 micro-batches, not 8"),
    ({"planned": FASTER}, "plan is no schedule of this problem"),
    ({"profile": steady()[0], "planned": steady()[1]}, "say how many --micro-batches"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_what_torch_cannot_be_told_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises((InputError, UsageError), match=sentence):
        export(**{"planned": PLAN, "profile": PROBLEM, "to": "torch", **changes})


# ---- passes of plans with stages -----------------------------------------------------------------------


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


# ---- the real loader -----------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("name", SHAPES)
def test_torch_loads_what_we_write(name: str, tmp_path: Path) -> None:
    """Its own lowering adds sends and receives, and refuses what waits for itself."""
    pytest.importorskip("torch")
    from exported_stages import loaded

    problem, found = planned(name)
    path = tmp_path / "schedule.csv"
    path.write_text(export(found, problem, to="torch"))
    stages = max(b.stage for b in problem.blocks) + 1  # type: ignore[operator, type-var]
    runtime = loaded(path, stages, 4, problem.micro_batches or 0)
    homes = {b.stage: problem.device_index[b.devices[0]] for b in problem.blocks}
    assert runtime.stage_index_to_group_rank == homes
    passes = [action for row in runtime.pipeline_order.values() for action in row]
    assert len(passes) == len(problem.blocks) * (problem.micro_batches or 0)
    sent = [
        str(action) for row in runtime.pipeline_order_with_comms.values() for action in row if "SEND" in str(action)
    ]
    crossings = sum(homes[stage] != homes[stage - 1] for stage in homes if stage)
    assert len(set(sent)) == len(sent) == 2 * crossings * (problem.micro_batches or 0)


TORCHS_OWN = {
    "ScheduleInterleaved1F1B": (2, 8),
    "ScheduleInterleavedZeroBubble": (2, 8),
    "ScheduleZBVZeroBubble": (2, 8),
    "ScheduleDualPipeV": (2, 8),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", TORCHS_OWN)
def test_torchs_own_schedules_are_read(name: str, tmp_path: Path) -> None:
    """As torch dumps them, with pauses, overlapped pairs and both ways to go backward."""
    pytest.importorskip("torch")
    from torch.distributed.pipelining import schedules

    kind: Any = getattr(schedules, name)
    virtual, micro_batches = TORCHS_OWN[name]
    text = torchs_table(kind, 4, virtual, micro_batches, tmp_path / "own.csv")
    divided = any(cell[0].kind in "IW" for row in table_from_csv(text) for cell in row if cell)
    layout = "v" if name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV") else "loop"
    stages = equal_stages(4 * virtual, 1, 1, 1) if divided else equal_stages(4 * virtual, 1, 2, None)
    problem = divided_pipeline(stages, micro_batches, None, virtual=virtual, layout=layout)
    plan = schedule_from_csv(text, problem)
    assert verify_schedule(problem, plan) == ()
    assert schedule_from_csv(export(plan, problem, to="torch"), problem) == plan


def torchs_table(kind: Any, ranks: int, virtual: int, micro_batches: int, path: Path) -> str:
    """What the class writes, without any process group: stand-ins for its stages are enough."""
    import torch

    facts = {"num_stages": ranks * virtual, "group_size": ranks, "group_rank": 0, "is_last": False}
    facts |= {"stage_index_to_group_rank": None, "submod": torch.nn.Identity()}
    last = ranks * virtual - 1
    indices = (0, last) if kind.__name__ in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV") else (0, ranks)
    stages = [SimpleNamespace(stage_index=index, is_first=index == 0, **facts) for index in indices]
    schedule = kind(stages, micro_batches, loss_fn=lambda *_: None)
    schedule._dump_csv(str(path), format="compute_only")
    return path.read_text()
