"""What the packaged chains are made of, and what their list shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial

from ..base.packaged import Packaged, Recipe
from ..base.quantities import MIB
from . import theory
from .from_workload import workload_to_chain
from .known_answers import KnownChain
from .problem import ChainProblem

RESNET18_MEMORY = 220 * MIB
# Depth to batch and pixels per side: the networks with which Beaumont et al. compare period and memory.
UNLIMITED_RESNETS = {18: (8, 1000), 34: (32, 224), 50: (8, 224)}


def known_chains() -> tuple[KnownChain, ...]:
    """The packaged chains whose answers are known by proof or enumeration."""
    return (
        theory.three_chain(), theory.family(2), theory.lemma_2(), theory.lemma_3(), theory.figure_4(),
        theory.figure_5(), theory.golden_chains()[3], theory.e5_overrun(),
    )  # fmt: skip


def _recipes() -> Iterator[Recipe]:
    for chain in known_chains():
        yield Recipe(chain.name, chain.source, partial(getattr, chain, "problem"))
    yield Recipe(
        "resnet18-training-chain",
        "resnet18 in blocks, batch 32, on v100-16gb over pcie3-x16 with 220 MiB of memory (analytic costs)",
        partial(_resnet, "resnet18-training-chain", 18, 32, 224, RESNET18_MEMORY),
    )
    for depth, (batch, image) in UNLIMITED_RESNETS.items():
        yield Recipe(
            f"resnet{depth}-chain",
            f"resnet{depth} in blocks, batch {batch}, image {image}, on v100-16gb over pcie3-x16 (analytic costs)",
            partial(_resnet, f"resnet{depth}-chain", depth, batch, image, math.inf),
        )


def _resnet(name: str, depth: int, batch: int, image: int, memory_bytes: float) -> ChainProblem:
    """A ResNet as a chain, in whole microseconds, so that periods can be exact."""
    from ..networks.analytic import DEVICES, LINKS
    from ..networks.analytic.cnn import resnet

    network, device, link = resnet(depth, batch, image), DEVICES["v100-pcie-16gb"], LINKS["pcie3-x16"]
    problem = workload_to_chain(network, device, link, gpus=4, memory_bytes=memory_bytes)
    return in_whole_microseconds(problem).replace(name=name)


def in_whole_microseconds(problem: ChainProblem) -> ChainProblem:
    """A chain in ms with every time, those of transfers included, rounded to whole microseconds."""

    def rounded(times: Iterable[float]) -> tuple[int, ...]:
        return tuple(round(1000 * time) for time in times)

    return problem.replace(
        forward=rounded(problem.forward),
        backward=rounded(problem.backward),
        transfer_times=rounded(problem.edge_times),
        bandwidth=None,
        time_unit="us",
    )


PACKAGED = Packaged(
    recipes=tuple(_recipes()),
    columns={"layers": "{layers}", "gpus": "{gpus}"},
    variants={"general": "period", "contiguous": "contiguous"},
    note="chains: best known periods of all and of contiguous allocations",
)
