"""Make `instances/packaged/best_known.csv` anew: every packaged instance, both variants, by an exact planner.

    python benchmarks/best_known.py [--time-limit 120] [--threads 2] [--only NAME]

What an earlier run knew of the same problem is kept where it is better, value and bound each. A contiguous plan is
also a plan of the other variant, and a bound on any plan one on contiguous plans: either may settle the other's row.
Stagings have a value for either semantics of weight synchronisation instead, by `dp-piper`.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import sys
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pipeplan
from pipeplan.instances.catalogue import VARIANTS, BestKnown, best_known, load_packaged_staging, staging_variants
from pipeplan.instances.result import PROVEN_TOLERANCE, Stop, relative_gap

TARGET = Path(__file__).parent.parent / "instances" / "packaged" / "best_known.csv"
COLUMNS = tuple(field.name for field in fields(BestKnown))
METHOD, STAGING_METHOD = "ip-tarnawski", "dp-piper"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=120.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="instances with this in their name; the others' rows are kept")
    arguments = parser.parse_args()
    limits = pipeplan.SolveOptions(time_limit_s=arguments.time_limit, threads=arguments.threads)
    rows: list[BestKnown] = []
    names = [*pipeplan.packaged_names(), *pipeplan.packaged_names("staging")]
    for name in sorted(names):
        known = _rows(name, limits if arguments.only in name else None)
        rows += known
        for row in known:
            print("  ".join(_cells(row).values()), flush=True)
    _write(rows)


def _rows(name: str, limits: pipeplan.SolveOptions | None) -> list[BestKnown]:
    """What is known of one instance, after solving it where limits are given."""
    rows = []
    is_staging = name in pipeplan.packaged_names("staging")
    problem: Any
    if is_staging:
        problem = load_packaged_staging(name)
        variants = staging_variants(problem)
    else:
        problem, variants = pipeplan.load_packaged(name), VARIANTS
    for variant in variants:
        earlier = best_known(name, variant)
        if earlier is not None and earlier.hash != problem.hash:
            earlier = None  # the instance has changed
        found = _solve(problem, name, variant, limits) if limits is not None else None
        rows += [_better(earlier, found)] if earlier and found else [row for row in (earlier, found) if row]
    return rows if is_staging or len(rows) < len(variants) else _settled(*rows)


def _solve(problem: Any, name: str, variant: str, limits: pipeplan.SolveOptions) -> BestKnown | None:
    is_staging = problem.kind == "staging"
    how = {"planner": STAGING_METHOD} if is_staging else {"formulation": METHOD}
    options = {"semantics": variant} if is_staging else {"non_contiguous": variant == "non-contiguous"}
    result = pipeplan.solve(problem, **how, options=options, limits=limits)
    if result.stop is Stop.ERROR or not result.verified or result.objective is None or result.bound is None:
        # Half a run is no knowledge, even where its plan would do.
        print(f"{name}, {variant}: not taken ({result.stop}): {'; '.join(result.messages)}", file=sys.stderr)
        return None
    today = datetime.date.today().isoformat()
    return BestKnown(
        instance=name,
        variant=variant,
        objective="time-per-micro-batch" if is_staging else "max-load",
        value=result.objective,
        bound=result.bound,
        proven=False,
        method=STAGING_METHOD if is_staging else METHOD,
        date=today,
        hash=problem.hash,
    )


def _better(earlier: BestKnown, found: BestKnown) -> BestKnown:
    """The better value and the better bound; the method and the date are those of the value."""
    winner = found if found.value < earlier.value else earlier
    return replace(winner, bound=max(earlier.bound, found.bound))


def _settled(chain: BestKnown, free: BestKnown) -> list[BestKnown]:
    if chain.value < free.value:
        free = replace(free, value=chain.value, method=f"{chain.method} (contiguous)", date=chain.date)
    return [replace(chain, bound=max(chain.bound, free.bound)), free]


def _cells(row: BestKnown) -> dict[str, str]:
    """As written: a bound above the value by rounding alone is cut to it."""
    bound = min(row.bound, row.value)
    gap = relative_gap(row.value, bound)
    proven = gap is not None and gap <= PROVEN_TOLERANCE
    changed = {"value": repr(row.value), "bound": repr(bound), "proven": "yes" if proven else "no"}
    return {**asdict(row), **changed}


def _write(rows: Iterable[BestKnown]) -> None:
    with TARGET.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(_cells, rows))


if __name__ == "__main__":
    main()
