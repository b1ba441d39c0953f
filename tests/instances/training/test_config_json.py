"""Shapes that other people published, as files of theirs state them, become models with exactly their parameters."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from problems.parameters import parameters_of

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.training.build import MODELS, known_model, model_of
from pipeplan.instances.training.config_json import READERS, model_from_config

from .test_unit_costs import PRINTED, TO_THE_LAST_DIGIT


class Published(NamedTuple):
    """What a file says, and how many parameters its repository at huggingface.co counts."""

    parameters: int
    config: dict[str, Any]


FILES = Path(__file__).resolve().parents[2] / "problems" / "published_configs.json"
PUBLISHED = {name: Published(**row) for name, row in json.loads(FILES.read_text("utf-8")).items()}
LLAMA = PUBLISHED["meta-llama/Meta-Llama-3-8B"].config
V2 = PUBLISHED["deepseek-ai/DeepSeek-V2"].config
OPT = PUBLISHED["facebook/opt-125m"].config
GEMMA = PUBLISHED["google/gemma-3-1b-it"].config
GPT_OSS = PUBLISHED["openai/gpt-oss-20b"].config
KIMI_K2 = PUBLISHED["moonshotai/Kimi-K2-Instruct"].config


@pytest.mark.parametrize("repository", PUBLISHED)
def test_a_published_file_has_the_published_number_of_parameters(repository: str) -> None:
    """Of the checkpoints' headers, to the last digit; DeepSeek-V3 without multi-token prediction."""
    parameters, config = PUBLISHED[repository]
    assert parameters_of(model_from_config(config)).total == parameters


def test_every_architecture_has_a_published_sample() -> None:
    sampled = {config["model_type"] for _, config in PUBLISHED.values()}
    assert set(READERS) - sampled == {"gemma3", "glm4_moe"}, "the nested file, and the rounded counts, below"


GLM = {
    **{
        "model_type": "glm4_moe",
        "attention_bias": True,
        "head_dim": 128,
        "num_key_value_heads": 8,
        "vocab_size": 151_552,
    },
    **{"num_attention_heads": 96, "n_shared_experts": 1, "num_experts_per_tok": 8, "num_nextn_predict_layers": 1},
}
GLM_AIR = {
    **{"hidden_size": 4_096, "intermediate_size": 10_944, "moe_intermediate_size": 1_408, "num_hidden_layers": 46},
    **{"n_routed_experts": 128, "first_k_dense_replace": 1, "use_qk_norm": False},
}
GLM_45 = {
    **{"hidden_size": 5_120, "intermediate_size": 12_288, "moe_intermediate_size": 1_536, "num_hidden_layers": 92},
    **{"n_routed_experts": 160, "first_k_dense_replace": 3, "use_qk_norm": True},
}


@pytest.mark.parametrize(("shapes", "billions"), [(GLM_AIR, 106), (GLM_45, 355)])
def test_glm_has_as_many_parameters_as_it_says(shapes: dict[str, Any], billions: int) -> None:
    """GLM 4.5 and its Air (arXiv 2508.06471), whose counts are stated in billions."""
    model = model_from_config({**GLM, **shapes})
    assert parameters_of(model).total == pytest.approx(billions * 1e9, rel=0.01)
    assert model.attention is not None
    assert (model.attention.bias, model.attention.output_bias) == (True, False)
    assert model.attention.query_key_norm == shapes["use_qk_norm"]
    assert model.prediction_layers == 1


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
    sizes = {"num_hidden_layers": 62, "hidden_size": 5376, "intermediate_size": 21504, "vocab_size": 262208}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024}
    text = GEMMA | sizes | heads
    file = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text}
    model = model_from_config(file | {"vision_config": {"hidden_size": 1152}}, sees=False)
    assert parameters_of(model).total == 27_009_346_304
    assert model.tied
    assert model.attention is not None
    assert (model.attention.window, model.attention.windowed_share) == (1024, 52 / 62), "every sixth layer sees all"


def test_the_text_model_of_kimi_is_read_and_asks_the_outer_file_whether_it_is_tied() -> None:
    file = {"model_type": "kimi_k25", "text_config": KIMI_K2, "tie_word_embeddings": False}
    assert parameters_of(model_from_config(file)).total == 1_026_408_232_448
    assert model_from_config(file | {"tie_word_embeddings": True}).tied


# ---- what files leave out or say otherwise --------------------------------------------------------------------


def test_the_class_says_what_a_file_without_a_type_is() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "model_type"}
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

WRONG: dict[str, tuple[Any, str]] = {
    "not an object": ([1], "content is a list"),
    "no architecture": ({"hidden_size": 64}, "model_type is missing, beside hidden_size 64; give a model of one"),
    "unknown architecture": ({"model_type": "solar", "hidden_size": 64, "num_hidden_layers": 2},
        "model_type is 'solar', beside hidden_size 64, num_hidden_layers 2; give a model of one of these"),
    "what is missing": ({"model_type": "mamba2", "hidden_size": 64},
        "model_type is 'mamba2', whose models have layers with a state space, which no unit here is; give a model of"),
    "type is a number": (LLAMA | {"model_type": 3}, "model_type is 3, not a text"),
    "missing": ({"model_type": "llama"}, "hidden_size is missing; give a whole number"),
    "flag": (LLAMA | {"attention_bias": 1}, "attention_bias is 1, not a truth value"),
    "heads": (LLAMA | {"num_attention_heads": 33, "num_key_value_heads": 3},
        "num_attention_heads is 33 for a hidden"),
    "groups": (LLAMA | {"num_key_value_heads": 5}, "num_key_value_heads is 5 for 32 heads; give a divisor"),
    "nested": ({"model_type": "x", "text_config": LLAMA | {"vocab_size": 0}}, "text_config.vocab_size is 0; give"),
    "many entries": (GPT_OSS | {"layer_types": ["x"] * 10_001}, "layer_types has 10001 entries; give at most"),
    "norms": (OPT | {"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine is false; give norms"),
    "top of experts": (GPT_OSS | {"num_experts_per_tok": 33}, "num_experts_per_tok is 33 of 32 experts"),
    "in turns": (V2 | {"moe_layer_freq": 2}, "moe_layer_freq is 2: layers with and without experts take turns"),
    "dense layers": (V2 | {"first_k_dense_replace": 61}, "first_k_dense_replace is 61 of 60 layers"),
    "dense in the middle": (PUBLISHED["Qwen/Qwen3-30B-A3B"].config | {"mlp_only_layers": [3]},
        "mlp_only_layers are not the first layers"),
}  # fmt: skip


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
