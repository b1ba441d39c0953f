"""What the nodes of a profile cost by calculation: operations, bytes, and times by the roofline rule.

The time of a pass is the sum over its kernels, each with its start. That is an estimate for execution operation by
operation; fused kernels are faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import fx

from ..instances.base.errors import InputError
from ..instances.networks.profile.work import Kernels
from ..instances.physics.hardware import Hardware
from .capture import Captured, module_path
from .grouping import Grouped
from .kernels import Trace

# Largest share of the floating-point operations that may be in auxiliary operations, which every stage repeats.
MOST_AUXILIARY = 0.01
# Largest share of them that may be inside torch.autocast, which hides operations from a profile.
MOST_AUTOCAST = 0.1


@dataclass(slots=True)
class NodeCost:
    """Costs of a node for one micro-batch; times are None where they are measured instead."""

    flops_forward: float = 0.0
    flops_backward: float = 0.0
    saved_bytes: float = 0.0
    forward_s: float = 0.0
    backward_s: float = 0.0
    kernels_forward: list[Kernels] = field(default_factory=list)
    kernels_backward: list[Kernels] = field(default_factory=list)


def costs(seen: Trace, captured: Captured, grouped: Grouped, hardware: Hardware | None) -> dict[str, NodeCost]:
    """Costs of each node; without hardware they have no times."""
    _refuse_heavy(seen, captured, grouped)
    owner = {node.name: name for node, name in grouped.owner.items()}
    cost_of = {name: NodeCost() for name in grouped.nodes}
    for kernel in seen.kernels:
        node = owner.get(kernel.operation or "")
        if node is None:
            continue
        seconds = (
            hardware.seconds(kernel.flops, kernel.moved_bytes, kernel.element_bytes)
            if hardware is not None
            else 0.0
        )
        cost = cost_of[node]
        kernels = cost.kernels_backward if kernel.backward else cost.kernels_forward
        kernels.append(Kernels(kernel.flops, kernel.moved_bytes, 1, kernel.element_bytes))
        if kernel.backward:
            cost.flops_backward += kernel.flops
            cost.backward_s += seconds
        else:
            cost.flops_forward += kernel.flops
            cost.forward_s += seconds
    for name, size in _saved(seen, grouped).items():
        cost_of[name].saved_bytes = size
    return cost_of


def _saved(seen: Trace, grouped: Grouped) -> dict[str, float]:
    """Bytes that each node keeps for its backward pass; memory that two of its operations keep counts once."""
    return {
        name: sum({key: size for op in ops for key, size in seen.saved.get(op.name, {}).items()}.values())
        for name, ops in grouped.nodes.items()
    }


# ---- what a profile cannot say -------------------------------------------------------------------------


def _refuse_heavy(seen: Trace, captured: Captured, grouped: Grouped) -> None:
    """Refuse a model with much of its work in auxiliary operations or inside torch.autocast."""
    flops = seen.flops()
    total = sum(flops.values())
    _refuse_share(
        {node: flops.get(node.name, 0.0) for node in grouped.auxiliary},
        total,
        MOST_AUXILIARY,
        "calculates {share:.0%} of the floating-point operations from the inputs alone, which every stage would repeat",
        "give their results as inputs, or make a parameter of what they read",
    )
    _refuse_share(
        {
            node: flops.get(node.name, 0.0)
            for node in captured.operations
            if "wrap_with_autocast" in str(node.target)
        },
        total,
        MOST_AUTOCAST,
        "has {share:.0%} of the floating-point operations inside torch.autocast, which hides them from a profile",
        "give the model in bfloat16 instead",
    )


def _refuse_share(flops: Mapping[fx.Node, float], total: float, most: float, problem: str, remedy: str) -> None:
    share = sum(flops.values()) / total if total else 0.0
    if share > most:
        worst = max(flops, key=flops.__getitem__)
        path = module_path(worst)
        raise InputError(f"module {path}" if path else "the model", problem.format(share=share), remedy)
