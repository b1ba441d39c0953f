"""The earliest starts of given orders, and which blocks wait for each other where there are none."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages, random_schedule
from pipeplan.instances.schedule.order import Deadlock, Run, earliest_starts
from pipeplan.instances.schedule.plan import SchedulePlan
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.schedule.referee import verify_schedule


def two_stages(micro_batches: int = 2) -> ScheduleProblem:
    """F0 and B0 on d0, F1 and B1 on d1: passes of 1 and 2 units, half a unit from stage to stage."""
    return divided_pipeline(equal_stages(2, 1, 2, None), micro_batches, None, lag=0.5)


def runs(problem: ScheduleProblem, text: str) -> list[Run]:
    """F0.1 is block F0 of micro-batch 1."""
    return [(problem.block_index[name], int(n)) for name, n in (word.split(".") for word in text.split())]


def test_every_block_starts_when_its_device_and_its_edges_let_it() -> None:
    problem = two_stages()
    orders = {"d0": runs(problem, "F0.0 F0.1 B0.0 B0.1"), "d1": runs(problem, "F1.0 B1.0 F1.1 B1.1")}
    plan = earliest_starts(problem, orders)
    assert isinstance(plan, SchedulePlan)
    half = Fraction(1, 2)
    assert plan.starts == {"F0": (0, 1), "F1": (1 + half, 4 + half), "B1": (2 + half, 5 + half), "B0": (5, 8)}
    assert not verify_schedule(problem, plan)


def test_a_device_without_an_order_runs_what_is_ready_first() -> None:
    blocks = (
        Block("late", "F", ("d0",), 2),
        Block("early", "F", ("d1",), 1),
        Block("send late", "X", ("link",), 3),
        Block("send early", "X", ("link",), 3),
    )
    edges = (BlockEdge("late", "send late"), BlockEdge("early", "send early"))
    devices = tuple(map(ScheduleDevice, ("d0", "d1", "link")))
    problem = ScheduleProblem(devices, blocks, edges, 1)
    plan = earliest_starts(problem, {"d0": [(0, 0)], "d1": [(1, 0)]})
    assert isinstance(plan, SchedulePlan)
    assert (plan.starts["send early"], plan.starts["send late"]) == ((1,), (4,))


@pytest.mark.parametrize("seed", range(60))
def test_the_order_of_any_schedule_starts_no_later_than_it(seed: int) -> None:
    """Blocks in a random order of time, some on several devices: their orders give the same schedule or an earlier one,
    valid wherever no memory is asked for."""
    problem = unlimited(random_schedule(3, 8, 3, seed))
    chosen, starts, at = random.Random(seed), {}, Fraction(0)
    waiting = [(b, n) for b in range(8) for n in range(3)]
    while waiting:  # one after the other, whatever is ready
        ready = [run for run in waiting if not any(other in waiting for other in awaited(problem, *run))]
        run = chosen.choice(ready)
        waiting.remove(run)
        starts[run] = at
        at += problem.times[run[0]] + 3
    orders = {
        device.name: sorted(
            ((b, n) for b in problem.on_device[d] for n in range(3)), key=lambda run: (starts[run], run)
        )
        for d, device in enumerate(problem.devices)
    }
    plan = earliest_starts(problem, orders)
    assert isinstance(plan, SchedulePlan)
    assert not verify_schedule(problem, plan)
    assert all(plan.starts[problem.blocks[b].id][n] <= start for (b, n), start in starts.items())


def unlimited(problem: ScheduleProblem) -> ScheduleProblem:
    devices = tuple(ScheduleDevice(device.name, None, 1000) for device in problem.devices)
    return problem.replace(devices=devices)


def awaited(problem: ScheduleProblem, b: int, n: int) -> list[Run]:
    return [
        (i, n - edge.offset)
        for (i, j), edge in zip(problem.ends, problem.edges, strict=True)
        if j == b and edge.offset <= n
    ]


def stuck(problem: ScheduleProblem, **orders: str) -> Deadlock:
    found = earliest_starts(problem, {name: runs(problem, text) for name, text in orders.items()})
    assert isinstance(found, Deadlock)
    return found


def test_a_block_that_stands_before_what_it_waits_for_is_named() -> None:
    problem = two_stages(1)
    deadlock = stuck(problem, d0="B0.0 F0.0", d1="F1.0 B1.0")
    assert deadlock.sentence(problem) == (
        "Block 'B0' of micro-batch 0 on 'd0' waits for block 'F0' of micro-batch 0, which stands behind it there."
    )


def test_two_devices_that_wait_for_each_other_are_named_by_what_stands_first_there() -> None:
    problem = two_stages()
    deadlock = stuck(problem, d0="F0.0 B0.0 F0.1 B0.1", d1="F1.0 F1.1 B1.0 B1.1")
    assert deadlock.sentence(problem) == (
        "Blocks 'B0' of micro-batch 0 on 'd0' and 'F1' of micro-batch 1 on 'd1' wait for each other."
    )


def test_a_circle_of_three_devices_is_told_from_one_to_the_next() -> None:
    blocks = tuple(Block(f"{kind}{d}", "X", (f"d{d}",), 1) for d in range(3) for kind in ("first", "second"))
    edges = tuple(BlockEdge(f"second{d}", f"first{(d + 1) % 3}") for d in range(3))
    problem = ScheduleProblem(tuple(ScheduleDevice(f"d{d}") for d in range(3)), blocks, edges, 1)
    deadlock = stuck(problem, **{f"d{d}": f"first{d}.0 second{d}.0" for d in range(3)})
    assert len(deadlock.waiting) == 3
    assert deadlock.sentence(problem) == (
        "Block 'first0' of micro-batch 0 on 'd0' waits for 'first2' of micro-batch 0 on 'd2', which waits for 'first1' "
        "of micro-batch 0 on 'd1', which waits for 'first0' of micro-batch 0 on 'd0'."
    )


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("F0.0 F0.1 B0.0", "lacks block 'B0' of micro-batch 1"),
        ("F0.0 F0.1 B0.0 B0.1 F1.0", "has, though it does not run there, block 'F1' of micro-batch 0"),
        ("F0.0 F0.1 B0.0 B0.1 F0.1", "has block 'F0' of micro-batch 1 twice"),
        ("F0.0 F0.1 B0.0 B0.1 F0.2", "has, though it does not run there, block 'F0' of micro-batch 2"),
    ],
)
def test_an_order_has_each_run_of_its_device_once(order: str, words: str) -> None:
    problem = two_stages()
    with pytest.raises(InputError, match=words):
        earliest_starts(problem, {"d0": runs(problem, order)})


def test_an_order_is_of_a_device_that_exists() -> None:
    with pytest.raises(InputError, match="no device is called so"):
        earliest_starts(two_stages(), {"d7": []})
