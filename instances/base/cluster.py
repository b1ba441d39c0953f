"""What the caller says about the cluster, in place of what a problem says: files and packaged problems alike."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from .amounts import as_written
from .errors import InputError, UsageError
from .quantities import written_bytes

if TYPE_CHECKING:
    from ..networks.profile.options import ProfileOptions
    from .kind import Kind


# Seconds of each time unit that rates per second can be turned into.
SECONDS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6), "ns": Fraction(1, 10**9)}


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a caller says of the devices and their links. None leaves a field as the file has it; infinite memory stands
    for no limit."""

    devices: int | None = None
    cpus: int | None = None
    memory_bytes: float | None = None
    bandwidth: float | None = None
    cpu_slowdown: float | None = None
    training: bool | None = None
    batch: int | None = None
    levels: Sequence[tuple[int, float]] | None = None
    """Devices and bandwidth of each level, the innermost first; empty: a flat network."""
    time_unit: str | None = None
    profile: ProfileOptions | None = None
    """How a profile or a table becomes a problem."""
    gpus: tuple[tuple[int, str], ...] | None = None
    """Which known GPUs the devices are: a number and a name for each type; None: nobody has said."""

    def to_json(self) -> dict[str, Any]:
        """What is given, as the command line and suites name it: `memory` 40GB, `levels` 4x300GB/s,2x12GB/s."""
        options = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in _WRITTEN}
        options |= {
            "memory": _size(self.memory_bytes),
            "bandwidth": _rate(self.bandwidth),
            "levels": _levels(self.levels),
        }
        if self.gpus is not None:
            options["devices"] = ",".join(f"{count}x{name}" for count, name in self.gpus)
        options["inference"] = True if self.training is False else None
        if self.profile is not None:
            options |= {name: getattr(self.profile, name) for name in self.profile.given()}
        fields = {name: value for name, value in options.items() if value is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


# Fields that are written otherwise than they are held.
_WRITTEN = ("memory_bytes", "bandwidth", "levels", "training", "profile", "gpus")


def _size(amount: float | None) -> str | None:
    return "none" if amount == math.inf else None if amount is None else written_bytes(amount)


def _rate(amount: float | None) -> str | None:
    return None if amount is None or amount == math.inf else f"{written_bytes(amount)}/s"


def _levels(levels: Sequence[tuple[int, float]] | None) -> str | None:
    return None if levels is None else ",".join(f"{count}x{_rate(rate)}" for count, rate in levels) or "none"


def spelled(name: str) -> str:
    """A field of a cluster or of a profile's options as it is typed."""
    return ("--option " if name in OF_ONE_SOURCE else "--") + name.replace("_", "-")


# Fields of staging problems alone, but for `levels`, which training problems have as well.
STAGING_OPTIONS = ("levels", "time_unit")
OF_ONE_SOURCE = frozenset(
    ["cpu_slowdown", "time_unit", "in_flight", "efficiency", "whole_layers", "bytes_per_parameter"]
)
"""What one source of problems alone takes: on the command line it is given as `--option NAME=VALUE`."""
# Fields that say how the times of a profile or a table are made, with their options.
PROFILE_OPTIONS = {"bandwidth": "--bandwidth", "cpu_slowdown": "--option cpu-slowdown", "training": "--inference"}


def refuse_others(kind: Kind[Any, Any], cluster: Cluster, also: Collection[str] = ()) -> None:
    """Raise a UsageError where the cluster says what problems of this kind do not have; `cpus` may be 0 everywhere."""
    refuse_profile_options(kind, cluster)
    given = [
        name for name in Cluster.__dataclass_fields__ if name != "profile" and getattr(cluster, name) is not None
    ]
    for name in given:
        if name not in (*kind.cluster, *also) and not (name == "cpus" and cluster.cpus == 0):
            raise UsageError(_refusal(name, kind.runs_on))


def refuse_profile_options(kind: Kind[Any, Any], cluster: Cluster) -> None:
    """Raise a UsageError where options of profiles are given: a problem has its kind and its costs already."""
    options = cluster.profile
    if options is None:
        return
    if options.kind not in (None, kind.name):
        raise UsageError(f"--kind is {options.kind}, but the problem is a {kind.name}; give --kind {kind.name}.")
    given = next((name for name in options.given() if name != "kind"), None)
    if given is not None:
        option = spelled(given)
        raise UsageError(
            f"{option} is for profiles and tables: this problem already holds its costs; drop {option}."
        )


def _refusal(name: str, runs_on: str) -> str:
    """A sentence for the user, where the field `name` of a cluster means nothing for a problem; `runs_on` says on what
    the problem runs."""
    refusals = {
        "gpus": "--devices names GPUs, and this problem already holds its times; give the number of devices alone.",
        "levels": "--levels is for staging and training problems: this one is neither; drop --levels.",
        "cpus": f"--cpus is for placement problems: {runs_on} alone; drop --cpus.",
        "batch": "--batch is for staging, graph-pipeline, schedule and training problems: this one has no "
        "micro-batches; drop --batch.",
    }
    if name in refusals:
        return refusals[name]
    if name in STAGING_OPTIONS:
        return f"{spelled(name)} is for staging problems: this one is none; drop {spelled(name)}."
    option = PROFILE_OPTIONS[name]
    return f"{option} is for profiles and tables: this problem already holds its times; drop {option}."


def changes(kind: Kind[Any, Any], cluster: Cluster) -> dict[str, Any]:
    """New values for fields of the problem, by their names; what the kind does not have is refused."""
    refuse_others(kind, cluster)
    values = {name: getattr(cluster, name) for name in kind.cluster if getattr(cluster, name) is not None}
    return {kind.cluster[name]: None if value == math.inf else value for name, value in values.items()}


def per_unit(rate: float, time_unit: str) -> float:
    """A rate in bytes per second as bytes per time unit, computed with decimals."""
    return rate if rate == math.inf else float(as_written(rate) * SECONDS[time_unit])


# ---- figures that hardware can have -------------------------------------------------------------------
# One a million times off was meant in another unit, and is asked back.
#
# Only amounts that are bytes and seconds for sure are checked: those of named GPUs, and of networks whose own sizes are
# real. Small examples count in units of their own.


# Powers of ten by which people miss a unit, the likeliest first.
POWERS = (9, 12, 6, 3, -9, -12, -6, -3)


@dataclass(frozen=True, slots=True)
class Figure:
    """What one figure of hardware can be, and what is usual."""

    unit: str
    least: float
    most: float
    usual: tuple[float, float]
    written: tuple[str, float]
    """The unit in which people state it, and how many of `unit` that is."""
    readable: bool = True
    """Is it read with that unit? Otherwise as a number of `unit` alone."""

    def meant(self, value: float) -> float | None:
        """The usual figure of the same digits; None: there is none."""
        low, high = self.usual
        return next((value * 10.0**power for power in POWERS if low <= value * 10.0**power <= high), None)


MEMORY = Figure("bytes", 1e6, 1e15, (1e9, 1e12), ("GB", 1e9))
LINK = Figure("bytes a second", 1e6, 1e15, (1e9, 2e12), ("GB/s", 1e9))
MEMORY_RATE = Figure("bytes a second", 1e8, 1e16, (1e11, 5e13), (" GB/s", 1e9), readable=False)
FLOPS = Figure("operations a second", 1e9, 1e19, (1e13, 5e16), (" TFLOP/s", 1e12), readable=False)
LATENCY = Figure("seconds", 0.0, 1.0, (1e-7, 1e-4), (" us", 1e-6), readable=False)


def check_figure(field: str, value: float | None, figure: Figure) -> None:
    """Refuse a figure that no hardware has, with the one that may be meant; no limit (None, infinity) and 0 may be."""
    if value is None or value in (0, math.inf) or figure.least <= value <= figure.most:
        return
    meant = figure.meant(value)
    if meant is None:
        remedy = f"give a figure from {figure.least:g} to {figure.most:g} {figure.unit}"
    else:
        unit, factor = figure.written
        stated, number = f"{meant / factor:g}{unit}", f"{meant:g}"
        remedy = (
            f"write {stated} if you mean {meant:,.0f} {figure.unit}"
            if figure.readable
            else f"write {number} if you mean {stated}"
        )
    raise InputError(field, f"is {value:g} {figure.unit}, which no hardware has", remedy)


def check_cluster(cluster: Cluster) -> None:
    """Refuse memory and links that no hardware has; names are those of the command line."""
    check_figure("--memory", cluster.memory_bytes, MEMORY)
    check_figure("--bandwidth", cluster.bandwidth, LINK)
    check_links("--levels", (rate for _, rate in cluster.levels or ()))


def check_links(field: str, rates: Iterable[float]) -> None:
    for rate in rates:
        check_figure(field, rate, LINK)


def is_real(bytes_held: float | None) -> bool:
    """Is so much memory counted in bytes? Small examples count in units of their own."""
    return bytes_held is not None and MEMORY.least <= bytes_held < math.inf
