"""One sweep for every curve: points over a limit, its two ends, what each point takes from the others, the journal.

A kind of problems says what is limited and how a plan is measured. A plan that keeps a limit keeps every looser one,
and a bound that is proven for a limit holds for every tighter one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ...instances.base.clock import now
from ...instances.base.errors import InputError, UsageError, show
from ...instances.base.fields import require, require_list
from ...instances.base.result import Found, Stop, met, relative_gap
from ...instances.registry import any_plan_from_json, kind_of
from ...planners.options import Progress, SolveOptions
from ..journal import Journal
from .stored import ANEW, SCHEMA, as_it_was, level_of, lines_of, number_of, number_or_none, opened

# More points are no curve that anybody looks at.
MOST_POINTS = 1000
# The usual number of points, and the seconds for each.
LEVELS = 8
TIME_LIMIT_S = 60.0
USUAL = SolveOptions(time_limit_s=TIME_LIMIT_S)
# Records of a journal.
ENDS, POINT = "ends", "point"

Watch = Callable[[Progress], None] | None


class NothingKnownError(Exception):
    """No plan is known at an end of the curve, so there is no curve. This is an answer, not a user's mistake."""


# ---- points ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that the referee accepts without a limit, and what it measures."""

    plan: Any
    value: float
    """The value that is minimised: a time."""
    need: float
    """The amount of what is limited that the plan takes: memory of a device, or GPUs."""
    source: str = ""
    """The method that the plan comes from."""
    bubble: float | None = None
    """Share of the value in which the devices of a schedule idle; None for other plans."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The best plan within one limit, as the referee measures it; absent values are None."""

    limit: float
    stop: Stop
    candidate: Candidate | None = None
    bound: float | None = None
    """No plan within the limit has a smaller value."""
    rival: float | None = None
    """The value of the plan that this one is compared with."""
    method: str = ""
    """The method of the point, on a curve by several methods."""
    seconds: float = field(default=0.0, compare=False)
    messages: tuple[str, ...] = ()

    @property
    def memory_bytes(self) -> float:
        """The limit, as points of `memory_study` call it."""
        return self.limit

    @property
    def plan(self) -> Any:
        return None if self.candidate is None else self.candidate.plan

    @property
    def value(self) -> float | None:
        return None if self.candidate is None else self.candidate.value

    @property
    def need(self) -> float | None:
        return None if self.candidate is None else self.candidate.need

    @property
    def source(self) -> str | None:
        """The method of the plan: an exact method may start from the plan of another one."""
        return None if self.candidate is None else self.candidate.source

    @property
    def bubble(self) -> float | None:
        return None if self.candidate is None else self.candidate.bubble

    @property
    def batches_per_period(self) -> int | None:
        """Batches per period of a chain's plan."""
        return None if self.candidate is None else self.candidate.plan.batches_per_period

    @property
    def gap(self) -> float | None:
        return relative_gap(self.value, self.bound)

    @property
    def certified(self) -> bool:
        """Is the value proven to be the least, or proven that there is no plan?"""
        return self.stop in (Stop.PROVEN, Stop.INFEASIBLE)

    @property
    def found(self) -> Found:
        if self.candidate is None:
            return Found.NOTHING
        return Found.OPTIMAL if self.stop == Stop.PROVEN else Found.FEASIBLE

    def settled(self) -> CurvePoint:
        """The point with the stop `proven` exactly where its value and its bound meet."""
        if self.value is None or self.bound is None:
            return self
        if met(self.value, self.bound):
            return replace(self, stop=Stop.PROVEN)
        return replace(self, stop=Stop.COMPLETED) if self.stop == Stop.PROVEN else self

    def facts(self, columns: Mapping[str, str]) -> dict[str, Any]:
        """Everything except the plan and messages, by the columns of its curve."""
        return {**{name: getattr(self, fact) for name, fact in columns.items()}, "seconds": round(self.seconds, 3)}

    def to_json(self, columns: Mapping[str, str]) -> dict[str, Any]:
        plan = None if self.plan is None else self.plan.to_json()
        return {**self.facts(columns), "messages": list(self.messages), "plan": plan}


