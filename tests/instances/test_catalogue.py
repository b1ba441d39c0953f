"""Packaged instances of every kind, and what is known of them, are consistent; recipes make them anew."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from known_chains import VARIANTS as CHAIN_VARIANTS
from packaged_instances import variants_of

from pipeplan.instances import catalogue
from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.catalogue import (
    BestKnown,
    best_known,
    load_packaged,
    packaged_info,
    packaged_kinds,
    packaged_names,
    read_best_known,
    read_facts,
)
from pipeplan.instances.registry import KINDS

FOLDER = Path(catalogue.__file__).parent / "packaged"


def test_every_kind_has_packaged_instances() -> None:
    assert set(packaged_kinds()) == set(KINDS)
    assert all(packaged_names(kind) for kind in packaged_kinds())


def test_a_name_belongs_to_one_kind() -> None:
    names = [name for kind in packaged_kinds() for name in packaged_names(kind)]
    assert sorted(names) == list(packaged_names())
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", packaged_names())
def test_files_are_small_and_explained(name: str) -> None:
    assert (FOLDER / f"{name}.json").stat().st_size < 300_000
    assert f"`{name}`" in (FOLDER / "README.md").read_text("utf-8")


# ---- best known values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", packaged_names())
def test_something_is_known_of_every_instance_and_variant(name: str) -> None:
    rows = [known.variant for known in read_best_known() if known.instance == name]
    assert len(rows) == len(set(rows))
    problem = load_packaged(name)
    if problem.kind == "chain":
        assert {"general"} <= set(rows) <= set(CHAIN_VARIANTS)
    else:
        assert tuple(rows) == variants_of(problem)


def test_the_table_is_about_packaged_instances_in_their_order() -> None:
    rows = [known.instance for known in read_best_known()]
    assert list(dict.fromkeys(rows)) == list(packaged_names())
    assert rows == sorted(rows)


@pytest.mark.parametrize("known", read_best_known(), ids=lambda known: f"{known.instance}-{known.variant}")
def test_best_known_values_make_sense(known: BestKnown) -> None:
    assert known.hash == load_packaged(known.instance).hash, (
        "the instance has changed: run benchmarks/best_known.py"
    )
    assert known == best_known(known.instance, known.variant)
    assert known.source
    assert known.objective
    if known.date:
        date.fromisoformat(known.date)
    if known.value is None or known.bound is None:
        assert known.value is known.bound is None
        assert known.proven
    else:
        assert 0 < known.bound <= known.value
        assert known.proven == (known.value - known.bound <= 1e-6 * known.value)


def test_nothing_is_known_of_other_problems() -> None:
    assert best_known("nothing", "contiguous") is None
    assert best_known("tiny-chain", "paper") is None


# ---- lists ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", packaged_kinds())
def test_the_list_says_what_they_are(kind: str) -> None:
    rows, listing = packaged_info(kind), packaged_kinds()[kind]
    assert tuple(row["name"] for row in rows) == packaged_names(kind)
    for row in rows:
        assert row["kind"] == kind
        assert row["source"] == read_facts()[row["name"]]["source"]
        assert all(text.format_map(row) for text in listing.columns.values())
        for variant in listing.variants:
            known = best_known(row["name"], variant)
            assert row[variant.replace("-", "_")] == (known.value if known else None)


@pytest.mark.parametrize("name", ["nothing", "figure-6", "../packaged/tiny-chain", "best_known"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match=r"case-study.*figure-4, figure-5.*tiny-chain.*tiny-stages"):
        load_packaged(name)


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="placement, chain, staging, graph-pipeline"):
        packaged_names("flow")


# ---- Packaged placements: what is known of them by hand and by logic, and what their list shows.


@pytest.mark.parametrize("name", packaged_names("placement"))
def test_contiguous_plans_are_plans(name: str) -> None:
    """So the free problem's value is at most the chain's, and its bound holds for the chain too."""
    chain, free = best_known(name, "contiguous"), best_known(name, "non-contiguous")
    assert chain is not None
    assert free is not None
    assert free.value <= chain.value
    assert free.bound <= chain.value
