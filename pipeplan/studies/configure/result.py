"""What `plan configure -o` writes: a result like that of `plan solve`, which brings its problem along for exports.

It holds the best configuration, or the one that `--judge` names; and, as `choices`, the shortlist and the judged
configurations. A file is never believed: configurations are read as words, checked against the problem, and judged
anew by the referee. Only the times of listed configurations that are not judged again, and the counts, remain claims
of the search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from ...instances.base.errors import InputError, UsageError, show
from ...instances.base.fields import as_list, as_number, as_object, as_whole, each, join, read_record, require
from ...instances.base.quantities import GIB, several
from ...instances.base.result import PROVEN_TOLERANCE, Found, Proof, Result, Stop, met
from ...instances.files import problem_from_json
from ...instances.registry import kind_of
from ...instances.training.cases import ParallelismChoice
from ...instances.training.frameworks import FRAMEWORKS
from ...instances.training.kind_functions import training_from_json, training_to_json
from ...instances.training.plan import Configuration, Degrees
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import IterationRules, evaluate_configuration, framework_faults, shape_faults
from ...instances.training.scope import Margin, both_sides, plain_margin
from ...instances.training.words import configuration_from_words, usual_schedule, words_of
from ...planners.referee import rule
from ...planners.run.judge import RECOMPUTED, settle
from ...planners.run.solve import describe
from ...planners.training.planner import CHECKS, family
from ...planners.training.search import Found as FoundConfiguration
from ...planners.training.search import Report
from .answer import Answer, Asked, not_excluded
from .judge import Judged, least_change

METHOD = "exact-configuration"
# The key of a result's `problem` under which the result holds the problem itself.
WHOLE = "whole"


def result_of(answer: Answer, seconds: float) -> Result:
    """The answer as a result, judged anew by the referee. A search that was cut short has a bound as well."""
    problem, report = answer.problem, answer.report
    assert report is not None, "asked of a search"
    best, options = report.best, options_of(problem, answer.asked)
    scope = family(problem, options).scope
    claim = Result(
        problem=_with_whole(problem),
        stop=_stop(answer),
        found=Found.NOTHING,
        planner=METHOD,
        claimed=None if best is None else best.seconds,
        bound=None if best is None else report.bound,
        scope=scope,
        proof=Proof(METHOD, None, None, scope, (*CHECKS, RECOMPUTED)),
        options={**options, "proven_tolerance": PROVEN_TOLERANCE},
        seconds={"solve": seconds, "total": seconds},
        messages=() if answer.measured is None else tuple(answer.measured.sentences()),
        choices=choices_of(answer),
        subject=problem,
        model_size={"considered": report.considered, "fit": report.fit, "listed": len(report.listed)},
    )
    return settle(claim, None if best is None else rule(problem, best.plan, IterationRules()))


def result_of_judged(own: Judged) -> Result:
    """A configuration that a user named, as a result: the referee's ruling on it, and no claim on any other."""
    problem = own.problem
    claim = Result(
        problem=_with_whole(problem),
        stop=Stop.COMPLETED,
        found=Found.NOTHING,
        messages=(f"read from --judge {show(own.asked)}", *own.notes),
        subject=problem,
    )
    return settle(claim, rule(problem, own.plan, IterationRules()))


def _with_whole(problem: TrainingProblem) -> dict[str, Any]:
    """The facts of the problem, and the problem itself."""
    return {**describe(problem), WHOLE: kind_of(problem).write(problem)}


def options_of(problem: TrainingProblem, asked: Asked) -> dict[str, Any]:
    """The options with which other methods plan the same scope."""
    return {
        "fix": " ".join(asked.fixed) or None,
        "forbid": " ".join(asked.forbidden) or None,
        "layouts": FRAMEWORKS[problem.framework].layouts,
        "memory_error": both_sides(asked.memory_error).more,  # whether the best one fits for sure asks no more
    }


def _stop(answer: Answer) -> Stop:
    """How the search ended: with a proof, cut short, or completed without either."""
    report = answer.report
    assert report is not None, "asked of a search"
    if report.finished and report.nothing_fits:
        return Stop.INFEASIBLE
    if report.finished and report.best is not None and met(report.best.seconds, report.bound):
        return Stop.PROVEN
    return report.cut or Stop.COMPLETED


# ---- the shortlist and what was judged, as `choices` ----------------------------------------------------------


