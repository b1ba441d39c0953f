"""By which rules plans are judged: light enough for the door of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FLUSH = "flush"
"""The objective of stagings that counts how the pipeline fills and drains once per batch."""

LATENCY = "latency"
"""The objective by which a placement is judged for one sample at a time, in pieces, without stages."""


CONTIGUITIES = ("none", "device", "chain")


@dataclass(frozen=True, slots=True)
class Rules:
    """By which rules the referee judges: those that the options ask for. Chains have one set of rules.

    The options of a result say by which contiguity its plan was judged, which a formulation decides, not an option.
    """

    objective: str = "max-load"
    """Of graph pipelines: "iteration", or else the time per sample."""
    contiguity: str = "chain"
    semantics: str = "paper"
    """Of staging problems: when weights are synchronised."""
    allocation: tuple[int, ...] | None = None
    """Of chains: which layers share a GPU, where the user has given that."""
    hierarchy: str = "precise"
    """Of staging problems with levels: how memory counts."""
    subgraphs_per_device: int | None = None
    """Of placements judged for latency: pieces that an accelerator may hold; None: any number."""

    @property
    def latency(self) -> bool:
        """Is a placement judged by the latency of one sample?"""
        return self.objective == LATENCY

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Rules:
        """From a method's options, or from those that a result names."""
        contiguity = "device" if options.get("device_contiguity") else "chain"
        contiguity = "none" if options.get("non_contiguous") else contiguity
        stored = options.get("contiguity")
        return cls(
            objective=options.get("objective", "max-load"),
            contiguity=stored if stored in CONTIGUITIES else contiguity,
            semantics=options.get("semantics", "paper"),
            allocation=stored_allocation(options.get("allocation")),
            hierarchy=options.get("hierarchy", "precise"),
            subgraphs_per_device=options.get("subgraphs_per_device"),
        )


def stored_allocation(value: Any) -> tuple[int, ...] | None:
    """The allocation that a result was made for; None where it says none, or only the name of a file."""
    from ...formulations.beaumont.given_allocation import is_listed, read_allocation, whole_numbers

    if value is None or (isinstance(value, str) and not is_listed(value)):
        return None
    return whole_numbers(read_allocation(value))


def unknown_allocation(value: Any) -> str | None:
    """Results once had the name of the file in place of the allocation: what is to be said of those."""
    if value is None or stored_allocation(value) is not None:
        return None
    return (
        f"the result names a file for its allocation, {value!r}, and not the allocation itself: "
        "whether the plan has it was not checked; solve again to have it stored"
    )
