"""The shortest period by the CP-SAT model is that of enumeration, and of what is known of shapes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from known_pipelines import shape
from oracles.schedule import least_period

from pipeplan import InputError, PeriodicSchedulePlan, Result, SolveOptions, Stop, solve
from pipeplan.formulations.contract import BuiltModel, NativeOnlyError, Refuted
from pipeplan.formulations.zero_bubble.periodic_cp import FORMULATION as CP
from pipeplan.formulations.zero_bubble.periodic_cp import laid_out
from pipeplan.formulations.zero_bubble.periodic_facts import facts_of
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.schedule.referee import verify_schedule


def answer(problem: ScheduleProblem, **changes: Any) -> Result:
    return solve(problem, formulation="cp-periodic", limits=SolveOptions(threads=1), **changes)


def shortest(problem: ScheduleProblem, **changes: Any) -> Fraction | None:
    """Proven; None where nothing fits."""
    result = answer(problem, **changes)
    if result.stop == Stop.INFEASIBLE:
        return None
    assert result.stop == Stop.PROVEN, result.messages
    assert result.verified
    return result.plan.period  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("standing", "more", "fits"), [(0.0, 0.0, False), (98765432109.87654, 0.0, True), (0.0, 1e30, True)]
)
def test_amounts_beyond_the_integers_of_the_solver_decide_as_small_ones_do(
    standing: float, more: float, fits: bool
) -> None:
    """A work space that is 800,000 times what a block keeps, a standing amount, or a limit that nothing reaches, in
    units of the last digit."""
    kept = 123456.78901234566
    workspace, limit = (0.0, standing + kept + more) if fits else (98765432109.87654, kept)
    device = ScheduleDevice("d", memory=limit, standing=standing)
    blocks = (
        Block("a", "F", ("d",), 1.0, 0, memory={"d": kept}, workspace={"d": workspace} if workspace else {}),
        Block("b", "B", ("d",), 2.0, 1, memory={"d": -kept}),
    )
    problem = ScheduleProblem((device,), blocks, (BlockEdge("a", "b"), BlockEdge("b", "a", offset=2)))
    assert shortest(problem) == (3 if fits else None)


# ---- fractions and other numbers -----------------------------------------------------------------------


def loop(*lengths: float, turns: int) -> ScheduleProblem:
    """Blocks on a device each, around a cycle that spans so many micro-batches."""
    devices = tuple(ScheduleDevice(f"d{n}") for n in range(len(lengths)))
    blocks = tuple(Block(f"b{n}", "X", (f"d{n}",), length) for n, length in enumerate(lengths))
    edges = [BlockEdge(f"b{n}", f"b{n + 1}") for n in range(len(lengths) - 1)]
    return ScheduleProblem(devices, blocks, (*edges, BlockEdge(f"b{len(lengths) - 1}", "b0", 0, turns)))


def test_whole_times_may_have_a_fraction_as_their_shortest_period() -> None:
    """A cycle of 7 that spans two micro-batches; one that spans three is shorter than the longest block."""
    assert shortest(loop(3, 2, 2, turns=3)) == 3
    assert shortest(loop(3, 2, 2, turns=2)) == Fraction(7, 2)


def test_times_without_a_common_unit_keep_their_digits() -> None:
    times = (0.1234567890123, 3.0000000000001, 1.7182818284590)
    chain = loop(*times, turns=2)
    found = shortest(chain)
    assert found == max(chain.times[1], sum(chain.times) / 2)


# ---- memory --------------------------------------------------------------------------------------------


def test_times_too_far_apart_for_a_float_are_infeasible_as_well() -> None:
    """The next period after the bound of 10^12 is the same float: asked for up to there, nothing new is refuted."""
    blocks = (Block("a", "X", ("d",), 1e12, 0, {}, {"d": 1}), Block("b", "X", ("e",), 0.01, 0, {}, {"e": 1}))
    devices = (ScheduleDevice("d", 1), ScheduleDevice("e", 0))
    problem = ScheduleProblem(devices, blocks, (BlockEdge("a", "b"),), None)
    assert answer(problem).stop == Stop.INFEASIBLE
    roomy = problem.replace(devices=(devices[0], replace(devices[1], memory=1)))
    assert shortest(roomy) == 10**12


def test_warm_up_counts_where_a_micro_batch_gives_before_it_takes() -> None:
    """The first b gives back what the device stands on, before a takes it again; the second one has to wait."""
    blocks = (Block("a", "X", ("d0",), 1, memory={"d0": 1}), Block("b", "X", ("d0",), 1, memory={"d0": -1}))
    given_first = (BlockEdge("b", "a", 5),)
    for standing, period in ((0, None), (1, 7), (4, 2)):
        problem = ScheduleProblem((ScheduleDevice("d0", 4, standing),), blocks, given_first)
        assert least_period(problem) == period
        assert shortest(problem) == period


def test_no_part_of_a_micro_batch_waits_a_period_that_it_need_not_wait() -> None:
    """A block a period earlier breaks a rule, whichever it is, but for the first."""
    problem = shape("x", 4)
    plan = answer(problem, warm_start="none").plan
    assert isinstance(plan, PeriodicSchedulePlan)
    for name, start in plan.starts.items():
        earlier = replace(plan, starts={**plan.starts, name: start - plan.period})
        assert verify_schedule(problem, earlier), name


# ---- the shapes ----------------------------------------------------------------------------------------

PERIODS = {("v", 4): 3, ("x", 4): 6, ("k", 4): 6, ("m", 4): 10, ("nn", 4): 21, ("v", 8): 6, ("m", 8): 12}
"""By shape and memory, on 4 devices with a memory of 4, and on 8 with one of 6."""


@pytest.mark.parametrize(("name", "devices"), PERIODS, ids=lambda value: str(value))
def test_periods_of_shapes(name: str, devices: int) -> None:
    problem = shape(name, devices, {4: 4, 8: 6}[devices])
    assert shortest(problem) == PERIODS[name, devices]


@pytest.mark.sweeps
def test_two_chains_on_eight_devices_with_six_units() -> None:
    """A plain model leaves it open."""
    assert shortest(shape("nn", 8, 6)) == 22


# ---- questions, plans and refusals ---------------------------------------------------------------------


def test_a_cutoff_below_the_bound_needs_no_solver() -> None:
    assert isinstance(CP.build(shape("v"), {}, native=True, cutoff=2.9), Refuted)


def test_a_plan_of_some_period_is_no_proof_that_none_is_shorter() -> None:
    """The model has nothing to minimise: what a solver calls its optimum bounds no period."""
    problem = shape("m", 3, 2)
    least = shortest(problem)
    limits = SolveOptions(threads=1, rel_gap=0.9)
    result = solve(problem, formulation="cp-periodic", limits=limits, warm_start="none")
    assert result.stop in (Stop.GAP, Stop.PROVEN)
    assert result.bound <= float(least or 0)
    wide = CP.build(problem, {}, native=True, cutoff=None)
    assert isinstance(wide, BuiltModel)
    assert wide.bound == CP.lower_bound(problem, {})


def test_a_plan_laid_out_and_timed_again_is_no_longer() -> None:
    problem = shape("m", 3, 3)
    plan = answer(problem).plan
    again = laid_out(facts_of(problem), plan).timed()  # type: ignore[arg-type]
    assert again.period <= plan.period  # type: ignore[union-attr]
    assert not verify_schedule(problem, again)


def test_what_has_no_steady_state_is_refused_in_words() -> None:
    leaking = ScheduleProblem(
        (ScheduleDevice("d0"),), (Block("a", "F", ("d0",), 1, memory={"d0": 1}),), (), 3, leaks=True
    )
    with pytest.raises(InputError, match="no schedule repeats"):
        CP.check(leaking, {})
    with pytest.raises(InputError, match="all have time 0"):
        CP.check(loop(0, 0, turns=1), {})
    with pytest.raises(NativeOnlyError, match="cp-periodic"):
        CP.build(shape("v"), {}, native=False)


def test_blocks_without_time_share_an_instant_with_those_of_an_earlier_micro_batch() -> None:
    """At one instant the earlier micro-batch comes first: nothing has to wait a hair for it."""
    blocks = (
        Block("take", "F", ("d0",), 0, memory={"d0": 2}),
        Block("give", "B", ("d0",), 0, memory={"d0": -2}),
        Block("long", "F", ("d1",), 3),
    )
    devices = (ScheduleDevice("d0", 2), ScheduleDevice("d1"))
    problem = ScheduleProblem(devices, blocks, (BlockEdge("take", "give", 3),))
    plan = PeriodicSchedulePlan(Fraction(3), {"take": Fraction(0), "give": Fraction(3), "long": Fraction(0)})
    assert not verify_schedule(problem, plan)
    timed = laid_out(facts_of(problem), plan).timed()
    assert timed.period == 3