# The most entries of the lists of a file. A search of thousands of GPUs lists some hundreds of
# configurations, and one that was cut short some thousands.
MOST_LISTED, MOST_JUDGED, MOST_TEXTS = 200_000, 1_000, 1_000
# The most characters of one configuration's words, whose layout may have thousands of chunks.
MOST_CHARACTERS = 20_000


def choices_of(answer: Answer) -> dict[str, Any]:
    """The field `choices` of a result: configurations are words, as `--judge` takes them."""
    report, asked = answer.report, answer.asked
    assert report is not None, "asked of a search"
    return {
        "error": asked.error,
        **plain_margin(asked.memory_error),
        "fix": list(asked.fixed),
        "forbid": list(asked.forbidden),
        "finished": report.finished,
        "considered": report.considered,
        "cannot_fit": report.unfit,
        "discarded": {name: count for name, count in report.discarded.items() if count},
        "undecided": report.undecided,
        "shortlist": [
            {"words": words_of(own.plan), "seconds": own.seconds, "bound": own.bound} for own in report.listed
        ],
        "not_excluded": not_excluded(report),
        "judged": [
            {
                "asked": own.asked,
                "framework": own.problem.framework,
                "problem": _differences(answer.problem, own.problem),
                "words": words_of(own.plan),
                "seconds": own.evaluation.timing.seconds,
                "lost": answer.lost(own),
                "notes": list(own.notes),
            }
            for own in answer.judged
        ],
    }


def _differences(problem: TrainingProblem, own: TrainingProblem) -> dict[str, Any]:
    """The fields in which the problem of judged flags differs; null stands for a field's default."""
    before, after = (training_to_json(one) for one in (problem, own))
    return {key: after.get(key) for key in before | after if before.get(key) != after.get(key)}


# ---- reading ---------------------------------------------------------------------------------------------


def stored_answer(problem: TrainingProblem, result: Result) -> Answer | None:
    """The answer in a result whose plan the referee has judged anew; None where the result holds no choices."""
    if result.choices is None:
        return None
    where, top = "choices", result.choices
    asked = Asked(_share(top, "error"), _memory_error(top), _texts(top, "fix"), _texts(top, "forbid"))
    listed = _entries(top, "shortlist", MOST_LISTED, partial(_listed, problem))
    judged = _entries(top, "judged", MOST_JUDGED, partial(_judged, problem, asked.memory_error))
    counted = as_object(f"{where}.discarded", require(where, top, "discarded"))
    best = None
    if isinstance(result.plan, Configuration) and result.verified and result.objective is not None:
        bound = result.objective if result.bound is None else result.bound
        best = FoundConfiguration(result.plan, result.objective, bound, sure=True)
    report = Report(
        considered=_count(top, "considered"),
        discarded=Counter({name: as_whole(f"{where}.discarded.{name}", value) for name, value in counted.items()}),
        unfit=_count(top, "cannot_fit"),
        best=best,
        bound=0.0 if best is None else best.bound,
        listed=listed,
        unsettled=_entries(top, "not_excluded", MOST_LISTED, _not_excluded),
        undecided=_count(top, "undecided"),
        nothing_fits=result.stop == Stop.INFEASIBLE,
        finished=require(where, top, "finished") is True,
        cut=result.stop if result.stop in (Stop.TIME, Stop.INTERRUPTED) else None,
    )
    return Answer(problem, asked, judged, report)


def row_of(result: Result, row: int) -> tuple[TrainingProblem, Configuration, str]:
    """The problem of a result, the configuration in a row of its shortlist, and what the referee says of it.

    A row may need more memory than there is, as far as memory may be wrong: so it is no plan that was verified.
    """
    whole = result.problem.get(WHOLE)
    problem = None if whole is None else problem_from_json(whole)
    if result.choices is None or not isinstance(problem, TrainingProblem):
        raise UsageError("--row is for results of `plan configure` with a shortlist, as -o writes them.")
    listed = _entries(result.choices, "shortlist", MOST_LISTED, partial(_listed, problem))
    if not 1 <= row <= len(listed):
        raise UsageError(f"--row is {row}, and the shortlist has {several(len(listed), 'row')}; give one of these.")
    own = evaluate_configuration(problem, listed[row - 1].plan)
    limit = "" if own.limit_bytes is None else f" of {own.limit_bytes / GIB:.2f}"
    held = f"its fullest rank holds {own.fullest.bytes / GIB:.2f}{limit} GiB"
    if own.limit_bytes is not None and own.fullest.bytes > own.limit_bytes:
        held += ", which does not fit by the prediction"
    return problem, own.plan, f"row {row} takes {own.timing.seconds:.4g} s per iteration, and {held}"


