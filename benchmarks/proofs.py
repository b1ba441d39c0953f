"""Do proofs hold? Random nasty problems of every kind against enumeration; and runs that are cut short at any moment.

    python benchmarks/proofs.py [--instances 2000] [--kinds placement,chain] [--solvers highs] [--seed 1] [--jobs 2]
    python benchmarks/proofs.py --limits 500

Each kind's problems are spread evenly over the scales 1e-9, 1e-6, 1, 1e6 and 1e9 of their times (and of their sizes, or
the inverse). `--instances` counts the problems of each kind. The methods take turns, and on every twentieth problem of
a scale all of them run: 2000 of each kind make some 29,000 runs. A problem on which one of them is wrong, or its first
solver shown to be wrong by another, is written to a folder, for `plan solve`. With `--limits` methods of all kinds,
heuristics among them, run under limits from 0 to 0.3 s on tiny and on packaged problems: none may end in an error.
Exit code 1: a fault was found.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

# The root before the tests, whose folder has one of our package's name; new processes inherit this path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracles.truths import FAULTS, METHODS, OUTCOMES, SOLVERS, Method, judged
from problems.nasty import KINDS, nasty, on_two_types, scaled

from pipeplan.instances.base.errors import PipeplanError
from pipeplan.instances.base.result import Stop
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.files import problem_to_text
from pipeplan.instances.registry import Problem
from pipeplan.instances.staging.problem import StagingProblem
from pipeplan.planners.registry import PLANNERS

POWERS = (-9, -6, 0, 6, 9)
ALL_METHODS_EVERY = 20
CHUNK = 20
LONGEST_S = 5.0
"""Of one run: what is not proven by then counts as not proven."""

CONTRADICTED = "contradicted"
"""No fault: another solver showed the first to be wrong. Where that is often, look for an error of the model."""

COLUMNS = ("runs", *OUTCOMES[:-1], CONTRADICTED, *FAULTS)

LARGER = {
    "placement": "bert-large-inference",
    "latency": "resnet50-inference",
    "chain": "resnet18-chain",
    "staging": "bert-large-stages",
    "types": "resnet50-stages",
    "levels": "tiny-levels",
    "graph-pipeline": "mmt-8",
    "schedule": "zero-bubble-4x12",
    "training": "tiny-experts-training",
}
"""On these a limit of 0.3 s comes in the midst of the work."""

NEEDS_A_FILE = ("expert", "latency-expert")
BLIND_TO_MEMORY = ("pipedream", "piper-pipedream")
"""Their plans may be refused, whatever the time."""


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.limits is not None:
        return _limits(arguments)
    return _proofs(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=2000, help="problems of each kind")
    parser.add_argument("--kinds", type=_names, default=list(KINDS), help=f"some of {','.join(KINDS)}")
    parser.add_argument("--solvers", type=_names, default=list(SOLVERS), help=f"some of {','.join(SOLVERS)}")
    parser.add_argument("--methods", default="", help="a part of their names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limits", type=int, metavar="RUNS", help="runs under short limits instead")
    parser.add_argument(
        "--folder", type=Path, default=Path("faulty-proofs"), help="where faulty problems are written"
    )
    return parser


def _names(text: str) -> list[str]:
    return text.split(",")


# ---- against enumeration -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One method on one problem."""

    kind: str
    power: int
    method: str
    """With its solver, without its options."""
    outcome: str
    faults: tuple[tuple[str, str], ...]
    contradicted: bool
    name: str
    """With its options."""
    problem: str
    """As text, where something is wrong."""


def _proofs(arguments: argparse.Namespace) -> int:
    began, runs = time.monotonic(), list[Run]()
    work = [(arguments, kind, range(arguments.instances)[at : at + CHUNK]) for kind, at in _chunks(arguments)]
    for found in _on_processes(arguments.jobs, work):
        for run in found:
            runs.append(run)
            if run.faults or run.contradicted:
                _keep(arguments.folder, run, len(runs))
    _print_table(runs)
    wrong = sum(bool(run.faults) for run in runs)
    print(f"\n{len(runs)} runs in {time.monotonic() - began:.0f} s, {wrong} with faults")
    return 1 if wrong else 0


def _chunks(arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    for kind in arguments.kinds:
        for at in range(0, arguments.instances, CHUNK):
            yield kind, at


def _on_processes(jobs: int, work: Sequence[tuple[argparse.Namespace, str, range]]) -> Iterator[list[Run]]:
    if jobs == 1:
        yield from map(_some, work)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_some, work)


def _some(work: tuple[argparse.Namespace, str, range]) -> list[Run]:
    arguments, kind, numbers = work
    methods = [method for method in METHODS[kind] if _wanted(method, arguments)]
    return list(chain.from_iterable(_runs(kind, methods, arguments.seed, number) for number in numbers))


def _wanted(method: Method, arguments: argparse.Namespace) -> bool:
    return method.solver in ("auto", *arguments.solvers) and arguments.methods in method.name


