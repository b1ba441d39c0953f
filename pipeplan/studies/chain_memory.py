"""`plan pareto`: period against memory for chains, every method at every memory limit.

An exact search starts from the best plan so far that fits; where that plan meets a bound, nothing is searched.

The journal is the file from which an interrupted sweep continues: its first line names the problem, the settings and
the versions of this program and of solvers; each further line holds one finished piece of work.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ..formulations.beaumont.fixed_allocation import Known
from ..formulations.beaumont.integer_chain import integer_chain
from ..formulations.registry import FORMULATIONS
from ..instances.base.clock import now
from ..instances.base.errors import InputError, UsageError, did_you_mean, show
from ..instances.base.fields import as_list, as_number, as_object, join, require, require_list, require_object
from ..instances.base.json_file import csv_cell, write_text_atomically
from ..instances.base.result import Result, Stop
from ..instances.chain.plan import PatternPlan, canonical
from ..instances.chain.problem import ChainProblem
from ..instances.physics.tolerances import SAME
from ..planners.backends.client import Solver
from ..planners.chain import exact
from ..planners.chain.allocation import coarse_steps
from ..planners.chain.baselines import best_contiguous, pipedream_points
from ..planners.chain.baselines import pareto as measured_front
from ..planners.chain.schedule import fit, pattern
from ..planners.memory.smallest import smallest_memory
from ..planners.options import SolveOptions
from ..planners.run.solve import solve
from .journal import Journal, line_of, versions
from .sweep import (
    MOST_POINTS,
    Candidate,
    CurvePoint,
    Sweep,
    Watch,
    bound_at,
    columns,
    measured,
    no_more_than,
    proven,
    with_bounds_from_above,
    with_plans_from_below,
)

SCHEMA = "pipeplan.pareto/1"
ANEW = "name another file, or start anew with --no-resume"
PIPEDREAM = "pipedream-eager"
# Methods whose bounds hold for every pattern with one batch per period.
EXACT_METHODS = ("exact-beaumont", "ilp-beaumont", "cp-beaumont")
BASELINES = ("contiguous", PIPEDREAM, "gpipe", "sync-1f1b")
METHODS = (*EXACT_METHODS, *BASELINES)
DEFAULT_METHODS = ("exact-beaumont", *BASELINES)
# The usual number of points, and the seconds for each.
LEVELS = 8
TIME_LIMIT_S = 60.0
USUAL = SolveOptions(time_limit_s=TIME_LIMIT_S)

# Sources of the plans at both ends.
SMALLEST, UNLIMITED = "one batch after the other", "unlimited"
# Records of a journal: both ends, PipeDream's plans, and a point.
ENDS, RUNS, POINT = "ends", "runs", "point"
# The attribute of `CurvePoint` for each column of a table of points.
COLUMNS = columns(
    "method memory_bytes=limit period=value peak_bytes=need bound gap certified stop found source",
    "batches_per_period seconds",
)
# The least memory of the unlimited optimum is sought up to this share of the memory between both ends,
RESOLUTION = 0.01
# for at most so many seconds,
COMPACT_S = 30.0
# of which each question whether it fits a memory may take this share.
QUESTION_SHARE = 0.1


class NothingKnownError(Exception):
    """No plan is known at an end of the curve, so there is no curve. This is an answer, not a user's mistake."""


