"""Arguments that several commands share: the instance, the cluster that overrides the file's, limits, the outputs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.base.cluster import MEMORY, OF_ONE_SOURCE, check_cluster, check_figure, is_real
from ..instances.base.errors import InputError, PipeplanError, UsageError, show
from ..instances.base.json_file import STDIN, read_json
from ..instances.base.result import SCHEMA, Asked
from ..instances.lookup import Cluster, cluster_of, holds_profile, load_with_notes
from ..instances.registry import Problem, kind_of
from ..planners.options import Progress as ProgressRecord
from ..planners.options import SolveOptions, typed
from ..show.console import clean, number, say_note
from .signatures import (
    NARROW,
    among,
    declared,
    drawable,
    flags_of,
    list_of,
    readable,
    shared,
    with_narrow_options,
    with_usual_help,
)

if TYPE_CHECKING:
    from ..instances.base.kind import Lowered

CLUSTER = "Cluster (overrides the one in the file; required for profiles)"
PROFILES = "Profiles and layer tables (how to turn them into a problem)"


def input_file(metavar: str, help: str) -> Any:
    """An argument that names a file to be read."""
    return typer.Argument(metavar=metavar, help=help, callback=readable)


InstanceArgument = Annotated[
    str, input_file("INSTANCE", "A file, - for standard input, or the name of a packaged instance.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

# ---- how a profile or a table of layers becomes a problem ---------------------------------------------------


def _efficiency(text: str) -> float | str:
    """One number, or one for each degree, which is read where degrees are known."""
    try:
        return float(text)
    except ValueError:
        return text


def _panel(usual: str) -> Callable[[str], str]:
    """The panel of each option: what one source of problems alone takes is given as `--option NAME=VALUE`."""
    return lambda name: NARROW if name in OF_ONE_SOURCE else usual


PROFILE_OPTIONS = declared(
    """
    kind text KIND: Problem type; default: from the input.
    optimizer text NAME: Optimizer, e.g. adam-mixed or muon.
    in_flight int: For placements: micro-batches whose activations a device holds; default: the number of devices.
    recompute flag: Recompute (stagings: only where it helps).
    data_parallel flag: Allow replicated stages (staging).
    tensor_parallel any LIST: Allowed tensor-parallel degrees: 1,2,4.
    efficiency any SHARE: Share of the ideal speedup that tensor parallelism reaches, e.g. 0.9, or by degree:
        2:0.97,4:0.93; default: calculated from the traffic on the links.
    whole_layers flag: Do not split layers, and keep the embedding with the first and the head with the last, so that
        every stage holds a layer; vLLM, SGLang and TensorRT-LLM need this.
    bytes_per_parameter float: For tables with a column parameters_count: bytes per parameter.
    zero int STAGE: ZeRO stage of the replicas: 1, 2 or 3.
    replicas int: For chains with --zero: number of parallel pipelines that train the same weights.
    sequence tokens TOKENS: For packaged models: tokens per sample.
    micro_batch int SAMPLES: For packaged models: samples per micro-batch.
    """,
    panel=_panel(PROFILES),
    tensor_parallel={"parser": list_of("degrees")},
    efficiency={"parser": _efficiency},
)

# Those that stand on every help page; the others are behind `--help-all`.
USUAL = ("kind", "optimizer", "zero", "recompute", "data_parallel", "tensor_parallel", "sequence")

# ---- the cluster ---------------------------------------------------------------------------------------


def _devices(text: str) -> dict[str, Any]:
    """The fields of the cluster for a number of devices, or for GPUs by name."""
    try:
        return {"devices": int(text)}
    except ValueError:
        pass
    if not any(map(str.isdigit, text)):
        remedy = "; give their number, such as 4, or number and name of GPUs, such as 64xh100-80gb"
        raise typer.BadParameter(f"{show(text)} is not a number of devices{remedy}.")
    from ..instances.physics.hardware import devices_given  # the table of GPUs is read where one is named

    try:
        return devices_given(text)
    except PipeplanError as error:
        raise typer.BadParameter(str(error)) from None


CLUSTER_OPTIONS = (
    *declared(
        """
    devices any N|GPUS: Accelerators: 8, or (profiles) 2xa100-80gb,2xt4.
    cpus int: Number of CPUs.
    memory_bytes size-or-none --memory SIZE: Memory per accelerator: 8GiB, or none.
    bandwidth rate RATE: Bandwidth of the links, e.g. 25GiB/s.
    cpu_slowdown float: For profiles: how many times slower a CPU is than an accelerator.
    inference flag: For profiles: leave out the backward nodes.
    batch int: Batch in micro-batches (staging) or samples.
    levels levels LEVELS: Levels, innermost first: 8x300GB/s,2x25GB/s.
    time_unit text UNIT: Unit of time in a staging file that names none: s, ms, us or ns; rates per second are
        converted.
    """,
        panel=_panel(CLUSTER),
        devices={"parser": _devices},
    ),
    *PROFILE_OPTIONS,
)


def _cluster(given: dict[str, Any]) -> Cluster:
    """The cluster of the options that were given."""
    devices = given.pop("devices", None)
    return cluster_of({**given, **(devices if isinstance(devices, dict) else {"devices": devices})})


def load_instance(text: str, on: Cluster) -> Problem:
    """The problem in a file, or the packaged one of that name; notes on stderr say what a profile became."""
    problem: Problem = load_lowered(text, on)[0].problem
    return problem


def load_lowered(text: str, on: Cluster) -> tuple[Lowered, Asked]:
    """The problem with what is known of the profile that it was made of, and what was asked for."""
    refuse_few(text, on)  # before loading, which may fail for the very same reason
    lowered = load_with_notes(text, on)
    for note in lowered.notes:
        say_note(note)
    return lowered, Asked("-" if text == STDIN else text, on.to_json(), lowered.notes)


def refuse_few(text: str, on: Cluster) -> None:
    """Refuse a memory or links that no hardware has, where the instance itself counts in bytes."""
    if (on.memory_bytes, on.bandwidth, on.levels) == (None, None, None) or holds_profile(text):
        return  # what makes a problem of a profile looks at the profile's own sizes
    try:
        problem = load_with_notes(text, replace(on, memory_bytes=None)).problem
    except PipeplanError:  # the error is shown where the instance is loaded as it was asked for
        return
    if counts_bytes(problem):
        check_cluster(on)


def counts_bytes(problem: Problem) -> bool:
    """Has the problem so much memory that it counts in bytes? Schedules and small examples count in units of their
    own."""

    memory = getattr(problem, kind_of(problem).cluster.get("memory_bytes", ""), None)
    return isinstance(memory, int | float) and is_real(memory)


def check_memory(problem: Problem, flag: str, *amounts: float) -> None:
    """Refuse an amount that no hardware has, where the problem counts in bytes."""

    if counts_bytes(problem):
        for amount in amounts:
            check_figure(flag, amount, MEMORY)


def load_for(plan: str, text: str, on: Cluster) -> Problem:
    """The problem for the plan in a file, which may be a result: a result brings the cluster that it was solved on."""
    problem: Problem = load_lowered_for(plan, text, on)[0].problem
    return problem


def load_lowered_for(plan: str, text: str, on: Cluster) -> tuple[Lowered, Asked]:
    """`load_lowered` on the cluster of the result in the file `plan`, where the user names none."""
    cluster = cluster_for(plan, on)
    try:
        return load_lowered(text, cluster)
    except UsageError as error:
        if cluster == on or not str(error).startswith("--"):
            raise
        from ..instances.stored_results import load_result

        raise UsageError(
            f"{plan} belongs to {show(load_result(plan).problem.get('name'))}, not to {text}, where its cluster "
            "does not fit; name the problem that was solved."
        ) from None


def cluster_for(path: str, on: Cluster) -> Cluster:
    """The cluster that the user names or, where the user names none, the one of the command that wrote the result."""
    from ..instances.stored_results import load_result
    from ..show.answer import cluster_words
    from ..studies.compare.suite import cluster_values

    if on != Cluster():
        return on
    try:
        data = read_json(path)
    except InputError:  # whoever reads the plan says what is wrong
        return on
    asked = load_result(path).asked if isinstance(data, dict) and data.get("schema") == SCHEMA else None
    if asked is None or not asked.cluster:
        return on
    say_note(f"using the cluster options of {path}: {' '.join(cluster_words(asked))}")
    try:
        return cluster_of(cluster_values("asked.cluster", asked.cluster))
    except InputError as error:
        raise error.in_file(path) from None


# Options that only `--help-all` lists in commands that take a cluster, which have many.
RARE = (
    *("cpus", "inference"),
    *(o.name for o in PROFILE_OPTIONS if o.name not in USUAL),
    *("memory_limit_bytes", "threads", "seed", "native"),
    *("warm_start", "log", "progress", "export_model", "option"),
)


def with_cluster(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command these options of the cluster, or all, together as its argument `on`; its help page leaves out
    what is rare."""
    options = shared("on", CLUSTER_OPTIONS, _cluster)(*names)
    return lambda command: with_usual_help(*RARE)(with_narrow_options(options(command)))


