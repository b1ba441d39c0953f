"""The search finds the fastest pipeline of a model with a vision encoder among all that there are."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from oracles.training import best_configuration, configurations
from problems.trainings import random_training, with_encoder

from pipeplan import TrainingProblem
from pipeplan.instances.training.referee import evaluate_configuration, verify_configuration
from pipeplan.instances.training.scope import Scope
from pipeplan.planners.training.search import Search, Settings


def narrow(seed: int) -> tuple[TrainingProblem, dict[str, str]]:
    """Two to four stages of a row of five or six units, with a memory that some layouts do not fit; and all that is
    fixed."""
    draw = random.Random(seed)
    problem = random_training(seed, devices=draw.choice((3, 4)))
    experts = problem.model.experts
    if experts is not None:
        experts = replace(experts, dense_layers=min(experts.dense_layers, 1))
    layers = 1 if experts is None else 2
    model = replace(problem.model, layers=layers, experts=experts, prediction_layers=0)
    problem = with_encoder(problem.replace(model=model, batch=problem.devices), seed)
    assert problem.model.encoder is not None
    model = replace(problem.model, encoder=replace(problem.model.encoder, layers=1))
    pipeline = problem.devices if seed % 2 else problem.devices // 2 + problem.devices % 2 * 2
    word = draw.choice(("none", "full"))
    fixed = {
        "pipeline": str(pipeline),
        "micro-batch": "1",
        "zero": str(problem.rules.usual_zero),
        "recompute": word,
    }
    problem = problem.replace(model=model)
    plans = list(configurations(problem, fixed))
    bytes_of = sorted(max(rank.bytes for rank in evaluate_configuration(problem, own).memory) for own in plans)
    limit = float(math.ceil(bytes_of[len(bytes_of) // 2] * 1.001)) if bytes_of else None
    return problem.replace(gpu=replace(problem.gpu, memory_bytes=limit)), fixed


@pytest.mark.at_once(1)
@pytest.mark.parametrize("start", range(0, 60, 6))
def test_the_best_pipeline_with_an_encoder_is_that_of_enumeration(start: int) -> None:
    fitted = 0
    for seed in range(start, start + 6):
        problem, fixed = narrow(seed)
        truth = best_configuration(problem, fixed=fixed)
        report = Search(problem, Scope(fixed), Settings(error=0.0, memory_error=0.0)).run()
        assert (truth is None) == (report.best is None), seed
        if truth is None or report.best is None:
            continue
        fitted += 1
        assert report.best.seconds == pytest.approx(truth[0], rel=1e-9), (seed, report.best.plan, truth[1])
        assert report.bound <= truth[0] * (1 + 1e-9), seed
        assert not verify_configuration(problem, report.best.plan), seed
    assert fitted
