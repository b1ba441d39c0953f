"""Configurations that were trained, with their sources: they fit by the model, or the table says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from trained import Trained, page, trained

pytestmark = pytest.mark.sweeps


@pytest.fixture(scope="module")
def rows() -> list[Trained]:
    return list(trained())


def test_what_was_trained_fits_and_what_is_far_off_says_why(rows: list[Trained]) -> None:
    assert len(rows) >= 25
    assert all("arXiv" in row.run["source"] for row in rows)
    assert [row.run["model"] for row in rows if row.judged.fits == "no"] == ["llama-3-405b", "deepseek-v3"]
    for row in rows:
        assert not row.is_far or "why" in row.run, row.run


def test_the_page_is_what_the_program_makes(rows: list[Trained]) -> None:
    stored = Path(__file__).parents[3] / "benchmarks" / "results" / "trained.md"
    assert stored.read_text("utf-8") == page(rows)
