"""The report of a run: why it stopped, which plan it has, what was claimed and what the referee recomputed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from .errors import UsageError, show
from .fields import AS_TEXT_NEVER, plain_fields
from .kind import AnyPlan, Displayed, Picture, display

if TYPE_CHECKING:
    import os

    import pandas

    from ..registry import Plan, Problem

SCHEMA = "pipeplan.result/1"

# Objective and bound that agree to this relative difference count as met: the answer is proven.
PROVEN_TOLERANCE = 1e-6


class Stop(StrEnum):
    """Why the run ended."""

    PROVEN = "proven"
    """Objective and bound meet within `PROVEN_TOLERANCE`."""
    GAP = "gap"
    """The gap that was asked for is reached."""
    TIME = "time"
    MEMORY = "memory"
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    ERROR = "error"
    COMPLETED = "completed"
    """A method without a bound ran to its own end (heuristics)."""


class Found(StrEnum):
    """Which plan the run has after the referee has spoken."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    NOTHING = "nothing"
    REJECTED = "rejected"
    """The method offered a plan and the referee refused it."""


class StartOutcome(StrEnum):
    """What became of a warm start."""

    NONE = "none"
    ACCEPTED = "accepted"
    REPAIRED = "repaired"
    REJECTED = "rejected"
    OUTSIDE = "outside"
    """The referee accepts the plan, but the method cannot make such plans: it is no part of the method's proof."""


@dataclass(frozen=True, slots=True)
class WarmStart:
    """`source` names where the start came from, `value` is the referee's value of it."""

    outcome: StartOutcome = StartOutcome.NONE
    source: str | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """The evidence for a bound, or that there is no plan: the method, its scope, and how the claim was checked."""

    method: str
    """The formulation, or the planner where it uses none."""
    backend: str | None
    """The solver; None where the method needs none."""
    version: str | None
    """Version of the solver."""
    scope: str
    checks: tuple[str, ...] = ()
    """Short phrases that say what was checked, and by which method."""

    def to_json(self) -> dict[str, Any]:
        by = {"method": self.method, "backend": self.backend, "version": self.version}
        return {"by": by, "scope": self.scope, "checks": list(self.checks)}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command was given, so that a reader can repeat it: the instance, its cluster, and notes on it."""

    instance: str
    """A file as it was named, or the name of a packaged instance."""
    cluster: Mapping[str, Any] = field(default_factory=dict)
    """Options of the cluster and of the table by name, as the command line takes them (`Cluster.to_json`)."""
    notes: tuple[str, ...] = ()
    """Sentences on what a profile or a table became."""


def relative_gap(objective: float | None, bound: float | None) -> float | None:
    """(objective - bound) / |objective|; the one definition of gap; None where a part is missing, or where there is no
    such number."""
    if objective is None or bound is None:
        return None
    if objective == bound:
        return 0.0
    gap = (objective - bound) / abs(objective) if objective else math.inf
    return gap if math.isfinite(gap) else None


def met(objective: float | None, bound: float | None) -> bool:
    """Is the answer proven: do objective and bound agree within the tolerance?"""
    gap = relative_gap(objective, bound)
    return gap is not None and gap <= PROVEN_TOLERANCE


@dataclass(frozen=True, slots=True)
class Moment:
    """How far the search was at a time: the best claim and the best bound, None before there is one."""

    seconds: float
    incumbent: float | None = None
    bound: float | None = None


class History(tuple[Moment, ...]):
    """How a search went on, one moment a line: whenever incumbent or bound became better."""

    __slots__ = ()

    def table(self) -> pandas.DataFrame:
        """Seconds, incumbent and bound as columns; what was not known yet is absent."""
        import pandas

        rows = [(moment.seconds, moment.incumbent, moment.bound) for moment in self]
        return pandas.DataFrame(rows, columns=["seconds", "incumbent", "bound"], dtype="Float64")

    def __repr__(self) -> str:
        return self.table().to_string(index=False)

    def _repr_html_(self) -> str:
        return str(self.table().to_html(index=False))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw incumbent and bound over time; with a path (.svg, .png, .pdf) the picture is written as well."""
        return display().plot_history(self, path)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, repr=False)
