"""The referee against the definitions, on random problems, plans and mutations of both."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import asdict, replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import placement_definitions as definitions
from problems.strategies import (
    Case,
    cases,
    mutated_plans,
    mutated_problems,
    rough,
    small_problems,
    unlimited_cases,
    valid_cases,
    with_device,
)

from pipeplan import Device, PlacementPlan, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import NotAnAssignmentError, evaluate
from pipeplan.instances.placement.referee.latency import evaluate_latency
from pipeplan.instances.placement.referee.structure import returning_path, stage_order
from pipeplan.instances.placement.referee.verify import CONTIGUITIES, verify

RULES = {
    "devices", "replication", "hierarchy", "assignment", "memory", "support", "colocation",
    "contiguity-device", "contiguity-chain", "subgraphs",
}  # fmt: skip


def rules(problem: PlacementProblem, plan: PlacementPlan, contiguity: str = "none") -> set[str]:
    return {violation.rule for violation in verify(problem, plan, contiguity)}


# ---- the verdict equals the definition -------------------------------------------------------------------


@given(st.data(), cases(), st.sampled_from(CONTIGUITIES))
def test_verdicts_on_mutated_plans(data: st.DataObject, case: Case, contiguity: str) -> None:
    plan = data.draw(mutated_plans(case))
    assert rules(case.problem, plan, contiguity) == definitions.broken_rules(case.problem, plan, contiguity)


@given(st.data(), valid_cases(), st.sampled_from(CONTIGUITIES))
def test_verdicts_near_valid_plans(data: st.DataObject, case: Case, contiguity: str) -> None:
    problem = data.draw(mutated_problems(case)) if data.draw(st.booleans()) else case.problem
    plan = data.draw(mutated_plans(case)) if data.draw(st.booleans()) else case.plan
    assert rules(problem, plan, contiguity) == definitions.broken_rules(problem, plan, contiguity)


@given(unlimited_cases(), st.sampled_from(CONTIGUITIES))
def test_verdicts_on_the_order_of_devices(case: Case, contiguity: str) -> None:
    assert rules(*case, contiguity) == definitions.broken_rules(*case, contiguity)


@given(valid_cases())
def test_plans_that_are_valid_by_construction_are_accepted(case: Case) -> None:
    assert [rules(*case, contiguity) for contiguity in CONTIGUITIES] == [set(), set(), set()]


@given(cases())
def test_violations_are_single_sentences_without_repetition(case: Case) -> None:
    for contiguity in CONTIGUITIES:
        violations = verify(*case, contiguity)
        assert {violation.rule for violation in violations} <= RULES
        messages = [violation.message for violation in violations]
        assert len(messages) == len(set(messages))
        assert all(message.endswith(".") and message.isprintable() and ". " not in message for message in messages)


# ---- each rule, broken alone ------------------------------------------------------------------------------


@given(st.data(), valid_cases(chain=False))
@settings(deadline=None)
def test_pieces_out_of_order_or_incomplete_break_subgraphs(data: st.DataObject, case: Case) -> None:
    problem, plan = case
    busy = [d for d, device in enumerate(plan.devices) if device.nodes and device.type == "accelerator"]
    assume(busy)
    d = data.draw(st.sampled_from(busy))
    # Nodes stand in a topological order, so one piece for each runs; the same without one, or backwards, does not.
    single = tuple((node_id,) for node_id in plan.devices[d].nodes)
    assert rules(problem, with_device(plan, d, subgraphs=single)) == set()
    assert rules(problem, with_device(plan, d, subgraphs=single[1:])) == {"subgraphs"}
    assert rules(problem, with_device(plan, d, subgraphs=(*single, single[0]))) == {"subgraphs"}
    inner = [(u, v) for u, v in problem.edges if {u, v} <= set(plan.devices[d].nodes)]
    if inner:
        assert rules(problem, with_device(plan, d, subgraphs=single[::-1])) == {"subgraphs"}


# ---- contiguity and stage order --------------------------------------------------------------------------


@given(st.data(), small_problems(max_nodes=7))
def test_a_set_is_contiguous_exactly_where_the_definition_says_so(
    data: st.DataObject, problem: PlacementProblem
) -> None:
    inside = data.draw(st.sets(st.sampled_from([node.id for node in problem.nodes])))
    path = returning_path(problem, [problem.index[node_id] for node_id in inside])
    assert (path is None) == definitions.contiguous(problem, inside)


@given(st.one_of(unlimited_cases(), valid_cases()))
def test_the_stage_order_is_one_of_those_that_the_definition_allows(case: Case) -> None:
    orders = set(definitions.orders_as_chain(*case))
    names = stage_order(*case)
    position = {device.name: d for d, device in enumerate(case.plan.devices)}
    if names is None:
        assert not orders
    else:
        assert tuple(position[name] for name in names if case.plan.devices[position[name]].nodes) in orders
        assert sorted(names) == sorted(position)


# ---- values ----------------------------------------------------------------------------------------------


@given(cases(amounts=rough))
def test_loads_equal_the_formula_to_the_last_bit(case: Case) -> None:
    found = evaluate(*case)
    for load, device in zip(found.devices, case.plan.devices, strict=True):
        alone = {"name": device.name, "type": device.type}
        assert asdict(load) == alone | definitions.load_parts(case.problem, device)
    assert found.max_load == max(load.load for load in found.devices)
    fw, bw = (max(getattr(load, side) for load in found.devices) for side in ("forward_load", "backward_load"))
    assert found.max_forward_plus_max_backward == fw + bw
    assert found.bottleneck == next(load.name for load in found.devices if load.load == found.max_load)


@given(st.data(), cases())
def test_a_plan_has_loads_exactly_where_it_is_an_assignment(data: st.DataObject, case: Case) -> None:
    plan = data.draw(mutated_plans(case))
    known_types = {device.type for device in plan.devices} <= {"accelerator", "cpu"}
    if known_types and "assignment" not in definitions.broken_rules(case.problem, plan):
        evaluate(case.problem, plan)
    else:
        for judge in (evaluate, evaluate_latency, *([stage_order] if known_types else [])):
            with pytest.raises(NotAnAssignmentError):
                judge(case.problem, plan)


# ---- latency ---------------------------------------------------------------------------------------------


def stating(case: Case) -> tuple[Case, float | None]:
    """The case with the pieces that the referee ran, and the latency that it found."""
    found = evaluate_latency(*case)
    ran: dict[str, list[tuple[object, ...]]] = {}
    for piece in found.pieces:
        ran.setdefault(piece.device, []).append(piece.nodes)
    devices = tuple(
        replace(d, subgraphs=tuple(ran.get(d.name, ())) if d.type == "accelerator" else None)
        for d in case.plan.devices
    )
    return Case(case.problem, PlacementPlan(devices)), found.latency


@given(cases())
def test_a_latency_exists_exactly_where_the_pieces_can_run(case: Case) -> None:
    found = evaluate_latency(*case)
    runs = "subgraphs" not in definitions.broken_rules(*case)
    assert (found.latency is not None, found.reason is None) == (runs, runs)


@given(st.one_of(cases(max_nodes=7), unlimited_cases(max_nodes=10)))
def test_latency_equals_the_recursion_of_its_definition(case: Case) -> None:
    """Whatever pieces were given or chosen, stating them and computing from first principles gives the same."""
    found = evaluate_latency(*case)
    assume(found.latency is not None)
    stated, _ = stating(case)
    assert "subgraphs" not in definitions.broken_rules(*stated)
    times = definitions.finish_times(*stated)
    assert dict(found.finish) == pytest.approx(times)
    assert found.latency == max(found.finish.values())
    assert evaluate_latency(*stated) == found


@given(cases(max_nodes=7))
def test_given_pieces_are_kept(case: Case) -> None:
    found = evaluate_latency(*case)
    assume(found.latency is not None)
    for device in case.plan.devices:
        if device.type == "accelerator" and device.subgraphs is not None:
            ran = [set(piece.nodes) for piece in found.pieces if piece.device == device.name]
            assert ran == [set(piece) for piece in device.subgraphs if piece]


@given(unlimited_cases())
def test_chosen_pieces_are_as_few_as_can_be_unless_they_would_wait_in_a_circle(case: Case) -> None:
    found = evaluate_latency(*case)
    assert found.latency is not None
    counts = Counter(piece.device for piece in found.pieces)
    for device in case.plan.devices:
        if device.type == "accelerator":
            fewest = definitions.fewest_convex_pieces(case.problem, set(device.nodes))
            assert counts[device.name] >= fewest
            alone = Case(case.problem, PlacementPlan((device, *_rest_on_cpu(case, device.name))))
            assert len(evaluate_latency(*alone).pieces) == fewest


def _rest_on_cpu(case: Case, name: str) -> list[Device]:
    return [replace(d, type="cpu") for d in case.plan.devices if d.name != name]


@given(st.one_of(cases(max_nodes=7), unlimited_cases(max_nodes=10)))
def test_pieces_do_not_overlap_and_wait_for_what_they_read(case: Case) -> None:
    found = evaluate_latency(*case)
    assume(found.latency is not None)
    for a, b in itertools.pairwise(found.pieces):
        assert a.device != b.device or a.finish <= b.start
    for piece in found.pieces:
        inside = set(piece.nodes)
        reads = [found.finish[u] for u, v in case.problem.edges if v in inside and u not in inside]
        assert piece.start >= max(reads, default=0.0)
        assert {found.finish[i] for i in inside} == {piece.finish}
