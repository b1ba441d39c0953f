"""`plan run`: a plan as processes on this machine, predicted against measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.base.cluster import LINK, check_figure
from ..instances.base.errors import one_of
from ..show.console import print_json, say_note
from .arguments import Json, input_file, output_file, readable
from .exits import OK, REJECTED, graceful
from .signatures import declared, shared

if TYPE_CHECKING:
    from ..instances.networks.profile.profile import Profile
    from ..instances.registry import Plan
    from ..models.run.report import RunReport

# Choices that are written here again, so that a help page imports nothing that runs plans.
ENGINES = ("own", "torch")
DEVICES = ("cpu", "cuda")
COMPARISONS = ("even",)

_Result = Annotated[str, input_file("RESULT", "A result of `plan solve`, or a plan; - for standard input.")]
_Profile = Annotated[str, input_file("PROFILE", "The profile of `plan import torch` that was planned.")]
_Model = Annotated[
    str, typer.Option("--model", metavar="FILE:FUNCTION", help="The function that was imported: my.py:build.")
]
# How the plan is run, under the names of arguments of `run`.
OPTIONS = declared(
    f"""
    micro_batches int N: Micro-batches in one iteration; default: 8, or those of the schedule.
    schedule text FILE: The order of all passes: PyTorch's CSV, or a result that holds a schedule; default: the
        plan's own.
    steps int N =10: Iterations that are measured; two more go before them.
    check flag: Compare loss and every gradient with one process; exit code 3 if they differ.
    compare text {"|".join(COMPARISONS)}: Run the split into equally many nodes as well.
    engine text {"|".join(ENGINES)} =own: Ours, or torch's own pipelines on the same stages.
    device text {"|".join(DEVICES)} =cpu: A process on a CPU core for each rank, or a GPU.
    bandwidth rate RATE =2GB/s: Bandwidth between two processes, for the prediction.
    measure flag: Measure the profile anew, in one go with the run, and predict with that.
    time_limit_s duration --time-limit TIME =10min: Stop the whole run after this time: 10min.
    """,
    schedule={"callback": readable},
)
_Save = Annotated[
    str | None, output_file("Write the profile with the times of the run, for the next plan.", "--save-profile")
]
_Report = Annotated[str | None, output_file("Write the run as an HTML page.", "--report")]


@shared("way", OPTIONS)()
def command(
    *,
    result: _Result,
    profile: _Profile,
    model: _Model,
    way: dict[str, Any],
    save_profile: _Save = None,
    report: _Report = None,
    json: Json = False,
) -> None:
    """Run a plan of a PyTorch model on this machine, a process for each device: predicted against measured."""
    for name, choices in (("engine", ENGINES), ("device", DEVICES), ("compare", COMPARISONS)):
        if name in way:
            one_of(f"--{name}", way[name], choices)
    check_figure("--bandwidth", way["bandwidth"], LINK)
    from ..instances.lowering import load_profile
    from ..models.run.run import run

    planned = load_profile(profile)
    with graceful():
        report_of_run = run(_plan(result, planned), planned, model, **way)
    _write(report_of_run, save_profile, report)
    if json:
        print_json(report_of_run.to_json())
    else:
        from ..show.terminal import draw_run

        draw_run(report_of_run)
    raise typer.Exit(REJECTED if report_of_run.agrees is False else OK)


def _plan(path: str, profile: Profile) -> Plan:
    """Read a plan. Where it is a result for a problem of another name than the profile's, a note says so."""
    from ..instances.base.json_file import read_json
    from ..instances.stored_results import load_plan

    data = read_json(path)
    about = data.get("problem") if isinstance(data, dict) else None
    name = about.get("name") if isinstance(about, dict) else None
    if isinstance(name, str) and name != profile.name:
        say_note(f"{path} was made for {name}, and the profile is called {profile.name}.")
    return load_plan(path)


def _write(run_report: RunReport, save_profile: str | None, report: str | None) -> None:
    if save_profile is not None:
        from ..instances.base.json_file import write_json
        from ..instances.networks.profile.profile import profile_to_json

        write_json(save_profile, profile_to_json(run_report.profile))
    if report is not None:
        from ..instances.base.json_file import write_text_atomically
        from ..show.report import run_page

        write_text_atomically(report, run_page(run_report))
