"""The packaged graph pipelines: what they are made of, where they lie, and the best values known for them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .models import candle_uno, case_study, dlrm, mmt
from .problem import GraphPipelineProblem
from .tiny import tiny_graph

FOLDER = "packaged/graphs"
GRAPH_OBJECTIVES = ("time-per-sample", "iteration")


@dataclass(frozen=True, slots=True)
class GraphRecipe:
    """How a packaged graph pipeline is made; `source` says from what, in one line."""

    name: str
    source: str
    build: Callable[[], GraphPipelineProblem]


@dataclass(frozen=True, slots=True)
class BestTime:
    """One line of `best_known.csv`, in the instance's time unit; bound None: none is known."""

    instance: str
    objective: str
    """One of `GRAPH_OBJECTIVES`."""
    value: float
    bound: float | None
    proven: bool
    source: str
    """The proof or the method."""
    hash: str
    """Of the problem that the value belongs to."""


_SUMMIT = "on V100 with NVLink and InfiniBand (analytic costs)"

GRAPH_RECIPES: tuple[GraphRecipe, ...] = (
    GraphRecipe("tiny-graph", "two branches and a join by hand, for teaching", tiny_graph),
    GraphRecipe("case-study", f"two branches of four transformer layers, 8 devices {_SUMMIT}", case_study),
    GraphRecipe("mmt-8", f"MMT, four branches of eight transformer layers, 8 devices {_SUMMIT}", mmt),
    GraphRecipe("dlrm-8", f"DLRM, seven dense branches and seven tables, 8 devices {_SUMMIT}", dlrm),
    GraphRecipe("candle-uno-8", f"CANDLE-Uno, seven dense branches, 8 devices {_SUMMIT}", candle_uno),
)


def packaged_graph_names() -> tuple[str, ...]:
    """Names of the packaged graph pipelines, sorted."""
    return tuple(
        sorted(entry.name.removesuffix(".json") for entry in _folder().iterdir() if entry.name.endswith(".json"))
    )


@lru_cache(maxsize=32)
def load_packaged_graph(name: str) -> GraphPipelineProblem:
    """The packaged graph pipeline of that name."""
    from .files import graph_pipeline_from_json

    if name not in packaged_graph_names():
        listed = ", ".join(packaged_graph_names())
        raise UsageError(f"There is no packaged graph pipeline {name!r}; choose one of {listed}.")
    return graph_pipeline_from_json(json.loads(_folder().joinpath(f"{name}.json").read_text("utf-8")))


def packaged_graphs_info() -> list[dict[str, Any]]:
    """One row per packaged graph pipeline, with the best known time per sample and iteration."""
    sources = {recipe.name: recipe.source for recipe in GRAPH_RECIPES}
    rows = []
    for name in packaged_graph_names():
        problem = load_packaged_graph(name)
        best = {known.objective: known.value for known in read_best_times() if known.instance == name}
        rows.append(
            {
                "name": name,
                "kind": problem.kind,
                "operators": len(problem.operators),
                "edges": len(problem.edges),
                "devices": problem.devices,
                "memory_bytes": problem.memory_bytes,
                "mini_batch": problem.mini_batch,
                "time_per_sample": best.get("time-per-sample"),
                "iteration": best.get("iteration"),
                "time_unit": problem.time_unit,
                "source": sources.get(name),
            }
        )
    return rows


@lru_cache(maxsize=1)
def read_best_times() -> tuple[BestTime, ...]:
    """The table of `best_known.csv`."""
    with _folder().joinpath("best_known.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_best_time(row) for row in csv.DictReader(file))


def _best_time(row: Mapping[str, Any]) -> BestTime:
    return BestTime(
        instance=row["instance"],
        objective=row["objective"],
        value=float(row["value"]),
        bound=float(row["bound"]) if row["bound"] else None,
        proven=row["proven"] == "yes",
        source=row["source"],
        hash=row["hash"],
    )


def best_time(name: str, objective: str = "time-per-sample") -> BestTime | None:
    """The best value known for a packaged graph pipeline, or None."""
    rows = (known for known in read_best_times() if (known.instance, known.objective) == (name, objective))
    return next(rows, None)


def write_packaged_graphs(folder: Path) -> None:
    """Make every packaged file anew."""
    from .files import graph_pipeline_to_json

    for recipe in GRAPH_RECIPES:
        text = json.dumps(graph_pipeline_to_json(recipe.build()), separators=(",", ":"))
        folder.joinpath(f"{recipe.name}.json").write_text(text + "\n", "utf-8")


def _folder() -> Any:
    return files(__package__.rpartition(".")[0]).joinpath(FOLDER)
