"""The contract of every planner: a request goes in, an outcome comes out, incumbents are posted on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..formulations.contract import Plan
from ..instances.base.clock import now, seconds_compiling
from ..instances.base.result import Moment, Stop, WarmStart
from .options import Progress, SolveOptions
from .referee import Ruling, contradiction

# A longer history is thinned out.
MOST_MOMENTS = 1000


@dataclass
class Board:
    """Where a planner posts its best plan and bound, so that an interrupt or a limit loses nothing.

    `post` also tells whoever watches. Values are the planner's claims: the referee has the last word.
    """

    watcher: Callable[[Progress], None] | None = None
    source: str = ""
    """The method whose board it is: what is posted without a source is its own."""
    started: float = field(default_factory=now)
    """When it was started, on the clock of limits, which stands still while code is compiled."""
    compiled_before: float = field(default_factory=seconds_compiling)
    plan: Plan | None = None
    value: float | None = None
    bound: float | None = None
    claimed: float | None = None
    """The method's own value of an accepted plan."""
    ruling: Ruling | None = None
    """The referee's word on the best plan that was accepted in this run, so that it is asked once."""
    doubt: str | None = None
    """In words: the first claim that contradicts the referee, also of a plan that is not the best."""
    history: list[Moment] = field(default_factory=list)
    """A moment for every improvement, thinned out when there are too many."""
    closed: bool = False
    """Nothing is heard any more: a method that was left behind must not change what is being judged."""

    def post(
        self,
        plan: Plan | None = None,
        value: float | None = None,
        bound: float | None = None,
        nodes: int | None = None,
        source: str = "",
    ) -> None:
        """Keep what is better than before; tell the watcher in any case."""
        if self.closed:
            return
        before = (self.value, self.bound)
        if plan is not None and value is not None and (self.value is None or value < self.value):
            self.plan, self.value = plan, value
        if bound is not None and (self.bound is None or bound > self.bound):
            self.bound = bound
        if (self.value, self.bound) != before:
            self.history.append(Moment(self.seconds, self.value, self.bound))
            if len(self.history) > MOST_MOMENTS:
                self.history[1:-1] = self.history[2:-1:2]
        if self.watcher is not None:
            self.watcher(Progress(self.seconds, self.value, self.bound, nodes, source or self.source))

    def accept(self, ruling: Ruling, claimed: float | None = None, source: str = "") -> None:
        """Post a plan that the referee has judged by the rules of this run; one that it refused changes nothing.

        One that is no better than the best changes nothing either, unless its claim contradicts the referee.
        """
        if ruling.value is None or self.closed:
            return
        self.doubt = self.doubt or contradiction(claimed, ruling.value)
        if self.value is None or ruling.value < self.value:
            self.ruling, self.claimed = ruling, ruling.value if claimed is None else claimed
        self.post(ruling.plan, ruling.value, source=source)

    def close(self) -> None:
        """Hear nothing any more."""
        self.closed = True

    def ruling_of(self, plan: Plan) -> Ruling | None:
        """What the referee has said of this plan already."""
        return self.ruling if self.ruling is not None and self.ruling.plan == plan else None

    @property
    def seconds(self) -> float:
        return now() - self.started

    @property
    def compile_seconds(self) -> float:
        """Seconds in which machine code was made since the board was started: no part of `seconds`, nor of any
        limit."""
        return seconds_compiling() - self.compiled_before


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that a planner is told. `options` holds only what the planner declared, defaults filled in."""

    problem: Any
    """A problem of the kind that the planner plans."""
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: SolveOptions = SolveOptions()
    warm_start: Any = None
    """A plan for the problem, or None."""
    board: Board = field(default_factory=Board)

    def seconds_left(self) -> float | None:
        """Seconds until the time limit, never fewer than 0; None: there is no limit."""
        if self.limits.time_limit_s is None:
            return None
        return max(0.0, self.limits.time_limit_s - self.board.seconds)

    def seconds_at_most(self, most: float | None) -> float | None:
        """Seconds for a part of the search: `most`, but no more than are left; None: there is no limit."""
        limits = [limit for limit in (most, self.seconds_left()) if limit is not None]
        return min(limits, default=None)

    def out_of_time(self) -> bool:
        left = self.seconds_left()
        return left is not None and left <= 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a planner answers; plan, claim and bound are checked by the caller before anybody sees them."""

    stop: Stop
    plan: Plan | None = None
    claimed: float | None = None
    bound: float | None = None
    warm_start: WarmStart = WarmStart()
    backend: Mapping[str, Any] = field(default_factory=dict)
    model_size: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    """Phrases for what proves the bound: who refuted what, on which numbers."""


class Planner(Protocol):
    """A way to get a plan; its entry in the registry says all else about it."""

    def plan(self, request: Request) -> Outcome: ...


@dataclass(frozen=True)
class FunctionPlanner:
    """A planner that is one function."""

    plan: Callable[[Request], Outcome]
