"""`plan verify`: the referee's verdict on a plan from its decisions alone; and what commands share that read a plan."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.base.errors import UsageError, one_of, show
from ..instances.base.quantities import with_unit
from ..instances.base.result import Found
from ..instances.lookup import Cluster
from ..instances.registry import KINDS, kind_of
from ..show.console import print_json, put, say_note
from .arguments import InstanceArgument, Json, input_file, limits_for, load_for, with_cluster, with_limits
from .exits import NO_PLAN, OK, REJECTED, graceful
from .signatures import flag_of, option, shared

if TYPE_CHECKING:
    from ..instances.base.errors import Violation
    from ..instances.base.kind import Rules
    from ..instances.base.result import Result
    from ..instances.registry import Plan, Problem


# ---- a plan and the rules by which it is judged ---------------------------------------------------------------


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


def read_case(problem: Problem, path: str, given: Mapping[str, Any]) -> Case:
    """The plan in a file; a result also says for which rules and for which problem it was made."""
    from ..instances.stored_results import load_plan, load_result

    made_for = _made_for(path)
    plan = load_plan(path, problem)
    made_hash = made_for.get("hash")
    if made_hash is not None and made_hash != problem.hash:
        say_note(_of_another_problem(path, made_for.get("name"), made_hash, problem))
    rules = _rules(problem, given, made_for)
    from ..instances.chain.plan import unknown_allocation

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


# ---- the command ----------------------------------------------------------------------------------------------


_Proof = Annotated[
    bool,
    typer.Option(
        "--proof", help="Also prove the bound of a result again, by another exact method if there is one."
    ),
]


@with_cluster()
@with_rules()
@with_limits("time_limit_s")
def command(
    *,
    instance: InstanceArgument,
    plan: PlanArgument,
    proof: _Proof = False,
    limits: dict[str, Any],
    json: Json = False,
    given: dict[str, Any],
    on: Cluster,
) -> None:
    """Recompute a plan and list every broken rule: exit code 0 if there is none, else 3.

    A claim of the result that the referee does not confirm counts as a broken rule. With --proof the bound is proven
    again: exit code 0 if it is confirmed, 1 if not, 3 if it is contradicted.
    """
    problem = load_for(plan, instance, on)
    if proof:
        raise typer.Exit(_check_proof(problem, plan, given, limits, json))
    if limits:
        raise UsageError("--time-limit is for the search of a proof; give --proof as well, or drop it.")
    case = read_case(problem, plan, given)
    violations, differences = case.violations(), case.differences()
    if json:
        print_json(report(case, violations))
    else:
        from ..show.terminal import say_differences, say_verdict

        say_verdict(case.problem, case.plan, [str(violation) for violation in violations], case.rules)
        say_differences(differences)
        if case.unchecked() is not None and not violations and not differences:
            put(f"not checked: {case.unchecked()}.", soft=True)
    raise typer.Exit(REJECTED if violations or differences else OK)


def _check_proof(problem: Problem, path: str, given: dict[str, Any], limits: dict[str, Any], json: bool) -> int:
    """Prove a result's bound again, by the rules that it was made for; a search that Ctrl-C ends confirms nothing."""
    if given:
        raise UsageError("--proof goes by the rules that the result was made for; drop options of other rules.")
    from ..instances.stored_results import load_result
    from ..planners.run.claims import verify_proof

    result = load_result(path)
    with graceful():
        check = verify_proof(problem, result, limits=limits_for(problem, limits))
    if json:
        print_json(check.to_json())
    else:
        from ..show.terminal import say_proof_check

        say_proof_check(check)
    return {"confirmed": OK, "not confirmed": NO_PLAN, "contradicted": REJECTED}[check.answer]


def report(case: Case, violations: tuple[Violation, ...]) -> dict[str, Any]:
    """The facts of the verdict as JSON; costs are there only where the plan is complete."""
    facts: dict[str, Any] = {
        "verified": not violations,
        "options": case.rules.to_options(),
        "objective": None,
        "violations": [{"rule": violation.rule, "message": violation.message} for violation in violations],
        "differences": list(case.differences()),
        "unchecked": case.unchecked(),
        "problem": {"kind": case.problem.kind, "name": case.problem.name, "hash": case.problem.hash},
    }
    if not violations:
        facts["objective"] = case.rules.value(case.problem, case.plan)
        facts["evaluation"] = case.rules.evaluation(case.problem, case.plan).to_json()
        facts |= _stage_order(case)
    return facts


def _stage_order(case: Case) -> dict[str, Any]:
    """The order of the stages, for plans that have rules of contiguity."""
    order_of = kind_of(case.problem).stage_order
    if order_of is None or "contiguity" not in case.rules.to_options():
        return {}
    order = order_of(case.problem, case.plan)
    return {"stage_order": None if order is None else list(order)}
