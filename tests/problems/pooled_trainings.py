"""Small random training problems on GPUs of two sorts."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from problems.trainings import random_gpu, random_levels, random_training

from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.training.problem import Gpu, Pool, TrainingProblem


def random_pooled(seed: int, **changes: Any) -> TrainingProblem:
    """Two to six GPUs of either sort; memory of the second one is between half and twice that of the first."""
    rng = random.Random(f"pools {seed}")
    first, second = rng.choice(((1, 1), (2, 2), (2, 4), (4, 2), (3, 1), (1, 2)))
    usual = {"framework": "megatron", "adapter_rank": None, **changes}
    problem = random_training(seed, devices=first, **usual)
    model = replace(problem.model, layers=rng.randint(2, 4), prediction_layers=0)
    if model.experts is not None:
        model = replace(model, experts=replace(model.experts, dense_layers=min(1, model.experts.dense_layers)))
    other = random_gpu(rng)
    gpu = Gpu("other", None, other.flops, other.memory_rate)
    if problem.gpu.memory_bytes is not None:
        gpu = replace(gpu, memory_bytes=float(round(problem.gpu.memory_bytes * rng.uniform(0.5, 2))))
    rates = Efficiencies(
        products=rng.uniform(0.4, 0.9), links=rng.uniform(0.4, 1), step_seconds=rng.choice((0, 0.01))
    )
    pool = Pool(gpu, second, random_levels(rng, second), rng.choice((1e9, 20e9)), 4e-6, rates)
    batch = rng.choice((4, 6, 8))
    return problem.replace(model=model, devices=first + second, batch=batch, second=pool)
