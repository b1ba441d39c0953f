"""Shapes that other people published, as files of theirs state them, become models with exactly their parameters."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.training.build import MODELS, known_model, model_of
from pipeplan.instances.training.config_json import READERS, model_from_config
from pipeplan.instances.training.unit_costs import parameters_of

from .test_unit_costs import PRINTED, TO_THE_LAST_DIGIT


class Published(NamedTuple):
    """What a file says, and how many parameters its repository at huggingface.co counts."""

    parameters: int
    config: dict[str, Any]


def llama(
    layers: int, hidden: int, heads: int, key_values: int, inner: int, words: int, **more: Any
) -> dict[str, Any]:
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "intermediate_size": inner, "vocab_size": words}
    attention = {"num_attention_heads": heads, "num_key_value_heads": key_values}
    return {"model_type": "llama", **sizes, **attention, **more}


def deepseek(layers: int, hidden: int, heads: int, inner: int, words: int, **more: Any) -> dict[str, Any]:
    ranks = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    others = {"v_head_dim": 128, "moe_layer_freq": 1, "attention_bias": False, **more}
    return llama(layers, hidden, heads, heads, inner, words, model_type="deepseek_v2") | ranks | others


def gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    shapes = llama(layers, 2880, 64, 8, 2880, 201088, model_type="gpt_oss", head_dim=64, attention_bias=True)
    kinds = ["sliding_attention", "full_attention"] * (layers // 2)
    more = {"num_local_experts": experts, "num_experts_per_tok": 4, "sliding_window": 128, "layer_types": kinds}
    return shapes | more


def opt(hidden: int, layers: int, heads: int, embedding: int) -> dict[str, Any]:
    sizes = {"hidden_size": hidden, "ffn_dim": 4 * hidden, "num_hidden_layers": layers, "vocab_size": 50272}
    more = {"num_attention_heads": heads, "max_position_embeddings": 2048, "word_embed_proj_dim": embedding}
    return {"model_type": "opt", **sizes, **more}


QWEN3_MOE = {"model_type": "qwen3_moe", "head_dim": 128, "attention_bias": False, "mlp_only_layers": []}
EXPERTS_30B = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}
EXPERTS_V2 = {"n_routed_experts": 160, "num_experts_per_tok": 6, "moe_intermediate_size": 1536}
EXPERTS_V3 = {"n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048}
EXPERTS_K2 = {"n_routed_experts": 384, "num_experts_per_tok": 8, "moe_intermediate_size": 2048}
EXPERTS_LITE = {"n_routed_experts": 64, "num_experts_per_tok": 6, "moe_intermediate_size": 1408}
KIMI_K2 = deepseek(61, 7168, 64, 18432, 163840, **EXPERTS_K2, n_shared_experts=1, first_k_dense_replace=1)

PUBLISHED = {
    "meta-llama/Meta-Llama-3-8B": Published(8_030_261_248, llama(32, 4096, 32, 8, 14336, 128256)),
    "mistralai/Mistral-7B-v0.1": Published(
        7_241_732_096, llama(32, 4096, 32, 8, 14336, 32000, model_type="mistral", sliding_window=4096)
    ),
    "Qwen/Qwen2.5-7B": Published(
        7_615_616_512, llama(28, 3584, 28, 4, 18944, 152064, model_type="qwen2", use_sliding_window=False)
    ),
    "Qwen/Qwen3-8B": Published(
        8_190_735_360, llama(36, 4096, 32, 8, 12288, 151936, model_type="qwen3", head_dim=128)
    ),
    "Qwen/Qwen1.5-MoE-A2.7B": Published(
        14_315_784_192,
        llama(24, 2048, 16, 16, 5632, 151936, model_type="qwen2_moe", decoder_sparse_step=1)
        | {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408}
        | {"shared_expert_intermediate_size": 5632},
    ),
    "Qwen/Qwen3-30B-A3B": Published(30_532_122_624, llama(48, 2048, 32, 4, 6144, 151936) | QWEN3_MOE | EXPERTS_30B),
    "google/gemma-2b": Published(
        2_506_172_416, llama(18, 2048, 8, 1, 16384, 256000, model_type="gemma", head_dim=256)
    ),
    "google/gemma-2-9b": Published(
        9_241_705_984, llama(42, 3584, 16, 8, 14336, 256000, model_type="gemma2", head_dim=256)
    ),
    "google/gemma-3-1b-it": Published(
        999_885_952,
        llama(26, 1152, 4, 1, 6912, 262144, model_type="gemma3_text", head_dim=256, sliding_window=512),
    ),
    "microsoft/phi-2": Published(
        2_779_683_840, llama(32, 2560, 32, 32, 10240, 51200, model_type="phi", tie_word_embeddings=False)
    ),
    "microsoft/Phi-3-mini-4k-instruct": Published(
        3_821_079_552, llama(32, 3072, 32, 32, 8192, 32064, model_type="phi3", sliding_window=2047)
    ),
    "openai-community/gpt2": Published(
        124_439_808,
        {
            "model_type": "gpt2",
            "n_embd": 768,
            "n_layer": 12,
            "n_head": 12,
            "n_positions": 1024,
            "vocab_size": 50257,
        },
    ),
    "EleutherAI/gpt-neox-20b": Published(
        20_554_567_680, llama(44, 6144, 64, 64, 24576, 50432, model_type="gpt_neox")
    ),
    "facebook/opt-125m": Published(125_239_296, opt(768, 12, 12, 768)),
    "facebook/opt-350m": Published(331_196_416, opt(1024, 24, 16, 512) | {"do_layer_norm_before": False}),
    "mistralai/Mixtral-8x7B-v0.1": Published(
        46_702_792_704,
        llama(32, 4096, 32, 8, 14336, 32000, model_type="mixtral", num_local_experts=8, num_experts_per_tok=2),
    ),
    "openai/gpt-oss-20b": Published(20_914_757_184, gpt_oss(24, 32)),
    "openai/gpt-oss-120b": Published(116_829_156_672, gpt_oss(36, 128)),
    "deepseek-ai/DeepSeek-V2": Published(
        235_741_434_880,
        deepseek(60, 5120, 128, 12288, 102400, **EXPERTS_V2, n_shared_experts=2, first_k_dense_replace=1),
    ),
    "deepseek-ai/DeepSeek-V2-Lite": Published(
        15_706_484_224,
        deepseek(27, 2048, 16, 10944, 102400, **EXPERTS_LITE, n_shared_experts=2, first_k_dense_replace=1)
        | {"q_lora_rank": None},
    ),
    "deepseek-ai/DeepSeek-V3": Published(
        671_026_419_200,
        deepseek(61, 7168, 128, 18432, 129280, **EXPERTS_V3, n_shared_experts=1, first_k_dense_replace=3)
        | {"model_type": "deepseek_v3", "num_nextn_predict_layers": 1, "topk_method": "noaux_tc"},
    ),
    "moonshotai/Kimi-K2-Instruct": Published(
        1_026_408_232_448, KIMI_K2 | {"model_type": "kimi_k2", "num_nextn_predict_layers": 0}
    ),
}


@pytest.mark.parametrize("repository", PUBLISHED)
def test_a_published_file_has_the_published_number_of_parameters(repository: str) -> None:
    """Of the checkpoints' headers, to the last digit; DeepSeek-V3 without multi-token prediction."""
    parameters, config = PUBLISHED[repository]
    assert parameters_of(model_from_config(config)).total == parameters


