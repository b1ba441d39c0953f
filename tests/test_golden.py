"""Answers stay what they are, whatever is moved: stored results of every kind and every family of methods."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden.cases import HERE, NOT_COMPARED, OTHERS, SOLVE, answer, hashes, masked, stored, words


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every leaf by its path, so that a difference is told by its name."""
    if isinstance(value, dict):
        return {key: leaf for name, entry in value.items() for key, leaf in flat(entry, f"{path}.{name}").items()}
    if isinstance(value, list):
        return {key: leaf for i, entry in enumerate(value) for key, leaf in flat(entry, f"{path}[{i}]").items()}
    return {path: value}


def same(name: str, now: Any, then: Any) -> bool:
    """Equal in every leaf; how far proofs and claims are within their tolerance depends on the machine, and what an
    iteration takes depends on which of the plans of equal value was found."""
    now, then = (flat(masked(told, "plan", "iteration")) for told in (now, then))
    for path in NOT_COMPARED.get(name, "").split():
        now.pop(path, None)
        then.pop(path, None)
    if any(".claimed" in told and told[".claimed"] != told.get(".objective") for told in (now, then)):
        then[".claimed"] = now[".claimed"]  # a plan is better than its solver said: by how much is chance
    for path in now.keys() & then.keys():
        if path.endswith((".bound", ".gap", ".claimed")) and None not in (now[path], then[path]):
            assert now[path] == pytest.approx(then[path], rel=1e-5, abs=1e-5), path
            now[path] = then[path]
    assert now == then
    return True


LONG = """chain-ilp-allocation graph-pipeline-it* graph-pipeline-mixed *-spp-* latency-[cgps]* latency-lns
placement-dp-start placement-strong-highs schedule-zb-greedy staging-default staging-*-reference staging-uniform"""
LONGEST = "*-eager graph-pipeline-default *-parallel *-shortest schedule-list *-flush *-given *-experts"
"""Those that take a second or more."""


@pytest.mark.sweeps(*LONG.split())
@pytest.mark.slow(*LONGEST.split())
@pytest.mark.parametrize("name", SOLVE)
def test_a_result_is_what_it_was(name: str) -> None:
    """Plans of equal value are equally good: the referee's value is compared, not the plan."""
    now, then = answer(words(name)), stored(name)
    assert (now["plan"] and now["plan"]["kind"]) == (then["plan"] and then["plan"]["kind"])
    assert same(name, now, then)


@pytest.mark.sweeps("pareto-chain")
@pytest.mark.parametrize("name", OTHERS)
def test_another_command_answers_what_it_did(name: str) -> None:
    assert same(name, answer(words(name)), stored(name))


def test_packaged_problems_are_what_they_were() -> None:
    assert hashes() == json.loads((HERE / "hashes.json").read_text())


def test_every_method_has_a_golden_result() -> None:
    from pipeplan.planners.registry import all_methods

    used = {stored(name)[key] for name in SOLVE for key in ("formulation", "planner")}
    assert {entry.name for entry in all_methods()} <= used
