"""Do published recipes stand in the list of what may be fastest, and how short is that list?

    python benchmarks/training_lists.py published_recipes.csv [--error 0.1]

The newest row of each GPU, number format and family of models calibrates the efficiencies and is left out. Searches of
all spaces take some minutes together.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training_time import Row, calibration, read_rows, time_rows

from pipeplan.instances.training.scope import Scope
from pipeplan.planners.training.search import Search, Settings

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

    @property
    def met(self) -> bool:
        """Is it in a list that says something?"""
        return self.stands and self.entries <= SHARE * self.fit


def list_rows(path: Path, error: float = 0.1) -> Iterator[Listed]:
    """One for each recipe that is left out of the calibration."""
    efficiencies = time_rows([path]).efficiencies
    rows = [row for row in read_rows(path) if isinstance(row, Row)]
    used = calibration(rows)
    for row in rows:
        if row.case in used:
            continue
        problem = row.problem.replace(efficiencies=efficiencies[row.group])
        report = Search(problem, Scope(), Settings(error=error)).run()
        asked = row.plan.degrees, row.plan.micro_batch, row.plan.zero
        listed = {(own.plan.degrees, own.plan.micro_batch, own.plan.zero) for own in report.listed}
        yield Listed(row.case, asked in listed, len(listed), report.fit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--error", type=float, default=0.1, help="by which share times may be misjudged")
    given = parser.parse_args()
    rows = []
    for row in list_rows(given.file, given.error):
        rows.append(row)
        share = row.entries / row.fit if row.fit else 0.0
        where = "in the list" if row.stands else "not in the list"
        print(f"{where:16} {row.entries:6} of {row.fit:7} that fit ({share:.1%})  {row.case}", flush=True)
    met = sum(row.met for row in rows)
    print(f"in a list of at most {SHARE:.0%}: {met} of {len(rows)}")


if __name__ == "__main__":
    main()
