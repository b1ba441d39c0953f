"""`plan tune`: the runs that decide which configuration is the fastest, and a sentence once no other can be faster."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..instances.base.clock import now
from ..instances.base.errors import UsageError
from ..show.console import print_json, put, say_note, tell
from .arguments import Json, Progress, limits_for, reporter, with_limits
from .configure import PROBLEM_OPTIONS, RUNS, SCOPE_OPTIONS, asked_of_options, problem_of_options
from .exits import INTERRUPTED, NO_PLAN, OK, graceful
from .signatures import described, flag_of, shared

if TYPE_CHECKING:
    from ..instances.training.problem import TrainingProblem
    from ..planners.training.deciding import Verdict
    from ..studies.trials import Command
    from ..studies.tune import Campaign, Desk

COMMAND = "A command to run"


@shared("given", PROBLEM_OPTIONS)()
@shared("scope", SCOPE_OPTIONS)("fix forbid memory_error")
@with_limits("time_limit_s")
@described(
    f"""
    model argument MODEL|CAMPAIGN: A model, to start a campaign, or the file of a campaign, to continue it.
    [Campaign]
    output output --output -o: The file of a new campaign; default: campaign.json.
    within share --within SHARE: How much slower than the fastest one the answer may be; default: 2%.
    rho share --rho SHARE: Assumed error of each predicted time after fitting; default: the error of a fit to published
        runs, or 10% if there are none.
    common_factor float FACTOR: Error that all predicted times share before fitting, as a factor; default: 1.65.
    runs int --runs N: Maximum number of runs; default: 12.
    [{RUNS}]
    measured texts FILE: Your measured runs: a table, or a Megatron or torchtitan log; repeatable.
    [{COMMAND}]
    run_command text --command WORDS: Command that runs a configuration, and whose output is read: './train.sh
        {{flags}}'. Some frameworks take {{toml}}, {{json}} or {{words}} instead.
    run_limit_s duration --run-limit TIME: Stop a run after this time; default: 1h.
    dry_run flag: Print the command of the next run without running it.
    retry flag: Repeat failed runs.
    """
)
def command(
    *,
    model: str | None = None,
    given: dict[str, Any],
    scope: dict[str, Any],
    output: str | None = None,
    within: float | None = None,
    rho: float | None = None,
    common_factor: float | None = None,
    runs: int | None = None,
    measured: list[str] | None = None,
    run_command: str | None = None,
    run_limit_s: float | None = None,
    dry_run: bool = False,
    retry: bool = False,
    limits: dict[str, Any],
    json: Json = False,
    progress: Progress = None,
) -> None:
    """Choose which configuration to run next, until one is proven to be the fastest.

    A campaign is stored in a file. Start one by naming a model; after that, name the file, with --measured or
    --command. Exit codes: 0 the fastest configuration is proven, or a new campaign was started; 1 not yet decided; 2
    bad input; 130 interrupted.
    """
    from ..studies.trials import Command
    from ..studies.tune import Desk, alone, is_campaign, read_campaign, with_measured

    limits_for(limits)
    if common_factor is not None and not 1 <= common_factor < math.inf:
        raise UsageError(f"--common-factor is {common_factor:g}; give a factor of at least 1.")
    common = None if common_factor is None else math.log(common_factor)
    if model is None:
        raise UsageError("Name a model, as for plan configure, or the file of a campaign.")
    if is_campaign(model):
        _refuse_options({**given, **scope, **limits, "output": output})
        path, begins = model, False
    else:
        path, begins = output or "campaign.json", True
        if Path(path).exists():
            raise UsageError(f"{path} exists; continue it with plan tune {path}, or give another file with -o.")
    problem = problem_of_options(model, given) if begins else None
    with alone(path):
        campaign = read_campaign(path) if problem is None else _begun(problem, scope, rho, limits, progress)
        campaign = campaign.asking(within=within, rho=rho, common=common, most_runs=runs)
        ready = None if run_command is None else Command.read(run_command, campaign.problem.framework)
        if retry:
            left = (replace(run, state="interrupted") if run.state == "failed" else run for run in campaign.runs)
            campaign = replace(campaign, runs=tuple(left))
        campaign, notes = with_measured(campaign, measured or ())
        for note in notes:
            say_note(note)
        desk, stopped = Desk(campaign, path), None
        if dry_run and ready is not None:
            _print_command(campaign, ready, json)
            return
        desk.put(campaign)
        if ready is None:
            verdict = campaign.verdict()
        else:
            verdict, stopped = _run(desk, ready, run_limit_s, json, progress)
    _show(desk.campaign, verdict, stopped, json, all_runs=ready is None)
    raise typer.Exit(OK if verdict.certified or (begins and ready is None) else NO_PLAN)


def _refuse_options(given: Mapping[str, Any]) -> None:
    """A campaign has its own problem and scope."""
    for name in (key for key, value in given.items() if value):
        raise UsageError(f"{flag_of(name)} is for new campaigns; drop it, or start another with plan tune MODEL.")


def _begun(
    problem: TrainingProblem,
    scope: dict[str, Any],
    rho: float | None,
    limits: Mapping[str, Any],
    progress: str | None,
) -> Campaign:
    from ..instances.training.problem import refuse_two_sorts
    from ..studies.tune import campaign_of

    refuse_two_sorts(problem, "campaign of runs")
    asked = asked_of_options(problem, scope)
    with graceful(), reporter(progress) as watch:
        return campaign_of(problem, asked, rho, limits.get("time_limit_s"), watch)


def _print_command(campaign: Campaign, ready: Command, json: bool) -> None:
    number = campaign.verdict().next
    words = [] if number is None else ready.of(campaign.problem, campaign.candidates[number].plan, None)
    tell(json, {"command": words}, shlex.join(words) or "No run is left.")


def _show(campaign: Campaign, verdict: Verdict, stopped: str | None, json: bool, all_runs: bool) -> None:
    """Print what is known: all of it, or what was not told while it ran."""
    from ..show.tuning import next_in_words, run_in_words, status, summary
    from ..studies.tune import certificate

    if json:
        print_json(status(campaign, verdict, stopped))
        return
    put(*(run_in_words(campaign, run) for run in campaign.runs if all_runs), soft=True)
    put(*summary(campaign, verdict), soft=True)
    done = certificate(campaign, verdict)
    put(done, style="bold", soft=True) if done else put(*next_in_words(campaign, verdict), soft=True)
    put(f"Stopped: {stopped}." if stopped else None, soft=True)


def _run(
    desk: Desk, ready: Command, run_limit_s: float | None, json: bool, progress: str | None
) -> tuple[Verdict, str | None]:
    """Make runs until the answer is certain; each is told when it has ended."""
    from ..planners.options import Progress as Moment
    from ..show.tuning import learnt_in_words, run_in_words
    from ..studies.tune import USUAL_LIMIT_S, CommandRunner, Made, best_seconds, go_on

    if desk.campaign.command not in (None, ready.digest):
        say_note("the command differs from the earlier one; the runs of both count")
    begun, known = now(), Moment(0.0)
    try:
        with graceful(), reporter(progress) as watch:

            def heard(made: Made, line: str) -> None:
                watch(replace(known, seconds=now() - begun, source=f"run {made.id}: {line}"))

            def told(campaign: Campaign, verdict: Verdict, before: Verdict | None) -> None:
                nonlocal known
                if verdict.best is not None and verdict.regret is not None:
                    seconds = best_seconds(campaign, campaign.candidates[verdict.best].plan)
                    known = Moment(0.0, seconds, seconds / (1 + verdict.regret))
                if before is not None and not json:
                    put(run_in_words(campaign, campaign.finished[-1]), learnt_in_words(before, verdict), soft=True)

            runner = CommandRunner(ready, USUAL_LIMIT_S if run_limit_s is None else run_limit_s, heard)
            for made in runner.resume(desk):
                say_note(f"run {made.id} was started earlier: {made.said}")
            return go_on(desk, runner, told)
    except KeyboardInterrupt:
        say_note(f"interrupted; plan tune {desk.path} --command ... continues the campaign")
        raise typer.Exit(INTERRUPTED) from None
