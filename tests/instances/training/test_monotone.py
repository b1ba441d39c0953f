"""Whatever runs, in whatever order: an iteration takes longer where anything is slower, and its time is convex.

With the reciprocals of rates, and other efficiencies as they are, the time is in each of them monotone and convex. So
between two values of an efficiency it lies between its times at both, and above no mean of them."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest
from problems.timed_trainings import PLAIN, configuration, model
from problems.timed_trainings import problem as timed
from problems.trainings import possible_degrees, random_layout, random_recompute, random_training, suits

from pipeplan.instances.physics.efficiencies import ABOUT, Efficiencies
from pipeplan.instances.physics.schedules import LOOP, ROW, SCHEDULES, V_SHAPE
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.frameworks import even_layout
from pipeplan.instances.training.iteration import timing_of
from pipeplan.instances.training.model import Experts
from pipeplan.instances.training.plan import NOTHING, Configuration, Degrees
from pipeplan.instances.training.problem import TrainingProblem

HIDDEN = [name for name in ABOUT if name.endswith("_hidden")]
RATES = [name for name, about in ABOUT.items() if about.unit == "share" and name not in HIDDEN]
# Sums of doubles in another order, and passes in the steady state, differ by less.
CLOSE = 1e-9


def far_efficiencies(draw: random.Random) -> Efficiencies:
    """Links that reach 2 % of what they could or all, hosts that start kernels in no time or too slowly."""
    return Efficiencies(
        **{name: draw.uniform(0.1, 1) for name in RATES},
        **{name: draw.choice((0.0, draw.random(), 1.0)) for name in HIDDEN},
        **{f"{kernel}_traffic": draw.uniform(0.5, 8) for kernel in ("norm", "elementwise", "softmax", "loss")},
        **{f"{what}_seconds": 10 ** draw.uniform(-7, -3.5) for what in ("launch", "host", "collective", "step")},
        half_side=draw.uniform(0, 400),
        expert_imbalance=draw.uniform(1, 3),
    )


def any_configuration(seed: int) -> tuple[TrainingProblem, Configuration]:
    """Any schedule with any ZeRO stage of a framework, layout and recomputation, whether or not it can run them."""
    draw = random.Random(seed)
    far = far_efficiencies(draw)
    slow = {"links": 0.02 ** draw.random(), "network": 0.02 ** draw.random()}
    problem = random_training(seed, devices=draw.choice((2, 4, 8)), efficiencies=replace(far, **slow))
    schedule, every = draw.choice(list(SCHEDULES)), list(possible_degrees(problem))
    degrees = draw.choice([d for d in every if suits(schedule, d) and d.pipeline > 1] or every)
    sizes = [b for b in (1, 2) if problem.batch % (degrees.data * b) == 0]
    in_groups = [b for b in sizes if problem.batch // (degrees.data * b) % degrees.pipeline == 0]
    if not suits(schedule, degrees) or (SCHEDULES[schedule].in_groups and not in_groups):
        return any_configuration(seed + 10**6)
    size = draw.choice(in_groups if SCHEDULES[schedule].in_groups else sizes)
    layout = random_layout(draw, len(problem.model.units), degrees.chunks)
    words = random_recompute(problem, draw, degrees.chunks)
    return problem, Configuration(degrees, size, draw.choice([*problem.states]), schedule, layout, words)


def with_(problem: TrainingProblem, name: str, value: float) -> TrainingProblem:
    return problem.replace(efficiencies=replace(problem.efficiencies, **{name: value}))


def both_ways(draw: random.Random, name: str, value: float) -> tuple[float, float]:
    """A better and a worse value, as far from this one as each other; of rates their reciprocals are."""
    at = 1 / value if name in RATES else value
    room = at - (1 if name in RATES else ABOUT[name].least)
    room = min(room, 1 - at) if name in HIDDEN else room
    step = room * draw.choice((1 - CLOSE, draw.random()))
    if name in RATES:
        return 1 / (at - step), 1 / (at + step)
    return (at + step, at - step) if name in HIDDEN else (at - step, at + step)


def check(seed: int, count: int) -> None:
    """Of one configuration so many efficiencies, each moved both ways."""
    problem, plan = any_configuration(seed)
    seconds, draw = timing_of(problem, plan).seconds, random.Random(seed)
    for name in draw.sample(list(ABOUT), count):
        values = both_ways(draw, name, getattr(problem.efficiencies, name))
        fast, slow = (timing_of(with_(problem, name, value), plan).seconds for value in values)
        told = f"seed {seed}, {plan}, {name} {values}: {fast}, {seconds}, {slow} s"
        assert fast <= seconds * (1 + CLOSE), told
        assert seconds <= slow * (1 + CLOSE), told
        assert 2 * seconds <= (fast + slow) * (1 + CLOSE), told


@pytest.mark.parametrize(("seeds", "count"), [
    (range(60), 2),
    pytest.param(range(60, 600), 8, marks=pytest.mark.sweeps),
    pytest.param(range(600, 5000), 8, marks=pytest.mark.slow),
], ids=str)  # fmt: skip
def test_time_is_monotone_and_convex_in_each_efficiency(seeds: range, count: int) -> None:
    for seed in seeds:
        check(seed, count)


def test_faster_products_do_not_uncover_gathers_of_weights_behind_passes_on_another_path() -> None:
    """A path may have the pass for inputs without the one for weights: nothing of its gathers is hidden behind both."""
    usual = problem_of("llama-3-8b", "16xh100-80gb", batch=64, sequence=4096, framework="torchtitan")
    problem, degrees = with_(usual, "links", 0.05), Degrees(pipeline=4, virtual=2, data=4)
    plan = Configuration(degrees, 2, 3, "zb-v", even_layout(usual, 8), (NOTHING,) * 8)
    slow, fast = (timing_of(with_(problem, "products", share), plan).seconds for share in (0.5, 0.6))
    assert fast <= slow


def test_faster_experts_do_not_uncover_sums_behind_passes_of_another_chunk() -> None:
    """Rank 1 is busier, and so the longest path to the end of rank 0, which has most to sum, is without its experts."""
    experts = Experts(64, per_token=2, hidden=512, dense_layers=4)
    hides = replace(PLAIN, data_hidden=1)
    own = timed(4, model(layers=5, experts=experts), batch=16, sequence=8192, efficiencies=hides)
    plan = configuration(own, layout=(1, 4, 1, 1), pipeline=2, virtual=2, data=2)
    times = [
        timing_of(with_(own, "grouped_products", share), replace(plan, schedule="interleaved-1f1b")).seconds
        for share in (0.25, 0.5, 1)
    ]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_path_to_the_end_of_a_rank_has_the_backward_pass_of_its_first_chunk(schedule: str) -> None:
    """After it the rank waits for no message, so that sums of gradients may be hidden behind it."""
    virtual = {ROW: 1, LOOP: 3, V_SHAPE: 2}[SCHEDULES[schedule].shape]
    for p, rounds in product(range(1, 6), range(1, 4)):
        for rank in range(p):
            passes = [(kind, own) for kind, own, _ in SCHEDULES[schedule].order(rank, p, virtual, rounds * p)]
            last = max(i for i, (kind, _) in enumerate(passes) if kind != "W")
            assert passes[last] in (("B", 0), ("I", 0))
            assert (passes[last][0] == "I") == (("W", 0) in passes[last:])
