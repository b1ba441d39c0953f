"""Generators give the same problem for the same seed, and problems with the traits that they promise."""

from __future__ import annotations

import pytest

from pipeplan.instances import generators
from pipeplan.instances.errors import InputError
from pipeplan.instances.generators import GENERATORS


@pytest.mark.parametrize("name", GENERATORS)
def test_same_seed_same_problem(name: str) -> None:
    first, again, other = (GENERATORS[name](nodes=12, seed=seed) for seed in (4, 4, 5))
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("nodes", [1, 2, 3, 17, 150])
def test_as_many_forward_nodes_as_asked_for(name: str, nodes: int) -> None:
    problem = GENERATORS[name](nodes=nodes, seed=1)
    assert sum(not node.backward for node in problem.nodes) == nodes


@pytest.mark.parametrize("name", GENERATORS)
def test_training_adds_the_backward_pass(name: str) -> None:
    problem = GENERATORS[name](nodes=20, seed=2, training=True)
    assert problem.has_backward
    assert not GENERATORS[name](nodes=20, seed=2, training=False).has_backward


@pytest.mark.parametrize("name", GENERATORS)
def test_every_declared_parameter_is_taken(name: str) -> None:
    generator = GENERATORS[name]
    arguments = {parameter.name: parameter.default for parameter in generator.parameters}
    assert generator(**{**arguments, "nodes": 9}).accelerators == arguments["accelerators"]


def test_dnn_graphs_have_orphans_and_free_weights() -> None:
    problem = generators.dnn(nodes=200, seed=0)
    colours = {node.color for node in problem.nodes if not node.backward}
    assert any(node.backward and node.color not in colours for node in problem.nodes)
    assert any(not node.accelerator_time for node in problem.nodes)


def test_series_parallel_graphs_branch_and_join() -> None:
    problem = generators.series_parallel(nodes=60, seed=0)
    assert max(map(len, problem.successors)) > 1
    assert max(map(len, problem.predecessors)) > 1
    assert sum(not row for row in problem.predecessors) == 1


def test_heterogeneous_problems_need_a_cpu() -> None:
    problem = generators.heterogeneous(nodes=60, seed=0)
    assert any(not node.supported for node in problem.nodes)
    assert any(node.cpu_time < node.accelerator_time for node in problem.nodes)
    with pytest.raises(InputError, match="cpus"):
        generators.heterogeneous(cpus=0)


@pytest.mark.parametrize(
    ("arguments", "field"), [({"nodes": 0}, "nodes"), ({"nodes": 10**9}, "nodes"), ({"width": 0}, "width")]
)
def test_impossible_sizes_are_refused(arguments: dict[str, int], field: str) -> None:
    with pytest.raises(InputError, match=field):
        generators.layered(**arguments)
