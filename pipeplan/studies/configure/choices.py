"""The shortlist and the judged configurations in a stored result: how they are written, and how they are read again.

A file is never believed: configurations are read as words, checked against the problem, and judged anew by the referee.
Only the times of listed configurations that are not judged again, and the counts, remain claims of the search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ...instances.base.errors import InputError, show
from ...instances.base.fields import (
    as_list,
    as_number,
    as_object,
    as_whole,
    each,
    join,
    plain,
    read_record,
    require,
)
from ...instances.base.result import Result, Stop
from ...instances.training.plan import Configuration, Degrees
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import evaluate_configuration, framework_faults, shape_faults
from ...instances.training.scope import Margin, plain_margin
from ...instances.training.words import configuration_from_words, usual_schedule, words_of
from .answer import Answer, Asked
from .judge import Judged, with_data_hidden
from .least_change import least_change

if TYPE_CHECKING:
    from ...instances.training.cases import ParallelismChoice
    from ...planners.training.search import Found

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
        "not_excluded": [
            {"degrees": plain(degrees), "micro_batch": micro_batch, "zero": zero, "bound": bound}
            for (degrees, micro_batch, zero), bound in report.unlisted.items()
        ],
        "judged": [
            {
                "asked": own.asked,
                "framework": own.problem.framework,
                "data_hidden": own.problem.efficiencies.data_hidden,
                "words": words_of(own.plan),
                "seconds": own.evaluation.timing.seconds,
                "lost": answer.lost(own),
                "notes": list(own.notes),
            }
            for own in answer.judged
        ],
    }


# ---- reading ---------------------------------------------------------------------------------------------


def stored_answer(problem: TrainingProblem, result: Result) -> Answer | None:
    """The answer in a result whose plan the referee has judged anew; None where the result holds no choices."""
    if result.choices is None:
        return None
    from ...planners.training.search import Found, Report  # the search, which pages of other kinds do without

    where, top = "choices", result.choices
    asked = Asked(_share(top, "error"), _memory_error(top), _texts(top, "fix"), _texts(top, "forbid"))
    listed = _entries(top, "shortlist", MOST_LISTED, partial(_listed, problem))
    judged = _entries(top, "judged", MOST_JUDGED, partial(_judged, problem, asked.memory_error))
    counted = as_object(f"{where}.discarded", require(where, top, "discarded"))
    best = None
    if isinstance(result.plan, Configuration) and result.verified and result.objective is not None:
        bound = result.objective if result.bound is None else result.bound
        best = Found(result.plan, result.objective, bound, sure=True)
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
    )
    return Answer(problem, asked, judged, report)


def _listed(problem: TrainingProblem, where: str, value: object) -> Found:
    from ...planners.training.search import Found

    top = as_object(where, value)
    plan = _configuration(problem, where, top)
    seconds, bound = (as_number(join(where, key), require(where, top, key)) for key in ("seconds", "bound"))
    return Found(plan, seconds, bound, sure=False)


def _not_excluded(where: str, value: object) -> tuple[ParallelismChoice, float]:
    from ...instances.training.cases import ParallelismChoice

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
    try:
        problem = problem.replace(framework=_text(join(where, "framework"), require(where, top, "framework")))
    except InputError as error:
        raise InputError(join(where, "framework"), error.problem, error.remedy) from None
    if "data_hidden" in top:  # as the flags hide; files of earlier versions do not say
        problem = with_data_hidden(problem, as_number(join(where, "data_hidden"), top["data_hidden"]))
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
