"""`plan generate` of chains: the families of `instances.chain.generators`, with memory by share where it is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..instances.base.errors import UsageError
from ..instances.base.generator import Parameter
from ..instances.chain.generators import CHAIN_GENERATORS
from ..instances.chain.known_answers import KnownChain

TIGHTNESS = Parameter(
    "tightness",
    "float",
    None,
    "memory between that of an eager contiguous pipeline with one batch in flight (0) and with two batches more than "
    "GPUs (1); not with --memory",
)
"""Of the benchmark's chains alone: it takes planners to find those two amounts."""


def parameters_of(name: str) -> tuple[Parameter, ...]:
    own = CHAIN_GENERATORS[name].parameters
    return (*own, TIGHTNESS) if name == "resnet-like" else own


def build_chain(name: str, given: Mapping[str, Any]) -> KnownChain:
    """A chain with what is known of it; `given` holds parameters of this generator alone."""
    arguments = dict(given)
    share = arguments.pop("tightness", None)
    if arguments.get("memory_bytes") == math.inf:
        arguments["memory_bytes"] = None
    if share is not None and "memory_bytes" in given:
        raise UsageError("--tightness and --memory both say how much memory there is; drop one of them.")
    known = CHAIN_GENERATORS[name](**arguments)
    return known if share is None else _tightened(known, share)


def _tightened(known: KnownChain, share: float) -> KnownChain:
    from ..instances.chain.random_chains import tightness
    from ..planners.chain.eager import memory_levels

    problem = tightness(known.problem, *memory_levels(known.problem), share)
    return KnownChain(problem.replace(name=f"{problem.name}-tight{share:g}"), known.answers, known.source)


def known_facts(known: KnownChain) -> dict[str, Any]:
    """Source, the allocation that belongs to the chain, and answers, as far as there are any."""
    facts: dict[str, Any] = {"source": known.source}
    if known.allocation is not None:
        facts["allocation"] = ",".join(map(str, known.allocation))
    if known.answers:
        facts["periods"] = dict(known.answers)
    return facts


def remarks(known: KnownChain) -> list[str]:
    """The same in words."""
    said = [f"source: {known.source}"]
    if known.answers:
        periods = (
            f"{name} {'none fits' if value is None else f'{value:g}'}" for name, value in known.answers.items()
        )
        said.append(f"known periods: {', '.join(periods)}")
    if known.allocation is not None:
        said.append(f"its allocation: --allocation {','.join(map(str, known.allocation))}")
    return said
