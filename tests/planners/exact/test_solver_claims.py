"""What solvers claim of their plans: what rounding explains is no contradiction, and what it does not is told.

Models round costs down, float solvers keep rows only nearly, and rows of many digits are rounded to whole numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from oracles.truths import METHODS, SOLVERS, Method
from problems.nasty import KINDS, nasty

import pipeplan
from pipeplan import Node, PlacementProblem, Stop, load_packaged
from pipeplan.formulations.tarnawski.formulation import TarnawskiThroughput

MODELS = [method for kind in KINDS for method in METHODS[kind] if method.formulation is not None]
SEEDS = (1, 7000, 7001, 7005)
"""Of problems whose numbers lie far apart: each of them had claims that looked like contradictions."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_rounding_explains_is_no_contradiction(kind: str) -> None:
    for method in [method for method in MODELS if method.kind == kind][::3]:
        check_claims(method, SEEDS[:2])


@pytest.mark.sweeps
@pytest.mark.parametrize("method", MODELS, ids=lambda method: f"{method.kind}: {method.name}")
def test_what_rounding_explains_is_no_contradiction_in_many(method: Method) -> None:
    check_claims(method, SEEDS)


def check_claims(method: Method, seeds: tuple[int, ...]) -> None:
    """The claim is no message, and no less than the run's own bound."""
    for seed in seeds:
        try:
            result = method.solve(nasty(method.kind, seed), 20.0, "none")
        except pipeplan.PipeplanError:
            continue  # not for this method
        assert not [text for text in result.messages if "claimed" in text], (method.name, seed)
        if result.claimed is not None and result.bound is not None:
            assert result.claimed >= result.bound, (method.name, seed)


ROW = PlacementProblem(
    tuple(Node(i, accelerator_time=1.0, cpu_time=1.0, transfer_time=1.0 if i < 2 else 0.0) for i in range(3)),
    ((0, 1), (1, 2)),
    accelerators=3,
    cpus=0,
    memory_bytes=None,
)


@pytest.mark.parametrize("variant", ["strong", "plain"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_model_that_counts_too_little_is_told(monkeypatch: pytest.MonkeyPatch, solver: str, variant: str) -> None:
    """One that forgets transfers: every part on its own device costs 1, says the model, and 3 with them."""
    true_model = TarnawskiThroughput.model

    def forgetful(self: Any, problem: PlacementProblem, options: Any, wanted: Any) -> Any:
        nodes = tuple(replace(node, transfer_time=0.0) for node in problem.nodes)
        return true_model(self, problem.replace(nodes=nodes), options, wanted)

    monkeypatch.setattr(TarnawskiThroughput, "model", forgetful)
    options = {"variant": variant, "non_contiguous": False}
    result = pipeplan.solve(ROW, formulation="ip-tarnawski", solver=solver, options=options, warm_start="none")
    assert result.objective == 3.0
    told = [text for text in result.messages if "the method claimed" in text]
    assert told, result.messages


def test_times_too_fine_for_a_solver_explain_its_claim() -> None:
    """Rounded down to steps, the runs of a schedule seem to take less than they do."""
    problem = load_packaged("zero-bubble-4x12")
    blocks = tuple(
        replace(block, time=block.time * (1 + (n + 1) * 7.3e-13)) for n, block in enumerate(problem.blocks)
    )
    result = pipeplan.solve(problem.replace(blocks=blocks, micro_batches=3), formulation="cp-schedule")
    assert (result.stop, result.claimed) == (Stop.PROVEN, result.objective)
