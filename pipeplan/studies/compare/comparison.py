"""A comparison in its folder: what is done is read from the journal, the rest is run, tables are written at the end.

From Python, `compare` compares problems and methods at hand, without a suite or a folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ...instances.base.errors import InputError, UsageError, wrong_argument
from ...instances.base.json_file import read_json, write_json
from ...instances.base.kind import Displayed, Picture, display
from ...instances.files import problem_to_text, save
from ...instances.lookup import load, packaged_by_hash
from ...instances.registry import Problem, is_problem
from ...instances.stored_results import result_from_json
from ...planners.options import SolveOptions, limits_of
from ...planners.run.claims import recompute
from ..journal import Journal, changed
from .run import SCHEMA, Record, Run, Status, run_here, run_on_cluster
from .suite import Expanded, Instance, Suite, competitor, default_jobs, expand
from .table import tidy

if TYPE_CHECKING:
    import pandas


# The subfolder of problems, one file for each, named by their hashes.
PROBLEMS = "problems"


def reread(folder: Path, records: Mapping[str, Record]) -> tuple[dict[str, Record], dict[str, tuple[str, ...]]]:
    """The records with recomputed results, and by key sentences on what they had claimed instead."""
    problems: dict[str, Problem | None] = {}
    anew, differences = dict(records), dict[str, tuple[str, ...]]()
    for key, record in records.items():
        if record.result is None:
            continue
        name = record.run.problem_hash
        if name not in problems:
            problems[name] = _problem(folder / PROBLEMS / f"{name}.json", record.result)
        problem = problems[name]
        if problem is None:
            differences[key] = (f"nothing was recomputed: {PROBLEMS}/{name}.json is missing",)
            continue
        recomputed = recompute(problem, result_from_json(record.result))
        if recomputed.differences:
            differences[key] = recomputed.differences
            messages = (*recomputed.result.messages, *recomputed.differences)
            result: Mapping[str, Any] = replace(recomputed.result, messages=messages).to_json()
            anew[key] = replace(record, result=result)
    return anew, differences


def _problem(path: Path, result: Mapping[str, Any]) -> Problem | None:
    if path.is_file():
        return load(path)
    try:
        return packaged_by_hash(result.get("problem", {}))
    except UsageError:
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

    def latex(self) -> str:
        """The tables of the comparison for a paper, in LaTeX with booktabs."""
        text: str = display().latex(self)
        return text

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the performance profile; with a path (.svg, .png, .pdf) the picture is written as well."""
        picture: Picture = display().plot(self, path)
        return picture


def compare_suite(
    suite: Suite,
    folder: Path,
    *,
    workloads: Path | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    resume: bool = False,
    retry_failed: bool = False,
    watch: Callable[[Progress], None] | None = None,
) -> Comparison:
    """Run what is not yet in the folder's journal. An interrupt keeps all finished runs.

    `jobs` runs go at a time on this machine, by default as many as leave two cores to each; or all on the workers of
    the dask scheduler at the address `cluster`. A folder that has a journal is refused unless `resume`; `retry_failed`
    repeats its failed runs.
    """
    expanded = expand(suite, workloads)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("folder", f"cannot be made ({reason})", "name another folder", str(folder)) from None
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
    records = {key: record for key, record in stored.items() if key in wanted}
    if retry_failed:
        records = {key: record for key, record in records.items() if record.status == Status.DONE}
    records, differences = reread(folder, records)
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
        if todo and cluster is None:
            run_here(todo, stored_problems, jobs or default_jobs(), keep)
        elif todo:
            run_on_cluster(todo, stored_problems, str(cluster), keep)
    except KeyboardInterrupt:
        interrupted = True
    return Comparison(expanded, records, reused, interrupted, differences)


def _stale(stored: Mapping[str, Record], wanted: Mapping[str, Run]) -> list[str]:
    """A sentence on stored runs that are run again, as something that made them has changed since."""
    fresh = {run.question: run for key, run in wanted.items() if key not in stored}
    old = {record.run.question: record.run for record in stored.values() if record.run.question in fresh}
    if not old:
        return []
    causes = dict.fromkeys(name for q, run in old.items() for name in changed(run.made_by, fresh[q].made_by))
    runs = "1 stored run is" if len(old) == 1 else f"{len(old)} stored runs are"
    return [f"{runs} stale and repeated: {', '.join(causes)} changed since."]


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
    records = {key: record for key, record in finished(journal_in(folder)).items() if key in wanted}
    records, differences = reread(folder, records)
    return Comparison(expanded, records, len(records), differences=differences)


def journal_in(folder: Path) -> Journal:
    """The runs of the comparison in this folder."""
    remedy = "delete the line, or compare into another folder"
    return Journal(folder / JOURNAL, f"record of a run ({SCHEMA})", remedy)


# ---- a comparison from Python ---------------------------------------------------------------------------------


def finished(journal: Journal) -> dict[str, Record]:
    """Finished runs by key; of runs with the same key the last."""
    return {record.run.key: record for _, record in journal.read(Record.from_json)}


def compare(
    problems: Sequence[Problem | str | os.PathLike[str]],
    methods: Sequence[str],
    *,
    limits: SolveOptions | None = None,
    time_limit_s: float | None = None,
    gap: float | None = None,
    seeds: Sequence[int] = (0,),
    jobs: int | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Plan every problem by every method, each run in a process of its own, as `plan compare` does.

    Parameters
    ----------
    problems : sequence of Problem, str or PathLike
        Problems, paths of files, or names of packaged instances.
    methods : sequence of str
        Formulations and planners by name, with a solver and options where needed:
        `ip-tarnawski@highs:non_contiguous=true`.
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
    if (
        isinstance(methods, str)
        or not isinstance(methods, Sequence)
        or not all(isinstance(m, str) for m in methods)
    ):
        raise wrong_argument("methods", methods, "a list of names", 'give ["dp", "greedy"], say')
    run_limits = limits_of(limits, time_limit_s, gap)
    wanted = {name: getattr(run_limits, name) for name in RUN_LIMITS}
    with TemporaryDirectory() if folder is None else nullcontext(folder) as named:
        place = Path(named)
        suite = Suite(
            name="comparison",
            title="Comparison",
            instances=tuple(_instance(problem, place) for problem in problems),
            methods=tuple(competitor(method) for method in methods),
            seeds=tuple(seeds),
            limits={name: value for name, value in wanted.items() if value is not None},
        )
        return compare_suite(suite, place, jobs=jobs)


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
