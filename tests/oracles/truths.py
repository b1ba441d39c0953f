"""What enumeration says of a small problem, which methods claim to know it, and what is wrong with what they say.

`METHODS` lists every method that proves anything, once for each solver that takes it and each of its options that
changes what is sought; `truth` is the optimum over the plans that it chooses from; `faults` holds a result against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from oracles.chain import best_period
from oracles.graph_pipeline import all_plans, best_mixed_time, best_time, convex_sets, tree_sets
from oracles.latency import best_latency
from oracles.leveled_staging import best_leveled
from oracles.placement import best_placements
from oracles.schedule import least_makespan, least_period, least_span
from oracles.staging import best_stages
from oracles.training import best_configuration

import pipeplan
from pipeplan import PipeplanError, SolveOptions
from pipeplan.formulations.graphpipe.columns import useful_groups
from pipeplan.instances.base.result import PROVEN_TOLERANCE, Result, Stop
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, micro_batch_sizes
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph
from pipeplan.instances.registry import Problem

BOUND_ROUNDING = 1e-9
"""Relative: by so much a bound may exceed the optimum."""

SOLVERS = ("cp-sat", "highs", "scip")

OUTCOMES = ("optimal", "infeasible", "not proven", "refused", "error")
"""Refused: told in words that the method does not take the problem."""

FAULTS = ("false optimum", "false infeasible", "bound above a plan", "better than all", "error")
"""What must never be. Better than all: a plan that enumeration does not know, so one of the two breaks a rule."""


@dataclass(frozen=True)
class Method:
    """One way to ask for a proof."""

    kind: str
    formulation: str | None = None
    planner: str | None = None
    solver: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    wider: bool = False
    """Are its plans more than those that are enumerated? Then it may find better ones."""

    @property
    def name(self) -> str:
        words = [name if value is True else f"{name}={value}" for name, value in self.options.items()]
        return " ".join([self.formulation or self.planner or "", *([] if self.planner else [self.solver]), *words])

    def solve(self, problem: Problem, seconds: float | None = None, warm_start: Any = "auto") -> Result:
        return pipeplan.solve(
            problem, formulation=self.formulation, planner=self.planner, solver=self.solver, options=self.options,
            limits=SolveOptions(time_limit_s=seconds, threads=1), warm_start=warm_start,
        )  # fmt: skip


def _placements() -> Iterator[Method]:
    for objective in ("max-load", "gpipe"):
        yield Method("placement", planner="dp", options={"objective": objective})
        for notion in ({}, {"device_contiguity": True}, {"non_contiguous": True}):
            yield Method("placement", planner="brute-force", options={"objective": objective, **notion})
        for solver in SOLVERS:
            for variant in ("strong", "plain"):
                for free in (False, True):
                    options = {"objective": objective, "variant": variant, "non_contiguous": free}
                    yield Method("placement", "ip-tarnawski", solver=solver, options=options)


def _latencies() -> Iterator[Method]:
    for pieces in (1, 2):
        for solver in SOLVERS:
            for variant in ("strong", "plain") if solver == "cp-sat" else ("plain",):
                options = {"subgraphs_per_device": pieces, "variant": variant}
                yield Method("latency", "ip-tarnawski-latency", solver=solver, options=options)


def _chains() -> Iterator[Method]:
    yield Method("chain", planner="exact-beaumont")
    for solver in SOLVERS:
        yield Method("chain", "ilp-beaumont", solver=solver)
    yield Method("chain", "cp-beaumont", solver="cp-sat")
    yield Method("chain", "cp-beaumont", solver="cp-sat", options={"batches_per_period": 2}, wider=True)


def _stagings() -> Iterator[Method]:
    for semantics in ("paper", "reference"):
        yield Method("staging", planner="dp-piper", options={"semantics": semantics})
        yield Method("staging", planner="dp-piper", options={"semantics": semantics, "objective": "flush"})
        for solver in SOLVERS:
            options = {"semantics": semantics}
            yield Method("staging", "mip-piper", solver=solver, options=options)
            yield Method("staging", "mip-piper", solver=solver, options={**options, "objective": "flush"})


def _types() -> Iterator[Method]:
    for semantics in ("paper", "reference"):
        for objective in ("throughput", "flush"):
            options = {"semantics": semantics, "objective": objective}
            yield Method("types", planner="dp-piper", options=options)
            for solver in SOLVERS:
                yield Method("types", "mip-piper", solver=solver, options=options)


def _levels() -> Iterator[Method]:
    yield Method("levels", planner="dp-piper")
    for solver in SOLVERS:
        yield Method("levels", "mip-piper", solver=solver)


def _graph_pipelines() -> Iterator[Method]:
    kind = "graph-pipeline"
    for family in ("series-parallel", "convex"):
        for degrees in ("divisors", "pow2", "none"):
            yield Method(kind, "cp-graphpipe", solver="cp-sat", options={"family": family, "degrees": degrees})
        for k in (1, 2):
            options = {"family": family, "mixed_micro_batches": True, "k": k}
            yield Method(kind, "cp-graphpipe", solver="cp-sat", options=options)
        yield Method(kind, "cp-graphpipe", solver="cp-sat", options={"family": family, "micro_batch": 1})
    for objective in ("time-per-sample", "iteration"):
        options = {"objective": objective}
        yield Method(kind, planner="graphpipe", options=options, wider=objective == "iteration")
        yield Method(
            kind, planner="graphpipe", options={**options, "mixed_micro_batches": True, "k": 2}, wider=True
        )


def _schedules() -> Iterator[Method]:
    for objective in ("makespan", "span"):
        options = {"objective": objective}
        yield Method("schedule", planner="exact-schedule", options=options)
        yield Method("schedule", "cp-schedule", solver="cp-sat", options=options)
        for solver in SOLVERS:
            yield Method("schedule", "ilp-zero-bubble", solver=solver, options=options)
    yield Method("schedule", planner="exact-schedule", options={"objective": "period"})
    yield Method("schedule", "cp-periodic", solver="cp-sat")


def _trainings() -> Iterator[Method]:
    for share in (0.0, 0.03):
        yield Method("training", planner="exact-configuration", options={"memory_error": share})


METHODS: Mapping[str, tuple[Method, ...]] = {
    "placement": tuple(_placements()), "latency": tuple(_latencies()), "chain": tuple(_chains()),
    "staging": tuple(_stagings()), "types": tuple(_types()), "levels": tuple(_levels()),
    "graph-pipeline": tuple(_graph_pipelines()), "schedule": tuple(_schedules()), "training": tuple(_trainings()),
}  # fmt: skip


# ---- the truth -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Question:
    """Problems that differ in their names alone are one."""

    digest: str
    kind: str
    options: tuple[tuple[str, Any], ...]
    problem: Any = field(compare=False)


def truth(problem: Problem, method: Method) -> float | None:
    """The optimum over the plans that the method chooses from; None: there is no plan."""
    ways = ("variant",) if method.kind == "latency" else ()  # to the same plans
    options = tuple(sorted((name, value) for name, value in method.options.items() if name not in ways))
    return _answer(_Question(problem.hash, method.kind, () if method.kind == "chain" else options, problem))


LEAST = {"makespan": least_makespan, "span": least_span, "period": least_period}


@lru_cache(maxsize=64)
def _answer(question: _Question) -> float | None:
    problem, options = question.problem, dict(question.options)
    if question.kind == "placement":
        return _placements_of(_Question(question.digest, "", (), problem))[
            options["objective"], _contiguity(options)
        ]
    if question.kind == "latency":
        return best_latency(problem, options["subgraphs_per_device"])
    if question.kind == "chain":  # one batch per period
        period = best_period(problem)
        return None if period is None else float(period)
    if question.kind == "schedule":
        least = LEAST[options.get("objective", "period")](problem)
        return None if least is None else float(least)
    if question.kind == "training":
        found = best_configuration(problem, options["memory_error"])
        return None if found is None else found[0]
    if question.kind == "graph-pipeline":
        return _graph_truth(problem, options)
    if question.kind == "levels":
        tree = best_leveled(problem, options.get("objective") == "flush")
        return None if tree is None else tree[0]
    stages = best_stages(problem, options["semantics"], options.get("objective") == "flush")
    return None if stages is None else stages[0]


@lru_cache(maxsize=8)
def _placements_of(question: _Question) -> Mapping[tuple[str, str], float | None]:
    return best_placements(question.problem)


def _contiguity(options: Mapping[str, Any]) -> str:
    if options.get("non_contiguous"):
        return "none"
    return "device" if options.get("device_contiguity") or options.get("variant") == "plain" else "chain"


def _graph_truth(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> float | None:
    """Planners prove bounds for all convex stages, models for those of their family."""
    family = tree_sets(problem) if options.get("family") == "series-parallel" else convex_sets(problem)
    mixed, degrees = bool(options.get("mixed_micro_batches")), options.get("degrees", "divisors")
    sizes = micro_batch_sizes(problem, options.get("micro_batch"), mixed)
    if options.get("objective") == "iteration":
        return _least_iteration(problem, sizes, family)
    if not mixed:
        times = [best_time(problem, b, family, degrees) for b in sizes]
        return min((time for time in times if time is not None), default=None)
    groups = useful_groups(sizes, options.get("k", 1))
    return best_mixed_time(problem, [(b, k) for b in sizes for k in groups[b]], family)


def _least_iteration(problem: GraphPipelineProblem, sizes: tuple[int, ...], family: Any) -> float | None:
    """Of the plans with one size for all stages and no more samples in flight than their schedules ask for."""
    plans = all_plans(problem, [(b, 1) for b in sizes], family, mixed=False)
    times = (evaluate_stage_graph(problem, plan).iteration for plan in plans)
    return min((time for time in times if time is not None), default=None)


# ---- the judge -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What a run came to: how it ended, and what is wrong with it, in words."""

    outcome: str
    """Of `OUTCOMES`."""
    value: float | None
    faults: tuple[tuple[str, str], ...] = ()
    """Of `FAULTS`, each with its numbers."""
    result: Result | None = None
    said: str = ""
    """Why it was refused."""


