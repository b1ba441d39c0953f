"""Arguments that several commands share: the instance, the cluster that overrides the file's, the output."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ..instances.errors import InputError
from ..instances.lookup import Cluster as Cluster
from ..instances.lookup import load_instance as load_instance
from . import quantities
from .signatures import one_of, option, shared

CLUSTER = "Cluster (overrides the file's; required for profiles, which have none)"

InstanceArgument = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="A file, or the name of a packaged instance.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]

# ---- the cluster ---------------------------------------------------------------------------------------

_option = partial(option, rich_help_panel=CLUSTER)
CLUSTER_OPTIONS = (
    _option("devices", int, help="Accelerators."),
    _option("cpus", int, help="CPUs."),
    _option(
        "memory_bytes",
        float,
        "--memory",
        parser=quantities.size_or_none,
        metavar="SIZE",
        help="Memory of an accelerator: 8GiB, or none for no limit.",
    ),
    _option(
        "bandwidth",
        float,
        parser=quantities.rate,
        metavar="RATE",
        help="Of the links, for files that hold bytes: 25GiB/s.",
    ),
    _option("cpu_slowdown", float, help="Profiles: CPU time per accelerator time."),
    _option("inference", bool, "--inference", help="Profiles: leave out the backward nodes."),
    _option(
        "batch", int, help="Micro-batches in a batch of a staging problem, samples in one of a graph pipeline."
    ),
    _option(
        "exact_batches",
        bool,
        "--exact-batches/--no-exact-batches",
        help="Staging problems: the replicas of all stages are exactly as many as --batch.",
    ),
    _option(
        "levels",
        Any,
        parser=quantities.levels,
        metavar="LEVELS",
        help="Staging problems: devices within devices, the innermost first: 8x300GB/s,2x25GB/s; or none.",
    ),
    _option(
        "time_unit",
        str,
        metavar="UNIT",
        help="Staging problems that name none: s, ms, us or ns; rates per second are turned into it.",
    ),
)


def _cluster(given: dict[str, Any]) -> Cluster:
    training = False if given.pop("inference", False) else None
    return Cluster(**given, training=training)


with_cluster = shared("on", CLUSTER_OPTIONS, _cluster)
"""The command with options of the cluster, which arrive together as its argument `on`."""

# ---- the output ----------------------------------------------------------------------------------------


def writable(parameter: typer.CallbackParam, path: str | None) -> str | None:
    """Refuse a path that cannot be written before the work is done, not after it."""
    if path is not None:
        name = parameter.opts[0] if parameter.opts[0].startswith("-") else str(parameter.metavar)
        _check_output(name, path, Path(path).parent)
    return path


def _check_output(option: str, path: str, folder: Path) -> None:
    if Path(path).is_dir():
        raise InputError(option, f"{path} is a folder", "name a file")
    if not folder.is_dir():
        raise InputError(option, f"{path} lies in a folder that does not exist", f"create {folder} first")
    if not os.access(folder, os.W_OK):
        raise InputError(option, f"{path} lies in a folder that cannot be written", "choose another folder")


def drawable(parameter: typer.CallbackParam, path: str | None) -> str | None:
    """The same of a picture, by its ending as well."""
    from ..show.pictures.canvas import format_of

    if writable(parameter, path) is not None:
        format_of(str(path))
    return path


def output_file(
    help: str, *flags: str, panel: str | None = None, check: Callable[..., str | None] = writable
) -> Any:
    """An option that names a file to be written."""
    return typer.Option(*flags, metavar="FILE", help=help, rich_help_panel=panel, callback=check)


Picture = Annotated[str | None, output_file("Draw the plan: .svg or .png.", "--picture", check=drawable)]

PROGRESS_MODES = ("auto", "json", "none")


def _known_mode(mode: str | None) -> str | None:
    return None if mode is None else one_of("--progress", mode, PROGRESS_MODES)


def progress(help: str, panel: str | None = None) -> Any:
    """The option of everything that takes a while."""
    modes = "|".join(PROGRESS_MODES)
    return typer.Option("--progress", metavar=modes, help=help, rich_help_panel=panel, callback=_known_mode)
