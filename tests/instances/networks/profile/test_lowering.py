"""Profiles on clusters: every number of every kind counted by hand, the choice of a kind, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems.profiles import DIAMOND, ROW, profiles

import pipeplan
from pipeplan import ChainProblem, InputError, PlacementProblem, Profile, ProfileOptions, UsageError
from pipeplan.instances.base.cluster import Cluster
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.instances.lowering import FOR_ALL, lower, on_cluster, without_backward_passes
from pipeplan.instances.physics.optimizers import OPTIMIZERS, copies_by
from pipeplan.instances.registry import KINDS
from pipeplan.instances.staging.problem import StagingLevel, StagingProblem

ON: dict[str, Any] = {"devices": 2, "memory_bytes": 1000.0, "bandwidth": 2000.0}
"""Two bytes per ms."""


def staging(profile: Profile, **given: Any) -> StagingProblem:
    return profile.to_staging(**{**ON, **given})


def test_a_staging_problem_by_hand() -> None:
    problem = staging(DIAMOND)
    stem, left, right, head = problem.layers
    (way,) = stem.configurations[1]
    # forward + backward; 2 copies of 5 bytes and a buffer of 1; parameters once for synchronisation
    assert (way.id, way.time, way.memory_per_batch, way.memory_fixed, way.weight_bytes) == ("vanilla", 3, 30, 11, 5)
    assert right.configurations[1][0].time == 1.5 + 4.0
    assert [layer.configurations[1][0].memory_fixed for layer in (left, right, head)] == [20, 0, 8]
    # the mask has no gradient, so half of its bytes stand for one way
    edges = {(edge.source, edge.target): edge.bytes for edge in problem.edges}
    assert edges == {("stem", "left"): 12, ("stem", "right"): 12 + 2, ("left", "head"): 7, ("right", "head"): 9}
    assert (problem.devices, problem.memory_bytes, problem.bandwidth, problem.micro_batches) == (2, 1000, 2, 2)
    assert (problem.replication, problem.time_unit, problem.name) == (False, "ms", "diamond")


def test_recomputation_keeps_what_a_layer_reads() -> None:
    problem = staging(DIAMOND, recompute=True)
    vanilla, again = problem.layers[2].configurations[1]
    assert (vanilla.memory_per_batch, again.id) == (6, "activation recomp")
    assert (again.time, again.memory_per_batch, again.memory_fixed) == (1.5 + 1.5 + 4, 12 + 4, 0)


def test_devices_share_a_layer_with_the_efficiency_that_is_given() -> None:
    problem = staging(ROW, devices=4, tensor_parallel=(4, 1), efficiency=0.75, data_parallel=True, optimizer="adam")
    assert problem.replication
    ways = problem.layers[0].configurations
    one, four = ways[1][0], ways[4][0]
    assert (one.time, one.memory_per_batch, one.memory_fixed, one.weight_bytes) == (3, 10, 16, 4)
    assert (four.time, four.memory_per_batch, four.memory_fixed, four.weight_bytes) == (1, 2.5, 4, 1)


def test_levels_take_the_place_of_devices_and_bandwidth() -> None:
    problem = ROW.to_staging(memory_bytes=float("inf"), levels=((4, 3e5), (2, 1e3)))
    assert (problem.devices, problem.memory_bytes) == (8, None)
    assert problem.levels == (StagingLevel(4, 300.0), StagingLevel(2, 1.0))


def test_a_placement_by_hand() -> None:
    problem = DIAMOND.to_placement(**ON, cpus=1, cpu_slowdown=10.0, in_flight=3)
    assert [node.id for node in problem.nodes] == [
        *("stem", "left", "right", "head"),
        *("stem/backward", "left/backward", "right/backward", "head/backward"),
    ]
    stem, back = problem.nodes[0], problem.nodes[4]
    # 2 copies of 5 bytes, a buffer of 1, 3 x 30 saved, half of it in either node; 16 bytes out, 12 back, 2 bytes per ms
    assert (stem.accelerator_time, stem.cpu_time, stem.size_bytes, stem.transfer_time) == (1, 10, 101 / 2, 8)
    assert (back.accelerator_time, back.size_bytes, back.transfer_time) == (2, 101 / 2, 6)
    assert (back.color, back.backward, problem.nodes[3].transfer_time) == ("stem", True, 0)
    assert ("left/backward", "head/backward") in problem.edges
    assert len(problem.edges) == 8
    assert (problem.accelerators, problem.cpus, problem.memory_bytes) == (2, 1, 1000)
    assert DIAMOND.to_placement(**ON).nodes[0].size_bytes == (11 + 2 * 30) / 2


def test_a_graph_pipeline_by_hand() -> None:
    problem = DIAMOND.to_graph_pipeline(**ON, batch=8, optimizer="adam-mixed")
    stem, _, right, head = problem.operators
    # of 2 samples: one sample keeps 15 bytes and sends 8
    assert (stem.weight_bytes, stem.stash_bytes, stem.output_bytes) == (6, 15, 8)
    assert (stem.forward(2), stem.forward(4), stem.backward(1)) == (1, 2, 1)
    assert (right.forward(4), right.backward(2), head.output_bytes) == (2.5, 4, 0.5)
    assert (problem.mini_batch, problem.weight_copies, problem.link.bandwidth) == (8, 9, 2)
    assert problem.edges == (("stem", "left"), ("stem", "right"), ("left", "head"), ("right", "head"))
    assert DIAMOND.to_graph_pipeline(**ON).mini_batch == 4


def test_a_chain_by_hand() -> None:
    problem = ROW.to_chain(**ON)
    assert (problem.forward, problem.backward, problem.weights) == ((1,) * 4, (2,) * 4, (4,) * 4)
    assert problem.activations == (10, 10, 10, 10, 3, 6, 6, 6, 0)
    assert problem.transfer_times == (3, 3, 3, 0, 3, 3, 3)
    assert (problem.gpus, problem.memory_mode, problem.weight_copies) == (2, "inputs", 2)


def test_a_chain_that_recomputes_keeps_inputs() -> None:
    problem = ROW.to_chain(**ON, recompute=True)
    assert (problem.backward, problem.memory_mode) == ((3,) * 4, "reserved")
    assert problem.activations == (0, 6, 6, 6, 3, 6, 6, 6, 0)
    assert problem.transfer_times == (3, 3, 3, 0, 3, 3, 3)


def test_a_chain_holds_what_lies_between_two_tensors_together() -> None:
    lowered = lower(DIAMOND, kind="chain", **ON)
    problem = lowered.problem
    assert (problem.forward, problem.backward) == ((1, 6.5), (2, 14))
    # stem sends 16 bytes, of which 12 come back; two tensors enter the head, so it stays with the branches
    assert problem.activations == (30, 19, 1, 12, 0)
    assert problem.transfer_times == (8, 0, 6)
    assert problem.weights == (6, 14)
    assert "4 nodes make 2 layers" in lowered.notes[-1]


def test_nothing_is_trained_in_inference() -> None:
    problem = without_backward_passes(ROW).to_placement(**ON)
    assert [node.size_bytes for node in problem.nodes] == [4] * 4
    assert not problem.has_backward
    stages = on_cluster(ROW, Cluster(**ON, training=False)).problem  # as the command line asks for it
    assert stages == without_backward_passes(ROW).to_staging(**ON)
    assert stages.edges[0].bytes == 3  # there is no way back
    assert stages.layers[0].configurations[1][0].memory_fixed == 4
    for kind in ("chain", "graph-pipeline"):
        with pytest.raises(UsageError, match="nothing is trained here; give --kind placement"):
            lower(without_backward_passes(ROW), kind=kind, **ON)
    with pytest.raises(UsageError, match="--optimizer is for training"):
        lower(without_backward_passes(ROW), kind="staging", optimizer="adam", **ON)


FLAT = DIAMOND.replace(nodes=tuple(replace(node, forward=1.0, backward=1.0) for node in DIAMOND.nodes))
CHOICES: list[tuple[Profile, dict[str, Any], str, str]] = [
    (ROW, {}, "staging", "its layers form a sequence"),
    (ROW, {"levels": ((2, 1e3),), "bandwidth": None}, "staging", "--levels is given"),
    (DIAMOND, {"data_parallel": True, "efficiency": 0.9, "tensor_parallel": (1, 2)}, "staging",
     "--data-parallel and --tensor-parallel and --option efficiency are given"),
    (ROW, {"cpus": 1, "cpu_slowdown": 2.0}, "placement", "there are CPUs"),
    (ROW, {"in_flight": 2}, "placement", "--option in-flight is given"),
    (DIAMOND, {}, "graph-pipeline", "its layers form a graph and times depend on the number of samples"),
    (without_backward_passes(DIAMOND), {}, "placement", "its layers form a graph"),
    (ROW, {"recompute": True}, "staging", "its layers form a sequence"),
    (FLAT, {}, "placement", "its layers form a graph"),
    (FLAT, {"batch": 4}, "graph-pipeline", "its layers form a graph and --batch is given"),
]  # fmt: skip


@pytest.mark.parametrize(("profile", "given", "kind", "why"), CHOICES, ids=[why for *_, why in CHOICES])
def test_a_kind_is_chosen_and_the_reason_said(profile: Profile, given: dict[str, Any], kind: str, why: str) -> None:
    lowered = lower(profile, **{**ON, **given})
    assert lowered.problem.kind == kind
    assert lowered.notes[0].startswith(f"planned as a {kind} problem, because {why}; use --kind for another kind")
    named = lower(profile, **{**ON, **given}, kind=kind)
    assert (named.problem, named.notes) == (lowered.problem, lowered.notes[1:])


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"devices": None}, "cluster is missing: a model or a table of layers names none; add --devices 4"),
    ({"kind": "rows"}, "--kind is 'rows'; give one of placement, chain, staging, graph-pipeline"),
    ({"kind": "chain", "efficiency": 0.9}, "--option efficiency is for staging problems, and this is a chain"),
    ({"kind": "chain", "in_flight": 2}, "--option in-flight is for placement problems, and this is a chain"),
    ({"kind": "placement", "recompute": True}, "--recompute is for chain and staging problems"),
    ({"kind": "chain", "levels": ((2, 1e3),)}, "--levels is for staging and training problems"),
    ({"kind": "chain", "batch": 2}, "--batch is for staging, graph-pipeline, schedule and training problems"),
    ({"kind": "staging", "cpus": 1}, "--cpus is for placement problems"),
    ({"kind": "placement", "memory_bytes": 20.0}, "layer 'a', size_bytes is 28 bytes, more than an accelerator's"),
    ({"kind": "chain", "devices": 200_000}, "--devices is 200000; give a whole number from 1"),
    ({"kind": "placement", "cpus": 1}, "--option cpu-slowdown is missing although there are CPUs"),
    ({"kind": "staging", "efficiency": 0.9}, "--option efficiency is of layers that devices share; give --tensor"),
    ({"kind": "staging", "efficiency": 1.5, "tensor_parallel": (2,)}, "is 1.5; give a share of at most 1"),
    ({"optimizer": "lion"}, "--optimizer is 'lion'; give one of sgd, adam, adam-mixed, sgd-mixed"),
    ({"in_flight": 0}, "--option in-flight is 0"),
    ({"tensor_parallel": (0,)}, "--tensor-parallel is 0"),
    ({"levels": ((2, 1e3),)}, "--bandwidth is for flat networks and --levels have bandwidths of their own"),
    ({"bandwidth": 0.0}, "--bandwidth is 0"),
    ({"kind": "placement", "bandwidth": float("nan")}, "bandwidth is NaN"),
    ({"kind": "placement", "cpus": 1, "cpu_slowdown": 0.0}, "--option cpu-slowdown is 0; give a factor"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_what_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, UsageError)) as caught:
        lower(ROW, **{**ON, **given})
    assert words in str(caught.value)


def test_every_option_is_known_to_some_lowering() -> None:
    known = {name for kind in KINDS.values() for name in kind.profile_options} | set(FOR_ALL)
    assert known == {*ProfileOptions.__dataclass_fields__, "gpus"}  # GPUs by name are what --devices says
    from pipeplan.cli.arguments import PROFILE_OPTIONS

    assert {option.name for option in PROFILE_OPTIONS} == set(ProfileOptions.__dataclass_fields__)


LOWERED = [name for name, kind in KINDS.items() if kind.from_profile]
"""What a profile becomes by itself: a schedule is made of a plan."""


def test_a_note_says_that_no_optimizer_was_named() -> None:
    for kind in set(LOWERED) - {"training"}:  # there the framework says what an optimizer keeps
        assert any("--optimizer" in note for note in lower(ROW, kind=kind, **ON).notes)
        assert not any("--optimizer" in note for note in lower(ROW, kind=kind, optimizer="sgd", **ON).notes)


@given(profiles(), st.sampled_from(sorted(OPTIMIZERS)))
def test_no_time_and_no_byte_is_lost(profile: Profile, optimizer: str) -> None:
    """What all layers take and hold together is the same in every kind."""
    given: dict[str, Any] = {**ON, "memory_bytes": float("inf"), "optimizer": optimizer}
    copies = copies_by(0, optimizer).whole
    time = sum(profile.time(node.forward) + profile.time(node.backward) for node in profile.nodes)
    parameters, saved = (sum(getattr(n, f) for n in profile.nodes) for f in ("parameter_bytes", "saved_bytes"))

    placement: PlacementProblem = profile.to_placement(**given, in_flight=3)
    assert sum(node.accelerator_time for node in placement.nodes) == pytest.approx(time)
    assert sum(node.size_bytes for node in placement.nodes) == pytest.approx(copies * parameters + 3 * saved)

    stages: StagingProblem = profile.to_staging(**given)
    ways = [layer.configurations[1][0] for layer in stages.layers]
    assert sum(way.time for way in ways) == pytest.approx(time)
    assert sum(way.memory_fixed for way in ways) == pytest.approx(copies * parameters)
    assert sum(way.memory_per_batch for way in ways) == pytest.approx(saved)

    chain: ChainProblem = profile.to_chain(**given)
    assert sum(chain.durations) == pytest.approx(time)
    assert float(sum(chain.held_weights)) == pytest.approx(copies * parameters)
    assert sum(chain.activations[: chain.layers]) == pytest.approx(saved)

    graph: GraphPipelineProblem = profile.to_graph_pipeline(**given)
    assert sum(x.forward(1) + x.backward(1) for x in graph.operators) == pytest.approx(time)
    assert graph.weight_copies * sum(x.weight_bytes for x in graph.operators) == pytest.approx(copies * parameters)
    lost = {node.id: node.saved_bytes for node in profile.nodes} | {x.id: 0 for x in graph.operators}
    assert sum(x.stash_bytes for x in graph.operators) + sum(lost.values()) == pytest.approx(saved)
    inputs = [profile.nodes[profile.index[name]] for name in lost if name not in {x.id for x in graph.operators}]
    assert all(not (node.forward or node.backward or node.parameters) for node in inputs)


@pytest.mark.parametrize("kind", LOWERED)
def test_what_comes_out_can_be_planned(kind: str) -> None:
    # The workspace of libraries, which training problems count, is more than this row's few bytes.
    memory = {"memory_bytes": float("inf")} if kind == "training" else {}
    problem = lower(ROW, kind=kind, **{**ON, **memory}).problem
    result = pipeplan.solve(problem)
    assert result.verified, result
