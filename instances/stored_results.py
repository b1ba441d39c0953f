"""Readers of plans and results; what a file claims is read, never believed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .base.checks import check_flag
from .base.errors import InputError, errors_in, show
from .base.fields import (
    as_number,
    as_object,
    as_whole,
    by_key,
    check_schema,
    checked,
    each,
    join,
    read_record,
    require,
    require_object,
)
from .base.json_file import holds_json, read_json, read_text
from .base.result import SCHEMA, Asked, Found, History, Moment, Proof, Result, StartOutcome, Stop, WarmStart
from .lookup import problem_of
from .registry import Plan, Problem, any_plan_from_json, kind_of, plan_kinds, plan_types

if TYPE_CHECKING:
    from .chain.plan import PatternPlan
    from .chain.problem import ChainProblem
    from .graph_pipeline.plan import StageGraphPlan
    from .graph_pipeline.problem import GraphPipelineProblem
    from .placement.plan import PlacementPlan
    from .placement.problem import PlacementProblem
    from .staging.plan import LeveledPlan, StagedPlan
    from .staging.problem import StagingProblem

_PLAN_KINDS = [f'"{kind}"' for kind in plan_types()]
PLAN_FORMATS = (
    f'a plan ("kind": {", ".join(_PLAN_KINDS[:-1])} or {_PLAN_KINDS[-1]}), a result ("schema": '
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
        The plan, of the type that the file names, or that fits the problem; what the file says of its cost is not
        believed.

    Raises
    ------
    InputError
        The file holds no plan, the plan does not fit the problem, or an argument is no path or no problem.
    """
    problem = None if problem is None else problem_of(problem)
    read = None if problem is None or holds_json(path) else kind_of(problem).read_plan
    data = read_json(path) if read is None else read_text(path)
    with errors_in(path):
        return plan_from_json(data, problem) if read is None else read(data, problem)


def plan_from_json(data: object, problem: Problem | None = None) -> Plan:
    """A plan from the JSON of a plan, a result or an expert split."""
    top = as_object("", data, PLAN_FORMATS)
    plan = _plan(top, problem)
    if problem is not None and plan.kind not in plan_kinds(problem):
        fitting = " or ".join(plan_kinds(problem))
        levels = " with levels" if "levels" in problem.extensions else ""
        raise InputError(
            "plan",
            f"is of the kind {plan.kind}, but the problem is a {problem.kind}{levels}",
            f"give a plan of the kind {fitting}",
        )
    complete = None if problem is None or "schema" in top else kind_of(problem).complete
    return plan if complete is None else complete(problem, plan)


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
    with errors_in(path):
        return result_from_json(data)


def result_from_json(data: object) -> Result:
    """A report as `Result.to_json` wrote it; keys of later versions are ignored, the gap is computed again."""
    top = as_object("", data, f'{{"schema": "{SCHEMA}", ...}}')
    check_schema(top, (SCHEMA,))
    require("", top, "plan")
    if top.get("gap") is not None:
        as_number("gap", top["gap"])
    return read_record(
        Result,
        "",
        top,
        refuse=None,
        problem=_problem,
        stop=partial(_word, Stop),
        found=partial(_word, Found),
        formulation=_text_or_none,
        planner=_text_or_none,
        plan=lambda where, plan: any_plan_from_json(plan, where),
        objective=as_number,
        claimed=as_number,
        bound=as_number,
        scope=_text_or_none,
        wider=_text_or_none,
        proof=_proof,
        verified=checked(check_flag),
        violations=each(_text),
        warm_start=_warm_start,
        backend=_facts,
        options=_facts,
        asked=partial(read_record, Asked, refuse=None, instance=_text, cluster=_facts, notes=each(_text)),
        seconds=by_key(as_number),
        model_size=by_key(as_whole),
        messages=each(_text),
        cross_check=_facts,
        in_scope=_in_scope,
        contradiction=_text_or_none,
        choices=_facts,
        history=_history,
    )


def _history(where: str, data: object) -> History:
    moment = partial(read_record, Moment, refuse=None, seconds=as_number, incumbent=as_number, bound=as_number)
    return History(each(moment)(where, data))


def _in_scope(where: str, data: object) -> Result:
    try:
        result = result_from_json(data)
    except InputError as error:
        raise InputError(join(where, error.field), error.problem, error.remedy) from None
    if result.in_scope is not None:
        raise InputError("in_scope.in_scope", "is a result once more", "leave it out: a method has one answer")
    return result


def _proof(where: str, value: object) -> Proof:
    top = as_object(where, value)
    by = {"backend": None, "version": None, **require_object(where, top, "by")}
    return read_record(
        Proof,
        where,
        {**top, **{f"by.{key}": entry for key, entry in by.items()}},
        names={key: f"by.{key}" for key in ("method", "backend", "version")},
        refuse=None,
        method=_text,
        backend=_text_or_none,
        version=_text_or_none,
        scope=_text,
        checks=each(_text),
    )


def _warm_start(where: str, value: object) -> WarmStart:
    outcome = partial(_word, StartOutcome)
    return read_record(WarmStart, where, value, outcome=outcome, source=_text_or_none, value=as_number)


def _word(words: type[Word], where: str, value: object) -> Word:
    for word in words:
        if word == value:
            return word
    raise InputError(where, f"is {show(value)}", "give one of " + ", ".join(words))


def _text(where: str, value: object, remedy: str = "give a text") -> str:
    if not isinstance(value, str):
        raise InputError(where, f"is {show(value)}, not a text", remedy)
    return value


def _text_or_none(where: str, value: object) -> str | None:
    return None if value is None else _text(where, value, "give a text or null")


def _facts(where: str, value: object) -> dict[str, Any]:
    return dict(as_object(where, value))


def _problem(where: str, value: object) -> dict[str, Any]:
    """Which problem a result is of: whatever the writer said, with texts where readers look for texts."""
    facts = _facts(where, value)
    for key in facts.keys() & {"kind", "name", "hash"}:
        _text(f"{where}.{key}", facts[key])
    return facts
