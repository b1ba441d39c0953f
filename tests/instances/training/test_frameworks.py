"""What each framework can run: words for recomputation that say something, each once, and names of ZeRO stages."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import pytest

from pipeplan import InputError, TrainingProblem
from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.flags import configuration_from_flags
from pipeplan.instances.training.frameworks import FRAMEWORKS, fault_of_word, one_name_each
from pipeplan.instances.training.model import MODULES
from pipeplan.instances.training.plan import Configuration, Degrees, Recompute, read_recompute
from pipeplan.instances.training.referee import evaluate_configuration, framework_faults
from pipeplan.instances.training.scope import KEYS, read_scope
from pipeplan.planners.training.space import all_words

from ...problems.trainings import random_configuration, random_own_training, random_training

SETS = [chosen for size in range(len(MODULES) + 1) for chosen in combinations(MODULES, size)]
EVERY_WORD = [
    Recompute(chosen, count)
    for chosen, count in product((*SETS, ("full",)), (None, 1, 3))
    if chosen or count is None
]


def alone(problem: TrainingProblem, word: Recompute) -> Configuration:
    """On every rank the whole model."""
    units, degrees = len(problem.model.units), Degrees(data=problem.devices)
    return Configuration(degrees, 1, problem.rules.usual_zero, "1f1b", (units,), (word,))


def cost(problem: TrainingProblem, word: Recompute) -> tuple[float, float]:
    """Seconds and bytes by the referee, which do not ask whether the word may be said."""
    evaluation = evaluate_configuration(problem, alone(problem, word))
    return evaluation.timing.seconds, evaluation.fullest.bytes


def test_a_module_is_one_of_a_model_if_its_recomputation_changes_something() -> None:
    for seed in range(12):
        problem = random_training(seed, devices=1)
        problem = problem.replace(model=replace(problem.model, norms=seed % 3))
        nothing = cost(problem, Recompute())
        changes = {name for name in MODULES if cost(problem, Recompute((name,))) != nothing}
        assert changes == {*problem.model.modules}, seed


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_words_that_can_be_run_are_those_that_the_search_looks_at(framework: str) -> None:
    """No word of the referee's is beside the search: modules in some layers, modules without effect, or said twice."""
    for seed in range(0, 40, 5):
        make = random_own_training if seed % 4 == 0 else random_training
        problem = make(seed, devices=1, framework=framework)
        accepted = {
            word
            for word in EVERY_WORD
            if "recomputation" not in {fault.rule for fault in framework_faults(problem, alone(problem, word))}
        }
        counted = {Recompute(("full",), count) for count in (1, 3)} if problem.rules.counted_layers else set()
        assert accepted == {Recompute(modules) for modules in all_words(problem)} | counted, seed


def test_no_two_words_say_the_same() -> None:
    """Else one of them would be a way around a `--forbid` of the other."""
    assert Recompute(("mlp", "core_attn")) == Recompute(("core_attn", "mlp", "mlp"))
    for seed in (2, 5, 6, 9, 21):
        problem = random_training(seed, devices=1, framework="megatron", efficiencies=Efficiencies())
        costs = [cost(problem, Recompute(modules)) for modules in all_words(problem)]
        assert len(costs) == len({*costs}), seed


@pytest.mark.parametrize(("model", "framework", "word", "told"), [
    ("llama-3-8b", "megatron", "layernorm", "recompute=none"),
    ("llama-3-8b", "megatron", "core_attn,layernorm,mlp", "recompute=core_attn,mlp"),
    ("llama-3-8b", "megatron", "mlp:3", "choose mlp, or full:3"),
    ("qwen3-30b-a3b", "megatron", "moe,moe_act", "recompute=moe"),
    ("llama-3-8b", "torchtitan", "full:1", "recompute=full or none"),
    ("llama-3-8b", "deepspeed", "mlp", "recompute=full or none"),
])  # fmt: skip
def test_a_word_that_cannot_be_run_is_refused_with_one_that_can(
    model: str, framework: str, word: str, told: str
) -> None:
    problem = problem_of(model, "8xh100-80gb", sequence=4096, batch=8, framework=framework)
    why = fault_of_word(problem, "1f1b", read_recompute("recompute", word))
    assert why is not None
    assert told in why
    remedy = told.removeprefix("recompute=").removeprefix("choose ").partition(" or ")[0].removesuffix(",")
    assert fault_of_word(problem, "1f1b", read_recompute("recompute", remedy)) is None


def test_flags_that_change_nothing_are_told_and_left_out() -> None:
    """Megatron puts them aside as well; what it refuses is left to the rules."""
    problem = problem_of("llama-3-8b", "8xh100-80gb", sequence=4096, batch=8)
    flags = "--recompute-granularity selective --recompute-modules "
    read = configuration_from_flags(problem, flags + "layernorm core_attn")
    assert read.configuration.recompute == (Recompute(("core_attn",)),)
    assert any("says no more of this model than core_attn" in note for note in read.notes)
    read = configuration_from_flags(problem, flags + "mla_up_proj")
    assert framework_faults(problem, read.configuration)


# ---- ZeRO stages ---------------------------------------------------------------------------------------


def test_stages_of_zero_under_one_name_are_the_same() -> None:
    """What has no name of its own takes and holds what some other stage with a name does."""
    merged = 0
    for seed in range(30):
        problem = random_training(seed, devices=1 + seed % 2)
        plan = random_configuration(problem, seed)
        stages = list(problem.states)
        names = one_name_each(problem, plan.degrees, stages)
        evaluated = {zero: evaluate_configuration(problem, replace(plan, zero=zero)) for zero in stages}
        facts = {zero: (own.timing.seconds, own.fullest.bytes) for zero, own in evaluated.items()}
        for zero in {*stages} - {*names}:
            assert any(facts[zero] == pytest.approx(facts[name], rel=1e-12) for name in names), (seed, zero)
            merged += 1
    assert merged >= 10


# ---- what is fixed and forbidden -----------------------------------------------------------------------


@pytest.mark.parametrize("key", [key for key in KEYS if key != "layout"])
def test_what_is_fixed_and_forbidden_is_refused(key: str) -> None:
    value = {"schedule": "1f1b", "recompute": "none"}.get(key, "1")
    with pytest.raises(InputError, match=f"fixes {key}={value} and forbids it; drop one of the two"):
        read_scope([f"{key}={value}"], [f"{key}={value}"])
    if key not in ("schedule", "recompute"):
        with pytest.raises(InputError, match=f"is '4,8'; give one value, or leave {key} open and forbid others"):
            read_scope([f"{key}=4,8"])
    with pytest.raises(InputError, match="forbids it"):  # whole layers, in any number
        read_scope(["recompute=full:2"], ["recompute=full"])
