"""Answers keep what is fixed and forbidden, and are those of enumeration; a scope without anything says why."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pipeplan import Stop, TrainingProblem, load_packaged, solve
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.frameworks import ends_of, uncut
from pipeplan.instances.training.plan import Configuration, layout_word
from pipeplan.instances.training.referee import evaluate_configuration, framework_faults, verify_configuration
from pipeplan.instances.training.scope import Scope, read_scope
from pipeplan.planners.training.empty import why_empty
from pipeplan.planners.training.search import Search
from pipeplan.planners.training.space import Space

from ...oracles.training import configurations, values
from ...problems.trainings import random_training

CLOSE = 1e-9


def keeps(scope: Scope, plan: Configuration) -> bool:
    """Does the plan have no forbidden value, and all fixed ones?"""
    own = values(plan)
    return scope.takes_word(plan.recompute[0]) and all(
        scope.takes(key, own[key]) for key in own if key != "recompute"
    )


def small(seed: int, **changes: object) -> TrainingProblem:
    """Without a limit of memory."""
    problem = random_training(seed, devices=2, batch=4, **changes)
    experts = problem.model.experts
    if experts is not None:
        experts = replace(experts, dense_layers=min(1, experts.dense_layers))
    model = replace(problem.model, layers=2, experts=experts)
    return problem.replace(model=model, gpu=replace(problem.gpu, memory_bytes=None))


@pytest.mark.at_once(3)
@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "deepspeed"])
@pytest.mark.parametrize("seed", [11, 7, 8, 9])
def test_a_fixed_layout_is_that_of_the_best_configuration_that_has_it(framework: str, seed: int) -> None:
    """DeepSpeed runs even layouts alone."""
    problem = small(seed, framework=framework)
    plans = [plan for plan in configurations(problem) if plan.degrees.pipeline == 2]
    for layout in sorted({plan.layout for plan in plans})[:6]:
        word = layout_word(layout)
        timed = [evaluate_configuration(problem, plan).timing.seconds for plan in plans if plan.layout == layout]
        result = solve(problem, planner="exact-configuration", options={"fix": f"layout={word}"})
        assert result.objective == pytest.approx(min(timed), rel=CLOSE), word
        assert isinstance(result.plan, Configuration)
        assert result.plan.layout == layout
        assert result.bound == pytest.approx(min(timed), rel=CLOSE)


@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "deepspeed"])
def test_what_is_forbidden_is_in_no_answer(framework: str) -> None:
    """Forbidden is the best one's value of one key after the other, recomputation of nothing first."""
    problem = small(7, framework=framework)
    fixed = {"micro-batch": "2", "context": "1"}
    plans = list(configurations(problem, fixed))
    seconds = {plan: evaluate_configuration(problem, plan).timing.seconds for plan in plans}
    draw, forbid = random.Random(0), ["recompute=none"]
    for _ in range(4):
        scope = read_scope([f"{key}={value}" for key, value in fixed.items()], forbid)
        allowed = [plan for plan in plans if keeps(scope, plan)]
        options = {"fix": "micro-batch=2 context=1", "forbid": " ".join(forbid)}
        result = solve(problem, planner="exact-configuration", options=options)
        if not allowed:
            assert result.stop == Stop.INFEASIBLE
            break
        assert result.verified
        assert keeps(scope, result.plan)
        assert result.objective == pytest.approx(min(map(seconds.__getitem__, allowed)), rel=CLOSE)
        key = draw.choice(["tensor", "zero", "pipeline", "schedule", "recompute"])
        forbid.append(f"{key}={values(result.plan)[key]}")
    assert len(forbid) > 1


def test_nothing_recomputed_is_forbidden_where_all_else_is_fixed() -> None:
    """The rule of thumb, which begins the search, tries that first."""
    problem = problem_of("llama-3-8b", "8xh100-80gb", sequence=8192, batch=128)
    options = {"fix": "tensor=8 micro-batch=8 zero=1", "forbid": "recompute=none"}
    result = solve(problem, planner="exact-configuration", options=options)
    assert result.proof
    assert result.plan.recompute[0].word == "full:1"


# ---- layouts that a framework cannot say ---------------------------------------------------------------


