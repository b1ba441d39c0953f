"""Packaged placements: what is known of them by hand and by logic, and what their list shows."""

from __future__ import annotations

import pytest

from pipeplan.instances.catalogue import best_known, packaged_info, packaged_names


@pytest.mark.parametrize("name", packaged_names("placement"))
def test_contiguous_plans_are_plans(name: str) -> None:
    """So the free problem's value is at most the chain's, and its bound holds for the chain too."""
    chain, free = best_known(name, "contiguous"), best_known(name, "non-contiguous")
    assert chain is not None
    assert free is not None
    assert free.value <= chain.value
    assert free.bound <= chain.value


def test_tiny_chain_is_known_by_hand() -> None:
    """{a, b} {c, d} {e, f}: the middle stage works 5 and receives and sends 0.5 each."""
    known = best_known("tiny-chain", "contiguous")
    assert known is not None
    assert (known.value, known.proven) == (6.0, True)


def test_the_list_shows_size_source_and_values() -> None:
    row = next(row for row in packaged_info("placement") if row["name"] == "tiny-chain")
    assert (row["nodes"], row["accelerators"], row["contiguous"]) == (6, 3, 6.0)
    assert row["source"]
