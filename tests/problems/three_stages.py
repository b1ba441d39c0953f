"""The same three stages as a plan of every kind that has stages, each with its problem."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

from pipeplan import ChainProblem, Device, Link, Node, PatternPlan, PlacementPlan, PlacementProblem
from pipeplan.instances.registry import Plan, Problem
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingProblem

from .graph_pipelines_with_plans import chain_plan, chain_problem

STAGES, BATCHES, DELAY = 3, 8, 0.5
CLOSED = (BATCHES + STAGES - 1) * 3 + (STAGES - 1) * 2 * DELAY
"""Eight micro-batches of 1 + 2 through three stages, half a second on each way between two of them.

The delays cost only the way in and the way out where enough micro-batches are in flight."""


def as_stage_graph() -> tuple[Problem, Plan]:
    return chain_problem(STAGES, BATCHES, link=Link(1 / DELAY)), chain_plan(STAGES, 1, BATCHES)


def as_stages(layers: int = STAGES, **way: Any) -> tuple[StagingProblem, StagedPlan]:
    time = 3.0 * STAGES / layers
    held = tuple(Layer(i, {1: (Configuration("only", time, **way),)}) for i in range(layers))
    edges = tuple(Edge(u, v, 1.0) for u, v in pairwise(range(layers)))
    problem = StagingProblem(held, edges, STAGES, 1 / DELAY, BATCHES)
    each = layers // STAGES
    runs = [tuple(range(i * each, (i + 1) * each)) for i in range(STAGES)]
    return problem, StagedPlan(tuple(PlannedStage(run, 1, 1, dict.fromkeys(run, "only")) for run in runs))


def as_placement(training: bool = True) -> tuple[PlacementProblem, PlacementPlan]:
    """Half of the delay is paid at each end."""
    half = DELAY / 2
    nodes = [Node(f"f{i}", 1.0, 9.0, 5.0, half if i + 1 < STAGES else 0.0, color=i) for i in range(STAGES)]
    edges = [(f"f{u}", f"f{v}") for u, v in pairwise(range(STAGES))]
    if training:
        nodes += [Node(f"b{i}", 2.0, 9.0, 5.0, half if i else 0.0, True, True, i) for i in range(STAGES)]
        edges += [(f"b{v}", f"b{u}") for u, v in pairwise(range(STAGES))] + [
            (f"f{i}", f"b{i}") for i in range(STAGES)
        ]
    held = (tuple(node.id for node in nodes if node.color == i) for i in range(STAGES))
    devices = tuple(Device(f"acc{i}", "accelerator", ids) for i, ids in enumerate(held))
    return PlacementProblem(tuple(nodes), tuple(edges), STAGES, 0), PlacementPlan(devices)


def as_pattern(layers: int = STAGES, allocation: tuple[int, ...] | None = None) -> tuple[ChainProblem, PatternPlan]:
    one, two = Fraction(STAGES, layers), Fraction(2 * STAGES, layers)
    problem = ChainProblem(
        *((float(one),) * layers, (float(two),) * layers, (1,) * (layers + 1), (7,) * layers),
        *(STAGES, None, 1 / DELAY),
    )
    each = layers // STAGES
    chosen = allocation or tuple(i // each for i in range(layers))
    return problem, PatternPlan(3, chosen, ((0,) * (2 * layers),), ({},))
