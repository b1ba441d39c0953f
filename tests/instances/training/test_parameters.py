"""Parameters counted from shapes are those that are published: to the last digit, or to the digits that are printed."""

from __future__ import annotations

import pytest

from pipeplan.instances.training.build import MODELS, known_model
from pipeplan.instances.training.model import Attention, Experts, Mlp, Model
from pipeplan.instances.training.unit_costs import count_of, parameters_of

# Counts that repositories at huggingface.co state for their checkpoints (safetensors); for DeepSeek-V3 the main model.
TO_THE_LAST_DIGIT = {
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "gpt-oss-120b": 116_829_156_672,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v3": 671_026_419_200,
    "opt-350m": 331_196_416,
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


@pytest.mark.parametrize("name", TO_THE_LAST_DIGIT)
def test_counts_are_exact_where_they_are_published_exactly(name: str) -> None:
    assert parameters_of(known_model(name)).total == TO_THE_LAST_DIGIT[name]


@pytest.mark.parametrize("name", PRINTED)
def test_counts_have_the_printed_digits(name: str) -> None:
    assert billions(parameters_of(known_model(name)).total, PRINTED[name]) == PRINTED[name]


def test_every_packaged_model_has_a_published_count() -> None:
    assert set(MODELS) == {*TO_THE_LAST_DIGIT, *PRINTED}


@pytest.mark.parametrize("name", ACTIVE)
def test_what_a_token_meets_has_the_printed_digits(name: str) -> None:
    """Within one of the last digit, which some round and others cut."""
    printed = ACTIVE[name]
    last_digit = 10.0 ** -len(printed.partition(".")[2])
    assert abs(parameters_of(known_model(name)).active / 1e9 - float(printed)) < last_digit


@pytest.mark.parametrize("name", ACTIVE_WITHOUT_EMBEDDING)
def test_what_a_token_meets_without_the_embedding(name: str) -> None:
    counts = parameters_of(known_model(name))
    printed = ACTIVE_WITHOUT_EMBEDDING[name]
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
    units = sum(counts.units[unit].total * count for unit, count in model.counted.items())
    assert units == counts.total + counts.prediction
    assert counts.active <= counts.total
    assert (counts.active == counts.total) == (model.experts is None)


def test_formula_of_the_models_of_megatron() -> None:
    """P = 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)) in arXiv 2104.04473, which leaves out the last norm."""
    model = known_model("gpt-3-175b")
    layers, hidden = model.layers, model.hidden
    formula = 12 * layers * hidden**2 + 13 * layers * hidden + (model.vocabulary + model.positions) * hidden
    assert parameters_of(model).total == formula + 2 * hidden


def test_small_parts_by_hand() -> None:
    """hidden 8, two heads of 3, one key-value head: 8 x (6 + 3 + 3 + 6) = 144 weights of attention."""

    def layer(attention: Attention, **more: object) -> int:
        own: dict[str, object] = {"mlp": Mlp(5), **more}
        return count_of(Model("m", 8, 1, 11, attention, **own), "dense").total  # type: ignore[arg-type]

    plain = Attention(2, 3, 1)
    assert layer(plain) == 16 + 144 + 3 * 8 * 5
    assert layer(plain, norm="layer") - layer(plain) == 16
    assert layer(plain, norms=4) - layer(plain) == 16
    assert layer(plain, mlp=Mlp(5, gated=False)) - layer(plain) == -40
    assert layer(plain, mlp=Mlp(5, bias=True)) - layer(plain) == 5 + 5 + 8
    assert layer(Attention(2, 3, 1, bias=True)) - layer(plain) == 6 + 3 + 3
    assert layer(Attention(2, 3, 1, output_bias=True)) - layer(plain) == 8
    assert layer(Attention(2, 3, 1, query_key_norm=True)) - layer(plain) == 6
    assert layer(Attention(2, 3, 1, sinks=True)) - layer(plain) == 2
    assert layer(Attention(2, 3, 1, value_size=4)) - layer(plain) == 8 * (1 + 2)


def test_latent_attention_by_hand() -> None:
    """Ranks 4 and 5, two heads of 3 with 2 for positions and values of 6."""
    latent = Attention(2, 3, 2, value_size=6, query_rank=4, key_value_rank=5, rope_size=2)
    model = Model("m", 8, 1, 11, latent, Mlp(5))
    queries = 8 * 4 + 4 + 4 * 2 * (3 + 2)
    keys_and_values = 8 * (5 + 2) + 5 + 5 * 2 * (3 + 6)
    assert count_of(model, "dense").total == 16 + queries + keys_and_values + 2 * 6 * 8 + 120


def test_experts_by_hand() -> None:
    experts = Experts(4, 2, 3, shared_hidden=5, shared_gate=True, router_bias=True, bias=True)
    model = Model("m", 8, 1, 11, Attention(2, 4, 2), experts=experts)
    one = 3 * 8 * 3 + 3 + 3 + 8
    always = 16 + 4 * 64 + 8 * 4 + 4 + 3 * 8 * 5 + 8
    counted = count_of(model, "experts")
    assert (counted.total, counted.active) == (always + 4 * one, always + 2 * one)


def test_ends_by_hand() -> None:
    model = Model("m", 8, 1, 11, Attention(2, 4, 2), Mlp(5), positions=3, embedding_size=2, head_bias=True)
    assert count_of(model, "embedding").total == 11 * 2 + 3 * 8 + 2 * 8
    assert count_of(model, "head").total == 8 + 8 * 2 + 11 * 2 + 11
