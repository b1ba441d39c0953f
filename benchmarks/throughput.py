"""Proofs on the published throughput inputs: value, bound, gap and seconds beside the paper's figures.

    python benchmarks/throughput.py --workloads DIR [--gap 0.01] [--threads 2] [--only bert] [--csv OUT.csv]

The inputs are the user's own copy of the published ones (folders `layer/` and `operator/`). The paper's runs
used a commercial solver on 4 cores of another machine and stopped at 20 minutes.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path

import pipeplan

PAPER = {
    "layer/bert24_inference": (17.79, 17.71),
    "layer/bert24_training": (41.75, 39.79),
    "layer/gnmt_inference": (32.91, 31.68),
    "layer/gnmt_training": (107.00, 88.47),
    "layer/inceptionv3_inference": (51.55, 51.52),
    "layer/inceptionv3_training": (122.76, 117.72),
    "layer/resnet50_inference": (33.77, 33.31),
    "layer/resnet50_training": (78.63, 76.65),
    "operator/bert_l-3_inference": (27.92, 21.91),
    "operator/bert_l-3_training": (65.30, 54.21),
    "operator/bert_l-6_inference": (29.58, 28.33),
    "operator/bert_l-6_training": (72.86, 71.64),
    "operator/bert_l-12_inference": (147.48, 130.03),
    "operator/bert_l-12_training": (438.00, 373.42),
    "operator/resnet50_inference": (124.35, 124.35),
    "operator/resnet50_training": (255.19, 255.19),
}
"""Contiguous and non-contiguous values of the paper's Table 1."""

LIMITS_S = {("layer", False): 30, ("operator", False): 30, ("layer", True): 60, ("operator", True): 300}
"""What we ask of ourselves, by kind of graph and whether devices may hold any set of nodes."""

COLUMNS = ("input", "variant", "value", "bound", "gap", "stop", "seconds", "allowed_s", "paper", "value_to_paper")


def main() -> int:
    arguments = _parser().parse_args()
    rows = []
    print("  ".join(f"{name:>12}" for name in COLUMNS), flush=True)
    for path in sorted(arguments.workloads.glob("*/*.json")):
        if arguments.only in str(path):
            for non_contiguous in (False, True):
                rows.append(_run(path, non_contiguous, arguments))
                print("  ".join(f"{_text(rows[-1][name]):>12}" for name in COLUMNS), flush=True)
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    late = [
        row for row in rows if row["seconds"] > row["allowed_s"] or row["gap"] is None or row["gap"] > arguments.gap
    ]
    print(f"{len(rows) - len(late)} of {len(rows)} proven to a gap of {arguments.gap:g} in time")
    return 1 if late else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", type=Path, required=True, help="the folder with layer/ and operator/")
    parser.add_argument("--gap", type=float, default=0.01)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="a part of the file names")
    parser.add_argument("--csv", type=Path, help="write the table here, too")
    return parser


def _run(path: Path, non_contiguous: bool, arguments: argparse.Namespace) -> dict[str, object]:
    name = f"{path.parent.name}/{path.stem.lower()}"
    allowed = LIMITS_S[path.parent.name, non_contiguous]
    began = time.perf_counter()
    result = pipeplan.solve(
        pipeplan.load(path),
        formulation="ip-tarnawski",
        options={"non_contiguous": non_contiguous},
        limits=pipeplan.SolveOptions(time_limit_s=2.0 * allowed, rel_gap=arguments.gap, threads=arguments.threads),
    )
    paper = PAPER.get(name, (None, None))[non_contiguous]
    value = result.objective
    return {
        "input": name,
        "variant": "any" if non_contiguous else "contiguous",
        "value": value,
        "bound": result.bound,
        "gap": result.gap,
        "stop": str(result.stop),
        "seconds": time.perf_counter() - began,
        "allowed_s": allowed,
        "paper": paper,
        "value_to_paper": value / paper if paper and value is not None else None,
    }


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "-" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
