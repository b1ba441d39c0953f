"""The commands that read a plan: `plan verify`, `show`, `simulate`, `explore` and `report`.

All read it with `read_case`, which says by which rules the plan is judged. What a command shows of a plan is a view
(`show/view.py`) or a page; nothing is computed here. A rule that a user may name is one more entry of `RULE_OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.base.errors import PipeplanError, UsageError, one_of, show
from ..instances.base.json_file import begins_with, holds_json, read_json, write_text_atomically
from ..instances.base.quantities import with_unit
from ..instances.base.result import Found
from ..instances.lookup import Cluster, holds_profile, packaged_by_hash
from ..instances.networks.profile.options import ProfileOptions
from ..instances.registry import KINDS, Problem, kind_of
from ..instances.timeline import SCHEDULES
from ..kinds import shown_kind
from ..show.console import print_json, put, say_error, say_note, say_written, tell
from ..show.words import IN_BYTES, several
from .arguments import (
    InstanceArgument,
    Json,
    Picture,
    input_file,
    limits_for,
    load_for,
    load_lowered,
    load_lowered_for,
    with_cluster,
    with_limits,
)
from .exits import NO_PLAN, OK, REJECTED, graceful
from .signatures import declared, described, flag_of, shared

if TYPE_CHECKING:
    from ..instances.base.errors import Violation
    from ..instances.base.kind import Rules, Samples
    from ..instances.base.result import Result
    from ..instances.registry import Plan
    from ..instances.timeline.model import Simulation
    from ..show.views import PlanView


# ---- a plan and the rules by which it is judged ---------------------------------------------------------------


PlanArgument = Annotated[
    str,
    input_file(
        "PLAN", "A plan, a result of `plan solve`, an expert split or a PyTorch schedule CSV; - for standard input."
    ),
]


def _choices(name: str) -> str:
    """All choices of a rule, of whichever kind of problem."""
    return "|".join(choice for kind in KINDS.values() for choice in kind.choices.get(name, ()))


RULE_OPTIONS = declared(
    f"""
    contiguity text {_choices("contiguity")}: What the nodes of each device must form; default: as in the result, else
        none.
    objective text {_choices("objective")}: The value to recompute; default: as in the result, else the first one for
        this problem type.
    semantics text {_choices("semantics")}: For stagings: when weights are synchronised; default: as in the result, else
        paper.
    subgraphs_per_device int Q: For latency: number of pieces that an accelerator may hold; default: as in the result.
    """,
    subgraphs_per_device={"min": 1},
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
            raise UsageError(f"--objective does not apply to a {problem.kind} problem; drop it.")
        one_of("--objective", given["objective"], choices["objective"])
    rules = kind_of(problem).rules(problem, {"contiguity": "none", **made_for, **given})
    if "subgraphs_per_device" in given and "subgraphs_per_device" not in rules.to_options():
        raise UsageError("--subgraphs-per-device needs --objective latency; give both or neither.")
    return rules


def _made_for(path: str) -> dict[str, Any]:
    """The problem's hash and the rules in a result file; nothing where the file is a mere plan."""

    data = read_json(path) if holds_json(path) else None
    if not isinstance(data, dict) or "schema" not in data:
        return {}
    options, about = data.get("options"), data.get("problem")
    facts = {name: options[name] for name in RULE_NAMES if name in options} if isinstance(options, dict) else {}
    if isinstance(about, dict):
        facts |= {name: about[name] for name in ("hash", "name") if name in about}
    return facts


# ---- the command ----------------------------------------------------------------------------------------------


