"""What exactness is worth for training configurations: what users do by hand against the whole space.

    python benchmarks/training_heuristics.py [--time-limit 30] [--pair WORD] [--planner WORD]
    python benchmarks/training_heuristics.py --table

The rule of thumb of the guides, the best even layout, the best with everything computed again and the best with nothing
computed again stand beside `exact-configuration`, on six pairs of a model and a cluster. What came of a run is kept at
once in `training_heuristics.jsonl`, one line each, and a run that is there is not made again, so the program may be
interrupted. `--table` runs nothing and writes the table into `docs/configure.md` from what is kept.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pipeplan
from pipeplan.instances.physics.efficiencies import USUAL_MEMORY_ERROR
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.planners.options import SolveOptions
from pipeplan.studies.journal import Journal

HERE = Path(__file__).resolve().parent
KEPT = HERE / "training_heuristics.jsonl"
PAGE = HERE.parent / "docs" / "configure.md"
BEGIN, END = "<!-- heuristics: begin -->", "<!-- heuristics: end -->"

EXACT = "exact-configuration"
HEURISTICS = ("guide", "even-layouts", "full-recompute", "no-recompute")
PLANNERS = (EXACT, *HEURISTICS)
USUAL_LIMIT_S = 30.0


@dataclass(frozen=True)
class Pair:
    """A model and the GPUs that it is trained on."""

    model: str
    devices: str
    sequence: int
    batch: int

    @property
    def name(self) -> str:
        return f"{self.model} on {self.devices}"

    def problem(self) -> TrainingProblem:
        return problem_of(self.model, self.devices, batch=self.batch, sequence=self.sequence)


PAIRS = (
    Pair("llama-3-8b", "8xh100-80gb", 8_192, 128),
    Pair("llama-3-70b", "64xh100-80gb", 8_192, 256),
    Pair("llama-3-405b", "1024xh100-80gb", 8_192, 1_024),
    Pair("mixtral-8x7b", "64xa100-80gb", 4_096, 256),
    Pair("qwen3-30b-a3b", "16xh100-80gb", 4_096, 256),
    Pair("deepseek-v2", "128xh100-80gb", 4_096, 1_024),
)


@dataclass(frozen=True)
class Run:
    """One planner on one pair."""

    pair: str
    planner: str
    limit_s: float
    stop: str
    seconds: float | None
    """Of an iteration; None: nothing was found."""
    bound: float | None
    """None: the planner proves nothing of the whole space."""
    took_s: float


def made(pair: Pair, planner: str, limit_s: float) -> Run:
    problem, started = pair.problem(), time.perf_counter()
    limits = SolveOptions(time_limit_s=limit_s, threads=1)
    result = pipeplan.solve(problem, planner=planner, options={"memory_error": USUAL_MEMORY_ERROR}, limits=limits)
    took_s = time.perf_counter() - started
    bound = result.bound if planner == EXACT else None
    return Run(pair.name, planner, limit_s, str(result.stop), result.objective, bound, round(took_s, 1))


def kept(path: Path = KEPT) -> list[Run]:
    journal = Journal(path, "run of training_heuristics.py", "delete it and run it again")
    return [run for _, run in journal.read(_read)]


def _read(top: Mapping[str, Any]) -> Run:
    return Run(**top)


# ---- the table -------------------------------------------------------------------------------------------


def more(run: Run, exact: Run) -> float | None:
    """How much longer its iteration takes, as a share of the exact planner's; below 0 it is faster."""
    if run.seconds is None or exact.seconds is None:
        return None
    return run.seconds / exact.seconds - 1


def cell(run: Run | None, exact: Run | None) -> str:
    """`+` is longer than what the exact planner found; what is missing is said."""
    if run is None or exact is None:
        return "not run"
    share = more(run, exact)
    if share is None:
        return "nothing in time" if run.stop == "time" else "nothing fits"
    words = f"{100 * share:+.1f} %"
    return f"{words} (time)" if run.stop == "time" else words


def table(runs: Iterable[Run]) -> Iterator[str]:
    by = {(run.pair, run.planner): run for run in runs}
    yield "| model and GPUs | exact: s | proven up to | " + " | ".join(f"`{name}`" for name in HEURISTICS) + " |"
    yield "| --- | --- | --- | " + " | ".join("---" for _ in HEURISTICS) + " |"
    for pair in PAIRS:
        exact = by.get((pair.name, EXACT))
        cells = [cell(by.get((pair.name, name)), exact) for name in HEURISTICS]
        yield (
            f"| {pair.name}, {pair.batch} sequences of {pair.sequence:,} | {_exact(exact)} | "
            + " | ".join(cells)
            + " |"
        )


def _exact(run: Run | None) -> str:
    if run is None or run.seconds is None or run.bound is None:
        return "not run | "
    gap = 100 * (1 - run.bound / run.seconds)
    cut = f" (in {run.limit_s:g} s)" if run.stop == "time" else ""
    return f"{run.seconds:.4g} | {'optimal' if gap < 1e-4 else f'{gap:.2g} %'}{cut}"


def section(runs: Iterable[Run]) -> str:
    return "\n".join((BEGIN, *table(runs), END))


def with_section(page: str, runs: Iterable[Run]) -> str:
    """The page with the table anew."""
    before, rest = page.split(BEGIN)
    return before + section(runs) + rest.split(END)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=USUAL_LIMIT_S, help="seconds of each run")
    parser.add_argument("--pair", default="", help="only pairs whose name has this word")
    parser.add_argument("--planner", default="", help="only planners whose name has this word")
    parser.add_argument("--table", action="store_true", help="write the table from what is kept")
    given = parser.parse_args()
    if given.table:
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), kept()), encoding="utf-8")
        return
    journal = Journal(KEPT, "run of training_heuristics.py", "delete it and run it again")
    done = {(run.pair, run.planner) for run in kept()}
    for pair in PAIRS:
        for planner in PLANNERS:
            wanted = given.pair in pair.name and given.planner in planner
            if wanted and (pair.name, planner) not in done:
                run = made(pair, planner, given.time_limit)
                journal.append(asdict(run))
                print(run, flush=True)


if __name__ == "__main__":
    main()
