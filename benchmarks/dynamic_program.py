"""The dynamic program over ideals: published inputs, small inputs, and cost against the number of ideals.

    python benchmarks/dynamic_program.py --output benchmarks/results [--workloads DIR] [--threads 2] [--largest 1000000]

Times are of the library in a warm process: machine code is loaded before, and that is reported apart. Each is the
least of three runs (of one where it takes more than 5 s).
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipes.placement import random_placements

import pipeplan
from pipeplan.show.words import several

REPEATS, LONG_S = 3, 5.0

SERIES = [(blocks, 5, 9) for blocks in (1, 2, 5, 10)]
SERIES_4 = [(blocks, 4, 9) for blocks in (1, 2, 5, 10, 20)]
WIDE = [(1, 5, length) for length in (3, 5, 7, 9, 11)]
"""(blocks, branches, length): (length + 1) ** branches ideals for each block."""

DEVICES = 8


@dataclass(frozen=True)
class Run:
    """One timed solution."""

    name: str
    ideals: int
    seconds: float
    result: pipeplan.Result
    ratio: float | None = None


def main() -> int:
    arguments = _parser().parse_args()
    warm_up = _warm_up(arguments.threads)
    lines = [
        "# The dynamic program: measured",
        "",
        "How long the planner `dp` takes to find a best contiguous placement and to prove that it is best. All values",
        "below are proven. *ip / dp* says how many times as long `ip-tarnawski` takes for the same proof.",
        "",
        "`python benchmarks/dynamic_program.py --output benchmarks/results --workloads DIR` makes these tables; DIR is",
        "the folder of the [published inputs](../../docs/reproduce.md#published-inputs). It ran on",
        f"{arguments.threads} threads; loading the compiled loop took {warm_up:.2f} s and is not counted.",
        "",
    ]
    if arguments.workloads:
        lines += _table("Published inputs", _published(arguments))
    lines += _table("Graphs of 30 nodes", _small(arguments))
    lines += ["Up to 600 ideals `dp` runs without compiled code.", ""]
    curves = {
        "more and more blocks of 4 chains": _curve(SERIES_4, arguments),
        "more and more blocks of 5 chains": _curve(SERIES, arguments),
        "one block of longer and longer chains": _curve(WIDE, arguments),
    }
    lines += [
        f"## More ideals, on {DEVICES} accelerators and a CPU",
        "",
        "A block is several chains of nodes side by side and a node in which they join; blocks follow one another.",
        "",
        *(line for runs in curves.values() for line in _rows(runs)),
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    lines += [
        f"The whole process held at most {peak:.0f} MiB.",
        "",
        "![Seconds to the proof, by the number of ideals](dynamic-program.svg)",
        "",
    ]
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "dynamic-program.md").write_text("\n".join(lines))
    _draw(curves, arguments.output / "dynamic-program.svg")
    print("\n".join(lines))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=Path, help="folder with layer/ and operator/")
    parser.add_argument("--output", type=Path, required=True, help="folder of the table and the picture")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--largest", type=int, default=1_100_000, help="no more ideals than this")
    return parser


def _warm_up(threads: int) -> float:
    began = time.monotonic()
    problem = random_placements.blocks(nodes=42, branches=4, length=9, accelerators=6)
    result = pipeplan.solve(problem, planner="dp", limits=pipeplan.SolveOptions(threads=threads))
    return max(result.seconds.get("warm_up", 0.0), time.monotonic() - began - 1.0, 0.0)


def _timed(name: str, problem: Any, threads: int, compare: bool = False) -> Run:
    seconds, result = _best_of(problem, threads, planner="dp")
    assert result.found == pipeplan.Found.OPTIMAL, (name, result.stop, result.messages)
    ratio = None
    if compare:
        other, proof = _best_of(problem, threads, formulation="ip-tarnawski")
        ratio = other / seconds if proof.found == pipeplan.Found.OPTIMAL else None
    run = Run(name, result.model_size["ideals"], seconds, result, ratio)
    print(f"{name:40} {run.ideals:>9} ideals {seconds:8.3f} s", file=sys.stderr, flush=True)
    return run


def _best_of(problem: Any, threads: int, **method: Any) -> tuple[float, pipeplan.Result]:
    least, result = float("inf"), None
    for _ in range(REPEATS):
        began = time.monotonic()
        result = pipeplan.solve(problem, **method, limits=pipeplan.SolveOptions(threads=threads, time_limit_s=300))
        least = min(least, time.monotonic() - began)
        if least > LONG_S:
            break
    assert result is not None
    return least, result


def _published(arguments: argparse.Namespace) -> list[Run]:
    return [
        _timed(f"{path.parent.name}/{path.stem}", pipeplan.load(path), arguments.threads, compare=True)
        for path in sorted(arguments.workloads.glob("*/*.json"))
    ]


def _small(arguments: argparse.Namespace) -> list[Run]:
    names = ("chain", "series-parallel", "layered", "heterogeneous")
    draw = random_placements.FAMILIES
    return [
        _timed(f"{name}, 30 nodes", draw[name](nodes=30, accelerators=4, seed=1), arguments.threads, compare=True)
        for name in names
    ]


def _curve(shapes: list[tuple[int, int, int]], arguments: argparse.Namespace) -> list[Run]:
    runs = []
    for blocks, branches, length in shapes:
        if blocks * ((length + 1) ** branches) <= arguments.largest:
            nodes = 1 + blocks * (branches * length + 1)
            problem = random_placements.blocks(nodes=nodes, branches=branches, length=length, accelerators=DEVICES)
            runs.append(
                _timed(f"{several(blocks, 'block')} of {branches} chains of {length}", problem, arguments.threads)
            )
    return runs


def _table(title: str, runs: list[Run]) -> list[str]:
    return [f"## {title}", "", *_rows(runs)]


def _rows(runs: list[Run]) -> list[str]:
    rows = [
        f"| {run.name} | {run.ideals:,} | {run.seconds:.3f} | {'' if run.ratio is None else f'{run.ratio:.1f}'} "
        f"| {run.result.objective:.9f} |"
        for run in runs
    ]
    return ["| input | ideals | s | ip / dp | optimum |", "|---|---|---|---|---|", *rows, ""]


def _draw(curves: dict[str, list[Run]], path: Path) -> None:
    from pipeplan.show.pictures import STYLES, canvas, explain, write_picture
    from pipeplan.show.views import CATEGORIES

    with canvas(7.0, 4.5) as figure:
        axes = figure.subplots()
        looks = zip(curves.items(), "os^", CATEGORIES, STYLES, strict=False)
        for (name, runs), marker, colour, style in looks:
            ideals, seconds = [run.ideals for run in runs], [run.seconds for run in runs]
            axes.loglog(ideals, seconds, marker=marker, color=colour, linestyle=style, label=name)
        axes.set_xlabel("ideals")
        axes.set_ylabel("time to the proof (s)")
        axes.grid(True, which="both", linewidth=0.3)
        explain(figure, [axes], columns=1)
        write_picture(figure, path)


if __name__ == "__main__":
    sys.exit(main())
