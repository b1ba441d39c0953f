"""What people see: blocks of facts about a run, the plan as a drawing of its kind, the referee's word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...cli.console import out, styled
from ...cli.progress import number
from ...instances.kind import Rules
from ...instances.kinds import Plan, Problem
from ...instances.result import Found, Result, Stop
from ...instances.staging.problem import StagingProblem
from ...planners.referee import rules_of
from .shapes import several

if TYPE_CHECKING:
    from ...planners.run.proof_check import ProofCheck


@dataclass(frozen=True, slots=True)
class View:
    """How problems and plans of one kind are shown. Modules are imported only when they are needed."""

    facts: Callable[[Any], dict[str, Any]]
    draw: Callable[[Any, Any, Rules], None]
    value: Callable[[Rules], str]
    """What the objective is called."""


def view_of(problem: Problem) -> View:
    from . import (
        levels as drawing_levels,
    )
    from . import (
        pattern as drawing_pattern,
    )
    from . import (
        placement as drawing_placement,
    )
    from . import (
        stage_graph as drawing_stage_graph,
    )
    from . import (
        stages as drawing_stages,
    )

    if isinstance(problem, StagingProblem) and problem.levels:
        return View(drawing_stages.facts, drawing_levels.draw, lambda rules: "time per micro-batch")
    return {
        "placement": View(drawing_placement.facts, drawing_placement.draw, lambda rules: rules.objective),
        "chain": View(drawing_pattern.facts, drawing_pattern.draw, lambda rules: "period per batch"),
        "staging": View(drawing_stages.facts, drawing_stages.draw, drawing_stages.objective),
        "graph-pipeline": View(drawing_stage_graph.facts, drawing_stage_graph.draw, _stage_graph_value),
    }[problem.kind]


def draw_instance(problem: Problem, more: Mapping[str, Any]) -> None:
    """What the instance is, and whatever else is known about it."""
    _block("instance", {"name": problem.name, **view_of(problem).facts(problem), **more})


def _stage_graph_value(rules: Rules) -> str:
    return "iteration" if rules.objective == "iteration" else "time per sample"


def draw_result(problem: Problem, result: Result) -> None:
    """Instance, model, run, plan; the last line is the referee's."""
    draw_instance(problem, {})
    if result.model_size:
        _block("model", {name.replace("_", " "): size for name, size in result.model_size.items()})
    _block("run", _run_facts(result, problem))
    rules = rules_of(problem, result.options)
    if result.plan is not None and result.verified:
        draw_plan(problem, result.plan, rules)
    say_verdict(problem, result.plan, result.violations, rules)


def draw_plan(problem: Problem, plan: Plan, rules: Rules) -> None:
    """The drawing of its kind."""
    view_of(problem).draw(problem, plan, rules)


def _block(title: str, facts: Mapping[str, Any]) -> None:
    from rich.table import Table

    out().print(styled(title, "bold"))
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(styled(f"  {name}"), styled(value))
    out().print(table)


def _run_facts(result: Result, problem: Problem) -> dict[str, Any]:
    method = " through ".join(filter(None, [result.formulation, result.planner]))
    if result.backend.get("name"):
        method += f" on {result.backend['name']} {result.backend.get('version') or ''}".rstrip()
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items())
    return {
        "method": method,
        "stop": str(result.stop),
        "found": _found(result),
        "objective": _value(result.objective, problem.time_unit),
        "bound": _value(result.bound, problem.time_unit),
        "gap": "unknown" if result.gap is None else f"{100 * result.gap:.4f} %",
        **_scope(result),
        "start": _start(result),
        **_cross_check(result),
        "seconds": seconds,
    }


def _value(value: float | None, unit: str | None) -> str:
    return "none" if value is None else f"{number(value)} {unit or ''}".rstrip()


def _scope(result: Result) -> dict[str, str]:
    """Of which plans the bound speaks, who asks for more of them, and what stands behind a proof."""
    if result.scope is None:
        return {}
    wider = {} if result.wider is None else {"wider": f"{result.wider} asks for more plans"}
    proof = {} if result.proof is None else {"proof": "; ".join(result.proof.checks)}
    return {"scope": result.scope, **wider, **proof}


def _cross_check(result: Result) -> dict[str, str]:
    facts = result.cross_check
    if facts is None:
        return {}
    method = facts.get("planner") or facts.get("formulation")
    word = "CONTRADICTS" if result.contradicted else "no contradiction"
    values = f"value {number(facts.get('objective'), 'none')}, bound {number(facts.get('bound'), 'none')}"
    return {"cross-check": f"{method}: {facts.get('stop')}, {values}: {word}"}


def _found(result: Result) -> str:
    """`optimal` never stands alone: it holds within the gap that was proven."""
    if result.found == Found.OPTIMAL and result.stop == Stop.PROVEN and result.gap is not None:
        return f"optimal (proven gap {result.gap:.2g})"
    return str(result.found)


def _start(result: Result) -> str:
    start = result.warm_start
    facts = [f"from {start.source}" if start.source else "", f"at {number(start.value)}" if start.value else ""]
    return " ".join(filter(None, [str(start.outcome), *facts]))


def say_proof_check(check: ProofCheck) -> None:
    """What was to be proven, by whom it was, and the answer."""
    if check.claim is not None:
        out().print(styled(f"claim: {check.claim}"))
    out().print(styled(f"proof: {check.answer}. {check.reason}", "bold" if check.answer == "confirmed" else "bold red"))


def say_differences(differences: Sequence[str]) -> None:
    """What a result's file claims and the referee does not find."""
    for difference in differences:
        out().print(styled(f"  - {difference}"))
    if differences:
        out().print(styled("claims: the file says otherwise than what was recomputed", "bold red"))


def say_verdict(problem: Problem, plan: Plan | None, violations: Sequence[str], rules: Rules) -> None:
    """The referee's word, recomputed here and now."""
    console = out()
    if plan is None:
        console.print(styled("verified: nothing, no plan was found", "bold"))
    elif violations:
        for violation in violations:
            console.print(styled(f"  - {violation}"))
        console.print(styled(f"verified: no, {several(len(violations), 'violation')}", "bold red"))
    else:
        value = number(rules.value(problem, plan))
        unit = f" {problem.time_unit}" if problem.time_unit else ""
        name = view_of(problem).value(rules)
        console.print(styled(f"verified: yes, recomputed {name} {value}{unit}", "bold green"))
