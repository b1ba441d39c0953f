"""Each bound on makespan and span where it decides, by hand; that none is too high is held against enumeration in
`test_finite_models.py`."""

from __future__ import annotations

import pytest
from recipes.other_kinds import measured_even, measured_uneven

from pipeplan.formulations.zero_bubble.finite_problem import (
    FiniteProblem,
    finite_problem,
    idle_bound,
    lower_bound,
    path_bound,
    warm_up_bound,
    work_bound,
)
from pipeplan.instances.schedule.pipelines import divided_pipeline, equal_stages


def pipeline(stages: int, batches: int, times: tuple[int, int, int], lag: int, memory: int) -> FiniteProblem:
    return finite_problem(divided_pipeline(equal_stages(stages, *times), batches, memory, lag), "a test")


def test_work_between_the_shortest_head_and_the_shortest_tail() -> None:
    """The last of two stages waits for one F of 5, and after its last block nothing has to follow: its W leads
    nowhere."""
    finite = pipeline(2, 3, (5, 6, 4), 1, 8)
    assert work_bound(finite, "span") == 3 * 15
    assert work_bound(finite, "makespan") == (5 + 1) + 3 * 15


def test_the_longest_path_goes_through_all_micro_batches() -> None:
    """There and back, and the last block of the last device waits for its own runs of the micro-batches before."""
    finite = pipeline(2, 3, (5, 6, 4), 1, 8)
    assert path_bound(finite) == 5 + 1 + 5 + 6 + 1 + 3 * 6 + 4


def test_the_first_backward_pass_waits_for_the_way_there_and_back() -> None:
    """63 units pass before stage 0 may run its first I, and 16 I and 16 W of one unit each remain."""
    finite = pipeline(32, 16, (1, 1, 1), 0, 64)
    assert work_bound(finite, "span") == 48
    assert lower_bound(finite, "span") == 63 + 32


@pytest.mark.parametrize(("memory", "bound"), [(10, 38 + 180 - 5 * 5), (12, 188), (14, 183)])
def test_memory_limits_what_is_done_before_the_first_backward_pass(memory: int, bound: int) -> None:
    """38 units pass before the first I of stage 0, and half of the memory's units are forward passes until then."""
    assert lower_bound(pipeline(4, 12, (5, 6, 4), 0, memory), "span") == bound


@pytest.mark.parametrize(
    ("stages", "batches", "times", "lag", "memory", "least"),
    [
        (4, 12, (5, 6, 4), 0, 8, 180 + (38 - 4 * 5) + (33 - 3 * (6 + 4))),
        (16, 64, (10, 11, 9), 1, 32, 1920 + (355 - 16 * 10) + (345 - 15 * (11 + 9))),
    ],
)
def test_filling_and_draining_cost_time_together(
    stages: int, batches: int, times: tuple[int, int, int], lag: int, memory: int, least: int
) -> None:
    """While the first gradient is on its way stage 0 has forward passes for half of its memory's units; after its last
    forward pass it has I and W of what it held besides, until that one comes back."""
    finite = pipeline(stages, batches, times, lag, memory)
    assert idle_bound(finite) == least
    assert idle_bound(finite.backwards) == least
    assert lower_bound(finite, "span") == least


def test_waits_that_may_overlap_count_once() -> None:
    """With memory for all of them, every forward pass may have ended before the first gradient comes."""
    finite = pipeline(4, 2, (5, 6, 4), 0, 8)
    assert idle_bound(finite) == 2 * 15 + (38 - 2 * 5)


def test_forward_passes_that_do_not_fill_the_time_until_the_first_backward_pass() -> None:
    """No device may idle at 180: a first I comes after a whole number of F. From stage 3 to stage 0 these are 1, then 5
    + 11 = 16 units: 4 F, not 3, ... and stage 0 would need more of them than its memory holds."""
    finite = pipeline(4, 12, (5, 6, 4), 0, 16)
    assert work_bound(finite, "span") == 180
    assert warm_up_bound(finite, 180) == 181


def test_the_even_pipeline_cannot_be_busy_all_the_time() -> None:
    """Of the 16 forward passes that fit on stage 0 each stage has two and a bit fewer: three such bits are lost."""
    problem = measured_even()
    finite = finite_problem(problem, "a test")
    lost = 29767 - 29850 + 2 * 466
    assert work_bound(finite, "span") == 32 * (29850 + 29767 + 18868)
    assert lower_bound(finite, "span") == work_bound(finite, "span") + 3 * lost


def test_the_uneven_pipeline_is_bound_by_its_last_stage() -> None:
    assert lower_bound(finite_problem(measured_uneven(), "a test"), "span") == 3623744


@pytest.mark.parametrize("memory", [8, 10, 16])
def test_in_reversed_time_the_bounds_hold_for_the_same_schedules(memory: int) -> None:
    """Reversed twice, everything is as it was."""
    finite = pipeline(4, 12, (5, 6, 4), 1, memory)
    assert finite.backwards.backwards == finite
    assert finite.backwards.memories[0].changes == {b: -c for b, c in finite.memories[0].changes.items()}
    assert lower_bound(finite.backwards, "span") == lower_bound(finite, "span")