@with_cluster()
@with_rules()
@with_limits("time_limit_s")
@described("proof flag: Also prove the bound of a result again, with another exact method if there is one.")
def verify(
    *,
    instance: InstanceArgument,
    plan: PlanArgument,
    proof: bool = False,
    limits: dict[str, Any],
    json: Json = False,
    given: dict[str, Any],
    on: Cluster,
) -> None:
    """Recompute a plan and list every broken rule; exit code 0 if there is none, else 3.

    A claim in the result that the referee does not confirm counts as a broken rule. With --proof the bound is
    proven again; exit code 0 if it is confirmed, 1 if not, 3 if it is contradicted.
    """
    problem = load_for(plan, instance, on)
    if proof:
        raise typer.Exit(_check_proof(problem, plan, given, limits, json))
    if limits:
        raise UsageError("--time-limit is for the search of a proof; add --proof, or drop it.")
    case = read_case(problem, plan, given)
    violations, differences = case.violations(), case.differences()
    if json:
        print_json(verdict_facts(case, violations))
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
        raise UsageError("--proof uses the rules that the result was made for; drop options that change them.")
    from ..instances.stored_results import load_result
    from ..planners.run.claims import verify_proof

    result = load_result(path)
    with graceful():
        check = verify_proof(problem, result, limits=limits_for(limits))
    if json:
        print_json(check.to_json())
    else:
        from ..show.terminal import say_proof_check

        say_proof_check(check)
    return {"confirmed": OK, "not confirmed": NO_PLAN, "contradicted": REJECTED}[check.answer]


def verdict_facts(case: Case, violations: tuple[Violation, ...]) -> dict[str, Any]:
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
        order_of = kind_of(case.problem).stage_order
        if order_of is not None and "contiguity" in case.rules.to_options():
            order = order_of(case.problem, case.plan)
            facts["stage_order"] = None if order is None else list(order)
    return facts


# ---- `plan show` ----------------------------------------------------------------------------------------------


@with_cluster()
@with_rules()
@described(
    """
    plan input PLAN: A plan, a result, an expert split or a PyTorch schedule CSV; without one, show the instance.
    unrolled flag: For periodic plans of chains: show the pipeline from the first batch on.
    """
)
def show_plan(
    *,
    instance: InstanceArgument,
    plan: str | None = None,
    unrolled: bool = False,
    picture: Picture = None,
    json: Json = False,
    given: dict[str, Any],
    on: Cluster,
) -> None:
    """Draw a plan: its timeline, and load and memory of each device or stage, with the slowest marked.

    Without a plan, describe the instance, or list the nodes of a profile and their costs if no cluster is given.
    """
    # --inference and the size of a parameter are about the model alone.
    sizes = ProfileOptions(bytes_per_parameter=on.profile.bytes_per_parameter) if on.profile else None
    bare = (
        plan is None and picture is None and not unrolled and replace(on, training=None) == Cluster(profile=sizes)
    )
    if bare and holds_profile(instance):
        _show_profile(instance, on, json)
        return
    lowered, _ = load_lowered(instance, on) if plan is None else load_lowered_for(plan, instance, on)
    problem, samples = lowered.problem, lowered.samples
    if unrolled and not kind_of(problem).periodic:
        raise UsageError(f"--unrolled is for periodic plans of chains; {instance} is a {problem.kind} problem.")
    if plan is None:
        if picture is not None or unrolled:
            raise UsageError(f"There is no plan to draw; name its file after {instance}.")
        _show_instance(problem, json)
        raise typer.Exit(OK)
    case = read_case(problem, plan, given)
    violations = case.violations()
    seen = None if json and picture is None else _seen(case)
    if json:
        from ..show.answer import iteration_json

        of_sample = _latency(case)
        latency = {} if of_sample is None else {"latency": of_sample.latency}
        iteration = iteration_json(problem, None if violations else case.plan, samples)
        print_json({**verdict_facts(case, violations), **latency, **iteration})
    else:
        _draw_case(case, seen, [str(violation) for violation in violations], unrolled, samples)
    if picture is not None:
        from ..show.pictures import draw_view
        from ..show.views import PlanView

        if isinstance(seen, PlanView):
            draw_view(seen, picture)
        else:
            say_note(f"there is no picture: {seen}")
    raise typer.Exit(REJECTED if violations else OK)


