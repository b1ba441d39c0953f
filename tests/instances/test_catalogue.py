"""Packaged instances equal their recipes, and what is known of them is consistent."""

from __future__ import annotations

import pytest

from pipeplan.instances.catalogue import (
    best_known,
    load_packaged,
    packaged_info,
    packaged_names,
    read_best_known,
    recipes,
)
from pipeplan.instances.errors import UsageError

RECIPES = {recipe.name: recipe for recipe in recipes()}


def test_files_and_recipes_are_the_same_set() -> None:
    assert set(packaged_names()) == set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_packaged_file_is_what_its_recipe_makes(name: str) -> None:
    assert load_packaged(name) == RECIPES[name].build()


@pytest.mark.parametrize("known", read_best_known(), ids=lambda known: f"{known.instance}-{known.variant}")
def test_best_known_values_make_sense(known) -> None:  # type: ignore[no-untyped-def]
    assert known.instance in RECIPES
    assert 0 < known.bound <= known.value
    assert known.proven == (known.value - known.bound <= 1e-6 * known.value)
    free = best_known(known.instance, "non-contiguous")
    chain = best_known(known.instance, "contiguous")
    assert free is not None
    assert chain is not None
    assert free.value <= chain.value * (1 + 1e-9)
    assert free.bound <= chain.value * (1 + 1e-9)


def test_the_list_shows_size_source_and_values() -> None:
    row = next(row for row in packaged_info() if row["name"] == "tiny-chain")
    assert (row["nodes"], row["accelerators"], row["contiguous"]) == (6, 3, 6.0)
    assert row["source"]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="tiny-chain"):
        load_packaged("nothing")
