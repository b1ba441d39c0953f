"""A pattern unrolled: who does what when, batch by batch."""

from __future__ import annotations

import pytest
from problems.chains import random_chain

from pipeplan.instances.chain.plan import PatternPlan
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.instances.chain.referee import resources, steady_from, unroll
from pipeplan.planners.chain.smallest_memory import one_by_one

CHAIN = ChainProblem((1, 1), (1, 1), (1, 1, 1), (1, 1), gpus=2, transfer_times=(1, 0, 1))
PLAN = PatternPlan(4, (0, 1), ((0, 2, 3, 5),), ({1: 1, 3: 4},))
"""F1 0-1, sent 1-2, F2 2-3, B2 3-4, sent 4-5, B1 5-6."""


def test_the_first_batch_then_the_next_a_period_later() -> None:
    told = [(a.resource, a.start, a.name, a.batch) for a in unroll(CHAIN, PLAN, 0, 6)]
    assert told == [
        ("gpu0", 0, "F1", 0),
        ("link0-1", 1, "F1 -> F2", 0),
        ("gpu1", 2, "F2", 0),
        ("gpu1", 3, "B2", 0),
        ("gpu0", 4, "F1", 1),
        ("link0-1", 4, "B2 -> B1", 0),
        ("gpu0", 5, "B1", 0),
        ("link0-1", 5, "F1 -> F2", 1),
    ]


def test_a_period_of_a_pipeline_that_has_always_run_holds_each_task_once() -> None:
    period = unroll(CHAIN, PLAN, 0, 4, first_batch=None)
    assert sorted(a.name for a in period if a.resource != "link0-1") == ["B1", "B2", "F1", "F2"]
    assert {a.batch for a in period} == {0, -1}


def test_what_hangs_over_an_edge_of_the_window_is_shown() -> None:
    names = [a.name for a in unroll(CHAIN, PLAN, 0.5, 0.75)]
    assert names == ["F1"]
    assert unroll(CHAIN, PLAN, 6, 6.5, first_batch=1)[0].batch == 1


def test_it_repeats_once_the_last_task_has_started() -> None:
    assert steady_from(CHAIN, PLAN) == 5
    one, next_one = (
        [(a.resource, a.start % 4, a.name) for a in unroll(CHAIN, PLAN, begin, begin + 4)] for begin in (6, 10)
    )
    assert sorted(one) == sorted(next_one)


def test_directions_have_names_of_their_own_with_full_duplex() -> None:
    assert resources(CHAIN, PLAN) == ("gpu0", "gpu1", "link0-1")
    assert resources(CHAIN.replace(duplex="full"), PLAN) == ("gpu0", "gpu1", "link0>1", "link1>0")


def test_rows_of_a_pattern_are_batches_in_turn() -> None:
    plan = PatternPlan(8, (0, 1), ((0, 2, 3, 5), (4, 6, 7, 9)), ({1: 1, 3: 4}, {1: 5, 3: 8}))
    starts = {a.batch: a.start for a in unroll(CHAIN, plan, 0, 16) if a.name == "F1"}
    assert starts == {0: 0, 1: 4, 2: 8, 3: 12}


@pytest.mark.parametrize("seed", range(10))
def test_busy_times_add_up(seed: int) -> None:
    """In any period of a running pipeline every task and transfer takes its whole time."""
    problem = random_chain(seed)
    plan = one_by_one(problem, tuple(i % problem.gpus for i in range(problem.layers)))
    begin, end = 7 * plan.period / 3, 10 * plan.period / 3
    seen = sum(min(a.end, end) - max(a.start, begin) for a in unroll(problem, plan, begin, end, first_batch=None))
    cut = sum(problem.edge_times[edge - 1] for edge in plan.transfers[0])
    assert seen == pytest.approx(sum(problem.durations) + cut)
