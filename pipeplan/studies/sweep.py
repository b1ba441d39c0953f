"""One sweep for every curve: points along an axis, its two ends, what each point takes from the others, the journal.

The axis is the memory of a device: a kind of problems says how a plan is measured. A plan that keeps a limit keeps
every looser one, and a bound that is proven for a limit holds for every tighter one.

The journal is the file from which an interrupted sweep continues: its first line names the problem, the settings and
the versions of this program and of solvers; each further line holds one finished piece of work.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from ..instances.base.clock import now
from ..instances.base.errors import InputError, UsageError, show
from ..instances.base.fields import as_list, as_number, as_object, join, require, require_list
from ..instances.base.json_file import csv_cell, write_text_atomically
from ..instances.base.quantities import listed
from ..instances.base.result import Found, Stop, met, relative_gap
from ..instances.registry import any_plan_from_json, kind_of
from ..kinds import SHOWN, shown_kind
from ..planners.options import Progress, SolveOptions
from .journal import Journal, line_of, versions

# ---- sweep -------------------------------------------------------------------------------------------

SCHEMA = "pipeplan.pareto/1"
ANEW = "name another file, or start anew with --no-resume"
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
    """The memory of a device that the plan takes."""
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
        """Batches per period of a chain's plan; None for other plans."""
        return getattr(self.plan, "batches_per_period", None)

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

    def to_json(self) -> dict[str, Any]:
        """The settings that the journal of a sweep must repeat; the memory limit of solvers is none of them."""
        return {
            **({} if self.methods is None else {"methods": list(self.methods)}),
            "levels": None if self.chosen else self.levels,
            "memory_bytes": list(self.chosen) or None,
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


def spread(least: float, most: float, count: int, whole: Callable[[float], float]) -> tuple[float, ...]:
    """`count` amounts from `least` to `most`: in equal ratios, as curves are steep on the left; `whole` rounds those
    between the two ends."""
    if least >= most:
        return (most,)
    shares = [i / (count - 1) for i in range(1, count - 1)]
    inner = (least * (most / least) ** share if least > 0 else share * most for share in shares)
    return tuple(sorted({least, most, *(min(float(whole(amount)), most) for amount in inner)}))


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

    problem: Any
    settings: Settings
    ends: Ends | None
    """Both ends of the curve; None: the sweep was interrupted before they were known."""
    points: tuple[CurvePoint, ...]
    complete: bool
    """Did the sweep reach its end, without an interrupt?"""
    kind: type[Sweep]
    """What the parts of the curve are called."""

    def of(self, method: str) -> tuple[CurvePoint, ...]:
        return tuple(point for point in self.points if point.method == method)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "problem": self.kind.facts(self.problem),
            "settings": self.settings.to_json(),
            "complete": self.complete,
            **(self.kind.no_ends if self.ends is None else self.kind.ends_to_json(self.ends)),
            "points": [point.to_json(self.kind.columns) for point in self.points],
        }


# ---- the sweep -------------------------------------------------------------------------------------------------


def columns(*words: str) -> Mapping[str, str]:
    """The attribute of `CurvePoint` for each column: of the same name, or after an equals sign."""
    parts = (word.partition("=") for word in " ".join(words).split())
    return {name: attribute or name for name, _, attribute in parts}


