"""`plan generate` of chains: the benchmark's recipe and the families of the theory, with what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeplan
from pipeplan.instances.chain import generators as recipe
from pipeplan.instances.chain import theory
from pipeplan.instances.chain.generators import CHAIN_GENERATORS
from pipeplan.planners.chain.baselines import memory_levels

Plan = Callable[..., Any]


@pytest.mark.parametrize("name", CHAIN_GENERATORS)
def test_every_family_is_listed_and_written_as_a_chain(plan: Plan, tmp_path: Path, name: str) -> None:
    path = tmp_path / "made.json"
    report = plan("generate", name, "-o", path, "--json").json
    problem = pipeplan.load(path)
    assert problem == CHAIN_GENERATORS[name]().problem
    assert report["problem"]["hash"] == problem.hash
    assert name in [row["name"] for row in plan("generate", "--json").json]


def test_the_recipe_takes_sizes_seed_and_memory(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    said = plan("generate", "resnet-like", "--layers", 8, "--gpus", 3, "--seed", 5, "--memory", "1KiB", "-o", path)
    assert said.code == 0
    assert pipeplan.load(path) == recipe.resnet_like(8, 3, 5, 1024)


def test_tightness_is_that_of_the_benchmark(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    assert plan("generate", "resnet-like", "--layers", 6, "--gpus", 2, "--tightness", 0.3, "-o", path).code == 0
    problem = recipe.resnet_like(6, 2)
    assert pipeplan.load(path).hash == recipe.tightness(problem, *memory_levels(problem), 0.3).hash


def test_families_have_parameters(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    for arguments, known in (
        (("theorem-1", "--k", 3), theory.family(3)),
        (("lemma-3", "--pairs", 3, "--large", 7, "--memory", 4), theory.lemma_3(3, 7, 4)),
        (("theorem-2", "--numbers", "6,6,6,6,7,9"), theory.theorem_2((6, 6, 6, 6, 7, 9))),
        (("theorem-3", "--printed-sizes"), theory.theorem_3(printed_sizes=True)),
    ):
        assert plan("generate", *arguments, "-o", path).code == 0
        assert pipeplan.load(path) == known.problem


def test_what_is_known_is_told_and_holds(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    said = plan("generate", "figure-5", "-o", path).out
    assert "known periods: general 5, unlimited 4, two-batches 4" in said
    assert plan("solve", path, "--json").json["objective"] == 5


def test_the_allocation_of_theorem_3_can_be_handed_on(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    facts = plan("generate", "theorem-3", "--numbers", "6,6,8,6,7,7", "-o", path, "--json").json["problem"]
    solved = plan("solve", path, "--allocation", facts["allocation"], "--json").json
    assert solved["objective"] == facts["periods"]["fixed"] == 80
    assert solved["stop"] == "proven"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("figure-4", "--seed", "3"), "'figure-4' has no parameter --seed; it has none"),
        (("theorem-1", "--k", "1"), "at least 2"),
        (("theorem-1", "--k", "1000000"), "at most 60"),
        (("theorem-2", "--numbers", ",".join(["1"] * 99)), "at most 24"),
        (("resnet-like", "--layers", "1000000000"), "at most 10000"),
        (("theorem-2", "--numbers", "a,b"), "give whole numbers like 6,6,8,6,7,7"),
        (("resnet-like", "--layers", "1"), "at least 2"),
        (("resnet-like", "--tightness", "2"), "from 0 to 1"),
        (("resnet-like", "--tightness", "0.5", "--memory", "1KiB"), "drop one of them"),
        (("lemma-3", "--memory", "2.5"), "give a whole number of bytes"),
    ],
)
def test_what_makes_no_sense(plan: Plan, arguments: tuple[str, ...], words: str) -> None:
    said = plan("generate", *arguments)
    assert (said.code, said.out) == (2, "")
    assert words in said.err
