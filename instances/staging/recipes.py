"""What the packaged staging problems are made of, and what their list shows."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

from ..base.packaged import Packaged, Recipe
from ..base.quantities import GIB
from .problem import Configuration, Edge, Layer, StagingLevel, StagingProblem


def _tiny() -> StagingProblem:
    """Best plan by hand: one device for each layer, the first two recompute; the second takes 5 + 2 x 2 x 1 / 4 = 6.

    Without recomputation the first two stages do not fit (four and three micro-batches in flight). Two layers on one
    device take 8 at least, on two tensor-parallel devices 6 and a transfer of 0.5. On two replicas two layers take 1.5
    for weights, and at least one of them must recompute: (9 + 0.5) / 2 + 1.5 = 6.25. Three layers on one device do not
    fit, and on two take 9.
    """
    ways = {
        1: (
            Configuration("vanilla", 4.0, weight_bytes=3.0, memory_per_batch=10.0, memory_fixed=10.0),
            Configuration("activation recomp", 5.0, weight_bytes=3.0, memory_per_batch=2.0, memory_fixed=10.0),
        ),
        2: (Configuration("vanilla", 3.0, weight_bytes=1.5, memory_per_batch=5.0, memory_fixed=5.0),),
    }
    return StagingProblem(
        layers=tuple(Layer(name, ways) for name in "abcd"),
        edges=tuple(Edge(u, v, 1.0) for u, v in pairwise("abcd")),
        devices=4,
        bandwidth=4.0,
        micro_batches=8,
        memory_bytes=35.0,
        name="tiny-stages",
    )


def _tiny_levels() -> StagingProblem:
    """Two servers of two devices, slow links between them. Best plan by hand: a copy of everything on each server.

    A device holds one layer, so both devices of a server are full. A cut between the servers takes 2 x 20 / 1 = 40; two
    copies, each cut inside its server, take (8 + 2 x 20 / 10) / 2 = 6. Without copies a stage takes 8 + 4 = 12.
    """
    way = Configuration("vanilla", 8.0, memory_per_batch=1.0, memory_fixed=10.0)
    return StagingProblem(
        layers=(Layer("a", {1: (way,)}), Layer("b", {1: (way,)})),
        edges=(Edge("a", "b", 20.0),),
        devices=4,
        bandwidth=10.0,
        micro_batches=4,
        memory_bytes=15.0,
        levels=(StagingLevel(2, 10.0), StagingLevel(2, 1.0)),
        name="tiny-levels",
    )


def _lowered(
    name: str, workload: str, batch: int, device: str, link: str, options: dict[str, Any]
) -> StagingProblem:
    from ..networks.analytic import DEVICES, LINKS, build
    from .from_workload import to_staging

    return to_staging(build(workload, batch), DEVICES[device], LINKS[link], name=name, **options)


def _network(name: str, workload: str, batch: int, device: str, link: str, **options: Any) -> Recipe:
    memory = options["memory_bytes"] / GIB
    source = f"{workload}, micro-batches of {batch}, on {device} with {memory:g} GiB over {link} (analytic costs)"
    return Recipe(name, source, partial(_lowered, name, workload, batch, device, link, options))


RECIPES = (
    Recipe("tiny-stages", "four layers by hand, for teaching", _tiny),
    Recipe("tiny-levels", "two layers on two servers of two devices by hand, for teaching", _tiny_levels),
    _network(
        "gpt2-medium-stages", "gpt2-medium-operators", 2, "a100-40gb", "nvlink3",
        devices=16, micro_batches=64, memory_bytes=0.75 * GIB,
    ),
    _network(
        "bert-large-stages", "bert-large-operators", 8, "v100-pcie-16gb", "pcie3-x16",
        devices=6, micro_batches=32, memory_bytes=4.0 * GIB, tensor_degrees=(1, 2, 4),
    ),
    _network(
        "resnet50-stages", "resnet50", 32, "v100-pcie-16gb", "pcie3-x16",
        devices=8, micro_batches=64, memory_bytes=2.0 * GIB, tensor_degrees=(1, 2),
    ),
)  # fmt: skip


def _senseless(problem: StagingProblem) -> tuple[str, ...]:
    """The semantics that levels do not have: with levels, weights are synchronised as in the paper."""
    return ("reference",) if problem.levels else ()


def _degrees(problem: StagingProblem) -> dict[str, Any]:
    return {"tensor_degrees": list(problem.degrees)}


# Semantics of weight synchronisation: once per d micro-batches (paper); once per batch (reference).
PACKAGED = Packaged(
    recipes=RECIPES,
    more=_degrees,
    senseless=_senseless,
    columns={"layers": "{layers}", "devices": "{devices}"},
    variants={"paper": "paper", "reference": "reference"},
    note="stagings: best known times per micro-batch in the paper's and the published program's semantics",
)