def with_plans_from_below(points: Iterable[CurvePoint]) -> list[CurvePoint]:
    """The points by growing limit, where a plan serves at higher limits that have none better."""
    answer: list[CurvePoint] = []
    for point in sorted(points, key=lambda point: point.limit):
        before = answer[-1] if answer else None
        if before is not None and before.value is not None and (point.value is None or before.value < point.value):
            point = replace(point, candidate=before.candidate)
        answer.append(point)
    return answer


def no_more_than(bound: float | None, value: float | None) -> float | None:
    """The bound, lowered to the value of a plan where rounding in a solver has put it above."""
    return bound if bound is None or value is None else min(bound, value)


def with_bounds_from_above(points: Sequence[CurvePoint], bound: float | None) -> list[CurvePoint]:
    """Each point with the best bound that holds for it; `bound` is the one without a limit."""
    answer: list[CurvePoint] = []
    for point in reversed(points):
        bound = max((one for one in (bound, point.bound) if one is not None), default=None)
        if point.stop != Stop.INFEASIBLE:
            bound = no_more_than(bound, point.value)
            point = replace(point, bound=bound)
        answer.append(point)
    return answer[::-1]


def bound_at(points: Iterable[CurvePoint], limit: float, unlimited: float | None) -> float | None:
    """The best bound that is proven for this limit or a looser one; `unlimited` is the one without a limit."""
    bounds = [unlimited, *(point.bound for point in points if point.limit >= limit)]
    return max((bound for bound in bounds if bound is not None), default=None)


def proven(value: float, bound: float | None) -> bool:
    """Is there a bound, and does the value meet it?"""
    return bound is not None and met(value, bound)


# ---- what is asked ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settings:
    """The limits that are swept, the rules, and how long each point may take."""

    levels: int = LEVELS
    chosen: tuple[float, ...] = ()
    """Limits in place of a number of levels."""
    limits: SolveOptions = USUAL
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options by whose rules plans are judged; empty: the usual rules of their kind."""
    methods: tuple[str, ...] | None = None
    """Methods of a curve by several methods; None: the usual ones."""
    axis: str = "memory_bytes"
    """Name of what `chosen` limits."""

    def to_json(self) -> dict[str, Any]:
        """The settings that the journal of a sweep must repeat; the memory limit of solvers is none of them."""
        return {
            **({} if self.methods is None else {"methods": list(self.methods)}),
            "levels": None if self.chosen else self.levels,
            self.axis: list(self.chosen) or None,
            **self.options,
            **{
                name: getattr(self.limits, name)
                for name in ("time_limit_s", "rel_gap", "abs_gap", "threads", "seed")
            },
        }

    def check_levels(self) -> None:
        if not self.chosen and self.levels < 2:
            raise InputError("points", f"is {self.levels}", "give at least 2: both ends of the curve are points")
        if self.levels > MOST_POINTS:
            raise InputError("points", f"is {show(self.levels)}", f"give at most {MOST_POINTS}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asks of the curve."""

    levels: int | None = None
    """Number of limits; None: the usual number."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Options that have a meaning for some kinds only, by name, as far as they were given."""
    limits: SolveOptions = USUAL
    """Limits of the search for each point."""


def places(flag: str, given: Iterable[float] | None, levels: int | None) -> tuple[int, tuple[float, ...]]:
    """The number of levels, and the limits that the user gives in their place."""
    chosen = tuple(sorted(set(given or ())))
    if chosen and levels is not None:
        raise UsageError(f"{flag} and --points both say where the points lie; give one of them.")
    return LEVELS if levels is None else levels, chosen


def between(least: float, most: float, count: int) -> list[float]:
    """The inner ones of `count` amounts from `least` to `most`: in equal ratios, as curves are steep on the left."""
    shares = [i / (count - 1) for i in range(1, count - 1)]
    if least > 0:
        return [least * (most / least) ** share for share in shares]
    return [share * most for share in shares]


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