# ---- what is asked ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settings:
    """The methods and the limits that are swept, and how long each point may take."""

    levels: int = LEVELS
    chosen: tuple[float, ...] = ()
    """Limits in place of a number of levels."""
    limits: SolveOptions = USUAL
    methods: tuple[str, ...] = DEFAULT_METHODS

    def to_json(self) -> dict[str, Any]:
        """The settings that the journal of a sweep must repeat; the memory limit of solvers is none of them."""
        return {
            "methods": list(self.methods),
            "levels": None if self.chosen else self.levels,
            "memory_bytes": list(self.chosen) or None,
            **{
                name: getattr(self.limits, name)
                for name in ("time_limit_s", "rel_gap", "abs_gap", "threads", "seed")
            },
        }

    def check(self, problem: ChainProblem) -> None:
        """Refuse what has no curve, before any work is done."""
        if not self.chosen and self.levels < 2:
            raise InputError("points", f"is {self.levels}", "give at least 2: both ends of the curve are points")
        if self.levels > MOST_POINTS:
            raise InputError("points", f"is {show(self.levels)}", f"give at most {MOST_POINTS}")
        unknown = [name for name in self.methods if name not in METHODS]
        if unknown:
            guess = did_you_mean(unknown[0], METHODS)
            raise UsageError(
                f"plan pareto knows no method {unknown[0]!r}{guess}; choose from {', '.join(METHODS)}."
            )
        if not self.methods:
            raise UsageError(f"There is no method to compare; choose from {', '.join(METHODS)}.")
        if problem.memory_mode == "strict":
            raise InputError(
                "memory_mode",
                'is "strict", which the exact methods have no model for',
                'take "reserved" with exclusive buffers: such plans never need more than strict memory allows',
            )
        exact.check(problem.replace(memory_bytes=None))


def spread(least: float, most: float, count: int) -> tuple[float, ...]:
    """`count` amounts from `least` to `most`: in equal ratios, as curves are steep on the left; those between the two
    ends are whole numbers of bytes."""
    if least >= most:
        return (most,)
    shares = [i / (count - 1) for i in range(1, count - 1)]
    inner = (least * (most / least) ** share if least > 0 else share * most for share in shares)
    return tuple(sorted({least, most, *(min(float(math.ceil(amount)), most) for amount in inner)}))


def halving(levels: Sequence[float]) -> list[float]:
    """The levels in the order to solve them: both ends, then always the middle between two, which takes plans from
    below and bounds from above."""
    order = [*levels[:1], *levels[1:][-1:]]
    spans = [(0, len(levels) - 1)]
    for low, high in spans:
        middle = (low + high) // 2
        if high - low > 1:
            order.append(levels[middle])
            spans += [(low, middle), (middle, high)]
    return order


# ---- the answer ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ends:
    """The plan that needs the least of what is limited, the best plan without a limit, and the levels."""

    levels: tuple[float, ...]
    """The limits of the points, ascending."""
    least: Candidate
    lower: float
    """A limit below which there is no plan."""
    best: Candidate
    bound: float | None
    """No plan of the curve has a smaller value, whatever the limit; None: unknown."""

    @property
    def least_proven(self) -> bool:
        return self.least.need <= self.lower

    @property
    def best_proven(self) -> bool:
        return proven(self.best.value, self.bound)


@dataclass(frozen=True, slots=True)
class Curve:
    """All points of one sweep, by method and growing limit."""

    problem: ChainProblem
    settings: Settings
    ends: Ends | None
    """Both ends of the curve; None: the sweep was interrupted before they were known."""
    points: tuple[CurvePoint, ...]
    complete: bool
    """Did the sweep reach its end, without an interrupt?"""

    def of(self, method: str) -> tuple[CurvePoint, ...]:
        return tuple(point for point in self.points if point.method == method)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "problem": facts(self.problem),
            "settings": self.settings.to_json(),
            "complete": self.complete,
            **({"smallest": None, "unlimited": None} if self.ends is None else ends_to_json(self.ends)),
            "points": [point.to_json(COLUMNS) for point in self.points],
        }


def facts(problem: ChainProblem) -> dict[str, Any]:
    """The facts by which a curve names its problem, apart from its own limit, which the levels replace."""
    free = problem.replace(memory_bytes=None)
    names = ("kind", "name", "hash", "gpus", "layers", "time_unit")
    return {name: getattr(free, name) for name in names}


def ends_to_json(ends: Ends) -> dict[str, Any]:
    """Both ends, once they are known."""
    best = {
        "period": ends.best.value,
        "bound": ends.bound,
        "peak_bytes": ends.best.need,
        "proven": ends.best_proven,
    }
    return {"smallest": {"memory_bytes": ends.least.need, "proven": ends.least_proven}, "unlimited": best}


