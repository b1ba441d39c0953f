"""The packaged chains: those of the theory, and networks that this module cuts where one tensor passes.

Times are in ms for the whole batch, sizes in bytes. The input of the network is a_0; the outputs of groups are a_1 to
a_L, and gradients have the sizes of what they are gradients of. Backward tasks move twice the bytes of forward tasks.

What is lost: branches inside a group cannot be divided between GPUs; the loss takes neither time nor memory besides
the network's output; tensors inside a group are not counted, as if they were computed again for the backward pass
without taking time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import known_chains as theory
from known_chains import KnownChain

from pipeplan.instances.base.checks import check_amount
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.graph import Group, cut_into_groups
from pipeplan.instances.base.quantities import MIB
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.instances.physics.hardware import Hardware
from pipeplan.planners.chain.baselines import EXTRA_IN_FLIGHT, pipedream_partition, run_eagerly

from .cnn import resnet
from .network import Layer, Network
from .recipe import LINKS, Link, Recipe, made_on

MS_PER_S = 1e3

# A run of nothing but these is no block of its own.
LIGHT_KINDS = frozenset({"add", "batch-norm", "concat", "dropout", "gelu", "layer-norm", "pool", "relu", "softmax"})


def to_chain(
    network: Network, device: Hardware, link: Link, *, gpus: int, memory_bytes: float | None = None
) -> ChainProblem:
    """The training of a network on `gpus` such devices; `memory_bytes` None: the device's own memory.

    Memory infinity: no limit.
    """
    groups = groups_of(network)
    layers = [[network.layers[i] for i in group.members] for group in groups]
    passing = [_input_bytes(network), *(_output_bytes(network, group) for group in groups)]
    limit = device.memory_bytes if memory_bytes is None else memory_bytes
    return ChainProblem(
        forward=tuple(_milliseconds(network, device, run, backward=False) for run in layers),
        backward=tuple(_milliseconds(network, device, run, backward=True) for run in layers),
        activations=(*passing[:-1], *reversed(passing)),
        weights=tuple(sum(map(network.parameter_bytes, run)) for run in layers),
        gpus=gpus,
        memory_bytes=None if limit == math.inf else limit,
        bandwidth=link.bytes_per_s / MS_PER_S,
        name=network.name,
        time_unit="ms",
    )


def groups_of(network: Network) -> list[Group]:
    """The layers of the network, by position and without its inputs, that make up each layer of the chain: a block."""
    positions = {layer.name: i for i, layer in enumerate(network.layers)}
    readers: list[list[int]] = [[] for _ in network.layers]
    for i, layer in enumerate(network.layers):
        for source in layer.inputs:
            readers[positions[source]].append(i)
    order = [i for i, layer in enumerate(network.layers) if layer.kind != "input"]
    blocks: list[Group] = []
    for group in cut_into_groups(order, readers):
        if blocks and all(network.layers[i].kind in LIGHT_KINDS for i in group.members):
            blocks[-1] = Group((*blocks[-1].members, *group.members), group.sends)
        else:
            blocks.append(group)
    return blocks


def _input_bytes(network: Network) -> int:
    return sum(network.activation_bytes(layer) for layer in network.layers if layer.kind == "input")


def _output_bytes(network: Network, group: Group) -> int:
    """Bytes that pass to the next group; for the last group, those of the outputs that nobody reads."""
    if group.sends:
        return sum(network.activation_bytes(network.layers[i]) for i in group.sends)
    read = {source for layer in network.layers for source in layer.inputs}
    outputs = (network.layers[i] for i in group.members)
    return sum(network.activation_bytes(layer) for layer in outputs if layer.name not in read)


def _milliseconds(network: Network, device: Hardware, layers: Sequence[Layer], backward: bool) -> float:
    """The sum of the layers' times by the roofline rule, to a nanosecond."""
    seconds = (
        device.seconds(network.backward_flops(layer), 2 * network.moved_bytes(layer), network.element_bytes)
        if backward
        else device.seconds(network.forward_flops(layer), network.moved_bytes(layer), network.element_bytes)
        for layer in layers
    )
    return round(math.fsum(seconds) * MS_PER_S, 6)


