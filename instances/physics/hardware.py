"""GPUs, CPUs and links by name: memory, peak rates and usual links.

The figures of GPUs and their sources are in `gpus.toml`, which says how to add one: everything else reads `GPUS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..base.checks import MAX_DEVICES
from ..base.errors import InputError, UsageError, did_you_mean, show
from ..base.json_file import read_toml
from ..base.quantities import GIB, MIB, several, whole_number
from .efficiencies import CAUTIOUS, MEASURED, Efficiencies

_G, _T = 1e9, 1e12

# The steps of a ring as NVIDIA's library of collectives estimates them (NCCL 2.27, src/graph/tuning.cc): inside a node
# over NVLink 1.9 us, over PCIe 2.5 us, and between nodes 4 us, all with its protocol of 128 bytes a line.
NVLINK_SECONDS, PCIE_SECONDS, NETWORK_SECONDS = 1.9e-6, 2.5e-6, 4e-6


# GB/s in one direction. PCI-SIG: 16 lanes at 8 and 16 GT/s with 128b/130b coding. NVIDIA: 600 GB/s per A100 and 900
# per H100 in both directions together; these join accelerators only, so they fit clusters whose plans use no CPU.
LINK_RATES = {"pcie3-x16": 15.75, "pcie4-x16": 31.5, "nvlink3": 300, "nvlink4": 450}


# Which share of the peak a kernel reaches, by the name of an efficiency.
KernelShare = Literal["products", "grouped_products", "attention"]
PRODUCTS: KernelShare = "products"


@dataclass(frozen=True, slots=True)
class Hardware:
    """A device as the roofline rule sees it: a kernel takes max(operations / (peak x efficiency), bytes / memory rate),
    and some time to start. GPUs have these shares from the table that training configurations use as well."""

    name: str
    single_flops_per_s: float
    """Peak for numbers of 4 bytes."""
    half_flops_per_s: float
    """Peak for numbers of 2 bytes."""
    memory_bytes_per_s: float
    """What kernels reach, not what the data sheet says."""
    memory_bytes: float
    efficiency: float
    """Share of the peak that large dense kernels reach."""
    launch_s: float
    """Time to start one kernel."""
    grouped_products: float | None = None
    """Share of the peak in products of experts; None: as in others."""
    attention: float | None = None
    """Share of the peak in fused attention; None: as in products."""

    def peak_flops_per_s(self, element_bytes: int) -> float:
        return self.half_flops_per_s if element_bytes <= 2 else self.single_flops_per_s

    def seconds(
        self, flops: float, moved_bytes: float, element_bytes: int = 4, share: KernelShare = PRODUCTS
    ) -> float:
        """Time of one kernel by the roofline rule; `share` names the share of the peak that it reaches."""
        own = None if share == PRODUCTS else getattr(self, share)
        arithmetic = flops / (self.peak_flops_per_s(element_bytes) * (self.efficiency if own is None else own))
        return max(arithmetic, moved_bytes / self.memory_bytes_per_s) + self.launch_s


# Dense operations a second of an A100 in 16 bits.
A100_FLOPS = 312e12


def unmeasured(half_flops: float) -> Efficiencies:
    """What is assumed of a GPU of this peak without published runs."""
    return Efficiencies(**CAUTIOUS) if half_flops > A100_FLOPS else Efficiencies()


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """One GPU with the node that it usually stands in."""

    name: str
    memory_mib: float
    """Memory that a program can use, as the driver reports it."""
    flops: Mapping[str, float]
    """Dense operations a second, by number format."""
    single_flops: float
    """Dense operations a second on numbers of 4 bytes: as TF32 in tensor cores, where the GPU has these."""
    memory_rate: float
    """Bytes that the GPU reads or writes in a second."""
    node: int
    """Number of GPUs in a node, which are linked as closely as possible."""
    inside: float
    """Bytes a second inside the node, for each GPU and direction."""
    between: float
    """Bytes a second between nodes, for each GPU and direction: its share of the network cards."""
    sources: Mapping[str, str]
    """Where memory, flops, memory_rate and links were published, in words."""
    inside_seconds: float = NVLINK_SECONDS
    between_seconds: float = NETWORK_SECONDS
    tray: int | None = None
    """Number of GPUs in a part of a node that a job may leave out; None: jobs take whole nodes."""
    measured_as: str | None = None
    """Family of GPUs whose published runs give the usual efficiencies (`efficiencies.MEASURED`); None: no runs."""
    stated: Mapping[str, float] = field(default_factory=dict)
    """Efficiencies that the file of this device states; they count for more than a framework's."""

    @property
    def memory_bytes(self) -> float:
        """Bytes of memory that a program can use."""
        return self.memory_mib * MIB

    @property
    def half_flops(self) -> float:
        """Dense operations a second on numbers of 2 bytes."""
        return self.flops["bf16" if "bf16" in self.flops else "fp16"]

    @property
    def usual(self) -> Efficiencies:
        """The usual efficiencies; `assumed_of` says where they are those of another GPU."""
        family = MEASURED.get(self.measured_as or "")
        return unmeasured(self.half_flops) if family is None else Efficiencies(**family.changes)

    @property
    def roofline(self) -> Hardware:
        usual = self.usual
        return Hardware(
            self.name, self.single_flops, self.half_flops, usual.memory * self.memory_rate, self.memory_bytes,
            usual.products, usual.launch_seconds, usual.grouped_products, usual.attention,
        )  # fmt: skip

    def levels(self, devices: int) -> tuple[tuple[int, float, float], ...]:
        """The usual links among so many GPUs, inside nodes first: devices, bytes a second and seconds of a step.

        GPUs that cannot be divided into nodes of equal size are refused.
        """
        count = self._in_node(devices)
        links = [(count, self.inside, self.inside_seconds)]
        if devices > count:
            links.append((devices // count, self.between, self.between_seconds))
        return tuple(links)

    def _in_node(self, devices: int) -> int:
        """Number of GPUs of each node that take part."""
        if devices <= self.node:
            return devices
        # A job that took less than half of every node would use the slow links between nodes most.
        sizes = range(self.node, self.node // 2, -(self.tray or self.node))
        count = next((size for size in sizes if devices % size == 0), None)
        if count is None:
            raise InputError(
                "devices",
                f"are {devices} {self.name}, which do not fill nodes of {several(self.node, 'GPU')}",
                f"give a multiple of {self.node}, or say with --levels which GPUs are linked how",
            )
        return count


def _known(name: str, given: Mapping[str, Any]) -> KnownGpu:
    """A GPU as `gpus.toml` describes it."""
    return KnownGpu(
        name,
        given["memory_mib"],
        {precision: peak * _T for precision, peak in given["tflops"].items()},
        given["single_tflops"] * _T,
        given["memory_gb_per_s"] * _G,
        given["node"],
        given["inside_gb_per_s"] * _G,
        given["between_gb_per_s"] * _G,
        given["sources"],
        PCIE_SECONDS if given.get("pcie") else NVLINK_SECONDS,
        tray=given.get("tray"),
        measured_as=given.get("measured_as"),
    )


_TABLE = read_toml(Path(__file__).with_name("gpus.toml"))
GPUS: Mapping[str, KnownGpu] = {name: _known(name, given) for name, given in _TABLE.items()}
# Other names that people use, and the names in `GPUS`.
_CALLED = {other: name for name, given in _TABLE.items() for other in given.get("called", ())}


DEVICES: Mapping[str, Hardware] = {
    **{name: gpu.roofline for name, gpu in GPUS.items()},
    # Intel Xeon Platinum 8380: 40 cores x 2 AVX-512 units x 16 lanes x 2 x 2.3 GHz, 8 x DDR4-3200. Shorter numbers gain
    # nothing: this generation has no arithmetic for them. That kernels reach half of its peak is an assumption.
    "xeon-8380": Hardware("xeon-8380", 5.9e12, 5.9e12, 204.8e9, 512.0 * GIB, efficiency=0.5, launch_s=1e-6),
}

# Words that people add to a name and that change nothing.
_NOISE = re.compile(r"\b(nvidia|amd|tesla|geforce|instinct|dgx|hgx|sxm[0-9]?|hbm[0-9]?e?|nvl[0-9]*)\b")

# Files that describe a device, as `device_file` reads them.
DEVICE_FILES = (".toml", ".json")
# Nodes, GPUs of each, and their name; or all GPUs, and their name.
_DEVICES = re.compile(r"\s*(?:(?P<nodes>\d{1,9})\s*x\s*)?(?P<each>\d{1,9})\s*x\s*(?P<name>\S.*)", re.ASCII)


def known_gpu(name: str) -> KnownGpu:
    """The GPU that somebody means: capitals, the maker's name and a missing memory size do not matter."""
    word = re.sub(r"[\s_-]+", "-", _NOISE.sub(" ", name.lower().replace("-", " ").replace("_", " ")).strip())
    meant = [own for own in GPUS if word and re.fullmatch(rf"{re.escape(word)}(gb|-.*)?", own)]  # an A10 is no A10G
    meant = [word] if word in GPUS else [_CALLED[word]] if word in _CALLED else meant
    if len(meant) > 1:
        raise UsageError(f"The GPU {show(name)} has several sizes; say {' or '.join(meant)}.")
    if not meant:
        raise UsageError(
            f"There is no GPU named {show(name)}{did_you_mean(word, _of_the_same_number(word))}; "
            f"choose one of {', '.join(GPUS)}."
        )
    return GPUS[meant[0]]


def _of_the_same_number(word: str) -> list[str]:
    """GPUs whose names have the word's first number: an A10G is no misspelt A100."""
    number = re.search(r"\d+", word)
    return [name for name in GPUS if number is not None and number[0] in re.findall(r"\d+", name)[:1]]


def usual_of(gpu: str) -> Efficiencies:
    """The usual efficiencies on the GPU of that name."""
    return known_gpu(gpu).usual


def family_of(gpu: str) -> str:
    """The family with which a GPU was measured, as `MEASURED` names it; else its own name."""
    known = GPUS.get(gpu)
    return (known and known.measured_as) or gpu


def assumed_of(gpu: str, half_flops: float) -> str | None:
    """What is assumed of a GPU of this peak without published runs, as a sentence; None where nothing is."""
    if gpu in GPUS and GPUS[gpu].measured_as is not None:
        return None
    measured = ", ".join(name for name, known in GPUS.items() if known.measured_as is not None)
    usual = unmeasured(half_flops)
    why = "a cautious assumption" if usual != Efficiencies() else "as on an A100"
    how = f"very large matrix products are assumed to reach {usual.products:.0%} of its peak, {why}"
    return f"there are no published runs on {gpu}, so {how} (runs were published on {measured})"


def devices_given(devices: int | str | None) -> dict[str, Any]:
    """The fields of a cluster by a number of devices, or by GPUs with their names: 2xa100-80gb,2xt4-16gb."""
    if not isinstance(devices, str):
        return {"devices": devices}
    count = whole_number(devices.strip())
    if count is not None:
        return {"devices": count}
    gpus = tuple((count, known.name) for count, known in devices_by_gpu(devices))
    for _, name in gpus:
        if name not in GPUS:
            raise InputError(
                "devices",
                f"are {show(devices)}, and profiles know no devices of files",
                "give GPUs by name, or plan with plan configure, which reads such files",
            )
    return {"devices": sum(count for count, _ in gpus), "gpus": gpus}


def devices_by_gpu(text: str) -> tuple[tuple[int, KnownGpu], ...]:
    """From `2xa100-80gb,2xt4`: how many GPUs of which kind, each kind once."""
    gpus = tuple(devices_and_gpu(part) for part in text.split(","))
    names = [gpu.name for _, gpu in gpus]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise InputError(
            "devices",
            f"name {twice} twice",
            f"add them up, as in {sum(n for n, g in gpus if g.name == twice)}x{twice}",
        )
    return gpus


def devices_and_gpu(text: str) -> tuple[int, KnownGpu]:
    """From `64xh100-80gb`: how many GPUs, and which; from `8x8xh100-80gb` with the second number in each node."""
    match = _DEVICES.fullmatch(text)
    if not match:
        raise InputError("devices", f"are {show(text)}", 'give their number and name, as in "64xh100-80gb"')
    nodes, each, name = int(match["nodes"] or 1), int(match["each"]), match["name"]
    if not 0 < nodes * each <= MAX_DEVICES:
        raise InputError("devices", f"are {nodes * each}", f"give a number from 1 to {MAX_DEVICES}")
    node = each if match["nodes"] else None
    if name.endswith(DEVICE_FILES):
        from .device_file import device_in_file  # few people describe a device of their own

        return nodes * each, device_in_file(name, nodes * each, node)
    gpu = known_gpu(name)
    return nodes * each, gpu if node is None else replace(gpu, node=node)
