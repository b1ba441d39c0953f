"""Packaged models have a source each, are found whatever their spelling, and are cut and lengthened."""

from __future__ import annotations

import pytest

from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.training.build import MODELS, known_model, with_layers
from pipeplan.instances.training.model import MeasuredTime, Model, OwnLayer

OWN = Model("mine", own=(OwnLayer("a", 1, 1.0, 1.0, (MeasuredTime(1, 1, 1.0, 2.0),)),))


@pytest.mark.parametrize("name", MODELS)
def test_a_packaged_model_has_its_name_and_a_source(name: str) -> None:
    known = MODELS[name]
    assert known.model.name == name
    assert "arXiv" in known.source or "config.json" in known.source


def test_spelling_does_not_matter_and_near_names_are_told() -> None:
    assert known_model("Llama-3_70B") is known_model("llama-3-70b")
    with pytest.raises(UsageError, match=r"There is no model named 'lama-3-70b' \(did you mean 'llama-3-70b'\?\)"):
        known_model("lama-3-70b")


def test_a_model_is_cut_as_the_measured_runs_cut_it() -> None:
    """Llama 3 70B with 12 layers, DeepSeek-V2 with 4 layers, the first of them dense."""
    assert with_layers(known_model("llama-3-70b"), 12).counted == {"embedding": 1, "dense": 12, "head": 1}
    cut = with_layers(known_model("deepseek-v2"), 4, 1)
    assert cut.counted == {"embedding": 1, "dense": 1, "experts": 3, "head": 1}
    assert cut == with_layers(known_model("deepseek-v2"), 4), "it has one dense layer"


def test_a_model_is_lengthened_and_its_dense_layers_are_never_more_than_all() -> None:
    assert with_layers(known_model("deepseek-v3"), 100).counted["experts"] == 97
    assert with_layers(known_model("deepseek-v3"), 2).counted == {
        "embedding": 1,
        "dense": 2,
        "prediction": 1,
        "head": 1,
    }
    assert with_layers(known_model("deepseek-v3"), dense_layers=0).counted["experts"] == 61


def test_nothing_said_changes_nothing() -> None:
    assert with_layers(known_model("gpt-oss-120b")) is known_model("gpt-oss-120b")
    assert with_layers(OWN) is OWN


@pytest.mark.parametrize(
    ("name", "layers", "dense", "said"),
    [
        ("llama-3-8b", 0, None, "--layers is 0; give a whole number from 1 to 1000."),
        ("llama-3-8b", None, 3, "No layer of llama-3-8b has experts; drop --dense-layers."),
        ("deepseek-v2", 4, 5, "--dense-layers is 5 of 4 layers; give fewer of them."),
        ("deepseek-v2", 4, -1, "--dense-layers is -1; give a whole number from 0 to 1000."),
        ("mixtral-8x7b", 4, 1, "Every layer of mixtral-8x7b has experts; drop --dense-layers."),
    ],
)
def test_a_cut_that_makes_no_sense_is_refused(name: str, layers: int | None, dense: int | None, said: str) -> None:
    with pytest.raises((InputError, UsageError)) as caught:
        with_layers(known_model(name), layers, dense)
    assert str(caught.value) == said


def test_measured_layers_cannot_be_cut() -> None:
    with pytest.raises(UsageError, match="mine has measured layers of its own, which cannot be cut"):
        with_layers(OWN, 1)
