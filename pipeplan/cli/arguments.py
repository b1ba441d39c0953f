"""Arguments that several commands share: the instance, the cluster that overrides the file's, the output."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.errors import InputError
from ..instances.lookup import Cluster as Cluster
from ..instances.lookup import load_with_notes
from ..show.console import say_note
from . import quantities
from .profile_options import PROFILE_OPTIONS, profile_options
from .signatures import with_options

if TYPE_CHECKING:
    from ..instances.kinds import Problem

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
ExactBatches = Annotated[
    bool | None,
    typer.Option(
        "--exact-batches/--no-exact-batches",
        help="Staging problems: the replicas of all stages are exactly as many as --batch.",
        rich_help_panel=CLUSTER,
        show_default=False,
    ),
]
Levels = Annotated[
    Any,
    typer.Option(
        "--levels",
        parser=quantities.levels,
        metavar="LEVELS",
        help="Staging problems: devices within devices, the innermost first: 8x300GB/s,2x25GB/s; or none.",
        rich_help_panel=CLUSTER,
        show_default=False,
    ),
]
TimeUnit = Annotated[
    str | None,
    typer.Option(
        "--time-unit",
        metavar="UNIT",
        help="Staging problems that name none: s, ms, us or ns; rates per second are turned into it.",
        rich_help_panel=CLUSTER,
        show_default=False,
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
    bool | None, typer.Option("--inference", help="Profiles: leave out the backward passes.", rich_help_panel=CLUSTER)
]


_CLUSTER_OPTIONS: Mapping[str, Any] = {
    "devices": Devices,
    "cpus": Cpus,
    "memory": Memory,
    "bandwidth": Bandwidth,
    "cpu_slowdown": CpuSlowdown,
    "inference": Inference,
    "batch": Batch,
    "exact_batches": ExactBatches,
    "levels": Levels,
    "time_unit": TimeUnit,
    **PROFILE_OPTIONS,
}


def load_instance(text: str, on: Cluster) -> Problem:
    """The problem in a file, or the packaged one of that name; what a profile became is said on stderr."""
    lowered = load_with_notes(text, on)
    for note in lowered.notes:
        say_note(note)
    return lowered.problem  # type: ignore[no-any-return]


def with_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of the cluster, which arrive together as its argument `on`."""
    parameters = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _CLUSTER_OPTIONS.items()
    )
    return with_options(command, "on", parameters, _cluster)


def _cluster(given: dict[str, Any]) -> Cluster:
    fields = {name: value for name, value in given.items() if name not in ("memory", "inference", *PROFILE_OPTIONS)}
    return Cluster(
        **fields,
        memory_bytes=given.get("memory"),
        training=False if given.get("inference") else None,
        profile=profile_options({name: value for name, value in given.items() if name in PROFILE_OPTIONS}),
    )


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
