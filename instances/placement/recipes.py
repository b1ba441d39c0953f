"""What the packaged placement problems are made of, and what their list shows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from ..base.packaged import Packaged, Recipe
from ..base.quantities import GIB
from .problem import Node, PlacementProblem

# Memory as the names of the devices say it.
MEMORY = {"v100-pcie-16gb": 16.0 * GIB, "a100-40gb": 40.0 * GIB}
# Name, network, batch, device, link and cluster of the instances that are made of networks.
NETWORKS: tuple[tuple[str, str, int, str, str, dict[str, Any]], ...] = (
    ("resnet50-inference", "resnet50", 64, "v100-pcie-16gb", "pcie3-x16", {"accelerators": 6, "cpus": 1}),
    ("resnet50-training", "resnet50", 32, "v100-pcie-16gb", "pcie3-x16", {"accelerators": 4, "training": True}),
    ("inception-inference", "inception_v3", 64, "v100-pcie-16gb", "pcie3-x16", {"accelerators": 6, "cpus": 1}),
    ("densenet121-inference", "densenet121", 32, "v100-pcie-16gb", "pcie3-x16", {"accelerators": 4}),
    ("vgg16-training", "vgg16", 32, "v100-pcie-16gb", "pcie3-x16", {"accelerators": 4, "training": True}),
    ("bert-large-inference", "bert-large", 8, "a100-40gb", "pcie4-x16", {"accelerators": 6, "cpus": 1}),
    ("bert-large-training", "bert-large", 8, "v100-pcie-16gb", "pcie3-x16", {"accelerators": 6, "training": True}),
    (
        "bert-base-operators",
        "bert-base-operators",
        8,
        "v100-pcie-16gb",
        "pcie3-x16",
        {"accelerators": 3, "cpus": 1},
    ),
    ("gpt2-xl-training", "gpt2-xl", 4, "a100-40gb", "nvlink3", {"accelerators": 8, "training": True}),
    ("gpt3-6.7b-inference", "gpt3-6.7b", 1, "a100-40gb", "nvlink3", {"accelerators": 4}),
    ("gnmt-training", "gnmt", 64, "v100-pcie-16gb", "pcie3-x16", {"accelerators": 6, "training": True}),
)


def _lowered(
    name: str, workload: str, batch: int, device: str, link: str, cluster: dict[str, Any]
) -> PlacementProblem:
    from ..networks.analytic import DEVICES, LINKS, build
    from .from_workload import to_placement

    network, memory = build(workload, batch), MEMORY[device]
    return to_placement(network, DEVICES[device], LINKS[link], memory_bytes=memory, name=name, **cluster)


def _tiny_chain() -> PlacementProblem:
    """Best split by hand: {a, b} {c, d} {e, f} with loads 5.5, 6, 5.5 (every transfer takes 0.5)."""
    works = {"a": 2.0, "b": 3.0, "c": 1.0, "d": 4.0, "e": 2.0, "f": 3.0}
    names = list(works)
    nodes = [
        Node(name, work, 10 * work, size_bytes=100.0, transfer_time=0.0 if name == "f" else 0.5)
        for name, work in works.items()
    ]
    edges = tuple(pairwise(names))
    return PlacementProblem(tuple(nodes), edges, 3, 0, 400.0, "tiny-chain", "ms")


def _cpu_offload() -> PlacementProblem:
    from .generators import heterogeneous

    return heterogeneous(nodes=60, accelerators=3, cpus=2, seed=3).replace(name="cpu-offload")


def _memory_tight() -> PlacementProblem:
    from .generators import series_parallel

    problem = series_parallel(nodes=40, accelerators=5, cpus=0, seed=5)
    return problem.replace(name="memory-tight", memory_bytes=300.0 * 2**20)


def _networks() -> Iterator[Recipe]:
    for name, workload, batch, device, link, cluster in NETWORKS:
        mode = "training" if cluster.get("training") else "inference"
        source = f"{workload}, batch {batch}, {mode}, on {device} over {link} (analytic costs)"
        yield Recipe(name, source, partial(_lowered, name, workload, batch, device, link, cluster))


# Contiguous plans are chains of stages; others put any sets of nodes on the devices.
PACKAGED = Packaged(
    recipes=(
        Recipe("tiny-chain", "six layers by hand, for teaching", _tiny_chain),
        *_networks(),
        Recipe("cpu-offload", "generator heterogeneous, 60 nodes, seed 3", _cpu_offload),
        Recipe(
            "memory-tight", "generator series-parallel, 40 nodes, seed 5, 300 MiB per accelerator", _memory_tight
        ),
    ),
    columns={"nodes": "{nodes}", "devices": "{accelerators}+{cpus}"},
    variants={"contiguous": "contiguous", "non-contiguous": "free"},
    note="contiguous, free: best known values of contiguous and of all plans (`plan instances --json` says more)",
)
