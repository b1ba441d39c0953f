"""Random configurations of random training problems keep their framework's rules, and have everything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest
from problems.trainings import random_configuration, random_own_training, random_training

from pipeplan.instances.physics.optimizers import KEPT
from pipeplan.instances.training.frameworks import FRAMEWORKS
from pipeplan.instances.training.plan import Degrees
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.referee import verify_configuration

DEGREES = [entry.name for entry in fields(Degrees)]


@pytest.mark.parametrize("make", [random_training, random_own_training])
def test_random_configurations_keep_every_rule(make: Callable[[int], TrainingProblem]) -> None:
    for seed in range(60):
        problem = make(seed)
        plan = random_configuration(problem, seed)
        d = plan.degrees
        assert not [broken for broken in verify_configuration(problem, plan) if broken.rule != "memory"]
        assert d.tensor * d.context * d.pipeline * d.data == problem.devices
        assert sum(plan.layout) == len(problem.model.units)
        assert len(plan.layout) == len(plan.recompute) == d.chunks
        assert plan.micro_batches(problem.batch) * d.data * plan.micro_batch == problem.batch


def test_random_configurations_have_everything() -> None:
    """All frameworks and their schedules, ZeRO stages, degrees above one, experts and latent attention, words."""
    seen: set[object] = set()
    for seed in range(500):
        problem = random_training(seed)
        plan = random_configuration(problem, seed)
        assert problem.model.attention is not None
        seen |= {(problem.framework, plan.schedule), (problem.framework, plan.zero)}
        seen |= {name for name in DEGREES if getattr(plan.degrees, name) > 1}
        seen |= {module for word in plan.recompute for module in word.modules}
        seen |= {"latent"} if problem.model.attention.latent else set()
        seen |= {"prediction"} if problem.model.prediction_layers else set()
        seen |= {"uneven"} if len(set(plan.layout)) > 1 else set()
    for name, framework in FRAMEWORKS.items():
        assert {(name, schedule) for schedule in framework.schedules} <= seen
        assert {(name, zero) for zero in KEPT[name].stages} <= seen
    assert {*DEGREES} | {"full", "moe", "core_attn", "latent", "prediction", "uneven"} <= seen
