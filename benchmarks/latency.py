"""Latency of the published inputs: planners beside the published greedy, the bound by divided paths, and the proof.

    python benchmarks/latency.py --workloads DIR [--limit 60] [--threads 2] [--subgraphs 1 2] [--only bert] [--csv F]
    python benchmarks/latency.py --workloads DIR --larger benchmarks/results/latency.md [--seeds 0 1 2] [--only NAME]

The inputs are the user's own copy of the published ones (a folder of JSON files). The published greedy's values were
obtained by running it. The second form measures larger inputs, and writes their table into the page.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import latency_larger

import pipeplan

PUBLISHED_GREEDY = {"bert24_inference": 100.219, "gnmt_inference": 268.5, "bert_l-3_inference": 416.204}

PLANNERS = ("latency-cpu", "latency-greedy", "latency-linear-dp", "latency-dp", "latency-partition", "latency-lns")

EXACT = "ip-tarnawski-latency"

COLUMNS = ("input", "subgraphs", "method", "value", "bound", "gap", "stop", "seconds", "greedy", "value_to_greedy")


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.larger:
        return _larger(arguments)
    rows = []
    print("  ".join(f"{name:>15}" for name in COLUMNS), flush=True)
    for row in _rows(arguments):
        rows.append(row)
        print("  ".join(f"{_text(row[name]):>15}" for name in COLUMNS), flush=True)
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    worse = [row for row in rows if row["method"] == EXACT and (row["value_to_greedy"] or 0) > 1 + 1e-5]
    return 1 if worse else 0


def _larger(arguments: argparse.Namespace) -> int:
    setting = {name: getattr(arguments, name) for name in ("limit", "threads", "seeds")}
    rows = []
    print("  ".join(latency_larger.COLUMNS), flush=True)
    for row in latency_larger.measure(arguments.workloads, only=arguments.only, **setting):
        rows.append(row)
        print("  ".join(row.cells()), flush=True)
        latency_larger.write(arguments.larger, row, **setting)
    return 0 if all(row.sound and row.verified for row in rows) else 1


def _rows(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    for path in sorted(arguments.workloads.glob("*.json")):
        if arguments.only in path.stem:
            for pieces in arguments.subgraphs:
                for planner in PLANNERS:
                    yield _run(path, pieces, planner, arguments)
                yield _run(path, pieces, EXACT, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", type=Path, required=True, help="the folder with the latency inputs")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--subgraphs", type=int, nargs="+", default=[1], help="subgraphs per device")
    parser.add_argument("--only", default="", help="a part of the file names")
    parser.add_argument(
        "--larger", type=Path, metavar="PAGE", help="measure larger inputs instead; PAGE has the table"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the searches in larger inputs")
    parser.add_argument("--csv", type=Path, help="write the table here, too")
    return parser


def _run(path: Path, pieces: int, method: str, arguments: argparse.Namespace) -> dict[str, object]:
    began = time.perf_counter()
    names = {"formulation": method} if method == EXACT else {"planner": method}
    result = pipeplan.solve(
        pipeplan.load(path),
        **names,
        options={"subgraphs_per_device": pieces},
        limits=pipeplan.SolveOptions(time_limit_s=arguments.limit, threads=arguments.threads),
    )
    greedy = PUBLISHED_GREEDY.get(path.stem.lower())
    value = result.objective
    return {
        "input": path.stem,
        "subgraphs": pieces,
        "method": method,
        "value": value,
        "bound": result.bound,
        "gap": result.gap,
        "stop": str(result.stop),
        "seconds": time.perf_counter() - began,
        "greedy": greedy,
        "value_to_greedy": value / greedy if greedy and value is not None else None,
    }


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "-" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
