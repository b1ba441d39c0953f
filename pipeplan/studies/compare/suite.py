"""What is compared: instances x settings x methods x seeds, and the single runs that this means."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...formulations.plugins import is_address
from ...formulations.registry import FORMULATIONS, Entry
from ...instances.base.errors import NotInstalledError, UsageError, did_you_mean
from ...instances.base.quantities import several
from ...instances.lookup import Cluster, load_with_notes
from ...instances.networks.profile.options import PROFILE_FIELDS, ProfileOptions
from ...instances.registry import Problem
from ...planners.options import typed
from ...planners.registry import EXACT, PLANNERS, asked_formulation, find_method, is_formulation, usual_objective
from ...planners.run.choose import installed_solvers, resolve_options
from ..made_by import made_by
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

    def once_remark(self) -> list[str]:
        """A sentence on methods for which further seeds change nothing; none where there are none."""
        return [f"Run once, as they take no seed: {', '.join(self.once)}."] if self.once else []

    def remarks(self) -> list[str]:
        """What a reader of the values should know of the instances, a sentence each."""
        words = [*self.notes, *self.once_remark()]
        if self.left_out:
            words.append(f"Published instances that were not at hand: {'; '.join(self.left_out)}.")
        if self.stand_ins:
            words.append(
                "Packaged networks of the same kind stand in for the published inputs of "
                f"{'; '.join(self.stand_ins)}."
            )
        return words

    def to_json(self) -> dict[str, Any]:
        """JSON of everything but the problems: what tables and reports are made of, beside the records."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "title": self.title,
            "runs": [run.to_json() for run in self.runs],
            "left_out": list(self.left_out),
            "stand_ins": list(self.stand_ins),
            "published": [asdict(entry) for entry in self.published],
            "about": self.about,
            "notes": list(self.notes),
            "once": list(self.once),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Expanded:
        """Read what `to_json` wrote; KeyError, TypeError or ValueError where it is something else."""
        if data["schema"] != SCHEMA:
            raise ValueError(f"the schema is {data['schema']!r}, not {SCHEMA!r}")
        return cls(
            name=data["name"],
            title=data["title"],
            runs=tuple(Run(**run) for run in data["runs"]),
            left_out=tuple(data["left_out"]),
            stand_ins=tuple(data["stand_ins"]),
            published=tuple(Published(**entry) for entry in data["published"]),
            about=str(data.get("about", "")),
            notes=tuple(data.get("notes", ())),
            once=tuple(data.get("once", ())),
        )


# ---- from a suite to its runs --------------------------------------------------------------------------


def expand(suite: Suite, workloads: Path | None = None, *, to_run: bool = True) -> Expanded:
    """The runs of every method on every instance of its kind; a method or an instance without a run is refused.

    What this machine lacks (a method's package, a solver, a reader) is left out, and named with its remedy.

    Without `to_run`, the packages of the methods need not be installed.
    """
    _refuse_twins(suite)
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
            try:
                lowered = load_with_notes(address, _cluster({**instance.cluster, **setting.cluster}))
            except NotInstalledError as error:
                missing[instance.label] = str(error)
                notes.append(f"{instance.label} is left out: {error}")
                break
            notes += (f"{instance.label}: {note}." for note in lowered.notes)
            problem = lowered.problem
            problems[problem.hash] = problem
            for method in suite.methods:
                runs += _runs(suite, instance, setting, method, problem, versions.get(method.label, {}))
    if missing and not runs:
        raise NotInstalledError(f"There is nothing left to compare. {' '.join(dict.fromkeys(missing.values()))}")
    _refuse_idle(suite, runs, problems, left_out, missing)
    published = tuple(entry for entry in suite.published if entry.instance not in (*left_out, *stand_ins))
    title = suite.title or suite.name
    absent = (tuple(left_out), tuple(stand_ins))
    once = tuple(method.label for method in suite.methods if _takes_no_seed(suite, method))
    return Expanded(
        suite.name, title, tuple(runs), problems, *absent, published, suite.about, tuple(dict.fromkeys(notes)), once
    )


