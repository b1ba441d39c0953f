"""Time per micro-batch against memory: settings, both ends, the points, and their way to a journal and back."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...instances.errors import InputError
from ...instances.fields import as_list, require, require_list
from ...instances.json_file import write_text_atomically
from ...instances.kinds import Plan, any_plan_from_json
from ...instances.result import Found, Stop, relative_gap
from ...instances.staging.problem import StagingProblem
from ...instances.staging.rules import rules_of
from ...planners.options import SolveOptions
from ..journal import Journal
from .records import SCHEMA, met
from .stored import ANEW, POINT, level_of, lines_of, number_of, stop_of
from .study import LEVELS, TIME_LIMIT_S

ENDS = "ends"


@dataclass(frozen=True, slots=True)
class Settings:
    """How many levels, or the memories in their place; the limits are for each solve."""

    levels: int = LEVELS
    memory_bytes: tuple[float, ...] = ()
    limits: SolveOptions = SolveOptions(time_limit_s=TIME_LIMIT_S)

    def to_json(self) -> dict[str, Any]:
        """Everything that can change a point."""
        limits = self.limits
        return {
            "levels": None if self.memory_bytes else self.levels,
            "memory_bytes": list(self.memory_bytes) or None,
            "time_limit_s": limits.time_limit_s,
            "rel_gap": limits.rel_gap,
            "abs_gap": limits.abs_gap,
            "threads": limits.threads,
            "seed": limits.seed,
        }


@dataclass(frozen=True, slots=True)
class Staged:
    """A plan that the referee accepts in the memory that it takes."""

    plan: Plan
    value: float
    """Time per micro-batch."""
    peak_bytes: float


def measured(problem: StagingProblem, plan: Plan | None) -> Staged | None:
    """The referee's numbers; None for no plan, or one that it refuses."""
    rules = rules_of(problem, {})
    if plan is None or rules.violations(problem, plan):
        return None
    evaluation = rules.evaluation(problem, plan)
    stages = evaluation.leaves if problem.levels else evaluation.stages
    peak = max(stage.memory_bytes for stage in stages)
    found = Staged(plan, rules.value(problem, plan), peak)
    # The peak is rounded; the plan must fit where it is the limit.
    return found if fits(problem, found, peak) else replace(found, peak_bytes=math.nextafter(peak, math.inf))


def fits(problem: StagingProblem, staged: Staged, memory_bytes: float) -> bool:
    limited = problem.replace(memory_bytes=memory_bytes)
    return not rules_of(limited, {}).violations(limited, staged.plan)


@dataclass(frozen=True, slots=True)
class Ends:
    """The plan with the least memory that was sought for, the best one without a limit, and the levels in between."""

    levels: tuple[float, ...]
    """Bytes, ascending."""
    least: Staged
    below_bytes: float
    """With so little there is no plan."""
    best: Staged
    bound: float
    """No plan takes less time, whatever its memory."""

    def to_json(self) -> dict[str, Any]:
        return {
            "least_bytes": self.least.peak_bytes,
            "too_little_bytes": self.below_bytes,
            "unlimited": {"value": self.best.value, "bound": self.bound, "peak_bytes": self.best.peak_bytes},
        }


