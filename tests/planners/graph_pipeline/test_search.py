"""graphpipe finds the best plan of its family, also where stages differ in micro-batch size and k: against all plans
of tiny problems."""

from __future__ import annotations

import random
from itertools import pairwise, product

import pytest
from oracles.graph_pipeline import best_mixed_time, best_time, more_in_flight, slowest_stage, tree_sets
from problems.graph_pipelines import random_graph_pipeline

from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Link, Operator, TimeCurve
from pipeplan.instances.graph_pipeline.referee import verify_stage_graph
from pipeplan.planners.graph_pipeline.configurations import Configuration, extra_in_flight, menu
from pipeplan.planners.graph_pipeline.search import Search


@pytest.mark.parametrize("free_joins", [True, False])
@pytest.mark.parametrize("seed", range(150))
def test_no_plan_of_the_family_is_better(seed: int, free_joins: bool) -> None:
    rng = random.Random(seed)
    tight = rng.choice([None, 0.15, 0.3, 0.5])
    problem = random_graph_pipeline(rng, most_operators=7, series_parallel=rng.random() < 0.8, tight=tight)
    b = rng.choice([1, 2, 4])
    answer = Search(problem, menu(problem, [b]), free_joins=free_joins).best()
    expected = best_time(problem, b, tree_sets(problem, free_joins))
    assert (None if answer is None else answer.value) == (None if expected is None else pytest.approx(expected))


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
def test_no_plan_of_mixed_sizes_is_better(seed: int) -> None:
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


@pytest.mark.parametrize("seed", range(30))
def test_shallower_plans_hold_less_and_take_longer(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_graph_pipeline(rng, most_operators=8, most_devices=5, tight=rng.choice([None, 0.3]))
    search = Search(problem, menu(problem, [rng.choice([1, 2, 4])]))
    answer = search.best()
    if answer is None:
        return
    front = [answer, *search.shallower(answer)]
    for deep, shallow in pairwise(front):
        assert shallow.held < deep.held
        assert shallow.value >= deep.value
    for step in front:
        assert not verify_stage_graph(problem, step.plan)


# ---- configurations ----------------------------------------------------------------------------------------
# Samples in flight: the paper's table of ten rows, and the formula that replaces it.


SIZES = [Configuration(b, k) for b, k in product((1, 2, 3, 4, 5, 8, 12, 16), range(1, 9))]


def test_the_formula_is_the_published_table() -> None:
    for x, y in product(SIZES, SIZES):
        assert extra_in_flight(x, y) == more_in_flight(x.b, x.k, y.b, y.k)
