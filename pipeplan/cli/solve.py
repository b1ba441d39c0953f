"""`plan solve`: plan an instance, with every plan recomputed by the referee before it is shown."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from ..formulations.contract import OptionSpec
from ..formulations.registry import FORMULATIONS, find_formulation
from ..instances.base.errors import UsageError
from ..instances.base.kind import Lowered
from ..instances.base.result import Result
from ..instances.lookup import Cluster
from ..instances.registry import Problem
from ..planners.contract import OwnEntry
from ..planners.registry import EXACT, PLANNERS, USUAL_OPTIONS, all_methods, example_of, find_planner, option_owners
from ..show.console import print_json, say_note, say_written
from .arguments import (
    BESIDE_METHODS,
    Json,
    Picture,
    Progress,
    Verbose,
    key_and_value,
    limits_for,
    load_lowered,
    reporter,
    with_cluster,
    with_limits,
    with_micro_batch,
)
from .exits import exit_code, graceful
from .signatures import NARROW, described, option, readable, watch, with_options

if TYPE_CHECKING:
    from ..instances.networks.profile.profile import Profile


# ---- options that formulations and planners declare: a new method needs no line here --------------------------


_TYPES: dict[str, type] = {
    "flag": bool, "choice": str, "int": int, "float": float, "text": str, "path": str, "allocation": str,
}  # fmt: skip
_METAVARS = {"path": "FILE", "allocation": "LIST|FILE"}


# Plug-ins are imported once they are named, which is too late for options by name.
_OF_PLUGINS = option("option", list[str], metavar="KEY=VALUE", help="Set an option of a plug-in; repeatable.")


def with_method_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every option that a method declares; those that were given arrive as `own`."""
    return with_options(command, "own", [*map(_parameter, _declared().values()), _OF_PLUGINS], _own)


def _own(given: dict[str, Any]) -> dict[str, Any]:
    named = dict(key_and_value("--option", text) for text in given.pop("option", ()))
    return {**given, **{key.replace("-", "_"): value for key, value in named.items()}}


def _declared() -> dict[str, OptionSpec]:
    """Every declared option once, with the choices of all its owners."""
    specs: dict[str, OptionSpec] = {}
    for entry in all_methods():
        for spec in entry.options:
            first = specs.get(spec.name, spec)
            choices = tuple(dict.fromkeys(first.choices + spec.choices))
            specs[spec.name] = replace(first, choices=choices)
    return specs


def _parameter(spec: OptionSpec) -> inspect.Parameter:
    """What an option does depends on the method, whose own list of options explains it."""
    return option(
        spec.name,
        _TYPES[spec.type],
        help="An option of " + ", ".join(option_owners()[spec.name]) + ".",
        metavar="[" + "|".join(spec.choices) + "]" if spec.choices else _METAVARS.get(spec.type),
        callback=_watched if spec.type == "path" else None,
        hidden=spec.name in USUAL_OPTIONS,
        rich_help_panel=None if spec.name in USUAL_OPTIONS else NARROW,
    )


def _watched(context: typer.Context, path: str | None) -> str | None:
    """Say at the end if the file was written, as some of these files are."""
    if path is not None:
        watch(context, path)
    return path


# ---- the command ----------------------------------------------------------------------------------------------


METHOD, OUTPUT = "Method", "Output"


