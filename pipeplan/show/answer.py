"""The answer in one sentence: the value, what limits the pipeline, how good the plan is proven to be, and what an even
split costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..instances.base.errors import PipeplanError
from ..instances.base.kind import Rules
from ..instances.base.result import Found, Result, Stop
from ..instances.registry import Plan, Problem
from .even import equal_blocks, even_split, nearest_even_split
from .view import PlanView, Row, module_of, view_of
from .words import IN_BYTES, MemoryUnit, amount, percent

if TYPE_CHECKING:
    from ..planners.referee import Ruling


# The most characters for the layers of the slowest device or link.
MOST_NAMED = 48
# Amounts that differ by a smaller relative share are called the same.
SAME = 5e-4
BLOCKS = "an even split of the blocks (as many numbered blocks on each device, as frameworks divide them)"
# From this share of its limit on, memory is called nearly full.
FULL = 0.95
# From this ratio on, a split is said to take so many times as long, not to be so many per cent slower.
TIMES_AS_LONG = 2.0
PASSES = {"forward": "forward passes", "backward": "backward passes"}
# Why a run that proved nothing has no plan.
NO_PLAN = {
    Stop.TIME: "the time limit was reached first",
    Stop.MEMORY: "the solver needed more memory than its limit",
    Stop.INTERRUPTED: "the search was interrupted",
    Stop.ERROR: "the method failed",
    Stop.COMPLETED: "the method knows none that fits",
}


def answer(problem: Problem, result: Result, view: PlanView | None, rules: Rules) -> str:
    """A sentence about the plan that the referee accepts, or about why there is none."""
    if result.plan is None:
        return no_plan(problem, result)
    if view is None or result.objective is None:
        return "The plan breaks a rule of the problem."
    phrases = (how_good(problem, result), _than_start(result, result.objective))
    return about_plan(problem, result.plan, view, rules, result.objective, *phrases)


def _than_start(result: Result, value: float) -> str:
    """By how much the user's own plan is slower, where the search began with one."""
    start = result.warm_start
    return "" if start.source != "user" or start.value is None else _against("your plan", start.value, value)


def about_plan(problem: Problem, plan: Plan, view: PlanView, rules: Rules, value: float, *more: str) -> str:
    """The value of a plan, what limits it, the phrases `more`, and an even split to compare with, in one sentence."""
    compared = even(problem, plan, rules, value, view.memory_unit)
    parts = [f"{view.value}: {view.limits or limits(view)}", *more, compared]
    return "; ".join(filter(None, parts)) + "."


def limits(view: PlanView) -> str:
    """The slowest device or stage, and what it is busy with."""
    slowest = view.slowest()
    if slowest is None:
        return "nothing takes any time"
    table, row = slowest
    layers = "" if row.held is None else f" ({row.held.named(table.item, MOST_NAMED)})"
    title = f"{table.what} {row.name}" if row.name[0].isdigit() else row.name
    return f"{title}{layers} limits the pipeline{_busy_with(row)}{_full(row)}"


def _busy_with(row: Row) -> str:
    """The largest part of the row's load, in words; empty where the load has fewer than two parts."""
    if len(row.parts) < 2 or not row.load:
        return ""
    name = max(row.parts, key=row.parts.__getitem__)
    return f" and spends {percent(row.parts[name] / row.load)} of its time on {PASSES.get(name, name)}"


def _full(row: Row) -> str:
    if not row.limit or row.memory_held is None or row.memory_held < FULL * row.limit:
        return ""
    return f", its memory is nearly full ({percent(row.memory_held / row.limit)})"


def even(problem: Problem, plan: Plan, rules: Rules, value: float, memory: MemoryUnit = IN_BYTES) -> str:
    """By how much even splits are slower: one of all layers, and one of the blocks, as frameworks divide them. Where no
    split of all layers fits, what the nearest one lacks. Empty where the kind does not say what is even."""
    other, blocks = even_split(problem, rules), equal_blocks(problem, rules)
    words = getattr(module_of(problem), "EVEN", "")
    split = f"an even split ({words})" if words else "an even split"
    parts = []
    if other is None and words:
        parts.append(f"no even split that was tried fits ({words}){_misfit(problem, rules, memory)}")
    if other is not None:
        differs = getattr(module_of(problem), "even_differs", lambda plan, even: "")(plan, other.plan)
        parts.append(_compared(split + differs, other, plan, value))
    if blocks is not None and (other is None or blocks.plan != other.plan):
        parts.append(_compared(BLOCKS, blocks, plan, value))
    return "; ".join(filter(None, parts))


def _misfit(problem: Problem, rules: Rules, memory: MemoryUnit) -> str:
    """Memory that the nearest even split lacks, on the device that lacks most; else the first rule that it breaks."""
    nearest = nearest_even_split(problem, rules)
    if nearest is None or not nearest.violations:
        return ""
    rows = _holding(problem, nearest.plan, rules)
    title, holds, limit = max(rows, key=lambda row: row[1] - row[2], default=("", 0.0, 0.0))
    if holds <= limit:
        return f": {nearest.violations[0].removesuffix('.')}"
    alike = len({limit for _, _, limit in rows}) == 1
    where = "its fullest device" if alike else title
    return f": the nearest holds {memory.text(holds)} on {where}, {memory.text(holds - limit)} more than it has"


def _holding(problem: Problem, plan: Plan, rules: Rules) -> list[tuple[str, float, float]]:
    """The name, the memory held and the limit of each row that has a limit."""
    try:
        tables = view_of(problem, plan, rules).tables
    except PipeplanError:  # a plan without a value has no view
        return []
    return [
        (
            f"a device of {table.what} {row.name}" if row.name[:1].isdigit() else row.title,
            row.memory_held,
            row.limit,
        )
        for table in tables
        for row in table.rows
        if row.memory_held is not None and row.limit is not None
    ]


