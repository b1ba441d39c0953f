"""The report of one result: everything about the plan is recomputed, and the claims of the method stand beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from xml.etree.ElementTree import Element

from ...instances.base.errors import InputError
from ...instances.base.kind import Rules, Samples
from ...instances.base.result import Asked, Moment, Result
from ...instances.chain.allocation import unknown_allocation
from ...instances.physics.optimizers import OPTIMIZERS, copies_by
from ...instances.registry import Problem
from ...planners.referee import rules_of
from ...planners.run.claims import Recomputed, check_same_problem, recompute
from ..answer import answer, options_of, run_facts
from ..command import command_of
from ..iteration import describe_iteration
from ..pictures.curves import history_points
from ..view import PlanView, assumptions, module_of, view_of
from ..words import amount, measured
from .axes import from_zero, number
from .curves import Line, line_chart
from .markup import tag
from .page import details, facts, page, published, section, table
from .plan import sections


def result_page(problem: Problem, result: Result, samples: Samples | None = None) -> str:
    """One HTML page, of recomputed figures. The plan must be of the problem: a result about another one is refused.
    `samples`: what a micro-batch is, where that is known."""
    _check(problem, result)
    rules = rules_of(problem, result.options)
    unit = problem.time_unit or ""
    anew = recompute(problem, result)
    view = None if result.plan is None or not anew.result.verified else view_of(problem, result.plan, rules)
    parts = [_head(problem, anew, view, rules, samples)]
    if result.plan is not None and view is not None:
        parts += sections(problem, result.plan, view)
    parts += _choices(problem, anew.result)
    parts += [_problem(problem, result, rules), section("Run", facts(_run(anew.result, unit)))]
    if len(result.history) > 1:
        parts.append(section("Search", _curve(result.history, unit)))
    if result.messages:
        parts.append(section("Messages", _listed(result.messages)))
    parts += [section("Options", facts(options_of(result).items())), _data(result)]
    return page(f"{problem.name}: {result.formulation or result.planner}", parts)


def _choices(problem: Problem, result: Result) -> list[Element]:
    """The shortlist and the judged configurations of a training; other kinds have no such lists."""
    if result.choices is None:
        return []
    from ...instances.training.problem import TrainingProblem  # needed for trainings alone
    from ...studies.configure.choices import stored_answer
    from .configurations import choice_sections

    stored = stored_answer(problem, result) if isinstance(problem, TrainingProblem) else None
    return [] if stored is None else choice_sections(stored)


def _check(problem: Problem, result: Result) -> None:
    check_same_problem(problem, result)
    if result.plan is not None and not isinstance(result.plan, rules_of(problem, result.options).plan_type):
        raise InputError("plan.kind", f"is {result.plan.kind}", f"give a plan for a {problem.kind} problem")


def _problem(problem: Problem, result: Result, rules: Rules) -> Element:
    """The model and the cluster, and what the costs rest on."""
    named_facts = {"name": problem.name, **module_of(problem).facts(problem)}
    rests_on = (*_of_the_table(result.asked), *assumptions(problem, rules))
    return section("Problem", facts(named_facts.items()), tag("h3", None, "Assumptions"), _listed(rests_on))


def _of_the_table(asked: Asked | None) -> Iterable[str]:
    """Sentences on how a profile or table was read, and with which optimizer."""
    if asked is None:
        return
    optimizer = asked.cluster.get("optimizer")
    if isinstance(optimizer, str) and optimizer in OPTIMIZERS:
        yield f"memory counts {copies_by(0, optimizer).whole:g} copies of the parameters (--optimizer {optimizer})"
    yield from asked.notes


def _listed(texts: Iterable[str]) -> Element:
    return tag("ul", None, *(tag("li", None, text) for text in texts))


def _data(result: Result) -> Element:
    return section("Data", details("The result as JSON", tag("pre", None, json.dumps(result.to_json(), indent=1))))


def _head(
    problem: Problem, anew: Recomputed, view: PlanView | None, rules: Rules, samples: Samples | None
) -> Element:
    """The top of the page: the answer in words, whether the referee agrees, and the command."""
    words, result = [tag("h1", None, problem.name)], anew.result
    words.append(tag("p", {"class": "answer"}, answer(problem, result, view, rules)))
    iteration = None if view is None or result.plan is None else describe_iteration(problem, result.plan, samples)
    if iteration is not None:
        words.append(tag("p", {"class": "note"}, iteration.in_words()))
    if result.plan is None:
        words.append(tag("p", {"class": "verdict no"}, f"No plan: {result.stop}{_among(result)}"))
    elif result.objective is None:
        words.append(tag("p", {"class": "verdict no"}, f"Verified: no, {len(result.violations)} violations"))
        words.append(_listed(result.violations))
    else:
        value = amount(result.objective, problem.time_unit)
        words.append(
            tag("p", {"class": "verdict yes"}, f"Verified: yes. The referee recomputed the value {value}.")
        )
    if anew.differences:
        words.append(tag("p", {"class": "verdict no"}, "The file claims otherwise:"))
        words.append(_listed(anew.differences))
    command = command_of(result)
    if command is not None:
        words.append(tag("p", {"class": "note"}, tag("code", None, command)))
    words.append(published())
    return tag("header", None, *words)


def _among(result: Result) -> str:
    return "" if result.scope is None else f" among {result.scope}"


def _run(result: Result, unit: str) -> list[tuple[str, object]]:
    return [
        *run_facts(result, unit).items(),
        ("claimed", None if result.claimed is None else amount(result.claimed, unit)),
        *(("allocation", text) for text in [unknown_allocation(result.options.get("allocation"))] if text),
        ("instance hash", result.problem.get("hash")),
    ]


def _curve(history: tuple[Moment, ...], unit: str) -> Element:
    """How incumbent and bound met, as the method claimed while it ran."""
    lines = []
    for name, points in history_points(history).items():
        end = (history[-1].seconds, points[-1][1])
        lines.append(Line.of(name, (*points, end) if points[-1] != end else points, steps=True))
    rows = [[number(m.seconds), _short(m.incumbent), _short(m.bound)] for m in history]
    values = [spot.y for line in lines for spot in line.spots]
    low = from_zero(min(values), max(values))
    chart = line_chart(lines, "Incumbent and bound over time", "time (s)", measured("value", unit), low)
    return tag("div", None, chart, details("As a table", table(["seconds", "incumbent", "bound"], rows)))


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.7g}"