def _show_profile(instance: str, on: Cluster, json: bool) -> None:
    from ..instances.lowering import load_profile
    from ..show.terminal import draw_profile, profile_report

    sizes = on.profile.bytes_per_parameter if on.profile else None
    profile = load_profile(instance, training=on.training is not False, bytes_per_parameter=sizes)
    if json:
        print_json(profile_report(profile))
    else:
        draw_profile(profile)


def _show_instance(problem: Problem, json: bool) -> None:
    from ..planners.run.solve import describe
    from ..show.terminal import draw_instance

    if json:
        print_json({"problem": describe(problem)})
    else:
        draw_instance(problem)


def _latency(case: Case) -> Any:
    """The latency of one sample, whatever value the plan is judged by; None where the kind has no latency."""
    evaluate = shown_kind(case.problem).latency
    return None if evaluate is None else evaluate(case.problem, case.plan)


def _seen(case: Case) -> PlanView | PipeplanError:
    """What is shown of the plan, or the error that says why a plan without meaning cannot be shown."""
    from ..show.views import view_of

    try:
        return view_of(case.problem, case.plan, case.rules)
    except PipeplanError as error:
        return error


def _draw_case(
    case: Case,
    seen: PlanView | PipeplanError | None,
    violations: list[str],
    unrolled: bool,
    samples: Samples | None,
) -> None:
    from ..show.answer import about_plan, describe_iteration
    from ..show.terminal import draw, say_differences, say_verdict
    from ..show.views import PlanView
    from ..show.words import amount

    if isinstance(seen, PlanView):
        if not violations:
            value = case.rules.value(case.problem, case.plan)
            put(about_plan(case.problem, case.plan, seen, case.rules, value), style="bold")
            iteration = describe_iteration(case.problem, case.plan, samples)
            put(iteration and iteration.in_words())
        draw(seen, unrolled)
        of_sample = _latency(case) if "contiguity" in case.rules.to_options() else None
        if of_sample is not None:
            unit = case.problem.time_unit
            latency = f"none. {of_sample.reason}" if of_sample.latency is None else amount(of_sample.latency, unit)
            put(f"latency of one sample: {latency}")
    else:
        put(f"the plan cannot be drawn. {seen}")
    say_verdict(case.problem, case.plan, violations, case.rules)
    say_differences(case.differences())


# ---- `plan simulate` ------------------------------------------------------------------------------------------


@with_cluster()
@described(
    f"""
    micro_batches int N: Micro-batches in one iteration. Required for splits and chains; for stagings, the default is
        the number in the problem.
    schedule choice {"|".join(SCHEDULES)}: Order of the passes. planned: the stage graph's own schedule, or 1F1B for
        other plans; gpipe: all forward passes, then all backward passes.
    picture picture: Draw the iteration as .svg, .png or .pdf.
    """
)
def simulate_plan(
    *,
    instance: InstanceArgument,
    plan: PlanArgument,
    micro_batches: int | None = None,
    schedule: str = "planned",
    picture: str | None = None,
    json: Json = False,
    on: Cluster,
) -> None:
    """Simulate one iteration of a plan that has stages: time, idle devices, memory and timeline."""
    from ..instances.simulate import simulate
    from ..instances.timeline.engine import DeadlockError

    problem = load_for(plan, instance, on)
    if micro_batches is None and kind_of(problem).batch is None:
        raise UsageError(
            f"A {problem.kind} problem does not state the number of micro-batches; give --micro-batches."
        )
    case = read_case(problem, plan, {})
    try:
        simulation = simulate(problem, case.plan, micro_batches=micro_batches, schedule=schedule)
    except DeadlockError as error:
        say_error(error)
        raise typer.Exit(REJECTED) from None
    _say_what_is_broken(case, simulation)
    _show_simulation(problem, simulation, json, picture)
    raise typer.Exit(OK)


