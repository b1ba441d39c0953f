"""What the ranks are told, as JSON, and the names of all files in the folder that the launcher makes and removes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...instances.base.json_file import read_json, write_json
from ...instances.timeline.model import Pass
from .orders import RunStage, Schedule

JOB, STORE = "job.json", "store"


@dataclass(frozen=True, slots=True)
class Case:
    """A plan to be run: its stages, the orders of the ranks, and the engine that runs them."""

    name: str
    stages: tuple[RunStage, ...]
    orders: tuple[tuple[Pass, ...], ...]
    engine: str = "own"
    ordered: bool = False
    """Are messages told apart by their order alone, since NCCL has no tags?"""
    whose: str = "the plan's"
    """The order of the passes, in words: "the plan's" or "the given"."""

    @classmethod
    def of(cls, name: str, schedule: Schedule, *, engine: str = "own", ordered: bool = False) -> Case:
        whose = "the given" if schedule.given else "the plan's"
        return cls(name, schedule.stages, schedule.orders, engine, ordered, whose)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Case:
        stages = tuple(RunStage(s["name"], tuple(s["nodes"]), tuple(s["ranks"])) for s in data["stages"])
        orders = tuple(tuple(Pass(*p) for p in order) for order in data["orders"])
        return cls(data["name"], stages, orders, data["engine"], data["ordered"], data["whose"])


@dataclass(frozen=True, slots=True)
class Job:
    """All that a rank has to know; the same for all of them."""

    model: str
    """The function that makes the model, written as FILE:FUNCTION."""
    samples: int
    """Samples of a micro-batch, for functions that take their number."""
    graph_sha256: str
    granularity: str
    loss: str | None
    training: bool
    ranks: int
    micro_batches: int
    steps: int
    warm_up: int
    check: bool
    device: str
    deadline_s: float
    cases: tuple[Case, ...]
    """Plans that are run in turn, step by step, so that load on the machine is shared by all."""
    seed: int = 0

    def write(self, folder: Path) -> None:
        write_json(folder / JOB, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Job:
        data = read_json(folder / JOB)
        return cls(**{**data, "cases": tuple(map(Case.from_json, data["cases"]))})


def answer_file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.json"


def error_file(folder: Path, rank: int) -> Path:
    """The file with the sentence that is shown where the rank fails."""
    return folder / f"rank-{rank}.error"