class Sweep:
    """The state of one sweep: both ends first, then its points in an order in which each helps the next."""

    columns: ClassVar[Mapping[str, str]]
    """The attribute of `CurvePoint` for each column of a table of points."""
    takes: ClassVar[tuple[str, ...]] = ("memory",)
    """Options that have a meaning for this kind."""
    no_ends: ClassVar[Mapping[str, None]] = {"ends": None}
    """What stands for the ends where the sweep was interrupted before they were known."""
    sources: ClassVar[tuple[str, str]] = ("", "")
    """What the plans at both ends come from."""

    def __init__(self, problem: Any, settings: Settings, journal: Journal, watch: Watch) -> None:
        self.problem, self.settings, self.journal, self.watch = problem, settings, journal, watch
        try:
            self.points, self.ends = self._stored_points(), self._stored_ends()
        except InputError as error:  # we write these files ourselves, this version or another one
            raise InputError(error.field, error.problem, ANEW, str(journal.path)) from None
        self.interrupted = False
        self.begun = now()

    @classmethod
    def own_settings(cls, problem: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Further fields of the settings, from the options that this kind takes."""
        return {}

    @classmethod
    def check(cls, problem: Any, settings: Settings) -> None:
        """Refuse a problem that has no curve, before any work is done."""

    @classmethod
    def free(cls, problem: Any) -> Any:
        """The problem without a limit of its own."""
        return kind_of(problem).with_memory(problem, None)

    @classmethod
    def sizes(cls, problem: Any) -> dict[str, Any]:
        """How large the problem is, by name; the curve names it by these facts among others."""
        raise NotImplementedError

    @classmethod
    def facts(cls, problem: Any) -> dict[str, Any]:
        """The facts by which a curve names its problem, apart from its own limit, which the levels replace."""
        free = cls.free(problem)
        names = {"kind": free.kind, "name": free.name, "hash": free.hash}
        return {**names, **cls.sizes(free), "time_unit": free.time_unit}

    @classmethod
    def ends_to_json(cls, ends: Ends) -> dict[str, Any]:
        """Both ends, once they are known."""
        raise NotImplementedError

    def measured(self, plan: Any, source: str = "") -> Candidate | None:
        """The plan with the referee's numbers; None for no plan, or one that breaks a rule at any limit."""
        raise NotImplementedError

    def fits(self, candidate: Candidate, limit: float) -> bool:
        """Does the plan keep the limit, as the referee judges it?"""
        kind = kind_of(self.problem)
        limited = kind.with_memory(self.problem, limit)
        return not kind.rules(limited, self.settings.options).violations(limited, candidate.plan)

    def solved_ends(self) -> Ends:
        """Search for both ends, and choose the levels."""
        raise NotImplementedError

    def point(self, method: str, limit: float) -> CurvePoint:
        """Search for one point, with the help of the ends and of the points so far."""
        raise NotImplementedError

    def keys(self) -> Iterable[tuple[str, float]]:
        """Method and limit of each point, in the order in which they are sought."""
        return [("", limit) for limit in halving(sorted(self.known_ends.levels))]

    @property
    def known_ends(self) -> Ends:
        """Both ends, once they are known."""
        assert self.ends is not None
        return self.ends

    def along_curves(self) -> list[CurvePoint]:
        """The points after each has taken what is known from the others."""
        return with_bounds_from_above(with_plans_from_below(self.points.values()), self.known_ends.bound)

    def curve(self) -> Curve:
        """The answer; an interrupt keeps the points that are done."""
        complete = self.run()
        points = [] if self.ends is None else self.along_curves()
        settled = tuple(point.settled() for point in points)
        return Curve(self.problem, self.settings, self.ends, settled, complete, type(self))

    def run(self) -> bool:
        """Seek both ends and all points; False after an interrupt, which keeps the points that are done."""
        try:
            self.seek_ends()
            self._seek_points()
        except KeyboardInterrupt:
            return False
        return not self.interrupted

    def seek_ends(self) -> None:
        """Find both ends, unless the journal has them."""
        if self.ends is None:
            self.ends = self.solved_ends()
            ends = self.ends
            plans = {"least": ends.least.plan.to_json(), "best": ends.best.plan.to_json()}
            amounts = {"levels": list(ends.levels), "lower": ends.lower, "bound": ends.bound}
            self.journal.append({"record": ENDS, **amounts, **plans})

    def _seek_points(self) -> None:
        for key in self.keys():
            if key in self.points:
                continue
            begun = now()
            point = self.points[key] = replace(self.point(*key), seconds=now() - begun)
            if point.stop == Stop.INTERRUPTED:
                self.interrupted = True
                return
            if point.stop != Stop.ERROR:  # else the next run may do better
                self.journal.append({"record": POINT, **point.to_json(self.columns)})

    def watcher(self, what: str) -> Watch:
        """Passes progress on with the point that is under way and the time of the whole sweep."""
        watch = self.watch
        if watch is None:
            return None
        count = "" if self.ends is None else f" ({len(self.points) + 1} of {len(list(self.keys()))})"
        return lambda record: watch(replace(record, seconds=now() - self.begun, source=f"{what}{count}"))

    # ---- back from the journal: bounds are as they were proven, everything about plans is recomputed ----

    def _stored_ends(self) -> Ends | None:
        for where, line in records_of(self.journal, ENDS):
            least, best = (
                judged(
                    self.measured(any_plan_from_json(require(where, line, name), join(where, name)), source), where
                )
                for name, source in zip(("least", "best"), self.sources, strict=True)
            )
            return Ends(
                levels=tuple(as_number(f"{where}: levels", level) for level in require_list(where, line, "levels")),
                least=least,
                lower=min(least.need, as_number(where, require(where, line, "lower"))),
                best=best,
                bound=no_more_than(_number_or_none(where, line, "bound"), best.value),
            )
        return None

    def _stored_points(self) -> dict[tuple[str, float], CurvePoint]:
        names = {fact: name for name, fact in self.columns.items()}
        points = {}
        for where, line in records_of(self.journal, POINT):
            limit = as_number(where, require(where, line, names["limit"]))
            method = str(require(where, line, "method")) if "method" in names else ""
            word = require(where, line, "stop")
            candidate = None
            if word not in tuple(Stop):
                raise InputError(f"{where}: stop", f"is {word!r}", ANEW)
            if line.get("plan") is not None:
                plan = any_plan_from_json(line["plan"], f"{where}: plan")
                candidate = judged(self.measured(plan, str(line.get("source") or method)), where)
                if not self.fits(candidate, limit):
                    candidate = judged(None, where)
            points[method, limit] = CurvePoint(
                limit,
                Stop(word),
                candidate,
                _number_or_none(where, line, "bound"),
                _number_or_none(where, line, names.get("rival", "")),
                method,
                as_number(where, require(where, line, "seconds")),
                tuple(map(str, as_list(where, line.get("messages", [])))),
            )
        return points


def asked(problem: Any, levels: int | None = None, limits: SolveOptions = USUAL, **own: Any) -> Settings:
    """The settings that the user asks for, with the usual values for all others.

    `levels` is the number of points, and `own` holds options that mean something for some kinds only, as far as they
    were given. A `UsageError` refuses one that means nothing for this kind.
    """
    kind = axis_of(problem)
    foreign = next((name for name in own if name not in kind.takes), None)
    if foreign is not None:
        raise UsageError(f"--{foreign} says nothing about the curve of a {problem.kind} problem; drop it.")
    chosen = tuple(sorted(set(own.get("memory") or ())))
    if chosen and levels is not None:
        raise UsageError("--memory and --points both say where the points lie; give one of them.")
    further = kind.own_settings(problem, own)
    return Settings(LEVELS if levels is None else levels, chosen, limits, **further)


def sweep(
    problem: Any,
    settings: Settings | None = None,
    path: str | os.PathLike[str] | None = None,
    resume: bool = True,
    on_progress: Watch = None,
) -> Curve:
    """The curve of a problem, point by point.

    `path` names the journal: each finished point is written there at once, and with `resume` what it holds already is
    not sought again. Everything that can be refused is refused before any work is done.
    """
    kind = axis_of(problem)
    settings = settings or asked(problem)
    settings.check_levels()
    kind.check(problem, settings)
    return kind(kind.free(problem), settings, opened(problem, settings, path, resume), on_progress).curve()


def axis_of(problem: Any) -> type[Sweep]:
    """The sweep of this kind of problems, or a `UsageError` that lists the kinds with one."""
    curve = shown_kind(problem).pareto
    if curve is None:
        kinds = listed([name for name, kind in SHOWN.items() if kind.pareto is not None])
        raise UsageError(f"plan pareto is for {kinds} problems; {problem.name} is a {problem.kind} problem.")
    return curve.sweep.load()


def write_csv(curve: Curve, path: str | os.PathLike[str]) -> None:
    """Write one line for each point, with everything except the plan; absent values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, tuple(curve.kind.columns), lineterminator="\n")
    writer.writeheader()
    for point in curve.points:
        facts = {**point.facts(curve.kind.columns), "certified": "yes" if point.certified else "no"}
        writer.writerow({name: csv_cell(value) for name, value in facts.items()})
    write_text_atomically(path, text.getvalue())


# ---- the journal -----------------------------------------------------------------------------------------------


def opened(
    problem: Any, settings: Settings, path: str | os.PathLike[str] | None = None, resume: bool = True
) -> Journal:
    """A journal that continues only with the same problem, settings and versions; without a path nothing is kept."""
    journal = Journal(None if path is None else Path(path), "line of plan pareto", ANEW)
    if journal.path is None:
        return journal
    facts = axis_of(problem).facts(problem)
    head = {"schema": SCHEMA, "problem": facts, "settings": settings.to_json(), "made_by": versions()}
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


def judged(candidate: Candidate | None, where: str) -> Candidate:
    """The candidate; an error where the referee has rejected a plan of the journal."""
    if candidate is None:
        raise InputError(f"{where}: plan", "is rejected by the referee", ANEW)
    return candidate
