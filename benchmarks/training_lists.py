"""Do published recipes stand in the list of what may be fastest, and how short is that list?

    python benchmarks/training_lists.py published_recipes.csv [--error 0.1] [--limit 60]

The newest row of each GPU, number format and family of models calibrates the efficiencies and is left out. A recipe
that another measured one of the same problem beats by more than the list's factor belongs in no list: those are counted
apart. Searches of all spaces take some minutes together; one that is cut short may lack a part of its list.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training_time import Row, calibration, read_rows, time_rows

from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.scope import DEGREE_KEYS, Scope
from pipeplan.planners.training.search import Search, Settings
from pipeplan.studies.configure.answer import Answer, Asked

CLOSE = 0.02
SHARE = 0.1
"""Of all that fits: a list that is longer says little."""


@dataclass(frozen=True)
class Listed:
    """One recipe and the list of its problem."""

    case: str
    stands: bool
    """Is its choice of degrees, micro-batch and ZeRO stage in the list?"""
    entries: int
    fit: int
    ratio: float
    """By the model: the least time of its choice, of what may fit, over the least of all."""
    beaten: float
    """Its measured time over the least measured one of the same problem."""
    finished: bool
    near: float | None = None
    """The share by which the model's time of its choice differs from the nearest family that plan configure prints."""

    @property
    def met(self) -> bool:
        """Is it in a list that says something?"""
        return self.stands and self.entries <= SHARE * self.fit


def list_rows(path: Path, error: float = 0.1, limit_s: float = math.inf) -> Iterator[Listed]:
    """One for each recipe that is left out of the calibration."""
    efficiencies = time_rows([path]).efficiencies
    rows = [row for row in read_rows(path) if isinstance(row, Row)]
    used = calibration(rows)
    fastest: dict[str, float] = {}
    for row in rows:
        fastest[row.problem.hash] = min(row.seconds, fastest.get(row.problem.hash, row.seconds))
    for row in rows:
        if row.case in used:
            continue
        problem = row.problem.replace(efficiencies=efficiencies[row.group])
        end = time.process_time() + limit_s
        report = Search(
            problem, Scope(), Settings(error=error), out_of_time=lambda end=end: time.process_time() > end
        ).run()
        asked = row.plan.degrees, row.plan.micro_batch, row.plan.zero
        listed = {(own.plan.degrees, own.plan.micro_batch, own.plan.zero) for own in report.listed}
        least = min((own.seconds for own in Search(problem, only(row.plan)).run().listed), default=math.inf)
        ratio = least / report.best.seconds if report.best is not None else math.inf
        beaten = row.seconds / fastest[row.problem.hash]
        answer = Answer(problem, Asked(error), report=report)
        shown = [] if answer.cover is None else answer.printed
        near = min((abs(least / answer.families[i].best.seconds - 1) for i in shown), default=None)
        yield Listed(row.case, asked in listed, len(listed), report.fit, ratio, beaten, report.finished, near)


def only(plan: Configuration) -> Scope:
    """Its choice of degrees, micro-batch and ZeRO stage, whatever the layout and recomputation are."""
    degrees = {key: getattr(plan.degrees, name) for key, name in DEGREE_KEYS.items()}
    fixed = {**degrees, "micro-batch": plan.micro_batch, "zero": plan.zero}
    return Scope({key: str(value) for key, value in fixed.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--error", type=float, default=0.1, help="by which share times may be misjudged")
    parser.add_argument("--limit", type=float, default=math.inf, help="processor seconds of each search")
    given = parser.parse_args()
    rows = []
    for row in list_rows(given.file, given.error, given.limit):
        rows.append(row)
        share = row.entries / row.fit if row.fit else 0.0
        where = "in the list" if row.stands else "not in the list"
        near = "   -" if row.near is None else f"{row.near:5.1%}"
        size = f"{row.entries:6} of {row.fit:7} that fit ({share:.1%})"
        end = "" if row.finished else " (cut short)"
        print(f"{where:16} {size}  {row.ratio:6.3f} {row.beaten:6.3f} {near}  {row.case}{end}", flush=True)
    print(
        "numbers: by the model over the best of all, measured over the best measured one of the same problem, and how "
        "far it is by the model from the nearest family that is printed"
    )
    factor = Settings(error=given.error).ratio
    for what, own in (("all", rows), ("not beaten", [row for row in rows if row.beaten <= factor])):
        print(f"in a list of at most {SHARE:.0%}, {what}: {sum(row.met for row in own)} of {len(own)}")
    fit = [row for row in rows if row.beaten <= factor and math.isfinite(row.ratio)]
    near = sum(row.near is not None and row.near <= CLOSE for row in fit)
    print(f"may fit, not beaten, and within {CLOSE:.0%} of a printed family: {near} of {len(fit)}")


if __name__ == "__main__":
    main()
