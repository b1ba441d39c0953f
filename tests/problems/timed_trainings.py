"""Training problems on hardware with round numbers, whose times can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.training.model import Attention, MeasuredTime, Mlp, Model, OwnLayer
from pipeplan.instances.training.plan import NOTHING, Configuration, Degrees
from pipeplan.instances.training.problem import Gpu, Level, TrainingProblem

GPU = Gpu("round", 80e9, {"bf16": 1e15, "fp8": 2e15}, 1e13)
PLAIN = Efficiencies(
    products=1, half_side=0, grouped_products=1, products_fp8=1, attention=1, memory=1, launch_seconds=0, links=1,
    collective_seconds=0, context_hidden=0, data_hidden=0,
)  # fmt: skip
"""Hardware as its data sheet says, with nothing hidden."""


def model(**changes: Any) -> Model:
    """Four small dense layers."""
    shapes = {
        "hidden": 1024,
        "layers": 4,
        "vocabulary": 32000,
        "attention": Attention(heads=8, head_size=128, key_value_heads=2),
        "mlp": Mlp(4096),
    }
    return Model("small", **{**shapes, **changes})


def problem(devices: int = 8, own: Model | None = None, **changes: Any) -> TrainingProblem:
    given = {"batch": 8, "sequence": 2048, "efficiencies": PLAIN, "levels": (Level(devices, 1e11, 0.0),), **changes}
    return TrainingProblem(own or model(), GPU, devices=devices, **given)


def measured_row(
    count: int,
    forward: float,
    backward: float,
    *,
    output_bytes: float = 0,
    update_seconds: Sequence[float] | None = None,
    **given: Any,
) -> TrainingProblem:
    """So many layers that take so long, with updates of their own."""
    layers = [
        OwnLayer(f"layer {x}", 0, 0, output_bytes, (MeasuredTime(1, 1, forward, backward, update),))
        for x, update in enumerate(update_seconds or (0.0,) * count)
    ]
    return problem(own=Model("measured", own=tuple(layers)), **given)


def configuration(
    own: TrainingProblem, micro_batch: int = 1, layout: Sequence[int] | None = None, **degrees: int
) -> Configuration:
    """Units divided evenly where no layout says otherwise, 1F1B, nothing sharded, nothing computed again."""
    given = Degrees(**degrees)
    units = len(own.model.units)
    even = [units // given.chunks + (j < units % given.chunks) for j in range(given.chunks)]
    return Configuration(given, micro_batch, 0, "1f1b", tuple(layout or even), (NOTHING,) * given.chunks)
