"""How long an iteration takes: schedules with known makespans, and what is sent after the passes.

Micro-batches in the steady state are counted: times and bytes are those of the full list of passes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest
from problems.timed_trainings import PLAIN, configuration, measured_row, model, problem

from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.physics.optimizers import KEPT
from pipeplan.instances.physics.schedules import SCHEDULES, Pass, PassRule
from pipeplan.instances.training import iteration
from pipeplan.instances.training.cases import NONE, CaseMaker, ParallelismChoice
from pipeplan.instances.training.frameworks import FRAMEWORKS, even_layout
from pipeplan.instances.training.iteration import Iteration, Timing, model_operations, timing_of
from pipeplan.instances.training.plan import NOTHING, Configuration, Degrees, Recompute, read_recompute
from pipeplan.instances.training.problem import Level, TrainingProblem
from pipeplan.instances.training.referee import evaluate_configuration
from pipeplan.planners.training import judging
from pipeplan.planners.training.forms import longest_path
from pipeplan.planners.training.judging import judged

from ...problems.trainings import random_own_training, random_training

FORWARD, BACKWARD = 1.0, 2.0
TWO_CHUNKS = ("interleaved-1f1b", "zb-v", "dualpipe-v")


def alike(
    p: int, m: int, virtual: int = 1, schedule: str = "1f1b", recompute: Recompute | None = None, **given: Any
) -> Timing:
    """Measured layers, one in each of p x virtual chunks, and nothing to send."""
    own = measured_row(p * virtual, FORWARD, BACKWARD, devices=p, batch=m, **given)
    plan = configuration(own, pipeline=p, virtual=virtual)
    again = plan.recompute if recompute is None else (recompute,) * len(plan.recompute)
    return timing_of(own, replace(plan, schedule=schedule, recompute=again))


# ---- schedules ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("schedule", "p", "m", "virtual", "ramp"), [
    *((name, p, m, 1, (p - 1) * 3) for name in ("1f1b", "gpipe") for p, m in ((1, 3), (2, 1), (4, 8), (5, 3))),
    ("interleaved-1f1b", 2, 4, 2, 1 * 3),
    ("interleaved-1f1b", 4, 8, 3, 3 * 3),
    ("zb-h1", 4, 8, 1, 3 * (1 + 1 - 1)),  # (p - 1)(F + I - W), here with halves of the backward pass
    ("zb-h2", 4, 8, 1, 3 * 1),
])  # fmt: skip
def test_equal_stages_take_their_passes_and_a_ramp(
    schedule: str, p: int, m: int, virtual: int, ramp: float
) -> None:
    assert alike(p, m, virtual, schedule).seconds == pytest.approx(m * virtual * (FORWARD + BACKWARD) + ramp)


def test_sending_delays_every_stage_once_each_way_and_recomputation_lengthens_backward_passes() -> None:
    assert alike(2, 4, recompute=Recompute(("full",))).seconds == pytest.approx((4 + 1) * (2 * FORWARD + BACKWARD))
    sent = 0.1
    timing = alike(3, 1, output_bytes=sent * 1e11)
    assert timing.seconds == pytest.approx(3 * 3.0 + 4 * sent)
    hidden = alike(3, 1, output_bytes=sent * 1e11, efficiencies=replace(PLAIN, pipeline_hidden=1))
    assert hidden.seconds == pytest.approx(3 * 3.0)


def test_the_slowest_rank_ends_the_iteration() -> None:
    """The first stage runs its last pass last, so that its update is what is seen."""
    own = measured_row(4, FORWARD, BACKWARD, devices=4, batch=4, update_seconds=(0.5, 0, 0, 9.0))
    # The last stage is done 3 x 2 seconds before the first one, but its update takes nine.
    assert timing_of(own, configuration(own, pipeline=4)).seconds == pytest.approx(7 * 3.0 - 3 * 2.0 + 9.0)


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_the_longest_path_is_the_iteration(schedule: str) -> None:
    virtual = 2 if schedule in TWO_CHUNKS else 1
    own = problem(16, own=model(layers=14), batch=32)
    plan = replace(configuration(own, pipeline=4, virtual=virtual, data=4), schedule=schedule, zero=1)
    if not SCHEDULES[schedule].divided:
        plan = replace(plan, recompute=(read_recompute("", "full:2"),) * len(plan.layout))
    made = Iteration(own, plan)
    assert made.along(longest_path(made)) == pytest.approx(made.seconds())
    slow = Iteration(own.replace(efficiencies=replace(PLAIN, products=0.5, links=0.1)), plan)
    assert slow.along(longest_path(made)) <= slow.seconds() * (1 + 1e-12)


@pytest.mark.parametrize("virtual", [1, 2])
def test_what_a_rank_waits_is_apart_from_what_messages_delay(virtual: int) -> None:
    """Interleaved ranks, whose messages are many and mostly hidden, idle in the ramp as others do."""
    own, at_once = (
        alike(4, 16, virtual, "interleaved-1f1b" if virtual > 1 else "1f1b", **sent)
        for sent in ({"output_bytes": 0.3 * 1e11}, {})
    )
    for rank, without in zip(own.ranks, at_once.ranks, strict=True):
        assert rank.pipeline == pytest.approx(own.seconds - at_once.seconds)
        assert rank.idle == pytest.approx(without.idle) == pytest.approx(3 * (FORWARD + BACKWARD))
        assert without.pipeline == 0 < rank.pipeline


# ---- weights --------------------------------------------------------------------------------------------


def tail(zero: int, **changes: Any) -> float:
    own = problem(efficiencies=replace(PLAIN, **changes))
    plan = replace(configuration(own, data=8), zero=zero)
    return timing_of(own, plan).ranks[0].data


def test_gradients_are_added_up_over_data_ranks() -> None:
    # Queries, keys, values and output, MLP, four times; embedding and head: 68 + 65.5 million numbers of four bytes.
    numbers = 4 * (1024 * (1024 + 512) + 1024 * 1024 + 3 * 1024 * 4096) + 2 * 32000 * 1024
    assert tail(0) == pytest.approx(2 * 7 / 8 * 4 * numbers / 1e11)
    assert tail(1) == pytest.approx(7 / 8 * (4 + 2) * numbers / 1e11)


def test_nanotron_gives_every_rank_all_sums_and_copies_each_ranks_part_of_each_tensor() -> None:
    """With ZeRO it sums all in one piece; without it, one tensor after the other, each in a ring of all ranks."""
    numbers = 4 * (1024 * (1024 + 512) + 1024 * 1024 + 3 * 1024 * 4096) + 2 * 32000 * 1024
    slow = Level(8, 1e11, 1e-3)
    for zero, seconds in (
        (1, 7 / 8 * (2 * 4 + 2) * numbers / 1e11 + 2 * (7e-3 + 6 * 4 * 7 * 1e-6)),
        (0, 7 / 8 * 2 * 4 * numbers / 1e11 + 2 * 6 * 4 * (7e-3 + 7e-3)),
    ):
        rates = replace(PLAIN, launch_seconds=1e-6)
        own = problem(framework="nanotron", efficiencies=rates, levels=(slow,))
        plan = replace(configuration(own, data=8), zero=zero)
        assert timing_of(own, plan).ranks[0].data == pytest.approx(seconds), zero


def test_nanotron_divides_a_model_by_the_weights_of_its_products() -> None:
    """A chunk takes the layer that exceeds its part; the head weighs as much as some layers. Later chunks have some."""
    own = problem(16, own=model(layers=16, vocabulary=4 * 16 * 1024), framework="nanotron")
    divided = [even_layout(own, chunks) for chunks in (1, 2, 4, 8)]
    assert divided == [(18,), (12, 6), (7, 5, 5, 1), (4, 3, 2, 3, 2, 2, 1, 1)]


# Every pass takes longer than what is sent beside it.
FAST = (Level(8, 1e14, 0.0),)


def test_nothing_is_hidden_that_the_framework_cannot_hide() -> None:
    """DeepSpeed hides nothing in pipelines and without ZeRO, and gathers of weights in stage 3 alone.
    Megatron-DeepSpeed hides nothing, and nanotron nothing with ZeRO."""
    for framework in FRAMEWORKS.values():
        for zero, pipeline in product(KEPT[framework.name].stages, (1, 2)):
            all_seen, usual = (
                problem(framework=framework.name, batch=64, levels=FAST, efficiencies=replace(PLAIN, **share))
                for share in ({"data_hidden": 0}, {"data_hidden": 0.8})
            )
            plan = replace(configuration(all_seen, 4, data=8 // pipeline, pipeline=pipeline), zero=zero)
            sent, left = (timing_of(own, plan).ranks[0].data for own in (all_seen, usual))
            sums = plan.micro_batches(64) if zero >= 2 else 1  # each of as many bytes as a gather of weights
            if framework.name == "megatron-deepspeed" or (framework.name == "nanotron" and zero):
                share = 0.0
            elif framework.name != "deepspeed":
                share = 0.8
            elif pipeline == 2 or zero == 0:
                share = 0.0
            else:
                share = 0.8 * (1 if zero == 3 else sums / (sums + 1))
            assert left == pytest.approx((1 - share) * sent), (framework.name, zero, pipeline)


# ---- the whole ------------------------------------------------------------------------------------------


def test_parts_of_a_rank_are_its_iteration() -> None:
    own = problem(16, batch=32)
    timing = timing_of(own, configuration(own, tensor=2, context=2, pipeline=2, data=2))
    for rank in timing.ranks:
        assert sum(getattr(rank, name) for name in rank.__dataclass_fields__) == pytest.approx(timing.seconds)


def test_operations_are_six_for_each_weight_and_token_and_attention_and_their_rate_is_the_mfu() -> None:
    own = problem()
    weights = 4 * (1024 * (1024 + 512) + 1024 * 1024 + 3 * 1024 * 4096) + 32000 * 1024
    operations = 8 * 2048 * (6 * weights + 4 * 3 * 2 * 1024 * 8 * 256)
    assert model_operations(own) == pytest.approx(operations)
    timing = timing_of(own, configuration(own, data=8))
    assert timing.mfu == pytest.approx(operations / (timing.seconds * 8 * 1e15))
    assert timing.tokens_per_second_per_gpu == pytest.approx(8 * 2048 / timing.seconds / 8)


@pytest.mark.parametrize("degrees", [{"tensor": 8}, {"context": 8}, {"pipeline": 4, "data": 2}, {"data": 8}])
@pytest.mark.parametrize("name", ["links", "products", "memory", "attention", "data_hidden", "tensor_hidden"])
def test_better_efficiencies_are_never_slower(name: str, degrees: dict[str, int]) -> None:
    slow, fast = (problem(efficiencies=replace(PLAIN, **{name: value})) for value in (0.2, 0.9))
    plan = configuration(slow, **degrees)
    assert timing_of(fast, plan).seconds <= timing_of(slow, plan).seconds


# ---- micro-batches in the steady state ------------------------------------------------------------------

# Doubles that are added up in another order differ by less.
CLOSE = 1e-11


def long_case(seed: int, schedule: str, micro_batches: int = 960) -> tuple[TrainingProblem, Configuration]:
    """One sequence is a micro-batch, and layers are on the stages as chance will have it."""
    draw, ranks = random.Random(f"{seed} {schedule}"), random.Random(seed).choice((2, 3, 4))
    problem = (random_own_training if seed % 3 == 2 else random_training)(seed, devices=ranks)
    units, chunks = len(problem.model.units), ranks * (2 if schedule in TWO_CHUNKS else 1)
    if chunks > units:
        return long_case(seed + 1, schedule, micro_batches)
    borders = [0, *sorted(draw.sample(range(1, units), chunks - 1)), units]
    layout = tuple(later - border for border, later in pairwise(borders))
    degrees = Degrees(pipeline=ranks, virtual=chunks // ranks)
    plan = Configuration(degrees, 1, max(problem.states), schedule, layout, (NOTHING,) * chunks)
    return problem.replace(batch=micro_batches), plan


def list_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (iteration, judging):
        monkeypatch.setattr(module, "LISTED", 10**9)


def check_counted(seed: int, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = long_case(seed, schedule)
    own, (found, held) = evaluate_configuration(problem, plan), judged(problem, plan)
    with monkeypatch.context() as patch:
        list_all(patch)
        listed, (all_found, all_held) = evaluate_configuration(problem, plan), judged(problem, plan)
    assert own.timing.seconds == pytest.approx(listed.timing.seconds, rel=CLOSE)
    assert found == pytest.approx(all_found, rel=CLOSE)
    assert [rank.bytes for rank in own.memory] == pytest.approx([rank.bytes for rank in listed.memory], rel=CLOSE)
    assert held == pytest.approx(all_held, rel=CLOSE)


@pytest.mark.at_once(5, "slow")
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seeds", [range(1), range(1, 30)], ids=str)
def test_counted_passes_take_and_hold_what_listed_ones_do(
    schedule: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds:
        check_counted(seed, schedule, monkeypatch)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_batch_of_millions_lists_no_more_passes_than_one_of_thousands(
    schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Pass] = []

    def counting(rule: PassRule) -> Callable[..., Iterator[Pass]]:
        def passes(*arguments: int) -> Iterator[Pass]:
            for one in rule(*arguments):
                listed.append(one)
                yield one

        return passes

    for name, rule in dict(SCHEDULES).items():
        monkeypatch.setitem(SCHEDULES, name, replace(rule, order=counting(rule.order)))  # type: ignore[index]
    problem, plan = long_case(0, schedule, 7_200_000)
    evaluate_configuration(problem, plan)
    most = (iteration.LISTED + iteration.LAG) * plan.degrees.pipeline
    assert len(listed) <= 2 * 3 * most * plan.degrees.chunks  # for time and memory, of up to three sorts
    gamma = ParallelismChoice.of(plan)
    judge = judging.LayoutEvaluator(CaseMaker(problem, [gamma.key], [NONE]).case(gamma), NONE)
    assert next(judge._listings()) <= most


def test_where_no_pace_is_found_more_are_listed_up_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the times are those of the full list to the last digit."""
    problem, plan = long_case(0, "1f1b", 500)
    monkeypatch.setattr(iteration, "pace_of", lambda simulation, ranks: None)
    own = evaluate_configuration(problem, plan)
    list_all(monkeypatch)
    assert own.timing.seconds == evaluate_configuration(problem, plan).timing.seconds


