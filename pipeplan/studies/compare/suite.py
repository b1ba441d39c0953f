"""What is compared: instances x settings x methods x seeds, the single runs that this means, and suites in TOML files.

A suite is packaged, or in a file of the user's own. A new field of a suite needs its reader in the last part, which
refuses what it does not know.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from ...formulations.plugins import is_address
from ...formulations.registry import FORMULATIONS, Entry
from ...instances.base.checks import check_text
from ...instances.base.cluster import STAGING_OPTIONS
from ...instances.base.errors import (
    InputError,
    NotInstalledError,
    PipeplanError,
    UsageError,
    did_you_mean,
    errors_in,
    show,
)
from ...instances.base.fields import (
    as_list,
    as_number,
    as_object,
    checked,
    join,
    read_record,
    refuse_unknown,
    require,
)
from ...instances.base.json_file import read_toml
from ...instances.base.quantities import duration, levels, rate, several, size, size_or_none
from ...instances.lookup import cluster_of, load_with_notes
from ...instances.networks.profile.options import PROFILE_FIELDS
from ...instances.physics.hardware import devices_given
from ...instances.registry import Problem
from ...planners.options import SolveOptions, typed
from ...planners.referee import own_objective
from ...planners.registry import EXACT, PLANNERS, asked_formulation, find_method, is_formulation, usual_objective
from ...planners.run.choose import installed_solvers, resolve_options
from ..journal import made_by
from .run import Run

# A comparison with more runs is refused.
MOST_RUNS = 100_000
SCHEMA = "pipeplan.comparison/1"


@dataclass(frozen=True, slots=True)
class Instance:
    """A file or packaged instance, or (`published`) a file below the folder of published workloads, which is
    taken where that folder is given."""

    label: str
    source: str | None
    published: str | None = None
    cluster: Mapping[str, Any] = field(default_factory=dict)

    def is_at_hand(self, workloads: Path | None) -> bool:
        """Is it a published one whose file lies in the folder?"""
        return self.published is not None and workloads is not None and (workloads / self.published).is_file()

    def address(self, workloads: Path | None) -> str | None:
        """The file or name to load; None: it is published, not at hand, and nothing stands in for it."""
        return str(workloads / str(self.published)) if workloads and self.is_at_hand(workloads) else self.source


@dataclass(frozen=True, slots=True)
class Setting:
    """A cluster whose values replace those of the instances."""

    label: str = ""
    cluster: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Competitor:
    """A formulation or planner with its options, and with limits that replace those of the suite."""

    label: str
    formulation: str | None = None
    planner: str | None = None
    solver: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] | None = None
    typed: bool = False
    """Was it typed on the command line? Only there MODULE:NAME is imported."""

    @property
    def entry(self) -> Entry:
        """The registry entry of the method; an unknown name, or one that a file must not import, is refused."""
        name = self.formulation or self.planner or ""
        if is_address(name) and not self.typed:
            raise UsageError(
                f"Methods of a suite are named, not imported from {name!r}; install it as a plug-in, or compare it "
                f"with --method {name}."
            )
        method = find_method(name)
        if method is None:
            raise UsageError(
                f"There is no formulation or planner {name!r}{did_you_mean(name, [*FORMULATIONS, *PLANNERS])}; "
                "`plan formulations` and `plan planners` list them."
            )
        return method


@dataclass(frozen=True, slots=True)
class Published:
    """A value that somebody has published, or the seconds that a search took there, shown beside ours."""

    instance: str
    method: str
    value: float | None
    source: str
    setting: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """Instances, methods, settings and seeds that are to be compared."""

    name: str
    instances: tuple[Instance, ...]
    methods: tuple[Competitor, ...]
    settings: tuple[Setting, ...] = (Setting(),)
    seeds: tuple[int, ...] = (0,)
    limits: Mapping[str, Any] = field(default_factory=dict)
    published: tuple[Published, ...] = ()
    title: str = ""
    about: str = ""
    """What the published values are, and why ours may differ from them."""
    against: str = ""
    """Label of the method that is tested against each other one; empty: all pairs are."""
    partial: bool = False
    """May instances stay without runs, as no method given plans them?"""


@dataclass(frozen=True, slots=True)
class Expanded:
    """The runs of a suite in the order of the tables, and their problems by hash."""

    name: str
    title: str
    runs: tuple[Run, ...]
    problems: Mapping[str, Problem] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Published instances that are not at hand and that no packaged one replaces."""
    stand_ins: tuple[str, ...] = ()
    """Published instances that are not at hand, in whose place a packaged one of the same kind runs."""
    published: tuple[Published, ...] = ()
    """Published values of these very inputs; there are none of stand-ins."""
    about: str = ""
    notes: tuple[str, ...] = ()
    """Notes on what profiles and tables became."""
    once: tuple[str, ...] = ()
    """Methods that take no seed and ran once where there are several seeds."""
    against: str = ""
    """See `Suite`."""

    def once_remark(self) -> list[str]:
        """A sentence on methods for which further seeds change nothing; none where there are none."""
        return [f"Run once, as they take no seed: {', '.join(self.once)}."] if self.once else []

    def remarks(self) -> list[str]:
        """What a reader of the values should know of the instances, a sentence each."""
        named = {
            "Published instances that were not at hand:": self.left_out,
            "Packaged networks of the same kind stand in for the published inputs of": self.stand_ins,
        }
        told = [f"{words} {'; '.join(labels)}." for words, labels in named.items() if labels]
        return [*self.notes, *self.once_remark(), *told]

    def to_json(self) -> dict[str, Any]:
        """JSON of everything but the problems: what tables and reports are made of, beside the records."""
        facts = asdict(replace(self, problems={}))
        del facts["problems"]
        return {"schema": SCHEMA, **facts}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Expanded:
        """Read what `to_json` wrote; KeyError, TypeError or ValueError where it is something else."""
        if data["schema"] != SCHEMA:
            raise ValueError(f"the schema is {data['schema']!r}, not {SCHEMA!r}")
        facts: dict[str, Any] = {name: tuple(own) if isinstance(own, list) else own for name, own in data.items()}
        del facts["schema"]
        facts["runs"] = tuple(Run(**run) for run in data["runs"])
        facts["published"] = tuple(Published(**entry) for entry in data["published"])
        return cls(**facts)


