"""The packaged instances: what they are made of, where they lie, and the best values known for them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from .errors import UsageError
from .placement.problem import Node, PlacementProblem
from .staging.problem import StagingProblem

FOLDER = "packaged"
VARIANTS = ("contiguous", "non-contiguous")
"""Of placements: a chain of stages; any sets of nodes."""

STAGING_VARIANTS = ("paper", "reference")
"""Semantics of weight synchronisation: once per d micro-batches; once per batch."""


def staging_variants(problem: StagingProblem) -> tuple[str, ...]:
    """In which semantics the problem can be planned: with levels weights are synchronised as in the paper."""
    return STAGING_VARIANTS[:1] if problem.levels else STAGING_VARIANTS


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a packaged instance is made; `source` says from what, in one line."""

    name: str
    source: str
    build: Callable[[], PlacementProblem | StagingProblem]
    kind: str = "placement"


@dataclass(frozen=True, slots=True)
class BestKnown:
    """One line of `best_known.csv`; value and bound in the instance's time unit."""

    instance: str
    variant: str
    """One of `VARIANTS`, or of `STAGING_VARIANTS`."""
    objective: str
    value: float
    bound: float
    proven: bool
    method: str
    date: str
    hash: str
    """Of the problem that the value was found for."""


def packaged_names(kind: str = "placement") -> tuple[str, ...]:
    """Names of the packaged instances of a kind, sorted."""
    there = {entry.name.removesuffix(".json") for entry in _folder().iterdir() if entry.name.endswith(".json")}
    return tuple(sorted(recipe.name for recipe in recipes() if recipe.kind == kind and recipe.name in there))


@lru_cache(maxsize=32)
def load_packaged(name: str) -> PlacementProblem:
    """The packaged placement problem of that name."""
    from .placement.files import placement_from_json

    return placement_from_json(_read(name, "placement"))


@lru_cache(maxsize=32)
def load_packaged_staging(name: str) -> StagingProblem:
    """The packaged staging problem of that name."""
    from .staging.files import staging_from_json

    return staging_from_json(_read(name, "staging"))


def _read(name: str, kind: str) -> Any:
    if name not in packaged_names(kind):
        raise UsageError(
            f"There is no packaged {kind} problem {name!r}; choose one of {', '.join(packaged_names(kind))}."
        )
    return json.loads(_folder().joinpath(f"{name}.json").read_text("utf-8"))


def packaged_info() -> list[dict[str, Any]]:
    """One row per packaged placement problem, with the best known value of either variant."""
    rows = []
    for name in packaged_names():
        problem, known = load_packaged(name), _known(name)
        rows.append(
            {
                "name": name,
                "nodes": len(problem.nodes),
                "edges": len(problem.edges),
                "accelerators": problem.accelerators,
                "cpus": problem.cpus,
                "contiguous": known.get("contiguous"),
                "non_contiguous": known.get("non-contiguous"),
                "time_unit": problem.time_unit,
                "source": _source(name),
            }
        )
    return rows


def packaged_staging_info() -> list[dict[str, Any]]:
    """One row per packaged staging problem, with the best known value in either semantics."""
    rows = []
    for name in packaged_names("staging"):
        problem, known = load_packaged_staging(name), _known(name)
        rows.append(
            {
                "name": name,
                "layers": len(problem.layers),
                "edges": len(problem.edges),
                "devices": problem.devices,
                "memory_bytes": problem.memory_bytes,
                "micro_batches": problem.micro_batches,
                "tensor_degrees": list(problem.degrees),
                **{variant: known.get(variant) for variant in STAGING_VARIANTS},
                "time_unit": problem.time_unit,
                "source": _source(name),
            }
        )
    return rows


def _known(name: str) -> dict[str, float]:
    return {known.variant: known.value for known in read_best_known() if known.instance == name}


def _source(name: str) -> str:
    return next(recipe.source for recipe in recipes() if recipe.name == name)


