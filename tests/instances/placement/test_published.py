"""The published JSON: every published file is read without loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from problems.malformed import EXPERT, PUBLISHED

from pipeplan import Device, InputError, PlacementPlan, PlacementProblem, load, load_plan
from pipeplan.instances.placement.published import placement_from_published
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.instances.placement.referee.latency import evaluate_latency
from pipeplan.instances.placement.referee.structure import stage_order
from pipeplan.instances.placement.referee.verify import verify


def test_the_file_s_names_become_ours() -> None:
    conv = {
        "id": 7, "supportedOnFpga": 0, "cpuLatency": 10.0, "fpgaLatency": 1.0, "isBackwardNode": True, "colorClass": 5,
        "size": 8.0, "name": "conv", "layerId": "decoration",
    }  # fmt: skip
    other = {"id": 8, "supportedOnFpga": True, "cpuLatency": 1, "fpgaLatency": 0, "isBackwardNode": 1}
    edges = [{"sourceId": 7, "destId": 8, "cost": 0.5, "size": 3}]
    data = {"maxSizePerFPGA": 100.0, "maxFPGAs": 3, "maxCPUs": 1, "nodes": [conv, other], "edges": edges}
    problem = placement_from_published(data, name="example")
    first, second = problem.nodes
    assert (problem.accelerators, problem.cpus, problem.memory_bytes) == (3, 1, 100.0)
    assert (problem.name, problem.time_unit) == ("example", None)
    assert (first.accelerator_time, first.cpu_time, first.size_bytes, first.transfer_time) == (1.0, 10.0, 8.0, 0.5)
    assert (first.supported, first.backward, first.color, first.name) == (False, True, 5, "conv")
    assert (second.size_bytes, second.transfer_time, second.color, second.name) == (0.0, 0.0, None, None)
    assert problem.edges == ((7, 8),)


def test_different_costs_name_both_edges() -> None:
    data = json.loads(json.dumps(PUBLISHED))
    data["edges"][1]["cost"] = 0.75
    with pytest.raises(InputError) as caught:
        placement_from_published(data)
    assert "edges[1].cost is 0.75 on 1 -> 3 but 0.5 in edges[0] on 1 -> 2" in str(caught.value)


def published_files(workloads: Path) -> list[Path]:
    return [path for path in sorted((workloads / "tarnawski").rglob("*.json")) if path.parent.name != "experts"]


@pytest.mark.workloads
def test_published_numbers_are_taken_as_they_stand(workloads: Path) -> None:
    files = published_files(workloads)
    assert len(files) >= 12
    for path in files:
        raw: dict[str, Any] = json.loads(path.read_text())
        problem = load(path)
        assert problem.name == path.stem
        assert [(n.id, n.accelerator_time, n.cpu_time) for n in problem.nodes] == [
            (n["id"], n["fpgaLatency"], n["cpuLatency"]) for n in raw["nodes"]
        ]
        costs = {node.id: node.transfer_time for node in problem.nodes}
        assert [(u, v, costs[u]) for u, v in problem.edges] == [
            (e["sourceId"], e["destId"], e["cost"]) for e in raw["edges"]
        ]
        assert problem.has_backward == ("training" in path.stem)


# ---- expert splits -------------------------------------------------------------------------------------


def test_an_expert_split_becomes_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "expert.json"
    path.write_text(json.dumps({**EXPERT, "maxLoad": -1}))
    plan = load_plan(path, placement_from_published(PUBLISHED))
    assert [(d.name, d.type, d.nodes) for d in plan.devices] == [
        ("acc0", "accelerator", (1, 2)),
        ("acc1", "accelerator", (3, 4)),
        ("cpu0", "cpu", ()),
    ]


def test_an_expert_split_of_another_problem_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "expert.json"
    path.write_text(json.dumps({"fpgas": [{"nodes": [1, 77]}], "cpus": []}))
    with pytest.raises(
        InputError, match=r"expert.json: fpgas\[0\].nodes\[1\] names the unknown node 77; give a split"
    ):
        load_plan(path, placement_from_published(PUBLISHED))
    assert load_plan(path).devices[0].nodes == (1, 77)


@pytest.mark.workloads
def test_published_expert_splits_place_every_node_once(workloads: Path) -> None:
    for path in sorted((workloads / "tarnawski" / "experts").glob("*.json")):
        name = path.name.replace("_expert", "")
        problem = load(workloads / "tarnawski" / "throughput" / "layer" / name)
        plan = load_plan(path, problem)
        placed = [node for device in plan.devices for node in device.nodes]
        assert sorted(placed, key=str) == sorted((node.id for node in problem.nodes), key=str)


def test_errors_name_the_file_and_its_own_fields(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**PUBLISHED, "maxFPGAs": 0}))
    with pytest.raises(InputError, match=r"a\.json: maxFPGAs is 0 and there is no CPU"):
        load(path)


# ---- Published values, recomputed from published splits.


@pytest.mark.workloads
@pytest.mark.parametrize(("name", "value"), [("bert24", 20.08), ("gnmt", 46.21)])
def test_expert_splits_have_the_papers_value(workloads: Path, name: str, value: float) -> None:
    """Table 1 of the paper, column Expert, printed with two digits."""
    problem = load(workloads / f"tarnawski/throughput/layer/{name}_inference.json")
    plan = load_plan(workloads / f"tarnawski/experts/{name}_inference_expert.json", problem)
    assert round(evaluate(problem, plan).max_load, 2) == value
    assert verify(problem, plan, "chain") == ()
    assert stage_order(problem, plan) == ("acc0", "acc1", "acc2", "acc3", "acc4", "acc5", "cpu0")


@pytest.mark.workloads
@pytest.mark.parametrize(("name", "value"), [("bert24", 924.1), ("bert_l-3", 1099.9)])
def test_the_longest_path_over_cpus(workloads: Path, name: str, value: float) -> None:
    """Everything on the CPUs, as an independent study evaluated it, printed with one digit."""
    problem = load(workloads / f"tarnawski/latency/{name}_inference.json")
    plan = PlacementPlan((Device("cpu0", "cpu", tuple(node.id for node in problem.nodes)),))
    assert round(evaluate_latency(problem, plan).latency or 0, 1) == value


@pytest.mark.workloads
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