# ---- from a suite to its runs --------------------------------------------------------------------------


def expand(suite: Suite, workloads: Path | None = None, *, to_run: bool = True) -> Expanded:
    """The runs of every method on every instance of its kind; a method or an instance without a run is refused.

    What this machine lacks (a method's package, a solver) is left out, and named with its remedy.

    Without `to_run`, the packages of the methods need not be installed.
    """
    _refuse_twins(suite)
    check_label("against", [suite.against] if suite.against else [], suite.methods)
    _refuse_mixed_objectives(suite.methods)
    missing = _not_installed(suite) if to_run else {}
    suite = replace(suite, methods=tuple(m for m in suite.methods if m.label not in missing))
    versions = {method.label: made_by(method.entry, method.solver) for method in suite.methods if to_run}
    runs: list[Run] = []
    problems: dict[str, Problem] = {}
    left_out: list[str] = []
    stand_ins: list[str] = []
    notes = [f"{label} is left out: {reason}" for label, reason in missing.items()]
    for instance in suite.instances:
        address = instance.address(workloads)
        if address is None:
            left_out.append(instance.label)
            continue
        if instance.published is not None and not instance.is_at_hand(workloads):
            stand_ins.append(instance.label)
        for setting in suite.settings:
            lowered = load_with_notes(address, cluster_of({**instance.cluster, **setting.cluster}))
            notes += (f"{instance.label}: {note}." for note in lowered.notes)
            problem = lowered.problem
            problems[problem.hash] = problem
            for method in suite.methods:
                case = (instance.label, setting.label)
                runs += _runs(suite, case, method, problem, versions.get(method.label, {}))
    if missing and not runs:
        raise NotInstalledError(f"There is nothing left to compare. {' '.join(dict.fromkeys(missing.values()))}")
    _refuse_idle(suite, runs, problems, left_out, missing)
    published = tuple(entry for entry in suite.published if entry.instance not in (*left_out, *stand_ins))
    title = suite.title or suite.name
    absent = (tuple(left_out), tuple(stand_ins))
    once = tuple(
        method.label
        for method in suite.methods
        if len(_seeds_of(suite, method)) > 1 and not any(entry.seeded for entry in _meant(method))
    )
    said, about = tuple(dict.fromkeys(notes)), suite.about
    return Expanded(suite.name, title, tuple(runs), problems, *absent, published, about, said, once, suite.against)