def judged(problem: Problem, method: Method, seconds: float | None = 30.0, warm_start: Any = "auto") -> Verdict:
    """Solve and compare with enumeration."""
    try:
        result = method.solve(problem, seconds, warm_start)
    except PipeplanError as error:
        return Verdict("refused", None, said=str(error))
    return Verdict(outcome(result), result.objective, tuple(faults(problem, method, result)), result)


def outcome(result: Result) -> str:
    if result.stop == Stop.ERROR:
        return "error"
    return {Stop.PROVEN: "optimal", Stop.INFEASIBLE: "infeasible"}.get(result.stop, "not proven")


def faults(problem: Problem, method: Method, result: Result) -> Iterator[tuple[str, str]]:
    """Everything that contradicts the enumeration, and runs that ended in an error."""
    if result.stop == Stop.ERROR:
        yield "error", "; ".join(result.messages)
    best, value, bound = truth(problem, method), result.objective, result.bound
    if result.stop == Stop.INFEASIBLE and best is not None:
        yield "false infeasible", f"there is a plan of value {best!r}"
    if value is not None and not method.wider:
        if best is None:
            yield "better than all", f"a plan of value {value!r} where there is none"
        elif value < best - PROVEN_TOLERANCE * abs(best):
            yield "better than all", f"a plan of value {value!r}, the best has {best!r}"
    if best is None:
        return
    if result.stop == Stop.PROVEN and value is not None and value > best * (1 + PROVEN_TOLERANCE) + _dust(best):
        yield "false optimum", f"{value!r} is called optimal, {best!r} is possible"
    if bound is not None and bound > best * (1 + BOUND_ROUNDING) + _dust(best):
        yield "bound above a plan", f"the bound {bound!r} is above {best!r}"


def _dust(best: float) -> float:
    """What may be added to an optimum of 0: nothing but the smallest numbers."""
    return math.ulp(best)
