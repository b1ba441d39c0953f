"""`mip-piper`: the selection of stages as a mixed-integer program, behind the common contract."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...instances.base.errors import TooLargeError
from ...instances.staging.problem import FLUSH, StagingProblem, check_question
from ..contract import FLOAT_ROOM, BuiltModel, CommonFormulation, Options, Refuted, Wanted, check_type
from ..family import Family
from .candidates import find_candidates
from .stages import StageBook, positions

if TYPE_CHECKING:
    from .columns import Counts
    from .paths import PathTranslator, TreeTranslator


_SYNCHRONISED = {"paper": "as published", "reference": "once per batch"}


def family(problem: StagingProblem, options: Mapping[str, Any]) -> Family:
    if problem.levels:
        return Family("stages within stages that are differences of downsets, memory counted on all levels")
    semantics = options["semantics"]
    return Family(f"stages that are differences of downsets, weights synchronised {_SYNCHRONISED[semantics]}")


class PiperMip(CommonFormulation):
    """Minimise the largest load of a stage, on any level; with flushes, that times (N + copies - the fewest) / N."""

    def check(self, problem: StagingProblem, options: Options) -> None:
        check_type("mip-piper", problem, StagingProblem)
        check_question(problem, options)

    def contiguity(self, options: Options) -> str:
        return "chain"

    def solvers(self, problem: StagingProblem, options: Options) -> tuple[str, ...]:
        return ("cp-sat", "highs")

    def lower_bound(self, problem: StagingProblem, options: Options) -> float:
        return _bound(_case(problem, options))

    def model(self, problem: StagingProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        case, flushed = _case(problem, options), options.get("objective") == FLUSH
        cutoff, floor = wanted.cutoff, self.lower_bound(problem, options)
        if cutoff is not None and cutoff < floor:
            return Refuted("the devices together have too little time or memory for the stages")
        floor *= 1 - FLOAT_ROOM
        return _build_columns(case, flushed, floor, cutoff)


FORMULATION = PiperMip()


@dataclass(frozen=True, slots=True)
class _Case:
    """What the prices of stages depend on. Problems that differ in their name alone are the same case."""

    digest: str
    semantics: str
    problem: StagingProblem = field(compare=False)


def _case(problem: StagingProblem, options: Options) -> _Case:
    return _Case(problem.hash, options["semantics"], problem)


@lru_cache(maxsize=4)
def _book(case: _Case) -> StageBook:
    """The book of a case, kept so that stages are priced once for all cut-offs and for backends side by side."""
    return StageBook(case.problem, case.semantics)


@lru_cache(maxsize=16)
def _bound(case: _Case) -> float:
    """The lower bound by columns; where there are too many stages to list, the one by the work alone."""
    book = _book(case)
    try:
        return column_bound(book)
    except TooLargeError:
        return work_bound(book)


def _build_columns(case: _Case, flushed: bool, floor: float, cutoff: float | None) -> BuiltModel | Refuted:
    """The model with a column for every stage that a plan within the cut-off may have; `floor` is a lower bound."""
    from .columns import GRID_STEPS, build_columns, counts_of, find_arcs, highest_cost, load_unit
    from .paths import PathTranslator, TreeTranslator

    book = _book(case)
    candidates = find_candidates(book, cutoff, floor)
    if not candidates.columns:
        return Refuted("no path of stages is short enough in devices and micro-batches within memory and cut-off")
    problem = case.problem
    arcs = find_arcs(book, candidates, cutoff)
    if len({arc.level for arc in arcs}) < len(problem.levels) - 1:
        return Refuted("on some level no stage has room for its layers and links that are fast enough")
    highest = highest_cost(candidates, arcs)
    unit = load_unit(floor, highest)
    step = 1.0 / GRID_STEPS
    counts = counts_of(book.most, problem.micro_batches, floor, cutoff, unit, step) if flushed else ()
    paths: PathTranslator | TreeTranslator = PathTranslator(book, candidates, unit, counts)
    if problem.levels:
        paths = TreeTranslator(book, candidates, arcs, unit, counts)
    model = build_columns(book, candidates, unit, counts, arcs)
    size = {
        "suffix_sets": len(candidates.lattice.sets),
        "stages": len({(column.inner, column.outer) for column in candidates.columns}),
        "stage_columns": len(candidates.columns),
        **({"upper_stages": len(arcs)} if problem.levels else {}),
    }
    grids = _grids(model, step)

    def key() -> list[str]:
        return [
            f"column {a}: layers {', '.join(str(problem.layers[v].id) for v in positions(column.members))} on "
            f"{column.t} devices for tensors, {column.d} replicas, {column.cost:g} per micro-batch"
            for a, column in enumerate(candidates.columns)
        ]

    loss = _loss(unit * step, counts, problem.micro_batches)
    return BuiltModel(model, paths.decode, paths.encode, grids, loss, size, key=key)


def _grids(model: Any, step: float) -> dict[str, float]:
    """Steps of the variables: loads on a fine grid, all else that is not binary in whole numbers."""
    families = (("g", 1.0), ("k", 1.0), ("m", 1.0), ("P", step), ("Z", step))
    steps = {"T": step}
    for name, width in families:
        family = model.component(name)
        steps |= {} if family is None else {variable.name: width for variable in family.values()}
    return steps


def _loss(step: float, counts: Counts, batches: int) -> float:
    """What the grid of loads costs at most."""
    return step * max((count.slots / batches for count in counts), default=1.0)


# A lower bound without a solver: the largest load below which the columns already show that there is no plan.


# Relative width of the interval in which the largest such load is known in the end.
PRECISION = 1e-4
# While no bound but 0 is known, the search goes on at this share of the worst load, and of any possible load.
SMALL = 1e-6
# The factor by which the search raises a load that no plan keeps to.
GROWTH = 1.4
# The most steps of bisection: where the bound is 0 no relative precision is ever reached.
MAX_STEPS = 50


def work_bound(book: StageBook) -> float:
    """The devices share at best all device time, the replicas all time; what cannot run at all counts nothing."""
    work, time = (math.fsum(filter(math.isfinite, values)) for values in (book.least_work, book.least_time))
    return max(work / book.capacity, time / book.most)


def column_bound(book: StageBook) -> float:
    """The bound of the work, raised by bisection; of an infeasible problem it is the bound of the work."""
    worst = book.worst_load
    low = work_bound(book)
    high = low or SMALL * worst
    while not _possible(book, high):
        if high > worst:
            return work_bound(book)
        low, high = high, GROWTH * high
    for _ in range(MAX_STEPS):
        if high - low <= PRECISION * high:
            break
        middle = (low + high) / 2 if low else SMALL * high
        if _possible(book, middle):
            high = middle
        else:
            low = middle
    return low


def _possible(book: StageBook, load: float) -> bool:
    return bool(find_candidates(book, load, load).columns)
