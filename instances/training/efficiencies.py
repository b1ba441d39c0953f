"""How well hardware is used: named numbers with units, defaults and the source of each default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..base.checks import check_amount
from ..base.errors import InputError, named


@dataclass(frozen=True, slots=True)
class About:
    """What a number means, and where its default comes from."""

    unit: str
    words: str
    source: str
    most: float | None = 1.0
    """The physical bound; None: there is none."""
    least: float = 0.0


def _number(
    default: float, unit: str, words: str, source: str, most: float | None = 1.0, least: float = 0.0
) -> Any:
    return field(default=default, metadata={"about": About(unit, words, source, most, least)})


_USUAL = "usual of published kernels; fitted to nothing"
_SHARE = "share"


@dataclass(frozen=True, slots=True)
class Efficiencies:
    """All of them are in a problem's file, and `--efficiency NAME=VALUE` changes one."""

    products: float = _number(
        0.8, _SHARE, "of the peak, which a large product of matrices reaches", _USUAL, least=0.01
    )
    half_side: float = _number(
        200, "elements", "a side of a product with so many elements reaches half of that", _USUAL, None
    )
    grouped_products: float = _number(
        0.6, _SHARE, "of the peak, which large products of experts reach", _USUAL, least=0.01
    )
    products_fp8: float = _number(
        0.65, _SHARE, "of the peak in fp8, which a large product of matrices reaches", _USUAL, least=0.01
    )
    attention: float = _number(0.6, _SHARE, "of the peak, which attention reaches", _USUAL, least=0.01)
    memory: float = _number(
        0.8, _SHARE, "of the memory's rate, which norms and activations reach", _USUAL, least=0.01
    )
    launch_seconds: float = _number(4e-6, "s", "for one kernel, whatever it computes", _USUAL, None)
    links: float = _number(0.8, _SHARE, "of a link's bandwidth, which collectives reach", _USUAL, least=0.01)
    tensor_hidden: float = _number(0, _SHARE, "of tensor-parallel communication behind computation", _USUAL)
    context_hidden: float = _number(0.5, _SHARE, "of context-parallel communication behind computation", _USUAL)
    expert_hidden: float = _number(0, _SHARE, "of expert-parallel communication behind computation", _USUAL)
    data_hidden: float = _number(0.8, _SHARE, "of data-parallel communication behind backward passes", _USUAL)
    pipeline_hidden: float = _number(0, _SHARE, "of what stages send each other behind computation", _USUAL)
    step_seconds: float = _number(
        0.0, "s", "of an iteration beside passes, sums of gradients and the update", _USUAL, None
    )
    expert_imbalance: float = _number(
        1, "factor", "tokens of the fullest expert rank over those of an average one", "balanced routing", None, 1
    )

    def __post_init__(self) -> None:
        for name, about in ABOUT.items():
            value = getattr(self, name)
            check_amount(f"efficiencies.{name}", value)
            if value < about.least or (about.most is not None and value > about.most):
                most = "" if about.most is None else f" to {about.most:g}"
                raise InputError(
                    f"efficiencies.{name}", f"is {value:g}", f"give {about.least:g}{most or ' or more'}"
                )


ABOUT: Mapping[str, About] = {entry.name: entry.metadata["about"] for entry in fields(Efficiencies)}
"""Of each efficiency, by its name."""


def check_name(name: str) -> str:
    """The name, where there is an efficiency of that name."""
    named(name, ABOUT, "efficiency")
    return name
