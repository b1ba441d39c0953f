"""For which placements the bounds of planners hold; `planners/registry.py` names these functions by address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...formulations.family import PLACEMENTS, Family
from ...instances.placement.problem import PlacementProblem
from ..referee import rules_of


def placements(problem: PlacementProblem, options: Mapping[str, Any]) -> Family:
    """The family of brute force, which tries the plans that the rules allow."""
    contiguity = str(rules_of(problem, options).to_options()["contiguity"])
    return Family(PLACEMENTS[contiguity], None if contiguity == "none" else "--non-contiguous")


def all_placements(problem: PlacementProblem, options: Mapping[str, Any]) -> Family:
    """The family of heuristics, whose bounds are those of the work alone."""
    return Family(PLACEMENTS["none"])


def chains_of_stages(problem: PlacementProblem, options: Mapping[str, Any]) -> Family:
    """The family of the dynamic program over ideals."""
    levels = " on each level" if len(problem.levels) > 1 else ""
    wider = None if problem.extensions else "--formulation ip-tarnawski --non-contiguous"
    return Family(PLACEMENTS["chain"] + levels, wider)
