"""`mip-piper`: the selection of stages as a mixed-integer program, behind the common contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial

from ...instances.errors import UsageError, show
from ...instances.staging.problem import StagingProblem
from ..contract import FLOAT_ROOM, BuiltModel, CommonFormulation, Options, Refuted, Wanted, check_type
from .bound import column_bound, work_bound
from .candidates import find_candidates
from .paths import PathTranslator
from .stages import StageBook


class PiperMip(CommonFormulation):
    """Minimise the largest load of a stage (time per micro-batch of a pipeline in steady state)."""

    def check(self, problem: StagingProblem, options: Options) -> None:
        check_type("mip-piper", problem, StagingProblem)
        if problem.levels:
            raise UsageError(
                "mip-piper plans for a flat network; remove the levels or choose a planner that takes them."
            )

    def contiguity(self, options: Options) -> str:
        return "chain"

    def solvers(self, problem: StagingProblem, options: Options) -> tuple[str, ...]:
        return ("cp-sat", "highs")

    def lower_bound(self, problem: StagingProblem, options: Options) -> float:
        return _bound(_Case(problem.hash, options["semantics"], problem))

    def next_cutoff(
        self,
        problem: StagingProblem,
        options: Options,
        bound: float | None,
        cutoff: float | None,
        out_of_time: Callable[[], bool],
    ) -> float | None:
        """Where the graph has too many stages to list, the columns of those within a limit are enough for a while."""
        book = _book(_Case(problem.hash, options["semantics"], problem))
        if options["variant"] == "compact" or book.all_stages is not None:
            return cutoff
        if cutoff is not None and book.near_stages.few_within(cutoff) is not None:
            return cutoff
        highest = book.worst_load if cutoff is None else cutoff
        limit = book.near_stages.next_limit(bound or 0.0, highest, out_of_time)
        return cutoff if limit >= highest else limit

    def model(self, problem: StagingProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        case = _Case(problem.hash, options["semantics"], problem)
        cutoff, floor = wanted.cutoff, self.lower_bound(problem, options)
        if cutoff is not None and cutoff < floor:
            return Refuted("the devices together have too little time or memory for the stages")
        floor *= 1 - FLOAT_ROOM
        if options["variant"] == "compact":
            return _build_compact(case, floor, cutoff)
        return _build_columns(case, floor, cutoff)


FORMULATION = PiperMip()


@dataclass(frozen=True, slots=True)
class _Case:
    """What prices depend on; problems that differ in their name alone are one."""

    digest: str
    semantics: str
    problem: StagingProblem = field(compare=False)


@lru_cache(maxsize=4)
def _book(case: _Case) -> StageBook:
    """Stages are priced once for all cut-offs and for backends that work side by side."""
    return StageBook(case.problem, case.semantics)


@lru_cache(maxsize=16)
def _bound(case: _Case) -> float:
    """Where the graph has too many stages to list, that of the work alone."""
    book = _book(case)
    return work_bound(book) if book.all_stages is None else column_bound(book)


def _build_columns(case: _Case, floor: float, cutoff: float | None) -> BuiltModel | Refuted:
    from .columns import build_columns
    from .compact import GRID_STEPS, load_unit

    book = _book(case)
    candidates = find_candidates(book, cutoff, floor)
    if not candidates.columns:
        return Refuted("no path of stages is short enough in devices and micro-batches within memory and cut-off")
    unit = load_unit(floor, max(column.cost for column in candidates.columns))
    paths = PathTranslator(book, candidates, unit)
    model = build_columns(case.problem, candidates, unit)
    step = 1.0 / GRID_STEPS
    grids = {"T": step, **{variable.name: 1.0 for variable in model.g.values()}}
    size = {
        "suffix_sets": len(candidates.lattice.sets),
        "stages": len({(column.inner, column.outer) for column in candidates.columns}),
        "stage_columns": len(candidates.columns),
    }
    return BuiltModel(model, paths.decode, paths.encode, grids, unit * step, size)


def _build_compact(case: _Case, floor: float, cutoff: float | None) -> BuiltModel | Refuted:
    from . import compact_values
    from .compact import GRID_STEPS, CompactModel

    compact = CompactModel(_book(case), floor, cutoff)
    if compact.homeless is not None:
        return Refuted(f"layer {show(compact.homeless)} has no configuration for these devices, memory and cut-off")
    compact.build()
    step = 1.0 / GRID_STEPS
    families = (compact.model.f, compact.model.h, compact.model.s)
    grids = {"T": step, **{variable.name: 1.0 for family in families for variable in family.values()}}
    return BuiltModel(
        compact.model,
        partial(compact_values.decode, compact),
        partial(compact_values.encode, compact),
        grids,
        compact.unit * step,
        {"stage_numbers": len(compact.stages), "settings": len(compact.settings)},
        exclude=partial(compact_values.exclude, compact),
    )