def _seeds_of(suite: Suite, method: Competitor) -> tuple[int, ...]:
    return suite.seeds if method.seeds is None else method.seeds


def _runs(
    suite: Suite, case: tuple[str, str], method: Competitor, problem: Problem, made_by: Mapping[str, str | None]
) -> Iterable[Run]:
    """The runs of one method on one problem, one for each seed; none where the method plans another kind."""
    entry = method.entry.for_kind(problem.kind)
    if entry.problem_kind not in (problem.kind, "any"):
        return
    asked: Any = {name: getattr(method, name) for name in ("formulation", "planner", "solver", "options")}
    seeds = _seeds_of(suite, method)
    for seed in seeds if entry.seeded else seeds[:1]:
        limits = {**suite.limits, **method.limits, "seed": seed}
        yield Run(*case, method.label, problem.kind, problem.hash, **asked, limits=limits, made_by=made_by)


def _not_installed(suite: Suite) -> dict[str, str]:
    """By their labels, why methods cannot run on this machine, before any run starts."""
    reasons: dict[str, str] = {}
    for method in suite.methods:
        try:
            method.entry.check_installed()
            installed_solvers(method.solver)
        except NotInstalledError as error:
            reasons[method.label] = str(error)
    return reasons


def _refuse_mixed_objectives(methods: Iterable[Competitor]) -> None:
    """Refuse methods of one kind that minimise different objectives: there is no best among their values."""
    first: dict[str, tuple[str, str]] = {}
    entries = [(method, entry) for method in methods for entry in _meant(method)]
    for method, entry in entries:
        kind, options = entry.problem_kind, resolve_options(entry, method.options)
        own = None if entry.name in FORMULATIONS or entry.name in PLANNERS else own_objective(entry.load())
        objective = own or str(options.get("objective") or usual_objective(kind))
        other, label = first.setdefault(kind, (objective, method.label))
        if objective != other:
            raise UsageError(
                f"{label} is judged by {other} and {method.label} by {objective}: compare them apart, or give them one "
                "objective."
            )


def _meant(method: Competitor) -> Sequence[Entry]:
    """Entries of the method's name, one for each kind, that have all its options; its usual entry where there
    is none."""
    able = [
        entry
        for entry in method.entry.all_kinds
        if {spec.name for spec in entry.options}.issuperset(method.options)
    ]
    return able or [method.entry]


def _refuse_idle(
    suite: Suite,
    runs: Sequence[Run],
    problems: Mapping[str, Problem],
    left_out: Sequence[str],
    missing: Collection[str],
) -> None:
    """Refuse a suite in which a method or an instance has no run, though all is at hand, or with too many runs."""
    if not suite.methods and not missing:
        raise UsageError(f"The suite {suite.name} has no methods; give some with --method.")
    if left_out and not problems:
        raise UsageError("Every instance of this suite is a published one; name their folder with --workloads.")
    busy_methods, busy_instances = {run.method for run in runs}, {run.instance for run in runs}
    for method in suite.methods:
        if method.label not in busy_methods and not left_out and not missing:
            kind = method.entry.problem_kind
            raise UsageError(f"{method.label} plans problems of kind {kind!r}, and none is among the instances.")
    for instance in suite.instances:
        if instance.label not in (*busy_instances, *left_out) and not missing and not suite.partial:
            raise UsageError(f"No method of the comparison plans {instance.label}; add one of its kind.")
    if len(runs) > MOST_RUNS:
        raise UsageError(f"The comparison has {several(len(runs), 'run')}; compare at most {MOST_RUNS} at once.")


