"""For which stagings the proofs hold: all that the referee accepts by the chosen rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...instances.staging.problem import StagingProblem
from ..family import Family

_SYNCHRONISED = {"paper": "as published", "reference": "once per batch"}
_MEMORY = {
    "precise": "memory counted on all levels",
    "crude": "memory counted crudely",
    "basic": "memory not counted",
}


def family(problem: StagingProblem, options: Mapping[str, Any]) -> Family:
    if problem.levels:
        return Family(f"stages within stages that are differences of downsets, {_MEMORY[options['hierarchy']]}")
    semantics = options["semantics"]
    return Family(f"stages that are differences of downsets, weights synchronised {_SYNCHRONISED[semantics]}")
