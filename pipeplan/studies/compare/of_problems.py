"""A comparison from Python, of problems and methods at hand: it needs no suite and no folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ...instances.base.errors import wrong_argument
from ...instances.files import save
from ...instances.registry import Problem, is_problem
from ...planners.options import SolveOptions, limits_of
from .comparison import Comparison, Where
from .comparison import compare as compare_in
from .suite import Instance, Suite, competitor


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
    with _folder(folder) as place:
        suite = Suite(
            name="comparison",
            title="Comparison",
            instances=tuple(_instance(problem, place) for problem in problems),
            methods=tuple(competitor(method) for method in methods),
            seeds=tuple(seeds),
            limits={name: value for name, value in wanted.items() if value is not None},
        )
        return compare_in(suite, place, where=Where(jobs))


# Fields of `SolveOptions` that hold for every run; each run has its own seed.
RUN_LIMITS = ("time_limit_s", "memory_limit_bytes", "rel_gap", "abs_gap", "threads")


@contextmanager
def _folder(given: str | os.PathLike[str] | None) -> Iterator[Path]:
    if given is not None:
        yield Path(given)
        return
    with TemporaryDirectory() as place:
        yield Path(place)


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
