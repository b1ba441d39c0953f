"""The options of the latency formulation, apart from its models: lists of formulations load no modelling code."""

from __future__ import annotations

from ..contract import OptionSpec

OBJECTIVE = OptionSpec(
    "objective", "choice", "latency", "latency: from a sample's arrival to its last result.", ("latency",)
)
SUBGRAPHS_PER_DEVICE = OptionSpec(
    "subgraphs_per_device", "int", 1, "Latency: pieces that an accelerator may run one after the other."
)
VARIANT = OptionSpec(
    "variant",
    "choice",
    "strong",
    "strong: with safe reductions and cuts; plain: as in the paper.",
    ("strong", "plain"),
)
OPTIONS = (SUBGRAPHS_PER_DEVICE, VARIANT, OBJECTIVE)