@lru_cache(maxsize=1)
def read_best_known() -> tuple[BestKnown, ...]:
    """The table of `best_known.csv`."""
    with _folder().joinpath("best_known.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_best_known(row) for row in csv.DictReader(file))


def _best_known(row: Mapping[str, str]) -> BestKnown:
    return BestKnown(
        instance=row["instance"],
        variant=row["variant"],
        objective=row["objective"],
        value=float(row["value"]),
        bound=float(row["bound"]),
        proven=row["proven"] == "yes",
        method=row["method"],
        date=row["date"],
        hash=row["hash"],
    )


def best_known(name: str, variant: str = "contiguous") -> BestKnown | None:
    """The best value known for a packaged instance, or None."""
    return next((known for known in read_best_known() if (known.instance, known.variant) == (name, variant)), None)


def _folder() -> Any:
    return files(__package__).joinpath(FOLDER)


# ---- recipes -------------------------------------------------------------------------------------------


def write_packaged(folder: Path) -> None:
    """Make every packaged file anew."""
    from .placement.files import placement_to_json
    from .staging.files import staging_to_json

    for recipe in recipes():
        problem = recipe.build()
        data = staging_to_json(problem) if isinstance(problem, StagingProblem) else placement_to_json(problem)
        text = json.dumps(data, separators=(",", ":"))
        folder.joinpath(f"{recipe.name}.json").write_text(text + "\n", "utf-8")


def recipes() -> Iterable[Recipe]:
    """Every packaged instance."""
    yield Recipe("tiny-chain", "six layers by hand, for teaching", _tiny_chain)
    for name, workload, batch, device, link, cluster in NETWORKS:
        mode = "training" if cluster.get("training") else "inference"
        source = f"{workload}, batch {batch}, {mode}, on {device} over {link} (analytic costs)"
        yield Recipe(name, source, partial(_lowered, name, workload, batch, device, link, cluster))
    yield Recipe("cpu-offload", "generator heterogeneous, 60 nodes, seed 3", _cpu_offload)
    yield Recipe("memory-tight", "generator series-parallel, 40 nodes, seed 5, 300 MiB per accelerator", _memory_tight)
    from .staging.recipes import STAGINGS

    for name, source, build in STAGINGS:
        yield Recipe(name, source, build, "staging")


NETWORKS: tuple[tuple[str, str, int, str, str, dict[str, Any]], ...] = (
    ("resnet50-inference", "resnet50", 64, "v100-16gb", "pcie3-x16", {"accelerators": 6, "cpus": 1}),
    ("resnet50-training", "resnet50", 32, "v100-16gb", "pcie3-x16", {"accelerators": 4, "training": True}),
    ("inception-inference", "inception_v3", 64, "v100-16gb", "pcie3-x16", {"accelerators": 6, "cpus": 1}),
    ("densenet121-inference", "densenet121", 32, "v100-16gb", "pcie3-x16", {"accelerators": 4}),
    ("vgg16-training", "vgg16", 32, "v100-16gb", "pcie3-x16", {"accelerators": 4, "training": True}),
    ("bert-large-inference", "bert-large", 8, "a100-40gb", "pcie4-x16", {"accelerators": 6, "cpus": 1}),
    ("bert-large-training", "bert-large", 8, "v100-16gb", "pcie3-x16", {"accelerators": 6, "training": True}),
    ("bert-base-operators", "bert-base-operators", 8, "v100-16gb", "pcie3-x16", {"accelerators": 3, "cpus": 1}),
    ("gpt2-xl-training", "gpt2-xl", 4, "a100-40gb", "nvlink3", {"accelerators": 8, "training": True}),
    ("gpt3-6.7b-inference", "gpt3-6.7b", 1, "a100-40gb", "nvlink3", {"accelerators": 4}),
    ("gnmt-training", "gnmt", 64, "v100-16gb", "pcie3-x16", {"accelerators": 6, "training": True}),
)


def _lowered(name: str, workload: str, batch: int, device: str, link: str, cluster: dict[str, Any]) -> PlacementProblem:
    from .placement.from_workload import to_placement
    from .workloads import DEVICES, LINKS, build

    return to_placement(build(workload, batch), DEVICES[device], LINKS[link], name=name, **cluster)


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
    from .placement.generators import heterogeneous

    return heterogeneous(nodes=60, accelerators=3, cpus=2, seed=3).replace(name="cpu-offload")


def _memory_tight() -> PlacementProblem:
    from .placement.generators import series_parallel

    problem = series_parallel(nodes=40, accelerators=5, cpus=0, seed=5)
    return problem.replace(name="memory-tight", memory_bytes=300.0 * 2**20)