class Result(Displayed):
    """The whole report of one run. Absent is None, never 0 or infinity."""

    problem: Mapping[str, Any]
    stop: Stop
    found: Found
    formulation: str | None = None
    planner: str | None = None
    plan: Plan | None = None
    objective: float | None = None
    """The referee's value, in the problem's time unit."""
    claimed: float | None = None
    bound: float | None = None
    scope: str | None = None
    """The plans of which the bound, or the proof that there is no plan, speaks; None where nothing is bounded."""
    wider: str | None = None
    """Options of a command whose scope has more plans; None: no method's has, or nothing is bounded."""
    proof: Proof | None = None
    """The evidence where the run ended with a proof, None elsewhere."""
    verified: bool = False
    violations: tuple[str, ...] = ()
    warm_start: WarmStart = WarmStart()
    backend: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    asked: Asked | None = None
    """The instance and the cluster that a command was given; None where a program asked, which has the problem
    itself."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    model_size: Mapping[str, int] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    """What a reader should know: a backend that died, a limit that was hit, a bound that holds on a grid."""
    cross_check: Mapping[str, Any] | None = None
    """What a second method says, where it was asked; its `contradiction` is None where the proofs agree."""
    in_scope: Result | None = None
    """The method's own answer, where `plan` is a better one that the method does not plan: what it found and proved
    among the plans of its scope. None where `plan` is the method's own."""

    contradiction: str | None = None
    """How the method contradicts the referee, where its plan stands all the same: `stop` is then an error. None: not at
    all."""
    choices: Mapping[str, Any] | None = None
    """What else was found and judged where an answer is a list, in the words of the kind's study; None elsewhere."""
    history: History = History()
    """Whenever incumbent or bound became better; values are the method's claims."""
    subject: Problem | None = field(default=None, compare=False, metadata=AS_TEXT_NEVER)
    """The problem itself, which no file of a result holds."""

    def __post_init__(self) -> None:
        if self.subject is not None and isinstance(self.plan, AnyPlan):
            plan: Any = replace(self.plan, judged=(self.subject, self.options))
            object.__setattr__(self, "plan", plan)

    def about(self, problem: Problem) -> Result:
        """The result with its problem, which a result lacks that was read from a file."""
        if problem.hash != self.problem.get("hash"):
            name = self.problem.get("name")
            raise UsageError(f"The result is about another problem, {show(name)}; give that, on the same cluster.")
        return replace(self, subject=problem)

    @property
    def loads(self) -> Mapping[str, float]:
        """The time for which each device or stage is busy, by its name, recomputed in the problem's time unit."""
        return display().loads(self)  # type: ignore[no-any-return]

    @property
    def memory(self) -> Mapping[str, float | None]:
        """The memory that each device or stage holds, by its name, recomputed, in bytes; None where it has none of
        its own."""
        return display().memory(self)  # type: ignore[no-any-return]

    def table(self) -> pandas.DataFrame:
        """A line for each device or stage: what it holds, its load and its memory, in words."""
        import pandas

        return pandas.DataFrame(display().columns(self))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the plan; with a path (.svg, .png, .pdf) the picture is written as well."""
        return display().plot(self, path)  # type: ignore[no-any-return]

    @property
    def is_bounded(self) -> bool:
        """Does the result bound all plans of its scope, or prove that there is none?"""
        return self.bound is not None or self.stop == Stop.INFEASIBLE

    @property
    def own_answer(self) -> Result:
        """What the method found and proved among the plans of its scope."""
        return self.in_scope or self

    def unproven(self) -> Result:
        """The result without its bound and all that speaks of one."""
        return replace(self, bound=None, scope=None, wider=None, proof=None)

    @property
    def contradicted(self) -> bool:
        """Does the referee, or a second method, say something else than the method?"""
        checked = self.cross_check is not None and self.cross_check.get("contradiction") is not None
        return checked or self.contradiction is not None

    @property
    def gap(self) -> float | None:
        return relative_gap(self.objective, self.bound)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON data; the plan, which may be long, comes last."""
        data = {"schema": SCHEMA, **plain_fields(self), "gap": self.gap}
        for name in ("in_scope", "contradiction", "choices"):
            if data[name] is None:
                del data[name]
        data["plan"] = data.pop("plan")
        return data
