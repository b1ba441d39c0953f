"""Named devices and links with their makers' figures; times by the roofline rule.

The five devices that are written here have the memory that their names say. The packaged instances were made with them,
so their figures stay. All other GPUs come from `instances/base/gpus.py`.

A layer takes max(operations / (peak x efficiency), bytes / memory bandwidth) plus a launch overhead. Peaks are those of
the datasheets, for numbers of 4 bytes and of 2; the efficiency is our assumption for large dense kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...base.gpus import GPUS, KnownGpu


@dataclass(frozen=True, slots=True)
class Hardware:
    name: str
    single_flops_per_s: float
    """Peak for numbers of 4 bytes."""
    half_flops_per_s: float
    """Peak for numbers of 2 bytes."""
    memory_bytes_per_s: float
    memory_bytes: float
    efficiency: float = 0.5
    launch_s: float = 5e-6
    """Time to start one kernel: many have measured a few microseconds."""

    def peak_flops_per_s(self, element_bytes: int) -> float:
        return self.half_flops_per_s if element_bytes <= 2 else self.single_flops_per_s

    def seconds(self, flops: float, moved_bytes: float, element_bytes: int = 4) -> float:
        """Time of one layer by the roofline rule."""
        arithmetic = flops / (self.peak_flops_per_s(element_bytes) * self.efficiency)
        return max(arithmetic, moved_bytes / self.memory_bytes_per_s) + self.launch_s


@dataclass(frozen=True, slots=True)
class Link:
    name: str
    bytes_per_s: float


GIB = 2.0**30

_PACKAGED: Mapping[str, Hardware] = {
    device.name: device
    for device in (
        # NVIDIA V100 datasheet (PCIe): 14 TFLOP/s single, 112 TFLOP/s tensor, 900 GB/s, 16 GB.
        Hardware("v100-16gb", 14e12, 112e12, 900e9, 16 * GIB),
        # NVIDIA A100 datasheet: 156 TFLOP/s TF32 and 312 TFLOP/s bfloat16 tensor without sparsity, 1,555 GB/s (40 GB)
        # and 2,039 GB/s (80 GB).
        Hardware("a100-40gb", 156e12, 312e12, 1555e9, 40 * GIB),
        Hardware("a100-80gb", 156e12, 312e12, 2039e9, 80 * GIB),
        # NVIDIA H100 SXM datasheet: 989 TFLOP/s TF32 and 1,979 TFLOP/s bfloat16 tensor, both with sparsity, so half of
        # them without; 3.35 TB/s, 80 GB.
        Hardware("h100-80gb", 494.5e12, 989.5e12, 3350e9, 80 * GIB),
        # Intel Xeon Platinum 8380: 40 cores x 2 AVX-512 units x 16 lanes x 2 x 2.3 GHz, 8 x DDR4-3200. Shorter numbers
        # gain nothing: this generation has no arithmetic for them.
        Hardware("xeon-8380", 5.9e12, 5.9e12, 204.8e9, 512 * GIB, launch_s=1e-6),
    )
}


def hardware_of(known: KnownGpu) -> Hardware:
    """A GPU with the figures of the common table."""
    half = max(known.flops[precision] for precision in ("bf16", "fp16") if precision in known.flops)
    return Hardware(known.name, known.single_flops, half, known.memory_rate, known.memory_bytes)


DEVICES: Mapping[str, Hardware] = {
    **_PACKAGED,
    **{name: hardware_of(known) for name, known in GPUS.items() if name not in _PACKAGED},
}

LINKS: Mapping[str, Link] = {
    link.name: link
    for link in (
        # PCI-SIG: 16 lanes at 8 and 16 GT/s with 128b/130b coding, one direction.
        Link("pcie3-x16", 15.75e9),
        Link("pcie4-x16", 31.5e9),
        # NVIDIA: 600 GB/s per A100 in both directions together. It joins accelerators only, so it fits clusters whose
        # plans use no CPU.
        Link("nvlink3", 300e9),
        # NVIDIA: 900 GB/s per H100, likewise.
        Link("nvlink4", 450e9),
    )
}
