"""The answer in one sentence: what limits the pipeline, how good the plan is proven to be, what an even split costs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipeplan.instances.base.cluster import Cluster
from pipeplan.instances.base.result import Asked, Found, Stop
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.placement.plan import PlacementPlan
from pipeplan.instances.placement.problem import AcceleratorType, PlacementProblem
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.referee import Ruling, rules_of
from pipeplan.planners.run.solve import solve
from pipeplan.planners.search import shares
from pipeplan.planners.staging.equal import equal_plans
from pipeplan.show.answer import (
    answer,
    command_of,
    equal_blocks,
    even,
    even_split,
    how_good,
    no_plan,
    optimal,
    staging_plans,
)
from pipeplan.show.view import view_of


def sentence(name: str, planner: str, **options: Any) -> str:
    problem = load_packaged(name)
    result = solve(problem, planner=planner, options=options)
    rules = rules_of(problem, result.options)
    view = None if result.plan is None else view_of(problem, result.plan, rules)
    return answer(problem, result, view, rules)


@pytest.mark.parametrize(
    ("name", "planner", "words"),
    [
        ("tiny-chain", "dp",
         "6 ms per micro-batch: acc1 (nodes c-d) limits the pipeline and spends 83.3 % of its time on"),
        ("tiny-chain", "dp",
         "; optimal, proven among contiguous plans, which form a chain of stages (--formulation ip-tarnawski "
         "--non-contiguous asks for more); this is"),
        ("tiny-chain", "latency-greedy",
         "16 ms for one sample: acc0, piece 1 (nodes a-d) takes 10.5 ms of it, the"),
        ("golden-4", "exact-beaumont",
         "13 per batch: gpu1 (layers 2-4) limits the pipeline and is always busy; optimal, proven among"),
        ("golden-4", "exact-beaumont", "an even split (as many layers on each GPU) would be 38.5 % slower."),
        ("golden-4", "contiguous", "; how far it is from the best plan is not known; an"),
        ("tiny-levels", "dp-piper",
         "6 s per micro-batch: stage 0.0 (layer a) limits the pipeline and spends 66.7 %"),
        ("tiny-graph", "graphpipe", " per iteration: stage "),
        ("tiny-chain", "one-device", "No plan was found: the method knows none that fits."),
    ],
)  # fmt: skip
def test_every_kind_answers_in_one_sentence(name: str, planner: str, words: str) -> None:
    said = sentence(name, planner)
    assert words in said
    assert said.endswith(".")


def test_an_infeasible_problem_is_said_to_be_one() -> None:
    problem = load_packaged("tiny-chain").replace(accelerators=1)
    result = solve(problem, planner="dp")
    said = answer(problem, result, None, rules_of(problem, result.options))
    assert said == "Proven: there is no plan (among contiguous plans, which form a chain of stages)."


def test_a_gap_is_said_as_a_share_of_the_value() -> None:
    """19 with a bound of 14: nothing saves more than 5 of 19, while the plan is 5 of 14 above the bound."""
    problem = load_packaged("tiny-chain")
    result = replace(solve(problem, planner="dp"), stop=Stop.TIME, found=Found.FEASIBLE, objective=19.0, bound=14.0)
    assert result.gap == pytest.approx(5 / 19)
    assert how_good(problem, result) == (
        "proven: no plan saves more than 26.3 % of this time (among contiguous plans, which form a chain of stages)"
    )
    assert (1 - 5 / 19) * result.objective == pytest.approx(result.bound), "so much less time, and it is the bound"


def test_whoever_starts_from_a_plan_is_told_how_far_it_is() -> None:
    problem = load_packaged("tiny-chain")
    own = PlacementPlan.from_assignment(problem, dict(zip(problem.index, (0, 0, 0, 1, 1, 2), strict=True)))
    result = solve(problem, planner="dp", warm_start=own)
    rules = rules_of(problem, result.options)
    value = rules.value(problem, own)
    said = answer(problem, result, None if result.plan is None else view_of(problem, result.plan, rules), rules)
    assert result.objective == 6.0
    assert value == 7.0
    assert "; your plan would be 16.7 % slower; " in said


def test_a_bound_within_the_tolerance_reads_as_a_proof() -> None:
    assert optimal(0.0) == "optimal, proven"
    assert optimal(5e-7) == "optimal, proven within 0.00005 %"


def test_shares_differ_by_one_at_most() -> None:
    assert [len(share) for share in shares(range(7), 3)] == [3, 2, 2]
    assert [len(share) for share in shares(range(2), 3)] == [1, 1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tiny-chain", 6.0),  # two nodes each
        ("golden-4", 18.0),  # two layers each: both batches wait for each other's memory
        ("tiny-stages", 6.0),
        ("memory-tight", None),  # no even split fits
        ("tiny-levels", 6.0),
    ],
)
def test_an_even_split_is_judged_by_the_referee(name: str, value: float | None) -> None:
    problem = load_packaged(name)
    even = even_split(problem, rules_of(problem, {}))
    assert (None if even is None else even.value) == value


def test_of_equal_stages_so_many_are_tried_as_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds would make the plan that others are compared with one of the machine."""
    problem = load_packaged("tiny-stages")
    monkeypatch.setattr("pipeplan.show.answer.MOST_LAYERS", 0)
    assert list(staging_plans(problem)) == [next(equal_plans(problem, "paper", True))]


