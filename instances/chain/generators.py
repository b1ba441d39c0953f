"""Random chains in the shape of a residual network: sizes and seeds of our benchmark.

Layers stand in four groups of equal length. The activations halve and the weights grow fourfold from group to group;
forward times are random whole numbers near 20, with a longer first layer and a short last one; backward tasks take
twice as long. The largest activation takes 20 on a link; other transfer times are rounded to whole numbers (half up).
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from ..base.checks import check_whole
from ..base.errors import InputError
from ..base.kind import Generator, Parameter
from .problem import MAX_LAYERS, ChainProblem

GROUPS = 4
LARGEST_ACTIVATION = 128
LARGEST_TRANSFER = 20
USUAL_TIME = 20
SPREAD = 0.4
FIRST_SHARE = 1.25
LAST_SHARE = 0.3


def resnet_like(layers: int, gpus: int, seed: int = 1, memory_bytes: float | None = None) -> ChainProblem:
    """One chain of the family; the same arguments give the same chain everywhere."""
    check_whole("layers", layers, MAX_LAYERS, 2)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError("seed", f"is {seed!r}", "give a whole number")
    rng = random.Random(seed)
    near, far = round(USUAL_TIME * (1 - SPREAD)), round(USUAL_TIME * (1 + SPREAD))
    forward = [rng.randint(near, far) for _ in range(layers)]
    forward[0] = round(forward[0] * FIRST_SHARE)
    forward[-1] = max(1, round(forward[-1] * LAST_SHARE))
    sizes = [LARGEST_ACTIVATION] + [LARGEST_ACTIVATION >> (i * GROUPS // layers) for i in range(layers)]
    activations = (*sizes, *reversed(sizes[:-1]))
    return ChainProblem(
        forward=tuple(forward),
        backward=tuple(2 * time for time in forward),
        activations=activations,
        weights=tuple(4 ** (i * GROUPS // layers) for i in range(layers)),
        gpus=gpus,
        memory_bytes=memory_bytes,
        transfer_times=tuple(_transfer_time(size) for size in activations[1:-1]),
        name=f"resnet-like-{layers}x{gpus}-seed{seed}",
        time_unit=None,
    )


def _transfer_time(size: int) -> int:
    return (2 * size * LARGEST_TRANSFER + LARGEST_ACTIVATION) // (2 * LARGEST_ACTIVATION)


GENERATORS: Mapping[str, Generator[ChainProblem]] = {
    "resnet-like": Generator(
        "resnet-like",
        "Chains in the shape of a residual network, random by seed",
        resnet_like,
        (
            Parameter("layers", "int", 18, "how many layers"),
            Parameter("gpus", "int", 4, "how many GPUs"),
            Parameter("seed", "int", 1, "seed of all random numbers"),
            Parameter("memory_bytes", "float", None, "memory of a GPU; none: no limit"),
        ),
    )
}
