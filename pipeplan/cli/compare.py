"""`plan compare`: instances x methods x settings x seeds, each run in a process of its own, and the tables."""

from __future__ import annotations

import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.base.clock import wall
from ..instances.base.errors import UsageError
from ..instances.base.quantities import several, whole_numbers
from ..instances.lookup import Cluster
from ..show.console import clean, print_json, put, say_note
from ..show.words import amount_or
from .arguments import CLUSTER, CLUSTER_OPTIONS, RARE, Json, limits_for, refuse_few, with_limits
from .exits import INTERRUPTED, NO_PLAN, OK, graceful
from .signatures import shared, size_or_none, with_narrow_options, with_usual_help

if TYPE_CHECKING:
    from ..studies.compare.comparison import Comparison, Progress
    from ..studies.compare.suite import Setting, Suite

_what = partial(typer.Option, rich_help_panel="What is compared")
_where = partial(typer.Option, rich_help_panel="Where and how")
_cluster = partial(typer.Option, rich_help_panel=CLUSTER)

_Instances = Annotated[
    list[str] | None, typer.Argument(metavar="[INSTANCE]...", help="Files, or names of packaged instances.")
]
_Suite = Annotated[
    str | None, _what("--suite", metavar="NAME|FILE", help="Run a packaged suite, or one in a TOML file.")
]
_Methods = Annotated[
    list[str] | None,
    _what(
        "--method",
        "-m",
        metavar="NAME[@SOLVER][:OPTION=VALUE,...]",
        help="A formulation or planner to compare, or MODULE:NAME of your own; repeatable.",
    ),
]
_Quick = Annotated[bool, _what("--quick", help="Run the part of the suite that takes a few minutes.")]
_Suites = Annotated[bool, _what("--suites", help="List the packaged suites.")]
_Workloads = Annotated[
    Path | None,
    _what(
        "--workloads",
        metavar="DIR",
        envvar="PIPEPLAN_WORKLOADS",
        help="Folder of the published inputs that suites name; without it packaged networks stand in.",
    ),
]
_Seeds = Annotated[str | None, _what("--seeds", metavar="0,1,2", help="Seeds, with one run for each; default: 0.")]
_Devices = Annotated[list[int] | None, _cluster("--devices", help="Number of accelerators; repeatable.")]
_Memory = Annotated[
    list[str] | None,
    _cluster("--memory", metavar="SIZE", help="Memory of an accelerator, 8GiB or none; repeatable."),
]
_Folder = Annotated[Path, _where("--output", "-o", metavar="DIR", help="Folder to write the comparison into.")]
_Resume = Annotated[bool, _where("--resume", help="Continue the comparison in the folder.")]
_Retry = Annotated[bool, _where("--retry-failed", help="With --resume, repeat runs that crashed or were killed.")]
_Jobs = Annotated[int | None, _where("--jobs", min=1, help="Number of runs at a time; default: half the cores.")]
_Address = Annotated[str | None, _where("--cluster", metavar="tcp://HOST:PORT", help="Run on this dask cluster.")]
_Cite = Annotated[
    bool, _where("--cite", help="Print BibTeX of this program and of every method compared, and run nothing.")
]
_Parquet = Annotated[bool, _where("--parquet", help="Write runs.parquet as well.")]


# Options of the cluster that have one value in a whole comparison.
COMMON = [option for option in CLUSTER_OPTIONS if option.name not in ("devices", "memory_bytes")]


@with_usual_help(*RARE)
@with_narrow_options
@shared("common", COMMON)()
@with_limits("rel_gap", "time_limit_s", "memory_limit_bytes", "threads")
def command(
    *,
    instances: _Instances = None,
    suite: _Suite = None,
    method: _Methods = None,
    quick: _Quick = False,
    suites: _Suites = False,
    workloads: _Workloads = None,
    seeds: _Seeds = None,
    devices: _Devices = None,
    memory: _Memory = None,
    common: dict[str, Any],
    limits: dict[str, Any],
    output: _Folder = Path("comparison"),
    resume: _Resume = False,
    retry_failed: _Retry = False,
    jobs: _Jobs = None,
    cluster: _Address = None,
    parquet: _Parquet = False,
    cite: _Cite = False,
    json: Json = False,
) -> None:
    """Plan the same instances by several methods, and tabulate what each finds, proves and costs.

    Every run is a process of its own. Finished runs are saved at once, so --resume can continue after an interrupt.
    """
    if suites:
        _list_suites(json)
        return
    limits_for(None, limits)  # checks them
    if suite is not None:
        if any((instances, method, seeds, devices, memory, common)):
            raise UsageError(
                "A suite itself says what is compared; drop INSTANCE, --method, --seeds and the cluster, or drop "
                "--suite."
            )
        chosen = _known_suite(suite, quick, limits)
    else:
        if quick:
            raise UsageError("--quick runs a part of a suite; name the suite with --suite, or drop --quick.")
        chosen = _own_suite(instances, method, seeds, _settings(devices, memory, common), limits)
        for instance, setting in product(chosen.instances, chosen.settings):
            given = {name: setting.cluster.get(name) for name in ("memory_bytes", "bandwidth", "levels")}
            refuse_few(str(instance.source), Cluster(**given))
    if cite:
        _cite(chosen, workloads)
        return
    from ..show.comparison import check_parquet, write_tables
    from ..show.pictures import draw_profile
    from ..studies.compare.comparison import Where, compare_suite

    named = any(instance.published is not None for instance in chosen.instances)
    if named and workloads is not None and not workloads.is_dir():
        raise UsageError(f"--workloads (or PIPEPLAN_WORKLOADS) is {str(workloads)!r}, which is not a folder.")
    if parquet:
        check_parquet()
    going_on = {"resume": resume, "retry_failed": retry_failed}
    with graceful():
        comparison = compare_suite(
            chosen, output, workloads=workloads, where=Where(jobs, cluster), watch=Lines(), **going_on
        )
    paths = write_tables(comparison, output, parquet) | draw_profile(comparison, output)
    _tell(comparison, {name: str(path) for name, path in paths.items()}, json)
    raise typer.Exit(_exit_code(comparison))