def write_csv(curve: Curve, path: str | os.PathLike[str]) -> None:
    """Write one line for each point, with everything except the plan; absent values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, tuple(COLUMNS), lineterminator="\n")
    writer.writeheader()
    for point in curve.points:
        row = {**point.facts(COLUMNS), "certified": "yes" if point.certified else "no"}
        writer.writerow({name: csv_cell(value) for name, value in row.items()})
    write_text_atomically(path, text.getvalue())


# ---- the sweep -------------------------------------------------------------------------------------------------


def sweep(
    problem: ChainProblem,
    settings: Settings | None = None,
    path: str | os.PathLike[str] | None = None,
    resume: bool = True,
    on_progress: Watch = None,
) -> Curve:
    """The curves of a chain, point by point.

    `path` names the journal: each finished point is written there at once, and with `resume` what it holds already is
    not sought again. Everything that can be refused is refused before any work is done.
    """
    settings = settings or Settings()
    settings.check(problem)
    journal = opened(problem, settings, path, resume)
    return Chains(problem.replace(memory_bytes=None), settings, journal, on_progress).curve()


class Chains(Sweep):
    """Every method at every level, after both ends of the curve."""

    def __init__(self, problem: ChainProblem, settings: Settings, journal: Journal, watch: Watch) -> None:
        super().__init__(problem, watch)
        self.settings, self.journal = settings, journal
        self.ends: Ends | None = None
        try:
            self._read_points()
            self.ends = self._stored_ends()
        except InputError as error:  # we write these files ourselves, this version or another one
            raise InputError(error.field, error.problem, ANEW, str(journal.path)) from None

    def curve(self) -> Curve:
        """The answer; an interrupt keeps the points that are done."""
        complete, points = self.run(), list[CurvePoint]()
        if self.ends is not None:
            points = curves(self.points.values(), self.ends, self.candidates, self.settings.methods)
        return Curve(self.problem, self.settings, self.ends, tuple(p.settled() for p in points), complete)

    @property
    def known_ends(self) -> Ends:
        """Both ends, once they are known."""
        assert self.ends is not None
        return self.ends

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """PipeDream's plans, from the journal if it has them, where they are measured anew."""
        for where, line in records_of(self.journal, RUNS):
            rows = as_list(where, require(where, line, "plans"))
            return tuple(self._stored_run(where, as_object(f"{where}.plans", row)) for row in rows)
        candidates = pipedream_front(self.problem)
        plans = [{"source": candidate.source, "plan": candidate.plan.to_json()} for candidate in candidates]
        self.journal.append({"record": RUNS, "plans": plans})
        return candidates

    def seek_ends(self) -> None:
        """Find both ends, unless the journal has them."""
        if self.ends is None:
            ends = self.ends = self._solved_ends()
            plans = {"least": ends.least.plan.to_json(), "best": ends.best.plan.to_json()}
            amounts = {"levels": list(ends.levels), "lower": ends.lower, "bound": ends.bound}
            self.journal.append({"record": ENDS, **amounts, **plans})

    def _solved_ends(self) -> Ends:
        """Search for both ends, and choose the levels."""
        free = self._exact(EXACT_METHODS[0], self.problem, "without a limit", None)
        memory = smallest_memory(self.problem, self.settings.limits, on_progress=self._watcher("the least memory"))
        if Stop.INTERRUPTED in (free.stop, memory.stop):
            raise KeyboardInterrupt
        least = measured(self.problem, memory.plan)
        best = (measured(self.problem, free.plan) if free.verified else None) or least
        least = least or best
        if least is None or best is None:
            raise NothingKnownError(
                f"no plan was found without a memory limit ({free.stop}); give a longer --time-limit"
            )
        if not self.settings.chosen:
            best = _compact(self.problem, best, least.need, self.candidates, self.settings.limits)
        return Ends(
            levels=self.settings.chosen or spread(least.need, best.need, self.settings.levels),
            least=replace(least, source=SMALLEST),
            lower=memory.lower_bytes,
            best=replace(best, source=UNLIMITED),
            bound=no_more_than(free.bound, best.value),
        )

    def keys(self) -> list[tuple[str, float]]:
        """Every method at every level, quick methods first, so that exact ones can start from their plans."""
        methods = sorted(dict.fromkeys(self.settings.methods), key=lambda name: name in EXACT_METHODS)
        return [(method, memory) for method in methods for memory in halving(sorted(self.known_ends.levels))]

    def point(self, method: str, limit: float) -> CurvePoint:
        ends, is_exact = self.known_ends, method in EXACT_METHODS
        if method == PIPEDREAM:
            return CurvePoint(limit, Stop.COMPLETED, best_within(self.candidates, limit), method=method)
        if limit < ends.lower:
            return CurvePoint(limit, Stop.INFEASIBLE, method=method)
        # The best plan so far that fits and that an exact method can start from; others start from nothing.
        start = best_within(single([*self.candidates, *self._plans()]), limit) if is_exact else None
        bound = bound_at((own for own in self.points.values() if own.method == method), limit, ends.bound)
        if start is not None and proven(start.value, bound):
            return CurvePoint(limit, Stop.PROVEN, start, no_more_than(bound, start.value), method)
        what = f"{method} at {limit:.6g} B"
        result = self._exact(method, self.problem.replace(memory_bytes=limit), what, start)
        best = measured(self.problem, result.plan, method) if result.verified else None
        if start is not None and (best is None or start.value <= best.value):
            # A plan that is no better comes from where the start came from.
            best = start if best is None or start.value < best.value else replace(best, source=start.source)
        return CurvePoint(limit, result.stop, best, result.bound, method, messages=result.messages).settled()

    def _plans(self) -> list[Candidate]:
        """The plans of both ends and of all points so far."""
        points = (point.candidate for point in self.points.values())
        return [self.known_ends.least, self.known_ends.best, *(plan for plan in points if plan is not None)]

    def _exact(self, method: str, problem: ChainProblem, what: str, start: Candidate | None) -> Result:
        """The method's answer, from `start` on where there is one: a plan that fits."""
        is_model = method in FORMULATIONS
        return solve(
            problem,
            formulation=method if is_model else None,
            planner=None if is_model else method,
            limits=self.settings.limits,
            # Exact methods number GPUs by their first layers.
            warm_start="none"
            if start is None
            else replace(start.plan, allocation=canonical(start.plan.allocation)),
            on_progress=self._watcher(what),
        )

    def keep(self, point: CurvePoint) -> None:
        if point.stop != Stop.ERROR:  # else the next run may do better
            self.journal.append({"record": POINT, **point.to_json(COLUMNS)})

    def _watcher(self, what: str) -> Watch:
        """Passes progress on with the point that is under way and the time of the whole sweep."""
        watch = self.watch
        if watch is None:
            return None
        count = "" if self.ends is None else f" ({len(self.points) + 1} of {len(self.keys())})"
        return lambda record: watch(replace(record, seconds=now() - self.begun, source=f"{what}{count}"))

    # ---- back from the journal: bounds are as they were proven, everything about plans is recomputed ----

    def _judged(self, where: str, value: Any, source: str, limit: float = math.inf) -> Candidate:
        """The plan of a line, measured anew; an error where the referee rejects it."""
        plan = PatternPlan.from_json(as_object(where, value), where)
        candidate = measured(self.problem, plan, source)
        if candidate is None or candidate.need > limit:
            raise InputError(where, "is rejected by the referee", ANEW)
        return candidate

    def _stored_run(self, where: str, record: Mapping[str, Any]) -> Candidate:
        return self._judged(f"{where}: plan", require_object(where, record, "plan"), str(record.get("source")))

    def _stored_ends(self) -> Ends | None:
        for where, line in records_of(self.journal, ENDS):
            least, best = (
                self._judged(join(where, name), require(where, line, name), source)
                for name, source in (("least", SMALLEST), ("best", UNLIMITED))
            )
            return Ends(
                levels=tuple(as_number(f"{where}: levels", level) for level in require_list(where, line, "levels")),
                least=least,
                lower=min(least.need, as_number(where, require(where, line, "lower"))),
                best=best,
                bound=no_more_than(_number_or_none(where, line, "bound"), best.value),
            )
        return None

    def _read_points(self) -> None:
        for where, line in records_of(self.journal, POINT):
            limit = as_number(where, require(where, line, "memory_bytes"))
            method, word = str(require(where, line, "method")), require(where, line, "stop")
            if word not in tuple(Stop):
                raise InputError(f"{where}: stop", f"is {word!r}", ANEW)
            candidate, source = None, str(line.get("source") or method)
            if line.get("plan") is not None:
                candidate = self._judged(f"{where}: plan", line["plan"], source, limit)
            self.points[method, limit] = CurvePoint(
                limit,
                Stop(word),
                candidate,
                _number_or_none(where, line, "bound"),
                method,
                as_number(where, require(where, line, "seconds")),
                tuple(map(str, as_list(where, line.get("messages", [])))),
            )


