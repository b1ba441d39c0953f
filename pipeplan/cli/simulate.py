"""`plan simulate`: one iteration of a plan with stages, pass by pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..instances.base.errors import UsageError, one_of
from ..instances.lookup import Cluster
from ..instances.registry import Problem, kind_of
from ..instances.timeline import SCHEDULES
from ..show.console import print_json, say_error, say_note
from ..show.words import IN_BYTES, several
from .arguments import InstanceArgument, Json, drawable, load_for, output_file, with_cluster
from .exits import OK, REJECTED
from .verify import Case, PlanArgument, read_case

if TYPE_CHECKING:
    from ..instances.timeline.model import Simulation

MicroBatches = Annotated[
    int | None,
    typer.Option(
        "--micro-batches",
        metavar="N",
        help="Micro-batches in one iteration; required for splits and chains; default for stages: the problem's.",
    ),
]
Schedule = Annotated[
    str,
    typer.Option(
        "--schedule",
        metavar="|".join(SCHEDULES),
        help="Order of the passes. planned: that of the stage graph, or 1F1B for other plans; gpipe: all forward "
        "passes, then all backward.",
    ),
]
_Picture = Annotated[
    str | None, output_file("Draw the iteration: .svg, .png or .pdf.", "--picture", check=drawable)
]


@with_cluster()
def command(
    *,
    instance: InstanceArgument,
    plan: PlanArgument,
    micro_batches: MicroBatches = None,
    schedule: Schedule = "planned",
    picture: _Picture = None,
    json: Json = False,
    on: Cluster,
) -> None:
    """Simulate one iteration of a plan with stages: time, idle devices, memory, and what runs when."""
    from ..instances.simulate import simulate
    from ..instances.timeline.engine import DeadlockError

    one_of("--schedule", schedule, SCHEDULES)
    problem = load_for(plan, instance, on)
    if micro_batches is None and kind_of(problem).batch is None:
        raise UsageError(
            f"A {problem.kind} problem does not say how many micro-batches to run; give --micro-batches."
        )
    case = read_case(problem, plan, {})
    try:
        simulation = simulate(problem, case.plan, micro_batches=micro_batches, schedule=schedule)
    except DeadlockError as error:
        say_error(error)
        raise typer.Exit(REJECTED) from None
    _say_what_is_broken(case, simulation)
    _show(problem, simulation, json, picture)
    raise typer.Exit(OK)


def _show(problem: Problem, simulation: Simulation, json: bool, picture: str | None) -> None:
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
                f"with this schedule a device of {stage.name} holds {unit.text(stage.memory_bytes)}, "
                f"more than its memory of {unit.text(stage.limit_bytes)}"
            )
            return
