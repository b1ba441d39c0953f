"""Small problems of every kind with the numbers and shapes that lead methods astray: the one home of nasty inputs.

Zero times, ties, decimals whose sums meet the memory to the last digit or miss it by a hair or by the next float, sizes
of more digits than whole numbers hold, magnitudes from 1e-9 to 1e12 in one problem, sentinels (1e9, 1e12, 1e16, 1e30)
that people write for "forbidden", CPUs alone, colour classes, devices of two types, more devices than nodes, graphs in
several parts, without edges, of one node. All are small enough for the enumerations in `tests/oracles`. The same
seed is the same problem. `scaled`, `renamed` and `better` make the problems whose optima are known from that of another
one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.registry import Problem

from .amounts import SENTINELS
from .chains import chain, whole_chain
from .graph_pipelines import graph_pipeline
from .placements import latency, placement
from .schedules import schedule
from .stagings import levels, on_two_types, staging, types
from .trainings import training
from .units import in_fifteen_digits, scaled, times_power
from .variants import better, renamed

__all__ = [
    "KINDS",
    "SENTINELS",
    "better",
    "in_fifteen_digits",
    "nasty",
    "on_two_types",
    "renamed",
    "scaled",
    "times_power",
    "whole_chain",
]

MAKERS: Mapping[str, Callable[..., Problem]] = {
    "placement": placement,
    "latency": latency,
    "chain": chain,
    "staging": staging,
    "types": types,
    "levels": levels,
    "graph-pipeline": graph_pipeline,
    "schedule": schedule,
    "training": training,
}
KINDS = tuple(MAKERS)


def nasty(kind: str, seed: int, **limits: int) -> Any:
    """Of a kind, within limits that its maker takes; what the door does not let in is drawn again (a class that fits
    nowhere, say)."""
    rng = random.Random(f"{kind} {seed}")
    while True:
        try:
            return MAKERS[kind](rng, **limits).replace(name=f"nasty {kind} {seed}")
        except InputError:
            continue
