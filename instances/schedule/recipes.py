"""What the packaged schedule problems are made of, and what their list shows."""

from __future__ import annotations

from functools import partial

from ..base.packaged import Packaged, Recipe
from .pipelines import divided_pipeline, equal_stages, measured_even, measured_uneven
from .problem import ScheduleProblem
from .shapes import shape

_MEASURED = "eight stages of a transformer as the authors of Zero Bubble measured them, 32 micro-batches"


def _small() -> ScheduleProblem:
    return divided_pipeline(equal_stages(4, 5, 6, 4), 12, 16, name="zero-bubble-4x12")


def _lagging() -> ScheduleProblem:
    return divided_pipeline(equal_stages(4, 5478, 5806, 3534), 12, 32, 200)


def _wide() -> ScheduleProblem:
    return divided_pipeline(equal_stages(32, 1, 1, 1), 16, 64)


RECIPES = (
    Recipe("zero-bubble-4x12", "four equal stages with times 5, 6 and 4, by hand", _small),
    Recipe(
        "zero-bubble-4x12-lag",
        "four equal stages with times 5478, 5806 and 3534 and a lag of 200, by hand",
        _lagging,
    ),
    Recipe("zero-bubble-32x16", "more stages than micro-batches, every pass of one time unit, by hand", _wide),
    Recipe("measured-even-8x32", f"{_MEASURED}; equal stages", measured_even),
    Recipe("measured-uneven-8x32", f"{_MEASURED}; with embedding and head", measured_uneven),
    Recipe("v-shape-4", "a chain of stages on 4 devices, the steady state", partial(shape, "v")),
    Recipe("nn-shape-4", "two chains between blocks over all of 4 devices", partial(shape, "nn")),
)


def _senseless(problem: ScheduleProblem) -> tuple[str, ...]:
    """The value that is not shown: a problem has either its micro-batches' span or its steady state's period."""
    return ("span",) if problem.micro_batches is None else ("period",)


PACKAGED = Packaged(
    recipes=tuple(recipe.named() for recipe in RECIPES),
    columns={"blocks": "{blocks}", "devices": "{devices}"},
    variants={"span": "span", "period": "period"},
    senseless=_senseless,
    note="schedules: best known span of all micro-batches, and period of the steady state",
)