# ---- the instances ---------------------------------------------------------------------------------------

RESNET18_MEMORY = 220 * MIB
# Depth to batch and pixels per side: the networks with which Beaumont et al. compare period and memory.
UNLIMITED_RESNETS = {18: (8, 1000), 34: (32, 224), 50: (8, 224)}


def known_chains() -> tuple[KnownChain, ...]:
    """The packaged chains whose answers are known by proof or enumeration."""
    return (
        theory.three_chain(), theory.family(2), theory.lemma_2(), theory.lemma_3(), theory.figure_4(),
        theory.figure_5(), theory.golden_chains()[3], theory.e5_overrun(),
    )  # fmt: skip


def _recipes() -> Iterator[Recipe]:
    for chain in known_chains():
        yield Recipe(chain.name, chain.source, partial(getattr, chain, "problem"))
    yield Recipe(
        "resnet18-training-chain",
        "resnet18 in blocks, batch 32, on v100-pcie-16gb over pcie3-x16 with 220 MiB of memory (analytic costs)",
        partial(_resnet, "resnet18-training-chain", 18, 32, 224, RESNET18_MEMORY),
    )
    for depth, (batch, image) in UNLIMITED_RESNETS.items():
        yield Recipe(
            f"resnet{depth}-chain",
            f"resnet{depth} in blocks, batch {batch}, image {image}, on v100-pcie-16gb over pcie3-x16 (analytic costs)",
            partial(_resnet, f"resnet{depth}-chain", depth, batch, image, math.inf),
        )


def _resnet(name: str, depth: int, batch: int, image: int, memory_bytes: float) -> ChainProblem:
    """A ResNet as a chain, in whole microseconds, so that periods can be exact."""
    network, device, link = resnet(depth, batch, image), made_on("v100-pcie-16gb"), LINKS["pcie3-x16"]
    problem = to_chain(network, device, link, gpus=4, memory_bytes=memory_bytes)
    return in_whole_microseconds(problem).replace(name=name)


def in_whole_microseconds(problem: ChainProblem) -> ChainProblem:
    """A chain in ms with every time, those of transfers included, rounded to whole microseconds."""

    def rounded(times: Iterable[float]) -> tuple[int, ...]:
        return tuple(round(1000 * time) for time in times)

    return problem.replace(
        forward=rounded(problem.forward),
        backward=rounded(problem.backward),
        transfer_times=rounded(problem.edge_times),
        bandwidth=None,
        time_unit="us",
    )


# ---- random chains --------------------------------------------------------------------------------------
# Chains in the shape of a residual network, with the sizes and seeds of `benchmarks/chains.py`. Layers stand in four
# groups of equal length. The activations halve and the weights grow fourfold from group to group; forward times are
# random whole numbers near 20, with a longer first layer and a short last one; backward tasks take twice as long. The
# largest activation takes 20 on a link; other transfer times are rounded to whole numbers (half up).

GROUPS = 4
LARGEST_ACTIVATION = 128
LARGEST_TRANSFER = 20
USUAL_TIME = 20
SPREAD = 0.4
FIRST_SHARE = 1.25
LAST_SHARE = 0.3


def resnet_like(layers: int, gpus: int, seed: int = 1, memory_bytes: float | None = None) -> ChainProblem:
    """One chain of the family; the same arguments give the same chain everywhere."""
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


def memory_levels(problem: ChainProblem) -> tuple[float, float]:
    """Peaks of the load-optimal contiguous partition, run eagerly with 1 batch in flight and with 2 more than GPUs."""
    borders = pipedream_partition(problem)
    assert borders is not None, "without a target some partition is always found"
    counts = (1, problem.gpus + EXTRA_IN_FLIGHT)
    least, most = (run_eagerly(problem, borders, in_flight, 0.0).peak for in_flight in counts)
    return least, most


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


RECIPES = tuple(_recipes())