def _listed(problem: TrainingProblem, where: str, value: object) -> FoundConfiguration:
    top = as_object(where, value)
    plan = _configuration(problem, where, top)
    seconds, bound = (as_number(join(where, key), require(where, top, key)) for key in ("seconds", "bound"))
    return FoundConfiguration(plan, seconds, bound, sure=False)


def _not_excluded(where: str, value: object) -> tuple[ParallelismChoice, float]:
    top = as_object(where, value)
    degrees: Degrees = read_record(Degrees, join(where, "degrees"), require(where, top, "degrees"))
    micro_batch, zero = (as_whole(join(where, key), require(where, top, key)) for key in ("micro_batch", "zero"))
    gamma = ParallelismChoice(degrees, micro_batch, zero, usual_schedule(degrees))
    return gamma, as_number(join(where, "bound"), require(where, top, "bound"))


def _memory_error(top: Mapping[str, Any]) -> float | Margin:
    more = _share(top, "memory_error")
    return Margin(more, _share(top, "memory_error_below")) if "memory_error_below" in top else more


def _judged(problem: TrainingProblem, memory_error: float | Margin, where: str, value: object) -> Judged:
    """A judged configuration, with the referee's numbers and the least change computed anew."""
    top = as_object(where, value)
    differences = as_object(join(where, "problem"), top.get("problem", {}))  # files of earlier versions have none
    framework = _text(join(where, "framework"), require(where, top, "framework"))
    facts = {**training_to_json(problem), **differences, "framework": framework}
    try:
        problem = training_from_json({key: value for key, value in facts.items() if value is not None})
    except InputError as error:
        raise InputError(join(where, error.field), error.problem, error.remedy) from None
    plan = _configuration(problem, where, top)
    evaluation = evaluate_configuration(problem, plan)
    change = None if evaluation.fit(memory_error) == "yes" else least_change(problem, plan, memory_error)
    asked = _text(join(where, "asked"), require(where, top, "asked"))
    return Judged(asked, problem, evaluation, memory_error, change, _texts(top, "notes", where))


def _configuration(problem: TrainingProblem, where: str, top: Mapping[str, Any]) -> Configuration:
    """A configuration that the problem and its framework can have; whether it fits is not asked."""
    where, words = join(where, "words"), _text(join(where, "words"), require(where, top, "words"))
    try:
        plan = configuration_from_words(problem, words)
    except InputError as error:
        raise InputError(where, f"says {error.field}, which {error.problem}", error.remedy) from None
    for fault in (*shape_faults(problem, plan), *framework_faults(problem, plan)):
        raise InputError(where, f"cannot be run: {str(fault).rstrip('.')}", "give the result as it was written")
    return plan


def _entries(top: Mapping[str, Any], key: str, most: int, read: Any, where: str = "choices") -> tuple[Any, ...]:
    place, value = join(where, key), require(where, top, key)
    count = len(as_list(place, value))
    if count > most:
        raise InputError(place, f"has {count} entries", f"give at most {most}")
    entries: tuple[Any, ...] = each(read)(place, value)
    return entries


def _texts(top: Mapping[str, Any], key: str, where: str = "choices") -> tuple[str, ...]:
    return _entries(top, key, MOST_TEXTS, _text, where)


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(where, f"is {show(value)}, not a text", "give a text")
    if len(value) > MOST_CHARACTERS:
        raise InputError(where, f"has {len(value)} characters", f"give at most {MOST_CHARACTERS}")
    return value


def _share(top: Mapping[str, Any], key: str) -> float:
    value = as_number(f"choices.{key}", require("choices", top, key))
    if not 0 <= value < 1:
        raise InputError(f"choices.{key}", f"is {value:g}", "give a share from 0 to less than 1")
    return value


def _count(top: Mapping[str, Any], key: str) -> int:
    value = as_whole(f"choices.{key}", require("choices", top, key))
    if value < 0:
        raise InputError(f"choices.{key}", f"is {value}", "give a count from 0 on")
    return value