def on_two_types(memory_bytes: float | None = None) -> PlacementProblem:
    """The six layers, numbered, on two accelerators of its own and one on which each takes twice as long."""
    problem = load_packaged("tiny-chain")
    name = {node.id: f"h.{i}" for i, node in enumerate(problem.nodes)}
    nodes = tuple(
        replace(node, id=name[node.id], other_times=(2 * node.accelerator_time,)) for node in problem.nodes
    )
    edges = tuple((name[source], name[target]) for source, target in problem.edges)
    others = (AcceleratorType("slow", 1, memory_bytes),)
    return problem.replace(accelerators=2, nodes=nodes, edges=edges, other_types=others)


@pytest.mark.parametrize("split", [even_split, equal_blocks])
def test_the_even_split_of_a_placement_is_over_accelerators_of_every_type(
    split: Callable[..., Ruling | None],
) -> None:
    problem = on_two_types()
    even = split(problem, rules_of(problem, {}))
    assert even is not None
    assert isinstance(even.plan, PlacementPlan)
    types = [device.accelerator_type for device in even.plan.devices]
    assert types in ([None, None, "slow"], ["slow", None, None])
    assert [len(device.nodes) for device in even.plan.devices] == [2, 2, 2]


def test_an_even_split_that_one_type_has_no_memory_for_names_the_device() -> None:
    """The fullest device holds no more than it may."""
    problem = on_two_types(1.0)
    rules = rules_of(problem, {})
    said = even(problem, PlacementPlan(()), rules, 1.0)
    assert re.search(r"the nearest holds [\d.]+ [KMG]?i?B on acc\d, [\d.]+ [KMG]?i?B more than it has$", said)


def test_the_even_split_of_a_graph_is_as_long_as_its_simulation() -> None:
    problem = load_packaged("case-study")
    even = even_split(problem, rules_of(problem, {"objective": "iteration"}))
    assert even is not None
    assert even.value is not None
    assert even.value > 0.0850733


@pytest.mark.slow
def test_an_even_split_of_a_graph_tells_its_micro_batches_where_the_plan_has_others() -> None:
    """They are its best ones, also where somebody asks for a plan with others, which may then be slower."""
    assert "one stage behind the other) with micro-batches of " in sentence("mmt-8", "graphpipe", micro_batch=64)
    assert "behind the other) would" in sentence("mmt-8", "spp-pipedream", micro_batch=4)


def test_an_even_split_is_not_compared_with_itself() -> None:
    said = sentence("tiny-stages", "equi")
    assert said.endswith("; this is an even split (as many layers in each stage, the same degrees for all).")
    assert "would" not in said


@pytest.mark.parametrize("name", ["tiny-chain", "golden-4", "tiny-stages", "tiny-levels", "tiny-graph"])
@pytest.mark.parametrize("proof", ["optimal", "gap", "infeasible"])
def test_no_scope_is_read_as_the_claim_itself(name: str, proof: str) -> None:
    """What is proven comes first, and the plans that it is proven for behind it, without a colon of their own."""
    problem = load_packaged(name)
    result = solve(problem, limits=SolveOptions(time_limit_s=600))
    assert result.scope
    assert result.bound is not None
    if proof == "infeasible":
        told = no_plan(problem, replace(result, stop=Stop.INFEASIBLE, found=Found.NOTHING, plan=None))
        assert told.startswith("Proven: there is no plan (among ")
    elif proof == "gap":
        worse = replace(result, stop=Stop.TIME, found=Found.FEASIBLE, objective=2 * result.bound)
        told = how_good(problem, worse)
        assert told.startswith("proven: no plan saves more than 50 % of this time (among ")
    else:
        told = how_good(problem, replace(result, stop=Stop.PROVEN, found=Found.OPTIMAL, objective=result.bound))
        assert told.startswith("optimal, proven among ")
    assert ":" not in told.partition(" among ")[2]


def test_the_command_repeats_what_was_asked_for() -> None:
    result = solve(load_packaged("tiny-chain"), planner="dp", options={"objective": "gpipe"})
    assert command_of(result) == "plan solve tiny-chain --planner dp --objective gpipe"
    exact = solve(load_packaged("tiny-chain"), formulation="ip-tarnawski", options={"non_contiguous": True})
    asked = Asked("my model.json", Cluster(devices=2, memory_bytes=math.inf).to_json())
    assert command_of(replace(exact, asked=asked)) == (
        "plan solve 'my model.json' --devices 2 --memory none --formulation ip-tarnawski --non-contiguous"
    )
    own = load_packaged("tiny-chain").replace(name="mine")
    assert command_of(solve(own, planner="dp")) is None, "a program's own problem has no file"