def _runs(kind: str, methods: Sequence[Method], seed: int, number: int) -> Iterator[Run]:
    """Each scale has its own turn of the methods."""
    turn, scale = divmod(number, len(POWERS))
    power = POWERS[scale]
    problem = scaled(nasty(kind, seed * 1_000_000 + number), power, power if turn % 2 else -power)
    for method in methods if turn % ALL_METHODS_EVERY == 0 else methods[turn % len(methods) :][:1]:
        verdict = judged(problem, method, LONGEST_S, "none" if number % 2 else "auto")
        called = method.planner or f"{method.formulation} {method.solver}"
        contradicted = verdict.result is not None and any("left out" in said for said in verdict.result.messages)
        text = problem_to_text(problem) if verdict.faults or contradicted else ""
        yield Run(kind, power, called, verdict.outcome, verdict.faults, contradicted, method.name, text)


def _keep(folder: Path, run: Run, number: int) -> None:
    """The problem, and beside it what was wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{run.kind}-{number:06d}"
    (folder / f"{stem}.json").write_text(run.problem)
    words = [": ".join(fault) for fault in run.faults] or [CONTRADICTED]
    (folder / f"{stem}.txt").write_text("\n".join([run.name, *words]))
    print(f"{stem}  {run.name}  {'; '.join(words)}"[:300], file=sys.stderr, flush=True)


def _print_table(runs: Iterable[Run]) -> None:
    rows: dict[tuple[str, int, str], Counter[str]] = {}
    for run in runs:
        counter = rows.setdefault((run.kind, run.power, run.method), Counter())
        counter["runs"] += 1
        counter.update({run.outcome, *(fault for fault, _ in run.faults)})
        counter[CONTRADICTED] += run.contradicted
    order = sorted(rows, key=lambda row: (KINDS.index(row[0]), row[2], row[1]))
    print(_line("kind", "method", "scale", COLUMNS))
    for kind, power, method in order:
        cells = [str(rows[kind, power, method][column]) for column in COLUMNS]
        print(_line(kind, method, f"1e{power:+d}" if power else "1", cells))
    total = sum(rows.values(), Counter())
    print(_line("all", "", "", [str(total[column]) for column in COLUMNS]))


def _line(kind: str, method: str, scale: str, cells: Sequence[str]) -> str:
    widths = (max(6, len(column)) for column in COLUMNS)
    counts = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"{kind:<14}  {method:<28}  {scale:>5}  {counts}"


# ---- short limits --------------------------------------------------------------------------------------


def _limits(arguments: argparse.Namespace) -> int:
    rng = random.Random(arguments.seed)
    methods = [
        method for method in _every_method() if method.kind in arguments.kinds and _wanted(method, arguments)
    ]
    for method in methods:  # what is compiled on first use is compiled here
        _ending(nasty(method.kind, 1), method, None)
    rows: dict[str, Counter[str]] = {}
    errors = 0
    for number in range(arguments.limits):
        method = methods[number % len(methods)]
        packaged = number // len(methods) % 3 == 1
        problem = _larger(method.kind) if packaged else nasty(method.kind, number)
        if method.planner in BLIND_TO_MEMORY:
            problem = problem.replace(memory_bytes=None)
        seconds = rng.choice((0.0, 0.001, round(rng.uniform(0, 0.03), 4), round(rng.uniform(0, 0.3), 4)))
        ending, words = _ending(problem, method, seconds)
        called = method.planner or f"{method.formulation} {method.solver}"
        rows.setdefault(f"{method.kind:<14}  {called}", Counter()).update(("runs", ending))
        if ending == "error":
            errors += 1
            print(f"{method.name} on {problem.name}, {seconds} s: {words}", file=sys.stderr, flush=True)
    columns = ("runs", *(str(stop) for stop in Stop), "refused")
    print(f"{'kind':<14}  {'method':<28}  " + "  ".join(f"{column:>11}" for column in columns))
    for row in sorted(rows):
        print(f"{row:<44}  " + "  ".join(f"{rows[row][column]:>11}" for column in columns))
    print(f"\n{arguments.limits} runs under limits of 0 to 0.3 s, {errors} ended in an error")
    return 1 if errors else 0


def _larger(kind: str) -> Problem:
    problem = load_packaged(LARGER[kind])
    if kind != "types":
        return problem
    assert isinstance(problem, StagingProblem)
    return on_two_types(random.Random(1), problem)


def _every_method() -> Iterator[Method]:
    """Those that prove something with all their options, and all other planners as they are."""
    listed = {method.planner for methods in METHODS.values() for method in methods}
    for methods in METHODS.values():
        yield from methods
    for entry in PLANNERS.values():
        if entry.name not in (*listed, *NEEDS_A_FILE) and entry.problem_kind != "any":
            kind = "latency" if entry.name.startswith("latency-") else entry.problem_kind
            yield Method(kind, planner=entry.name)


def _ending(problem: Problem, method: Method, seconds: float | None) -> tuple[str, str]:
    try:
        result = method.solve(problem, seconds)
    except PipeplanError as error:
        return "refused", str(error)
    return str(result.stop), "; ".join(result.messages)


if __name__ == "__main__":
    sys.exit(main())
