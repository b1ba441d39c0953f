"""Arguments that several commands share: the instance, the cluster that overrides the file's, the output."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ..instances.errors import InputError, UsageError
from ..instances.kinds import Problem
from ..instances.placement import PlacementProblem
from . import quantities

CLUSTER = "Cluster (overrides the file's; required for profiles, which have none)"

InstanceArgument = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="A file, or the name of a packaged instance.", show_default=False)
]
Devices = Annotated[int | None, typer.Option("--devices", help="Accelerators.", rich_help_panel=CLUSTER)]
Cpus = Annotated[int | None, typer.Option("--cpus", help="CPUs.", rich_help_panel=CLUSTER)]
Memory = Annotated[
    float | None,
    typer.Option(
        "--memory",
        parser=quantities.size_or_none,
        metavar="SIZE",
        help="Memory of an accelerator: 8GiB, or none for no limit.",
        rich_help_panel=CLUSTER,
    ),
]
Bandwidth = Annotated[
    float | None,
    typer.Option(
        "--bandwidth",
        parser=quantities.rate,
        metavar="RATE",
        help="Of the links, for files that hold bytes: 25GiB/s.",
        rich_help_panel=CLUSTER,
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch",
        help="Micro-batches in a batch of a staging problem, samples in one of a graph pipeline.",
        rich_help_panel=CLUSTER,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


CpuSlowdown = Annotated[
    float | None,
    typer.Option(
        "--cpu-slowdown",
        help="Profiles: CPU time per accelerator time.",
        rich_help_panel=CLUSTER,
        show_default=False,
    ),
]
Inference = Annotated[
    bool, typer.Option("--inference", help="Profiles: leave out the backward nodes.", rich_help_panel=CLUSTER)
]


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the command line says about the cluster; None: what the file says. Infinite memory: no limit."""

    devices: int | None = None
    cpus: int | None = None
    memory_bytes: float | None = None
    bandwidth: float | None = None
    cpu_slowdown: float | None = None
    training: bool | None = None
    batch: int | None = None

    def changes_to(self, problem: Problem) -> dict[str, Any]:
        """The fields of a packaged problem that are overridden; what its kind does not have is refused."""
        names = FIELDS[problem.kind]
        given = {name: value for name, value in asdict(self).items() if value is not None}
        for name in given:
            if name not in names:
                option = "--inference" if name == "training" else "--" + name.removesuffix("_bytes").replace("_", "-")
                raise UsageError(f"{option} says nothing about a packaged {problem.kind} problem; drop {option}.")
        changes = {names[name]: None if value == math.inf else value for name, value in given.items()}
        if problem.kind == "chain" and "bandwidth" in changes:
            changes["transfer_times"] = None
        return changes


FIELDS: Mapping[str, Mapping[str, str]] = {
    "placement": {"devices": "accelerators", "cpus": "cpus", "memory_bytes": "memory_bytes"},
    "chain": {"devices": "gpus", "memory_bytes": "memory_bytes", "bandwidth": "bandwidth"},
    "staging": {
        "devices": "devices",
        "memory_bytes": "memory_bytes",
        "bandwidth": "bandwidth",
        "batch": "micro_batches",
    },
    "graph-pipeline": {"devices": "devices", "memory_bytes": "memory_bytes", "batch": "mini_batch"},
}
"""Which fields of each kind of problem the command line overrides."""


def cluster(
    devices: int | None,
    cpus: int | None,
    memory: float | None,
    bandwidth: float | None,
    cpu_slowdown: float | None,
    inference: bool,
    batch: int | None = None,
) -> Cluster:
    """The options of every command that reads an instance."""
    return Cluster(devices, cpus, memory, bandwidth, cpu_slowdown, False if inference else None, batch)


def load_instance(text: str, on: Cluster) -> Problem:
    """The problem in a file, or the packaged one of that name, on the cluster of the command line."""
    from ..instances.io import load

    if os.path.exists(text) or _looks_like_a_path(text):
        return load(text, **asdict(on))
    from ..instances.packaged_any import all_packaged_names, load_any_packaged

    if text not in all_packaged_names():
        raise UsageError(f"There is no file and no packaged instance {text!r}; `plan instances` lists those.")
    problem = load_any_packaged(text)
    return problem.replace(**on.changes_to(problem))


def load_placement(text: str, on: Cluster, what: str) -> PlacementProblem:
    """The same for commands that know placement problems alone."""
    problem = load_instance(text, on)
    if not isinstance(problem, PlacementProblem):
        raise UsageError(f"{what} is for placement problems; {text} is a {problem.kind} problem.")
    return problem


def _looks_like_a_path(text: str) -> bool:
    return os.sep in text or text.endswith((".json", ".txt"))


def check_output(option: str, path: str | None) -> None:
    """Refuse a path that cannot be written before the work is done, not after it."""
    if path is None:
        return
    target = Path(path)
    if target.is_dir():
        raise InputError(option, f"{path} is a folder", "name a file")
    if not target.parent.is_dir():
        raise InputError(option, f"{path} lies in a folder that does not exist", f"create {target.parent} first")
    if not os.access(target.parent, os.W_OK):
        raise InputError(option, f"{path} lies in a folder that cannot be written", "choose another folder")
