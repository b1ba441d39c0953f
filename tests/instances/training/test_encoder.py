"""Vision encoders: their parameters as published, and by which words they are given."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from problems.parameters import parameters_of

from pipeplan import InputError, TrainingProblem, UsageError
from pipeplan.instances.training.build import known_model, problem_of
from pipeplan.instances.training.config_json import model_from_config
from pipeplan.instances.training.encoder import ENCODERS, keeps_own, read_encoder
from pipeplan.instances.training.kind_functions import training_from_json, training_to_json
from pipeplan.instances.training.model import Encoder, Model
from pipeplan.instances.training.unit_costs import Keys, SecondsOfUnits
from pipeplan.studies.configure.judge import judge

VICUNA = {"model_type": "llama", "vocab_size": 32_064}
CLIP = {
    **{"model_type": "clip_vision_model", "image_size": 336, "patch_size": 14},
    **{"hidden_size": 1_024, "intermediate_size": 4_096, "num_hidden_layers": 24, "num_attention_heads": 16},
}
QWEN = {
    **{"hidden_size": 3_584, "intermediate_size": 18_944, "num_hidden_layers": 28, "vocab_size": 152_064},
    **{"num_attention_heads": 28, "num_key_value_heads": 4, "use_sliding_window": False},
}
QWEN_EYES = {"depth": 32, "num_heads": 16, "in_chans": 3, "patch_size": 14, "spatial_merge_size": 2}
WINDOWS = {"window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31]}
GEMMA = {
    **{"model_type": "gemma3_text", "hidden_size": 2_560, "intermediate_size": 10_240, "num_hidden_layers": 34},
    **{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262_208},
}
SIGLIP = {
    **{"model_type": "siglip_vision_model", "image_size": 896, "patch_size": 14},
    **{"hidden_size": 1_152, "intermediate_size": 4_304, "num_hidden_layers": 27, "num_attention_heads": 16},
}
INTERN = {
    **{"image_size": [448, 448], "patch_size": [14, 14], "norm_type": "layer_norm", "attention_bias": True},
    **{"hidden_size": 1_024, "intermediate_size": 4_096, "num_hidden_layers": 24, "num_attention_heads": 16},
}
QWEN25_EYES = {**QWEN_EYES, **WINDOWS, "hidden_size": 1_280, "intermediate_size": 3_420}
# Files as repositories at huggingface.co have them, and how many parameters these count.
PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "llava-hf/llava-1.5-7b-hf": (
        {"model_type": "llava", "text_config": VICUNA, "vision_config": CLIP},
        7_063_427_072,
    ),
    "Qwen/Qwen2-VL-7B-Instruct": (
        {**QWEN, "model_type": "qwen2_vl", "vision_config": {**QWEN_EYES, "embed_dim": 1_280, "mlp_ratio": 4}},
        8_291_375_616,
    ),
    "Qwen/Qwen2.5-VL-7B-Instruct": (
        {**QWEN, "model_type": "qwen2_5_vl", "vision_config": QWEN25_EYES},
        8_292_166_656,
    ),
    "google/gemma-3-4b-it": (
        {"model_type": "gemma3", "text_config": GEMMA, "vision_config": SIGLIP},
        4_300_079_472,
    ),
}


def seeing(model: Model) -> int:
    """Parameters of patches and encoder layers."""
    counts = parameters_of(model)
    return sum(counts.units[unit] * model.counted[unit] for unit in ("patches", "encoder"))


@pytest.mark.parametrize("repository", PUBLISHED)
def test_a_published_model_that_sees_has_the_published_number_of_parameters(repository: str) -> None:
    config, parameters = PUBLISHED[repository]
    assert parameters_of(model_from_config(config)).total == parameters


def test_the_packaged_encoders_have_their_published_sizes() -> None:
    """303,507,456 in CLIP's and 304,012,288 in InternViT-300M's checkpoints, beside whose projector a norm stands."""
    sizes = {name: seeing(replace(known_model("llama-3-8b"), encoder=own)) for name, own in ENCODERS.items()}
    assert sizes["clip-vit-l-336"] == 303_507_456
    assert sizes["internvit-300m"] == 304_012_288 + 2 * 4 * 1_024
    assert round(sizes["internvit-6b"] / 1e9, 2) == 5.54
    assert round(sizes["siglip-so400m-384"] / 1e6) == 413


def test_files_of_one_encoder_say_the_same_as_its_name() -> None:
    assert model_from_config(PUBLISHED["llava-hf/llava-1.5-7b-hf"][0]).encoder == ENCODERS["clip-vit-l-336"]
    intern = {"model_type": "internvl", "text_config": {**QWEN, "model_type": "qwen2"}, "vision_config": INTERN}
    assert model_from_config({**intern, "downsample_ratio": 0.5}).encoder == ENCODERS["internvit-300m"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "pixtral", "text_config": VICUNA, "vision_config": CLIP},
         "vision_config is that of 'pixtral', whose encoder is not read here; leave it out with --encoder none, or"),
        ({"model_type": "llava", "text_config": VICUNA, "vision_config": {**CLIP, "model_type": "x"}},
         "vision_config.model_type is 'x'; give clip_vision_model or siglip_vision_model"),
        ({"model_type": "mllama", "text_config": {"model_type": "mllama_text_model"}, "vision_config": {}},
         "text_config.model_type is 'mllama_text_model', whose models have layers that attend to images, which no"),
    ],
)  # fmt: skip
def test_a_file_with_another_encoder_is_refused_in_one_sentence(config: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        model_from_config(config)
    assert str(caught.value).startswith(said)


# ---- the option ------------------------------------------------------------------------------------------


def test_an_encoder_is_given_by_name_or_sizes_and_the_models_own_is_changed_or_dropped(tmp_path: Path) -> None:
    clip = ENCODERS["clip-vit-l-336"]
    own = read_encoder("layers=24,hidden=1024,heads=16,ffn=4096,tokens=576", None)
    assert own == replace(clip, vectors=0)
    assert read_encoder("CLIP-ViT-L-336, images=4", None) == replace(clip, images=4)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PUBLISHED["llava-hf/llava-1.5-7b-hf"][0]))
    found = [vision(str(path), encoder=text).model.encoder for text in (None, "images=2", "none")]
    assert found == [clip, replace(clip, images=2), None]
    assert [keeps_own(text) for text in (None, "images=2", "none", "internvit-6b")] == [True, True, False, False]


def vision(model: str = "llama-3-8b", **given: Any) -> TrainingProblem:
    return problem_of(model, "8xh100-80gb", **{"batch": 8, "sequence": 4_096, **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"encoder": "clip"}, "There is no encoder named 'clip'"),
        ({"encoder": "hidden=64,heads=2"}, "encoder lacks layers, ffn, tokens; give them, or one of clip-vit-l-336"),
        ({"encoder": "clip-vit-l-336,depth=2"}, "encoder holds 'depth=2'; give a name or whole numbers"),
        ({"encoder": "clip-vit-l-336,heads=5"}, "model.encoder.heads is 5 for a hidden size of 1024; give a divisor"),
        ({"encoder": "clip-vit-l-336,images=8"}, "encoder makes 4608 tokens of 8 images, more than the 4096"),
        ({"frozen": "encoder"}, "frozen is 'encoder', and the model has no encoder"),
        ({"encoder": "clip-vit-l-336", "frozen": "head"}, "frozen is 'head'; give encoder"),
        ({"encoder": "clip-vit-l-336", "flash_attention": False}, "encoder is given, and attention keeps its matrix"),
        ({"encoder": "clip-vit-l-336", "framework": "nanotron"}, "encoder is given, and nanotron trains none"),
    ],
)  # fmt: skip
def test_an_encoder_that_makes_no_sense_is_refused_in_one_sentence(given: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, UsageError)) as caught:
        vision(**given)
    assert str(caught.value).startswith(said)


def test_a_problem_with_an_encoder_comes_back_from_its_file_and_others_keep_their_hash() -> None:
    own = vision(encoder="clip-vit-l-336,images=2", frozen="encoder")
    assert training_from_json(training_to_json(own)) == own
    assert len({own.hash, own.replace(frozen=None).hash, vision().hash}) == 3


# ---- what follows ----------------------------------------------------------------------------------------


def test_a_frozen_encoder_has_no_backward_pass_and_a_patch_sees_all_patches_of_its_image() -> None:
    """Twice as many images take twice as long, as do twice as many patches in products but not in attention."""

    def seconds(**sizes: int) -> SecondsOfUnits:
        encoder = Encoder(2, 1_024, 16, 4_096, **{"tokens": 512, **sizes})
        model = replace(known_model("llama-3-8b"), encoder=encoder)
        return SecondsOfUnits(vision().replace(model=model), Keys.of([(1, 1, 1, 1, 1)]), 4.0)

    launch = vision().efficiencies.launch_seconds
    one, images, patches = (
        seconds(**sizes).unit("encoder").forward[1, 0] - launch for sizes in ({}, {"images": 2}, {"tokens": 1_024})
    )
    assert (images / one, patches / one) == pytest.approx((2, 4))
    counter = seconds()
    counter.problem = counter.problem.replace(frozen="encoder")
    assert not counter.unit("encoder").inputs.any()
    assert counter.unit("embedding").weights.any(), "the projector is trained"


@pytest.mark.parametrize("text", ["", "layout=42/17", "layout=Et*16|t*16L", "--pipeline-model-parallel-size 2"])
def test_layouts_of_letters_and_flags_have_the_whole_encoder_in_the_first_chunk(text: str) -> None:
    own = vision(encoder="clip-vit-l-336")
    assert judge(own, text if text.startswith("-") else f"pipeline=2 {text}", 0.03).plan.layout == (42, 17)


def test_tensor_parallelism_divides_the_encoder_and_context_parallelism_is_refused() -> None:
    own = vision(encoder="internvit-6b")
    for words in ("tensor=2", "context=2"):
        with pytest.raises(UsageError, match="A vision encoder has no context parallelism, and tensor"):
            judge(own, words, 0.03)
