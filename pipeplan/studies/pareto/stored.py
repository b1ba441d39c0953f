"""Pieces of a sweep to and from its journal; plans are measured again when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee.evaluate import verify_pattern
from ...instances.errors import InputError
from ...instances.fields import as_list, require, require_list, require_object
from ...instances.result import Stop
from .candidates import measured
from .journal import ANEW, Journal
from .records import Candidate, Frame, Point

FRAME, RUNS, POINT = "frame", "runs", "point"


def frame_to_json(frame: Frame) -> dict[str, Any]:
    return {
        "levels": list(frame.levels),
        "smallest_bytes": frame.smallest_bytes,
        "smallest_proven": frame.smallest_proven,
        "smallest_plan": frame.smallest_plan.to_json(),
        "unlimited_bound": frame.unlimited_bound,
        "unlimited_plan": frame.unlimited_plan.to_json(),
    }


def stored_frame(problem: ChainProblem, journal: Journal) -> Frame | None:
    for number, line in journal.of(FRAME):
        where = f"line {number}"
        plan = _candidate(problem, require_object(where, line, "unlimited_plan"), "unlimited", where)
        smallest = _candidate(problem, require_object(where, line, "smallest_plan"), "smallest", where)
        bound = _number(where, line, "unlimited_bound")
        return Frame(
            levels=tuple(_level(where, level) for level in require_list(where, line, "levels")),
            smallest_bytes=_number(where, line, "smallest_bytes"),
            smallest_proven=require(where, line, "smallest_proven") is True,
            smallest_plan=smallest.plan,
            unlimited_period=plan.period,
            unlimited_bound=min(bound, plan.period),
            unlimited_bytes=plan.peak_bytes,
            unlimited_plan=plan.plan,
        )
    return None


def candidates_to_json(candidates: tuple[Candidate, ...]) -> dict[str, Any]:
    return {"plans": [{"source": c.source, "plan": c.plan.to_json()} for c in candidates]}


def stored_candidates(problem: ChainProblem, journal: Journal) -> tuple[Candidate, ...] | None:
    for number, line in journal.of(RUNS):
        where = f"line {number}"
        rows = [require_object(where, {"plans": row}, "plans") for row in as_list(where, require(where, line, "plans"))]
        return tuple(
            _candidate(problem, require_object(where, row, "plan"), str(row.get("source")), where) for row in rows
        )
    return None


def stored_points(problem: ChainProblem, journal: Journal) -> dict[tuple[str, float], Point]:
    """By method and memory limit; the bound is as it was proven, everything about the plan is recomputed."""
    points: dict[tuple[str, float], Point] = {}
    for number, line in journal.of(POINT):
        where = f"line {number}"
        memory, method = _number(where, line, "memory_bytes"), str(require(where, line, "method"))
        plan = None
        if line.get("plan") is not None:
            plan = _candidate(problem.replace(memory_bytes=memory), line["plan"], method, where)
        source, bound = line.get("source"), line.get("bound")
        points[method, memory] = Point(
            method=method,
            memory_bytes=memory,
            stop=_stop(where, line),
            period=None if plan is None else plan.period,
            peak_bytes=None if plan is None else plan.peak_bytes,
            bound=None if bound is None else _number(where, line, "bound"),
            seconds=_number(where, line, "seconds"),
            source=None if source is None else str(source),
            plan=None if plan is None else plan.plan,
            messages=tuple(map(str, as_list(where, line.get("messages", [])))),
        )
    return points


def _candidate(problem: ChainProblem, data: Mapping[str, Any], source: str, where: str) -> Candidate:
    plan = PatternPlan.from_json(data, f"{where}: plan")
    broken = verify_pattern(problem, plan)
    found = None if broken else measured(problem, plan, source)
    if found is None:
        raise InputError(f"{where}: plan", "does not stand before the referee", ANEW)
    return found


def _stop(where: str, line: Mapping[str, Any]) -> Stop:
    word = require(where, line, "stop")
    if word not in tuple(Stop):
        raise InputError(f"{where}: stop", f"is {word!r}", ANEW)
    return Stop(word)


def _number(where: str, line: Mapping[str, Any], key: str) -> float:
    value = require(where, line, key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: {key}", f"is {value!r}, not a number", ANEW)
    return value


def _level(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: levels", f"hold {value!r}, not a number", ANEW)
    return value
