"""The time and memory of 1F1B on GPUs of two sorts, stage by stage from the definitions, and the best of all of them.

Costs of units are those of `training_costs`, for each stage on its own sort; the schedule, messages and memory are
written here anew. Neither the search nor the referee has any part in it, beyond the types of problems and plans, and
what a framework can run at all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from oracles.training_costs import Definitions

from pipeplan.instances.training.frameworks import hidden_shares
from pipeplan.instances.training.plan import Configuration, Degrees, Recompute
from pipeplan.instances.training.problem import Level, TrainingProblem
from pipeplan.instances.training.referee import framework_faults

# Sums of gradients and gathers of weights after the last pass, by ZeRO stage.
ENDS = {0: (2, 0), 1: (1, 1), 2: (0, 1), 3: (0, 0)}


def sort_of(problem: TrainingProblem, plan: Configuration, stage: int) -> tuple[int, int]:
    """The sort of a stage, and its number among the stages of this sort."""
    assert problem.second is not None
    each = plan.degrees.tensor * plan.degrees.context * plan.degrees.data
    counts = [(problem.devices - problem.second.devices) // each, problem.second.devices // each]
    first = plan.first_pool - 1
    return (first, stage) if stage < counts[first] else (1 - first, stage - counts[first])


class Stage:
    """One stage on its sort."""

    def __init__(self, problem: TrainingProblem, plan: Configuration, stage: int, units: list[int]) -> None:
        sort, self.place = sort_of(problem, plan, stage)
        self.sort, self.own = sort, alone(problem, sort)
        text, word = Definitions(self.own, plan), plan.recompute[0]
        names = [problem.model.units[unit] for unit in units]
        words, layer = [], 0
        for name in names:
            is_layer = name in ("dense", "experts")
            words.append(word.modules if is_layer and (word.layers is None or layer < word.layers) else ())
            layer += is_layer
        sends = [text.in_passes(name) for name in names]
        again = sum(text.seconds(name, "forward", own) for name, own in zip(names, words, strict=True) if own)
        self.forward = sum(text.seconds(name, "forward") + x for name, (x, _) in zip(names, sends, strict=True))
        back = sum(text.seconds(name, "inputs") + x for name, (_, x) in zip(names, sends, strict=True))
        self.backward = back + sum(text.seconds(name, "weights") for name in names) + again
        counted = names[:-1] if problem.model.tied and {"embedding", "head"} <= {*names} else names
        sent = tuple(sum(text.sent(name)[i] for name in counted) for i in (0, 1))
        sums, gathers = ENDS[plan.zero]
        hidden = hidden_shares(self.own, plan.zero, plan.degrees.pipeline)
        self.tail = sum(text.update(name) for name in counted)
        for count, size, share, behind in (
            (sums, text.gradient, hidden[0], self.backward),
            (gathers, 2, hidden[1], self.forward),
        ):
            seconds = count * text.gather(sent, size)
            self.tail += seconds - min(share * seconds, behind)
        beside, table = text.beside({*names})
        copied = (text.standing if problem.adapter_rank is None else text.frozen)((table, 0.0))
        received = 2 * text.S1 * text.h if stage else 0.0
        self.always = sum(map(text.standing_of, names)) + beside + copied + received + problem.reserve_bytes
        kept = [text.kept(name, own) for name, own in zip(names, words, strict=True)]
        before = list(itertools.accumulate((stash for stash, _, _ in kept), initial=0.0))
        self.stash, self.peak = before[-1], max([b + k[2] for b, k in zip(before, kept, strict=False)])
        self.message = 2 * text.S1 * text.h


def alone(problem: TrainingProblem, sort: int) -> TrainingProblem:
    """The problem with the GPUs of one sort."""
    own = problem.second
    assert own is not None
    if sort == 0:
        return problem.replace(second=None, devices=problem.devices - own.devices)
    return problem.replace(
        second=None, gpu=own.gpu, devices=own.devices, levels=own.levels, efficiencies=own.efficiencies
    )


def message(problem: TrainingProblem, plan: Configuration, a: Stage, b: Stage) -> float:
    """Seconds from one stage to the next one."""
    each, link = plan.degrees.tensor * plan.degrees.context * plan.degrees.data, problem.second
    assert link is not None
    if a.sort != b.sort:
        both = [a.own.efficiencies, b.own.efficiencies]
        rate = link.bandwidth * min(own.links * own.network for own in both)
        seen = 1 - min(own.pipeline_hidden for own in both)
        return seen * (a.message / rate + link.latency_seconds)
    rates, level = a.own.efficiencies, _between(a.own.levels, a.place * each, b.place * each)
    rate = a.own.levels[level].bandwidth * rates.links * (rates.network if level else 1.0)
    return (1 - rates.pipeline_hidden) * (a.message / rate + a.own.levels[level].latency_seconds)


def _between(levels: tuple[Level, ...], a: int, b: int) -> int:
    size = 1
    for i, level in enumerate(levels):
        size *= level.count
        if a // size == b // size:
            return i
    raise AssertionError("GPUs of one pool")


def judged(
    problem: TrainingProblem, plan: Configuration, known: dict[object, Stage] | None = None
) -> tuple[float, list[float]]:
    """Seconds of an iteration, and what each stage holds as a share of its GPU; `known`: stages of the same problem."""
    known = {} if known is None else known
    borders = [0, *itertools.accumulate(plan.layout)]
    p, m = len(plan.layout), problem.batch // (plan.degrees.data * plan.micro_batch)
    stages = []
    for k, (begin, end) in enumerate(itertools.pairwise(borders)):
        key = plan.degrees, plan.micro_batch, plan.zero, plan.first_pool, plan.recompute[0], k, begin, end
        if key not in known:
            known[key] = Stage(problem, plan, k, [*range(begin, end)])
        stages.append(known[key])
    delays = [message(problem, plan, a, b) for a, b in itertools.pairwise(stages)]
    down, up = ([[math.inf] * m for _ in range(p)] for _ in range(2))
    turns = []
    for k in range(p):
        warm = min(m, p - k)
        order = [("F", n) for n in range(warm)]
        for n in range(m):
            order += [("B", n)] + [("F", n + warm)] * (n + warm < m)
        turns.append(order)
    at, free = [0] * p, [0.0] * p
    while any(at[k] < 2 * m for k in range(p)):
        for k in range(p):
            while at[k] < 2 * m:
                way, n = turns[k][at[k]]
                if way == "F":
                    ready = 0.0 if k == 0 else down[k - 1][n] + delays[k - 1]
                else:
                    ready = down[k][n] if k == p - 1 else up[k + 1][n] + delays[k]
                if ready == math.inf:
                    break
                free[k] = max(free[k], ready) + (stages[k].forward if way == "F" else stages[k].backward)
                (down if way == "F" else up)[k][n] = free[k]
                at[k] += 1
    step = max(stage.own.efficiencies.step_seconds for stage in stages)
    seconds = max(end + stage.tail for end, stage in zip(free, stages, strict=True)) + step
    held = [
        stage.always + (min(m, p - k) - 1) * stage.stash + max(stage.stash, stage.peak)
        for k, stage in enumerate(stages)
    ]
    limits = [stage.own.gpu.memory_bytes for stage in stages]
    return seconds, [0.0 if limit is None else own / limit for own, limit in zip(held, limits, strict=True)]


def configurations(problem: TrainingProblem) -> Iterator[Configuration]:
    """All with 1F1B and one chunk a rank that the framework can run; words are none, and whole layers."""
    assert problem.second is not None
    units, n = len(problem.model.units), problem.devices
    first, second = n - problem.second.devices, problem.second.devices
    for t, c, d in itertools.product(range(1, n), repeat=3):
        if first % (t * c * d) or second % (t * c * d) or n // (t * c * d) > units:
            continue
        p, experts = n // (t * c * d), [(1, 1)]
        if problem.model.experts is not None:
            ranks = range(1, t * c * d + 1)
            experts = [(e, s) for e in ranks for s in ranks if t * c * d % (e * s) == 0]
        words = [Recompute(), Recompute(("full",)), *(Recompute(("full",), k) for k in range(1, units - p + 1))]
        for (e, s), b, zero, pool, word in itertools.product(
            experts, range(1, problem.batch + 1), problem.states, (1, 2), words
        ):
            if problem.batch % (d * b):
                continue
            for cuts in itertools.combinations(range(1, units), p - 1):
                layout = tuple(y - x for x, y in itertools.pairwise((0, *cuts, units)))
                plan = Configuration(Degrees(t, c, p, 1, d, e, s), b, zero, "1f1b", layout, (word,) * p, pool)
                if not any(framework_faults(problem, plan)):
                    yield plan


def best(problem: TrainingProblem) -> tuple[float, Configuration] | None:
    """The least seconds of what fits, and that configuration."""
    found, known = None, dict[object, Stage]()
    for plan in configurations(problem):
        seconds, full = judged(problem, plan, known)
        if max(full) <= 1 and (found is None or seconds < found[0]):
            found = seconds, plan
    return found
