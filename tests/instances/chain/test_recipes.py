"""Packaged chains: the table of best known values holds what is proved of them."""

from __future__ import annotations

import pytest
from recipes.chain import known_chains

from pipeplan.instances.catalogue import best_known, packaged_info, packaged_names
from pipeplan.instances.chain.generators import KnownChain


@pytest.mark.parametrize("known", known_chains(), ids=lambda known: known.name)
def test_the_table_holds_what_is_known_by_proof(known: KnownChain) -> None:
    assert known.answers
    for variant, value in known.answers.items():
        row = best_known(known.name, variant)
        assert row is not None
        assert (row.value, row.bound, row.proven) == (value, value, True)
        assert (row.source, row.hash, row.objective) == (known.source, known.problem.hash, "period")


@pytest.mark.parametrize("name", packaged_names("chain"))
def test_something_is_known_of_every_chain(name: str) -> None:
    general, contiguous = best_known(name, "general"), best_known(name, "contiguous")
    assert general is not None
    assert general.value is not None
    if contiguous is not None and contiguous.value is not None:
        assert general.value <= contiguous.value


def test_the_list_of_chains_says_what_they_are() -> None:
    rows = {row["name"]: row for row in packaged_info("chain")}
    assert rows["three-chain"]["general"] == 2
    assert rows["three-chain"]["contiguous"] == 3
    assert rows["lemma-2"]["contiguous"] is None
    assert rows["resnet18-training-chain"]["layers"] == 10
