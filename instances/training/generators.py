"""Families of training problems, as `plan generate` offers them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from ..base.checks import MAX_DEVICES, check_whole
from ..base.kind import Generator, Parameter
from ..base.quantities import GIB
from ..physics.optimizers import USUAL_OPTIMIZER, sum_of_states
from .model import MOST_LAYERS, Attention, Experts, Mlp, Model
from .problem import Gpu, Level, TrainingProblem
from .unit_costs import parameters_of

# Bandwidth in bytes a second and latency in seconds of links, the fastest first.
LINKS = ((450e9, 2e-6), (100e9, 3e-6), (25e9, 4e-6))


def random_training(
    seed: int = 0, accelerators: int = 4, layers: int = 6, experts: bool = False, latent: bool = False
) -> TrainingProblem:
    """A small model on a few GPUs whose memory is about what the model needs; the same for the same seed."""
    check_whole("accelerators", accelerators, MAX_DEVICES)
    check_whole("layers", layers, MOST_LAYERS)
    chosen = random.Random(seed)
    model = random_model(chosen, layers, experts=experts, latent=latent)
    states = sum_of_states("megatron", USUAL_OPTIMIZER) * parameters_of(model).total / accelerators
    gpu = Gpu(
        "random GPU",
        memory_bytes=round(states * chosen.uniform(1.2, 4) + chosen.uniform(0.02, 0.2) * GIB),
        flops={"bf16": chosen.choice((60e12, 120e12, 300e12))},
        memory_rate=chosen.choice((300e9, 1e12, 2e12)),
    )
    return TrainingProblem(
        model=model,
        gpu=gpu,
        devices=accelerators,
        levels=random_levels(chosen, accelerators),
        batch=accelerators * chosen.choice((2, 4, 8)),
        sequence=chosen.choice((128, 256, 512)),
        reserve_bytes=0,
        name=f"training-{accelerators}x{layers}-{seed}",
    )


def random_levels(chosen: random.Random, devices: int) -> tuple[Level, ...]:
    """One level of links, or two where the number of GPUs can be divided."""
    inner = chosen.choice([size for size in range(1, devices + 1) if devices % size == 0 and size != 1] or [1])
    counts = (inner, devices // inner) if inner < devices else (devices,)
    first = chosen.randrange(len(LINKS) - len(counts) + 1)
    return tuple(Level(count, *LINKS[first + i]) for i, count in enumerate(counts))


def random_model(chosen: random.Random, layers: int, *, experts: bool, latent: bool) -> Model:
    """A model at random with one of the shapes that transformers have, in small numbers."""
    heads, size = chosen.choice((2, 4, 8)), chosen.choice((16, 32, 64))
    hidden = chosen.choice((64, 128, 256))
    attention = random_attention(chosen, heads, size, latent=latent)
    first = chosen.randint(0, min(2, layers - 1)) if experts else 0
    has_mlp = not experts or first > 0
    return Model(
        "random model",
        hidden,
        layers,
        vocabulary=chosen.choice((512, 1_000, 4_096)),
        attention=attention,
        mlp=Mlp(chosen.choice((128, 256, 768)), gated=chosen.random() < 0.7) if has_mlp else None,
        experts=_random_experts(chosen, first) if experts else None,
        tied=chosen.random() < 0.3,
        norm=chosen.choice(("rms", "layer")),
    )


def random_attention(chosen: random.Random, heads: int, size: int, *, latent: bool) -> Attention:
    """Grouped-query attention, or latent attention."""
    if latent:
        query_rank = chosen.choice((None, 24, 48))
        return Attention(
            heads, size, heads, value_size=size, query_rank=query_rank, key_value_rank=32, rope_size=16
        )
    groups = chosen.choice([count for count in (1, 2, 4, 8) if heads % count == 0])
    return Attention(heads, size, groups, bias=chosen.random() < 0.3)


def _random_experts(chosen: random.Random, dense_layers: int) -> Experts:
    shared = chosen.choice((0, 64))
    count = chosen.choice((4, 8))
    return Experts(count, chosen.choice((1, 2)), chosen.choice((64, 128)), shared, dense_layers=dense_layers)


GENERATORS: Mapping[str, Generator[Any]] = {
    "training": Generator(
        "training",
        "a random small transformer on a few GPUs",
        random_training,
        (
            Parameter("accelerators", "int", 4, "number of devices"),
            Parameter("layers", "int", 6, "for transformers: layers between the embedding and the head"),
            Parameter("experts", "flag", False, "for transformers: most layers have experts in place of an MLP"),
            Parameter("latent", "flag", False, "for transformers: latent attention"),
            Parameter("seed", "int", 0, "seed of all random numbers"),
        ),
    )
}
