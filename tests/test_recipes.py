"""The recipes in `benchmarks/recipes` make the packaged files, and their networks are those of the papers."""

from __future__ import annotations

import json

import packaged_instances
import packaged_profiles
import pytest
from recipes.catalogue import NETWORKS, build

from pipeplan.instances.networks.profile.profile import profile_to_json


def test_the_stored_instances_are_what_their_recipes_make() -> None:
    assert packaged_instances.differing() == []


@pytest.mark.parametrize("name", packaged_profiles.OF_PAPERS)
def test_the_stored_profiles_of_papers_are_what_is_made(name: str) -> None:
    stored = json.loads((packaged_profiles.FOLDER / f"{name}.json").read_text("utf-8"))
    assert stored == packaged_profiles.short(profile_to_json(packaged_profiles.made(name)))


# Of torchvision and Hugging Face, to the last one.
EXACT_PARAMETERS = {
    "resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032, "vgg16": 138_357_544,
    "inception_v3": 23_834_568, "densenet121": 7_978_856, "bert-base": 109_482_240, "bert-large": 335_141_888,
    "gpt2-medium": 354_823_168, "gpt2-xl": 1_557_611_200,
}  # fmt: skip
# Brown et al. 2020, table 2.1; Shazeer et al. 2017 for GNMT.
ROUNDED_PARAMETERS = {"gpt3-6.7b": 6.7e9, "gnmt": 278e6, "gnmt-operators": 278e6}
GIGA_MACS = {"resnet18": 1.82, "resnet50": 4.1, "vgg16": 15.5, "inception_v3": 5.7, "densenet121": 2.87}


def test_every_network_has_as_many_parameters_as_published() -> None:
    coarse = {name for name in NETWORKS if name.removesuffix("-operators") not in NETWORKS or name in GIGA_MACS}
    assert coarse <= EXACT_PARAMETERS.keys() | ROUNDED_PARAMETERS.keys()
    assert {name: build(name).parameters for name in EXACT_PARAMETERS} == EXACT_PARAMETERS
    found = {name: build(name).parameters for name in ROUNDED_PARAMETERS}
    assert found == pytest.approx(ROUNDED_PARAMETERS, rel=0.02)


def test_every_network_works_as_much_as_published() -> None:
    assert {name: build(name).flops / 2e9 for name in GIGA_MACS} == pytest.approx(GIGA_MACS, rel=0.03)


@pytest.mark.parametrize("name", [name for name in NETWORKS if f"{name}-operators" in NETWORKS])
def test_operators_are_the_same_network_in_smaller_pieces(name: str) -> None:
    coarse, fine = build(name), build(f"{name}-operators")
    assert len(fine.layers) > len(coarse.layers)
    assert fine.parameters == coarse.parameters
    assert fine.flops == pytest.approx(coarse.flops, rel=0.01)
