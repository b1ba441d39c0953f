"""`plan show`: a plan as a drawing in the terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.base.errors import PipeplanError, UsageError
from ..instances.lookup import Cluster, holds_profile
from ..instances.networks.profile.options import ProfileOptions
from ..instances.registry import kind_of
from ..kinds import shown_kind
from ..show.console import print_json, put, say_note
from .arguments import InstanceArgument, Json, Picture, input_file, load_lowered, load_lowered_for, with_cluster
from .exits import OK, REJECTED
from .verify import Case, read_case, report, with_rules

if TYPE_CHECKING:
    from ..instances.base.kind import Samples
    from ..instances.registry import Problem
    from ..show.views import PlanView

_Plan = Annotated[
    str | None,
    input_file("PLAN", "A plan, a result, an expert split or a CSV of PyTorch; without it, show the instance."),
]
_Unrolled = Annotated[
    bool,
    typer.Option("--unrolled", help="For patterns: show the pipeline from the first batch on, by batch number."),
]


@with_cluster()
@with_rules()
def command(
    *,
    instance: InstanceArgument,
    plan: _Plan = None,
    unrolled: _Unrolled = False,
    picture: Picture = None,
    json: Json = False,
    given: dict[str, Any],
    on: Cluster,
) -> None:
    """Draw a plan: load, work, transfers and memory of each device or stage, the slowest marked; what runs when.

    Without a plan: what the instance is; of a chain also the smallest memory for which there is any plan, of a graph
    pipeline its series-parallel decomposition; of a profile, where no cluster is given, its nodes and their costs.
    """
    bare = plan is None and picture is None and not unrolled and _names_no_cluster(on)
    if bare and holds_profile(instance):
        _show_profile(instance, on, json)
        return
    lowered, _ = load_lowered(instance, on) if plan is None else load_lowered_for(plan, instance, on)
    problem, samples = lowered.problem, lowered.samples
    if unrolled and not kind_of(problem).periodic:
        raise UsageError(f"--unrolled is for patterns of chains; {instance} is a {problem.kind} problem.")
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
        print_json({**report(case, violations), **latency, **iteration})
    else:
        _draw(case, seen, [str(violation) for violation in violations], unrolled, samples)
    if picture is not None:
        _draw_picture(seen, picture)
    raise typer.Exit(REJECTED if violations else OK)


def _names_no_cluster(on: Cluster) -> bool:
    """Is no option of a cluster given? --inference and the size of a parameter are about the model alone."""
    sizes = ProfileOptions(bytes_per_parameter=on.profile.bytes_per_parameter) if on.profile else None
    return replace(on, training=None) == Cluster(profile=sizes)


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
    from ..show.views import about

    facts = about(problem)
    if json:
        print_json({"problem": describe(problem), **facts.data})
    else:
        draw_instance(problem, facts)


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


def _draw(
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


def _draw_picture(seen: PlanView | PipeplanError | None, path: str) -> None:
    from ..show.pictures import draw_view
    from ..show.views import PlanView

    if isinstance(seen, PlanView):
        draw_view(seen, path)
    else:
        say_note(f"there is no picture: {seen}")
