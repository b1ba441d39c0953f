"""The event simulator against closed forms, hand-made schedules and its own invariants."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplan.instances.graph_pipeline.plan import GraphStage
from pipeplan.instances.graph_pipeline.referee import in_flight_before
from pipeplan.instances.timeline.engine import DeadlockError, iteration_time, run, share_devices
from pipeplan.instances.timeline.model import (
    Dependency,
    Pass,
    Pipeline,
    Stage,
    gpipe_order,
    kfkb_order,
    replica_orders,
)


def stage(name: str, count: int, warm_up: int, f: float = 1.0, b: float = 2.0, size: int = 1, k: int = 1) -> Stage:
    return Stage(name, size, f, b, (kfkb_order(range(1, count + 1), warm_up, k),))


def pipeline(warm_ups: list[int], arcs: list[tuple[int, int]], count: int, **times: float) -> Pipeline:
    """Equal stages with a micro-batch of one sample."""
    stages = tuple(stage(f"stage {x}", count, warm_up, **times) for x, warm_up in enumerate(warm_ups))  # type: ignore[arg-type]
    return Pipeline(stages, tuple(Dependency(u, v) for u, v in arcs), count)


def chain(length: int, count: int, **times: float) -> Pipeline:
    return pipeline([length - x for x in range(length)], list(pairwise(range(length))), count, **times)


# ---- orders ----------------------------------------------------------------------------------------------


def test_1f1b_warms_up_alternates_and_cools_down() -> None:
    assert kfkb_order(range(1, 6), 3) == (1, 2, 3, -1, 4, -2, 5, -3, -4, -5)


def test_2f2b_alternates_in_pairs() -> None:
    assert kfkb_order(range(1, 7), 4, k=2) == (1, 2, 3, 4, -1, -2, 5, 6, -3, -4, -5, -6)


def test_replicas_take_turns() -> None:
    assert replica_orders(5, 2, 2) == ((1, 3, -1, 5, -3, -5), (2, 4, -2, -4))


@given(st.integers(1, 40), st.integers(0, 50), st.integers(1, 9))
def test_an_order_runs_everything_once_and_holds_no_more_than_its_warm_up(count: int, warm_up: int, k: int) -> None:
    order = kfkb_order(range(1, count + 1), warm_up, k)
    assert sorted(order) == [j for j in range(-count, count + 1) if j]
    live = [sum(1 if j > 0 else -1 for j in order[: i + 1]) for i in range(len(order))]
    assert max(live) == min(max(warm_up, 1), count)
    assert min(live) >= 0


# ---- closed forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("count", [1, 4, 8, 32])
@pytest.mark.parametrize("backward", [1.0, 2.0])
def test_a_chain_of_equal_stages_takes_n_plus_p_minus_1_slots(length: int, count: int, backward: float) -> None:
    simulation = run(chain(length, count, b=backward))
    assert simulation.iteration == pytest.approx((count + length - 1) * (1 + backward))
    assert simulation.bubble == pytest.approx((length - 1) / (count + length - 1))
    assert [s.peak_in_flight for s in simulation.stages] == [min(length - x, count) for x in range(length)]
    assert simulation.depth == length


@pytest.mark.parametrize(("length", "count"), [(1, 3), (3, 5), (4, 16)])
def test_gpipe_takes_as_long_but_holds_everything(length: int, count: int) -> None:
    orders = tuple(Stage(f"stage {x}", 1, 1.0, 2.0, (gpipe_order(range(1, count + 1)),)) for x in range(length))
    simulation = run(Pipeline(orders, tuple(Dependency(u, u + 1) for u in range(length - 1)), count))
    assert simulation.iteration == (count + length - 1) * 3
    assert {s.peak_in_flight for s in simulation.stages} == {count}


BRANCHES = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)]
JOINED = [*BRANCHES, (3, 7)]


def test_two_branches_of_four_stages_against_eight_in_a_row() -> None:
    """32 micro-batches of 1 + 2: the chain 39 slots, branches that join in a last stage 36, branches alone 35."""
    assert run(chain(8, 32)).iteration == 117
    joined = run(pipeline([5, 4, 3, 2, 4, 3, 2, 1], JOINED, 32))
    assert (joined.iteration, joined.depth) == (108, 5)
    apart = run(pipeline([4, 3, 2, 1, 4, 3, 2, 1], BRANCHES, 32))
    assert (apart.iteration, apart.depth) == (105, 4)


def test_the_warm_up_comes_from_the_height_in_the_graph_not_in_the_branch() -> None:
    assert run(pipeline([4, 3, 2, 1, 4, 3, 2, 1], JOINED, 32)).iteration == 201


def test_the_synchronisation_follows_the_last_backward_pass() -> None:
    last = Stage("only", 1, 1.0, 2.0, (kfkb_order(range(1, 5), 1),), synchronisation=5.0)
    simulation = run(Pipeline((last,), (), 4))
    assert simulation.iteration == 4 * 3 + 5
    assert simulation.stages[0].tasks[-1].kind == "synchronisation"


# ---- what cannot be run ----------------------------------------------------------------------------------


def test_a_warm_up_that_is_too_short_is_a_deadlock_that_names_the_circle() -> None:
    """The first stage wants to run backward after one sample, the second needs two before it can."""
    stages = (stage("first", 4, 1), stage("second", 2, 1, size=2))
    with pytest.raises(DeadlockError, match="first backward 1 waits for second backward 1, second forward 1 waits"):
        run(Pipeline(stages, (Dependency(0, 1),), 4))


def test_a_circle_of_stages_is_a_deadlock() -> None:
    with pytest.raises(DeadlockError, match="stage 0 forward 1 waits for stage 1 forward 1"):
        run(pipeline([1, 1], [(0, 1), (1, 0)], 2))


@pytest.mark.parametrize("order", [(1,), (1, 2, -1), (1, 1, -1, -1), (1, 2, 3, -1, -2, -3)])
def test_orders_that_miss_a_pass_are_refused(order: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="every micro-batch once"):
        run(Pipeline((Stage("only", 1, 1.0, 1.0, (order,)),), (), 2))


# ---- invariants ------------------------------------------------------------------------------------------


def random_pipeline(seed: int) -> Pipeline:
    """A random graph of random stages that hold everything: no schedule of theirs can lock."""
    rng = random.Random(seed)
    count, total = rng.randint(1, 8), 32
    stages = []
    for x in range(count):
        size = rng.choice((1, 2, 4, 8))
        orders = replica_orders(total // size, rng.choice((1, 1, 2, 3)), total // size, rng.choice((1, 2)))
        stages.append(Stage(f"stage {x}", size, rng.uniform(0.1, 2), rng.uniform(0.1, 2), orders, len(orders)))
    arcs = [
        Dependency(u, v, rng.random(), rng.random()) for v in range(count) for u in range(v) if rng.random() < 0.4
    ]
    return Pipeline(tuple(stages), tuple(arcs), total)


def ends(simulation: object, x: int, kind: str) -> dict[int, tuple[float, float]]:
    return {t.micro_batch: (t.start, t.end) for t in simulation.stages[x].tasks if t.kind == kind}  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(60))
def test_every_pass_runs_after_all_that_it_reads_and_nobody_does_two_at_once(seed: int) -> None:
    line = random_pipeline(seed)
    simulation = run(line)
    assert iteration_time(line) == simulation.iteration
    for kind, reads in (("forward", True), ("backward", False)):
        for arc in line.dependencies:
            giver, taker = (arc.source, arc.target) if reads else (arc.target, arc.source)
            delay = arc.forward_delay if reads else arc.backward_delay
            given, taken = ends(simulation, giver, kind), ends(simulation, taker, kind)
            sizes = line.stages[giver].micro_batch, line.stages[taker].micro_batch
            for j, (start, _) in taken.items():
                samples = range((j - 1) * sizes[1], j * sizes[1])
                assert all(given[s // sizes[0] + 1][1] + delay <= start for s in samples)
    for done in simulation.stages:
        for replica in range(done.replicas):
            spans = [(t.start, t.end) for t in done.tasks if t.replica == replica]
            assert all(a[1] <= b[0] for a, b in pairwise(spans))


# ---- Devices that hold several stages: an order that can be run, within the limits, and no device waits without
# need.


def row(count: int, batches: int, forward: float = 1.0, backward: float = 2.0) -> Pipeline:
    """Stages without orders, one behind the other."""
    stages = tuple(Stage(f"stage {x}", 1, forward, backward, ((),)) for x in range(count))
    return Pipeline(stages, tuple(Dependency(x, x + 1) for x in range(count - 1)), batches)


def test_stages_with_a_device_each_run_1f1b() -> None:
    shared = share_devices(row(3, 6), [0, 1, 2], [3, 2, 1])
    assert [stage.orders[0] for stage in shared.stages] == [kfkb_order(range(1, 7), 3 - x) for x in range(3)]
    assert run(shared).iteration == (6 + 2) * 3


def test_two_devices_with_two_stages_each_wait_less_than_with_one_of_both() -> None:
    """Interleaved: 8 micro-batches of 4 times 3, on two devices 48 of work each; a row of two waits for 6 more."""
    interleaved = run(share_devices(row(4, 8), [0, 1, 0, 1], [4, 3, 2, 1]))
    assert 48 + 3 <= interleaved.iteration <= 48 + 6
    assert interleaved.bubble == pytest.approx(1 - 48 / interleaved.iteration)


@pytest.mark.parametrize("seed", range(20))
def test_orders_of_random_graphs_can_be_run_and_keep_the_limits(seed: int) -> None:
    rng = random.Random(seed)
    count, batches = rng.randint(1, 6), rng.randint(1, 6)
    arcs = [(x, y) for y in range(count) for x in range(y) if rng.random() < 0.5]
    stages = tuple(Stage(f"stage {x}", 1, rng.randint(0, 4), rng.randint(0, 4), ((),)) for x in range(count))
    pipeline = Pipeline(stages, tuple(Dependency(x, y, rng.random(), rng.random()) for x, y in arcs), batches)
    devices, limits = [rng.randrange(3) for _ in range(count)], [rng.randint(1, 4) for _ in range(count)]
    found = run(share_devices(pipeline, devices, limits))
    assert all(stage.peak_in_flight <= limit for stage, limit in zip(found.stages, limits, strict=True))
    spans: dict[int, list[tuple[float, float]]] = {}
    for device, stage in zip(devices, found.stages, strict=True):
        spans.setdefault(device, []).extend((task.start, task.end) for task in stage.tasks)
    for tasks in spans.values():
        tasks.sort()
        assert all(after[0] >= before[1] for before, after in pairwise(tasks)), "one at a time"


def test_where_nothing_is_trained_nothing_runs_backward() -> None:
    shared = share_devices(row(3, 4), [0, 1, 0], [1, 1, 1], training=False)
    assert all(j > 0 for order in shared.shared for _, j, _ in order)
    assert run(shared).iteration == iteration_time(shared) > 0


def test_single_passes_can_take_their_own_time() -> None:
    pipeline = replace(share_devices(row(2, 2), [0, 1], [2, 1]), times={Pass(0, 1): 5.0})
    assert run(pipeline).iteration == run(replace(pipeline, times={})).iteration + 4
    assert run(pipeline).stages[0].busy == 5 + 1 + 2 + 2


def test_an_order_that_waits_for_itself_is_told() -> None:
    stages = tuple(Stage(name, 1, 1.0, 1.0, ((1,),)) for name in "ab")
    pipeline = Pipeline(stages, (Dependency(0, 1),), 1, shared=((Pass(1, 1), Pass(0, 1)),))
    with pytest.raises(DeadlockError, match="b forward 1 waits for a forward 1"):
        run(pipeline)


def test_devices_run_what_their_stages_run() -> None:
    stages = tuple(Stage(name, 1, 1.0, 1.0, ((1, 2),)) for name in "ab")
    with pytest.raises(ValueError, match="in another order"):
        run(Pipeline(stages, (), 2, shared=((Pass(0, 2), Pass(0, 1), Pass(1, 1), Pass(1, 2)),)))


# ---- The published rule for samples in flight against the simulator: what it promises, and where it falls short.


SAMPLES = 64
SIZES = (1, 2, 4)


def iteration(shapes: list[tuple[int, int]], held: list[int], backward: float) -> float | None:
    """A chain of stages (b, k) whose time per sample is 1 forward; None: the schedule locks."""
    stages = tuple(
        Stage(f"stage {x}", b, b, backward * b, (kfkb_order(range(1, SAMPLES // b + 1), i // b, k),))
        for x, ((b, k), i) in enumerate(zip(shapes, held, strict=True))
    )
    try:
        return run(Pipeline(stages, tuple(Dependency(x, x + 1) for x in range(len(shapes) - 1)), SAMPLES)).iteration
    except DeadlockError:
        return None


def held_by_the_rule(shapes: list[tuple[int, int]]) -> list[int]:
    held = [shapes[-1][0] * shapes[-1][1]]
    for (b, k), (next_b, next_k) in reversed(list(itertools.pairwise(shapes))):
        need = in_flight_before(GraphStage((), 1, b, k), GraphStage((), 1, next_b, next_k), held[0])
        held.insert(0, min(-(-need // b) * b, SAMPLES))
    return held


@pytest.mark.parametrize("backward", [1.0, 2.0])
@pytest.mark.parametrize("sizes", list(itertools.product(SIZES, repeat=3)), ids=str)
def test_1f1b_is_not_slowed_down_by_what_the_rule_lets_it_hold(sizes: tuple[int, ...], backward: float) -> None:
    """Holding everything but in the last stage is no faster; and one micro-batch less in the first stage is slower
    where a pass takes as long backward as forward (but for bigger micro-batches after smaller ones)."""
    shapes = [(b, 1) for b in sizes]
    held = held_by_the_rule(shapes)
    best = iteration(shapes, [SAMPLES, SAMPLES, held[-1]], backward)
    assert iteration(shapes, held, backward) == best
    if backward == 1 and sizes[0] >= sizes[1]:
        less = iteration(shapes, [held[0] - sizes[0], *held[1:]], backward)
        assert best is not None
        assert less is None or less > best


def test_groups_of_four_need_one_more_where_backward_takes_twice_as_long() -> None:
    """The rule holds 6 samples before the 4 of the last stage and takes 210; with 7 it takes 195."""
    shapes = [(1, 4), (1, 4)]
    assert held_by_the_rule(shapes) == [6, 4]
    assert iteration(shapes, [6, 4], 2.0) == 210
    assert iteration(shapes, [7, 4], 2.0) == 195 == iteration(shapes, [SAMPLES, 4], 2.0)
    assert iteration(shapes, [6, 4], 1.0) == iteration(shapes, [SAMPLES, 4], 1.0)
