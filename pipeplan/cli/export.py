"""`plan export`, `plan convert` and `plan run`: a plan in the words of the framework that runs it, an instance in
another form, and a plan as processes on this machine, predicted against measured.

What a framework is told is written in `models/export`, and a plan is run in `models/run`: a new target needs no line
here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..instances.base.cluster import LINK, check_figure
from ..instances.base.errors import InputError, UsageError
from ..instances.base.json_file import read_json, write_json, write_text_atomically
from ..instances.base.result import Result
from ..instances.lookup import Cluster
from ..instances.registry import kind_of, kind_of_plan
from ..kinds import SHOWN
from ..models.export.contract import LAUNCHERS, TARGETS
from ..show.console import print_json, say_note, say_written, tell
from .arguments import InstanceArgument, Json, load_for, load_instance, with_cluster
from .exits import OK, REJECTED, graceful
from .signatures import declared, described, shared, writable_or_stdout

if TYPE_CHECKING:
    from ..instances.base.result import Result
    from ..instances.networks.profile.profile import Profile
    from ..instances.registry import Plan, Problem
    from ..models.export.contract import Exported


@described(
    f"""
    result input RESULT: A result of `plan solve` or `plan configure`, or a plan; - for standard input.
    profile input PROFILE: The file that was planned: a profile, a layer table, or a problem file written with
        --problem-output. Not needed if the result contains its problem, or if nodes are named after their modules.
    to text TARGET: The framework: {", ".join(f"{name} ({target.about})" for name, target in TARGETS.items())}.
    output text --output -o PATH: The file to write, or a folder if there are several files.
    rename texts FILE|OLD=NEW: For torch, torchtitan and accelerate: what the framework's own model calls a module;
        repeatable.
    micro_batches int N: For torch and torchtitan: also write schedule.csv, the order of all passes for N micro-batches.
    row int N: Export row N of the shortlist in a `plan configure` result; default: the best configuration.
    with_model_flags flag: For training configurations: also write the flags for the shape of the model.
    launcher choice NAME: For training configurations: write a torchrun or slurm script, or Megatron's own YAML file
        (mcore).
    inference flag: The plan is for inference; a layer table then needs no backward passes.
    bytes_per_parameter float: For tables with a column parameters_count: bytes per parameter.
    """,
    launcher={"choices": LAUNCHERS},
)
def export(
    result: str,
    profile: str | None = None,
    *,
    to: str | None = None,
    output: str | None = None,
    rename: list[str] | None = None,
    micro_batches: int | None = None,
    row: int | None = None,
    with_model_flags: bool = False,
    launcher: str | None = None,
    inference: bool = False,
    bytes_per_parameter: float | None = None,
    json: Json = False,
) -> None:
    """Write a plan as a configuration for torch, Megatron, DeepSpeed, vLLM or another framework.

    Warnings on stderr list settings that the framework lacks. A plan that it cannot express is rejected with a reason.
    """
    if to is None:
        raise UsageError(f"Name the framework: --to is one of {', '.join(TARGETS)}.")
    from ..models.export.contract import export_files
    from ..models.export.names import read_rules

    planned = _read_plan(result)
    problem = _read_problem(planned, profile, result) or _read_profile(profile, inference, bytes_per_parameter)
    notes = []
    if row is not None:
        if not isinstance(planned, Result):
            raise UsageError("--row is for results of `plan configure`, but this file holds only a plan; drop it.")
        from ..studies.configure.result import row_of

        problem, planned, note = row_of(planned, row)
        notes.append(note)
    exported = export_files(
        planned,
        problem,
        to=to,
        rename=read_rules(rename or []),
        micro_batches=micro_batches,
        model_flags=with_model_flags,
        launcher=launcher,
    )
    exported = replace(exported, notes=(*notes, *exported.notes))
    if output is not None:
        _write(exported, output)
    if json:
        print_json({"to": to, "files": dict(exported.files), "notes": list(exported.notes), "output": output})
        return
    for note in exported.notes:
        say_note(note)
    if output is None:
        typer.echo(exported.text, nl=False)
        for name in list(exported.files)[1:]:
            say_note(f"-o FOLDER also writes {name}")


def _read_plan(path: str) -> Plan | Result:
    """A result with what the referee said of it, or a mere plan."""
    from ..instances.stored_results import plan_from_json, result_from_json

    data = read_json(path)
    try:
        return result_from_json(data) if isinstance(data, dict) and "schema" in data else plan_from_json(data)
    except InputError as error:
        raise error.in_file(path) from None


def _read_problem(planned: Plan | Result, path: str | None, result: str) -> Problem | None:
    """The problem of a plan that is exported with its problem; None for any other plan."""

    plan = planned.plan if isinstance(planned, Result) else planned
    if path is None or plan is None or not SHOWN[kind_of_plan(plan).name].exports:
        return None
    try:
        return load_for(result, path, Cluster())
    except InputError as error:
        if error.field != "cluster":
            raise
        raise UsageError(
            f"A plan of the kind {plan.kind} is exported with its problem, but {path} is a model without a cluster; "
            "drop it if the result contains its problem, or name the problem."
        ) from None


def _read_profile(path: str | None, inference: bool, size: float | None) -> Profile | None:
    if path is None:
        if inference or size is not None:
            raise UsageError(
                "--inference and --bytes-per-parameter are for reading PROFILE; name it, or drop them."
            )
        return None
    from ..instances.lowering import load_profile

    return load_profile(path, training=not inference, bytes_per_parameter=size)


def _write(exported: Exported, path: str) -> None:
    """Write the one file under that name, or all of them into that folder; a name without an ending is a new one."""
    several = len(exported.files) > 1
    folder = Path(path).is_dir() or path.endswith(os.sep)
    folder = folder or (several and not Path(path).suffix and not Path(path).exists())
    if not folder and several:
        raise UsageError(f"-o {path} is one file and there are {', '.join(exported.files)}; name a folder.")
    if not folder:
        write_text_atomically(path, exported.text)
        say_written(path)
        return
    Path(path).mkdir(exist_ok=True)
    for name, text in exported.files.items():
        write_text_atomically(Path(path) / name, text)
        say_written(str(Path(path) / name))


# ---- `plan convert` -------------------------------------------------------------------------------------------


@with_cluster()
@described(
    """
    target text --output -o FILE: The file to write, - for stdout.
    """,
    target={"callback": writable_or_stdout},
)
def convert(*, instance: InstanceArgument, target: str, json: Json = False, on: Cluster) -> None:
    """Convert an instance from any supported format to pipeplan's JSON."""
    from ..instances.files import problem_to_text, save

    if json and target == "-":
        raise UsageError("--json and --output - both print to standard output; drop --json, or name a file.")
    problem = load_instance(instance, on)
    if target == "-":
        sys.stdout.write(problem_to_text(problem))
        return
    save(problem, target)
    facts = {"file": target, "problem": {"name": problem.name, "hash": problem.hash}}
    tell(json, facts, f"{target}: a {problem.kind} problem of {kind_of(problem).size(problem)}")