COLUMNS = ("memory_bytes", "value", "peak_bytes", "bound", "gap", "certified", "even", "stop", "found", "seconds")
"""What a table shows of a point."""


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """The best plan in one memory. Value and peak are the referee's; absent is None."""

    memory_bytes: float
    stop: Stop
    staged: Staged | None = None
    bound: float | None = None
    even: float | None = None
    """What an equal split takes."""
    seconds: float = 0.0
    messages: tuple[str, ...] = ()

    @property
    def plan(self) -> Plan | None:
        return None if self.staged is None else self.staged.plan

    @property
    def value(self) -> float | None:
        return None if self.staged is None else self.staged.value

    @property
    def peak_bytes(self) -> float | None:
        return None if self.staged is None else self.staged.peak_bytes

    @property
    def gap(self) -> float | None:
        return relative_gap(self.value, self.bound)

    @property
    def certified(self) -> bool:
        """Is the value proven to be the least, or proven that there is no plan?"""
        return self.stop in (Stop.PROVEN, Stop.INFEASIBLE)

    @property
    def found(self) -> Found:
        if self.staged is None:
            return Found.NOTHING
        return Found.OPTIMAL if self.stop == Stop.PROVEN else Found.FEASIBLE

    def with_plan(self, staged: Staged | None) -> MemoryPoint:
        return self if staged is None else replace(self, staged=staged)

    def settled(self) -> MemoryPoint:
        """Proven is a point exactly where its value and its bound meet."""
        if self.value is None or self.bound is None:
            return self
        if met(self.value, self.bound):
            return replace(self, stop=Stop.PROVEN)
        return replace(self, stop=Stop.COMPLETED) if self.stop == Stop.PROVEN else self

    def facts(self) -> dict[str, Any]:
        """Everything except the plan."""
        return {**{name: getattr(self, name) for name in COLUMNS}, "seconds": round(self.seconds, 3)}

    def to_json(self) -> dict[str, Any]:
        plan = None if self.plan is None else self.plan.to_json()
        return {**self.facts(), "messages": list(self.messages), "plan": plan}


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """The whole curve, by growing memory."""

    problem: StagingProblem
    settings: Settings
    ends: Ends | None
    """None: interrupted before they were known."""
    points: tuple[MemoryPoint, ...]
    complete: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "problem": facts(self.problem),
            "settings": self.settings.to_json(),
            "complete": self.complete,
            "ends": None if self.ends is None else self.ends.to_json(),
            "points": [point.to_json() for point in self.points],
        }


def facts(problem: StagingProblem) -> dict[str, Any]:
    """The problem apart from its own memory limit, which the levels replace."""
    free = problem.replace(memory_bytes=None)
    return {
        "kind": free.kind,
        "name": free.name,
        "hash": free.hash,
        "devices": free.devices,
        "layers": len(free.layers),
        "time_unit": free.time_unit,
    }


def write_csv(curve: MemoryCurve, path: str | os.PathLike[str]) -> None:
    """One line per point, everything except the plans; absent values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for point in curve.points:
        writer.writerow({**point.facts(), "certified": "yes" if point.certified else "no"})
    write_text_atomically(path, text.getvalue())


# ---- to a journal and back -----------------------------------------------------------------------------------


def ends_record(ends: Ends) -> dict[str, Any]:
    plans = {"least": ends.least.plan.to_json(), "best": ends.best.plan.to_json()}
    return {"record": ENDS, "levels": list(ends.levels), "below": ends.below_bytes, "bound": ends.bound, **plans}


def point_record(point: MemoryPoint) -> dict[str, Any]:
    return {"record": POINT, **point.to_json()}


def stored_ends(problem: StagingProblem, journal: Journal) -> Ends | None:
    """What was proven is as it was, everything about the plans is recomputed."""
    for where, line in lines_of(journal, ENDS):
        best = _staged(problem, require(where, line, "best"), where)
        return Ends(
            levels=tuple(level_of(where, level) for level in require_list(where, line, "levels")),
            least=_staged(problem, require(where, line, "least"), where),
            below_bytes=number_of(where, line, "below"),
            best=best,
            bound=min(best.value, number_of(where, line, "bound")),
        )
    return None


def stored_points(problem: StagingProblem, journal: Journal) -> Iterator[MemoryPoint]:
    """The bound is as it was proven, everything about the plan is recomputed."""
    for where, line in lines_of(journal, POINT):
        memory, bound, even = number_of(where, line, "memory_bytes"), line.get("bound"), line.get("even")
        limited = problem.replace(memory_bytes=memory)
        yield MemoryPoint(
            memory,
            stop_of(where, line),
            None if line.get("plan") is None else _staged(limited, line["plan"], where),
            bound=None if bound is None else number_of(where, line, "bound"),
            even=None if even is None else number_of(where, line, "even"),
            seconds=number_of(where, line, "seconds"),
            messages=tuple(map(str, as_list(where, line.get("messages", [])))),
        )


def _staged(problem: StagingProblem, data: object, where: str) -> Staged:
    found = measured(problem, any_plan_from_json(data, f"{where}: plan"))
    if found is None:
        raise InputError(f"{where}: plan", "does not stand before the referee", ANEW)
    return found
