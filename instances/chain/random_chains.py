"""Random chains in the shape of a residual network: sizes and seeds of our benchmark.

Layers stand in four groups of equal length. The activations halve and the weights grow fourfold from group to group;
forward times are random whole numbers near 20, with a longer first layer and a short last one; backward tasks take
twice as long. The largest activation takes 20 on a link; other transfer times are rounded to whole numbers (half up).
"""

from __future__ import annotations

import math
import random

from ..base.checks import check_amount
from ..base.errors import InputError
from .problem import ChainProblem

# Layers and GPUs of the benchmark.
SIZES: tuple[tuple[int, int], ...] = ((6, 2), (6, 4), (8, 4), (10, 4), (12, 4), (15, 4), (18, 4), (18, 8))

SEEDS = (1, 2, 3, 4, 5)

GROUPS = 4
LARGEST_ACTIVATION = 128
LARGEST_TRANSFER = 20
USUAL_TIME = 20
SPREAD = 0.4
FIRST_SHARE = 1.25
LAST_SHARE = 0.3


def resnet_like(layers: int, gpus: int, seed: int = 1, memory_bytes: float | None = None) -> ChainProblem:
    """One chain of the family; the same arguments give the same chain everywhere."""
    if isinstance(layers, bool) or not isinstance(layers, int) or layers < 2:
        raise InputError("layers", f"is {layers!r}", "give a whole number of at least 2")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError("seed", f"is {seed!r}", "give a whole number")
    rng = random.Random(seed)
    near, far = round(USUAL_TIME * (1 - SPREAD)), round(USUAL_TIME * (1 + SPREAD))
    forward = [rng.randint(near, far) for _ in range(layers)]
    forward[0] = round(forward[0] * FIRST_SHARE)
    forward[-1] = max(1, round(forward[-1] * LAST_SHARE))
    sizes = [LARGEST_ACTIVATION] + [LARGEST_ACTIVATION >> _group(i, layers) for i in range(layers)]
    activations = [*sizes, *reversed(sizes[:-1])]
    return ChainProblem(
        forward=tuple(forward),
        backward=tuple(2 * time for time in forward),
        activations=tuple(activations),
        weights=tuple(4 ** _group(i, layers) for i in range(layers)),
        gpus=gpus,
        memory_bytes=memory_bytes,
        transfer_times=tuple(_transfer_time(size) for size in activations[1:-1]),
        name=f"resnet-like-{layers}x{gpus}-seed{seed}",
        time_unit=None,
    )


def _group(layer: int, layers: int) -> int:
    return layer * GROUPS // layers


def _transfer_time(size: int) -> int:
    return (2 * size * LARGEST_TRANSFER + LARGEST_ACTIVATION) // (2 * LARGEST_ACTIVATION)


def tightness(problem: ChainProblem, least: float, most: float, share: float = 0.3) -> ChainProblem:
    """The problem with memory at `share` of the way from `least` to `most`, in whole bytes.

    In the benchmark `least` and `most` are the peaks of the best runs of layers under an eager schedule with one batch,
    and with two more batches than GPUs, in flight.
    """
    check_amount("least", least)
    check_amount("most", most)
    if not 0 <= share <= 1:
        raise InputError("share", f"is {share!r}", "give a number from 0 to 1")
    return problem.replace(memory_bytes=math.floor(least + share * (most - least)))
