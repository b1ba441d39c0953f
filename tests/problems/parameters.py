"""How many parameters a model has, and how many of them a token meets, to compare with published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pipeplan.instances.training.model import Model, UnitType
from pipeplan.instances.training.unit_costs import Keys, count_of, unit_parameters


@dataclass(frozen=True)
class Counts:
    """Parameters of a model; one table of words that serves the embedding and the head is counted once."""

    units: Mapping[UnitType, int]
    """Parameters of one unit of each type."""
    embedding: int
    prediction: int
    """Parameters of all layers for multi-token prediction, which published numbers leave out."""
    total: int
    """All parameters but those of multi-token prediction."""
    active: int
    """Those of them that one token meets; the table of words and the head count whole."""


def parameters_of(model: Model) -> Counts:
    """Parameters of a model, counted by its shapes."""
    units = {unit: count_of(model, unit) for unit in model.counted}
    totals = {unit: units[unit] * count for unit, count in model.counted.items()}
    prediction = totals.pop("prediction", 0)
    active = sum(_met(model, unit) * model.counted[unit] for unit in totals)
    return Counts(units, totals["embedding"], prediction, sum(totals.values()), active)


def _met(model: Model, unit: UnitType) -> int:
    """Parameters of one unit that a token meets: of the experts only as many as it is sent to."""
    own = unit_parameters(model, Keys.of([(1, 1, 1, 1, 1)]), unit)
    share = model.experts.per_token / model.experts.count if model.experts is not None else 0.0
    return round(float(np.sum(own.usual)) + float(np.sum(own.experts)) * share)
