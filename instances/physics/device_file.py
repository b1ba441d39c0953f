"""Devices that a file describes: figures that somebody writes in TOML, or those that `plan calibrate` measured and
wrote as JSON. Both have a table `device`, and beside it `efficiencies`, of which people write those that they know.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from ..base.checks import MAX_DEVICES, check_positive, check_text, check_whole
from ..base.cluster import FLOPS, LATENCY, LINK, MEMORY, MEMORY_RATE, Figure, check_figure
from ..base.errors import InputError, errors_in, show
from ..base.fields import Reader, as_number, as_object, by_key, checked, read_record, refuse_unknown, require
from ..base.json_file import read_json, read_toml
from ..base.quantities import BYTES, BYTES_PER_SECOND, FLOPS_PER_SECOND, MIB, TIMES, parse_quantity, several
from .efficiencies import ABOUT, Efficiencies
from .hardware import DEVICE_FILES, GPUS, KnownGpu
from .optimizers import PRECISIONS

# How the number of devices is said where a file describes them.
_COUNT = re.compile(r"\s*\d+(\s*x\s*\d+)?\s*", re.ASCII)


def devices_of_file(devices: str, path: str | os.PathLike[str]) -> str:
    """So many devices, 8 or 8x8, of the file at `path`, as `devices_and_gpu` reads them."""
    file = os.fspath(path)
    if not file.endswith(DEVICE_FILES):
        raise InputError(
            "gpu",
            f"is {show(file)}, no file that ends in {' or '.join(DEVICE_FILES)}",
            "name a file that describes a device; GPUs with a name go into devices, as in 8xh100-80gb",
        )
    if _COUNT.fullmatch(devices) is None:
        raise InputError(
            "devices",
            f"are {show(devices)}, and {file} describes the device",
            "give their number alone, as 8 or 8x8",
        )
    return f"{devices}x{file}"


def _amount(figure: Figure, units: Mapping[str, float], example: str) -> Reader:
    """The reader of an amount, a number or a text with its unit, that hardware can have."""

    def read(where: str, value: object) -> float:
        if isinstance(value, str):
            try:
                value = parse_quantity(value, units, example)
            except ValueError as error:
                problem, _, remedy = str(error).rstrip(".").partition("; ")
                raise InputError(where, f"is no amount: {problem}", remedy) from None
        amount = as_number(where, value)
        if figure is not LATENCY or amount < 0:
            check_positive(where, amount, f'give an amount above 0, as "{example}"')
        check_figure(where, amount, figure)
        return amount

    return read


@dataclass(frozen=True, slots=True)
class _Described:
    """The table `device` of a file, with rates for each device and direction."""

    name: str
    memory_bytes: float
    flops: Mapping[str, float]
    memory_rate: float
    node: int | None = None
    """Devices that `inside` links; None: all of them."""
    inside: float | None = None
    between: float | None = None
    inside_seconds: float = 0.0
    between_seconds: float = 0.0
    link_rate: float | None = None
    """What `plan calibrate` measured of links, in place of `inside`."""


_link = _amount(LINK, BYTES_PER_SECOND, "450GB/s")
_latency = _amount(LATENCY, TIMES, "2us")
_read_device = partial(
    read_record,
    _Described,
    name=checked(check_text),
    memory_bytes=_amount(MEMORY, BYTES, "80GiB"),
    flops=by_key(_amount(FLOPS, FLOPS_PER_SECOND, "989TFLOP/s")),
    memory_rate=_amount(MEMORY_RATE, BYTES_PER_SECOND, "3350GB/s"),
    node=checked(partial(check_whole, most=MAX_DEVICES)),
    inside=_link,
    between=_link,
    link_rate=_link,
    inside_seconds=_latency,
    between_seconds=_latency,
)


def device_in_file(path: str, count: int, in_node: int | None) -> KnownGpu:
    """The device that a file describes, as one of `count`, with `in_node` in each node; None: as the file says."""
    is_toml = path.endswith(".toml")
    with errors_in(path):
        top = as_object("", read_toml(path) if is_toml else read_json(path))
        if is_toml:
            refuse_unknown("", top, ("device", "efficiencies"))
        own = _read_device("device", require("", top, "device"))
        stated = by_key(as_number)("efficiencies", top.get("efficiencies", {}))
        refuse_unknown("efficiencies", stated, ABOUT)
        Efficiencies(**stated)
        refuse_unknown("device.flops", own.flops, PRECISIONS)
        if not own.flops:
            raise InputError("device.flops", "is empty", 'give the peak of a format, as bf16 = "989TFLOP/s"')
        if own.name in GPUS and is_toml:
            raise InputError(
                "device.name", f"is {show(own.name)}, which is known by its data sheet", "choose another"
            )
        if own.name in GPUS:
            return replace(GPUS[own.name], stated=stated)
        node = in_node or own.node or count
        inside = own.link_rate if own.inside is None else own.inside
        between = inside if own.node is own.between is None else own.between
        if own.between is not None and in_node is own.node is None:
            raise InputError("device.node", "is missing, and between is given", "give the devices of a node, as 8")
        if (count > 1 and inside is None) or (count > node and between is None):
            raise InputError(
                f"device.{'inside' if inside is None else 'between'}",
                f"is missing, and there are {several(count, 'device')}",
                'give the rate of their links, as "50GB/s", or measure it with plan calibrate --devices 2',
            )
    return KnownGpu(
        own.name,
        own.memory_bytes / MIB,
        own.flops,
        own.flops.get("bf16", max(own.flops.values())),
        own.memory_rate,
        node,
        # One device has no links, and one node none between nodes.
        inside or own.memory_rate,
        between or inside or own.memory_rate,
        dict.fromkeys(("memory", "flops", "memory_rate", "links"), f"file: {path}"),
        own.inside_seconds,
        own.between_seconds,
        stated=stated,
    )