def _show_simulation(problem: Problem, simulation: Simulation, json: bool, picture: str | None) -> None:
    from ..show.views import view_of_simulation

    view = view_of_simulation(problem, simulation)
    if json:
        over = [stage.name for stage in simulation.stages if stage.is_over_memory]
        print_json({**simulation.to_json(), **({"over_memory": over} if over else {})})
    else:
        from ..show.terminal import draw

        draw(view)
    if picture is not None:
        from ..show.pictures import draw_view

        draw_view(view, picture)


def _say_what_is_broken(case: Case, simulation: Simulation) -> None:
    """Note where the plan breaks a rule or its schedule the memory: a simulation shows what comes of any plan."""
    violations = case.violations()
    if violations:
        rest = f" (and {several(len(violations) - 1, 'more violation')})" if len(violations) > 1 else ""
        say_note(f"the plan breaks a rule of the problem{rest}: {violations[0]}")
    for stage in sorted(simulation.stages, key=lambda stage: -stage.memory_bytes):
        if stage.limit_bytes is not None and stage.is_over_memory:
            unit = IN_BYTES.like([stage.limit_bytes])
            say_note(
                f"with this schedule a device of {stage.name} needs {unit.text(stage.memory_bytes)}, "
                f"more than its memory of {unit.text(stage.limit_bytes)}"
            )
            return


# What the files of `plan tune` begin with.
CAMPAIGN = '"schema": "pipeplan.campaign/'

# ---- `plan explore` and `plan report` -------------------------------------------------------------------------


@described(
    """
    memory flag --memory: Write the page on a training's memory instead: bars for each stage that open into formulas.
    output output --output -o: The HTML file to write; default: explore.html, with --memory memory.html.
    """
)
def explore(*, memory: bool = False, output: str | None = None, json: Json = False) -> None:
    """Write an interactive page whose sliders change a pipeline and show its time, timeline and memory.

    The file needs no network and no installation. The settings are part of the page's address, so you can share them.
    """
    if memory:
        from ..show.memory_page import memory_page as page
    else:
        from ..show.report import explore_page as page
    path, text = output or ("memory.html" if memory else "explore.html"), page()
    write_text_atomically(path, text)
    if output is None:  # what is given is told of when the command ends
        say_written(path)
    tell(json, {"page": path, "bytes": len(text.encode())}, f"page: {path}; open it in a browser")


@with_cluster()
@described(
    """
    source input RESULT|FOLDER: A result file, - for standard input, a folder written by `plan compare`, or a campaign
        file of `plan tune`.
    instance input [INSTANCE]: The problem that was solved; default: the file or packaged instance that the result
        names.
    output output --output -o: The HTML file to write.
    """
)
def report(
    *, source: str, instance: str | None = None, output: str = "report.html", json: Json = False, on: Cluster
) -> None:
    """Write a self-contained HTML page: summary, tables, and charts of time, memory and search."""
    if Path(source).is_dir():
        if instance is not None:
            raise UsageError("A comparison names its own instances; drop INSTANCE.")
        from ..show.comparison import comparison_page
        from ..studies.compare.comparison import load_comparison

        text = comparison_page(load_comparison(Path(source)))
    elif begins_with(source, CAMPAIGN):
        if instance is not None:
            raise UsageError("A campaign contains its problem; drop INSTANCE.")
        from ..show.tuning import campaign_page
        from ..studies.tune import read_campaign

        text = campaign_page(read_campaign(source))
    else:
        from ..instances.files import problem_from_json
        from ..instances.stored_results import load_result
        from ..show.report import result_page

        result = load_result(source)
        if instance is None and on == Cluster() and result.asked is not None:
            instance = result.asked.instance
        if instance is None and "whole" in result.problem:  # results of `plan configure` bring their problem along
            text = result_page(problem_from_json(result.problem["whole"]), result)
        elif instance in (None, "-"):
            text = result_page(packaged_by_hash(result.problem), result)
        else:
            lowered, asked = load_lowered_for(source, str(instance), on)
            text = result_page(lowered.problem, replace(result, asked=result.asked or asked), lowered.samples)

    write_text_atomically(output, text)
    tell(json, {"report": output, "bytes": len(text.encode())}, f"report: {output}")
