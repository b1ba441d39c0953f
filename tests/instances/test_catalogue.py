"""Packaged instances equal their recipes, and what is known of them is consistent."""

from __future__ import annotations

import itertools
from datetime import date
from pathlib import Path

import pytest

from pipeplan.instances import catalogue
from pipeplan.instances.catalogue import (
    STAGING_VARIANTS,
    VARIANTS,
    BestKnown,
    best_known,
    load_packaged,
    load_packaged_staging,
    packaged_info,
    packaged_names,
    packaged_staging_info,
    read_best_known,
    recipes,
    staging_variants,
    write_packaged,
)
from pipeplan.instances.errors import UsageError
from pipeplan.instances.placement.problem import PlacementProblem
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import StagingProblem
from pipeplan.instances.staging.referee.stages import evaluate_stages, verify_stages

RECIPES = {recipe.name: recipe for recipe in recipes()}
PLACEMENTS, STAGINGS = packaged_names(), packaged_names("staging")
FOLDER = Path(catalogue.__file__).parent / "packaged"


def load_any(name: str) -> PlacementProblem | StagingProblem:
    return load_packaged_staging(name) if name in STAGINGS else load_packaged(name)


def test_files_and_recipes_are_the_same_set() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(RECIPES) == {*PLACEMENTS, *STAGINGS}


@pytest.mark.parametrize("name", RECIPES)
def test_a_packaged_file_is_what_its_recipe_makes(name: str) -> None:
    assert load_any(name) == RECIPES[name].build()


def test_something_is_known_of_every_instance_and_variant() -> None:
    rows = [(known.instance, known.variant) for known in read_best_known()]
    placements, stagings = itertools.product(PLACEMENTS, VARIANTS), itertools.product(STAGINGS, STAGING_VARIANTS)
    leveled = [
        (name, variant) for name, variant in stagings if variant in staging_variants(load_packaged_staging(name))
    ]
    assert sorted(rows) == sorted([*placements, *leveled])


def test_all_but_leveled_stagings_have_both_variants() -> None:
    fewer = [name for name in STAGINGS if staging_variants(load_packaged_staging(name)) != STAGING_VARIANTS]
    assert fewer == ["tiny-levels"]


@pytest.mark.parametrize("known", read_best_known(), ids=lambda known: f"{known.instance}-{known.variant}")
def test_best_known_values_make_sense(known: BestKnown) -> None:
    assert known.hash == load_any(known.instance).hash, "the instance has changed: run benchmarks/best_known.py"
    assert known == best_known(known.instance, known.variant)
    assert 0 < known.bound <= known.value
    assert known.proven == (known.value - known.bound <= 1e-6 * known.value)
    date.fromisoformat(known.date)


@pytest.mark.parametrize("name", PLACEMENTS)
def test_contiguous_plans_are_plans(name: str) -> None:
    """So the free problem's value is at most the chain's, and its bound holds for the chain too."""
    chain, free = best_known(name, "contiguous"), best_known(name, "non-contiguous")
    assert chain is not None
    assert free is not None
    assert free.value <= chain.value
    assert free.bound <= chain.value


def test_tiny_chain_is_known_by_hand() -> None:
    """{a, b} {c, d} {e, f}: the middle stage works 5 and receives and sends 0.5 each."""
    known = best_known("tiny-chain")
    assert known is not None
    assert (known.value, known.proven) == (6.0, True)


def test_nothing_is_known_of_other_problems() -> None:
    assert best_known("nothing") is None


@pytest.mark.parametrize("name", RECIPES)
def test_files_are_small_and_explained(name: str) -> None:
    assert (FOLDER / f"{name}.json").stat().st_size < 300_000
    assert f"`{name}`" in (FOLDER / "README.md").read_text("utf-8")


def test_all_files_can_be_made_anew(tmp_path: Path) -> None:
    write_packaged(tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in FOLDER.glob("*.json")}


def test_the_list_shows_size_source_and_values() -> None:
    row = next(row for row in packaged_info() if row["name"] == "tiny-chain")
    assert (row["nodes"], row["accelerators"], row["contiguous"]) == (6, 3, 6.0)
    assert row["source"]


def test_the_list_of_stagings_shows_what_limits_them() -> None:
    row = next(row for row in packaged_staging_info() if row["name"] == "tiny-stages")
    assert (row["layers"], row["devices"], row["memory_bytes"], row["tensor_degrees"]) == (4, 4, 35.0, [1, 2])
    assert (row["paper"], row["source"]) == (6.0, "four layers by hand, for teaching")


def test_a_name_belongs_to_one_kind() -> None:
    with pytest.raises(UsageError, match="tiny-chain"):
        load_packaged("tiny-stages")
    with pytest.raises(UsageError, match="tiny-stages"):
        load_packaged_staging("tiny-chain")


def test_tiny_stages_are_known_by_hand() -> None:
    """The plan of the recipe's comment: the second stage computes 5 and exchanges two tensors both ways."""
    problem = load_packaged_staging("tiny-stages")
    ways = dict(zip("abcd", ["activation recomp"] * 2 + ["vanilla"] * 2, strict=True))
    plan = StagedPlan(tuple(PlannedStage((v,), 1, 1, {v: way}) for v, way in ways.items()))
    assert not verify_stages(problem, plan)
    loads = [cost.load for cost in evaluate_stages(problem, plan).stages]
    known = best_known("tiny-stages", "paper")
    assert known is not None
    assert (loads, known.value, known.proven) == ([5.5, 6.0, 5.0, 4.5], 6.0, True)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="tiny-chain"):
        load_packaged("nothing")