def check_label(option: str, labels: Iterable[str], methods: Sequence[Competitor]) -> None:
    """Refuse labels that no method of the comparison has."""
    known = [method.label for method in methods]
    for label in labels:
        if label not in known:
            raise UsageError(f"--{option} is {label!r}, which is none of {', '.join(known)}; give one of them.")


def _refuse_twins(suite: Suite) -> None:
    """Refuse two instances, settings or methods with one label."""
    for what in ("instances", "settings", "methods"):
        labels = [entry.label for entry in getattr(suite, what)]
        for twin in (label for label in labels if labels.count(label) > 1):
            python = ", in Python by problem.replace(name=...)" if what == "instances" else ""
            raise UsageError(f"Two {what} are called {twin!r}; give them labels that differ{python}.")


# ---- methods by name -----------------------------------------------------------------------------------


def competitor(text: str) -> Competitor:
    """A competitor of the form `[LABEL=]NAME[@SOLVER][:OPTION=VALUE,...]`, such as
    `ip-tarnawski@highs:non_contiguous=true`; one's own is `mymodel:ENTRY@highs` or `Ours=mine.py:greedy`."""
    match = _METHOD.fullmatch(text)
    if match is None or (is_address(match["name"]) and find_method(match["name"].partition(":")[0]) is not None):
        raise UsageError(f"The method is {text!r}; write options as NAME:OPTION=VALUE,OPTION=VALUE.")
    options = dict(_option(text, part) for part in (match["options"] or "").split(",") if part)
    label, solver = match["label"] or text, match["solver"] or "auto"
    return of_name(match["name"], Competitor(label, solver=solver, options=options, typed=True))


# The part behind the first colon belongs to the name where it sets no option: `module:NAME`.
_METHOD = re.compile(
    r"(?:(?P<label>[^:@=]+)=)?(?P<name>[^:@=]*(?::[^:@=,]+)?)(?:@(?P<solver>[^:]*))?(?::(?P<options>.*))?"
)


def of_name(name: str, method: Competitor) -> Competitor:
    """The competitor with the formulation or planner of this name, whose options are checked.

    The exact planner stands for the formulation that its options ask for, as in `plan solve`.
    """
    if name == EXACT and (asked := _asked(method.options)) is not None:
        name = asked.name
    is_model = (method.typed or not is_address(name)) and is_formulation(name)
    method = replace(method, formulation=name) if is_model else replace(method, planner=name)
    entry = _meant(method)[0]
    values = resolve_options(entry, method.options)  # refuses wrong options before any run
    # Allocations are read here, so that no run hangs on their files.
    allocations = {spec.name for spec in entry.options if spec.type == "allocation"} & set(method.options)
    return replace(method, options={**method.options, **{option: values[option] for option in allocations}})


def _asked(options: Mapping[str, Any]) -> Entry | None:
    """The formulation, of any kind, that these options ask for as in `plan solve`; None: any default will do."""
    kinds = dict.fromkeys(entry.problem_kind for entry in FORMULATIONS.values())
    return next((entry for kind in kinds if (entry := asked_formulation(kind, options)) is not None), None)


def _option(text: str, part: str) -> tuple[str, Any]:
    """The name and value of an option written as OPTION=VALUE."""
    key, equals, value = part.partition("=")
    if not key or not equals:
        raise UsageError(f"The method is {text!r}; write options as NAME:OPTION=VALUE,OPTION=VALUE.")
    return key.replace("-", "_"), typed(value)