@with_cluster(*BESIDE_METHODS)
@with_method_options
@with_limits()
@described(
    f"""
    instance input INSTANCE: File, packaged name or - (stdin); default: example.
    output output --output -o: Write the result as JSON.
    [{METHOD}]
    formulation text NAME: Model to solve; see `plan formulations`.
    planner text NAME: How to find the plan; see `plan planners`.
    solver text NAME: One that `plan solvers` lists.
    warm_start text auto|dp|none|FILE: Plan to start from; dp: the best chain of stages; FILE: a plan or result.
    cross_check flag: Prove the result with two exact methods.
    [{OUTPUT}]
    log output: Write the solver's own log to FILE.
    export_model output: Before solving, write the model to FILE (.mps or .lp) and explain its names in FILE.md.
    """,
    formulation={"autocompletion": lambda: [*FORMULATIONS]},
    planner={"autocompletion": lambda: [*PLANNERS]},
    warm_start={"callback": readable},
)
def command(
    *,
    instance: str | None = None,
    formulation: str | None = None,
    planner: str | None = None,
    solver: str = "auto",
    warm_start: str = "auto",
    cross_check: bool = False,
    limits: dict[str, Any],
    json: Json = False,
    verbose: Verbose = False,
    output: str | None = None,
    picture: Picture = None,
    log: str | None = None,
    progress: Progress = None,
    export_model: str | None = None,
    own: dict[str, Any],
    on: Cluster,
) -> None:
    """Plan an instance: prove the best plan, or find the best within the limits.

    --help-all lists all options; `plan planners NAME` explains those of a method.
    """
    if export_model is not None:
        from ..studies import export

        export.check_export(export_model)
    on, own = with_micro_batch(instance, on, own)
    lowered, asked = load_lowered(instance or _example(formulation, planner), on)
    problem = lowered.problem
    options = limits_for(limits, log_path=log)
    method: dict[str, Any] = {"formulation": formulation, "planner": planner, "solver": solver, "options": own}
    if export_model is not None:
        export.export_model(problem, export_model, **method)
        say_written(f"{export_model}.md")
    start: Any = warm_start
    if warm_start not in ("auto", "dp", "none"):
        from ..instances.stored_results import load_plan

        start = load_plan(warm_start, problem)
    from ..planners.run.solve import solve

    entry = None if planner is None else find_planner(planner)
    with graceful(), reporter(progress) as watch:
        if isinstance(entry, OwnEntry) and formulation is None and start == "auto" and not cross_check:
            from ..studies.compare.run import solve_apart

            result = solve_apart(problem, entry.name, method["options"], options)
        else:
            result = solve(
                problem, **method, limits=options, warm_start=start, on_progress=watch, cross_check=cross_check
            )
    result = replace(result, asked=asked)
    if output is not None:  # before anything is printed, which may meet a closed pipe
        from ..instances.files import save

        save(result, output)
    show_result(
        problem,
        result,
        result.to_json(),
        json=json,
        verbose=verbose,
        picture=picture,
        named=instance is None,
        lowered=lowered,
    )
    raise typer.Exit(exit_code(result))


def show_result(
    problem: Problem,
    result: Result,
    facts: Mapping[str, Any],
    *,
    json: bool,
    verbose: bool,
    picture: str | None,
    named: bool = False,
    lowered: Lowered | None = None,
) -> None:
    """Show the result in the terminal, or its facts as JSON, and as a picture where that was asked for.

    `named` tells the terminal to name the instance; `lowered` has the profile that the problem was made of.
    """
    from ..show.views import view_of_result

    view = None if json and picture is None else view_of_result(problem, result)
    for message in result.messages:
        say_note(message)
    samples = None if lowered is None else lowered.samples
    if result.plan is not None and result.verified and not json:
        for note in _about_use(problem, result, None if lowered is None else lowered.profile):
            say_note(note)
    if json:
        from ..show.answer import iteration_json

        plan = result.plan if result.verified else None
        print_json({**facts, **iteration_json(problem, plan, samples)})
    else:
        from ..show.terminal import draw_result

        draw_result(problem, result, view, verbose, named, samples)
    if picture is not None and view is not None:
        from ..show.pictures import draw_view

        draw_view(view, picture)


def _about_use(problem: Problem, result: Result, profile: Profile | None) -> Iterator[str]:
    """Notes on devices that the plan leaves over, and on a framework that cannot run it."""
    from ..show.answer import unused_devices

    assert result.plan is not None  # the caller has looked
    unused = unused_devices(problem, result.plan)
    if unused is not None:
        yield unused
    if profile is not None:
        from ..models.export.contract import expected_refusal

        refusal = expected_refusal(result, profile)
        if refusal is not None:
            yield refusal


def _example(formulation: str | None, planner: str | None) -> str:
    """A packaged instance that the method can plan."""
    named = find_formulation(formulation) if formulation else find_planner(planner) if planner else None
    entry = named or PLANNERS[EXACT]
    example = example_of(entry)
    if example is None:
        raise UsageError(f"There is no packaged instance for {entry.name!r}; name an INSTANCE.")
    return example
