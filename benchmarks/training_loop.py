"""The loop from a shortlist to runs and back, on published runs: how long the list is before and after them.

For each batch the runs of *other* batches are fed back, 2, 4 and 8 of them, spread evenly over the file. The tolerance
is the error on runs that were left out of the fit; before any runs it is the usual 5 %, or the error that these runs
show if that is more. `whole` is the list of the whole scope without recomputation, `measured` what is left of the
configurations that were measured at that batch, which are equal work. The fastest measured one has to remain in both.

`python benchmarks/training_loop.py b200_measured.json [--group "B200 llama3-70b"] [--batch 16,32] [--rows 2,4,8]`
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from training_time import Row, read_rows

from pipeplan.instances.physics.efficiencies import USUAL_ERROR, USUAL_MEMORY_ERROR
from pipeplan.instances.training.iteration import timing_of
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.scope import read_scope
from pipeplan.planners.training.measured import Fitted, fitted
from pipeplan.planners.training.runs import Run
from pipeplan.planners.training.search import Search, Settings


@dataclass(frozen=True)
class Line:
    """One batch with so many runs of other batches."""

    batch: int
    rows: int
    error: float
    left_out: int
    whole: int
    measured: int
    of: int
    fastest: str
    is_listed: bool


def loop(rows: Sequence[Row], batch: int, counts: Sequence[int]) -> Iterator[Line]:
    """Before any runs, which have no error but that of the most runs; then with more and more of them."""
    own = equal_work(rows, batch)
    others = [row for row in rows if row.problem.batch != batch]
    most = fed_back(own, others, max(counts))
    before = max(USUAL_ERROR, most.eps_before or 0)
    yield line(own, own[0].problem, batch, 0, before, 0)
    for count in counts:
        found = fed_back(own, others, count)
        problem = own[0].problem.replace(efficiencies=found.efficiencies)
        yield line(own, problem, batch, count, found.eps or before, found.left_out)


def equal_work(rows: Sequence[Row], batch: int) -> list[Row]:
    """Rows of that batch with the shortest sequence that any of them has."""
    own = [row for row in rows if row.problem.batch == batch]
    shortest = min(row.problem.sequence for row in own)
    return [row for row in own if row.problem.sequence == shortest]


def fed_back(own: Sequence[Row], others: Sequence[Row], count: int) -> Fitted:
    """A fit to so many of them, spread evenly."""
    spread = [others[round(i * (len(others) - 1) / max(count - 1, 1))] for i in range(count)]
    runs = [Run(row.problem, row.plan, row.seconds, row.case) for row in spread]
    return fitted(own[0].problem, runs)


def line(own: Sequence[Row], problem: TrainingProblem, batch: int, count: int, error: float, left_out: int) -> Line:
    scope = read_scope(("recompute=none",), ())
    whole = [found.plan for found in Search(problem, scope, Settings(error, USUAL_MEMORY_ERROR)).run().listed]
    times = {
        row.case: timing_of(row.problem.replace(efficiencies=problem.efficiencies), row.plan).seconds for row in own
    }
    limit = (1 + error) / (1 - error) * min(times.values())
    listed = [case for case, seconds in times.items() if seconds <= limit]
    fastest = min(own, key=lambda row: row.seconds)
    kept = fastest.case in listed and any(choice(plan) == choice(fastest.plan) for plan in whole)
    return Line(batch, count, error, left_out, len(whole), len(listed), len(times), fastest.case, kept)


def choice(plan: Configuration) -> tuple[object, ...]:
    """What a list has one entry for."""
    return plan.degrees, plan.micro_batch, plan.zero


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--group", default="B200 llama3-70b")
    parser.add_argument("--batch", default="16,32")
    parser.add_argument("--rows", default="2,4,8")
    given = parser.parse_args()
    rows = [row for row in read_rows(given.file) if isinstance(row, Row) and row.group == given.group]
    print(
        "| batch | runs fed back | tolerance | left out | whole | measured | the fastest measured one | in the list |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for batch in map(int, given.batch.split(",")):
        for own in loop(rows, batch, [int(text) for text in given.rows.split(",")]):
            print(
                f"| {own.batch} | {own.rows} | {own.error:.1%} | {own.left_out} | {own.whole} "
                f"| {own.measured} of {own.of} | {own.fastest} | {'yes' if own.is_listed else 'NO'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