# How the plan is run, under the names of arguments of `run`.
RUN_OPTIONS = declared(
    """
    micro_batches int N =8: Micro-batches in one iteration.
    steps int N =10: Measured iterations, after two that are not measured.
    check flag: Compare the loss and every gradient with a run in one process; exit code 3 if they differ.
    compare choice even: Also run the split into equal numbers of nodes.
    bandwidth rate RATE =2GB/s: Bandwidth between two processes, which the prediction uses.
    measure flag: Measure the profile again together with the run, and use it for the prediction.
    time_limit_s duration --time-limit TIME =10min: Stop the whole run after this much time.
    """
)


@shared("way", RUN_OPTIONS)()
@described(
    """
    result input RESULT: A result of `plan solve`, or a plan; - for standard input.
    profile input PROFILE: The profile that was planned, from `plan import torch`.
    model text FILE:FUNCTION: The function that the profile was imported from, e.g. my.py:build.
    save_profile output: Write the profile with the measured times to FILE, for the next plan.
    """
)
def run_plan(
    *,
    result: str,
    profile: str,
    model: str,
    way: dict[str, Any],
    save_profile: str | None = None,
    json: Json = False,
) -> None:
    """Run a plan of a PyTorch model on this machine, one process per device, and compare it with the prediction."""
    check_figure("--bandwidth", way["bandwidth"], LINK)
    from ..instances.lowering import load_profile
    from ..models.run.run import run

    planned = load_profile(profile)
    with graceful():
        report_of_run = run(_plan_for(result, planned), planned, model, **way)
    if save_profile is not None:
        from ..instances.networks.profile.profile import profile_to_json

        write_json(save_profile, profile_to_json(report_of_run.profile))
    if json:
        print_json(report_of_run.to_json())
    else:
        from ..show.terminal import draw_run

        draw_run(report_of_run)
    raise typer.Exit(REJECTED if report_of_run.agrees is False else OK)


def _plan_for(path: str, profile: Profile) -> Plan:
    """Read a plan. Where it is a result for a problem of another name than the profile's, a note says so."""
    from ..instances.stored_results import load_plan

    data = read_json(path)
    about = data.get("problem") if isinstance(data, dict) else None
    name = about.get("name") if isinstance(about, dict) else None
    if isinstance(name, str) and name != profile.name:
        say_note(f"{path} was made for {name}, but the profile is called {profile.name}.")
    return load_plan(path)
