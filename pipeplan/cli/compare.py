"""`plan compare`: instances x methods x settings x seeds, each run in a process of its own, and the tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..instances.base.clock import wall
from ..instances.base.errors import UsageError
from ..instances.base.quantities import several, whole_numbers
from ..instances.lookup import Cluster
from ..show.console import clean, print_json, put, say_note
from ..show.words import amount_or
from .arguments import CLUSTER, CLUSTER_OPTIONS, RARE, Json, limits_for, refuse_few, with_limits
from .exits import INTERRUPTED, NO_PLAN, OK, REJECTED, graceful
from .signatures import described, shared, size_or_none, with_narrow_options, with_usual_help

if TYPE_CHECKING:
    from ..studies.compare.comparison import Comparison, Progress
    from ..studies.compare.suite import Setting, Suite

# Options of the cluster that have one value in a whole comparison.
COMMON = [option for option in CLUSTER_OPTIONS if option.name not in ("devices", "memory_bytes")]


@with_usual_help(*RARE)
@with_narrow_options
@shared("common", COMMON)()
@with_limits("rel_gap", "time_limit_s", "memory_limit_bytes", "threads")
@described(
    f"""
    instances arguments [INSTANCE]...: Files, or names of packaged instances.
    [What to compare]
    suite text NAME|FILE: Run a packaged suite, or one in a TOML file.
    method texts --method -m [LABEL=]NAME[@SOLVER][:OPTION=VALUE,...]: A formulation or planner to compare, or your own
        as FILE.py:NAME; repeatable, also together with --suite.
    against text LABEL: Test the other methods only against this one.
    rerun texts METHOD: With --resume, rerun this method; repeatable.
    quick flag: Run only a part of the suite, which takes a few minutes.
    suites flag: List the packaged suites.
    workloads folder DIR: Folder with the published inputs of the suites; without it packaged networks are used instead.
    seeds text 0,1,2: Random seeds, each of which gets a run of its own; default: 0.
    [{CLUSTER}]
    devices ints: Number of accelerators; repeatable.
    memory texts SIZE: Memory of each accelerator, e.g. 8GiB; none: no limit; repeatable.
    [Where and how]
    output folder --output -o DIR: Folder for the results of the comparison.
    resume flag: Continue the comparison in the folder.
    retry_failed flag: With --resume, rerun what crashed or was killed.
    processor_time duration TIME: Stop a run when its processes have used this much processor time.
    jobs int: Number of runs in parallel; default: half the cores.
    cite flag: Print BibTeX entries for this program and every compared method, without running anything.
    """,
    workloads={"envvar": "PIPEPLAN_WORKLOADS"},
    jobs={"min": 1},
)
def command(
    *,
    instances: list[str] | None = None,
    suite: str | None = None,
    method: list[str] | None = None,
    against: str | None = None,
    rerun: list[str] | None = None,
    quick: bool = False,
    suites: bool = False,
    workloads: Path | None = None,
    seeds: str | None = None,
    devices: list[int] | None = None,
    memory: list[str] | None = None,
    common: dict[str, Any],
    limits: dict[str, Any],
    output: Path = Path("comparison"),
    resume: bool = False,
    retry_failed: bool = False,
    processor_time: float | None = None,
    jobs: int | None = None,
    cite: bool = False,
    json: Json = False,
) -> None:
    """Plan the same instances with several methods, and compare values, proofs and run times.

    Every run has its own process. Finished runs are saved at once, so --resume can continue after an interrupt (exit
    code 130).
    """
    if suites:
        from ..studies.compare.suite import packaged_suites

        titles = packaged_suites()
        if json:
            print_json({"suites": [{"name": name, "title": title} for name, title in titles.items()]})
        else:
            put(*(f"{name:24} {title}" for name, title in titles.items()))
        return
    limits_for(limits)  # checks them
    limits |= {} if processor_time is None else {"processor_s": processor_time}
    if suite is not None:
        if any((instances, seeds, devices, memory, common)):
            raise UsageError(
                "A suite defines what to compare; drop INSTANCE, --seeds and the cluster options, or drop --suite."
            )
        chosen = _known_suite(suite, quick, method or (), limits)
    else:
        if quick:
            raise UsageError("--quick runs part of a suite; name the suite with --suite, or drop --quick.")
        chosen = _own_suite(instances, method, seeds, _settings(devices, memory, common), limits)
        for instance, setting in product(chosen.instances, chosen.settings):
            given = {name: setting.cluster.get(name) for name in ("memory_bytes", "bandwidth", "levels")}
            refuse_few(str(instance.source), Cluster(**given))
    chosen = replace(chosen, against=against or chosen.against)
    if cite:
        _cite(chosen, workloads)
        return
    from ..show.comparison import write_tables
    from ..show.pictures import draw_profile
    from ..studies.compare.comparison import compare_suite

    named = any(instance.published is not None for instance in chosen.instances)
    if named and workloads is not None and not workloads.is_dir():
        raise UsageError(f"--workloads (or PIPEPLAN_WORKLOADS) is {str(workloads)!r}, which is not a folder.")
    going_on: dict[str, Any] = {"resume": resume, "retry_failed": retry_failed, "rerun": rerun or ()}
    with graceful():
        comparison = compare_suite(chosen, output, workloads=workloads, jobs=jobs, watch=_line_each(), **going_on)
    if comparison.interrupted:  # said first: tables and pictures take some seconds
        left = several(comparison.missing, "run")
        say_note(
            f"interrupted, with {left} left; tables are written, and the same command with --resume continues."
        )
    paths = write_tables(comparison, output) | draw_profile(comparison, output)
    if json:
        print_json(_facts(comparison, {name: str(path) for name, path in paths.items()}))
    else:
        from ..show.comparison import draw_comparison

        draw_comparison(comparison)
        put(*(f"{name}: {path}" for name, path in paths.items()), soft=True)
    if comparison.interrupted:
        raise typer.Exit(INTERRUPTED)
    results = [record.result for record in comparison.records.values()]
    raise typer.Exit(OK if any(result and result["verified"] for result in results) else NO_PLAN)


@described(
    """
    files arguments FILE...: The runs.jsonl files of comparisons with the suite leaderboard, your own or others.
    workloads folder DIR: Folder with the published inputs.
    output folder --output -o DIR: Folder for the tables.
    """,
    workloads={"envvar": "PIPEPLAN_WORKLOADS"},
)
def leaderboard(
    *, files: list[str], workloads: Path | None = None, output: Path | None = None, json: Json = False
) -> None:
    """Verify plans from anyone's methods, and rank them against the best known values.

    To take part, run plan compare --suite leaderboard -m Ours=mine.py:greedy -o ours, which writes ours/runs.jsonl.
    """
    from ..show.comparison import draw_leaderboard, write_tables
    from ..studies.compare.leaderboard import leaderboard as verified

    board, paths = verified([Path(file) for file in files], workloads), dict[str, str]()
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        paths = {name: str(path) for name, path in write_tables(board, output).items()}
    for remark in board.expanded.remarks():
        say_note(remark)
    if json:
        print_json({**_facts(board, paths), "claims": {key: list(own) for key, own in board.differences.items()}})
    else:
        draw_leaderboard(board)
    raise typer.Exit(REJECTED if board.differences else OK)


def _cite(suite: Suite, workloads: Path | None) -> None:
    """Print BibTeX of what a paper has to name; solvers are known only after the runs, which write references.bib."""
    from ..formulations.papers import bibliography
    from ..show.comparison import cited
    from ..studies.compare.comparison import Comparison
    from ..studies.compare.suite import expand

    sys.stdout.write(bibliography(cited(Comparison(expand(suite, workloads, to_run=False), {}, 0))))


def _own_suite(
    instances: list[str] | None,
    methods: list[str] | None,
    seeds: str | None,
    settings: tuple[Setting, ...],
    limits: dict[str, Any],
) -> Suite:
    from ..studies.compare.comparison import own_suite

    if not instances or not methods:
        raise UsageError(
            "Name instances and at least one --method, or a --suite (--suites lists the packaged ones)."
        )
    numbers = whole_numbers(seeds or "0")
    if numbers is None:
        raise UsageError(f"--seeds is {seeds!r}; give whole numbers joined by commas: 0,1,2.")
    facts = {"settings": settings, "seeds": tuple(dict.fromkeys(numbers)), "limits": limits}
    return own_suite(instances, methods, Path(), **facts)


def _known_suite(name: str, quick: bool, own: Sequence[str], limits: dict[str, Any]) -> Suite:
    """The suite of this name or file, with methods of the user's own; limits of the command line hold for every method
    of it."""
    from ..studies.compare.suite import competitor, load_suite

    suite = load_suite(name, quick)
    methods = (*suite.methods, *map(competitor, own))
    return replace(suite, methods=tuple(replace(one, limits={**one.limits, **limits}) for one in methods))


def _settings(devices: list[int] | None, memory: list[str] | None, common: dict[str, Any]) -> tuple[Setting, ...]:
    """The settings: every number of devices with every memory."""
    from ..studies.compare.suite import Setting

    counts = {several(count, "device"): {"devices": count} for count in devices or ()}
    sizes = {text: {"memory_bytes": size_or_none(text)} for text in memory or ()}
    settings = []
    for count, size in product(counts or [""], sizes or [""]):
        words = filter(None, (count, "no memory limit" if size == "none" else size))
        settings.append(Setting(", ".join(words), {**common, **counts.get(count, {}), **sizes.get(size, {})}))
    return tuple(settings)


def _facts(comparison: Comparison, paths: dict[str, str]) -> dict[str, object]:
    from ..studies.compare.table import gaps, paired, plain_rows, summary

    frame, against = comparison.table(), comparison.expanded.against
    tables: dict[str, Any] = {"methods": summary, "gaps": gaps, "pairs": lambda runs: paired(runs, against)}
    return {
        "schema": "pipeplan.comparison/1",
        "suite": comparison.expanded.name,
        "runs": len(comparison.expanded.runs),
        "finished": len(comparison.records),
        "reused": comparison.reused,
        "interrupted": comparison.interrupted,
        "left_out": list(comparison.expanded.left_out),
        "stand_ins": list(comparison.expanded.stand_ins),
        "files": paths,
        "rows": plain_rows(frame),
        **{name: [] if frame.empty else plain_rows(table(frame)) for name, table in tables.items()},
    }


def _line_each() -> Callable[[Progress], None]:
    """Writes a line to stderr for each run that ends: how many of all have, the result, its time, and the time left."""
    from ..studies.compare.table import ending

    started, reused = wall(), 0

    def tell(progress: Progress) -> None:
        nonlocal reused
        for remark in progress.remarks:
            say_note(remark)
        record = progress.record
        if record is None:
            reused = progress.finished
            words = f"{several(progress.total, 'run')}, {reused} of them done before"
        else:
            result, left = record.result or {}, progress.total - progress.finished
            pace = (wall() - started) / (progress.finished - reused)
            parts = [
                record.run.title,
                ending(record),
                amount_or(result.get("objective"), result.get("problem", {}).get("time_unit"), ""),
                "" if record.wall_s is None else f"{record.wall_s:.1f} s",
                f"about {pace * left:.0f} s left" if left else "",
            ]
            words = f"[{progress.finished}/{progress.total}] {'  '.join(filter(None, parts))}"
        sys.stderr.write(clean(words) + "\n")
        sys.stderr.flush()

    return tell
