"""The referee of patterns: worked examples, memory by another method, and plans with one rule broken each."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from problems.chains import random_chain as any_chain

from pipeplan.instances.chain.layout import NotAPatternError, resources, steady_from, unroll
from pipeplan.instances.chain.plan import PatternPlan
from pipeplan.instances.chain.problem import MEMORY_MODES, ChainProblem
from pipeplan.instances.chain.referee import evaluate_pattern, memory_profiles, verify_pattern
from pipeplan.planners.chain.smallest_memory import one_by_one


def rules(problem: ChainProblem, plan: PatternPlan) -> list[str]:
    return sorted({violation.rule for violation in verify_pattern(problem, plan)})


# ---- worked examples ----------------------------------------------------------------------------------

FIGURE_5 = ChainProblem([1, 2, 1], [1, 2, 1], [2, 3, 2, 0], [0, 0, 0], gpus=2, memory_bytes=6, memory_mode="inputs")
ONE_BATCH = PatternPlan(5, (0, 1, 0), ((0, 1, 3, 4, 8, 11),), ({1: 1, 2: 3, 4: 8, 5: 10},))
TWO_BATCHES = PatternPlan(
    8,
    (0, 1, 0),
    ((3, 5, 7, 8, 9, 12), (6, 7, 9, 10, 11, 13)),
    ({1: 5, 2: 7, 4: 9, 5: 12}, {1: 7, 2: 9, 4: 11, 5: 13}),
)


def test_figure_5_with_one_batch_per_period_of_5() -> None:
    assert verify_pattern(FIGURE_5, ONE_BATCH) == ()
    facts = evaluate_pattern(FIGURE_5, ONE_BATCH)
    assert (facts.period, facts.objective, facts.throughput, facts.makespan) == (5, 5, 0.2, 12)
    first, second = facts.devices
    assert (first.gpu, first.layers, first.busy, first.idle) == (0, (1, 3), 4, 1)
    assert (first.peak_bytes, first.terms.kept, first.in_flight) == (6, 6, 3)
    assert (second.peak_bytes, second.in_flight) == (6, 2)


def test_figure_5_with_two_batches_per_period_of_8() -> None:
    assert verify_pattern(FIGURE_5, TWO_BATCHES) == ()
    facts = evaluate_pattern(FIGURE_5, TWO_BATCHES)
    assert (facts.period, facts.batches_per_period, facts.period_per_batch, facts.throughput) == (8, 2, 4, 0.25)
    assert facts.peak_bytes == 6


def test_each_mode_counts_its_terms() -> None:
    """Two GPUs, one layer each, unit times, transfers of 2, sizes 1, 10, 100 and weights 1000."""
    problem = ChainProblem([1, 1], [1, 1], [1, 10, 100], [1000, 1000], gpus=2, transfer_times=[2, 0, 2])
    plan = PatternPlan(8, (0, 1), ((0, 3, 4, 7),), ({1: 1, 3: 5},))
    terms = {mode: _peaks(problem.replace(memory_mode=mode), plan) for mode in MEMORY_MODES}
    assert terms["weights"] == [{"weights": 3000}] * 2
    assert terms["inputs"] == [{"weights": 3000, "kept": 1}, {"weights": 3000, "kept": 10}]
    # GPU 0 at F1 writes 10, at B1 reads 10 and writes 1; GPU 1 at B2 reads 100 and writes 10. Two slots of 10 each.
    assert terms["reserved"] == [
        {"weights": 3000, "kept": 1, "current": 11, "buffers": 20},
        {"weights": 3000, "kept": 10, "current": 110, "buffers": 20},
    ]
    # In truth no slot is filled while B1 or B2 runs.
    assert terms["strict"] == [
        {"weights": 3000, "kept": 1, "current": 11},
        {"weights": 3000, "kept": 10, "current": 110},
    ]


def _peaks(problem: ChainProblem, plan: PatternPlan) -> list[dict[str, float]]:
    peaks = [device.terms.to_json() for device in evaluate_pattern(problem, plan).devices]
    return [{term: size for term, size in peak.items() if size} for peak in peaks]


def test_links_join_both_directions_or_have_one_for_each() -> None:
    problem = ChainProblem([1, 1], [1, 1], [0, 1, 0], [0, 0], gpus=2, transfer_times=[3, 0, 3])
    plan = PatternPlan(4, (0, 1), ((0, 4, 5, 9),), ({1: 1, 3: 6},))
    assert rules(problem, plan) == ["exclusive-link"]
    assert rules(problem.replace(duplex="full"), plan) == []
    both = evaluate_pattern(problem, plan).links
    each = evaluate_pattern(problem.replace(duplex="full"), plan).links
    assert [(link.gpus, link.edges, link.busy, link.idle) for link in both] == [((0, 1), (1, 3), 6, -2)]
    assert [(link.gpus, link.edges, link.busy) for link in each] == [((0, 1), (1,), 3), ((1, 0), (3,), 3)]


def test_the_slot_of_an_edge_can_be_overrun() -> None:
    """The tensor waits from 1 to 7 for its transfer, which is longer than the period of 5."""
    problem = ChainProblem([1, 1], [1, 1], [0, 1, 0], [0, 0], gpus=2, transfer_times=[1, 0, 1])
    plan = PatternPlan(5, (0, 1), ((0, 7, 8, 11),), ({1: 6, 3: 10},))
    assert rules(problem, plan) == []
    assert rules(problem.replace(exclusive_buffers=True), plan) == ["buffer-overrun"]
    (overrun,) = evaluate_pattern(problem, plan).overruns
    assert (overrun.edge, overrun.name, overrun.side, overrun.gpu, overrun.excess) == (
        1,
        "F1 -> F2",
        "sender",
        0,
        1,
    )
    strict = problem.replace(memory_mode="strict")
    assert max(instant.terms.buffers for instant in memory_profiles(strict, plan)[0].instants) == 2


def test_a_slot_that_is_handed_over_at_the_instant_is_not_overrun() -> None:
    problem = ChainProblem([1, 1], [1, 1], [0, 1, 0], [0, 0], 2, transfer_times=[1, 0, 1], exclusive_buffers=True)
    plan = PatternPlan(5, (0, 1), ((0, 6, 7, 11),), ({1: 5, 3: 9},))
    assert verify_pattern(problem, plan) == ()


# ---- rounded times -------------------------------------------------------------------------------------


def test_times_from_a_solver_may_miss_each_other_by_a_rounding() -> None:
    shaken = random.Random(1)
    for _ in range(20):
        noisy = [tuple(time / 3 + shaken.uniform(-3e-10, 3e-10) for time in row) for row in ONE_BATCH.starts]
        moved = {edge: time / 3 + shaken.uniform(-3e-10, 3e-10) for edge, time in ONE_BATCH.transfers[0].items()}
        thirds = FIGURE_5.replace(forward=[1 / 3, 2 / 3, 1 / 3], backward=[1 / 3, 2 / 3, 1 / 3])
        plan = PatternPlan(5 / 3, (0, 1, 0), tuple(noisy), (moved,))
        assert verify_pattern(thirds, plan) == ()
        assert evaluate_pattern(thirds, plan).peak_bytes == 6


@pytest.mark.parametrize("exponent", range(-9, 4))
def test_decimals_of_few_digits_are_judged_exactly_in_every_unit(exponent: int) -> None:
    """Less than a milliardth of the period would be forgiven to rounded times; here it is an overlap."""

    def amount(count: int) -> float:
        return float(f"{count}e{exponent}")

    problem = ChainProblem([amount(10**9)], [amount(10**9)], [0, 0], [0], gpus=1)
    assert rules(problem, PatternPlan(amount(2 * 10**9), (0,), ((0, amount(10**9)),), ({},))) == []
    assert rules(problem, PatternPlan(amount(2 * 10**9 - 1), (0,), ((0, amount(10**9)),), ({},))) == [
        "exclusive-gpu"
    ]


@pytest.mark.parametrize("factor", ["1e-9", "1e-6", "1e-3", "1", "1e6", "1e9", "1e12"])
def test_rounded_times_are_judged_alike_in_every_unit(factor: str) -> None:
    """Thirds have no decimals: their last digits differ by a rounding, whatever the unit."""
    unit = Fraction(factor)
    third, two_thirds = float(unit / 3), float(unit * 2 / 3)
    problem = ChainProblem([third], [third], [0, 0], [0], gpus=1)
    assert rules(problem, PatternPlan(two_thirds, (0,), ((0, third),), ({},))) == []
    early = float(unit / 3 * (1 - Fraction(1, 10**7)))
    assert rules(problem, PatternPlan(two_thirds, (0,), ((0, early),), ({},))) == ["exclusive-gpu", "precedence"]


def test_fractions_are_exact() -> None:
    third: Any = Fraction(1, 3)
    problem = ChainProblem([1], [1], [1, 0], [0], gpus=1, memory_bytes=1, memory_mode="inputs")
    assert verify_pattern(problem, PatternPlan(2 + third, (0,), ((third, 1 + third),), ({},))) == ()


def test_memory_fits_where_the_sum_of_the_written_decimals_does() -> None:
    plan = PatternPlan(2, (0,), ((0, 1),), ({},))
    big = ChainProblem([1], [1], [2**40, 0], [0], gpus=1, memory_bytes=2**40 - 1, memory_mode="inputs")
    assert rules(big, plan) == ["memory"]
    tenths = big.replace(activations=[0.1, 0], weights=[0.1], weight_copies=2, memory_bytes=0.3)
    assert rules(tenths, plan) == []
    assert rules(tenths.replace(activations=[0.10000000000000002, 0]), plan) == ["memory"]
    assert rules(tenths.replace(memory_bytes=0.3 - 2**-54), plan) == ["memory"]


def test_a_message_on_memory_has_all_digits_that_tell_the_two_apart() -> None:
    plan = PatternPlan(2, (0,), ((0, 1),), ({},))
    problem = ChainProblem([1], [1], [1e9, 0], [0.5], gpus=1, memory_bytes=1e9 + 1, memory_mode="inputs")
    (violation,) = verify_pattern(problem, plan)
    assert "holds 1000000001.5 bytes" in violation.message
    assert "0.5 more than its memory of 1000000001 bytes" in violation.message


# ---- memory by another method ------------------------------------------------------------------------


def test_memory_is_what_counting_copies_says() -> None:
    rng = random.Random(4)
    for _ in range(150):
        problem = random_chain(rng).replace(memory_mode=rng.choice(MEMORY_MODES))
        plan = packed_plan(problem, rng, batches=rng.choice([1, 1, 2, 3]))
        peaks = {device.gpu: device.peak_bytes for device in evaluate_pattern(problem, plan).devices}
        assert peaks == peaks_by_counting(problem, plan)


def peaks_by_counting(problem: ChainProblem, plan: PatternPlan) -> dict[int, float]:
    """The largest sum over all tensors of size times number of copies, at any birth of a tensor."""
    period = int(plan.period)
    peaks = {}
    for gpu in set(plan.allocation):
        lives = list(lives_on(problem, plan, gpu))
        standing = sum(
            problem.weight_copies * w for w, g in zip(problem.weights, plan.allocation, strict=True) if g == gpu
        )
        if problem.memory_mode == "reserved":
            standing += sum(
                problem.activations[e] for e in range(1, problem.tasks) if _ends(problem, plan, e).count(gpu) == 1
            )
        totals = [
            sum(size * ((t - start) // period - (t - end) // period) for start, end, size in lives)
            for t in {0, *(start for start, _, _ in lives)}
        ]
        peaks[gpu] = standing + max(totals)
    return peaks


def lives_on(problem: ChainProblem, plan: PatternPlan, gpu: int) -> Iterator[tuple[int, int, float]]:
    a, d, last = problem.activations, problem.durations, problem.tasks
    for x, y in zip(plan.starts, plan.transfers, strict=True):
        start = [0, *map(int, x)]
        end = [0, *(s + int(t) for s, t in zip(start[1:], d, strict=True))]
        here = [t for t in range(1, last + 1) if plan.allocation[problem.layer_of[t - 1]] == gpu]
        for t in here if problem.memory_mode != "weights" else []:
            if t <= problem.layers:
                yield start[t], end[last + 1 - t], a[t - 1]
            if problem.memory_mode != "inputs":
                yield start[t], end[t], a[t] + (a[t - 1] if t > problem.layers else 0)
        for e in range(1, last) if problem.memory_mode in ("reserved", "strict") else []:
            source, target = _ends(problem, plan, e)
            if source == target == gpu:
                yield end[e], start[e + 1], a[e]
            elif problem.memory_mode == "strict" and source == gpu:
                yield end[e], int(y[e] + problem.edge_times[e - 1]), a[e]
            elif problem.memory_mode == "strict" and target == gpu:
                yield int(y[e]), start[e + 1], a[e]


def _ends(problem: ChainProblem, plan: PatternPlan, edge: int) -> tuple[int, int]:
    return plan.allocation[problem.layer_of[edge - 1]], plan.allocation[problem.layer_of[edge]]


def random_chain(rng: random.Random) -> ChainProblem:
    layers = rng.randint(1, 5)
    return ChainProblem(
        forward=[rng.randint(1, 4) for _ in range(layers)],
        backward=[rng.randint(1, 4) for _ in range(layers)],
        activations=[rng.randint(0, 5) for _ in range(2 * layers + 1)],
        weights=[rng.randint(0, 3) for _ in range(layers)],
        gpus=rng.randint(1, 3),
        transfer_times=[rng.randint(0, 3) for _ in range(2 * layers - 1)],
        duplex=rng.choice(["half", "full"]),
    )


def packed_plan(problem: ChainProblem, rng: random.Random, batches: int = 1) -> PatternPlan:
    """A valid plan without regard to memory: every resource works in some order, batches as late as it takes."""
    allocation = tuple(rng.randrange(problem.gpus) for _ in range(problem.layers))
    gpu = [allocation[layer] for layer in problem.layer_of]
    cut = [e for e in problem.remote_edges if gpu[e - 1] != gpu[e]]
    link = {
        e: (gpu[e - 1], gpu[e]) if problem.duplex == "full" else tuple(sorted((gpu[e - 1], gpu[e]))) for e in cut
    }
    loads: dict[Any, int] = defaultdict(int)
    for task, duration in enumerate(problem.durations):
        loads[gpu[task]] += batches * int(duration)
    for e in cut:
        loads[link[e]] += batches * int(problem.edge_times[e - 1])
    period = max(loads.values()) + rng.randint(0, 3)
    filled: dict[Any, int] = defaultdict(int)
    ready = [0] * batches

    def place(row: int, resource: Any, duration: float) -> int:
        start = ready[row] + (filled[resource] - ready[row]) % period
        filled[resource] += int(duration)
        ready[row] = start + int(duration)
        return start

    starts: list[list[int]] = [[] for _ in range(batches)]
    transfers: list[dict[int, int]] = [{} for _ in range(batches)]
    for task, duration in enumerate(problem.durations):
        for row in range(batches):
            ready[row] = max(ready[row], ready[row - 1] if row else 0)  # each task's batches in order
            starts[row].append(place(row, gpu[task], duration))
        if task + 1 in cut:
            for row in range(batches):
                transfers[row][task + 1] = place(row, link[task + 1], problem.edge_times[task])
    return PatternPlan(period, allocation, tuple(map(tuple, starts)), tuple(transfers))


# ---- one rule broken each ------------------------------------------------------------------------------


PROBLEM = ChainProblem(
    [2, 2, 2], [2, 2, 2], [1, 1, 1, 1], [1, 1, 1], gpus=2, memory_bytes=16, transfer_times=[1] * 5, weight_copies=1
)
PLAN = PatternPlan(12, (0, 0, 1), ((0, 2, 5, 7, 10, 12 + 4),), ({2: 4, 4: 9},))


def started(task: int, time: float) -> PatternPlan:
    row = list(PLAN.starts[0])
    row[task] = time
    return replace(PLAN, starts=(tuple(row),))


def moved(times: Mapping[int, float]) -> PatternPlan:
    return replace(PLAN, transfers=(times,))


@pytest.mark.parametrize(("plan", "rule", "words"), [
    (replace(PLAN, allocation=(0, 0, 2)), "gpus", "Layer 3 is on GPU 2; the problem has the GPUs 0 to 1."),
    (replace(PLAN, allocation=(0, 0, -1)), "gpus", "on GPU -1"),
    (started(1, 1), "precedence", "F2 starts at 1, 1 before F1 ends at 2."),
    (started(5, 11), "precedence", "B1 starts at 11, 1 before B2 ends at 12."),
    (moved({2: 3, 4: 9}), "transfer", "The transfer of edge 2 starts at 3, 1 before F2 ends at 4."),
    (moved({2: 4.5, 4: 9}), "transfer", "F3 starts at 5, 0.5 before the transfer of edge 2 ends at 5.5."),
    (moved({4: 9}), "transfer", "The transfer of edge 2 (F2 -> F3) has no start."),
    (moved({1: 2, 2: 4, 4: 9}), "transfer", "Edge 1 has a transfer but does not lead from GPU to GPU."),
    (started(5, 15), "exclusive-gpu", "On GPU 0 F2 and B1, some periods apart, overlap for 1"),
    (replace(PLAN, period=7), "exclusive-gpu", "in every period of 7."),
    (replace(PLAN, period=5), "exclusive-link", "On the link of GPUs 0 and 1"),
])  # fmt: skip
def test_a_broken_rule_is_named_with_its_numbers(plan: PatternPlan, rule: str, words: str) -> None:
    messages = [violation.message for violation in verify_pattern(PROBLEM, plan) if violation.rule == rule]
    assert any(words in message for message in messages), verify_pattern(PROBLEM, plan)


def test_a_lack_of_memory_is_named_with_what_needs_it() -> None:
    peak = max(evaluate_pattern(PROBLEM, PLAN).devices, key=lambda device: device.peak_bytes)
    (violation,) = verify_pattern(PROBLEM.replace(memory_bytes=peak.peak_bytes - 1), PLAN)
    assert violation.rule == "memory"
    assert f"GPU {peak.gpu} holds {peak.peak_bytes} bytes" in violation.message
    assert "1 more than its memory" in violation.message
    assert "weights 2, kept" in violation.message
    assert verify_pattern(PROBLEM.replace(memory_bytes=peak.peak_bytes), PLAN) == ()


def test_batches_of_a_pattern_keep_their_order() -> None:
    swapped = replace(TWO_BATCHES, starts=TWO_BATCHES.starts[::-1], transfers=TWO_BATCHES.transfers[::-1])
    assert rules(FIGURE_5, swapped) == ["order"]
    later = [
        replace(
            TWO_BATCHES,
            starts=(TWO_BATCHES.starts[0], tuple(x + 8 * periods for x in TWO_BATCHES.starts[1])),
            transfers=(TWO_BATCHES.transfers[0], {e: y + 8 * periods for e, y in TWO_BATCHES.transfers[1].items()}),
        )
        for periods in (1, -1)
    ]
    assert [rules(FIGURE_5, plan) for plan in later] == [["order"], ["order"]]


@pytest.mark.parametrize(("changes", "words"), [
    ({"period": 0}, "The period is 0, not a positive number."),
    ({"period": math.nan}, "not a positive number"),
    ({"allocation": (0, 0)}, "2 entries for 3 layers"),
    ({"starts": ()}, "no row of starts"),
    ({"starts": ((0, 1),)}, "2 entries for 6 tasks"),
    ({"transfers": ()}, "1 row of starts and 0 of transfers"),
    ({"transfers": ({2: math.inf},)}, "not a finite number"),
    ({"period": 1e-9}, "periods, more than the 10000"),
])  # fmt: skip
def test_what_cannot_be_laid_out_breaks_its_shape(changes: dict[str, Any], words: str) -> None:
    plan = replace(PLAN, **changes)
    violations = verify_pattern(PROBLEM, plan)
    assert {violation.rule for violation in violations} == {"shape"}
    assert any(words in violation.message for violation in violations)
    with pytest.raises(NotAPatternError):
        evaluate_pattern(PROBLEM, plan)


def test_shaken_plans_are_refused_or_still_obey_every_rule() -> None:
    """A start moved at random: the verdict is that of a check of all instants, copy by copy."""
    rng = random.Random(3)
    refused = 0
    for _ in range(200):
        problem = random_chain(rng)
        plan = packed_plan(problem, rng)
        row = list(plan.starts[0])
        row[rng.randrange(len(row))] += rng.choice([-2, -1, 1, 2])
        plan = replace(plan, starts=(tuple(row),))
        valid = obeys_by_instants(problem, plan)
        assert (verify_pattern(problem, plan) == ()) == valid
        refused += not valid
    assert 20 < refused < 180


def obeys_by_instants(problem: ChainProblem, plan: PatternPlan) -> bool:
    """Precedence, transfers and exclusive use: no resource does two things at one instant of the period."""
    (x,), (y,) = plan.starts, plan.transfers
    instants: dict[Any, list[float]] = defaultdict(list)

    def use(resource: Any, start: float, duration: float) -> None:
        instants[resource] += [(start + tick) % plan.period for tick in range(int(duration))]

    for task, duration in enumerate(problem.durations):
        use(plan.allocation[problem.layer_of[task]], x[task], duration)
    for e in range(1, problem.tasks):
        source, target = _ends(problem, plan, e)
        left = x[e - 1] + problem.durations[e - 1]
        if source == target and x[e] < left:
            return False
        if source != target:
            ends = (source, target) if problem.duplex == "full" else tuple(sorted((source, target)))
            use(ends, y[e], problem.edge_times[e - 1])
            if y[e] < left or x[e] < y[e] + problem.edge_times[e - 1]:
                return False
    return all(len({*taken}) == len(taken) for taken in instants.values())


# ---- A pattern unrolled: who does what when, batch by batch.


CHAIN = ChainProblem((1, 1), (1, 1), (1, 1, 1), (1, 1), gpus=2, transfer_times=(1, 0, 1))
SENT = PatternPlan(4, (0, 1), ((0, 2, 3, 5),), ({1: 1, 3: 4},))
"""F1 0-1, sent 1-2, F2 2-3, B2 3-4, sent 4-5, B1 5-6."""


def test_the_first_batch_then_the_next_a_period_later() -> None:
    told = [(a.resource, a.start, a.name, a.batch) for a in unroll(CHAIN, SENT, 0, 6)]
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
    period = unroll(CHAIN, SENT, 0, 4, first_batch=None)
    assert sorted(a.name for a in period if a.resource != "link0-1") == ["B1", "B2", "F1", "F2"]
    assert {a.batch for a in period} == {0, -1}


def test_what_hangs_over_an_edge_of_the_window_is_shown() -> None:
    names = [a.name for a in unroll(CHAIN, SENT, 0.5, 0.75)]
    assert names == ["F1"]
    assert unroll(CHAIN, SENT, 6, 6.5, first_batch=1)[0].batch == 1


def test_a_pattern_repeats_once_its_last_task_has_started() -> None:
    assert steady_from(CHAIN, SENT) == 5
    one, next_one = (
        [(a.resource, a.start % 4, a.name) for a in unroll(CHAIN, SENT, begin, begin + 4)] for begin in (6, 10)
    )
    assert sorted(one) == sorted(next_one)


def test_directions_have_names_of_their_own_with_full_duplex() -> None:
    assert resources(CHAIN, SENT) == ("gpu0", "gpu1", "link0-1")
    assert resources(CHAIN.replace(duplex="full"), SENT) == ("gpu0", "gpu1", "link0>1", "link1>0")


def test_rows_of_a_pattern_are_batches_in_turn() -> None:
    plan = PatternPlan(8, (0, 1), ((0, 2, 3, 5), (4, 6, 7, 9)), ({1: 1, 3: 4}, {1: 5, 3: 8}))
    starts = {a.batch: a.start for a in unroll(CHAIN, plan, 0, 16) if a.name == "F1"}
    assert starts == {0: 0, 1: 4, 2: 8, 3: 12}


@pytest.mark.parametrize("seed", range(10))
def test_busy_times_add_up(seed: int) -> None:
    """In any period of a running pipeline every task and transfer takes its whole time."""
    problem = any_chain(seed)
    plan = one_by_one(problem, tuple(i % problem.gpus for i in range(problem.layers)))
    begin, end = 7 * plan.period / 3, 10 * plan.period / 3
    seen = sum(min(a.end, end) - max(a.start, begin) for a in unroll(problem, plan, begin, end, first_batch=None))
    cut = sum(problem.edge_times[edge - 1] for edge in plan.transfers[0])
    assert seen == pytest.approx(sum(problem.durations) + cut)
