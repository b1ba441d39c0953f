"""Random questions about training configurations on up to 16 GPUs, narrow enough for every answer to be looked at."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, replace
from typing import Any

from oracles.training import best_configuration, configurations, values
from problems.trainings import random_own_training, random_training

from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.referee import evaluate_configuration

DEVICES = (1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 16)
MOST_LOOKED_AT = 20_000
"""Of which one is drawn."""
HELD = 40
"""Configurations whose memory says where a limit binds."""


@dataclass(frozen=True)
class Question:
    """A problem, and the values that a user fixes."""

    problem: TrainingProblem
    fixed: dict[str, str]

    @property
    def options(self) -> dict[str, Any]:
        return {"fix": " ".join(f"{key}={value}" for key, value in self.fixed.items()) or None}

    def best(self, share: float = 0.0) -> tuple[float, Configuration] | None:
        return best_configuration(self.problem, share, self.fixed)


def asked(seed: int, most: int = 200, devices: tuple[int, ...] = DEVICES) -> Question:
    """Values of a random configuration are fixed until at most so many are left; the memory binds in most cases."""
    draw = random.Random(seed)
    problem = _problem(seed, draw, draw.choice(devices))
    plan = draw.choice(list(itertools.islice(configurations(problem), MOST_LOOKED_AT)))
    fixed: dict[str, str] = {}
    for key, value in draw.sample(list(values(plan).items()), len(values(plan))):
        left = list(itertools.islice(configurations(problem, fixed), most + 1))
        if len(left) <= most:
            break
        fixed[key] = value
    else:
        left = list(itertools.islice(configurations(problem, fixed), most))
    few = draw.sample(left, min(len(left), HELD))
    held = sorted(evaluate_configuration(problem, own).fullest.bytes for own in few)
    limit = draw.choice((held[0] * 0.9, held[0], held[len(held) // 4], held[len(held) // 2], held[-1] * 2))
    return Question(problem.replace(gpu=replace(problem.gpu, memory_bytes=float(math.ceil(limit)))), fixed)


def _problem(seed: int, draw: random.Random, devices: int) -> TrainingProblem:
    if seed % 8 == 0:
        problem = random_own_training(seed, devices=devices)
        model = replace(problem.model, own=problem.model.own[: draw.randint(2, 5)])
    else:
        problem = random_training(seed, devices=devices)
        layers, experts = draw.randint(1, 3), problem.model.experts
        if experts is not None:
            experts = replace(experts, dense_layers=min(experts.dense_layers, layers))
        model = replace(problem.model, layers=layers, experts=experts)
    return problem.replace(model=model, batch=devices * draw.choice((1, 2, 4)))
