"""Words become a problem: a model's name or file, cut or lengthened, N GPUs, and whatever else differs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from problems.profiles import DIAMOND, ROW

from pipeplan import InputError, PipeplanError, TrainingProblem, UsageError, load_packaged, packaged_names
from pipeplan.instances.base.quantities import GIB
from pipeplan.instances.networks.profile.profile import profile_to_json
from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.physics.hardware import usual_of
from pipeplan.instances.training.build import MODELS, known_model, model_of, problem_of, with_layers
from pipeplan.instances.training.kind_functions import training_from_json, training_to_json
from pipeplan.instances.training.model import Attention, Experts, MeasuredTime, Model, OwnLayer
from pipeplan.instances.training.scope import read_scope
from pipeplan.instances.training.words import configuration_from_words

from .test_config_json import PUBLISHED

OWN = Model("mine", own=(OwnLayer("a", 1, 1.0, 1.0, (MeasuredTime(1, 1, 1.0, 2.0),)),))


def llama(devices: str = "64xh100-80gb", **given: Any) -> TrainingProblem:
    return problem_of("llama-3-70b", devices, **{"batch": 256, "sequence": 8192, **given})


def refused(**given: Any) -> str:
    with pytest.raises((InputError, UsageError)) as caught:
        problem_of(**{"model": "llama-3-8b", "devices": "8xh100", "batch": 8, "sequence": 128, **given})
    return str(caught.value)


def test_a_name_and_gpus_are_enough() -> None:
    problem = llama()
    assert problem.model == known_model("llama-3-70b")
    assert problem.name == "llama-3-70b-64xh100-80gb"
    assert [(level.count, level.bandwidth) for level in problem.levels] == [(8, 450e9), (8, 50e9)]
    assert problem.memory_bytes == 81_559 * 2**20
    assert problem.peak == 989.4e12
    assert (problem.precision, problem.framework, problem.reserve_bytes) == ("bf16", "megatron", 1.5 * GIB)


@pytest.mark.parametrize(
    "text", ["tp=4 pp=2", "TP4PP2", "tp4-pp2", "TP4 PP2", "tensor=4 PP=2", "tp-4pp-2", "dp8pp2tp4"]
)
def test_degrees_have_the_short_names_that_engineers_write(text: str) -> None:
    problem = problem_of("llama-3-8b", "64xh100-80gb", sequence=8192, batch=64)
    assert configuration_from_words(problem, text) == configuration_from_words(problem, "tensor=4 pipeline=2")
    assert read_scope(text.split()).fix.items() >= {"tensor": "4", "pipeline": "2"}.items()


def test_the_same_in_more_words_is_the_same_problem() -> None:
    spelt = llama(levels="8x450GB/s,8x50GB/s", memory_bytes=81_559 * 2**20, reserve_bytes=1.5 * GIB, name="other")
    assert spelt.hash == llama().hash
    assert llama(memory_bytes=80e9).hash != llama().hash
    other = llama(precision="fp8", efficiencies={"links": 0.5}, levels=[(4, 1e9), (16, 1e8)])
    assert (other.peak, [level.count for level in other.levels]) == (1_978.9e12, [4, 16])
    assert other.efficiencies == replace(usual_of("h100-80gb"), links=0.5)


def test_files_and_folders_of_files_are_models(tmp_path: Path) -> None:
    folder = tmp_path / "Qwen3-8B"
    folder.mkdir()
    file = folder / "config.json"
    file.write_text(json.dumps(PUBLISHED["Qwen/Qwen3-8B"].config))
    for given in (folder, file, str(folder), str(file)):
        assert problem_of(given, "8xh100", batch=8, sequence=128).name == "Qwen3-8B-8xh100-80gb"
    file.write_text(json.dumps(training_to_json(llama(layers=7))))
    assert model_of(file) == llama(layers=7).model


def test_a_profile_gives_layers_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "row.json"
    file.write_text(json.dumps(profile_to_json(ROW)))
    problem = problem_of(file, "8xh100", batch=8, sequence=1)
    assert [layer.name for layer in problem.model.own] == list("abcd")
    assert problem.gpu.name == "h100-80gb"
    file.write_text(json.dumps(profile_to_json(DIAMOND.replace(training=False))))
    with pytest.raises(UsageError, match="Nothing is trained in this profile"):
        model_of(file)


@pytest.mark.parametrize("name", packaged_names("training"))
def test_packaged_problems_come_back_from_their_files(name: str) -> None:
    problem = load_packaged(name)
    assert problem.name == name
    assert training_from_json(json.loads(json.dumps(training_to_json(problem)))) == problem


@pytest.mark.parametrize(("given", "said"), [
    ({"model": "llama-3-8"}, "There is no model named 'llama-3-8' (did you mean 'llama-3-8b'?); choose one of"),
    ({"model": "meta-llama/Llama-3"}, "There is no file or folder 'meta-llama/Llama-3'; save the model's config"),
    ({"model": "./nothing"}, "nothing: file does not exist; name a file, not a packaged instance."),
    ({"devices": "h100"}, "devices are 'h100'; give their number and name, as in \"64xh100-80gb\"."),
    ({"levels": "4x1GB/s"},
     "levels multiply to 4 GPUs, not to 8; give counts whose product is the number of GPUs."),
    ({"levels": "8"}, "--levels: '8' is not a level like 8x300GB/s"),
    ({"levels": "none"}, "levels name no link; give at least one level"),
    ({"devices": "8xv100-16gb"}, "precision is bf16, which v100-16gb does not have; give fp16."),
    (
        {"framework": "mega"},
        "framework is 'mega'; give megatron or torchtitan or deepspeed or megatron-deepspeed or fsdp or nanotron "
        "or pytorch or scaling.",
    ),
    ({"efficiencies": {"link": 1}}, "There is no efficiency named 'link' (did you mean 'links'?)"),
    ({"efficiencies": {"links": 2}}, "efficiencies.links is 2; give 0.01 to 1."),
    ({"batch": 0}, "batch is 0; give a whole number from 1 to 10000000."),
], ids=str)  # fmt: skip
def test_bad_words_are_refused_in_one_sentence(given: dict[str, Any], said: str) -> None:
    assert refused(**given).startswith(said)


@pytest.mark.parametrize(("changes", "said"), [
    ({"attention": None}, "model.attention is null; give heads, head_size and key_value_heads."),
    ({"mlp": None}, "model.mlp is missing; give the hidden size of its products, or experts."),
    ({"norm": "batch"}, 'model.norm is \'batch\'; give "rms" or "layer".'),
    ({"attention": Attention(8, 8, 3)}, "model.attention.key_value_heads is 3 for 8 heads; give a divisor"),
    ({"attention": Attention(8, 8, 4, windowed_share=2)}, "model.attention.windowed_share is 2; give a share"),
    ({"experts": Experts(2, 3, 8)}, "model.experts.per_token is 3 of 2; give at most their count."),
    ({"experts": Experts(4, 2, 8, dense_layers=99)}, "model.experts.dense_layers is 99 of 32 layers; give fewer"),
    ({"own": (OwnLayer("a", 1, 1.0, 1.0, ()),)}, "model.own[0].times is empty; give how long one pass takes."),
], ids=str)  # fmt: skip
def test_shapes_that_no_model_has_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(known_model("llama-3-8b"), **changes)
    assert str(caught.value).startswith(said)


# ---- models by name ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_packaged_model_has_its_name_and_a_source(name: str) -> None:
    known = MODELS[name]
    assert known.model.name == name
    assert "arXiv" in known.source or "config.json" in known.source


def test_spelling_does_not_matter_and_near_names_are_told() -> None:
    assert known_model("Llama-3_70B") is known_model("llama-3-70b")
    with pytest.raises(UsageError, match=r"There is no model named 'lama-3-70b' \(did you mean 'llama-3-70b'\?\)"):
        known_model("lama-3-70b")


@pytest.mark.parametrize(("name", "layers", "dense", "counted"), [
    ("llama-3-70b", 12, None, {"embedding": 1, "dense": 12, "head": 1}),
    ("deepseek-v2", 4, 1, {"embedding": 1, "dense": 1, "experts": 3, "head": 1}),
    ("deepseek-v2", 4, None, {"embedding": 1, "dense": 1, "experts": 3, "head": 1}),  # it has one dense layer
    ("deepseek-v3", 100, None, {"embedding": 1, "dense": 3, "experts": 97, "prediction": 1, "head": 1}),
    ("deepseek-v3", 2, None, {"embedding": 1, "dense": 2, "prediction": 1, "head": 1}),
    ("deepseek-v3", None, 0, {"embedding": 1, "experts": 61, "prediction": 1, "head": 1}),
])  # fmt: skip
def test_a_model_is_cut_or_lengthened(
    name: str, layers: int | None, dense: int | None, counted: dict[str, int]
) -> None:
    """As the measured runs cut theirs; dense layers are never more than all."""
    model = with_layers(known_model(name), layers, dense)
    assert {unit: count for unit, count in model.counted.items() if count} == counted


@pytest.mark.parametrize(("name", "layers", "dense", "said"), [
    ("llama-3-8b", 0, None, "--layers is 0; give a whole number from 1 to 1000."),
    ("llama-3-8b", None, 3, "No layer of llama-3-8b has experts; drop --dense-layers."),
    ("deepseek-v2", 4, 5, "--dense-layers is 5 of 4 layers; give fewer of them."),
    ("deepseek-v2", 4, -1, "--dense-layers is -1; give a whole number from 0 to 1000."),
    ("mixtral-8x7b", 4, 1, "Every layer of mixtral-8x7b has experts; drop --dense-layers."),
])  # fmt: skip
def test_a_cut_that_makes_no_sense_is_refused(name: str, layers: int | None, dense: int | None, said: str) -> None:
    with pytest.raises((InputError, UsageError)) as caught:
        with_layers(known_model(name), layers, dense)
    assert str(caught.value) == said


def test_layers_of_multi_token_prediction_are_a_choice() -> None:
    """A cut DeepSeek-V3 keeps its one, which is a large part of a rank, unless none is asked for."""
    cut = [with_layers(known_model("deepseek-v3"), 4, 1, count) for count in (None, 0, 2)]
    assert [model.counted.get("prediction", 0) for model in cut] == [1, 0, 2]
    with pytest.raises(InputError, match="--prediction-layers is 101; give a whole number from 0 to 100"):
        with_layers(known_model("llama-3-8b"), prediction_layers=101)


def test_nothing_said_changes_nothing_and_measured_layers_cannot_be_cut() -> None:
    assert with_layers(known_model("gpt-oss-120b")) is known_model("gpt-oss-120b")
    assert with_layers(OWN) is OWN
    with pytest.raises(UsageError, match="mine has measured layers of its own, which cannot be cut"):
        with_layers(OWN, 1)


# ---- kernels of frameworks ---------------------------------------------------------------------------------


def test_frameworks_and_kernels_of_attention_change_what_they_say() -> None:
    """What was given by hand counts before the kernel, the kernel before the framework, this before the GPU."""

    def rates(**given: Any) -> Efficiencies:
        return problem_of("llama-3-8b", "8xa100-80gb", batch=8, sequence=4096, **given).efficiencies

    assert rates() == Efficiencies()
    own = rates(framework="nanotron")
    assert (own.host_seconds, own.attention) == (1.67e-4, 0.6)
    assert rates(framework="nanotron", attention_kernel="flash-1").attention == 0.3
    assert rates(attention_kernel="flash-1", efficiencies={"attention": 0.5}).attention == 0.5
    assert rates(attention_kernel="torch").softmax_traffic == 5
    kept = problem_of("llama-3-8b", "8xa100-80gb", batch=8, sequence=4096, attention_kernel="torch")
    assert not kept.flash_attention
    assert rates(framework="fsdp", flash_attention=False).attention == Efficiencies().attention


@pytest.mark.parametrize(("given", "sentence"), [
    ({"attention_kernel": "flash"}, "There is no attention kernel named 'flash' (did you mean 'flash-1'?)"),
    ({"attention_kernel": "torch", "flash_attention": True}, "attention_kernel is torch, and flash_attention says"),
])  # fmt: skip
def test_kernels_that_do_not_exist_or_contradict_are_refused(given: Any, sentence: str) -> None:
    with pytest.raises(PipeplanError) as caught:
        problem_of("llama-3-8b", **{"devices": "8xa100-80gb", "batch": 8, "sequence": 4096, **given})
    assert str(caught.value).startswith(sentence)
