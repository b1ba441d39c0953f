"""Models of transformers: skips from an encoder to a decoder, towers side by side, tied weights, labels in place."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import run_cases as cases
from run_cases import in_shares, placed, profile_of

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch-runs")]
MODELS = Path(cases.__file__).with_name("problems") / "small_transformers.py"


@pytest.mark.slow("t5", "whisper")
@pytest.mark.parametrize("function", ["gpt2", "t5", "whisper", "clip"])
def test_the_gradients_are_those_of_one_process(function: str) -> None:
    """Two stages, four by turns, and of the towers one on each rank; with relays in torch's pipelines."""
    profile = profile_of(function, MODELS)
    count = len(profile.nodes)
    quarter = count // 4
    plans = {
        "two": in_shares(profile, count // 2, count - count // 2),
        "four": in_shares(profile, quarter, quarter, quarter, count - 3 * quarter),
    }
    engines = ["own", "torch"]
    if function == "clip":
        sides = [1 if "vis" in node.id else 0 for node in profile.nodes]
        assert len(set(sides)) == 2
        plans["towers"] = placed(profile, sides)
        engines = ["own"]
    found = cases.run_cases(function, profile, plans, file=MODELS, engines=engines, micro_batches=3)
    assert len(found) == len(plans) * len(engines)
    for name, case in found.items():
        assert case.check is not None
        assert case.check.agrees, f"{name}: {case.check}"
