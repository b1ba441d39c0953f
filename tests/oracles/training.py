"""All configurations of a tiny training problem, one by one, judged by the referee.

What is computed again is the same in every chunk: any set of modules and whole layers, in all layers or in the first
ones of each chunk; the referee is asked which of these a framework can run, and which layouts. With the planners it
shares what units cost and hold, which `training_costs.py` checks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from fractions import Fraction

from pipeplan.instances.base.amounts import as_written
from pipeplan.instances.training.model import MODULES
from pipeplan.instances.training.plan import Configuration, Degrees, Recompute
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.referee import evaluate_configuration, framework_faults, shape_faults

NOTHING_FIXED: Mapping[str, str] = {}
# Schedules with backward passes in two parts, and with two chunks of a rank there and back.
DIVIDED = ("zb-h1", "zb-h2", "zb-v", "dualpipe-v")
V_SHAPES = ("zb-v", "dualpipe-v")
Fixed = Mapping[str, str]
"""Values that are asked for, by the keys of `plan configure`."""


def best_configuration(
    problem: TrainingProblem, share: float = 0.0, fixed: Fixed = NOTHING_FIXED
) -> tuple[float, Configuration] | None:
    """The least seconds of a configuration that fits although so much more is held, and that configuration."""
    best = None
    for plan in configurations(problem, fixed):
        evaluation = evaluate_configuration(problem, plan)
        held = as_written(max(rank.bytes for rank in evaluation.memory)) * (1 + Fraction(str(share)))
        if problem.memory_bytes is not None and held > as_written(problem.memory_bytes):
            continue
        if best is None or evaluation.timing.seconds < best[0]:
            best = evaluation.timing.seconds, plan
    return best


def values(plan: Configuration) -> dict[str, str]:
    """Of a configuration whose chunks all compute the same again."""
    degrees = {name.replace("_", "-"): str(value) for name, value in asdict(plan.degrees).items()}
    rest = {"micro-batch": str(plan.micro_batch), "zero": str(plan.zero), "schedule": plan.schedule}
    return degrees | rest | {"recompute": plan.recompute[0].word}


def configurations(problem: TrainingProblem, fixed: Fixed = NOTHING_FIXED) -> Iterator[Configuration]:
    """Those that the framework can run, whether they fit or not."""
    units = len(problem.model.units)
    words = [word for word in _words(problem) if fixed.get("recompute", word.word) == word.word]
    for degrees in _degrees(problem):
        own = {name.replace("_", "-"): str(value) for name, value in asdict(degrees).items()}
        if any(own[name] != value for name, value in fixed.items() if name in own):
            continue
        for b, zero, schedule in itertools.product(
            _divisors(problem.batch // degrees.data), problem.states, problem.rules.schedules
        ):
            rest = {"micro-batch": str(b), "zero": str(zero), "schedule": schedule}
            if any(rest[name] != value for name, value in fixed.items() if name in rest):
                continue
            first = (units - degrees.chunks + 1, *[1] * (degrees.chunks - 1))
            probe = Configuration(degrees, b, zero, schedule, first, (Recompute(),) * degrees.chunks)
            if any(shape_faults(problem, probe)) or _refused(problem, probe) - {"layout"}:
                continue
            for layout in _layouts(units, degrees.chunks):
                if _refused(problem, replace(probe, layout=layout)):
                    continue
                for word in words:
                    if schedule in DIVIDED and word.modules:
                        continue
                    yield Configuration(degrees, b, zero, schedule, layout, (word,) * degrees.chunks)


def _refused(problem: TrainingProblem, plan: Configuration) -> set[str]:
    """Names of the framework's rules that the configuration breaks."""
    return {fault.rule for fault in framework_faults(problem, plan)}


def _degrees(problem: TrainingProblem) -> Iterator[Degrees]:
    devices, units = problem.devices, len(problem.model.units)
    for t, c, p in itertools.product(_divisors(devices), repeat=3):
        d = devices // (t * c * p)
        if t * c * p * d != devices or p > units or problem.batch % d:
            continue
        experts = [(1, 1)]
        if problem.model.experts is not None:
            ranks = t * c * d
            experts = [(e, s) for e in _divisors(ranks) for s in _divisors(ranks) if ranks % (e * s) == 0]
        for (e, s), v in itertools.product(experts, range(1, units // p + 1)):
            yield Degrees(t, c, p, v, d, e, s)


def _words(problem: TrainingProblem) -> Iterator[Recompute]:
    units = len(problem.model.units)
    alone = Configuration(
        Degrees(data=problem.devices), 1, problem.rules.usual_zero, "1f1b", (units,), (Recompute(),)
    )
    sets = [chosen for size in range(len(MODULES) + 1) for chosen in itertools.combinations(MODULES, size)]
    for chosen, count in itertools.product((*sets, ("full",)), (None, *range(1, units))):
        if chosen or count is None:
            word = Recompute(chosen, count)
            if "recomputation" not in _refused(problem, replace(alone, recompute=(word,))):
                yield word


def _layouts(units: int, chunks: int) -> Iterator[tuple[int, ...]]:
    for cuts in itertools.combinations(range(1, units), chunks - 1):
        borders = (0, *cuts, units)
        yield tuple(b - a for a, b in itertools.pairwise(borders))


def _divisors(number: int) -> list[int]:
    return [i for i in range(1, number + 1) if number % i == 0]


__all__ = ["V_SHAPES", "best_configuration", "configurations", "values"]
