"""Which degrees and configurations a planner may choose from, and the model that they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...instances.base.checks import check_whole
from ...instances.base.errors import InputError
from ...instances.staging.problem import Configuration, StagingProblem
from ..placement.dp.lattice import MOST_IDEALS, TooManyIdealsError
from .model import PiperModel, build
from .options import MAX_DOWNSETS

RECOMPUTATION = "recomp"
"""What the ids of configurations that compute activations again have in them."""


def recomputes(way: Configuration) -> bool:
    """Does the configuration compute activations again in the backward pass?"""
    return RECOMPUTATION in way.id


@dataclass(frozen=True)
class Restriction:
    """Which choices a planner has."""

    allowed: Callable[[int, Configuration], bool] = lambda degree, way: True
    replicas: Callable[[int], bool] = lambda d: True


def model_of(problem: StagingProblem, options: Any, restriction: Restriction = Restriction()) -> PiperModel:
    """The model, or an `InputError` where there are too many downsets."""
    most = options.get("max_downsets", MAX_DOWNSETS.default)
    check_whole("option max_downsets", most, MOST_IDEALS)
    try:
        return build(problem, options.get("semantics", "paper"), restriction.allowed, restriction.replicas, most)
    except TooManyIdealsError:
        raise InputError(
            "layers", f"have more than {most} downsets", "merge parallel layers, or give --max-downsets for more"
        ) from None