def facts_of(problem: Any, **own: int) -> dict[str, Any]:
    """The fields by which a curve names its problem."""
    names = {"kind": problem.kind, "name": problem.name, "hash": problem.hash}
    return {**names, **own, "time_unit": problem.time_unit}


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
class Axes:
    """What a kind calls the parts of its curve."""

    columns: Mapping[str, str]
    """The attribute of `CurvePoint` for each column of a table of points."""
    facts: Callable[[Any], dict[str, Any]]
    """Gives the facts of a problem, apart from its own limit, which the levels replace."""
    ends: Callable[[Ends | None], dict[str, Any]]
    """Gives both ends in JSON, of None where the sweep was interrupted before they were known."""

    def column(self, fact: str) -> str | None:
        return next((name for name, of in self.columns.items() if of == fact), None)


@dataclass(frozen=True, slots=True)
class Curve:
    """All points of one sweep, by method and growing limit."""

    problem: Any
    settings: Settings
    ends: Ends | None
    """Both ends of the curve; None: the sweep was interrupted before they were known."""
    points: tuple[CurvePoint, ...]
    complete: bool
    """Did the sweep reach its end, without an interrupt?"""
    axes: Axes

    def of(self, method: str) -> tuple[CurvePoint, ...]:
        return tuple(point for point in self.points if point.method == method)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "problem": self.axes.facts(self.problem),
            "settings": self.settings.to_json(),
            "complete": self.complete,
            **self.axes.ends(self.ends),
            "points": [point.to_json(self.axes.columns) for point in self.points],
        }


# ---- the sweep -------------------------------------------------------------------------------------------------


