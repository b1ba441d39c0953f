"""For which stage graphs the proofs hold: which stages, micro-batches, numbers of devices and groups of passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...instances.base.quantities import several
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ..family import Family, Outside
from .columns import degrees, sizes, useful_groups
from .stage_sets import stage_sets

_STAGES = {"series-parallel": "stages of the decomposition", "convex": "any convex stages"}
_DEVICES = {"divisors": "", "pow2": ", on powers of two of devices", "none": ", on one device each"}


def family(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> Family:
    """The plans of which the bounds of `cp-graphpipe` speak."""
    mixed, which = bool(options.get("mixed_micro_batches")), options["family"]
    k = f" and k up to {options.get('k', 1)}" if _groups_count(problem, options) else ""
    if _one_by_one(options):
        k = " and k = 1"
    scope = f"stage graphs of {_STAGES[which]}, {micro_batches(options)}{k}{devices(options)}"
    wider = [
        "--option family=convex" if which != "convex" else None,
        *freer(options, options.get("objective") != "iteration"),
    ]
    if (mixed and k) or _one_by_one(options):
        wider.append(f"--option k={2 * options.get('k', 1)}")

    def outside(plan: StageGraphPlan) -> Outside | None:
        reasons = (_sizes(problem, options, plan), _stages(problem, options, plan))
        return next((reason for reason in reasons if reason is not None), None)

    return Family(scope, " ".join(filter(None, wider)) or None, outside)


def micro_batches(options: Mapping[str, Any]) -> str:
    """The micro-batches that the stages may have, in words."""
    size = options.get("micro_batch")
    if size is not None:
        return f"micro-batches of {several(size, 'sample')}"
    if options.get("mixed_micro_batches"):
        return "micro-batches of any powers of two"
    return "one micro-batch size for all, a power of two"


def devices(options: Mapping[str, Any]) -> str:
    """The numbers of devices that the stages may have, in words; empty where they may have all that the referee
    accepts."""
    return _DEVICES[options.get("degrees", "divisors")]


def freer(options: Mapping[str, Any], mixable: bool) -> list[str]:
    """Options that allow more micro-batches and numbers of devices."""
    flags = []
    if options.get("micro_batch") is not None:
        flags.append("without --micro-batch")
    elif mixable and not options.get("mixed_micro_batches"):
        flags.append("--option mixed-micro-batches")
    if options.get("degrees", "divisors") != "divisors":
        flags.append("--option degrees=divisors")
    return flags


def _groups_count(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> bool:
    """Can groups of several micro-batches help at all? See `useful_groups`."""
    return bool(options.get("mixed_micro_batches")) and problem.memory_bytes is not None


def _one_by_one(options: Mapping[str, Any]) -> bool:
    """Does the bound count transfers that nothing hides? That holds for k = 1; to the time per sample k = 1 is as good
    as any."""
    iterations = options.get("objective") == "iteration" and options["family"] == "series-parallel"
    return iterations and options.get("k", 1) == 1


def _sizes(problem: GraphPipelineProblem, options: Mapping[str, Any], plan: StageGraphPlan) -> Outside | None:
    used, allowed = sorted({stage.micro_batch for stage in plan.stages}), sizes(problem, options)
    other = [size for size in used if size not in allowed]
    if len(used) > 1 and not options.get("mixed_micro_batches"):
        option = "--option mixed-micro-batches"
        return Outside(
            "micro-batches of several sizes", option if all(size.bit_count() == 1 for size in used) else None
        )
    if other:
        return Outside(
            f"micro-batches of {several(other[0], 'sample')}", None if len(used) > 1 else f"--micro-batch {used[0]}"
        )
    return None


def _stages(problem: GraphPipelineProblem, options: Mapping[str, Any], plan: StageGraphPlan) -> Outside | None:
    groups = useful_groups(sizes(problem, options), options.get("k", 1))
    sets = None if options["family"] == "convex" else set(stage_sets(problem, options["family"]))
    for stage in plan.stages:
        if stage.devices not in degrees(problem, stage.micro_batch, options["degrees"]):
            return Outside(f"a stage on {several(stage.devices, 'device')}", "--option degrees=divisors")
        if _one_by_one(options) and stage.k > 1:
            return Outside(f"k = {stage.k}", f"--option k={stage.k}" if stage.k.bit_count() == 1 else None)
        # The stage's k, or a smaller one as good: groups of more samples than the largest micro-batch save no memory.
        k = min(stage.k, max(1, max(groups) // stage.micro_batch))
        if _groups_count(problem, options) and k not in groups[stage.micro_batch]:
            return Outside(f"k = {stage.k}", f"--option k={stage.k}" if k.bit_count() == 1 else None)
        if sets is not None and sum(1 << problem.index[node] for node in stage.nodes) not in sets:
            return Outside("a stage that is none of the decomposition", "--option family=convex")
    return None
