"""What one unit takes and holds: by the definitions, as published of whole models, and as measured of layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from oracles.training_costs import Definitions
from problems.parameters import parameters_of
from problems.timed_trainings import configuration, problem

from pipeplan import InputError, TrainingProblem
from pipeplan.instances.training.build import MODELS, known_model
from pipeplan.instances.training.cases import NONE, CaseMaker, ParallelismChoice
from pipeplan.instances.training.iteration import Iteration
from pipeplan.instances.training.lengths import Length
from pipeplan.instances.training.model import MeasuredTime, Model, OwnLayer

from ...problems.trainings import random_configuration, random_training, with_encoder

# ---- the oracle ---------------------------------------------------------------------------------------


def check_unit_costs(seed: int) -> None:
    """Every type of unit of a random problem under a random choice, with every word of it."""
    own = random_training(seed)
    attention = own.model.attention
    assert attention is not None
    if seed % 2 and not attention.latent:
        window = {"window": 40, "windowed_share": 0.5} if seed % 4 == 1 else {}
        attention = replace(attention, query_key_norm=True, sinks=True, output_bias=True, value_size=24, **window)
        own = own.replace(model=replace(own.model, attention=attention, norms=seed % 3, head_bias=True))
    if seed % 3 == 1:  # more is to be hidden than there is to hide it behind
        hides = replace(own.efficiencies, tensor_hidden=0.9, expert_hidden=0.7, context_hidden=1, links=0.02)
        own = own.replace(efficiencies=hides)
    if seed % 5 == 2:
        own = own.replace(lengths=(Length(max(own.sequence // 4, 1), 0.7), Length(own.sequence, 0.3)))
    if seed % 4 == 3:
        own = with_encoder(own, seed)
    plan = random_configuration(own, seed)
    words = sorted(
        {NONE, ("full",), *((name,) for name in own.model.modules), *(w.modules for w in plan.recompute)}
    )
    gamma, text = ParallelismChoice.of(plan), Definitions(own, plan)
    costs = CaseMaker(own, [gamma.key], words)
    case, (trained, frozen, sent, whole) = costs.case(gamma), costs.numbers_of(gamma)
    for name in costs.names:
        at, unit = own.model.units.index(name), costs.names.index(name)
        usual = case.by_word[NONE]
        more = text.in_passes(name)
        found = (usual.forward[at], usual.inputs[at], usual.weights[at], case.update[at], case.standing[at])
        passes = (text.seconds(name, "forward") + more[0], text.seconds(name, "inputs") + more[1])
        rest = (text.seconds(name, "weights"), text.update(name), text.standing_of(name))
        assert found == pytest.approx((*passes, *rest), rel=1e-11), name
        counted = (*trained[unit], *sent[unit], *whole[unit])
        assert counted == pytest.approx((*text.trained(name), *text.sent(name), *text.whole(name)), rel=1e-12)
        assert tuple(frozen[unit]) == pytest.approx(text.left(name), rel=1e-12)
        gathered = [
            sum((case.tail[k, way] * case.sent[at, k] + case.tail[k, 2]) * (case.sent[at, k] > 0) for k in (0, 1))
            for way in (0, 1)
        ]
        assert gathered == pytest.approx([text.gather(text.sent(name), g) for g in (text.summed, 2)], rel=1e-11)
        for word, own_costs in case.by_word.items():
            kept = (own_costs.stash[at], own_costs.for_weights[at], own_costs.moment[at])
            assert kept == pytest.approx(text.kept(name, word), rel=1e-11), (name, word)
            assert own_costs.again[at] == pytest.approx(text.seconds(name, "forward", word), rel=1e-11), (
                name,
                word,
            )
    for mask in range(1, 1 << len(costs.names)):
        types = [name for i, name in enumerate(costs.names) if mask >> i & 1]
        beside, table = text.beside({*types})
        largest = max(case.gathered[own.model.units.index(name)] for name in types)
        held = case.beside_bytes - own.reserve_bytes + largest + case.masks[mask]
        copied = text.standing if own.adapter_rank is None else text.frozen
        assert held == pytest.approx(beside + copied((table, 0.0)), rel=1e-11)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("start", range(0, 400, 40))
def test_units_cost_and_hold_what_the_definitions_say(start: int) -> None:
    for seed in range(start, start + 40):
        check_unit_costs(seed)


# ---- layers that were measured --------------------------------------------------------------------------


def measured(*times: MeasuredTime) -> TrainingProblem:
    return problem(own=Model("measured", own=(OwnLayer("a", 10, 0, 0, times), OwnLayer("b", 10, 0, 0, times))))


@pytest.mark.parametrize(("micro_batch", "forward"), [(4, 0.2), (8, 0.4)])
def test_a_measured_layer_takes_what_was_measured_or_in_proportion_to_it(micro_batch: int, forward: float) -> None:
    """The nearest micro-batch of the same tensor degree counts."""
    own = measured(MeasuredTime(2, 1, 0.1, 0.3), MeasuredTime(2, 4, 0.2, 0.6))
    (found,) = Iteration(own, configuration(own, micro_batch=micro_batch, tensor=2)).chunks
    assert (found.forward, found.backward) == pytest.approx((2 * forward, 6 * forward))


def test_a_tensor_degree_that_was_not_measured_is_refused() -> None:
    own = measured(MeasuredTime(2, 4, 0.2, 0.6))
    with pytest.raises(InputError, match="is 4, for which a was not measured"):
        Iteration(own, configuration(own, tensor=4))


# ---- parameters, as published -----------------------------------------------------------------------------

# Counts that repositories at huggingface.co state for their checkpoints (safetensors); those of
# other packaged models stand in `test_config_json`.
TO_THE_LAST_DIGIT = {
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "mixtral-8x22b": 140_620_634_112,
    "qwen3-235b-a22b": 235_093_634_560,
}
# Billions as printed: Narayanan et al., arXiv 2104.04473, table 1; the model of 22 in Korthikanti et al., arXiv
# 2205.05198.
PRINTED = {"gpt-3-175b": "174.6", "turing-530b": "529.6", "megatron-1t": "1008.0", "megatron-22b": "22"}
# Billions that a token meets, as printed in the papers and model cards that `build` names.
ACTIVE = {
    "mixtral-8x7b": "13",
    "mixtral-8x22b": "39",
    "qwen3-30b-a3b": "3.3",
    "qwen3-235b-a22b": "22",
    "deepseek-v2": "21",
}
# The same where the table of words at the input is left out: arXiv 2508.10925, table 1, and README_WEIGHTS.md of
# deepseek-ai/DeepSeek-V3 in its corrected form.
ACTIVE_WITHOUT_EMBEDDING = {"gpt-oss-120b": "5.13", "deepseek-v3": "36.6"}


def billions(count: int, like: str) -> str:
    digits = len(like.partition(".")[2])
    return f"{count / 1e9:.{digits}f}"


@pytest.mark.parametrize(("name", "published"), [*TO_THE_LAST_DIGIT.items(), *PRINTED.items()])
def test_counts_are_those_that_are_published_to_the_last_digit_or_as_printed(
    name: str, published: int | str
) -> None:
    total = parameters_of(known_model(name)).total
    assert (total if isinstance(published, int) else billions(total, published)) == published


@pytest.mark.parametrize(("name", "printed"), ACTIVE.items())
def test_what_a_token_meets_has_the_printed_digits(name: str, printed: str) -> None:
    """Within one of the last digit, which some round and others cut."""
    last_digit = 10.0 ** -len(printed.partition(".")[2])
    assert abs(parameters_of(known_model(name)).active / 1e9 - float(printed)) < last_digit


@pytest.mark.parametrize(("name", "printed"), ACTIVE_WITHOUT_EMBEDDING.items())
def test_what_a_token_meets_without_the_embedding(name: str, printed: str) -> None:
    counts = parameters_of(known_model(name))
    assert billions(counts.active - counts.embedding, printed) == printed


def test_multi_token_prediction_stands_apart_and_is_exact_too() -> None:
    """deepseek-ai/DeepSeek-V3 at huggingface.co holds 680,571,043,840 numbers in fp8, 3,918,786,560 in bf16 and 59 x
    256 shifts of routers, with second copies of embedding and head for the prediction layer; the other fp32 numbers
    are scales of those in fp8."""
    counts = parameters_of(known_model("deepseek-v3"))
    copies = 2 * 129_280 * 7_168
    assert counts.total + counts.prediction + copies == 680_571_043_840 + 3_918_786_560 + 59 * 256


@pytest.mark.parametrize("name", MODELS)
def test_units_make_up_the_whole(name: str) -> None:
    model = known_model(name)
    counts = parameters_of(model)
    units = sum(counts.units[unit] * count for unit, count in model.counted.items())
    assert units == counts.total + counts.prediction
    assert counts.active <= counts.total
    assert (counts.active == counts.total) == (model.experts is None)