@pytest.mark.parametrize("fixed", ["pipeline=2 virtual=1", "pipeline=2 virtual=2", "pipeline=4 virtual=1"])
def test_layers_of_prediction_stay_where_megatron_has_them(fixed: str) -> None:
    """Two layers of multi-token prediction, and a head so slow that it would like a chunk of its own."""
    problem = small(0, framework="megatron")
    model = replace(problem.model, layers=4, prediction_layers=2, vocabulary=50_000, experts=None)
    if model.mlp is None:
        model = replace(model, mlp=small(1).model.mlp)
    devices = 4 if "4" in fixed else 2
    problem = small(0, framework="megatron").replace(model=model, batch=8)
    if devices == 4:
        level = replace(problem.levels[0], count=4)
        problem = problem.replace(devices=4, levels=(level,))
    scope = read_scope([*fixed.split(), "micro-batch=1", "zero=1", "recompute=none"])
    plans = list(configurations(problem, scope.fix))
    assert not any({*ends_of(plan.layout)} & uncut(problem, plan.degrees) for plan in plans)
    report = Search(problem, scope).run()
    assert report.best is not None
    assert not verify_configuration(problem, report.best.plan)
    least = min(evaluate_configuration(problem, plan).timing.seconds for plan in plans)
    assert report.bound <= least * (1 + CLOSE)
    assert report.best.seconds == pytest.approx(least, rel=CLOSE)


def test_deepspeed_divides_evenly_whoever_asks() -> None:
    problem = small(2, framework="deepspeed")
    model = replace(problem.model, layers=5)
    result = solve(problem.replace(model=model), options={"fix": "pipeline=2"})
    assert result.plan.layout == (4, 3)
    uneven = replace(result.plan, layout=(3, 4))
    (fault,) = framework_faults(problem.replace(model=model), uneven)
    assert str(fault).endswith("choose layout=4/3.")


# ---- why there is nothing ------------------------------------------------------------------------------

NOTHING = [
    ("tensor=7", "", "megatron",
     "7 does not divide 8 GPUs; give 1, 2, 4, 8."),
    ("tensor=8 pipeline=2", "", "megatron", "The degrees make 16 ranks, and there are 8 GPUs"),
    ("zero=3", "", "megatron", "megatron has no ZeRO stage 3; choose zero=0 or zero=1."),
    ("", "zero=0 zero=1", "megatron", "Every value of zero is forbidden"),
    ("pipeline=1 virtual=2", "", "megatron", "Several chunks on a rank need at least two pipeline stages"),
    ("pipeline=8 virtual=9", "", "megatron",
     "72 chunks need as many units, and there are 34; choose fewer of them."),
    ("micro-batch=3", "", "megatron", "128 sequences are no whole number of micro-batches of 3"),
    ("recompute=layernorm", "", "megatron", "choose recompute=none."),
    ("recompute=full:1", "", "torchtitan", "torchtitan computes all layers of a chunk again, not full:1"),
    ("", "recompute=none recompute=full", "deepspeed", "Every value of recompute is forbidden"),
    ("schedule=gpipe pipeline=1", "", "torchtitan", "choose schedule=1f1b."),
    ("expert=2", "", "megatron", "expert=1 where there are none."),
]  # fmt: skip


@pytest.mark.parametrize(("fix", "forbid", "framework", "told"), NOTHING, ids=lambda text: text.partition(".")[0])
def test_a_scope_without_anything_says_why(fix: str, forbid: str, framework: str, told: str) -> None:
    problem = problem_of("llama-3-8b", "8xh100-80gb", sequence=8192, batch=128, framework=framework)
    scope = read_scope(fix.split(), forbid.split())
    report = Search(problem, scope).run()
    assert (report.considered, report.nothing_fits) == (0, True)
    assert told in why_empty(problem, scope)
    assert why_empty(problem, scope).startswith(
        f"No configuration with {fix} can" if fix else "No configuration in scope can"
    )


def test_the_rule_that_no_head_is_divided_is_told_with_its_number() -> None:
    problem = problem_of("llama-3-8b", "12xh100-80gb", levels=[(12, 450e9)], sequence=8192, batch=24)
    assert "choose a divisor of the 32 heads." in why_empty(problem, read_scope(["tensor=3"]))


def test_whatever_random_scope_is_empty_has_a_reason_that_is_a_rule() -> None:
    empty = 0
    for seed in range(40):
        draw, problem = random.Random(seed), small(seed)
        keys = {
            "tensor": (1, 2, 3), "pipeline": (1, 2, 5), "virtual": (1, 2), "zero": (0, 1, 2, 3), "expert": (1, 2),
        }  # fmt: skip
        scope = read_scope([f"{key}={draw.choice(keys[key])}" for key in draw.sample(list(keys), 3)])
        if Space(problem, scope).sizes.sum():
            continue
        empty += 1
        assert "drop a --forbid" not in why_empty(problem, scope), seed
    assert empty > 10


def test_solving_tells_the_reason_as_well() -> None:
    problem = load_packaged("tiny-training")
    result = solve(problem, options={"fix": "tensor=7"})
    assert result.stop == Stop.INFEASIBLE
    assert any(message.startswith("No configuration with tensor=7 can be run.") for message in result.messages)
