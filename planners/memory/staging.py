"""How a staging problem, flat or on levels, is asked for its least memory, the same on devices of every type; and why
it has no plan: degrees out of reach, a layer that fits nowhere, or what would be enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from ...instances.base.amounts import as_written, common_unit
from ...instances.base.errors import show
from ...instances.base.quantities import several
from ...instances.base.result import Stop
from ...instances.least_memory import at_least, option
from ...instances.staging.kind_functions import held, with_memory
from ...instances.staging.problem import Configuration, Layer, StagingProblem
from ...instances.staging.referee import rules_of
from ..options import SolveOptions
from ..staging.equal import widest_degree
from .smallest import Answer, Floor, Questions, accepted, of_mine, outcome_of, whole, would_do

DP = "dp-piper"
# Bandwidth with which nothing takes any time to send.
ENDLESS = 1e100


def questions(problem: StagingProblem, options: Mapping[str, Any]) -> Questions:
    """The least memory of all stages with the degrees and configurations that exist."""
    rules = {name: value for name, value in rules_of(problem, options).to_options().items() if name != "objective"}
    amounts = (
        as_written(amount)
        for layer in problem.layers
        for way in _ways(problem, layer)
        for amount in (way.memory_per_batch, way.memory_fixed, way.memory_divided)
    )
    unit = common_unit([*amounts, *([Fraction(1)] if problem.zero else [])]) or Fraction(1)
    ask = partial(_ask, problem, rules, problem)
    thrifty = _thrifty(problem)
    quick = ask if thrifty is None else partial(of_mine, partial(_ask, problem, rules, thrifty))
    return Questions(
        unit=unit,
        floor=_floor(problem, unit),
        held=partial(held, problem, options=rules),
        first=quick,
        rounds=tuple({quick: 1, ask: 1}),
    )


def _ways(problem: StagingProblem, layer: Layer) -> Iterable[Configuration]:
    return (way for t, ways in layer.configurations.items() if t <= problem.devices for way in ways)


def least_of_layer(problem: StagingProblem, layer: Layer) -> Fraction:
    """What a layer takes of a device at least, with one micro-batch in flight."""
    return min((way.memory_bytes(1, most_copies(problem)) for way in _ways(problem, layer)), default=Fraction(0))


def most_copies(problem: StagingProblem) -> int:
    """Copies of a stage that may divide what they hold."""
    return min(problem.devices, problem.micro_batches) if problem.zero and problem.replication else 1


def _floor(problem: StagingProblem, unit: Fraction) -> Floor:
    """The largest layer, or an even share of all."""
    largest = max(problem.layers, key=lambda layer: least_of_layer(problem, layer))
    least = least_of_layer(problem, largest)
    # Least memory of each layer, added up over all devices that it runs on.
    needs = (
        min((t * way.memory_bytes(1) for t, ways in x.configurations.items() if t <= problem.devices for way in ways),
            default=Fraction(0))
        for x in problem.layers
    )  # fmt: skip
    together = sum(needs, Fraction(0))
    share = whole(together / problem.devices, unit)
    if share > least:
        return Floor(share, f"an even share of all layers on {several(problem.devices, 'device')}")
    return Floor(least, f"layer {show(largest.id)} alone")


def _timeless(problem: StagingProblem, memory_bytes: float | None) -> StagingProblem:
    """The problem with so much memory everywhere in which nothing takes any time, so that a search ends with its first
    plan."""
    free: dict[str, Any] = {"time": 0.0, "forward_time": None, "gather_in": {}, "gather_out": {}}
    if problem.zero < 3:
        free["weight_bytes"] = 0.0
    else:  # the weights say what is gathered
        levels = tuple(replace(level, bandwidth=ENDLESS) for level in problem.levels)
        problem = problem.replace(bandwidth=ENDLESS, levels=levels)
    layers = tuple(
        replace(
            layer,
            configurations={
                t: tuple(replace(way, **free) for way in ways) for t, ways in layer.configurations.items()
            },
        )
        for layer in problem.layers
    )
    edges = tuple(replace(edge, bytes=0.0) for edge in problem.edges)
    return with_memory(problem.replace(layers=layers, edges=edges), memory_bytes)


def _thrifty(problem: StagingProblem) -> StagingProblem | None:
    """The same layers without replicas, each on as many devices as may share one and in the way that holds least.

    Few plans are left, so they are searched in moments on any cluster, and the best of them is mostly among the best of
    all. None: not all layers run on the same number of devices, or replicas are asked for.
    """
    degree = widest_degree(problem)
    if degree is None:
        return None
    most = max(1, problem.devices // degree)
    layers = tuple(
        replace(
            layer,
            configurations={degree: (min(layer.configurations[degree], key=lambda way: way.memory_bytes(most)),)},
        )
        for layer in problem.layers
    )
    return problem.replace(layers=layers, replication=False)


def _ask(
    problem: StagingProblem,
    rules: Mapping[str, Any],
    among: StagingProblem,
    memory_bytes: float | None,
    limits: SolveOptions,
) -> Answer:
    """Is there a plan of the problem among those of another one, which has fewer?"""
    outcome = outcome_of(_timeless(among, memory_bytes), DP, rules, limits)
    plan = accepted(_timeless(problem, memory_bytes), outcome.plan, rules)
    return Answer(plan, none=plan is None and outcome.stop == Stop.INFEASIBLE)


# ---- why there is no plan ------------------------------------------------------------------------------


def explain(
    problem: StagingProblem, options: Mapping[str, Any], limits: SolveOptions, proven: bool
) -> tuple[str, ...]:
    """The surest reason why there is no plan; nothing where it is none of these."""
    wide = next((layer for layer in problem.layers if _fewest(layer) > problem.devices), None)
    if wide is not None:
        name, fewest = show(wide.id), _fewest(wide)
        return (
            f"layer {name} needs at least {fewest} devices, and the problem has {problem.devices}; give more devices",
        )
    enough = would_do(problem, options, limits) if proven else ()  # a baseline may need more
    return (*enough, *_too_large(problem, remedy=not enough))


def _too_large(problem: StagingProblem, *, remedy: bool) -> Iterator[str]:
    """A layer that fits no device even alone; with what to give for it where nothing better is known."""
    memory = problem.memory_bytes
    if memory is None or problem.extensions - {"no replicas", "zero"}:
        return
    layer, needed = max(
        ((layer, least_of_layer(problem, layer)) for layer in problem.layers), key=lambda pair: pair[1]
    )
    if needed > as_written(memory):
        least = f"layer {show(layer.id)} alone needs {at_least(needed)} of each device that it runs on"
        yield f"{least}; give {option(needed)} or more" if remedy else least


def _fewest(layer: Layer) -> int:
    """The fewest devices that a layer can run on."""
    return min(t for t, ways in layer.configurations.items() if ways)
