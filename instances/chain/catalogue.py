"""The packaged chains: what they are made of, where they lie, and the best periods known for them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import UsageError
from . import golden, guards, theory
from .from_workload import workload_to_chain
from .known import KnownChain, Variant
from .problem import ChainProblem

FOLDER = "packaged/chains"
MIB = 2**20
RESNET18_MEMORY = 220 * MIB
UNLIMITED_RESNETS = {18: (8, 1000), 34: (32, 224), 50: (8, 224)}
"""Depth to batch and pixels per side: the networks with which Beaumont et al. compare period and memory."""


@dataclass(frozen=True, slots=True)
class ChainRecipe:
    """How a packaged chain is made; `source` says from what, in one line."""

    name: str
    source: str
    build: Callable[[], ChainProblem]


@dataclass(frozen=True, slots=True)
class BestPeriod:
    """One line of `best_known.csv`: period per batch in the instance's time unit; value None: proven infeasible."""

    instance: str
    variant: Variant
    value: float | None
    bound: float | None
    proven: bool
    source: str
    """The proof or the method."""
    hash: str
    """Of the problem that the value belongs to."""


def packaged_chain_names() -> tuple[str, ...]:
    """Names of the packaged chains, sorted."""
    return tuple(
        sorted(entry.name.removesuffix(".json") for entry in _folder().iterdir() if entry.name.endswith(".json"))
    )


@lru_cache(maxsize=32)
def load_packaged_chain(name: str) -> ChainProblem:
    """The packaged chain of that name."""
    from .files import chain_from_json

    if name not in packaged_chain_names():
        raise UsageError(f"There is no packaged chain {name!r}; choose one of {', '.join(packaged_chain_names())}.")
    return chain_from_json(json.loads(_folder().joinpath(f"{name}.json").read_text("utf-8")))


def packaged_chains_info() -> list[dict[str, Any]]:
    """One row per packaged chain, with the best known period per batch of any and of contiguous allocations."""
    sources = {recipe.name: recipe.source for recipe in chain_recipes()}
    rows = []
    for name in packaged_chain_names():
        problem = load_packaged_chain(name)
        best = {known.variant: known.value for known in read_best_periods() if known.instance == name}
        rows.append(
            {
                "name": name,
                "kind": problem.kind,
                "layers": problem.layers,
                "gpus": problem.gpus,
                "memory_bytes": problem.memory_bytes,
                "memory_mode": problem.memory_mode,
                "general": best.get("general"),
                "contiguous": best.get("contiguous"),
                "time_unit": problem.time_unit,
                "source": sources.get(name),
            }
        )
    return rows


@lru_cache(maxsize=1)
def read_best_periods() -> tuple[BestPeriod, ...]:
    """The table of `best_known.csv`."""
    with _folder().joinpath("best_known.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_best_period(row) for row in csv.DictReader(file))


def _best_period(row: Mapping[str, Any]) -> BestPeriod:
    return BestPeriod(
        instance=row["instance"],
        variant=row["variant"],
        value=float(row["value"]) if row["value"] else None,
        bound=float(row["bound"]) if row["bound"] else None,
        proven=row["proven"] == "yes",
        source=row["source"],
        hash=row["hash"],
    )


def best_period(name: str, variant: Variant = "general") -> BestPeriod | None:
    """The best period known for a packaged chain, or None."""
    return next((known for known in read_best_periods() if (known.instance, known.variant) == (name, variant)), None)


def _folder() -> Any:
    return files(__package__.rpartition(".")[0]).joinpath(FOLDER)


# ---- recipes -------------------------------------------------------------------------------------------


def known_chains() -> tuple[KnownChain, ...]:
    """The packaged chains whose answers are known by proof or enumeration."""
    return (
        theory.three_chain(), theory.family(2), theory.lemma_2(), theory.lemma_3(), theory.figure_4(),
        theory.figure_5(), golden.golden_chains()[3], guards.e5_overrun(),
    )  # fmt: skip


def chain_recipes() -> Iterable[ChainRecipe]:
    """Every packaged chain."""
    for known in known_chains():
        yield ChainRecipe(known.name, known.source, partial(getattr, known, "problem"))
    yield ChainRecipe(
        "resnet18-training-chain",
        "resnet18 in blocks, batch 32, on v100-16gb over pcie3-x16 with 220 MiB of memory (analytic costs)",
        _resnet18,
    )
    for depth, (batch, image) in UNLIMITED_RESNETS.items():
        yield ChainRecipe(
            f"resnet{depth}-chain",
            f"resnet{depth} in blocks, batch {batch}, image {image}, on v100-16gb over pcie3-x16 (analytic costs)",
            partial(_unlimited_resnet, depth, batch, image),
        )


def _unlimited_resnet(depth: int, batch: int, image: int) -> ChainProblem:
    """Without a memory limit, in whole microseconds."""
    from ..workloads import DEVICES, LINKS
    from ..workloads.cnn import resnet

    problem = workload_to_chain(
        resnet(depth, batch, image), DEVICES["v100-16gb"], LINKS["pcie3-x16"], gpus=4, memory_bytes=math.inf
    )
    return in_whole_microseconds(problem).replace(name=f"resnet{depth}-chain")


def _resnet18() -> ChainProblem:
    """In whole microseconds, so that periods can be exact."""
    from ..workloads import DEVICES, LINKS, build

    problem = workload_to_chain(
        build("resnet18", 32), DEVICES["v100-16gb"], LINKS["pcie3-x16"], gpus=4, memory_bytes=RESNET18_MEMORY
    )
    return in_whole_microseconds(problem).replace(name="resnet18-training-chain")


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


def write_packaged_chains(folder: Path) -> None:
    """Make every packaged file anew, and the rows of the table that are known by proof or enumeration."""
    from .files import chain_to_json

    for recipe in chain_recipes():
        text = json.dumps(chain_to_json(recipe.build()), separators=(",", ":"))
        folder.joinpath(f"{recipe.name}.json").write_text(text + "\n", "utf-8")


def rows_known_by_proof() -> list[BestPeriod]:
    """The lines of `best_known.csv` that follow from the answers of the known chains."""
    return [
        BestPeriod(known.name, variant, value, value, True, known.source, known.problem.hash)
        for known in known_chains()
        for variant, value in known.answers.items()
    ]
