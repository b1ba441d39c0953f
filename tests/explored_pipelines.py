"""What the sliders of `plan explore` say, as a problem and a plan for the simulator."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pipeplan
from pipeplan import GraphPipelineProblem, GraphStage, Link, Operator, StageGraphPlan, TimeCurve
from pipeplan.instances.graph_pipeline.referee import in_flight_before
from pipeplan.instances.timeline.model import Simulation, StageRun
from pipeplan.show.page import asset

GIB = 2**30
PAGE = ElementTree.fromstring(asset("explore.html"))
SETUP = json.loads(str(PAGE.findtext(".//script[@id='setup']")))
SITUATIONS: list[dict[str, Any]] = SETUP["situations"]
SCHEDULES = [str(option.get("value")) for option in PAGE.iterfind(".//select[@id='schedule']/option")]
SLIDERS = {
    str(knob.get("id")): {name: json.loads(str(knob.get(name))) for name in ("min", "max", "step", "value")}
    for knob in PAGE.iterfind(".//input[@data-setting]")
}
USUAL: dict[str, Any] = {"schedule": "1f1b", **{key: slider["value"] for key, slider in SLIDERS.items()}}


def simulated(settings: Any) -> Simulation:
    """An operator for each stage, a sample for each micro-batch."""
    s, count = settings, settings["stages"]
    edges = tuple(pairwise(range(count)))
    problem = GraphPipelineProblem(
        tuple(_operator(s, i) for i in range(count)), edges, mini_batch=s["batches"], devices=count,
        memory_bytes=s["limit"] * GIB, link=Link(latency_s=s["transfer"]), weight_copies=1, time_unit="ms",
    )  # fmt: skip
    plan = StageGraphPlan(_stages(s), edges)
    return pipeplan.simulate(problem, plan, schedule="gpipe" if s["schedule"] == "gpipe" else "planned")


def _operator(s: Any, i: int) -> Operator:
    slower = s["factor"] if i + 1 == s["slow"] else 1
    forward, backward = (TimeCurve((1,), (s[side] * slower,)) for side in ("forward", "backward"))
    return Operator(i, forward, backward, s["weights"] * GIB, s["kept"] * GIB, output_bytes=1)


def _stages(s: Any) -> tuple[GraphStage, ...]:
    """The last one holds k micro-batches, each before it what GraphPipe's table asks for."""
    k = s["k"] if s["schedule"] == "kfkb" else 1
    last = s["stages"] - 1
    stages = [GraphStage((last,), 1, 1, k, min(k, s["batches"]))]
    for i in reversed(range(last)):
        needed = in_flight_before(GraphStage((i,), 1, 1, k), stages[0], stages[0].in_flight)
        stages.insert(0, GraphStage((i,), 1, 1, k, min(needed, s["batches"])))
    return tuple(stages)


def shown_of(simulation: Simulation) -> dict[str, Any]:
    """In the words of the page's script."""
    return {
        "iteration": simulation.iteration,
        "bubble": simulation.bubble,
        "devices": [_device(stage, simulation.mini_batch) for stage in simulation.stages],
    }


def _device(stage: StageRun, samples: int) -> dict[str, Any]:
    batches = max(task.micro_batch for task in stage.tasks)
    passes = [
        {
            "pass": task.micro_batch if task.kind == "forward" else -task.micro_batch,
            "start": task.start,
            "end": task.end,
        }
        for task in stage.tasks
    ]
    return {
        "passes": passes,
        "busy": stage.busy,
        "inFlight": stage.peak_in_flight * batches // samples,
        "weights": stage.fixed_bytes,
        "bytes": stage.memory_bytes,
    }


def leaves(value: Any) -> list[float]:
    """All numbers in the order in which they stand, so that two such trees are compared at once."""
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in leaves(value[key])]
    return [number for entry in value for number in leaves(entry)] if isinstance(value, list) else [value]
