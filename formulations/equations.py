"""Rows that carry the number of their equation in the paper, in exported models, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Equations = Mapping[str, str]
"""From the name of a block of rows to the number of its equation, as the paper prints it."""


def number_rows(model: Any, equations: Equations) -> None:
    """Call them `eq_16_inside[...]` in the place of `inside[...]`."""
    for name, number in equations.items():
        block = model.component(name)
        model.del_component(block)
        model.add_component(f"eq_{number}_{name}", block)