def _compared(split: str, other: Ruling, plan: Plan, value: float) -> str:
    """By how much another split is slower, or that the plan is this split."""
    if other.value is not None and value > 0 and other.plan == plan:
        return f"this is {split}"
    return "" if other.value is None else _against(split, other.value, value)


def _against(split: str, other: float, value: float) -> str:
    if value <= 0:
        return ""
    ratio = other / value
    if abs(ratio - 1) <= SAME:
        return f"{split} would be as fast"
    if ratio < 1:
        return f"{split} would be {percent(1 - ratio)} faster"
    if ratio < TIMES_AS_LONG:
        return f"{split} would be {percent(ratio - 1)} slower"
    return f"{split} would take {ratio:.3g} times as long"


def how_good(problem: Problem, result: Result) -> str:
    """How near to the best the plan is proven to be, and among which plans."""
    among = _scope(problem, result)
    if result.in_scope is not None:
        in_scope = _in_scope(problem, result.in_scope)
        return f"feasible, not proven, and no plan that the method considers; among those that it considers: {in_scope}"
    if result.gap is None:
        return "how far it is from the best plan is not known"
    if result.found == Found.OPTIMAL and result.stop == Stop.PROVEN:
        more = f" ({result.wider} asks for more)" if result.wider else ""
        return optimal() + (f" among {among}{more}" if among else "")
    return f"proven: no plan saves more than {percent(result.gap)} of this time" + _within(among)


def _in_scope(problem: Problem, own: Result) -> str:
    """What the method found in its own scope: a value with its proof, a proof that there is no plan, or neither."""
    if own.objective is None:
        return no_plan(problem, own).rstrip(".")
    return f"{amount(own.objective, problem.time_unit)}, {how_good(problem, own)}"


def _within(scope: str) -> str:
    """The scope in brackets, so that its words are not read as a part of what was proven."""
    return f" (among {scope})" if scope else ""


def _scope(problem: Problem, result: Result) -> str:
    """The scope as its kind says it to those who have not read the papers; the run's facts have its exact words."""
    if result.scope is None:
        return ""
    plainly = getattr(module_of(problem), "scope_in_words", None)
    return result.scope if plainly is None else plainly(problem, result.scope)


def no_plan(problem: Problem, result: Result) -> str:
    """A sentence on why there is no plan: it is proven that there is none, or the run ended too early."""
    if result.stop == Stop.INFEASIBLE:
        return f"Proven: there is no plan{_within(_scope(problem, result))}."
    return f"No plan was found: {NO_PLAN.get(result.stop, result.stop)}."


# Value and bound that differ by less are the same but for rounding.
EXACT = 1e-12


def run_facts(result: Result, unit: str | None) -> dict[str, str]:
    """Facts of a run by name. Absent ones are left out, but value, bound and gap say `none` or `unknown`."""
    method = " through ".join(filter(None, [result.formulation, result.planner]))
    if result.backend.get("name"):
        method += f" on {result.backend['name']} {result.backend.get('version') or ''}".rstrip()
    facts = {
        "method": method,
        "stop": str(result.stop),
        "found": _found(result),
        "objective": _value(result.objective, unit),
        "bound": _value(result.bound, unit),
        "gap": "unknown" if result.gap is None else percent(max(0.0, result.gap)),
        "scope": result.scope,
        "in scope": None if result.in_scope is None else _own_answer(result.in_scope, unit),
        "wider": result.scope and result.wider and f"{result.wider} asks for more plans",
        "proof": None if result.proof is None else "; ".join(result.proof.checks),
        "start": _start(result),
        "cross-check": None if result.cross_check is None else check_in_words(result.cross_check),
        "seconds": ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items()),
    }
    return {name: text for name, text in facts.items() if text is not None}


def _own_answer(own: Result, unit: str | None) -> str:
    """The method's own answer, where the plan is a better one from elsewhere."""
    facts = run_facts(own, unit)
    stop = f" ({own.stop})" if own.stop not in (Stop.PROVEN, Stop.COMPLETED) else ""
    among = "" if own.scope is None else f" among {own.scope}"
    return f"{facts['found']}{stop}{among}: {facts['objective']}, bound {facts['bound']}"


def options_of(result: Result) -> dict[str, str]:
    """The options that were asked for, by name; options that say nothing are left out."""
    return {name: str(value) for name, value in result.options.items() if value is not None and value != {}}


def _value(value: float | None, unit: str | None) -> str:
    return "none" if value is None else amount(value, unit)


def _found(result: Result) -> str:
    """`optimal` never stands alone: it holds within the gap that was proven."""
    if result.found == Found.OPTIMAL and result.stop == Stop.PROVEN and result.gap is not None:
        return optimal(result.gap)
    return str(result.found)


def optimal(gap: float = 0.0) -> str:
    """Says how near the bound is to a value that it meets."""
    return "optimal, proven" if gap <= EXACT else f"optimal, proven within {percent(gap)}"


def _start(result: Result) -> str:
    start = result.warm_start
    facts = [
        f"from {start.source}" if start.source else "",
        f"at {amount(start.value, None)}" if start.value else "",
    ]
    return " ".join(filter(None, [str(start.outcome), *facts]))


def check_in_words(facts: Mapping[str, Any]) -> str:
    """What a second method said, and whether it contradicts the first."""
    method = facts.get("planner") or facts.get("formulation")
    word = "no contradiction" if facts["contradiction"] is None else "CONTRADICTS"
    if "message" in facts:
        return f"{method}: no check, {facts['message']}"
    values = f"value {_value(facts.get('objective'), None)}, bound {_value(facts.get('bound'), None)}"
    return f"{method}: {facts.get('stop')}, {values}: {word}"
