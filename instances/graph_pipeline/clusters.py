"""Named clusters, and how long an operator takes on one of their devices.

An operator on q samples takes

    launch + max(operations q / (rate e(q)), moved bytes / memory bandwidth),   e(q) = q / (q + h),

so that h samples run at half the rate: small shares waste a device. Our assumptions (no measurement was published):
the effective rate of 24e12 operations per second, which reproduces the order of magnitude of the throughputs published
for a V100 with tensor cores (11.6 to 18.3e12 including all that a pipeline loses); h = 0.6 samples of a transformer
branch with 256 tokens and 64 samples of dense layers on single rows; a launch of 5 microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import unknown_name
from ..base.quantities import GIB
from ..physics.hardware import GPUS
from .problem import GraphPipelineProblem, Link, Operator, TimeCurve

# Decimal places of times in seconds: with picoseconds files stay readable, and nothing that matters is rounded.
DIGITS = 12


@dataclass(frozen=True, slots=True)
class ClusterProfile:
    """A device, and the links that join it to others in its node and in other nodes."""

    name: str
    flops_per_s: float
    """The rate that large kernels reach, which is below the peak of the data sheet."""
    memory_bytes_per_s: float
    memory_bytes: float
    link: Link
    node_link: Link
    devices_per_node: int
    launch_s: float = 5e-6

    def seconds(self, flops: float, moved_bytes: float, q: float, half_samples: float) -> float:
        """Time of one operator on q samples: `flops` and `moved_bytes` are of all of them."""
        if not flops and not moved_bytes:
            return 0.0
        efficiency = q / (q + half_samples)
        return self.launch_s + max(flops / (self.flops_per_s * efficiency), moved_bytes / self.memory_bytes_per_s)


_V100 = GPUS["v100-16gb"]
_DEVICE = (_V100.memory_rate, 16.0 * GIB)

CLUSTERS: Mapping[str, ClusterProfile] = {
    cluster.name: cluster
    for cluster in (
        # Summit's nodes as GraphPipe used them: 4 of 6 V100 (16 GB, 900 GB/s), NVLink 50 GB/s each way between two
        # devices, EDR InfiniBand 100 Gb/s on one rail; latencies of 5 and 10 microseconds are ours.
        ClusterProfile("summit-v100", 24e12, *_DEVICE, Link(50e9, 5e-6), Link(12.5e9, 1e-5), 4),
        # Summit without tensor cores: the single-precision peak of the data sheet.
        ClusterProfile("summit-v100-fp32", _V100.single_flops, *_DEVICE, Link(50e9, 5e-6), Link(12.5e9, 1e-5), 4),
        # Summit with a network that takes no time: what is left is computation and the shape of the schedule.
        ClusterProfile("summit-v100-ideal", 24e12, *_DEVICE, Link(), Link(), 4),
    )
}


def cluster_of(name: str) -> ClusterProfile:
    """The cluster of that name."""
    if name not in CLUSTERS:
        raise unknown_name("cluster named", name, CLUSTERS)
    return CLUSTERS[name]


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """Operations and bytes of an operator for one sample."""

    flops: float
    """Operations of the forward pass; a multiply-add counts as two."""
    parameters: int
    read_elements: float
    """Elements of activations that a forward pass reads."""
    output_elements: int
    stash_elements: int
    """Elements kept for the backward pass, the output included; inputs count with the operator that makes them."""
    parameters_read: bool = True
    """Does a pass read all of its parameters? A look-up in a table reads only rows."""
    backward_factor: float = 2.0
    """Operations and traffic of the backward pass, as a multiple of those of the forward pass."""

    def moved_bytes(self, q: float, element_bytes: int = 4) -> float:
        """Bytes that a forward pass on q samples reads and writes."""
        parameters = self.parameters if self.parameters_read else 0
        return element_bytes * (q * (self.read_elements + self.output_elements) + parameters)


def powers_of_two(most: int) -> tuple[int, ...]:
    """1, 2, 4, ... up to `most`: numbers of samples at which times are given; between them times are nearly linear."""
    return tuple(2**e for e in range(most.bit_length()))


def operator(
    name: str,
    cost: OperatorCost,
    cluster: ClusterProfile,
    mini_batch: int,
    half_samples: float,
    element_bytes: int = 4,
) -> Operator:
    """The operator with its times at 1, 2, 4, ... samples."""
    samples = powers_of_two(mini_batch)

    def curve(factor: float) -> TimeCurve:
        times = (
            cluster.seconds(factor * cost.flops * q, factor * cost.moved_bytes(q, element_bytes), q, half_samples)
            for q in samples
        )
        return TimeCurve(samples, tuple(round(time, DIGITS) for time in times))

    return Operator(
        name,
        curve(1.0),
        curve(cost.backward_factor),
        weight_bytes=float(cost.parameters * element_bytes),
        stash_bytes=float(cost.stash_elements * element_bytes),
        output_bytes=float(cost.output_elements * element_bytes),
    )


def on_cluster(
    cluster: ClusterProfile,
    operators: tuple[Operator, ...],
    edges: tuple[tuple[str, str], ...],
    devices: int,
    mini_batch: int,
    memory_bytes: float | None,
    name: str,
    **more: Any,
) -> GraphPipelineProblem:
    """The problem on so many devices of a cluster; `memory_bytes` None: the device's own."""
    return GraphPipelineProblem(
        operators,
        edges,
        mini_batch,
        devices,
        cluster.memory_bytes if memory_bytes is None else memory_bytes,
        cluster.link,
        cluster.node_link,
        cluster.devices_per_node,
        name=name,
        **more,
    )
