"""A comparison in its folder: what is done is read from the journal, the rest is run, tables are written at the end.

From Python, `compare` compares problems and methods at hand, without a suite or a folder.
"""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ...instances.base.errors import InputError, UsageError, wrong_argument
from ...instances.base.json_file import read_json, write_json, write_text_atomically
from ...instances.base.kind import Displayed, Picture, display
from ...instances.base.quantities import listed
from ...instances.files import problem_to_text, save
from ...instances.lookup import load, packaged_by_hash
from ...instances.registry import Problem, is_problem
from ...instances.stored_results import result_from_json
from ...planners.backends.process import processor_seconds
from ...planners.options import SolveOptions, limits_of
from ...planners.run.claims import recompute
from ..journal import Journal, changed
from .run import SCHEMA, Record, Run, Status, run_here
from .suite import Competitor, Expanded, Instance, Suite, check_label, competitor, default_jobs, expand, of_name
from .table import gaps, tidy

if TYPE_CHECKING:
    import pandas


# The subfolder of problems, one file for each, named by their hashes.
PROBLEMS = "problems"


def reread(folder: Path, records: Iterable[Record]) -> tuple[dict[str, Record], dict[str, tuple[str, ...]]]:
    """The records by key, with recomputed results, and by key sentences on what they had claimed instead."""
    anew, differences, problem_of = dict[str, Record](), dict[str, tuple[str, ...]](), cache(_problem)
    for record in records:
        key, path = record.run.key, folder / PROBLEMS / f"{record.run.problem_hash}.json"
        anew[key] = record
        if record.result is None:
            continue
        problem = problem_of(path, record.run.problem_hash, record.result.get("problem", {}).get("name"))
        if problem is None:
            differences[key] = (f"nothing was recomputed: {PROBLEMS}/{path.name} is missing",)
            continue
        recomputed = recompute(problem, result_from_json(record.result))
        if recomputed.differences:
            differences[key] = recomputed.differences
            messages = (*recomputed.result.messages, *recomputed.differences)
            anew[key] = replace(record, result=replace(recomputed.result, messages=messages).to_json())
    return anew, differences


def _problem(path: Path, digest: str, name: str | None) -> Problem | None:
    if path.is_file():
        return load(path)
    with suppress(UsageError):
        return packaged_by_hash({"hash": digest, "name": name})
    return None