# ---- plans that are measured once and then serve every memory that they fit: those of PipeDream and of others ----


def front(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates that no other beats in peak memory and period, by growing memory."""
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.need, c.value)):
        if not kept or candidate.value < kept[-1].value:
            kept.append(candidate)
    return tuple(kept)


def best_within(candidates: Iterable[Candidate], memory_bytes: float) -> Candidate | None:
    """The candidate with the least period that fits; of equal ones that with the smallest peak."""
    fitting = [c for c in candidates if c.need <= memory_bytes]
    return min(fitting, key=lambda c: (c.value, c.need), default=None)


def pipedream_front(problem: ChainProblem) -> tuple[Candidate, ...]:
    """PipeDream's whole Pareto set, as verified plans; its runs do not depend on the memory limit."""
    runs = list(pipedream_points(problem.replace(memory_bytes=None)))
    # A run that never became periodic must not hide the periodic ones behind it.
    chosen = [*measured_front(runs), *measured_front([run for run in runs if run.plan is not None])]
    # Its own pattern, or the best pattern of its stages in the memory that it took.
    plans = (run.plan or best_contiguous(problem.replace(memory_bytes=run.peak), run.borders) for run in chosen)
    measured_plans = (measured(problem, plan, PIPEDREAM) for plan in plans if plan is not None)
    return front(candidate for candidate in measured_plans if candidate is not None)


def single(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """The candidates with one batch per period, the only ones that exact methods can start from."""
    return (candidate for candidate in candidates if candidate.plan.batches_per_period == 1)


# ---- curves: plans hold at every larger memory, bounds at every smaller one ------------------------------------


def curves(
    points: Iterable[CurvePoint], ends: Ends, candidates: Sequence[Candidate], methods: Sequence[str]
) -> list[CurvePoint]:
    """All points by method and growing memory; along a curve neither period nor bound ever grows."""
    everything = list(points)
    answer: list[CurvePoint] = []
    for method in dict.fromkeys(methods):
        own = with_plans_from_below(point for point in everything if point.method == method)
        if method in EXACT_METHODS:
            own = with_bounds_from_above(own, ends.bound)
            own = [_with_several_batches(point, ends, candidates) for point in own]
        answer += own
    return answer


def _with_several_batches(point: CurvePoint, ends: Ends, candidates: Sequence[Candidate]) -> CurvePoint:
    """The point with PipeDream's plan where that is better.

    A plan that repeats after several batches may beat every plan that repeats after one; then the bound is the one that
    holds for any number of batches.
    """
    best = best_within(candidates, point.limit)
    if best is None or (point.value is not None and best.value >= point.value):
        return point
    shown = replace(point, candidate=best)
    if best.plan.batches_per_period == 1:
        return shown
    stop = Stop.COMPLETED if point.certified else point.stop
    return replace(shown, stop=stop, bound=no_more_than(ends.bound, best.value))


# ---- the ends --------------------------------------------------------------------------------------------------


def _compact(
    problem: ChainProblem, best: Candidate, low: float, candidates: tuple[Candidate, ...], limits: SolveOptions
) -> Candidate:
    """Of plans with the unlimited optimum's period, the one with the least memory that is found.

    The optimum itself may hold more than it must: it delays batches as if memory were free.
    """
    stages = best_contiguous(problem)
    offered = None if stages is None else measured(problem, stages, UNLIMITED)
    rivals = [best, *single(candidates), *([] if offered is None else [offered])]
    best = min((r for r in rivals if r.value <= best.value * (1 + SAME)), key=lambda rival: rival.need)
    limit = COMPACT_S if limits.time_limit_s is None else min(COMPACT_S, limits.time_limit_s)
    solver = Solver(now() + limit, limits.seed, limits.memory_limit_bytes)
    question = QUESTION_SHARE * limit
    closeness = RESOLUTION * (best.need - low)
    while best.need - low > closeness and not solver.over():
        middle = (low + best.need) / 2
        smaller = _in_less_memory(problem.replace(memory_bytes=middle), best, solver, question)
        if smaller is None:
            low = middle
        else:
            best = smaller
    return best


def _in_less_memory(
    problem: ChainProblem, best: Candidate, solver: Solver, limit_s: float | None
) -> Candidate | None:
    """A plan with the allocation and period of `best` that fits the problem's smaller memory; None: the solver finds
    none within `limit_s` seconds."""
    chain = integer_chain(problem, coarse_steps(problem))
    period = math.ceil(best.value * float(chain.steps) * (1 - SAME))
    answer = fit(chain, Known.whole(best.plan.allocation), period, solver, limit_s)
    if not answer.fits or answer.values is None:
        return None
    plan = pattern(problem, chain, best.plan.allocation, answer.values)
    candidate = None if plan is None else measured(problem, plan, UNLIMITED)
    as_good = candidate is not None and candidate.value <= best.value * (1 + SAME) and candidate.need < best.need
    return candidate if as_good else None


# ---- the journal -----------------------------------------------------------------------------------------------


def opened(
    problem: ChainProblem, settings: Settings, path: str | os.PathLike[str] | None = None, resume: bool = True
) -> Journal:
    """A journal that continues only with the same problem, settings and versions; without a path nothing is kept."""
    journal = Journal(None if path is None else Path(path), "line of plan pareto", ANEW)
    if journal.path is None:
        return journal
    head = {"schema": SCHEMA, "problem": facts(problem), "settings": settings.to_json(), "made_by": versions()}
    if not resume:
        write_text_atomically(journal.path, line_of(head))
        return journal
    lines = journal.read(partial(as_object, "line"))
    if lines:
        _check_head(lines[0][1], json.loads(line_of(head)), journal.path)
        return journal
    # A run that was killed at once has left the beginning of its first line.
    begun = journal.path.read_text() if journal.exists() else ""
    if not line_of(head).startswith(begun):
        raise InputError("file", "is not a sweep of plan pareto", ANEW, str(path))
    journal.append(head)
    return journal


def _check_head(head: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """Refuse a file of another problem, other settings or other versions; the error names the first difference."""
    if head.get("schema") != SCHEMA:
        raise InputError("schema", f"is not {SCHEMA}", ANEW, str(path))
    problem = head.get("problem")
    if not isinstance(problem, Mapping) or problem.get("hash") != wanted["problem"]["hash"]:
        raise InputError("problem", "differs from the problem that is to be planned", ANEW, str(path))
    for part in ("settings", "made_by"):
        then = head.get(part)
        for name, value in wanted[part].items():
            stored = then.get(name) if isinstance(then, Mapping) else None
            if stored != value:
                raise InputError(f"{part}.{name}", f"is {stored!r} there and {value!r} now", ANEW, str(path))


def records_of(journal: Journal, kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Lines of one kind, each with its place in the file."""
    lines = journal.read(partial(as_object, "line"))
    return [(f"line {number}", line) for number, line in lines if line.get("record") == kind]


def _number_or_none(where: str, line: Mapping[str, Any], key: str) -> float | None:
    return None if line.get(key) is None else as_number(join(where, key), line[key])
