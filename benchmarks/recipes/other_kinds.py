"""The packaged graph pipelines, schedules and trainings; what they are made of is in their kinds' own modules."""

from __future__ import annotations

from functools import partial

from graphpipe_networks import candle_uno, case_study, dlrm, mmt
from known_pipelines import shape

from pipeplan.instances.base.quantities import GIB
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Link, Operator, TimeCurve
from pipeplan.instances.schedule.generators import StagePasses, divided_pipeline, equal_stages
from pipeplan.instances.schedule.problem import ScheduleProblem
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.model import Attention, Experts, Mlp, Model
from pipeplan.instances.training.problem import TrainingProblem

from .recipe import Recipe

# A graph pipeline by hand, small enough to try every plan of it.


def tiny_graph() -> GraphPipelineProblem:
    """Two branches of two operators and a light join; a pass has an overhead of 1, so bigger micro-batches pay off.

    The best plan gives each operator of a branch a device, and the join to the end of one branch: four stages, three
    deep, with micro-batches of 4. The memory of 22 holds 12 samples of an operator besides its weights, so a row of
    these four stages, which would hold 16, runs micro-batches of 2 at most.
    """
    samples = (1, 2, 4, 8)

    def entry(name: str, per_sample: float, overhead: float, weight: float, stash: float) -> Operator:
        forward = TimeCurve(samples, tuple(overhead + per_sample * q for q in samples))
        backward = TimeCurve(samples, tuple(overhead + 2 * per_sample * q for q in samples))
        return Operator(name, forward, backward, weight, stash, output_bytes=1.0)

    operators = tuple(entry(name, 1.0, 1.0, 5.0, 1.0) for name in ("a1", "a2", "b1", "b2"))
    join = entry("join", 0.0, 0.0, 0.0, 0.0)
    edges = (("a1", "a2"), ("b1", "b2"), ("a2", "join"), ("b2", "join"))
    return GraphPipelineProblem(
        (*operators, join), edges, 16, 4, 22.0, Link(16.0), name="tiny-graph", time_unit=None
    )


_SUMMIT = "8 V100 GPUs linked by NVLink and InfiniBand (analytic costs)"

GRAPH_PIPELINES = (
    Recipe("tiny-graph", "two hand-written branches and a join, for teaching", tiny_graph),
    Recipe("case-study", f"two branches of four transformer layers, on {_SUMMIT}", case_study),
    Recipe("mmt-8", f"MMT with four branches of eight transformer layers, on {_SUMMIT}", mmt),
    Recipe("dlrm-8", f"DLRM with seven dense branches and seven tables, on {_SUMMIT}", dlrm),
    Recipe("candle-uno-8", f"CANDLE-Uno with seven dense branches, on {_SUMMIT}", candle_uno),
)


# Times in microseconds and memory in MiB of each stage, as the authors of Zero Bubble measured them.
UNEVEN_FORWARD = (30715, 29233, 29106, 29078, 28850, 28919, 28924, 41678)
UNEVEN_INPUTS = (31308, 29344, 29357, 29455, 29217, 29384, 29354, 38731)
UNEVEN_WEIGHTS = (18746, 18789, 19062, 19367, 19455, 19967, 20096, 32833)
UNEVEN_TAKEN = (943, *(1240,) * 6, 1071)
UNEVEN_GIVEN = (533, *(688,) * 6, 588)


def measured_uneven(micro_batches: int = 32) -> ScheduleProblem:
    """Eight stages of a transformer with an embedding and a head, as measured: microseconds and MiB."""
    rows = zip(UNEVEN_FORWARD, UNEVEN_INPUTS, UNEVEN_WEIGHTS, UNEVEN_TAKEN, UNEVEN_GIVEN, strict=True)
    stages = tuple(StagePasses(*row) for row in rows)
    return divided_pipeline(stages, micro_batches, 19840, 473, "measured-uneven", "us", "MiB")


def measured_even(micro_batches: int = 32) -> ScheduleProblem:
    """Eight equal stages of a transformer, as measured: microseconds and MiB."""
    stages = equal_stages(8, 29850, 29767, 18868, taken=3720, given=2048)
    return divided_pipeline(stages, micro_batches, 59520, 466, "measured-even", "us", "MiB")


_MEASURED = "eight stages of a transformer as the authors of Zero Bubble measured them, 32 micro-batches"


def _small() -> ScheduleProblem:
    return divided_pipeline(equal_stages(4, 5, 6, 4), 12, 16, name="zero-bubble-4x12")


def _lagging() -> ScheduleProblem:
    return divided_pipeline(equal_stages(4, 5478, 5806, 3534), 12, 32, 200)


def _wide() -> ScheduleProblem:
    return divided_pipeline(equal_stages(32, 1, 1, 1), 16, 64)


SCHEDULES = (
    Recipe("zero-bubble-4x12", "hand-written: four equal stages with times 5, 6 and 4", _small),
    Recipe(
        "zero-bubble-4x12-lag",
        "hand-written: four equal stages with times 5478, 5806 and 3534, and a lag of 200",
        _lagging,
    ),
    Recipe(
        "zero-bubble-32x16", "hand-written: more stages than micro-batches; every pass takes one time unit", _wide
    ),
    Recipe("measured-even-8x32", f"{_MEASURED}; equal stages", measured_even),
    Recipe("measured-uneven-8x32", f"{_MEASURED}; with embedding and head", measured_uneven),
    Recipe("v-shape-4", "a chain of stages on 4 devices, in steady state", partial(shape, "v")),
    Recipe("nn-shape-4", "two chains between blocks that occupy all 4 devices", partial(shape, "nn")),
)


def _tiny_training() -> TrainingProblem:
    model = Model("tiny", 1_024, 8, 32_000, Attention(8, 128, 2), Mlp(4_096))
    return problem_of(model, "4xrtx-3090", batch=16, sequence=1_024, memory_bytes=4 * GIB, levels="4x32GB/s")


def _tiny_experts() -> TrainingProblem:
    experts = Experts(8, 2, 1_024, shared_hidden=1_024, dense_layers=1)
    model = Model("tiny-experts", 1_024, 6, 32_000, Attention(8, 128, 8), Mlp(4_096), experts)
    return problem_of(model, "8xl4", batch=32, sequence=1_024, memory_bytes=3 * GIB, levels="8x32GB/s")


def _llama(name: str, devices: str, batch: int) -> TrainingProblem:
    return problem_of(name, devices, batch=batch, sequence=8_192)


TRAININGS = (
    Recipe(
        "tiny-training",
        "hand-written transformer with 0.2 billion parameters, on 4 RTX 3090 with 4 GiB each",
        _tiny_training,
    ),
    Recipe(
        "tiny-experts-training", "hand-written transformer with experts, on 8 L4 with 3 GiB each", _tiny_experts
    ),
    Recipe(
        "llama-3-8b-8xh100",
        "Llama 3 8B on one node, batch of 128 sequences of 8192 tokens (analytic costs)",
        lambda: _llama("llama-3-8b", "8xh100-80gb", 128),
    ),
    Recipe(
        "llama-3-70b-64xh100",
        "Llama 3 70B on eight nodes, batch of 128 sequences of 8192 tokens (analytic costs)",
        lambda: _llama("llama-3-70b", "64xh100-80gb", 128),
    ),
)