# The files of the finished runs, and of all that is to be run.
JOURNAL, CONTENTS = "runs.jsonl", "comparison.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """What is reported after every run, and once before the first run, when only runs of earlier times are finished."""

    finished: int
    total: int
    record: Record | None = None
    remarks: tuple[str, ...] = ()
    """Before the first run: what a reader of the values should know."""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Displayed):
    """The runs of a suite and their records. `records` are the finished runs by key; `reused` of them were read."""

    expanded: Expanded
    records: Mapping[str, Record]
    reused: int
    interrupted: bool = False
    differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By key of the run, sentences on what a result from the folder had claimed and was recomputed differently."""

    @property
    def missing(self) -> int:
        return len(self.expanded.runs) - len(self.records)

    def table(self) -> pandas.DataFrame:
        """One row for each finished run; see `compare.table`."""
        return tidy(self.expanded.runs, self.records, self.expanded.published)

    def gaps(self) -> pandas.DataFrame:
        """One row for each case: what is known of the optimum, and how far each method is above it."""
        return gaps(self.table())

    def latex(self) -> str:
        """The tables of the comparison for a paper, in LaTeX with booktabs."""
        return str(display().latex(self))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the performance profile; with a path (.svg, .png, .pdf) the picture is written as well."""
        return display().plot(self, path)  # type: ignore[no-any-return]


def compare_suite(
    suite: Suite,
    folder: Path,
    *,
    workloads: Path | None = None,
    jobs: int | None = None,
    resume: bool = False,
    retry_failed: bool = False,
    rerun: Collection[str] = (),
    watch: Callable[[Progress], None] | None = None,
) -> Comparison:
    """Run what is not yet in the folder's journal. An interrupt keeps all finished runs.

    `jobs` runs go at a time, by default as many as leave two cores to each. A folder that has a journal is refused
    unless `resume`; `retry_failed` repeats its failed runs, and `rerun` those of the methods with these labels.
    """
    expanded = expand(suite, workloads)
    check_label("rerun", rerun, suite.methods)
    if any("processor_s" in run.limits for run in expanded.runs) and processor_seconds(os.getpid()) is None:
        raise UsageError("This system does not say how long processes have worked; give --time-limit.")
    folder.mkdir(parents=True, exist_ok=True)
    journal = journal_in(folder)
    if journal.exists() and not resume:
        raise UsageError(f"{folder} holds a comparison already; continue it with --resume, or name another folder.")
    write_json(folder / CONTENTS, expanded.to_json())
    (folder / PROBLEMS).mkdir(exist_ok=True)  # without which nobody could recompute a result later
    for name, problem in expanded.problems.items():
        if not (folder / PROBLEMS / f"{name}.json").exists():
            save(problem, folder / PROBLEMS / f"{name}.json")
    wanted = {run.key: run for run in expanded.runs}
    stored = finished(journal)
    kept = (record for key, record in stored.items() if key in wanted and record.run.method not in rerun)
    records, differences = reread(folder, [one for one in kept if one.status == Status.DONE or not retry_failed])
    reused, tell = len(records), watch or (lambda progress: None)
    tell(Progress(reused, len(wanted), remarks=(*expanded.remarks(), *_stale(stored, wanted))))

    def keep(record: Record) -> None:
        journal.append(record.to_json())
        records[record.run.key] = record
        tell(Progress(len(records), len(wanted), record))

    todo = [run for key, run in wanted.items() if key not in records]
    stored_problems = {key: problem_to_text(problem) for key, problem in expanded.problems.items()}
    interrupted = False
    try:
        run_here(todo, stored_problems, jobs or default_jobs(), keep)
    except KeyboardInterrupt:
        interrupted = True
    return Comparison(expanded, records, reused, interrupted, differences)


def _stale(stored: Mapping[str, Record], wanted: Mapping[str, Run]) -> list[str]:
    """A sentence on stored runs that are made again, as something that made them has changed since."""
    fresh = {run.question: run for key, run in wanted.items() if key not in stored}
    old = {record.run.question: record.run for record in stored.values() if record.run.question in fresh}
    if not old:
        return []
    causes = dict.fromkeys(name for q, run in old.items() for name in changed(run.made_by, fresh[q].made_by))
    if any(run.limits != fresh[q].limits for q, run in old.items()):
        causes["limits"] = None
    runs = "1 run is" if len(old) == 1 else f"{len(old)} runs are"
    has = "has" if len(causes) == 1 and "limits" not in causes else "have"
    return [f"{listed(list(causes))} {has} changed: {runs} made again."]


def load_comparison(folder: Path) -> Comparison:
    """The comparison in a folder, finished or not."""
    contents = folder / CONTENTS
    if not contents.is_file():
        raise UsageError(
            f"{folder} holds no comparison ({CONTENTS} is missing); name the folder that `plan compare` wrote."
        )
    try:
        expanded = Expanded.from_json(read_json(contents))
    except (KeyError, TypeError, ValueError) as reason:
        problem = f"is no list of runs ({type(reason).__name__}: {reason})"
        raise InputError("content", problem, "compare again into another folder", str(contents)) from None
    wanted = {run.key for run in expanded.runs}
    stored = finished(journal_in(folder))
    records, differences = reread(folder, [record for key, record in stored.items() if key in wanted])
    return Comparison(expanded, records, len(records), differences=differences)


def journal_in(place: Path) -> Journal:
    """The runs in this file, or of the comparison in this folder."""
    path = place if place.suffix == ".jsonl" else place / JOURNAL
    return Journal(path, f"record of a run ({SCHEMA})", "delete the line, or compare into another folder")


def finished(journal: Journal) -> dict[str, Record]:
    """Finished runs by key; of runs with the same key the last."""
    return {record.run.key: record for _, record in journal.read(Record.from_json)}


# ---- a comparison from Python ---------------------------------------------------------------------------------


def compare(
    problems: Sequence[Problem | str | os.PathLike[str]],
    methods: Sequence[str | Callable[..., Any]],
    *,
    limits: SolveOptions | None = None,
    time_limit_s: float | None = None,
    gap: float | None = None,
    seeds: Sequence[int] = (0,),
    jobs: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    against: str = "",
) -> Comparison:
    """Plan every problem by every method, each run in a process of its own, as `plan compare` does.

    Parameters
    ----------
    problems : sequence of Problem, str or PathLike
        Problems, paths of files, or names of packaged instances.
    methods : sequence of str or callable
        Formulations and planners by name, with a solver and options where needed:
        `ip-tarnawski@highs:non_contiguous=true`; or functions from a problem to a plan. `Ours=dp` labels a method.
    limits : SolveOptions, optional
        Seconds, gaps, threads and memory of every run. None: no limits.
    time_limit_s : float, optional
        Seconds of every run, where no `limits` are given. None: no limit.
    gap : float, optional
        The gap at which to stop, where no `limits` are given. None: a proof is sought to the end.
    seeds : sequence of int
        Random seeds; methods without chance run once.
    jobs : int, optional
        Runs at a time. None: half as many as there are cores.
    folder : str or PathLike, optional
        Where to keep runs and problems, so that `plan report` can read them. None: nowhere.
    resume : bool
        Keep the runs that the folder holds, save those whose code has changed since.
    against : str
        The label of the method that is tested against each other one; empty: all pairs are tested.

    Returns
    -------
    Comparison
        `show()` prints its tables, `table()` is a frame of its runs, `latex()` and `plot()` are for papers.

    Raises
    ------
    InputError
        An argument has another type, or a file cannot be read as a problem.
    UsageError
        There is no such instance, method or option, or a method or an instance has no run.
    """
    if isinstance(problems, str) or not isinstance(problems, Sequence):
        raise wrong_argument("problems", problems, "a list of problems", 'give ["tiny-chain"], say')
    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise wrong_argument("methods", methods, "a list of names and functions", 'give ["dp", "greedy"], say')
    run_limits = limits_of(limits, time_limit_s, gap)
    with TemporaryDirectory() if folder is None else nullcontext(folder) as named:
        place, asked = Path(named), ((name, getattr(run_limits, name)) for name in RUN_LIMITS)
        given = {name: value for name, value in asked if value is not None}
        suite = own_suite(problems, methods, place, seeds=tuple(seeds), limits=given, against=against)
        return compare_suite(suite, place, jobs=jobs, resume=resume)


def own_suite(problems: Iterable[object], methods: Iterable[object], place: Path, **facts: Any) -> Suite:
    """The suite of these problems and methods; files of those that have none are written into the place."""
    instances = tuple(_instance(problem, place) for problem in problems)
    return Suite(
        "comparison", instances, tuple(_competitor(m, place) for m in methods), title="Comparison", **facts
    )


def _competitor(method: object, place: Path) -> Competitor:
    """The method of a name, or of a function, which its processes find in a file."""
    if isinstance(method, str):
        return competitor(method)
    if not isinstance(method, FunctionType):
        raise wrong_argument("methods", method, "a name or a function", 'give "dp", or a function of a problem')
    address = address_of(method, place / "methods")
    return of_name(address, Competitor(address.rpartition(":")[2], typed=True))


# Fields of `SolveOptions` that hold for every run; each run has its own seed.
RUN_LIMITS = ("time_limit_s", "memory_limit_bytes", "rel_gap", "abs_gap", "threads")


def _instance(problem: object, place: Path) -> Instance:
    """The instance of a name or a path, or of a problem, which is written to a file while it is compared."""
    if isinstance(problem, (str, os.PathLike)):
        text = os.fspath(problem)
        return Instance(Path(text).stem if os.sep in text else text, text)
    if not is_problem(problem):
        raise wrong_argument("problems", problem, "a problem", "give what pipeplan.load(path) returns, or its name")
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"given-{problem.hash}.json"
    save(problem, path)
    return Instance(problem.name, str(path))


# ---- functions of a program or a notebook, which processes of their own find in files ---------------------------


def address_of(function: FunctionType, folder: Path) -> str:
    """Where a process of its own finds the function: in its file, or in one that is written into the folder for it."""
    path = Path(function.__code__.co_filename)
    if function.__qualname__ != function.__name__ or not path.is_file():
        path = folder / f"{function.__name__}.py"
        try:
            text = "\n\n".join(dict.fromkeys(_sources(function)))
        except (OSError, SyntaxError, TypeError) as why:
            raise UsageError(
                f"{function.__name__!r} cannot be run in a process of its own ({why}); write it into a file, mine.py "
                "say, and name it as 'mine.py:NAME'."
            ) from None
        folder.mkdir(parents=True, exist_ok=True)
        write_text_atomically(path, text + "\n")
    return f"{path}:{function.__name__}"


def _sources(function: FunctionType, above: tuple[FunctionType, ...] = ()) -> Iterator[str]:
    """The text of a function after that of all it uses, save what uses it; a `TypeError` for what cannot be written."""
    if not function.__name__.isidentifier():
        raise TypeError("it has no name")
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    known = {**function.__globals__, **dict(zip(function.__code__.co_freevars, cells, strict=True))}
    text = textwrap.dedent(inspect.getsource(function))
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} & {*known}
    above = (*above, function)
    for name, value in (
        (name, known[name]) for name in sorted(used) if not any(known[name] is one for one in above)
    ):
        home = getattr(value, "__module__", None)
        if isinstance(value, ModuleType):
            yield f"import {value.__name__} as {name}"
        elif isinstance(value, FunctionType) and home == function.__module__:
            yield from _sources(value, above)
        elif isinstance(value, (FunctionType, type)) and home != function.__module__:
            yield f"from {home} import {value.__qualname__} as {name}"
        elif _is_literal(value):
            yield f"{name} = {value!r}"
        else:
            raise TypeError(f"it uses {name!r}, a {type(value).__name__}")
    yield text.strip()


def _is_literal(value: object) -> bool:
    """Is it plain data of Python's own, which its text says whole?"""
    if isinstance(value, (list, tuple, set, dict)):
        return all(map(_is_literal, [*value, *(value.values() if isinstance(value, dict) else ())]))
    return isinstance(value, (bool, int, float, str, bytes, type(None)))
