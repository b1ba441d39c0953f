"""Proofs on random chains in the shape of a residual network: medians over committed seeds.

    python benchmarks/chains.py [--sizes 8x4,10x4] [--seeds 1,2,3,4,5] [--share 0.3] [--limit 600] [--csv OUT.csv]

The memory lies `share` of the way between what an eager pipeline of the best contiguous stages needs with one batch
in flight and with two more batches than GPUs; `--share none` takes the limit away.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from statistics import median

import pipeplan
from pipeplan.instances.chains.recipe import resnet_like, tightness
from pipeplan.planners.beaumont.contiguous import best_contiguous
from pipeplan.planners.beaumont.eager import memory_levels
from pipeplan.planners.options import SolveOptions

COLUMNS = ("size", "seed", "memory", "contiguous", "period", "bound", "gap", "stop", "seconds")


def run(size: str, seed: int, share: float | None, limit_s: float) -> dict[str, object]:
    layers, gpus = map(int, size.split("x"))
    problem = resnet_like(layers, gpus, seed)
    if share is not None:
        problem = tightness(problem, *memory_levels(problem), share)
    stages = best_contiguous(problem)
    begun = time.monotonic()
    result = pipeplan.solve(problem, planner="exact-beaumont", limits=SolveOptions(time_limit_s=limit_s))
    return {
        "size": size,
        "seed": seed,
        "memory": problem.memory_bytes,
        "contiguous": None if stages is None else stages.period,
        "period": result.objective,
        "bound": result.bound,
        "gap": result.gap,
        "stop": str(result.stop),
        "seconds": round(time.monotonic() - begun, 2),
    }


def summary(size: str, rows: list[dict[str, object]]) -> str:
    gaps = [row["gap"] for row in rows if isinstance(row["gap"], float)]
    seconds = [row["seconds"] for row in rows if isinstance(row["seconds"], float)]
    proven = sum(row["stop"] == "proven" for row in rows)
    gap = f"{median(gaps):.1%}" if gaps else "-"
    return f"{size}: {proven} of {len(rows)} proven, median gap {gap}, median {median(seconds):.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="8x4,10x4")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--share", default="0.3")
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--csv")
    wishes = parser.parse_args()
    share = None if wishes.share == "none" else float(wishes.share)
    rows: list[dict[str, object]] = []
    for size in wishes.sizes.split(","):
        for seed in map(int, wishes.seeds.split(",")):
            rows.append(run(size, seed, share, wishes.limit))
            print("  ".join(f"{name} {rows[-1][name]}" for name in COLUMNS), flush=True)
        print(summary(size, [row for row in rows if row["size"] == size]), flush=True)
    if wishes.csv:
        with open(wishes.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
