"""Plans of all kinds for exports to every framework, and the table of docs/export.md: what becomes of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from export_samples import llama, on_stages, placed

import pipeplan
from pipeplan import PipeplanError, PlannedStage, Profile, StagedPlan
from pipeplan.instances.lowering import lower, without_backward_passes
from pipeplan.models.export.contract import TARGETS, Exported, export_files

LAYERS = 8
MODEL = llama(LAYERS)
SERVED = without_backward_passes(MODEL)
# With a head that takes as long as three layers.
HEAVY = SERVED.replace(
    nodes=tuple(replace(node, forward=3.0) if node.id == "lm_head" else node for node in SERVED.nodes)
)
ON = {"memory_bytes": 1e9}


@dataclass(frozen=True)
class Planned:
    """A plan with what it is exported with."""

    plan: Any
    problem: Any
    """The profile, or of a schedule or a configuration its problem."""


def _solved(profile: Profile, plan_options: dict[str, Any] | None = None, **on: Any) -> Planned:
    links = {} if "levels" in on else {"bandwidth": 1e9}
    problem = lower(profile, **{**ON, **links, **on}).problem
    result = pipeplan.solve(problem, options=plan_options or {})
    assert result.plan is not None, result.messages
    return Planned(result.plan, profile)


def _with_degrees() -> Planned:
    """Two replicas of the first stage, one of the second."""
    first, second = on_stages(MODEL, (5, 3))
    stages = (PlannedStage(part, d, 1, dict.fromkeys(part, "vanilla")) for part, d in ((first, 2), (second, 1)))
    return Planned(StagedPlan(tuple(stages)), MODEL)


def _interleaved() -> Planned:
    """Two ranks with two stages each, in turn."""
    ids = MODEL.ids
    return Planned(placed([ids[:3] + ids[5:7], ids[3:5] + ids[7:]]), MODEL)


def _with_a_cpu() -> Planned:
    """The embedding on the CPU."""
    ids = SERVED.ids
    return Planned(placed([ids[1:6], ids[6:], ids[:1]], training=False, cpus=[2]), SERVED)


def _packaged(name: str, **options: Any) -> Planned:
    problem = pipeplan.load_packaged(name)
    return Planned(pipeplan.solve(problem, **options).plan, problem)


PLANS: dict[str, Callable[[], Planned]] = {
    "stages, a device each": lambda: _solved(MODEL, kind="staging", devices=4),
    "stages with degrees of their own": _with_degrees,
    "the same degrees (`--option uniform`)": lambda: _solved(
        MODEL, {"uniform": True}, kind="staging", devices=8, data_parallel=True, memory_bytes=120.0, batch=16
    ),
    "stages on levels": lambda: _solved(MODEL, kind="staging", devices=4, levels=((2, 1e9), (2, 1e8))),
    "a placement": lambda: _solved(MODEL, kind="placement", devices=4),
    "a placement with two stages on a rank": _interleaved,
    "a chain": lambda: _solved(MODEL, kind="chain", devices=4),
    "a graph of stages": lambda: _solved(MODEL, {"degrees": "none"}, kind="graph-pipeline", devices=4, batch=8),
    "serving, the head alone": lambda: _solved(HEAVY, kind="staging", devices=4),
    "serving, `--option whole-layers`": lambda: _solved(HEAVY, kind="staging", devices=4, whole_layers=True),
    "serving, the embedding on a CPU": _with_a_cpu,
    "a schedule": lambda: _packaged("zero-bubble-4x12", planner="1f1b"),
    "a training configuration": lambda: _packaged("tiny-training"),
}


@cache
def planned(name: str) -> Planned:
    return PLANS[name]()


def outcome(name: str, to: str) -> Exported | PipeplanError:
    """The files, or the refusal."""
    case = planned(name)
    micro_batches = (
        4 if to in ("torch", "torchtitan") and name not in ("a schedule", "a training configuration") else None
    )
    try:
        return export_files(case.plan, case.problem, to=to, micro_batches=micro_batches)
    except PipeplanError as refusal:
        return refusal


# What a refusal names to ask for instead: options with their values, and commands.
INSTEAD = re.compile(r"--(?:to|option|planner|framework) [a-z-]+|--[a-z][a-z-]+|`plan [a-z]+[^`]*`")


def table() -> Iterator[str]:
    """Lines of the page: `yes`, or what to ask for instead."""
    yield f"| plan | {' | '.join(f'`{to}`' for to in TARGETS)} |"
    yield f"| --- |{' --- |' * len(TARGETS)}"
    for name in PLANS:
        cells = [_cell(outcome(name, to)) for to in TARGETS]
        yield f"| {name} | {' | '.join(cells)} |"


def _cell(found: Exported | PipeplanError) -> str:
    """The first thing that a refusal names."""
    if isinstance(found, Exported):
        return "yes"
    named = INSTEAD.search(str(found).partition("; ")[2]) or INSTEAD.search(str(found))
    words = "" if named is None else named[0].strip("`")
    without = "no " if f"without {words}" in str(found) else ""
    return f"{without}`{words}`"
