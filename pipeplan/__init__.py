"""Exact planning of pipeline-parallel DNN training and inference.

    import pipeplan

    problem = pipeplan.load("bert24.json")
    result = pipeplan.solve(problem, formulation="ip-tarnawski")
    print(result.found, result.objective, result.bound)
    pipeplan.save(result, "bert24.result.json")

Names are imported when they are first used: `import pipeplan` alone loads no solver and no numerics.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .formulations.contract import Formulation as Formulation
    from .formulations.contract import OptionSpec as OptionSpec
    from .instances.catalogue import load_packaged as load_packaged
    from .instances.catalogue import load_packaged_staging as load_packaged_staging
    from .instances.catalogue import packaged_names as packaged_names
    from .instances.errors import InputError as InputError
    from .instances.errors import PipeplanError as PipeplanError
    from .instances.errors import UsageError as UsageError
    from .instances.files import load as load
    from .instances.files import save as save
    from .instances.graph_pipeline.plan import GraphStage as GraphStage
    from .instances.graph_pipeline.plan import StageGraphPlan as StageGraphPlan
    from .instances.graph_pipeline.problem import GraphPipelineProblem as GraphPipelineProblem
    from .instances.graph_pipeline.problem import Link as Link
    from .instances.graph_pipeline.problem import Operator as Operator
    from .instances.graph_pipeline.problem import TimeCurve as TimeCurve
    from .instances.placement.cluster import AcceleratorType as AcceleratorType
    from .instances.placement.cluster import Level as Level
    from .instances.placement.plan import Device as Device
    from .instances.placement.plan import DeviceGroup as DeviceGroup
    from .instances.placement.plan import PlacementPlan as PlacementPlan
    from .instances.placement.problem import Node as Node
    from .instances.placement.problem import PlacementProblem as PlacementProblem
    from .instances.result import Found as Found
    from .instances.result import Proof as Proof
    from .instances.result import Result as Result
    from .instances.result import Stop as Stop
    from .instances.result import WarmStart as WarmStart
    from .instances.result import Warmth as Warmth
    from .instances.results import load_plan as load_plan
    from .instances.simulation.simulate import simulate as simulate
    from .instances.staging.plan import StagedPlan as StagedPlan
    from .instances.staging.problem import StagingProblem as StagingProblem
    from .planners.beaumont.smallest_memory import SmallestMemory as SmallestMemory
    from .planners.beaumont.smallest_memory import smallest_memory as smallest_memory
    from .planners.contract import Planner as Planner
    from .planners.options import Progress as Progress
    from .planners.options import SolveOptions as SolveOptions
    from .planners.run.proof_check import ProofCheck as ProofCheck
    from .planners.run.proof_check import verify_proof as verify_proof
    from .planners.run.referee import evaluate as evaluate
    from .planners.run.referee import verify as verify
    from .planners.run.solve import solve as solve
    from .studies.sensitivity import Sensitivity as Sensitivity
    from .studies.sensitivity import sensitivity as sensitivity

__version__ = "0.1.0"

_HOMES = {
    "formulations.contract": ("Formulation", "OptionSpec"),
    "instances.catalogue": ("load_packaged", "load_packaged_staging", "packaged_names"),
    "instances.placement.cluster": ("AcceleratorType", "Level"),
    "instances.errors": ("InputError", "PipeplanError", "UsageError"),
    "instances.graph_pipeline.problem": ("GraphPipelineProblem", "Link", "Operator", "TimeCurve"),
    "instances.files": ("load", "save"),
    "instances.results": ("load_plan",),
    "instances.placement.problem": ("Node", "PlacementProblem"),
    "instances.placement.plan": ("Device", "DeviceGroup", "PlacementPlan"),
    "instances.result": ("Found", "Proof", "Result", "Stop", "WarmStart", "Warmth"),
    "planners.beaumont.smallest_memory": ("SmallestMemory", "smallest_memory"),
    "instances.simulation.simulate": ("simulate",),
    "instances.graph_pipeline.plan": ("GraphStage", "StageGraphPlan"),
    "instances.staging.plan": ("StagedPlan",),
    "instances.staging.problem": ("StagingProblem",),
    "planners.contract": ("Planner",),
    "planners.options": ("Progress", "SolveOptions"),
    "planners.run.proof_check": ("ProofCheck", "verify_proof"),
    "planners.run.referee": ("evaluate", "verify"),
    "studies.sensitivity": ("Sensitivity", "sensitivity"),
    "planners.run.solve": ("solve",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "__version__",
    *_HOME_OF,
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
