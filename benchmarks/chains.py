"""Proofs on random chains in the shape of a residual network: medians over committed seeds.

    python benchmarks/chains.py [--cases 8x4,10x4,18x4@none] [--seeds 1,2,3,4,5] [--limit 600] [--limits 18x4=90]
                                [--csv OUT.csv] [--output benchmarks/results]

A case is layers x GPUs @ share: the memory lies that share (0.3 unless told) of the way between what an eager pipeline
of the best contiguous stages needs with one batch in flight and with two more batches than GPUs; `none` takes the limit
away. `--output` writes the page chains.md; the machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

from recipes.chain import memory_levels, resnet_like, tightness

import pipeplan
from pipeplan.planners.chain.baselines import best_contiguous
from pipeplan.planners.options import SolveOptions

CASES = "6x2,6x4,8x4,10x4,12x4,15x4,18x4@none,18x4,18x8,24x8,64x4"
TIGHT = 0.3


@dataclass(frozen=True)
class Row:
    case: str
    seed: int
    memory: float | None
    contiguous: float | None
    period: float | None
    bound: float | None
    gap: float | None
    stop: str
    seconds: float


def run(case: str, seed: int, limit_s: float) -> Row:
    size, _, share = case.partition("@")
    layers, gpus = map(int, size.split("x"))
    problem = resnet_like(layers, gpus, seed)
    if share != "none":
        problem = tightness(problem, *memory_levels(problem), float(share or TIGHT))
    stages = best_contiguous(problem)
    begun = time.monotonic()
    result = pipeplan.solve(problem, planner="exact-beaumont", limits=SolveOptions(time_limit_s=limit_s))
    return Row(
        case=case,
        seed=seed,
        memory=problem.memory_bytes,
        contiguous=None if stages is None else stages.period,
        period=result.objective,
        bound=result.bound,
        gap=result.gap,
        stop=str(result.stop),
        seconds=round(time.monotonic() - begun, 2),
    )


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def summary(case: str, rows: list[Row]) -> str:
    """One line of the page's first table."""
    gap, seconds = _median([row.gap for row in rows]), _median([row.seconds for row in rows])
    proven = sum(row.stop == "proven" for row in rows)
    gained = [row.period / row.contiguous for row in rows if row.period is not None and row.contiguous]
    ratio = f"{median(gained):.3f}" if gained else ""
    return f"| {case} | {proven} of {len(rows)} | {_share(gap)} | {seconds:.1f} | {ratio} |"


HEADER = ("| case | proven | gap | s | period / contiguous |", "|---|---|---|---|---|")


def page(rows: list[Row], words: str, load: float) -> str:
    cases = list(dict.fromkeys(row.case for row in rows))
    lines = [
        "# Proofs on chains: measured",
        "",
        "How far `exact-beaumont` comes with random chains in the shape of a residual network.",
        f"Made by `python benchmarks/chains.py {words}`".rstrip() + f" with {os.cpu_count()} cores;",
        f"the load average of the machine was {load:.1f} when it began (0 is an idle machine).",
        "",
        "A case is named by layers x GPUs. Its memory is tight, or without a limit where the name ends in `@none`.",
        "Figures are medians over the seeds. *period / contiguous* is the period divided by that of the best plan in",
        "which each GPU holds consecutive layers; where it is below 1, no such plan is as fast.",
        "",
        *HEADER,
        *(summary(case, [row for row in rows if row.case == case]) for case in cases),
        "",
        "## Each run",
        "",
        "| case | seed | memory | contiguous | period | bound | gap | stop | s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        memory = "none" if row.memory is None else f"{row.memory:g}"
        numbers = ["" if value is None else f"{value:g}" for value in (row.contiguous, row.period, row.bound)]
        cells = [row.case, str(row.seed), memory, *numbers, _share(row.gap), row.stop, f"{row.seconds:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--limits", default="", help="other limits in seconds for some cases: 18x4=90,18x8=90")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


def main() -> None:
    given, load = _arguments(), os.getloadavg()[0]
    limits = dict(item.split("=") for item in given.limits.split(",") if item)
    rows: list[Row] = []
    for case in given.cases.split(","):
        for seed in map(int, given.seeds.split(",")):
            rows.append(run(case, seed, float(limits.get(case, given.limit))))
            print(rows[-1], flush=True)
        print("\n".join([*HEADER, summary(case, [row for row in rows if row.case == case])]), flush=True)
        if given.output:
            given.output.joinpath("chains.md").write_text(
                page(rows, " ".join(sys.argv[1:]), load), encoding="utf-8"
            )
    if given.csv:
        with given.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Row)])
            writer.writeheader()
            writer.writerows(map(asdict, rows))


if __name__ == "__main__":
    sys.exit(main())