def test_every_architecture_has_a_published_sample() -> None:
    sampled = {config["model_type"] for _, config in PUBLISHED.values()}
    assert set(READERS) - sampled == {"gemma3"}, "the nested file below"


PACKAGED = {
    "meta-llama/Meta-Llama-3-8B": "llama-3-8b",
    "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "deepseek-ai/DeepSeek-V2": "deepseek-v2",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "facebook/opt-350m": "opt-350m",
}


@pytest.mark.parametrize(("repository", "name"), PACKAGED.items())
def test_a_packaged_model_is_what_its_file_says(repository: str, name: str) -> None:
    assert model_from_config(PUBLISHED[repository].config, name) == known_model(name)


def test_every_packaged_model_has_a_published_count() -> None:
    assert set(MODELS) == {*PACKAGED.values(), *TO_THE_LAST_DIGIT, *PRINTED}


# ---- nested files ----------------------------------------------------------------------------------------


def test_the_text_model_of_a_multimodal_gemma_is_read() -> None:
    """google/gemma-3-27b-it; converted files of its language model alone count 27,009,346,304."""
    text = llama(62, 5376, 32, 16, 21504, 262208, model_type="gemma3_text", head_dim=128, sliding_window=1024)
    file = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text}
    model = model_from_config(file | {"vision_config": {"hidden_size": 1152}})
    assert parameters_of(model).total == 27_009_346_304
    assert model.tied
    assert model.attention is not None
    assert (model.attention.window, model.attention.windowed_share) == (1024, 52 / 62), "every sixth layer sees all"


