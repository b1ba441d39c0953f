"""What the packaged graph pipelines are made of, and what their list shows."""

from __future__ import annotations

from ..base.packaged import Packaged, Recipe
from .models import candle_uno, case_study, dlrm, mmt
from .tiny import tiny_graph

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
