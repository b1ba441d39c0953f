"""How one packaged instance is made, and on which devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeplan.instances.physics.hardware import GPUS, LINK_RATES, Hardware


@dataclass(frozen=True, slots=True)
class Link:
    name: str
    bytes_per_s: float
    """In one direction."""


LINKS: Mapping[str, Link] = {name: Link(name, rate * 1e9) for name, rate in LINK_RATES.items()}


def made_on(gpu: str) -> Hardware:
    """The GPU with the shares that stored files were made with, before there was a table of them: kernels reach half of
    its peak and all of its memory's rate, and take 5 us to start. Stored files stay as they are."""
    known = GPUS[gpu]
    return replace(known.roofline, memory_bytes_per_s=known.memory_rate, efficiency=0.5, launch_s=5e-6)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one packaged instance is made; `source` says of what, in one line."""

    name: str
    source: str
    build: Callable[[], Any]
    """The function that builds the problem."""

    def named(self) -> Recipe:
        """A recipe whose problem has the name of the recipe."""
        return Recipe(self.name, self.source, lambda: self.build().replace(name=self.name))
