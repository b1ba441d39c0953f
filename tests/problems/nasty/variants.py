"""The same problem with other names, and better ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.instances.placement.problem import PlacementProblem
from pipeplan.instances.registry import Problem
from pipeplan.instances.schedule.problem import ScheduleProblem
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingProblem
from pipeplan.studies.sensitivity import variants


def renamed(problem: Problem, seed: int) -> Problem:
    """Ids and their order shuffled; chains have neither."""
    rng = random.Random(seed)
    if isinstance(problem, PlacementProblem):
        name = _names(rng, [node.id for node in problem.nodes])
        nodes = [replace(node, id=name[node.id]) for node in problem.nodes]
        edges = [(name[u], name[v]) for u, v in problem.edges]
        return problem.replace(nodes=tuple(_shuffled(rng, nodes)), edges=tuple(_shuffled(rng, edges)))
    if isinstance(problem, StagingProblem):
        name = _names(rng, [layer.id for layer in problem.layers])
        layers = [_renamed_layer(layer, name) for layer in problem.layers]
        tensors = [Edge(name[edge.source], name[edge.target], edge.bytes) for edge in problem.edges]
        return problem.replace(layers=tuple(_shuffled(rng, layers)), edges=tuple(_shuffled(rng, tensors)))
    if isinstance(problem, GraphPipelineProblem):
        name = _names(rng, [operator.id for operator in problem.operators])
        operators = [replace(operator, id=name[operator.id]) for operator in problem.operators]
        edges = [(name[u], name[v]) for u, v in problem.edges]
        return problem.replace(operators=tuple(_shuffled(rng, operators)), edges=tuple(_shuffled(rng, edges)))
    if isinstance(problem, ScheduleProblem):  # the order of blocks in the file decides between those at one instant
        name = _names(rng, [block.id for block in problem.blocks])
        blocks = tuple(replace(block, id=str(name[block.id])) for block in problem.blocks)
        waits = [
            replace(edge, source=str(name[edge.source]), target=str(name[edge.target])) for edge in problem.edges
        ]
        return problem.replace(blocks=blocks, edges=tuple(_shuffled(rng, waits)))
    return problem


def _names(rng: random.Random, old: Sequence[int | str]) -> dict[int | str, int | str]:
    return dict(zip(old, (f"x{number}" for number in rng.sample(range(100), len(old))), strict=True))


def _shuffled(rng: random.Random, entries: Sequence[Any]) -> list[Any]:
    return rng.sample(entries, len(entries))


def _renamed_layer(layer: Layer, name: Mapping[int | str, int | str]) -> Layer:
    def change(way: Configuration) -> Configuration:
        return replace(
            way,
            gather_in={name[key]: amount for key, amount in way.gather_in.items()},
            gather_out={name[key]: amount for key, amount in way.gather_out.items()},
        )

    return Layer(name[layer.id], {t: tuple(map(change, ways)) for t, ways in layer.configurations.items()})


def better(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """More of one thing each, in a measure that matters to this problem: the optimum is no worse."""
    memory = getattr(problem, "memory_bytes", None) or 1.0
    for variant in variants(problem, memory_bytes=memory):
        yield variant.change, variant.problem
