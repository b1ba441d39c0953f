"""Make `instances/packaged/best_known.csv` anew: every variant of every packaged instance, by a method of its kind.

    python benchmarks/best_known.py [--time-limit 120] [--threads 2] [--only NAME] [--placements lns]

What an earlier run knew of the same problem is kept where it is better, value and bound each. A contiguous placement is
also one of the other variant, and a bound on any placement one on contiguous ones: either may settle the other's row.
Stagings have a value for either semantics of weight synchronisation, graph pipelines one for either objective. Chains
are not solved here: what is proved of them stands in their recipes, and what else is known is kept. `--placements`
names a planner that seeks placements in the place of the integer program: what it finds stands in the table as its own.

`benchmarks/proofs_page.py` says how near to these values each release comes.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import sys
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from functools import reduce
from pathlib import Path
from typing import Any

from packaged_instances import variants_of
from recipes.chain import known_chains, theory

import pipeplan
from pipeplan.instances.base.result import PROVEN_TOLERANCE, Stop, relative_gap
from pipeplan.instances.catalogue import BestKnown, best_known
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.instances.registry import Problem

TARGET = Path(__file__).parent.parent / "instances" / "packaged" / "best_known.csv"
COLUMNS = tuple(field.name for field in fields(BestKnown))
METHODS = {
    "placement": {"formulation": "ip-tarnawski"},
    "staging": {"planner": "dp-piper"},
    "graph-pipeline": {"planner": "graphpipe"},
    "schedule": {"planner": "exact-schedule"},
    "training": {"planner": "exact-configuration"},
}
PLANS_OF = {"graph-pipeline": {"formulation": "cp-graphpipe"}}
"""Whose plans count as well, but not their bounds, which are for some stages alone."""
OBJECTIVES = {"placement": "max-load", "staging": "time-per-micro-batch", "training": "iteration"}
"""Of graph pipelines and schedules the variant is the objective."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=120.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="instances with this in their name; the others' rows are kept")
    parser.add_argument("--placements", metavar="PLANNER", help="who seeks placements (default: ip-tarnawski)")
    arguments = parser.parse_args()
    limits = pipeplan.SolveOptions(time_limit_s=arguments.time_limit, threads=arguments.threads)
    if arguments.placements:
        METHODS["placement"] = {"planner": arguments.placements}
    refresh(limits, arguments.only)


def refresh(limits: pipeplan.SolveOptions, only: str) -> None:
    rows: list[BestKnown] = []
    for name in pipeplan.packaged_names():
        known = _rows(pipeplan.load_packaged(name), limits if only in name else None)
        rows += known
        for row in known:
            print("  ".join(_cells(row).values()), flush=True)
    _write(rows)


def _rows(problem: Problem, limits: pipeplan.SolveOptions | None) -> list[BestKnown]:
    """What is known of one instance, after solving it where limits are given."""
    if problem.kind == "chain":
        return _rows_of_chain(problem)
    rows = []
    for variant in variants_of(problem):
        # Times of configurations are those of this release's model: what an earlier one found is no value of this one.
        earlier = None if problem.kind == "training" and limits else _earlier(problem, variant)
        found = [] if limits is None else [_solve(problem, variant, method, limits) for method in _methods(problem)]
        known = [row for row in (earlier, *found) if row]
        rows += [reduce(_better, known)] if known else []
    return _settled(*rows) if problem.kind == "placement" and len(rows) == 2 else rows


def _methods(problem: Problem) -> list[dict[str, str]]:
    return [METHODS[problem.kind], *([PLANS_OF[problem.kind]] if problem.kind in PLANS_OF else [])]


def _earlier(problem: Problem, variant: str) -> BestKnown | None:
    """What was known of the instance, unless it has changed."""
    earlier = best_known(problem.name, variant)
    return earlier if earlier is not None and earlier.hash == problem.hash else None


def _rows_of_chain(problem: ChainProblem) -> list[BestKnown]:
    proved = {
        variant: BestKnown(
            problem.name, variant, "period", value, value, True, known.source, "", known.problem.hash
        )
        for known in known_chains()
        if known.name == problem.name
        for variant, value in known.answers.items()
    }
    rows = (proved.get(variant) or _earlier(problem, variant) for variant in theory.VARIANTS)
    return [row for row in rows if row]


def _solve(
    problem: Problem, variant: str, method: dict[str, str], limits: pipeplan.SolveOptions
) -> BestKnown | None:
    result = pipeplan.solve(problem, **method, options=options_of(problem.kind, variant), limits=limits)
    if result.stop is Stop.ERROR or not result.verified or result.objective is None or result.bound is None:
        # Half a run is no knowledge, even where its plan would do.
        reasons = "; ".join(result.messages)
        print(f"{problem.name}, {variant}: not taken ({result.stop}): {reasons}", file=sys.stderr)
        return None
    return BestKnown(
        instance=problem.name,
        variant=variant,
        objective=OBJECTIVES.get(problem.kind, variant),
        value=result.objective,
        bound=0.0 if method in PLANS_OF.values() else result.bound,
        proven=False,
        source=next(iter(method.values())),
        date=datetime.date.today().isoformat(),
        hash=problem.hash,
    )


def options_of(kind: str, variant: str) -> dict[str, Any]:
    if kind == "placement":
        return {"non_contiguous": variant == "non-contiguous"}
    if kind == "training":
        return {}
    return {"semantics" if kind == "staging" else "objective": variant}


def _better(earlier: BestKnown, found: BestKnown) -> BestKnown:
    """The better value and the better bound; the source and the date are those of the value."""
    winner = found if found.value < earlier.value else earlier
    return replace(winner, bound=max(earlier.bound, found.bound))


def _settled(chain: BestKnown, free: BestKnown) -> list[BestKnown]:
    if chain.value < free.value:
        free = replace(free, value=chain.value, source=f"{chain.source} (contiguous)", date=chain.date)
    return [replace(chain, bound=max(chain.bound, free.bound)), free]


def _cells(row: BestKnown) -> dict[str, str]:
    """As written: a bound above the value by rounding alone is cut to it."""
    if row.value is None or row.bound is None:
        return {**asdict(row), "value": "", "bound": "", "proven": "yes" if row.proven else "no"}
    bound = min(row.bound, row.value)
    gap = relative_gap(row.value, bound)
    proven = gap is not None and gap <= PROVEN_TOLERANCE
    changed = {"value": repr(float(row.value)), "bound": repr(float(bound)), "proven": "yes" if proven else "no"}
    return {**asdict(row), **changed}


def _write(rows: Iterable[BestKnown]) -> None:
    with TARGET.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(_cells, rows))


if __name__ == "__main__":
    main()
