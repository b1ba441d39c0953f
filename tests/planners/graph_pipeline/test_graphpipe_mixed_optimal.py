"""graphpipe finds the best plan of its family where stages differ in micro-batch size and k, too."""

from __future__ import annotations

import random
from itertools import pairwise, product

import pytest
from oracles.graph_pipeline import best_mixed_time, slowest_stage, tree_sets
from problems.graph_pipelines import random_graph_pipeline

from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Link, Operator, TimeCurve
from pipeplan.instances.graph_pipeline.referee import verify_stage_graph
from pipeplan.planners.graph_pipeline.configurations import menu
from pipeplan.planners.graph_pipeline.search import Search
from pipeplan.planners.graph_pipeline.tables import undominated


def check(problem: GraphPipelineProblem, k: int) -> None:
    """The plan stands, is worth what is claimed, and no other one of the family is better."""
    choice = menu(problem, (1, 2, 4), k)
    answer = Search(problem, choice).best()
    expected = best_mixed_time(problem, [(c.b, c.k) for c in choice.configurations], tree_sets(problem))
    if answer is None:
        assert expected is None
    else:
        assert answer.value == pytest.approx(expected)
        assert answer.value == pytest.approx(slowest_stage(problem, answer.plan))
        assert not list(verify_stage_graph(problem, answer.plan))


@pytest.mark.parametrize("seed", range(80))
def test_no_plan_of_the_family_is_better(seed: int) -> None:
    rng = random.Random(seed)
    tight = rng.choice([None, 0.1, 0.2, 0.3, 0.5])
    problem = random_graph_pipeline(rng, most_operators=5, most_devices=3, mini_batch=4, tight=tight)
    check(problem, rng.choice([1, 2, 4]))


def layers(rng: random.Random) -> GraphPipelineProblem:
    """Two branches after two others, each of these joined to each of those: what a plan of the second pair asks of the
    stages before it depends on all of them."""
    shapes = ((1.0, 1.2, 1.5), (1.0, 1.5, 2.5), (1.0, 2.0, 4.0), (1.0, 1.0, 1.0))
    operators = []
    for v in range(4):
        time, shape = rng.randint(1, 9), rng.choice(shapes)
        curve = TimeCurve((1.0, 2.0, 4.0), tuple(time * factor for factor in shape))
        operators.append(Operator(v, curve, curve, rng.randint(0, 2), rng.randint(0, 6), rng.randint(0, 2)))
    most = sum(2 * x.weight_bytes + 4 * x.stash_bytes for x in operators)
    return GraphPipelineProblem(
        tuple(operators),
        tuple(product((0, 1), (2, 3))),
        mini_batch=rng.choice([4, 8]),
        devices=rng.choice([3, 4, 5]),
        memory_bytes=most * rng.choice([0.15, 0.2, 0.3, 0.4]),
        link=rng.choice([Link(), Link(4.0, 0.1)]),
    )


@pytest.mark.parametrize("seed", range(80))
def test_branches_may_follow_branches(seed: int) -> None:
    rng = random.Random(seed)
    check(layers(rng), rng.choice([1, 2]))


def operator(name: str, times: tuple[float, ...], stash: float = 0.0) -> Operator:
    curve = TimeCurve((1.0, 2.0, 4.0), times)
    return Operator(name, curve, curve, stash_bytes=stash)


def test_branches_need_not_begin_alike() -> None:
    """One branch has the memory for one sample alone, the other is slow with fewer than four."""
    operators = (operator("lean", (1.0, 2.0, 4.0), stash=6.0), operator("wide", (4.0, 4.0, 4.0)))
    problem = GraphPipelineProblem(operators, (), mini_batch=4, devices=2, memory_bytes=6.0)
    answer = Search(problem, menu(problem, (1, 2, 4))).best()
    assert answer is not None
    assert answer.value == pytest.approx(2.0)
    assert {stage.nodes[0]: stage.micro_batch for stage in answer.plan.stages} == {"lean": 1, "wide": 4}


def test_more_choice_is_never_worse() -> None:
    for seed in range(30):
        problem = random_graph_pipeline(random.Random(seed), most_operators=8, mini_batch=8, tight=0.2)
        answers = [
            Search(problem, menu(problem, sizes, k)).best() for sizes, k in (((2,), 1), ((1, 2), 1), ((1, 2), 2))
        ]
        values = [float("inf") if answer is None else answer.value for answer in answers]
        assert all(more <= less for less, more in pairwise(values))


def test_an_offer_that_asks_more_for_the_same_devices_is_dropped() -> None:
    """Devices are bit sets: 2 or 3 of them, 3 of them, 2 of them."""
    assert undominated({(4, 4): 0b1100, (4, 6): 0b1000, (3, 9): 0b100, (5, 5): 0b10100}) == {
        (4, 4): 0b1100,
        (3, 9): 0b100,
        (5, 5): 0b10000,
    }
