"""What people see: blocks of facts about a run, the plan as a drawing of its kind, the referee's word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...instances.base.kind import Rules
from ...instances.base.result import Result
from ...instances.registry import Plan, Problem
from ...planners.referee import rules_of
from ..answer import answer, options_of, run_facts
from ..console import draw_table, out, styled
from ..iteration import describe_iteration
from ..view import About, PlanView, module_of
from ..words import amount, several
from .plan import draw

if TYPE_CHECKING:
    from ...instances.base.kind import Samples
    from ...planners.run.proof_check import ProofCheck

MAX_LINES_SHOWN = 64
# What the sizes of a model count, where their names say too little.
COUNTED = {
    "rows": "as the solver was given them, for plans up to the best known value; an exported model has no such limit",
    "groups": "nodes that must share a device are one",
    "nets": "outputs that may have to be moved",
    "arcs": "pairs of groups, the first before the second",
}


def draw_instance(problem: Problem, about: About) -> None:
    """Print what the instance is, and the first lines of what else is known about it."""
    _block("instance", {"name": problem.name, **module_of(problem).facts(problem), **about.facts})
    console = out()
    if about.lines:
        console.print(styled(about.heading, "bold"))
    for line in about.lines[:MAX_LINES_SHOWN]:
        console.print(styled(f"  {line}"), soft_wrap=True)
    left = len(about.lines) - MAX_LINES_SHOWN
    if left > 0:
        console.print(styled(f"  ... and {several(left, 'more line')}; --json has all of them"))


def draw_result(
    problem: Problem,
    result: Result,
    view: PlanView | None,
    verbose: bool = False,
    named: bool = False,
    samples: Samples | None = None,
) -> None:
    """Print the answer, one iteration and the plan; the last line is the referee's. `verbose`: instance, model and run
    as well; `named`: with the problem's name and devices, for readers who have not given them; `samples`: what a
    micro-batch is, if known."""
    rules = rules_of(problem, result.options)
    what = f"{problem.name} on {_devices(problem)}: " if named else ""
    say_answer(what + answer(problem, result, view, rules))
    if view is not None and result.plan is not None and result.verified:
        iteration = describe_iteration(problem, result.plan, samples)
        if iteration is not None:
            out().print(styled(iteration.in_words()))
    if verbose:
        draw_instance(problem, About({}))
        if result.model_size:
            _block(
                "model", {name.replace("_", " "): _counted(name, size) for name, size in result.model_size.items()}
            )
        options = ", ".join(f"{name}={value}" for name, value in options_of(result).items())
        _block("run", {**run_facts(result, problem.time_unit), "options": options})
    if view is not None:
        draw(view, briefly=not verbose)
    facts = run_facts(result, problem.time_unit)
    if not verbose and "cross-check" in facts:
        out().print(styled(f"cross-check: {facts['cross-check']}"))
    say_verdict(problem, result.plan, result.violations, rules)


def _devices(problem: Problem) -> str:
    from ..sensitivity import devices  # imports all that solves, which most commands do not need

    return devices(problem)


def _counted(name: str, size: int) -> str:
    return f"{size} ({COUNTED[name]})" if name in COUNTED else str(size)


def say_answer(sentence: str) -> None:
    out().print(styled(sentence, "bold"))


def _block(title: str, facts: Mapping[str, Any]) -> None:
    from rich.table import Table

    out().print(styled(title, "bold"))
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(styled(f"  {name}"), styled(value))
    draw_table(table)


def say_proof_check(check: ProofCheck) -> None:
    """Print the claim that was to be proven, the answer and its reason."""
    if check.claim is not None:
        out().print(styled(f"claim: {check.claim}"))
    out().print(
        styled(f"proof: {check.answer}. {check.reason}", "bold" if check.answer == "confirmed" else "bold red")
    )


def say_differences(differences: Sequence[str]) -> None:
    """Print what a result's file claims and the referee does not find."""
    for difference in differences:
        out().print(styled(f"  - {difference}"))
    if differences:
        out().print(styled("claims: the file differs from what was recomputed", "bold red"))


def say_verdict(problem: Problem, plan: Plan | None, violations: Sequence[str], rules: Rules) -> None:
    """Print whether the referee accepts the plan, with the value recomputed here."""
    console = out()
    if plan is None:
        console.print(styled("verified: nothing, no plan was found", "bold"))
    elif violations:
        for violation in violations:
            console.print(styled(f"  - {violation}"))
        console.print(styled(f"verified: no, {several(len(violations), 'violation')}", "bold red"))
    else:
        value = amount(rules.value(problem, plan), problem.time_unit)
        name = module_of(problem).value_name(rules)
        console.print(styled(f"verified: yes, recomputed {name} {value}", "bold green"))