def _takes_no_seed(suite: Suite, method: Competitor) -> bool:
    """Are there several seeds for a method that takes none?"""
    return len(_seeds_of(suite, method)) > 1 and not any(entry.seeded for entry in _meant(method))


def _seeds_of(suite: Suite, method: Competitor) -> tuple[int, ...]:
    return suite.seeds if method.seeds is None else method.seeds


def _runs(
    suite: Suite,
    instance: Instance,
    setting: Setting,
    method: Competitor,
    problem: Problem,
    made_by: Mapping[str, str | None],
) -> Iterable[Run]:
    """The runs of one method on one problem, one for each seed; none where the method plans another kind."""
    entry = method.entry.for_kind(problem.kind)
    if entry.problem_kind not in (problem.kind, "any"):
        return
    seeds = _seeds_of(suite, method)
    for seed in seeds if entry.seeded else seeds[:1]:
        yield Run(
            instance.label,
            setting.label,
            method.label,
            problem.kind,
            problem.hash,
            method.formulation,
            method.planner,
            method.solver,
            dict(method.options),
            {**suite.limits, **method.limits, "seed": seed},
            made_by,
        )


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
        objective = str(options.get("objective") or usual_objective(kind))
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
    if left_out and not problems:
        raise UsageError("Every instance of this suite is a published one; name their folder with --workloads.")
    busy_methods, busy_instances = {run.method for run in runs}, {run.instance for run in runs}
    for method in suite.methods:
        if method.label not in busy_methods and not left_out and not missing:
            kind = method.entry.problem_kind
            raise UsageError(f"{method.label} plans problems of kind {kind!r}, and none is among the instances.")
    for instance in suite.instances:
        if instance.label not in busy_instances and instance.label not in left_out and not missing:
            raise UsageError(f"No method of the comparison plans {instance.label}; add one of its kind.")
    if len(runs) > MOST_RUNS:
        raise UsageError(f"The comparison has {several(len(runs), 'run')}; compare at most {MOST_RUNS} at once.")


def _refuse_twins(suite: Suite) -> None:
    """Refuse two instances, settings or methods with one label."""
    groups: Mapping[str, Sequence[Instance | Setting | Competitor]] = {
        "instances": suite.instances,
        "settings": suite.settings,
        "methods": suite.methods,
    }
    for what, entries in groups.items():
        labels = [entry.label for entry in entries]
        twin = next((label for label in labels if labels.count(label) > 1), None)
        if twin is not None:
            raise UsageError(f"Two {what} are called {twin!r}; give them labels that differ.")


def _cluster(values: Mapping[str, Any]) -> Cluster:
    """A cluster from the values of instances and settings."""
    options = {name: value for name, value in values.items() if name in PROFILE_FIELDS}
    fields = {name: value for name, value in values.items() if name not in ("inference", *PROFILE_FIELDS)}
    training = False if values.get("inference") else None
    return Cluster(**fields, training=training, profile=ProfileOptions(**options) if options else None)


# ---- methods by name -----------------------------------------------------------------------------------


def competitor(text: str) -> Competitor:
    """A competitor of the form `NAME[@SOLVER][:OPTION=VALUE,...]`, such as
    `ip-tarnawski@highs:non_contiguous=true`; a method of a module is `mymodel:ENTRY@highs`."""
    match = _METHOD.fullmatch(text)
    if match is None or (is_address(match["name"]) and find_method(match["name"].partition(":")[0]) is not None):
        raise UsageError(f"The method is {text!r}; write options as NAME:OPTION=VALUE,OPTION=VALUE.")
    options = dict(_option(text, part) for part in (match["options"] or "").split(",") if part)
    return of_name(match["name"], Competitor(text, solver=match["solver"] or "auto", options=options, typed=True))


# The part behind the first colon belongs to the name where it sets no option: `module:NAME`.
_METHOD = re.compile(r"(?P<name>[^:@]*(?::[^:@=,]+)?)(?:@(?P<solver>[^:]*))?(?::(?P<options>.*))?")


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
