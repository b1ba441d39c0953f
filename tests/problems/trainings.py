"""Small random training problems and configurations that their frameworks can run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from oracles.training import DIVIDED, V_SHAPES

from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.physics.optimizers import PRECISIONS
from pipeplan.instances.training.frameworks import FRAMEWORKS, Framework, even_layout
from pipeplan.instances.training.model import (
    MODULES,
    Attention,
    Encoder,
    Experts,
    MeasuredTime,
    Mlp,
    Model,
    OwnLayer,
)
from pipeplan.instances.training.plan import NOTHING, Configuration, Degrees, Recompute
from pipeplan.instances.training.problem import Gpu, Level, TrainingProblem
from pipeplan.instances.training.referee import framework_faults, shape_faults

OF_EXPERTS = ("moe_act", "shared_experts", "moe")
INTERLEAVED = "interleaved-1f1b"
WITH_EXPERTS = ("megatron", "torchtitan", "deepspeed")
"""Frameworks whose rules know layers with experts."""
MOST_CHUNKS = 4
"""Of a rank."""

# Bandwidth in bytes a second and latency in seconds of links, the fastest first.
LINKS = ((450e9, 2e-6), (100e9, 3e-6), (25e9, 4e-6))


def random_training(seed: int, *, devices: int | None = None, **changes: Any) -> TrainingProblem:
    """The same problem for the same seed: all frameworks, with and without experts, latent attention, prediction, as
    far as the framework trains them."""
    rng = random.Random(seed)
    count = devices or rng.choice((1, 2, 4, 6, 8))
    model = random_model(rng, rng.randint(1, 7), experts=rng.random() < 0.4, latent=rng.random() < 0.35)
    more = replace(model, prediction_layers=int(rng.random() < 0.2), positions=rng.choice((0, 0, 512)))
    own = random.Random(f"kernels {seed}")
    name = WITH_EXPERTS[seed % len(WITH_EXPERTS)]
    if more.experts is None and own.random() < 0.4:
        name = own.choice([entry for entry in FRAMEWORKS if entry not in WITH_EXPERTS])
    framework = FRAMEWORKS[changes.get("framework", name)]
    titan = framework.name == "torchtitan"
    if titan:
        more = replace(more, prediction_layers=0)
    problem = TrainingProblem(
        model=more,
        gpu=random_gpu(rng),
        devices=count,
        levels=random_levels(rng, count),
        batch=count * rng.choice((1, 2, 3, 4)),
        sequence=rng.choice((32, 64, 96, 128)),
        precision=_known(framework, rng.choice(PRECISIONS)),
        framework=framework.name,
        reserve_bytes=float(rng.choice((0, 10**6))),
        flash_attention=rng.random() < 0.7,
        sequence_parallel=rng.random() < 0.7 or titan,
        dropout=rng.random() < 0.3,
        fp8_weight_copy=rng.random() < 0.3,
        efficiencies=Efficiencies(**(_kernels(own) if own.random() < 0.5 else {})),
        name=f"random training {seed}",
        adapter_rank=own.choice((4, 8)) if own.random() < 0.15 else None,
    )
    return problem.replace(**changes)


def with_encoder(problem: TrainingProblem, seed: int) -> TrainingProblem:
    """The same problem with a vision encoder before the text model, where that is known; frozen in a third of them."""
    rng = random.Random(f"encoder {seed}")
    if problem.rules.even_by == "weights":
        problem = problem.replace(framework="fsdp")
    heads, merged = rng.choice((2, 4)), rng.choice((1, 4))
    encoder = Encoder(
        rng.randint(1, 2),
        heads * rng.choice((8, 16)),
        heads,
        ffn=rng.choice((64, 96)),
        tokens=rng.choice((8, 16, 32)),
        images=rng.choice((1, 2)) if merged == 4 else 1,
        merged=merged,
        projector=rng.choice((None, 48, 0)),
        pooled=rng.random() < 0.3,
        patch=48,
        vectors=rng.choice((0, 3)),
        layer_vectors=rng.choice((0, 2)),
        gated=rng.random() < 0.5,
        bias=rng.random() < 0.7,
        norm=rng.choice(("rms", "layer")),
        window=rng.choice((None, 4)),
        windowed_share=0.5,
    )
    frozen = rng.choice((None, None, "encoder"))
    return problem.replace(model=replace(problem.model, encoder=encoder), flash_attention=True, frozen=frozen)


def _kernels(rng: random.Random) -> dict[str, float]:
    """Numbers that are neutral by default: a host that is slow for these small models, or fast."""
    return {
        "host_seconds": 10 ** rng.uniform(-7, -3.5),
        "network": rng.uniform(0.3, 1),
        **{f"{what}_traffic": rng.choice((0.5, 1, 2.7, 8)) for what in ("norm", "elementwise", "softmax")},
    }


def _known(framework: Framework, precision: str) -> str:
    return precision if precision in framework.precisions else "bf16"


def random_gpu(rng: random.Random) -> Gpu:
    """With memory between too little and plenty for these models."""
    flops = rng.uniform(1e12, 1e14)
    memory = float(round(10 ** rng.uniform(6.5, 8.5)))
    return Gpu(
        "random", memory, {name: flops * (1 + (name == "fp8")) for name in PRECISIONS}, rng.uniform(1e11, 2e12)
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
    attention = _random_attention(chosen, heads, size, latent=latent)
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


def _random_attention(chosen: random.Random, heads: int, size: int, *, latent: bool) -> Attention:
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


def random_own_training(seed: int, **changes: Any) -> TrainingProblem:
    """A model of measured layers, some of them at two tensor degrees and micro-batches."""
    rng = random.Random(seed)
    degrees = rng.choice(((1,), (1, 2)))
    layers = tuple(
        OwnLayer(
            f"layer {i}",
            parameters=rng.randint(0, 10**6),
            stash_bytes=float(rng.randint(0, 10**6)),
            output_bytes=float(rng.randint(1, 10**5)),
            times=tuple(_time(rng, t, b) for t, b in product(degrees, (1, 2))),
        )
        for i in range(rng.randint(1, 8))
    )
    usual = {"sequence": 1, "sequence_parallel": False, "adapter_rank": None}
    return random_training(seed, model=Model("own", own=layers), **usual, **changes)


def _time(rng: random.Random, tensor: int, micro_batch: int) -> MeasuredTime:
    seconds = rng.uniform(1e-4, 1e-2) * micro_batch / tensor
    return MeasuredTime(tensor, micro_batch, seconds, 2 * seconds, 0.1 * seconds)


# ---- configurations ----------------------------------------------------------------------------------------


def random_configuration(problem: TrainingProblem, seed: int) -> Configuration:
    """One that keeps all rules of the problem's framework, whether it fits or not."""
    rng = random.Random(seed)
    choices = list(possible_degrees(problem))
    for _ in range(300):
        plan = _attempt(problem, rng, rng.choice(choices))
        if plan is not None and keeps_rules(problem, plan):
            return plan
    zero = problem.rules.usual_zero
    alone = Degrees(data=problem.devices)
    return Configuration(alone, 1, zero, "1f1b", (len(problem.model.units),), (NOTHING,))