# Methods for graph pipelines have an option of this name: commands that take methods take it once.
BESIDE_METHODS = tuple(o.name for o in CLUSTER_OPTIONS if o.name != "micro_batch")


def with_micro_batch(text: str | None, on: Cluster, own: dict[str, Any]) -> tuple[Cluster, dict[str, Any]]:
    """Take --micro-batch as an option of the profile, and not of the method, unless it makes a graph pipeline."""
    if text is None or "micro_batch" not in own or not holds_profile(text):
        return on, own
    if load_with_notes(text, on).problem.kind == "graph-pipeline":
        return on, own
    size = {"micro_batch": own["micro_batch"]}
    profile = cluster_of(size).profile if on.profile is None else replace(on.profile, **size)
    return replace(on, profile=profile), {name: value for name, value in own.items() if name not in size}


# ---- the output ----------------------------------------------------------------------------------------


Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also print instance, model, proof and options.")]
Picture = Annotated[
    str | None,
    typer.Option("--picture", metavar="FILE", help="Draw the plan: .svg, .png or .pdf.", callback=drawable),
]

# ---- progress on stderr ---------------------------------------------------------------------------------------

PROGRESS_MODES = ("auto", "json", "none")
Progress = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(PROGRESS_MODES),
        help="Progress on stderr; default: a live line on a terminal, else nothing.",
        rich_help_panel="Output",
        callback=among("--progress", PROGRESS_MODES),
    ),
]
# Seconds between two plain lines where no better plan comes.
PLAIN_LINE_EVERY_S = 2.0


