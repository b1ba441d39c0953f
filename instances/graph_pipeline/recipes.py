"""What the packaged graph pipelines are made of, and what their list shows."""

from __future__ import annotations

from ..base.packaged import Packaged, Recipe
from .models import candle_uno, case_study, dlrm, mmt
from .problem import GraphPipelineProblem, Link, Operator, TimeCurve

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


_SUMMIT = "on V100 with NVLink and InfiniBand (analytic costs)"

RECIPES = (
    Recipe("tiny-graph", "two branches and a join by hand, for teaching", tiny_graph),
    Recipe("case-study", f"two branches of four transformer layers, 8 devices {_SUMMIT}", case_study),
    Recipe("mmt-8", f"MMT, four branches of eight transformer layers, 8 devices {_SUMMIT}", mmt),
    Recipe("dlrm-8", f"DLRM, seven dense branches and seven tables, 8 devices {_SUMMIT}", dlrm),
    Recipe("candle-uno-8", f"CANDLE-Uno, seven dense branches, 8 devices {_SUMMIT}", candle_uno),
)


PACKAGED = Packaged(
    recipes=RECIPES,
    columns={"operators": "{operators}", "devices": "{devices}"},
    variants={"time-per-sample": "per sample", "iteration": "iteration"},
    note="graph pipelines: best known times per sample in steady state, and of one simulated mini-batch",
)
