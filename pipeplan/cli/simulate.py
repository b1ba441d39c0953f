"""`plan simulate`: one iteration of a plan of any kind, pass by pass."""

from __future__ import annotations

from typing import Annotated

import typer

from ..instances.errors import UsageError
from ..instances.simulation.orders import SCHEDULES
from .arguments import (
    Cluster,
    InstanceArgument,
    Json,
    load_instance,
    with_cluster,
)
from .console import print_json, say_error
from .exits import OK, REJECTED
from .referee_options import PlanArgument, one_of

MicroBatches = Annotated[
    int | None,
    typer.Option(
        "--micro-batches",
        metavar="N",
        help="How many run in one iteration: for splits and chains, and for stages other than the problem's number.",
        show_default=False,
    ),
]
Schedule = Annotated[
    str,
    typer.Option(
        "--schedule",
        metavar="|".join(SCHEDULES),
        help="planned: as a stage graph says, 1F1B for other plans; gpipe: all forward, then all backward.",
    ),
]


@with_cluster
def command(
    on: Cluster,
    instance: InstanceArgument,
    plan: PlanArgument,
    micro_batches: MicroBatches = None,
    schedule: Schedule = "planned",
    json: Json = False,
) -> None:
    """Simulate one iteration of a plan of any kind: time, idle devices, memory, and what runs when."""
    from ..instances.io import load_plan
    from ..instances.simulation import DeadlockError
    from ..instances.simulation.simulate import simulate

    one_of("--schedule", schedule, SCHEDULES)
    problem = load_instance(instance, on)
    if micro_batches is None and problem.kind in ("placement", "chain"):
        raise UsageError(f"A {problem.kind} problem does not say how many micro-batches to run; give --micro-batches.")
    try:
        simulation = simulate(problem, load_plan(plan, problem), micro_batches=micro_batches, schedule=schedule)
    except DeadlockError as error:
        say_error(error)
        raise typer.Exit(REJECTED) from None
    if json:
        print_json(simulation.to_json())
    else:
        from .drawing_timeline import draw_simulation

        draw_simulation(simulation)
    raise typer.Exit(OK)
