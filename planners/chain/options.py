"""The options of the planners for chains, apart from the modules that obey them: lists of planners load no numerics."""

from __future__ import annotations

from ...formulations.contract import OptionSpec

BATCHES = OptionSpec(
    "batches_per_flush", "int", None, "Batches between two flushes; default: the best number up to 4 per GPU."
)
