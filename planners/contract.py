"""The contract of every planner: a request goes in, an outcome comes out, incumbents are posted on the way."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any, Protocol, TypeVar

from ..formulations.contract import OptionSpec, Plan
from ..formulations.plugins import PluginError, blamed
from ..formulations.registry import Entry
from ..instances.base.clock import now, seconds_compiling
from ..instances.base.errors import UsageError
from ..instances.base.result import Moment, Stop, WarmStart
from .options import Progress, SolveOptions
from .referee import Ruling, contradiction, rule, rules_of

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
    objective: Callable[[Any, Any], float] | None = None
    """What is minimised in place of the usual objective, as a function of problem and plan."""


# ---- planners that are plain functions: from a problem to a plan, or to better and better plans ------------------
# A further parameter with a default is an option; the referee computes the value of whatever is returned.


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
# The attribute in which `planner` keeps what it was told.
FACTS = "pipeplan_planner"
# Types of options, by the type of their default.
TYPES = {bool: "flag", int: "int", float: "float", str: "text"}
# Parameters that are no options: the random seed of the run, and the request with its limits and its board.
FILLED_IN = ("seed", "request")
# A function may plan whatever a problem can have, since the referee judges each plan by all of it.
ALL_EXTENSIONS = frozenset({"levels", "no replicas", "types", "zero"})
# Functions that were handed to `solve`, by module and name.
AT_HAND: dict[str, Entry] = {}


def planner(
    function: FunctionT | None = None,
    *,
    name: str = "",
    kinds: Iterable[str] = ("any",),
    depends: Iterable[str] = (),
    objective: Callable[[Any, Any], float] | None = None,
) -> Any:
    """Say more of a function that plans than its signature does; it stays the function that it is.

    Parameters
    ----------
    function : callable, optional
        From a problem to a plan, or a generator of better and better plans. None: the decorator is called with what
        follows.
    name : str
        Its title in lists; empty: the first line of its docstring.
    kinds : iterable of str
        The kinds of problems that it plans: placement, chain, staging, graph-pipeline, schedule, training.
    depends : iterable of str
        Files that its plans depend on beside its code, such as tables; runs are made again when one changes.
    objective : callable, optional
        From a problem and a plan to the value that is minimised. None: the usual objective of the problem.

    Returns
    -------
    callable
        The function, or the decorator.

    Raises
    ------
    Nothing: what is wrong is told where the function is used.
    """

    def mark(function: FunctionT) -> FunctionT:
        told = {"name": name, "kinds": tuple(kinds), "depends": tuple(depends), "objective": objective}
        setattr(function, FACTS, told)
        return function

    return mark if function is None else mark(function)


@dataclass(frozen=True, slots=True)
class OwnEntry(Entry):
    """The entry of a planner that is a function."""

    function: Callable[..., Any] = print

    def load(self) -> FunctionPlanner:
        objective = getattr(self.function, FACTS, {}).get("objective")
        return FunctionPlanner(blamed(partial(_plan, self.function, objective), self.name, self.module), objective)


def entry_of(value: Any, address: str) -> Any:
    """The entry of a function that takes a problem; any other value as it is."""
    if not isinstance(value, FunctionType) or not (parameters := [*inspect.signature(value).parameters.values()]):
        return value
    facts = {"name": "", "kinds": ("any",), "depends": (), **getattr(value, FACTS, {})}
    title = facts["name"] or next(iter((value.__doc__ or "").strip().splitlines()), "") or value.__name__
    options = tuple(_option(address, own) for own in parameters[1:] if own.name not in FILLED_IN)
    usual: dict[str, Any] = {
        "exact": False,
        "seeded": "seed" in [own.name for own in parameters],
        "extensions": ALL_EXTENSIONS,
    }
    home = f"{value.__module__}:{value.__name__}"
    first, *others = (
        OwnEntry(address, title, kind, home, options, **usual, depends=facts["depends"], function=value)
        for kind in facts["kinds"]
    )
    return replace(first, twins=tuple(others))


def _option(address: str, parameter: inspect.Parameter) -> OptionSpec:
    kind = TYPES.get(type(parameter.default))
    if kind is None:
        why = f"its parameter {parameter.name!r} has no default that is a truth value, a number or a text"
        raise PluginError(f"{address!r}", why, "give it one, since it is an option")
    return OptionSpec(parameter.name, kind, parameter.default, "A parameter of the function.")


def _plan(function: Callable[..., Any], objective: Any, request: Request) -> Outcome:
    """Every plan that the function returns or yields goes to the referee, and then on the board."""
    rules, refused = rules_of(request.problem, request.options, SimpleNamespace(objective=objective)), []
    told = {"seed": request.limits.seed, "request": request}
    own = {name: value for name, value in told.items() if name in inspect.signature(function).parameters}
    found, stop = function(request.problem, **request.options, **own), Stop.COMPLETED
    for plan in found if isinstance(found, Iterator) else [] if found is None else [found]:
        ruling = rule(request.problem, plan, rules)
        request.board.accept(ruling)
        refused += [] if ruling.value is not None else [ruling]
        if request.out_of_time():
            stop = Stop.TIME
            break
    if request.board.plan is None:
        return Outcome(stop, refused[0].plan if refused else None)
    told_of = (f"{len(refused)} of its plans were refused: {refused[0].violations[0]}",) if refused else ()
    return Outcome(stop, messages=told_of)


def named(function: Any) -> Any:
    """The name by which `solve` finds the function; what is no function stays what it is."""
    if not isinstance(function, FunctionType):
        return function
    name = f"{function.__module__}:{function.__qualname__}"
    entry = entry_of(function, name)
    if not isinstance(entry, Entry):
        raise UsageError(f"{name} takes no problem; give a function from a problem to a plan.")
    AT_HAND[name] = entry
    return name
