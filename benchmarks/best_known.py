"""Make `instances/packaged/best_known.csv` anew: every packaged instance, both variants, by the exact planner.

    python benchmarks/best_known.py [--time-limit 120] [--threads 2] [--only NAME]

A value is kept where an earlier run knew a better one, and so is a bound.
"""

from __future__ import annotations

import argparse
import csv
import datetime
from pathlib import Path

import pipeplan
from pipeplan.instances.catalogue import BestKnown, best_known
from pipeplan.instances.result import PROVEN_TOLERANCE, relative_gap

TARGET = Path(__file__).parent.parent / "instances" / "packaged" / "best_known.csv"
COLUMNS = ("instance", "variant", "objective", "value", "bound", "proven", "method", "date")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=120.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    rows = []
    for name in pipeplan.packaged_names():
        for variant in ("contiguous", "non-contiguous"):
            known = best_known(name, variant)
            row = _row(known) if known is not None else None
            if arguments.only in name:
                row = _run(name, variant, known, arguments)
            if row is not None:
                rows.append(row)
                print("  ".join(str(row[column]) for column in COLUMNS), flush=True)
    with TARGET.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _run(name: str, variant: str, known: BestKnown | None, arguments: argparse.Namespace) -> dict[str, object] | None:
    result = pipeplan.solve(
        pipeplan.load_packaged(name),
        formulation="ip-tarnawski",
        options={"non_contiguous": variant == "non-contiguous"},
        limits=pipeplan.SolveOptions(time_limit_s=arguments.time_limit, threads=arguments.threads),
    )
    value, bound = result.objective, result.bound
    if value is None or bound is None:
        return None if known is None else _row(known)
    if known is not None and known.value <= value and known.bound >= bound:
        return _row(known)
    if known is not None:
        value, bound = min(value, known.value), max(bound, known.bound)
    gap = relative_gap(value, bound)
    return {
        "instance": name,
        "variant": variant,
        "objective": "max-load",
        "value": repr(value),
        "bound": repr(bound),
        "proven": "yes" if gap is not None and gap <= PROVEN_TOLERANCE else "no",
        "method": "ip-tarnawski",
        "date": datetime.date.today().isoformat(),
    }


def _row(known: BestKnown) -> dict[str, object]:
    return {
        "instance": known.instance,
        "variant": known.variant,
        "objective": known.objective,
        "value": repr(known.value),
        "bound": repr(known.bound),
        "proven": "yes" if known.proven else "no",
        "method": known.method,
        "date": known.date,
    }


if __name__ == "__main__":
    main()
