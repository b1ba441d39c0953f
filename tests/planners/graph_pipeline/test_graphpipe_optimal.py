"""graphpipe finds the best plan of its family: compared with all plans of tiny problems."""

from __future__ import annotations

import random

import pytest
from oracles.graph_pipeline import best_time, tree_sets
from problems.graph_pipelines import random_graph_pipeline

from pipeplan.planners.graph_pipeline.configurations import menu
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
