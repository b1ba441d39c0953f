"""Workload -> graph-pipeline problem: its profile at 1, 2, 4, ... samples, put on a cluster.

What the profile counts stands in `networks/analytic/profile.py`, what the problem makes of it in `from_profile.py`.
"""

from __future__ import annotations

from ..base.checks import check_whole
from ..base.cluster import Cluster
from ..networks.analytic.model import Workload
from ..networks.analytic.profile import to_curves
from ..networks.profile.options import ProfileOptions
from ..physics.hardware import Hardware, Link
from .clusters import powers_of_two
from .from_profile import lower
from .problem import MAX_MINI_BATCH, GraphPipelineProblem
from .problem import Link as GraphLink


def to_graph_pipeline(
    workload: Workload,
    device: Hardware,
    link: Link,
    *,
    devices: int,
    mini_batch: int,
    node_link: Link | None = None,
    devices_per_node: int | None = None,
    memory_bytes: float | None = None,
    weight_copies: float = 4.0,
    half_samples: float = 0.0,
    merge: bool = False,
    name: str | None = None,
) -> GraphPipelineProblem:
    """The problem of training `workload` on `devices` devices, joined by `link` (between nodes by `node_link`).

    `mini_batch`: samples of a mini-batch. `memory_bytes`: bytes of a device; None: the device's own.
    `half_samples`: samples of a micro-batch at which a device reaches half of its rate. `merge`: whole blocks (a
    transformer layer, a residual block) as operators. `weight_copies`: how often each parameter is kept: itself, a
    gradient and two moments unless told otherwise.
    """
    check_whole("mini_batch", mini_batch, MAX_MINI_BATCH)
    samples = powers_of_two(mini_batch)
    profile = to_curves(workload, device, samples, half_samples=half_samples, merge=merge, name=name)
    memory = device.memory_bytes if memory_bytes is None else memory_bytes
    cluster = Cluster(devices=devices, memory_bytes=memory, bandwidth=link.bytes_per_s, batch=mini_batch)
    problem: GraphPipelineProblem = lower(profile, cluster, ProfileOptions()).problem
    return problem.replace(
        weight_copies=weight_copies,
        node_link=None if node_link is None else GraphLink(node_link.bytes_per_s),
        devices_per_node=devices_per_node,
    )