def _cite(suite: Suite, workloads: Path | None) -> None:
    """Print BibTeX of what a paper has to name; solvers are known only after the runs, which write references.bib."""
    from ..formulations.papers import bibliography
    from ..show.comparison import cited
    from ..studies.compare.comparison import Comparison
    from ..studies.compare.suite import expand

    sys.stdout.write(bibliography(cited(Comparison(expand(suite, workloads, to_run=False), {}, 0))))


def _exit_code(comparison: Comparison) -> int:
    if comparison.interrupted and not comparison.records:
        return INTERRUPTED
    results = [record.result for record in comparison.records.values()]
    return OK if any(result and result["verified"] for result in results) else NO_PLAN


def _own_suite(
    instances: list[str] | None,
    methods: list[str] | None,
    seeds: str | None,
    settings: tuple[Setting, ...],
    limits: dict[str, Any],
) -> Suite:
    from ..studies.compare.suite import Instance, Suite, competitor

    if not instances or not methods:
        raise UsageError(
            "Name instances and at least one --method, or a --suite (--suites lists the packaged ones)."
        )
    return Suite(
        name="comparison",
        title="Comparison",
        instances=tuple(Instance(Path(text).stem if "/" in text else text, text) for text in instances),
        methods=tuple(competitor(text) for text in methods),
        settings=settings,
        seeds=_whole_numbers(seeds or "0"),
        limits=limits,
    )


def _known_suite(name: str, quick: bool, limits: dict[str, Any]) -> Suite:
    """The suite of this name or file; limits of the command line hold for every method of it."""
    from dataclasses import replace

    from ..studies.compare.suite import load_suite

    suite = load_suite(name, quick)
    methods = tuple(replace(method, limits={**method.limits, **limits}) for method in suite.methods)
    return replace(suite, methods=methods)


def _settings(devices: list[int] | None, memory: list[str] | None, common: dict[str, Any]) -> tuple[Setting, ...]:
    """The settings: every number of devices with every memory."""
    from ..studies.compare.suite import Setting

    settings = []
    no_choice: list[None] = [None]
    for count, text in product(devices or no_choice, memory or no_choice):
        cluster: dict[str, object] = dict(common)
        words = []
        if count is not None:
            cluster["devices"] = count
            words.append(several(count, "device"))
        if text is not None:
            cluster["memory_bytes"] = size_or_none(text)
            words.append("no memory limit" if text == "none" else text)
        settings.append(Setting(", ".join(words), cluster))
    return tuple(settings)


def _whole_numbers(text: str) -> tuple[int, ...]:
    numbers = whole_numbers(text)
    if numbers is None:
        raise UsageError(f"--seeds is {text!r}; give whole numbers joined by commas: 0,1,2.")
    return tuple(dict.fromkeys(numbers))


def _list_suites(json: bool) -> None:
    from ..studies.compare.suite import packaged_suites

    titles = packaged_suites()
    if json:
        print_json({"suites": [{"name": name, "title": title} for name, title in titles.items()]})
        return
    put(*(f"{name:24} {title}" for name, title in titles.items()))


def _tell(comparison: Comparison, paths: dict[str, str], json: bool) -> None:
    if comparison.interrupted:
        say_note(f"interrupted: {comparison.missing} runs are left; the same command with --resume continues.")
    if json:
        print_json(_facts(comparison, paths))
        return
    from ..show.comparison import draw_comparison

    draw_comparison(comparison)
    put(*(f"{name}: {path}" for name, path in paths.items()), soft=True)


def _facts(comparison: Comparison, paths: dict[str, str]) -> dict[str, object]:
    from ..studies.compare.table import plain_rows, summary

    frame = comparison.table()
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
        "methods": plain_rows(summary(frame)) if not frame.empty else [],
    }


class Lines:
    """A line on stderr for each run that ends: how many of all have ended, the result, its time, and the time left."""

    def __init__(self) -> None:
        self.started = wall()
        self.reused = 0

    def __call__(self, progress: Progress) -> None:
        for remark in progress.remarks:
            say_note(remark)
        if progress.record is None:
            self.reused = progress.finished
            words = f"{several(progress.total, 'run')}, {progress.finished} of them done before"
        else:
            words = f"[{progress.finished}/{progress.total}] {self._facts(progress)}"
        sys.stderr.write(clean(words) + "\n")
        sys.stderr.flush()

    def _facts(self, progress: Progress) -> str:
        record = progress.record
        assert record is not None
        result = record.result or {}
        word = str(result.get("stop") or record.status)
        parts = [
            record.run.title,
            word,
            amount_or(result.get("objective"), result.get("problem", {}).get("time_unit"), "no plan"),
            "" if record.wall_s is None else f"{record.wall_s:.1f} s",
            self._left(progress),
        ]
        return "  ".join(filter(None, parts))

    def _left(self, progress: Progress) -> str:
        done, left = progress.finished - self.reused, progress.total - progress.finished
        return f"about {(wall() - self.started) / done * left:.0f} s left" if left else ""
