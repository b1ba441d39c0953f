"""Published values, recomputed from published splits."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeplan.instances.lookup import load
from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.instances.placement.problem import PlacementProblem
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.instances.placement.referee.latency import evaluate_latency
from pipeplan.instances.placement.referee.structure import stage_order
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.instances.stored_results import load_plan

pytestmark = pytest.mark.workloads


@pytest.mark.parametrize(("name", "value"), [("bert24", 20.08), ("gnmt", 46.21)])
def test_expert_splits_have_the_papers_value(workloads: Path, name: str, value: float) -> None:
    """Table 1 of the paper, column Expert, printed with two digits."""
    problem = load(workloads / f"tarnawski/throughput/layer/{name}_inference.json")
    plan = load_plan(workloads / f"tarnawski/experts/{name}_inference_expert.json", problem)
    assert round(evaluate(problem, plan).max_load, 2) == value
    assert verify(problem, plan, "chain") == ()
    assert stage_order(problem, plan) == ("acc0", "acc1", "acc2", "acc3", "acc4", "acc5", "cpu0")


@pytest.mark.parametrize(("name", "value"), [("bert24", 924.1), ("bert_l-3", 1099.9)])
def test_the_longest_path_over_cpus(workloads: Path, name: str, value: float) -> None:
    """Everything on the CPUs, as an independent study evaluated it, printed with one digit."""
    problem = load(workloads / f"tarnawski/latency/{name}_inference.json")
    plan = PlacementPlan((Device("cpu0", "cpu", tuple(node.id for node in problem.nodes)),))
    assert round(evaluate_latency(problem, plan).latency or 0, 1) == value


@pytest.mark.parametrize(("name", "value"), [("bert24", 100.219), ("gnmt", 268.5)])
def test_a_greedy_split_has_the_latency_of_the_published_greedy_program(
    workloads: Path, name: str, value: float
) -> None:
    """Accelerators are filled one after the other, in the order of ids, until the next node does not fit.

    (The third published value, BERT-3's 416.204, depends on the topological order of its program.)
    """
    problem = load(workloads / f"tarnawski/latency/{name}_inference.json")
    plan = filled_in_order(problem)
    assert verify(problem, plan, "chain") == ()
    assert evaluate_latency(problem, plan).latency == pytest.approx(value, abs=1e-3)


def filled_in_order(problem: PlacementProblem) -> PlacementPlan:
    assert problem.memory_bytes is not None
    device, used = 0, 0.0
    owner = {}
    for node in sorted(problem.nodes, key=lambda node: int(node.id)):
        if not node.supported:
            owner[node.id] = problem.accelerators
            continue
        if used + node.size_bytes > problem.memory_bytes:
            device, used = device + 1, 0.0
        used += node.size_bytes
        owner[node.id] = device
    return PlacementPlan.from_assignment(problem, owner)


def test_everything_on_one_accelerator_takes_its_work(workloads: Path) -> None:
    problem = load(workloads / "tarnawski/throughput/operator/bert_l-3_training.json")
    plan = PlacementPlan((Device("acc0", "accelerator", tuple(node.id for node in problem.nodes)),))
    found = evaluate(problem, plan)
    work = [sum(n.accelerator_time for n in problem.nodes if n.backward == b) for b in (False, True)]
    assert found.max_load == pytest.approx(sum(work))
    assert (found.devices[0].forward_load, found.devices[0].backward_load) == (
        pytest.approx(work[0]),
        pytest.approx(work[1]),
    )
    assert evaluate_latency(problem, plan).latency == pytest.approx(found.max_load)