def test_the_text_model_of_kimi_is_read_and_asks_the_outer_file_whether_it_is_tied() -> None:
    text = KIMI_K2 | {"model_type": "kimi_k2"}
    file = {"model_type": "kimi_k25", "text_config": text, "tie_word_embeddings": False}
    assert parameters_of(model_from_config(file)).total == 1_026_408_232_448
    assert model_from_config(file | {"tie_word_embeddings": True}).tied


# ---- what files leave out or say otherwise --------------------------------------------------------------------


def test_the_class_says_what_a_file_without_a_type_is() -> None:
    config = dict(PUBLISHED["meta-llama/Meta-Llama-3-8B"].config)
    del config["model_type"]
    named = config | {"architectures": ["LlamaForCausalLM"]}
    assert model_from_config(named, "llama-3-8b") == known_model("llama-3-8b")


def test_windows_are_those_of_the_layers_that_have_one() -> None:
    def window(repository: str, **more: Any) -> tuple[int | None, float]:
        attention = model_from_config(PUBLISHED[repository].config | more).attention
        assert attention is not None
        return attention.window, attention.windowed_share

    assert window("mistralai/Mistral-7B-v0.1") == (4096, 1)
    assert window("mistralai/Mistral-7B-v0.1", sliding_window=None) == (None, 0)
    assert window("google/gemma-2-9b") == (4096, 0.5)
    assert window("openai/gpt-oss-120b") == (128, 0.5)
    assert window("Qwen/Qwen2.5-7B") == (None, 0)
    asked = {"use_sliding_window": True, "sliding_window": 1000, "max_window_layers": 21}
    assert window("Qwen/Qwen2.5-7B", **asked) == (1000, 0.25)


def test_layers_without_experts_come_first() -> None:
    config = PUBLISHED["Qwen/Qwen3-30B-A3B"].config | {"mlp_only_layers": [1, 0]}
    assert model_from_config(config).counted == {"embedding": 1, "dense": 2, "experts": 46, "head": 1}


# ---- refusals ------------------------------------------------------------------------------------------------

