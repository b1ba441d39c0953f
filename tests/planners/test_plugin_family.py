"""A formulation of somebody else is judged by its own family, and its mistakes are called its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Plan = Callable[..., Any]

FORGETFUL = """
from pipeplan.formulations.family import Family, Outside
from pipeplan.formulations.registry import FORMULATIONS, Entry

ours = FORMULATIONS["ip-tarnawski"]


def family(problem, options):
    def outside(plan):
        SPOILT
        most = max(len(device["nodes"]) for device in plan.to_json()["devices"])
        return Outside("an accelerator with more than one node") if most > 1 else None

    return Family("placements with at most one node an accelerator", outside=outside)


ENTRY = Entry("few-nodes", "Few nodes", "placement", ours.address, ours.options, scope="forgetful:family")
"""


@pytest.fixture
def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(spoilt: str) -> None:
        (tmp_path / "forgetful.py").write_text(FORGETFUL.replace("SPOILT", spoilt), encoding="utf-8")

    yield write
    sys.modules.pop("forgetful", None)


@pytest.mark.parametrize("more", [(), ("--warm-start", "none"), ("--cross-check",)], ids=str)
def test_a_plan_outside_of_its_own_family_is_no_answer(
    plan: Plan, forgetful: Callable[[str], None], more: tuple[str, ...]
) -> None:
    """The model is not held to the family that the method names, and there is no member for so many nodes."""
    forgetful("pass")
    done = plan("solve", "tiny-chain", "--formulation", "forgetful:ENTRY", *more, "--json")
    assert (done.code, done.json["found"], done.json["bound"]) == (3, "rejected", None)
    assert "an accelerator with more than one node, which is outside what" in done.json["violations"][0]


@pytest.mark.parametrize("more", [(), ("--warm-start", "none"), ("--cross-check",)], ids=str)
def test_a_mistake_in_outside_is_the_plug_ins(
    plan: Plan, forgetful: Callable[[str], None], more: tuple[str, ...]
) -> None:
    forgetful("plan.missing")
    done = plan("solve", "tiny-chain", "--formulation", "forgetful:ENTRY", *more)
    assert (done.code, "internal error" in done.err) == (2, False)
    assert "forgetful.py, line" in " ".join(done.err.split())


def test_a_dynamic_program_starts_a_plug_in_too(plan: Plan, forgetful: Callable[[str], None]) -> None:
    forgetful("return None")
    done = plan("solve", "tiny-chain", "--formulation", "forgetful:ENTRY", "--warm-start", "dp", "--json")
    assert (done.code, done.json["warm_start"]["source"]) == (0, "dp")
