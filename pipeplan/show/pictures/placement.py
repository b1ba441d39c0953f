"""A split of a placement problem as a picture: load and memory of each device, and the traffic of groups."""

from __future__ import annotations

import os

from ...instances.kind import Rules
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.evaluate import DeviceLoad, GroupLoad, evaluate
from ...instances.placement.referee.stages import stage_order
from ...instances.placement.rules import LATENCY
from .canvas import legible
from .latency import draw_latency
from .load_bars import Bars, draw_bars


def picture(problem: PlacementProblem, plan: PlacementPlan, rules: Rules, path: str | os.PathLike[str]) -> None:
    """Devices in the order of the stages where there is one; for latency the schedule of one sample instead."""
    if rules.objective == LATENCY:
        draw_latency(problem, plan, path)
        return
    evaluation = evaluate(problem, plan)
    loads = {load.name: load for load in evaluation.devices}
    busy = [device.name for device in plan.devices if device.nodes]
    order = [name for name in stage_order(problem, plan) or busy if name in busy]
    units: list[DeviceLoad | GroupLoad] = [*(loads[name] for name in order), *evaluation.groups]
    value = evaluation.objective(rules.objective)
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    bars = Bars(
        title=f"{legible(problem.name)}: {rules.objective} {value:.6g}{unit}, bottleneck {evaluation.bottleneck}",
        names=[legible(load.name) for load in units],
        parts={
            "computation": [_compute(load) / load.divisor for load in units],
            "transfers in": [load.transfer_in / load.divisor for load in units],
            "transfers out": [load.transfer_out / load.divisor for load in units],
            "synchronisation": [load.sync for load in units],
        },
        memory_bytes=[load.size_bytes if isinstance(load, DeviceLoad) else None for load in units],
        limit_bytes=[_limit(problem, plan, load.name) for load in units],
        unit=problem.time_unit,
    )
    draw_bars(bars, path)


def _compute(load: DeviceLoad | GroupLoad) -> float:
    return load.compute if isinstance(load, DeviceLoad) else 0.0


def _limit(problem: PlacementProblem, plan: PlacementPlan, name: str) -> float | None:
    """Of an accelerator of its type; CPUs and groups have none."""
    device = next((device for device in plan.devices if device.name == name), None)
    if device is None or device.type == "cpu":
        return None
    kind = device.accelerator_type
    return problem.memory_bytes if kind is None else problem.other_types[problem.type_index[kind]].memory_bytes