def default_jobs() -> int:
    """Number of runs at a time that leaves a solver of two threads cores of its own."""
    return max(1, len(os.sched_getaffinity(0)) // 2) if hasattr(os, "sched_getaffinity") else 1


# ---- suites in files ------------------------------------------------------------------------------------------


T = TypeVar("T")
# Fields of a suite: limits, those of a cluster, and those of the whole.
LIMITS: Mapping[str, tuple[str, Callable[[str], float] | None]] = {
    "time_limit": ("time_limit_s", duration),
    "memory_limit": ("memory_limit_bytes", lambda text: int(size(text))),
    "gap": ("rel_gap", None),
    "abs_gap": ("abs_gap", None),
    "threads": ("threads", None),
    "processor_time": ("processor_s", duration),
}
CLUSTER = (
    *("devices", "cpus", "memory", "bandwidth", "cpu_slowdown", "inference", "batch"),
    *STAGING_OPTIONS,
    *PROFILE_FIELDS,
)
TOP = (*(own.name for own in fields(Suite)), "quick")


def packaged_suites() -> dict[str, str]:
    """Titles of the packaged suites, by their names."""
    return {name: str(read_toml(path).get("title", "")) for name, path in sorted(_packaged().items())}


def load_suite(name: str, quick: bool = False) -> Suite:
    """A packaged suite by its name, or one from a TOML file."""
    packaged = _packaged()
    path, folder = packaged.get(name, Path(name)), None if name in packaged else Path(name).parent
    if not path.is_file():
        guess = did_you_mean(name, packaged)
        raise UsageError(
            f"There is no suite or file named {name!r}{guess}; packaged suites are {', '.join(sorted(packaged))}."
        )
    data = read_toml(path)
    with errors_in(name):
        suite = _suite(data, folder, path.stem)
        return _quick(suite, as_object("quick", data.get("quick", {}), "a table")) if quick else suite


def _packaged() -> dict[str, Path]:
    return {path.stem: path for path in (Path(__file__).parent / "suites").glob("*.toml")}


def _suite(data: Mapping[str, Any], folder: Path | None, name: str) -> Suite:
    refuse_unknown("", dict(data), TOP)
    return Suite(
        name=str(data.get("name", name)),
        title=str(data.get("title", "")),
        about=" ".join(str(data.get("about", "")).split()),
        instances=tuple(_instance(where, entry, folder) for where, entry in _tables(data, "instances")),
        methods=tuple(_method(where, entry, folder) for where, entry in _tables(data, "methods")),
        settings=tuple(_setting(where, entry) for where, entry in _tables(data, "settings")) or (Setting(),),
        against=str(data.get("against", "")),
        partial=bool(data.get("partial")),
        seeds=_seeds("seeds", data.get("seeds", [0])),
        limits=_limits("limits", data.get("limits", {})),
        published=tuple(_published(where, entry) for where, entry in _tables(data, "published")),
    )


def _tables(data: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
    entries = as_list(key, data.get(key, []))
    return [(f"{key}[{i}]", as_object(f"{key}[{i}]", entry, "a table")) for i, entry in enumerate(entries)]


def _instance(where: str, entry: Mapping[str, Any], folder: Path | None) -> Instance:
    refuse_unknown(where, entry, ("label", "source", "published", *CLUSTER))
    source, published = entry.get("source"), entry.get("published")
    if source is None and published is None:
        raise InputError(
            where, "has neither source nor published", "give a file or the name of a packaged instance"
        )
    if source is not None and folder is not None and (folder / source).is_file():
        source = str(folder / source)  # a path may be relative to the suite's file
    label = entry.get("label") or Path(str(source or published)).stem
    return Instance(str(label), source, published, cluster_values(where, entry))


def _setting(where: str, entry: Mapping[str, Any]) -> Setting:
    refuse_unknown(where, entry, ("label", *CLUSTER))
    return Setting(str(require(where, entry, "label")), cluster_values(where, entry))


def _method(where: str, entry: Mapping[str, Any], folder: Path | None) -> Competitor:
    refuse_unknown(where, entry, ("label", "method", "solver", "options", "seeds", *LIMITS))
    name = str(require(where, entry, "method"))
    options = dict(as_object(join(where, "options"), entry.get("options", {}), "a table"))
    allocation = options.get("allocation")
    if folder is not None and isinstance(allocation, str) and (folder / allocation).is_file():
        options["allocation"] = str(folder / allocation)
    method = Competitor(
        label=str(entry.get("label", name)),
        solver=str(entry.get("solver", "auto")),
        options=options,
        limits=_limits(where, {key: entry[key] for key in LIMITS if key in entry}),
        seeds=_seeds(join(where, "seeds"), entry["seeds"]) if "seeds" in entry else None,
    )
    try:
        method = of_name(name, method)
    except PipeplanError as error:
        raise InputError(where, f"cannot be used: {str(error).rstrip('.')}", "mend the method") from None
    paths = {spec.name for spec in method.entry.options if spec.type == "path"} & set(options)
    beside = {name: str(folder / options[name]) for name in paths if folder is not None}
    return replace(method, options={**method.options, **beside})


def _published(where: str, entry: Mapping[str, Any]) -> Published:
    """A published value, the seconds of a published search, or both."""
    if "seconds" not in entry:
        require(where, entry, "value")
    read: Any = dict.fromkeys(("instance", "method", "source", "setting"), checked(check_text))
    read |= dict.fromkeys(("value", "seconds"), lambda at, one: None if one is None else as_number(at, one))
    return read_record(Published, where, {"value": None, **entry}, **read)


def _seeds(where: str, value: object) -> tuple[int, ...]:
    seeds = as_list(where, value)
    if not seeds or any(isinstance(seed, bool) or not isinstance(seed, int) or seed < 0 for seed in seeds):
        raise InputError(where, f"is {show(value)}", "give a list of whole numbers >= 0")
    return tuple(dict.fromkeys(seeds))


def _limits(where: str, value: object) -> dict[str, Any]:
    """Limits of a table as arguments of `SolveOptions`, which checks them."""
    table = as_object(where, value, "a table")
    refuse_unknown(where, table, LIMITS)
    limits: dict[str, Any] = {}
    for key, value in table.items():
        name, read = LIMITS[key]
        limits[name] = value if read is None else quantity(join(where, key), value, read)
    SolveOptions(**{name: limit for name, limit in limits.items() if name != "processor_s"})
    return limits


def cluster_values(where: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster in a table of the suite, with amounts in base units; infinite memory: no limit."""
    given = {key: entry[key] for key in CLUSTER if key in entry}
    if "memory" in given:
        given["memory_bytes"] = quantity(join(where, "memory"), given.pop("memory"), size_or_none)
    if "bandwidth" in given:
        given["bandwidth"] = quantity(join(where, "bandwidth"), given["bandwidth"], rate)
    if isinstance(given.get("devices"), str):
        try:
            given |= devices_given(given["devices"])
        except InputError as error:
            raise InputError(join(where, error.field), error.problem, error.remedy) from None
    for key in ("devices", "cpus", "batch"):
        if key in given and (isinstance(given[key], bool) or not isinstance(given[key], int)):
            raise InputError(join(where, key), f"is {show(given[key])}", "give a whole number")
    if "levels" in given:
        given["levels"] = _read(join(where, "levels"), given["levels"], levels)
    return given


def quantity(where: str, value: object, read: Callable[[str], float]) -> float:
    """A number in the base unit, or text with a unit."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputError(where, f"is {show(value)}", "give a number or a text with a unit")
    return _read(where, value, read)


def _read(where: str, value: object, read: Callable[[str], T]) -> T:
    try:
        return read(str(value))
    except ValueError as error:
        raise InputError(where, f"cannot be read ({error})", "write it as in the example") from None


def _quick(suite: Suite, quick: Mapping[str, Any]) -> Suite:
    """The suite with all that its table `quick` replaces, so that it takes a few minutes."""
    refuse_unknown("quick", dict(quick), ("seeds", "instances", "methods", "settings", *LIMITS))
    limits = _limits("quick", {key: quick[key] for key in LIMITS if key in quick})
    kept: Any = {key: _chosen(key, getattr(suite, key), quick) for key in ("instances", "methods", "settings")}
    kept["methods"] = tuple(replace(method, limits={**method.limits, **limits}) for method in kept["methods"])
    seeds = _seeds("quick.seeds", quick["seeds"]) if "seeds" in quick else suite.seeds
    return replace(suite, **kept, seeds=seeds, limits={**suite.limits, **limits})


def _chosen(key: str, entries: tuple[Any, ...], quick: Mapping[str, Any]) -> tuple[Any, ...]:
    if key not in quick:
        return entries
    wanted, known = as_list(f"quick.{key}", quick[key]), {entry.label for entry in entries}
    for label in wanted:
        if label not in known:
            raise InputError(
                f"quick.{key}", f"names {show(label)}", f"give labels among {', '.join(sorted(known))}"
            )
    return tuple(entry for entry in entries if entry.label in wanted)