LLAMA = PUBLISHED["meta-llama/Meta-Llama-3-8B"].config
V2 = PUBLISHED["deepseek-ai/DeepSeek-V2"].config
OPT = PUBLISHED["facebook/opt-125m"].config
WRONG: dict[str, tuple[Any, str]] = {
    "not an object": ([1], "content is a list"),
    "no architecture": ({"hidden_size": 64}, "model_type is missing, beside hidden_size 64; give a model of one"),
    "unknown architecture": (
        {"model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 2},
        "model_type is 'mamba2', beside hidden_size 64, num_hidden_layers 2; give a model of one of these",
    ),
    "type is a number": (LLAMA | {"model_type": 3}, "model_type is 3, not a text"),
    "missing": ({"model_type": "llama"}, "hidden_size is missing; give a whole number"),
    "flag": (LLAMA | {"attention_bias": 1}, "attention_bias is 1, not a truth value"),
    "heads": (
        LLAMA | {"num_attention_heads": 33, "num_key_value_heads": 3},
        "num_attention_heads is 33 for a hidden",
    ),
    "groups": (LLAMA | {"num_key_value_heads": 5}, "num_key_value_heads is 5 for 32 heads; give a divisor"),
    "nested": ({"model_type": "x", "text_config": LLAMA | {"vocab_size": 0}}, "text_config.vocab_size is 0; give"),
    "many entries": (
        gpt_oss(4, 4) | {"layer_types": ["x"] * 10_001},
        "layer_types has 10001 entries; give at most",
    ),
    "norms": (OPT | {"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine is false; give norms"),
    "top of experts": (gpt_oss(4, 4) | {"num_experts_per_tok": 5}, "num_experts_per_tok is 5 of 4 experts"),
    "in turns": (V2 | {"moe_layer_freq": 2}, "moe_layer_freq is 2: layers with and without experts take turns"),
    "dense layers": (V2 | {"first_k_dense_replace": 61}, "first_k_dense_replace is 61 of 60 layers"),
    "dense in the middle": (
        PUBLISHED["Qwen/Qwen3-30B-A3B"].config | {"mlp_only_layers": [3]},
        "mlp_only_layers are not the first layers",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    data, said = WRONG[case]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError) as caught:
        model_of(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: {said}"), sentence
    assert sentence.isprintable()
    assert sentence.count("; ") == 1


ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 2, 3, 0.5, float("nan"), 10**40),
    *("", "llama", [], [1], [[1]], {}, {"a": 1}),
)
# Fields that change shapes in other architectures.
UNREAD = {
    **{"n_routed_experts": 64, "num_experts": 8, "num_local_experts": 8, "first_k_dense_replace": 1},
    **{"kv_lora_rank": 512, "num_nextn_predict_layers": 1, "use_qk_norm": True},
}


@pytest.mark.parametrize("field", UNREAD)
def test_fields_that_change_shapes_elsewhere_are_not_passed_over(field: str) -> None:
    with pytest.raises(InputError, match=f"{field} is .*, which models of the type llama do not have; give the"):
        model_from_config({**LLAMA, field: UNREAD[field]})
    for nothing in (None, 0, False):
        assert model_from_config({**LLAMA, field: nothing}) == model_from_config(LLAMA)


WINDOWS: tuple[tuple[str, object, str], ...] = (
    ("layer_types", ["full_attention"], r"layer_types has 1 entry for \d+ layers; give one for each"),
    ("layer_types", ["linear_attention"], r"layer_types\[0\] is 'linear_attention'; give full_attention or"),
    ("layer_types", "full_attention", "layer_types is .full_attention., not a list"),
    *(("sliding_window", value, f"sliding_window is {value!r}; give") for value in (-5, "4096", 1.5)),
)


@pytest.mark.parametrize("repository", PUBLISHED)
def test_windows_and_sizes_are_checked_in_every_architecture(repository: str) -> None:
    config = PUBLISHED[repository].config
    for field, value, message in WINDOWS:
        with pytest.raises(InputError, match=message):
            model_from_config({**config, "num_hidden_layers": 4, "n_layer": 4, field: value})
    sizes = [name for name, value in config.items() if type(value) is int]
    for field, odd in itertools.product(sizes, (-1, "8", 2.5, True)):
        with pytest.raises(InputError, match=field):
            model_from_config({**config, field: odd})


@pytest.mark.parametrize("repository", PUBLISHED)
def test_odd_values_give_a_model_or_one_sentence(repository: str) -> None:
    """Every field of every file in turn, with values of every type."""
    config = PUBLISHED[repository].config | {"architectures": ["LlamaForCausalLM"], "text_config": None}
    sentences = []
    for field, value in itertools.product(config, ODD):
        try:
            model_from_config(config | {field: value})
        except InputError as error:
            sentences.append(str(error))
    assert sentences
    assert all(sentence.isprintable() and sentence.count("; ") == 1 for sentence in sentences)


def test_files_are_read_without_torch_and_transformers(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(V2))
    program = (
        "import sys;"
        "from pipeplan.instances.training.build import model_of;"
        f"model_of({str(path)!r});"
        "assert not {'torch', 'transformers', 'numpy', 'pandas', 'networkx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