def progress_line(record: ProgressRecord) -> str:
    """Incumbent, bound, gap and time in one line."""
    gap = "-" if record.gap is None else f"{100 * record.gap:.3f} %"
    values = f"incumbent {number(record.incumbent)}  bound {number(record.bound)}  gap {gap}"
    source = f"  {clean(record.source)}" if record.source else ""
    return f"{record.seconds:7.1f} s  {values}{source}"


@contextmanager
def reporter(mode: str | None) -> Iterator[Callable[[ProgressRecord], None]]:
    """Gives what is called with each record of progress, from whichever thread.

    "json" and "auto" write lines to stderr, the latter one for every better plan and one every few seconds; on a
    terminal "auto" and None redraw one line in place, which vanishes at the end; else nothing is reported.
    """
    lock = threading.Lock()
    if mode == "json":
        lines: AbstractContextManager[Callable[[ProgressRecord], None]] = nullcontext(
            lambda record: _write_line(dumps(record.to_json()))
        )
    elif mode != "none" and sys.stderr.isatty():
        lines = _live_line()
    else:
        lines = nullcontext(_plain_lines() if mode == "auto" else lambda record: None)
    with lines as tell:

        def report(record: ProgressRecord) -> None:
            with lock:
                tell(record)

        yield report


def _write_line(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _plain_lines() -> Callable[[ProgressRecord], None]:
    incumbent, said_at = None, 0.0

    def tell(record: ProgressRecord) -> None:
        nonlocal incumbent, said_at
        if record.incumbent != incumbent or record.seconds - said_at >= PLAIN_LINE_EVERY_S:
            incumbent, said_at = record.incumbent, record.seconds
            _write_line(progress_line(record))

    return tell


@contextmanager
def _live_line() -> Iterator[Callable[[ProgressRecord], None]]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    stderr = Console(file=sys.stderr)
    with Live(console=stderr, refresh_per_second=4, transient=True, redirect_stdout=False) as live:
        yield lambda record: live.update(Text(progress_line(record), overflow="ellipsis", no_wrap=True))


# ---- limits of a run ------------------------------------------------------------------------------------------


LIMITS = declared(
    """
    rel_gap share --gap SHARE: Stop at this relative gap, e.g. 1%.
    time_limit_s duration --time-limit TIME: Time limit, e.g. 30s or 5min.
    memory_limit_bytes whole-size --memory-limit SIZE: Stop a solver process that uses more memory than this, e.g. 4GiB.
    threads int: Number of threads that the solver may use.
    seed int =0: Seed of all random choices.
    native texts KEY=VALUE: Pass an option to the solver under the solver's own name for it; repeatable.
    """,
    panel="Limits",
)


def _given_limits(given: dict[str, Any]) -> dict[str, Any]:
    if "native" in given:
        given["native"] = dict(key_and_value("--native", text) for text in given["native"])
    return given


# How the command line names what `SolveOptions` refuses.
FLAGS = flags_of(LIMITS)

# Gives a command the limits; those that the user gives arrive together as its argument `limits`.
with_limits = shared("limits", LIMITS, _given_limits)


def limits_for(given: Mapping[str, Any], **more: Any) -> SolveOptions:
    """The limits, checked."""
    try:
        return SolveOptions(**{**given, **more})
    except InputError as error:
        raise error.renamed(FLAGS) from None


def key_and_value(flag: str, text: str) -> tuple[str, Any]:
    """Read the value of a repeatable option, KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"{flag} is {text!r}; write it as KEY=VALUE.")
    return key, typed(value)
