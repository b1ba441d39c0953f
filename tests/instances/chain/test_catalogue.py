"""Packaged chains equal their recipes, and what is known of them is consistent."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeplan.instances.chain import catalogue
from pipeplan.instances.chain.catalogue import (
    BestPeriod,
    best_period,
    chain_recipes,
    load_packaged_chain,
    packaged_chain_names,
    packaged_chains_info,
    read_best_periods,
    rows_known_by_proof,
    write_packaged_chains,
)
from pipeplan.instances.chain.known import VARIANTS
from pipeplan.instances.errors import UsageError

RECIPES = {recipe.name: recipe for recipe in chain_recipes()}
FOLDER = Path(catalogue.__file__).parent.parent / "packaged" / "chains"


def test_files_and_recipes_are_the_same_set() -> None:
    assert set(packaged_chain_names()) == set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_packaged_file_is_what_its_recipe_makes(name: str) -> None:
    assert load_packaged_chain(name) == RECIPES[name].build()
    assert f"`{name}`" in (FOLDER / "README.md").read_text("utf-8")


def test_all_files_can_be_made_anew(tmp_path: Path) -> None:
    write_packaged_chains(tmp_path)
    for name in RECIPES:
        assert (tmp_path / f"{name}.json").read_bytes() == (FOLDER / f"{name}.json").read_bytes()


@pytest.mark.parametrize("known", read_best_periods(), ids=lambda known: f"{known.instance}-{known.variant}")
def test_best_known_periods_make_sense(known: BestPeriod) -> None:
    assert known.hash == load_packaged_chain(known.instance).hash
    assert known.variant in VARIANTS
    assert known == best_period(known.instance, known.variant)
    assert known.source
    if known.value is None or known.bound is None:
        assert known.value is known.bound is None
        assert known.proven
    else:
        assert 0 < known.bound <= known.value
        assert known.proven == (known.value - known.bound <= 1e-6 * known.value)


def test_the_table_holds_what_is_known_by_proof() -> None:
    table = {(row.instance, row.variant): row for row in read_best_periods()}
    for row in rows_known_by_proof():
        assert table[row.instance, row.variant] == row


def test_something_is_known_of_every_chain() -> None:
    for name in RECIPES:
        general, contiguous = best_period(name), best_period(name, "contiguous")
        assert general is not None
        assert general.value is not None
        if contiguous is not None and contiguous.value is not None:
            assert general.value <= contiguous.value


def test_the_list_of_chains_says_what_they_are() -> None:
    rows = {row["name"]: row for row in packaged_chains_info()}
    assert set(rows) == set(RECIPES)
    assert rows["three-chain"]["general"] == 2
    assert rows["three-chain"]["contiguous"] == 3
    assert rows["resnet18-training-chain"]["layers"] == 10


def test_an_unknown_chain_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="figure-4, figure-5"):
        load_packaged_chain("figure-6")
