"""GPUs, CPUs and links by name: memory, peak rates and usual links, each figure once and with its source.

Memory is what the driver reports (`nvidia-smi`, `rocm-smi`), which is less than the name says. Peaks are dense: data
sheets that count zeros state twice as much. For numbers of 4 bytes the peak is that of TF32 on GPUs that have it.
Bandwidths are for one direction; data sheets of NVLink add up both.

To add a GPU, add a record to `_KNOWN`: everything else reads `GPUS`. `measured_as` names the family of GPUs whose
published runs give its usual efficiencies; a GPU without runs takes those of the A100, and answers say so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..base.checks import MAX_DEVICES
from ..base.errors import InputError, UsageError, did_you_mean, show
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


# Dense TFLOP/s by number format.
_HOPPER = {"bf16": 989.4, "fp16": 989.4, "fp8": 1_978.9}
_WHITE_PAPER = "NVIDIA H100 white paper (2022), SXM5: 989.4 TFLOP/s dense, fp8 1,978.9"
_V100 = "NVIDIA V100 data sheet (2020), "
_PCIE3, _PCIE4, _NVLINK3, _NVLINK4 = LINK_RATES.values()


def _smi(mib: int, chip: str) -> tuple[float, str]:
    """MiB of memory, and where they were published."""
    return mib, f"nvidia-smi reports {mib} MiB for {chip}"


def _gpu(
    name: str, memory: tuple[float, str], flops: Mapping[str, float], single: float, rate: float, node: int,
    inside: float, between: float, sources: tuple[str, str, str], **more: Any,
) -> KnownGpu:  # fmt: skip
    """A GPU by MiB, TFLOP/s and GB/s; `sources` are those of flops, memory_rate and links."""
    named = dict(zip(("memory", "flops", "memory_rate", "links"), (memory[1], *sources), strict=True))
    peaks = {precision: peak * _T for precision, peak in flops.items()}
    rates = (rate * _G, node, inside * _G, between * _G)
    return KnownGpu(name, memory[0], peaks, single * _T, *rates, named, **more)


def _blackwell(
    name: str, memory: tuple[float, str], dense: float, fp8: float, rate: float, node: int, network: float,
    sheet: str, system: str, **more: Any,
) -> KnownGpu:  # fmt: skip
    card = "ConnectX-8, 800 Gb/s each" if network == 100 else "ConnectX-7, 400 Gb/s each"
    peaks = f"NVIDIA {sheet} data sheet, {system}: half of what it states with zeros, for one GPU"
    sources = (peaks, f"the same: {rate / 1000:g} TB/s", f"the same: NVLink 1.8 TB/s both ways; {card}")
    flops = {"bf16": dense, "fp16": dense, "fp8": fp8}
    return _gpu(name, memory, flops, dense / 2, rate, node, 900, network, sources, **more)


# fmt: off
_KNOWN = (
    _gpu("v100-pcie-16gb", _smi(16_160, "Tesla V100-PCIE-16GB (driver 450 to 510)"), {"fp16": 112}, 14, 900, 8,
         _PCIE3, 1.5625, (_V100 + "PCIe: 14 TFLOP/s single, 112 in tensor cores; no bf16", "the same: 900 GB/s",
          "the same: PCIe Gen3 x16; servers of 8 GPUs with one port of 100 Gb/s, an assumption"),
         inside_seconds=PCIE_SECONDS),
    *(_gpu(f"v100-{gib}gb", _smi(mib, f"Tesla V100-SXM2-{gib}GB (driver 450 to 510)"), {"fp16": 125}, 15.7, 900,
           8, 150, 6.25, (_V100 + "SXM2: 15.7 TFLOP/s single, 125 in tensor cores; no bf16", "the same: 900 GB/s",
            "the same: NVLink 300 GB/s both ways; DGX-1 data sheet: four EDR ports of 100 Gb/s for 8 GPUs"))
      for gib, mib in ((16, 16_160), (32, 32_510))),
    *(_gpu(f"a100-{gib}gb", _smi(mib, f"A100-SXM4-{gib}GB (driver 450 to 510)"), {"bf16": 312, "fp16": 312}, 156, rate,
           8, _NVLINK3, 25, ("NVIDIA A100 data sheet (2021): 312 TFLOP/s dense", f"the same: {rate:,} GB/s",
            "the same: NVLink 600 GB/s both ways; DGX A100 data sheet: eight HDR ports of 200 Gb/s"),
           measured_as="a100") for gib, mib, rate in ((40, 40_536, 1_555), (80, 81_251, 2_039))),
    _gpu("h100-80gb", _smi(81_559, "NVIDIA H100 80GB HBM3"), _HOPPER, 494.7, 3_350, 8, _NVLINK4, 50,
         (_WHITE_PAPER, "NVIDIA H100 data sheet, SXM: 3.35 TB/s",
          "the same: NVLink 900 GB/s both ways; DGX H100 data sheet: eight NDR ports of 400 Gb/s"),
         measured_as="h100"),
    _gpu("h200-141gb", _smi(143_771, "NVIDIA H200"), _HOPPER, 494.7, 4_800, 8, _NVLINK4, 50,
         (f"the chip of the H100; {_WHITE_PAPER}", "NVIDIA H200 data sheet: 4.8 TB/s",
          "the same: NVLink 900 GB/s both ways; DGX H200 data sheet: eight NDR ports of 400 Gb/s"),
         measured_as="h100"),
    _gpu("h20-96gb", _smi(97_871, "NVIDIA H20"), {"bf16": 148, "fp16": 148, "fp8": 296}, 74, 4_000, 8, _NVLINK4, 50,
         ("NVIDIA H20 specification (2023): 148 TFLOP/s dense, TF32 74, fp8 296", "the same: 4 TB/s",
          "the same: NVLink 900 GB/s both ways; HGX H20 servers: eight NDR ports of 400 Gb/s")),
    _gpu("gh200-96gb", _smi(97_871, "NVIDIA GH200 with 96 GB of HBM3"), _HOPPER, 494.7, 4_000, 4, _NVLINK4, 25,
         (f"the chip of the H100; {_WHITE_PAPER}", "NVIDIA GH200 data sheet: 4 TB/s with HBM3",
          "Fusco et al., arXiv 2408.11556: nodes of four, 150 GB/s between any two; Slingshot 200 Gb/s each"),
         measured_as="h100"),
    _blackwell("b200-180gb", _smi(183_359, "NVIDIA B200"), 2_250, 4_500, 7_700, 8, 50, "Blackwell", "HGX B200",
               measured_as="b200"),
    _blackwell("gb200-186gb", _smi(189_471, "NVIDIA GB200"), 2_500, 5_000, 8_000, 72, 50, "Blackwell", "GB200 NVL72",
               tray=4, measured_as="b200"),
    _blackwell("b300", _smi(275_040, "NVIDIA B300 SXM6"), 2_250, 4_500, 7_700, 8, 100, "Blackwell Ultra", "HGX B300",
               measured_as="b300"),
    _blackwell("gb300", _smi(284_208, "NVIDIA GB300"), 2_500, 5_000, 8_000, 72, 100, "Blackwell Ultra", "GB300 NVL72",
               tray=4, measured_as="b300"),
    _gpu("l4", _smi(23_034, "NVIDIA L4"), {"bf16": 121, "fp16": 121, "fp8": 242.5}, 60, 300, 8, _PCIE4, 1.5625,
         ("NVIDIA L4 data sheet (2023): 242 TFLOP/s with zeros, 485 in fp8; half of these", "the same: 300 GB/s",
          "the same: PCIe Gen4 x16; AWS g6.48xlarge: 100 Gb/s for 8 GPUs"), inside_seconds=PCIE_SECONDS),
    _gpu("t4", _smi(15_109, "Tesla T4 (driver 450 to 510)"), {"fp16": 65}, 8.1, 320, 8, _PCIE3, 1.5625,
         ("NVIDIA T4 data sheet (2019): 65 TFLOP/s mixed precision; no bf16",
          "NVIDIA Turing architecture white paper: 320 GB/s",
          "the data sheet: PCIe Gen3 x16; AWS g4dn.metal: 100 Gb/s for 8 GPUs"), inside_seconds=PCIE_SECONDS),
    _gpu("rtx-3090", _smi(24_268, "GeForce RTX 3090 (driver 455 to 510)"), {"bf16": 71, "fp16": 71}, 35.6,
         936, 8, _PCIE4, 1.5625, ("NVIDIA GA102 white paper, appendix A: 71 TFLOP/s dense with fp32 sums",
          "the same: 936 GB/s", "PCIe Gen4 x16; servers of 8 GPUs with one port of 100 Gb/s, an assumption"),
         inside_seconds=PCIE_SECONDS),
    _gpu("a10g", _smi(23_028, "NVIDIA A10G"), {"bf16": 70, "fp16": 70}, 35, 600, 8, _PCIE4, 1.5625,
         ("NVIDIA A10G data sheet (2021): 70 TFLOP/s dense, TF32 35", "the same: 600 GB/s",
          "the same: PCIe Gen4 x16; AWS g5.48xlarge: 100 Gb/s for 8 GPUs"), inside_seconds=PCIE_SECONDS),
    _gpu("l40s", _smi(46_068, "NVIDIA L40S"), {"bf16": 362.1, "fp16": 362.1, "fp8": 724.1}, 183, 864, 8, _PCIE4, 6.25,
         ("NVIDIA L40S data sheet (2023): 362.05 TFLOP/s dense, TF32 183, fp8 twice as much", "the same: 864 GB/s",
          "the same: PCIe Gen4 x16; AWS g6e.48xlarge: 400 Gb/s for 8 GPUs"), inside_seconds=PCIE_SECONDS),
    _gpu("rtx-4090", _smi(24_564, "NVIDIA GeForce RTX 4090"), {"bf16": 165.2, "fp16": 165.2, "fp8": 330.3}, 82.6,
         1_008, 8, _PCIE4, 1.5625, ("NVIDIA Ada white paper, appendix A: 165.2 TFLOP/s dense with fp32 sums",
          "the same: 1,008 GB/s", "PCIe Gen4 x16; servers of 8 GPUs with one port of 100 Gb/s, an assumption"),
         inside_seconds=PCIE_SECONDS),
    _gpu("rtx-pro-6000", _smi(97_887, "NVIDIA RTX PRO 6000 Blackwell"), {"bf16": 503.8, "fp16": 503.8, "fp8": 1_007.6},
         251.9, 1_792, 8, 63, 6.25, ("NVIDIA RTX Blackwell PRO white paper: 503.8 TFLOP/s dense with fp32 sums",
          "the same: 1,792 GB/s", "PCIe Gen5 x16; servers of 8 GPUs with one port of 400 Gb/s, an assumption"),
         inside_seconds=PCIE_SECONDS),
    _gpu("mi300x", (206_141_652_992 / MIB, "rocm-smi reports 206,141,652,992 bytes"),
         {"bf16": 1_307.4, "fp16": 1_307.4, "fp8": 2_614.9}, 653.7, 5_300, 8, 448, 50,
         ("AMD Instinct MI300X data sheet (2023): 1,307.4 TFLOP/s dense, fp8 2,614.9", "the same: 5.3 TB/s",
          "AMD MI300X platform data sheet: seven links of 64 GB/s each way; eight ports of 400 Gb/s")),
    _gpu("mi325x", (256e9 / MIB, "AMD Instinct MI325X data sheet (2024): 256 GB; drivers report some more"),
         {"bf16": 1_307.4, "fp16": 1_307.4, "fp8": 2_614.9}, 653.7, 6_000, 8, 448, 50,
         ("the same: 1,307.4 TFLOP/s dense, fp8 2,614.9", "the same: 6 TB/s",
          "AMD MI325X platform data sheet: seven links of 64 GB/s each way; eight ports of 400 Gb/s")),
    _gpu("mi355x", (288e9 / MIB, "AMD Instinct MI355X data sheet (2025): 288 GB; drivers report some more"),
         {"bf16": 2_516.6, "fp16": 2_516.6, "fp8": 5_033.2}, 157.3, 8_000, 8, 537.6, 50,
         ("the same: 2,516.6 TFLOP/s dense, fp8 5,033.2; it has no TF32, so 4 bytes run as fp32", "the same: 8 TB/s",
          "the same: seven links of 76.8 GB/s each way; eight ports of 400 Gb/s, an assumption")),
    _gpu("trn2", (96e9 / MIB, "AWS Trainium2 (2024): 96 GB for each chip; the runtime reports some more"),
         {"bf16": 667, "fp16": 667, "fp8": 1_299}, 181, 2_900, 16, 500, 25,
         ("AWS, EC2 Trn2: 667 TFLOP/s dense in 16 bits, fp8 1,299, fp32 181", "the same: 2.9 TB/s",
          "the same: NeuronLink of 1 TB/s both ways among 16 chips; EFA of 3.2 Tb/s for all of them")),
)
# fmt: on
GPUS: Mapping[str, KnownGpu] = {gpu.name: gpu for gpu in _KNOWN}


DEVICES: Mapping[str, Hardware] = {
    **{name: gpu.roofline for name, gpu in GPUS.items()},
    # Intel Xeon Platinum 8380: 40 cores x 2 AVX-512 units x 16 lanes x 2 x 2.3 GHz, 8 x DDR4-3200. Shorter numbers gain
    # nothing: this generation has no arithmetic for them. That kernels reach half of its peak is an assumption.
    "xeon-8380": Hardware("xeon-8380", 5.9e12, 5.9e12, 204.8e9, 512.0 * GIB, efficiency=0.5, launch_s=1e-6),
}

# Words that people add to a name and that change nothing.
_NOISE = re.compile(r"\b(nvidia|amd|tesla|geforce|instinct|dgx|hgx|sxm[0-9]?|hbm[0-9]?e?|nvl[0-9]*)\b")
# Other names that people use, mostly with the size on the data sheet, and the names in `GPUS`.
_OTHER_SIZES = {
    "h20": "h20-96gb",
    "b200-192gb": "b200-180gb",
    "gb200-192gb": "gb200-186gb",
    "b300-288gb": "b300",
    "b300-270gb": "b300",
    "gb300-288gb": "gb300",
    "gb300-279gb": "gb300",
    "l4-24gb": "l4",
    "t4-16gb": "t4",
    "3090": "rtx-3090",
    "rtx3090": "rtx-3090",
    "rtx-3090-24gb": "rtx-3090",
    "a10g-24gb": "a10g",
    "l40s-48gb": "l40s",
    "4090": "rtx-4090",
    "rtx4090": "rtx-4090",
    "rtx-4090-24gb": "rtx-4090",
    "rtx-pro-6000-96gb": "rtx-pro-6000",
    "mi300x-192gb": "mi300x",
    "mi325x-256gb": "mi325x",
    "mi355x-288gb": "mi355x",
}


# Files that describe a device, as `device_file` reads them.
DEVICE_FILES = (".toml", ".json")
# Nodes, GPUs of each, and their name; or all GPUs, and their name.
_DEVICES = re.compile(r"\s*(?:(?P<nodes>\d{1,9})\s*x\s*)?(?P<each>\d{1,9})\s*x\s*(?P<name>\S.*)", re.ASCII)


def known_gpu(name: str) -> KnownGpu:
    """The GPU that somebody means: capitals, the maker's name and a missing memory size do not matter."""
    word = re.sub(r"[\s_-]+", "-", _NOISE.sub(" ", name.lower().replace("-", " ").replace("_", " ")).strip())
    meant = [own for own in GPUS if word and re.fullmatch(rf"{re.escape(word)}(gb|-.*)?", own)]  # an A10 is no A10G
    meant = [word] if word in GPUS else [_OTHER_SIZES[word]] if word in _OTHER_SIZES else meant
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
