"""How a placement is asked for its least memory: the same on every accelerator, whatever its type.

The least memory is the least largest load where sizes are the times: one run without a limit mostly says it. What
remains open is asked for, one amount after the other, of problems in which nothing takes any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from ...instances.base.amounts import as_written, common_unit, exact_sum
from ...instances.base.errors import InputError, show
from ...instances.base.quantities import several
from ...instances.base.result import Stop
from ...instances.physics.tolerances import SAFETY
from ...instances.placement.kind_functions import held, with_memory
from ...instances.placement.problem import Node, PlacementProblem
from ...instances.placement.referee.verify import rules_of
from ..options import SolveOptions
from .smallest import Answer, Ask, Floor, Questions, accepted, check_method, of_mine, outcome_of, whole

DP, IP = "dp", "ip-tarnawski"


def questions(problem: PlacementProblem, options: Mapping[str, Any]) -> Questions:
    """The least memory of chains of stages, or of any placements where the options ask for these."""
    contiguity = str(rules_of(problem, options).to_options().get("contiguity", "device"))
    check_method(problem, DP if contiguity == "chain" else IP)
    sizes = [as_written(node.size_bytes) for node in problem.nodes]
    unit = common_unit(sizes) or Fraction(1)
    chains, anywhere = partial(_ask, problem, DP, {}), partial(_ask, problem, IP, {"non_contiguous": True})
    asks: Mapping[str, tuple[Ask, ...]] = {
        "chain": (chains,),
        "none": (anywhere,),
        # Chains of stages are among these placements, and these among any placements.
        "device": (partial(of_mine, chains), lambda memory, limits: Answer(none=anywhere(memory, limits).none)),
    }
    return Questions(
        unit=unit,
        floor=_floor(problem, unit),
        held=partial(held, problem, options=options),
        first=partial(_by_load, problem, contiguity, unit),
        rounds=asks[contiguity],
    )


def _floor(problem: PlacementProblem, unit: Fraction) -> Floor:
    """The largest class of a colour, or an even share of all."""
    if problem.cpus:
        return Floor(Fraction(0), "the CPUs can take everything")
    classes = {
        members: exact_sum(problem.nodes[i].size_bytes for i in members) for members in problem.color_classes
    }
    largest = max(classes, key=lambda members: classes[members])
    devices = problem.accelerators + sum(other.count for other in problem.other_types)
    share = whole(sum(classes.values(), Fraction(0)) / devices, unit)
    if share > classes[largest]:
        return Floor(share, f"an even share of all nodes on {several(devices, 'accelerator')}")
    node = problem.nodes[largest[0]]
    what = f"node {show(node.id)}" if len(largest) == 1 else f"the nodes of colour {show(node.color)}"
    return Floor(classes[largest], f"{what}, which nothing divides")


# ---- problems ------------------------------------------------------------------------------------------


def _with(problem: PlacementProblem, memory_bytes: float | None, time: Callable[[Node], float]) -> PlacementProblem:
    """The problem with so much memory everywhere, with these times on accelerators and no other times."""
    free: dict[str, Any] = {"cpu_time": 0.0, "transfer_time": 0.0}
    nodes = tuple(
        replace(
            node,
            accelerator_time=time(node),
            other_times=tuple(None if other is None else time(node) for other in node.other_times),
            **free,
        )
        for node in problem.nodes
    )
    return with_memory(problem.replace(nodes=nodes), memory_bytes)


# ---- questions -----------------------------------------------------------------------------------------


def _by_load(
    problem: PlacementProblem, contiguity: str, unit: Fraction, memory_bytes: float | None, limits: SolveOptions
) -> Answer:
    """The plan of the least load where sizes are times."""
    weighed = _with(problem, None, lambda node: node.size_bytes)
    outcome = outcome_of(weighed, DP, {}, limits)
    plan = accepted(weighed, outcome.plan, {})
    if contiguity == "none":
        left = None if limits.time_limit_s is None else limits.time_limit_s / 2
        options = {"non_contiguous": True}
        outcome = outcome_of(weighed, IP, options, replace(limits, time_limit_s=left), plan)
        plan = accepted(weighed, outcome.plan, options) or plan
    above = None
    if contiguity != "device" and outcome.bound is not None and outcome.bound > 0:
        # An amount below the least load, by the bound of the run.
        above = whole(as_written(outcome.bound) * (1 - Fraction(SAFETY)), unit) - unit
    return Answer(plan, above=above)


def _ask(
    problem: PlacementProblem,
    name: str,
    options: Mapping[str, Any],
    memory_bytes: float | None,
    limits: SolveOptions,
) -> Answer:
    """Is there a plan, if time is no matter?"""
    try:
        asked = _with(problem, memory_bytes, lambda node: 0.0)
    except InputError:  # something fits on no accelerator
        return Answer(none=True)
    outcome = outcome_of(asked, name, options, limits)
    plan = accepted(asked, outcome.plan, options)
    return Answer(plan, none=plan is None and outcome.stop == Stop.INFEASIBLE)