def possible_degrees(problem: TrainingProblem) -> Iterator[Degrees]:
    """Everything whose ranks are the devices, with all degrees of experts that divide a stage's ranks."""
    units, own, experts = len(problem.model.units), problem.model.own, problem.model.experts
    tensors = {time.tensor for layer in own for time in layer.times}
    for t, c, p in product(range(1, problem.devices + 1), repeat=3):
        if problem.devices % (t * c * p) or p > units or (own and t not in tensors):
            continue
        d = problem.devices // (t * c * p)
        ways = [(e, s) for e, s in product(range(1, t * c * d + 1), repeat=2) if t * c * d % (e * s) == 0]
        for v in range(1, min(MOST_CHUNKS, units // p) + 1):
            for e, s in ways if experts is not None else [(1, 1)]:
                yield Degrees(t, c, p, v, d, e, s)


def keeps_rules(problem: TrainingProblem, plan: Configuration) -> bool:
    """By the framework's own checks; what else makes a configuration valid is seen to when it is drawn."""
    return not any((*shape_faults(problem, plan), *framework_faults(problem, plan)))


def _attempt(problem: TrainingProblem, rng: random.Random, degrees: Degrees) -> Configuration | None:
    schedules = [name for name in problem.rules.schedules if suits(name, degrees)]
    sizes = [b for b in (1, 2, 3, 4) if problem.batch % (degrees.data * b) == 0 and _is_measured(problem, b)]
    if not schedules or not sizes:
        return None
    schedule = rng.choice(schedules)
    words = random_recompute(problem, rng, degrees.chunks)
    even = even_layout(problem, degrees.chunks) if problem.rules.layouts == "even" else None
    return Configuration(
        degrees,
        micro_batch=rng.choice(sizes),
        zero=rng.choice(tuple(problem.states)),
        schedule=schedule,
        layout=even or random_layout(rng, len(problem.model.units), degrees.chunks),
        recompute=(NOTHING,) * degrees.chunks if schedule in DIVIDED else words,
    )


def _is_measured(problem: TrainingProblem, micro_batch: int) -> bool:
    return all(any(time.micro_batch == micro_batch for time in layer.times) for layer in problem.model.own)


def suits(schedule: str, degrees: Degrees) -> bool:
    """Does it run so many chunks on a rank?"""
    if schedule in V_SHAPES:
        return degrees.virtual == 2 and degrees.pipeline > 1
    return (degrees.virtual > 1) == (schedule == INTERLEAVED)


def random_layout(rng: random.Random, units: int, chunks: int) -> tuple[int, ...]:
    """At least one unit in every chunk."""
    cuts = sorted(rng.sample(range(1, units), chunks - 1))
    return tuple(end - start for start, end in zip([0, *cuts], [*cuts, units], strict=True))


def random_recompute(problem: TrainingProblem, rng: random.Random, chunks: int) -> tuple[Recompute, ...]:
    """A word that makes sense for the model, the same for all chunks, as every framework asks."""
    return (random_word(problem, rng),) * chunks


def random_word(problem: TrainingProblem, rng: random.Random) -> Recompute:
    layers = rng.choice((None, None, 1, 2))
    modules = modules_of(problem.model)
    kind = rng.choice(("none", "full", "modules")) if modules else rng.choice(("none", "full"))
    if kind == "none":
        return NOTHING
    if kind == "full" or not problem.rules.modules:
        return Recompute(("full",), layers if problem.rules.counted_layers else None)
    chosen = rng.sample(modules, rng.randint(1, len(modules)))
    return Recompute(
        tuple(name for name in chosen if not ("moe" in chosen and name in ("moe_act", "shared_experts")))
    )


def modules_of(model: Model) -> tuple[str, ...]:
    """Modules that some layer of the model has, and that change something."""
    if model.own:
        return ()
    assert model.attention is not None
    there, latent = {*model.units}, model.attention.latent
    lacking = {
        *(() if latent else ("mla_up_proj",)),
        *(() if "experts" in there else OF_EXPERTS),
        *(() if "dense" in there else ("mlp",)),
        *(() if latent or ("experts" in there and model.norms > 1) else ("layernorm",)),
        *(("shared_experts",) if model.experts is not None and not model.experts.shared_hidden else ()),
    }
    return tuple(name for name in MODULES if name not in lacking)
