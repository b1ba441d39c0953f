"""Arguments that several commands share: the instance, the cluster that overrides the file's, the output."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ..instances.errors import InputError, UsageError
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

    def for_packaged(self) -> dict[str, Any]:
        """The fields of a placement problem that are overridden; a packaged problem holds times, not bytes."""
        for name in ("bandwidth", "cpu_slowdown", "training"):
            if getattr(self, name) is not None:
                option = "--inference" if name == "training" else "--" + name.replace("_", "-")
                raise UsageError(
                    f"{option} is for PipeDream profiles; a packaged instance has its times: drop {option}."
                )
        given = {"accelerators": self.devices, "cpus": self.cpus, "memory_bytes": self.memory_bytes}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if changes.get("memory_bytes") == math.inf:
            changes["memory_bytes"] = None
        return changes


def cluster(
    devices: int | None,
    cpus: int | None,
    memory: float | None,
    bandwidth: float | None,
    cpu_slowdown: float | None,
    inference: bool,
) -> Cluster:
    """The options of every command that reads an instance."""
    return Cluster(devices, cpus, memory, bandwidth, cpu_slowdown, False if inference else None)


def load_instance(text: str, on: Cluster) -> PlacementProblem:
    """The problem in a file, or the packaged one of that name, on the cluster of the command line."""
    from ..instances.io import load

    if os.path.exists(text) or _looks_like_a_path(text):
        problem = load(text, kind="placement", **asdict(on))
        assert isinstance(problem, PlacementProblem), "checked by its kind"
        return problem
    from ..instances.catalogue import load_packaged, packaged_names

    if text not in packaged_names():
        raise UsageError(f"There is no file and no packaged instance {text!r}; `plan instances` lists those.")
    return load_packaged(text).replace(**on.for_packaged())


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
