"""Readers of plans and results; what a file claims is read, never believed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .arguments import problem_of
from .base.errors import InputError, show
from .base.fields import as_list, as_object, check_schema, join, refuse_unknown, require, require_object
from .base.json_file import holds_json, read_json, read_text
from .base.result import SCHEMA, Asked, Found, Moment, Proof, Result, StartOutcome, Stop, WarmStart
from .registry import Plan, Problem, any_plan_from_json, kind_of, plan_kind

if TYPE_CHECKING:
    from .chain.plan import PatternPlan
    from .chain.problem import ChainProblem
    from .graph_pipeline.plan import StageGraphPlan
    from .graph_pipeline.problem import GraphPipelineProblem
    from .placement.plan import PlacementPlan
    from .placement.problem import PlacementProblem
    from .staging.leveled_plan import LeveledPlan
    from .staging.plan import StagedPlan
    from .staging.problem import StagingProblem

PLAN_FORMATS = (
    'a plan ("kind": "placement", "pattern", "stages", "leveled-stages" or "stage-graph"), a result ("schema": '
    '"pipeplan.result/1"), an expert split ("fpgas" and "cpus")'
)

Word = TypeVar("Word", bound=StrEnum)


@overload
def load_plan(path: str | os.PathLike[str], problem: PlacementProblem) -> PlacementPlan: ...
@overload
def load_plan(path: str | os.PathLike[str], problem: ChainProblem) -> PatternPlan: ...
@overload
def load_plan(path: str | os.PathLike[str], problem: StagingProblem) -> StagedPlan | LeveledPlan: ...
@overload
def load_plan(path: str | os.PathLike[str], problem: GraphPipelineProblem) -> StageGraphPlan: ...
@overload
def load_plan(path: str | os.PathLike[str], problem: Problem | str | os.PathLike[str] | None = None) -> Plan: ...
def load_plan(path: str | os.PathLike[str], problem: Problem | str | os.PathLike[str] | None = None) -> Plan:
    """Read a plan: the one in a plan file, in a result file, in an expert split or in PyTorch's CSV of a schedule.

    Parameters
    ----------
    path : str or PathLike
        The file.
    problem : Problem, str or PathLike, optional
        The problem that the plan is for, the path of its file, or the name of a packaged instance: the plan's kind must
        fit it, and the ids of a split are checked against it. None: the file alone is read, which must be JSON.

    Returns
    -------
    Plan
        Its type is told by the file, and where a problem is given by that; what it claims to cost is not believed.

    Raises
    ------
    InputError
        The file holds no plan, the plan does not fit the problem, or an argument is no path or no problem.
    """
    problem = None if problem is None else problem_of(problem)
    read = None if problem is None or holds_json(path) else kind_of(problem).read_plan
    data = read_json(path) if read is None else read_text(path)
    try:
        plan: Plan = plan_from_json(data, problem) if read is None else read(data, problem)
    except InputError as error:
        raise error.in_file(str(path)) from None
    return plan


def plan_from_json(data: object, problem: Problem | None = None) -> Plan:
    """See `load_plan`."""
    plan = _plan(as_object("", data, PLAN_FORMATS), problem)
    if problem is not None and plan.kind != plan_kind(problem):
        fitting = plan_kind(problem)
        levels = " with levels" if "levels" in problem.extensions else ""
        raise InputError(
            "plan",
            f"is of the kind {plan.kind}, but the problem is a {problem.kind}{levels}",
            f"give a plan of the kind {fitting}",
        )
    return plan


def _plan(top: Mapping[str, Any], problem: Problem | None) -> Plan:
    if "schema" in top:
        plan = result_from_json(top).plan
        if plan is None:
            raise InputError(
                "plan", "is null: the run that wrote this result found none", "give a result with a plan"
            )
        return plan
    if "kind" in top:
        return any_plan_from_json(top, where="")
    if "fpgas" in top:
        from .placement.problem import PlacementProblem
        from .placement.published import expert_plan_from_json

        return expert_plan_from_json(top, problem if isinstance(problem, PlacementProblem) else None)
    raise InputError("content", "is no plan in a known format", f"give {PLAN_FORMATS}")


def load_result(path: str | os.PathLike[str]) -> Result:
    """The report in a result file."""
    data = read_json(path)
    try:
        return result_from_json(data)
    except InputError as error:
        raise error.in_file(str(path)) from None


def result_from_json(data: object) -> Result:
    """A report as `Result.to_json` wrote it; keys of later versions are ignored, the gap is computed again."""
    top = as_object("", data, f'{{"schema": "{SCHEMA}", ...}}')
    check_schema(top, (SCHEMA,))
    plan = require("", top, "plan")
    return Result(
        problem=dict(require_object("", top, "problem")),
        stop=_word("stop", require("", top, "stop"), Stop),
        found=_word("found", require("", top, "found"), Found),
        formulation=_text_or_none("formulation", top),
        planner=_text_or_none("planner", top),
        plan=None if plan is None else any_plan_from_json(plan),
        objective=_number_or_none("objective", top),
        claimed=_number_or_none("claimed", top),
        bound=_number_or_none("bound", top),
        scope=_text_or_none("scope", top),
        wider=_text_or_none("wider", top),
        proof=None if top.get("proof") is None else _proof(require_object("", top, "proof")),
        verified=_flag("verified", top),
        violations=_texts("violations", top),
        warm_start=_warm_start(top.get("warm_start", {})),
        backend=_facts("backend", top),
        options=_facts("options", top),
        asked=None if top.get("asked") is None else _asked(require_object("", top, "asked")),
        seconds=_numbers("seconds", top),
        model_size=_counts("model_size", top),
        messages=_texts("messages", top),
        cross_check=None if top.get("cross_check") is None else _facts("cross_check", top),
        in_scope=None if top.get("in_scope") is None else _in_scope(top["in_scope"]),
        history=_moments(as_list("history", top.get("history", []))),
    )


def _in_scope(data: object) -> Result:
    try:
        result = result_from_json(data)
    except InputError as error:
        raise InputError(join("in_scope", error.field), error.problem, error.remedy) from None
    if result.in_scope is not None:
        raise InputError("in_scope.in_scope", "is a result once more", "leave it out: a method has one answer")
    return result


def _moments(values: list[Any]) -> tuple[Moment, ...]:
    return tuple(_moment(f"history[{i}]", value) for i, value in enumerate(values))


def _moment(where: str, value: object) -> Moment:
    data = as_object(where, value)
    seconds = _number(join(where, "seconds"), require(where, data, "seconds"))
    return Moment(seconds, _number_or_none("incumbent", data, where), _number_or_none("bound", data, where))


def _asked(data: Mapping[str, Any]) -> Asked:
    cluster = dict(as_object("asked.cluster", data.get("cluster", {})))
    return Asked(_text("asked", data, "instance"), cluster, _texts("notes", data, "asked"))


def _proof(data: Mapping[str, Any]) -> Proof:
    by = require_object("proof", data, "by")
    return Proof(
        method=_text("proof.by", by, "method"),
        backend=_text_or_none("backend", by, "proof.by"),
        version=_text_or_none("version", by, "proof.by"),
        scope=_text("proof", data, "scope"),
        checks=_texts("checks", data, "proof"),
    )


def _warm_start(value: object) -> WarmStart:
    data = as_object("warm_start", value)
    refuse_unknown("warm_start", data, ("outcome", "source", "value"))
    return WarmStart(
        _word("warm_start.outcome", data.get("outcome", "none"), StartOutcome),
        _text_or_none("source", data, "warm_start"),
        _number_or_none("value", data, "warm_start"),
    )


def _word(where: str, value: object, words: type[Word]) -> Word:
    for word in words:
        if word == value:
            return word
    raise InputError(where, f"is {show(value)}", "give one of " + ", ".join(words))


def _text(where: str, data: Mapping[str, Any], key: str) -> str:
    value = _text_or_none(key, {key: require(where, data, key)}, where)
    if value is None:
        raise InputError(join(where, key), "is null", "give a text")
    return value


def _text_or_none(key: str, data: Mapping[str, Any], where: str = "") -> str | None:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(join(where, key), f"is {show(value)}, not a text", "give a text or null")
    return value


def _number_or_none(key: str, data: Mapping[str, Any], where: str = "") -> float | None:
    value = data.get(key)
    return None if value is None else _number(join(where, key), value)


def _number(where: str, value: object) -> float:
    """A finite number of either sign: bounds may be negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(where, f"is {show(value)}, not a number", "give a finite number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(where, "is NaN" if number != number else "is infinite", "give a finite number")
    return number


def _flag(key: str, data: Mapping[str, Any]) -> bool:
    value = data.get(key, False)
    if not isinstance(value, bool):
        raise InputError(key, f"is {show(value)}, not a truth value", "give true or false")
    return value


def _texts(key: str, data: Mapping[str, Any], where: str = "") -> tuple[str, ...]:
    values = as_list(join(where, key), data.get(key, []))
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise InputError(f"{join(where, key)}[{i}]", f"is {show(value)}, not a text", "give a text")
    return tuple(values)


def _facts(key: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return dict(as_object(key, data.get(key, {})))


def _numbers(key: str, data: Mapping[str, Any]) -> dict[str, float]:
    return {name: _number(join(key, name), value) for name, value in _facts(key, data).items()}


def _counts(key: str, data: Mapping[str, Any]) -> dict[str, int]:
    facts = _facts(key, data)
    for name, value in facts.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(join(key, name), f"is {show(value)}, not a whole number", "give a whole number")
    return facts
