"""Make `instances/packaged/graphs/best_known.csv` anew: every packaged graph pipeline, both objectives, by `graphpipe`.

    python benchmarks/best_known_graphs.py

What an earlier run knew of the same problem is kept where it is better.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path

import pipeplan
from pipeplan.instances.graph_pipeline.catalogue import (
    GRAPH_OBJECTIVES,
    BestTime,
    best_time,
    load_packaged_graph,
    packaged_graph_names,
)
from pipeplan.instances.result import PROVEN_TOLERANCE

TARGET = Path(__file__).parent.parent / "instances" / "packaged" / "graphs" / "best_known.csv"
METHOD = "graphpipe"


def main() -> None:
    rows = [_row(name, objective) for name in packaged_graph_names() for objective in GRAPH_OBJECTIVES]
    for row in rows:
        print("  ".join(_cells(row).values()), flush=True)
    _write(rows)


def _row(name: str, objective: str) -> BestTime:
    problem = load_packaged_graph(name)
    result = pipeplan.solve(problem, planner=METHOD, options={"objective": objective})
    if not result.verified or result.objective is None:
        raise SystemExit(f"{name}, {objective}: {result.stop}: {'; '.join(result.messages)}")
    bound = result.bound or 0.0
    earlier = best_time(name, objective)
    if earlier is not None and earlier.hash == problem.hash and earlier.value <= result.objective:
        bound = max(bound, earlier.bound or 0.0)
        return BestTime(name, objective, earlier.value, bound, _met(earlier.value, bound), earlier.source, problem.hash)
    return BestTime(name, objective, result.objective, bound, _met(result.objective, bound), METHOD, problem.hash)


def _met(value: float, bound: float) -> bool:
    return value - bound <= PROVEN_TOLERANCE * value


def _cells(row: BestTime) -> dict[str, str]:
    exact = {"value": repr(row.value), "bound": "" if row.bound is None else repr(row.bound)}
    return {**asdict(row), **exact, "proven": "yes" if row.proven else "no"}


def _write(rows: Iterable[BestTime]) -> None:
    with TARGET.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(BestTime)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(_cells(row) for row in rows)


if __name__ == "__main__":
    main()