class Sweep:
    """The state of one sweep: both ends first, then its points in an order in which each helps the next."""

    axes: ClassVar[Axes]

    def __init__(self, problem: Any, settings: Settings, journal: Journal, watch: Watch) -> None:
        self.problem, self.settings, self.journal, self.watch = problem, settings, journal, watch
        try:
            self.points, self.ends = self._stored_points(), self._stored_ends()
        except InputError as error:  # we write these files ourselves, this version or another one
            raise InputError(error.field, error.problem, ANEW, str(journal.path)) from None
        self.interrupted = False
        self.begun = now()

    @classmethod
    def settings_for(cls, problem: Any, asked: Asked) -> Settings:
        """The settings that the user asks for, with the usual values for all others."""
        return Settings(*places("--memory", asked.own.get("memory"), asked.levels), asked.limits)

    @classmethod
    def check(cls, problem: Any, settings: Settings) -> None:
        """Refuse problems and settings without a curve, before any work is done."""
        raise NotImplementedError

    @classmethod
    def free(cls, problem: Any) -> Any:
        """The problem without a limit of its own."""
        return kind_of(problem).with_memory(problem, None)

    def shown(self, asked: Any) -> Any:
        """The problem that the answer names."""
        return self.problem

    def measured(self, plan: Any, source: str = "") -> Candidate | None:
        """The plan with the referee's numbers; None for no plan, or one that breaks a rule at any limit."""
        raise NotImplementedError

    def fits(self, candidate: Candidate, limit: float) -> bool:
        """Does the plan keep the limit, as the referee judges it?"""
        raise NotImplementedError

    def solved_ends(self) -> Ends:
        """Search for both ends, and choose the levels."""
        raise NotImplementedError

    def point(self, method: str, limit: float, ends: Ends) -> CurvePoint:
        """Search for one point, with the help of the points so far."""
        raise NotImplementedError

    def least_of(self, plan: Any) -> Candidate | None:
        """The plan that needs the least, measured; it may break rules that other plans keep."""
        return self.measured(plan)

    def best_of(self, plan: Any) -> Candidate | None:
        """The best plan without a limit, measured."""
        return self.measured(plan)

    def keys(self, ends: Ends) -> list[tuple[str, float]]:
        """Method and limit of each point, in the order in which they are sought."""
        return [("", limit) for limit in halving(sorted(ends.levels))]

    def along_curves(self, ends: Ends) -> list[CurvePoint]:
        """The points after each has taken what is known from the others."""
        return with_bounds_from_above(with_plans_from_below(self.points.values()), ends.bound)

    def curve(self, asked: Any) -> Curve:
        """The answer; an interrupt keeps the points that are done."""
        complete = self._run()
        points = [] if self.ends is None else self.along_curves(self.ends)
        settled = tuple(point.settled() for point in points)
        return Curve(self.shown(asked), self.settings, self.ends, settled, complete, self.axes)

    def _run(self) -> bool:
        """Seek both ends and all points; False after an interrupt, which keeps the points that are done."""
        try:
            if self.ends is None:
                self.ends = self.solved_ends()
                self.journal.append(_ends_record(self.ends))
            self._seek_points(self.ends)
        except KeyboardInterrupt:
            return False
        return not self.interrupted

    def _seek_points(self, ends: Ends) -> None:
        for key in self.keys(ends):
            if key in self.points:
                continue
            begun = now()
            point = self.points[key] = replace(self.point(*key, ends), seconds=now() - begun)
            if point.stop == Stop.INTERRUPTED:
                self.interrupted = True
                return
            if point.stop != Stop.ERROR:  # else the next run may do better
                self.journal.append({"record": POINT, **point.to_json(self.axes.columns)})

    def watcher(self, what: str) -> Watch:
        """Passes progress on with the point that is under way and the time of the whole sweep."""
        watch = self.watch
        if watch is None:
            return None
        count = "" if self.ends is None else f" ({len(self.points) + 1} of {len(self.keys(self.ends))})"
        return lambda record: watch(replace(record, seconds=now() - self.begun, source=f"{what}{count}"))

    # ---- back from the journal: bounds are as they were proven, everything about plans is recomputed ----

    def _stored_ends(self) -> Ends | None:
        for where, line in lines_of(self.journal, ENDS):
            least, best = (
                _judged(of(any_plan_from_json(require(where, line, name), f"{where}: {name}")), where)
                for name, of in (("least", self.least_of), ("best", self.best_of))
            )
            return Ends(
                levels=tuple(level_of(where, level) for level in require_list(where, line, "levels")),
                least=least,
                lower=min(least.need, number_of(where, line, "lower")),
                best=best,
                bound=no_more_than(number_or_none(where, line, "bound"), best.value),
            )
        return None

    def _stored_points(self) -> dict[tuple[str, float], CurvePoint]:
        column, points = self.axes.column, {}
        for where, line in lines_of(self.journal, POINT):
            limit = number_of(where, line, column("limit") or "")
            method = str(require(where, line, "method")) if column("method") else ""
            rival = None if column("rival") is None else number_or_none(where, line, column("rival") or "")
            candidate = None
            if line.get("plan") is not None:
                plan = any_plan_from_json(line["plan"], f"{where}: plan")
                candidate = _judged(self.measured(plan, str(line.get("source") or method)), where)
                if not self.fits(candidate, limit):
                    candidate = _judged(None, where)
            points[method, limit] = CurvePoint(
                limit, candidate=candidate, rival=rival, method=method, **as_it_was(where, line)
            )
        return points


def sweep(
    kind: type[Sweep],
    problem: Any,
    settings: Settings | None = None,
    journal: Journal | None = None,
    on_progress: Watch = None,
) -> Curve:
    """The curve of a problem, point by point."""
    settings = settings or kind.settings_for(problem, Asked())
    kind.check(problem, settings)
    return kind(kind.free(problem), settings, journal or opened(None), on_progress).curve(problem)


def _ends_record(ends: Ends) -> dict[str, Any]:
    plans = {"least": ends.least.plan.to_json(), "best": ends.best.plan.to_json()}
    return {"record": ENDS, "levels": list(ends.levels), "lower": ends.lower, "bound": ends.bound, **plans}


def _judged(candidate: Candidate | None, where: str) -> Candidate:
    """The candidate; an error where the referee has rejected a plan of the journal."""
    if candidate is None:
        raise InputError(f"{where}: plan", "is rejected by the referee", ANEW)
    return candidate
