"""Models of transformers: skips from an encoder to a decoder, towers side by side, tied weights, labels in place."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import run_cases as cases
from run_cases import in_shares, placed, profile_of

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch-runs")]
MODELS = Path(cases.__file__).with_name("small_transformers.py")


def agree(function: str, engine: str = "own") -> None:
    """Two stages, four by turns, and for branches one stage for each side: all with the gradients of one process."""
    profile = profile_of(function, MODELS)
    count = len(profile.nodes)
    quarter = count // 4
    plans = {
        "two": in_shares(profile, count // 2, count - count // 2),
        "four": in_shares(profile, quarter, quarter, quarter, count - 3 * quarter),
    }
    if function == "clip" and engine == "own":
        sides = [0 if "text" in node.id else 1 if "vis" in node.id else 0 for node in profile.nodes]
        assert len(set(sides)) == 2
        plans["towers"] = placed(profile, sides)
    found = cases.run_cases(function, profile, plans, file=MODELS, engine=engine, micro_batches=3)
    for name, case in found.items():
        assert case.check is not None
        assert case.check.agrees, f"{name}: {case.check}"


@pytest.mark.parametrize("function", ["gpt2", "t5", "whisper", "clip"])
def test_our_engine_finds_the_gradients_of_one_process(function: str) -> None:
    agree(function)


@pytest.mark.parametrize("function", ["t5", "whisper"])
def test_torchs_pipelines_find_them_with_relays(function: str) -> None:
    agree(function, "torch")
