"""What the packaged training problems are made of, and what their list shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.packaged import Packaged, Recipe

# The modules that build problems are imported where they build: lists of instances do not need them.
if TYPE_CHECKING:
    from .problem import TrainingProblem


def _tiny() -> TrainingProblem:
    from ..base.quantities import GIB
    from .build import problem_of
    from .model import Attention, Mlp, Model

    model = Model("tiny", 1_024, 8, 32_000, Attention(8, 128, 2), Mlp(4_096))
    return problem_of(model, "4xrtx-3090", batch=16, sequence=1_024, memory_bytes=4 * GIB, levels="4x32GB/s")


def _tiny_experts() -> TrainingProblem:
    from ..base.quantities import GIB
    from .build import problem_of
    from .model import Attention, Experts, Mlp, Model

    experts = Experts(8, 2, 1_024, shared_hidden=1_024, dense_layers=1)
    model = Model("tiny-experts", 1_024, 6, 32_000, Attention(8, 128, 8), Mlp(4_096), experts)
    return problem_of(model, "8xl4", batch=32, sequence=1_024, memory_bytes=3 * GIB, levels="8x32GB/s")


def _llama(name: str, devices: str, batch: int) -> TrainingProblem:
    from .build import problem_of

    return problem_of(name, devices, batch=batch, sequence=8_192)


RECIPES = (
    Recipe(
        "tiny-training", "a transformer of 0.2 billion parameters in 4 GiB of each of 4 RTX 3090, by hand", _tiny
    ),
    Recipe("tiny-experts-training", "a transformer with experts in 3 GiB of each of 8 L4, by hand", _tiny_experts),
    Recipe(
        "llama-3-8b-8xh100",
        "Llama 3 8B on one node, sequences of 8192 tokens, 128 of them in a batch (analytic costs)",
        lambda: _llama("llama-3-8b", "8xh100-80gb", 128),
    ),
    Recipe(
        "llama-3-70b-64xh100",
        "Llama 3 70B on eight nodes, sequences of 8192 tokens, 128 of them in a batch (analytic costs)",
        lambda: _llama("llama-3-70b", "64xh100-80gb", 128),
    ),
)


PACKAGED = Packaged(
    recipes=tuple(recipe.named() for recipe in RECIPES),
    columns={"units": "{units}", "devices": "{devices}"},
    variants={"configuration": "seconds"},
    note="trainings: best known seconds of an iteration",
)