def test_a_longest_path_of_too_many_passes_is_refused_in_words() -> None:
    problem, plan = long_case(0, "1f1b", 7_200_000)
    with pytest.raises(UsageError, match=r"passes; at most 2000000 can be listed one by one\."):
        longest_path(Iteration(problem, plan))


# ---- the host -------------------------------------------------------------------------------------------


def test_passes_take_as_long_as_the_host_needs_for_their_kernels() -> None:
    """A layer has eleven kernels without collectives: four products, attention, two norms, two residuals, positions and
    an activation; a head has three. What the host adds to what the GPU takes is a part of its own."""
    fast = problem(efficiencies=PLAIN)
    plan = configuration(fast, 1)
    slow = fast.replace(efficiencies=replace(PLAIN, host_seconds=10.0))
    before, after = (timing_of(own, plan) for own in (fast, slow))
    assert before.ranks[0].host == 0
    units = [10.0 * kernels for kernels in (1, *[11] * fast.model.layers, 3)]
    batches = plan.micro_batches(fast.batch)
    assert after.chunks[0].forward == pytest.approx(sum(units))
    assert after.seconds == pytest.approx(2 * batches * sum(units), rel=1e-6)
    assert after.ranks[0].host == pytest.approx(2 * batches * sum(units), rel=1e-4)
