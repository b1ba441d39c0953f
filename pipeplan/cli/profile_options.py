"""Options of commands that take an instance: how a profile or a table of layers becomes a problem."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import typer

from .signatures import option

PANEL = "Profiles and tables of layers (what they become)"

KINDS = ("placement", "chain", "staging", "graph-pipeline", "training")
# Written here again, so that a help page imports no problem; a test compares them with the tables.
OPTIMIZERS = ("sgd", "adam", "adam-mixed")


def _degrees(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise typer.BadParameter(f"{text!r} is no list of degrees like 1,2,4.")
    return tuple(map(int, parts))


def _efficiency(text: str) -> float | str:
    """One number, or one for each degree, which is read where degrees are known."""
    try:
        return float(text)
    except ValueError:
        return text


_option = partial(option, rich_help_panel=PANEL)
PROFILE_OPTIONS = (
    _option(
        "kind",
        str,
        metavar="KIND",
        help="What to make of them; default: what fits.",
    ),
    _option(
        "optimizer",
        str,
        metavar="NAME",
        autocompletion=lambda: list(OPTIMIZERS),
        help="Optimizer: sgd, adam or adam-mixed.",
    ),
    _option(
        "in_flight",
        int,
        help="Placements: micro-batches whose activations a device holds; default: as many as devices.",
    ),
    _option(
        "recompute",
        bool,
        "--recompute",
        help="Recompute activations (stagings: where).",
    ),
    _option("data_parallel", bool, "--data-parallel", help="Allow replicas of stages (staging)."),
    _option(
        "tensor_parallel",
        Any,
        parser=_degrees,
        metavar="LIST",
        help="Devices that may share a layer: 1,2,4.",
    ),
    _option(
        "efficiency",
        Any,
        parser=_efficiency,
        metavar="SHARE",
        help="What is left of the ideal speed where devices share a layer: 0.9, or by their number 2:0.97,4:0.93; "
        "default: what they exchange takes the time of their links.",
    ),
    _option(
        "whole_layers",
        bool,
        "--whole-layers",
        help="Keep layers whole, the embedding with the first and the head with the last: every stage then holds a "
        "layer, as vLLM, SGLang and TensorRT-LLM need.",
    ),
    _option("bytes_per_parameter", float, help="Tables with a column parameters_count: the size of one."),
    _option(
        "zero",
        int,
        metavar="STAGE",
        help="ZeRO stage of replicas: 1, 2 or 3.",
    ),
    _option("replicas", int, help="Pipelines side by side that train the same weights (chains, with --zero)."),
    _option("sequence", int, metavar="TOKENS", help="Tokens of a sample: packaged models."),
    _option("micro_batch", int, metavar="SAMPLES", help="Samples of a micro-batch: packaged models."),
)


# Those that stand on every help page; the others are behind `--help-all`.
USUAL = ("kind", "optimizer", "zero", "recompute", "data_parallel", "tensor_parallel", "sequence")


def profile_options(given: Mapping[str, Any]) -> Any:
    """The options of a profile that were given; None where none was."""
    if not given:
        return None
    from ..instances.networks.profile.options import ProfileOptions

    return ProfileOptions(**given)
