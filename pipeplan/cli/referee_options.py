"""What commands share that read a plan: its file, and the rules by which it is judged."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ..instances.base.errors import UsageError, one_of, show
from ..instances.base.quantities import with_unit
from ..instances.base.result import Found
from ..instances.registry import KINDS, kind_of
from ..show.console import say_note
from .arguments import input_file
from .signatures import flag_of, option, shared

if TYPE_CHECKING:
    from ..instances.base.errors import Violation
    from ..instances.base.kind import Rules
    from ..instances.base.result import Result
    from ..instances.registry import Plan, Problem

PlanArgument = Annotated[
    str,
    input_file(
        "PLAN", "A plan, a result of `plan solve`, an expert split or a CSV of PyTorch; - for standard input."
    ),
]


def _choice(name: str, what: str, default: str) -> inspect.Parameter:
    choices = [choice for kind in KINDS.values() for choice in kind.choices.get(name, ())]
    sentence = f"{what}; default: that of the result, else {default}."
    return option(name, str, metavar="|".join(choices), help=sentence)


RULE_OPTIONS = (
    _choice("contiguity", "What the nodes of each device must form", "none"),
    _choice("objective", "The value to recompute", "the first of its kind"),
    _choice("semantics", "When weights are synchronised, for staging problems", "paper"),
    _choice("hierarchy", "How memory is counted, for staging problems with levels", "precise"),
    option(
        "subgraphs_per_device",
        int,
        metavar="Q",
        min=1,
        help="For the latency of a sample, pieces that an accelerator may hold; default: what the result was made for.",
    ),
)
# Options of a result file that say by which rules its plan was judged.
RULE_NAMES = (*(option.name for option in RULE_OPTIONS), "allocation")

# Gives a command the options of the rules; what the user says of them arrives as its argument `given`.
with_rules = shared("given", RULE_OPTIONS)


@dataclass(frozen=True, slots=True)
class Case:
    """A plan before the referee, with the rules that apply."""

    problem: Problem
    plan: Plan
    rules: Rules
    result: Result | None = None
    """What the plan's file says of it, where it is a result about this problem."""

    def differences(self) -> tuple[str, ...]:
        """What the result claims and the referee does not find, by the rules that it was made for."""
        from ..planners.run.claims import recompute

        return () if self.result is None else recompute(self.problem, self.result).differences

    def unchecked(self) -> str | None:
        """What the result claims of other plans, which no referee can see from this one; None: nothing."""
        if self.result is None or not self.result.is_bounded:
            return None
        unit = self.problem.time_unit
        claim = (
            "that its plan is optimal"
            if self.result.found == Found.OPTIMAL
            else f"that no plan is below {with_unit(self.result.bound, unit)}"
        )
        return f"the file claims {claim}, which was not checked here; add --proof to prove it again"

    def violations(self) -> tuple[Violation, ...]:
        return self.rules.violations(self.problem, self.plan)

    def value(self) -> float:
        return self.rules.value(self.problem, self.plan)

    def evaluation(self) -> Any:
        return self.rules.evaluation(self.problem, self.plan)


def read_case(problem: Problem, path: str, given: Mapping[str, Any]) -> Case:
    """The plan in a file; a result also says for which rules and for which problem it was made."""
    from ..instances.stored_results import load_plan, load_result

    made_for = _made_for(path)
    plan = load_plan(path, problem)
    made_hash = made_for.get("hash")
    if made_hash is not None and made_hash != problem.hash:
        say_note(_of_another_problem(path, made_for.get("name"), made_hash, problem))
    rules = _rules(problem, given, made_for)
    from ..instances.chain.allocation import unknown_allocation

    unknown = unknown_allocation(made_for.get("allocation"))
    if unknown is not None:
        say_note(f"{unknown}.")
    return Case(problem, plan, rules, load_result(path) if made_hash == problem.hash else None)


def _of_another_problem(path: str, name: object, made_hash: object, problem: Problem) -> str:
    """Whose result it is: of another problem, or of the same one on another cluster."""
    hashes = f"(hash {made_hash}, this one has {problem.hash})"
    if name != problem.name:
        return (
            f"{path} was made for another problem: it belongs to {show(name)}, not to {show(problem.name)} {hashes}; "
            "name the one that was solved."
        )
    return f"{path} was made for another problem {hashes}; give the same file and cluster options as in that run."


def _rules(problem: Problem, given: Mapping[str, Any], made_for: dict[str, Any]) -> Rules:
    """The rules that the user names, else those that the result was made for; a mere plan need not be contiguous."""
    choices = kind_of(problem).choices
    for name, value in given.items():
        values = next((kind.choices[name] for kind in KINDS.values() if name in kind.choices), None)
        if values is not None and name != "objective":
            one_of(flag_of(name), value, values)
    if "objective" in given:
        if "objective" not in choices:
            raise UsageError(f"--objective says nothing about a {problem.kind} problem; drop it.")
        one_of("--objective", given["objective"], choices["objective"])
    rules = kind_of(problem).rules(problem, {"contiguity": "none", **made_for, **given})
    if "subgraphs_per_device" in given and "subgraphs_per_device" not in rules.to_options():
        raise UsageError("--subgraphs-per-device counts only with --objective latency; give both or neither.")
    return rules


def _made_for(path: str) -> dict[str, Any]:
    """The problem's hash and the rules in a result file; nothing where the file is a mere plan."""
    from ..instances.base.json_file import holds_json, read_json

    data = read_json(path) if holds_json(path) else None
    if not isinstance(data, dict) or "schema" not in data:
        return {}
    options, about = data.get("options"), data.get("problem")
    facts = {name: options[name] for name in RULE_NAMES if name in options} if isinstance(options, dict) else {}
    if isinstance(about, dict):
        facts |= {name: about[name] for name in ("hash", "name") if name in about}
    return facts
