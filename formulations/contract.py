"""The contract of every formulation: check, build, encode, decode.

A formulation never solves. `build` returns a Pyomo model, or the address of a function that builds a
native CP-SAT model inside a worker (the parent process imports no solver).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from ..instances.base.errors import UsageError
from ..instances.registry import Plan as Plan
from ..instances.registry import Problem as Problem


class NativeOnlyError(UsageError):
    """The model is written for CP-SAT's own interface alone; `instead` names a formulation of the same problems."""

    def __init__(self, name: str, instead: str | None = None) -> None:
        self.instead = "" if instead is None else f", or give --formulation {instead}"
        super().__init__(f"{name} is a model for CP-SAT alone; choose --solver cp-sat{self.instead}.")


class NoRowsError(UsageError, AttributeError):
    """A caller tried to add rows to a model that takes none."""


# Values of a model's variables by name.
Values = Mapping[str, float]

# What the user chose of a method's own options, by name.
Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option that a formulation or planner declares as its own: shown, checked, refused elsewhere.

    `type` is one of flag, choice, int, float, text, path, allocation (the GPU of each layer, or a file with that).
    """

    name: str
    type: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    """The smallest number that means anything; None: any does."""
    most: float | None = None
    """The largest number that the method can work with; None: any."""


def check_type(name: str, problem: object, plans: type[Any]) -> None:
    """Refuse a problem of another kind, which a caller of the formulation itself may bring."""
    if not isinstance(problem, plans):
        raise UsageError(f"{name} plans problems of kind {plans.kind!r}, not {type(problem).__name__}.")


# Why a native model takes no rows, and what to do instead: the end of its errors.
NO_ROWS = (
    "since a worker builds it by itself; rows are added to Pyomo models: give --solver highs, derive from a "
    "variant that builds one ('plain' of ip-tarnawski), or build with native=False (docs/extending.md)."
)


@dataclass(frozen=True, slots=True)
class NativeModel:
    """A CP-SAT model that a worker builds for itself from plain data.

    `builder` is ``package.module:function``; the function takes `payload` (numbers, texts, lists,
    dicts, numpy arrays) and returns an object with the attributes `model` (CpModel), `variables`
    (name -> IntVar), `scale` and `offset`: true objective = integer objective / scale + offset.
    Costs are rounded so that the bound stays valid on the true data: its objective may
    claim less than the plan costs, never a bound above the true optimum. Where it rounds the other way, an attribute
    `loss` says by how much the integer model's optimum can exceed the true one: bounds are lowered by it.
    """

    builder: str
    payload: Mapping[str, Any]
    backend: str = "cp-sat"

    def __getattr__(self, name: str) -> Any:
        """A derived formulation that looks for the model's variables is told where they are."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoRowsError(f"There is no {name!r} in a model for CP-SAT, {NO_ROWS}")


def _takes_no_row(self: NativeModel, name: str, value: object) -> None:
    raise NoRowsError(f"A model for CP-SAT takes no {name!r}, {NO_ROWS}")


# A dataclass that is frozen allows no `__setattr__` in its body.
NativeModel.__setattr__ = _takes_no_row  # type: ignore[method-assign, assignment]


# Relative distance by which a model for a solver in floats loosens its bounds: below a proven bound, and above a
# cut-off. A bound of a variable that lies within a solver's tolerance of what rows imply has led HiGHS to false
# proofs.
FLOAT_ROOM = 1e-4


@dataclass(frozen=True, slots=True)
class ExtraRow:
    """lower <= sum of coefficients x columns <= upper, by the names of the model's columns."""

    coefficients: Mapping[str, float]
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class BuiltModel:
    """A model with the two translations between its variables and plans.

    `grids` and `grid_loss` serve integer solvers that are given a Pyomo model: column name -> step, and
    by how much the optimum can grow at most when those columns are restricted to multiples of their steps.
    """

    model: Any
    """A Pyomo ConcreteModel or a `NativeModel`."""
    decode: Callable[[Values], Plan]
    encode: Callable[[Any], Values | None]
    """A start for the solver; None where the plan is outside this model (a cut-off, a merged group)."""
    grids: Mapping[str, float] = field(default_factory=dict)
    grid_loss: float = 0.0
    size: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What a reader of the result should know about this model."""
    coarse: bool = False
    """Are its times rounded, so that the referee may refuse its plans because something is too early by less than a
    step?"""
    exclude: Callable[[Any], Sequence[ExtraRow]] | None = None
    """For a plan that the model lets through and the referee refuses: rows that it breaks and every valid plan keeps;
    empty where no rows forbid what it is refused for. `native.with_rows` adds them to a native model."""
    bound: float | None = None
    """A bound known from elsewhere, for a model that minimises nothing and asks whether there is any plan within the
    cut-off: the bound of its objective says nothing."""
    key: Callable[[], Sequence[str]] | None = None
    """What the numbers in its names stand for, a line each, for the page beside an exported model."""
    rounding: float = 0.0
    """By how much a plan's value may exceed the model's objective, whose costs are rounded down; infinite where the
    model only bounds the value."""


@dataclass(frozen=True, slots=True)
class Refuted:
    """No plan is below the cut-off that `build` was given: the reductions alone prove it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of work on a model for a while; `seconds` None: until the end.

    decide: is there a plan that is better by the whole gap? The solvers work side by side, the first answer counts.
    improve: is there any better plan? Starts from the best one; worth while only close to the bound.
    search: `planner` goes on from the best plan with these options, without a solver; its bound counts as well.
    """

    kind: Literal["decide", "improve", "search"]
    solvers: tuple[str, ...] = ()
    """The last one gets the most threads."""
    seconds: float | None = None
    planner: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    share: float = 0.25
    """The largest share of the time that is left that a search may take."""


def side_by_side(*solvers: str) -> tuple[Stage, ...]:
    """The portfolio of most formulations: these solvers, until one of them has the answer."""
    return (Stage("decide", solvers),)


class Formulation(Protocol):
    """What a module in `formulations/` offers; all else that is known of it stands in its entry in the registry."""

    def check(self, problem: Any, options: Options) -> None:
        """Raise an `InputError` or `UsageError` where the problem is outside the formulation's assumptions."""

    def contiguity(self, options: Options) -> str:
        """The notion of contiguity that its plans obey: `none`, `device` or `chain`, as the referee has them
        (placements only)."""
        ...

    def portfolio(self, problem: Any, options: Options, *, found: bool) -> tuple[Stage, ...]:
        """The stages of work where the user names no solver.

        Parameters
        ----------
        problem : Problem
            Of the formulation's own kind, and checked.
        options : Mapping
            The formulation's own, with their defaults filled in.
        found : bool
            There is a plan.

        Returns
        -------
        tuple of Stage
            One after the other; the last one should have no end.

        Raises
        ------
        Nothing, for what `check` lets through.
        """
        ...

    def lower_bound(self, problem: Any, options: Options) -> float:
        """A valid bound that needs no solver."""
        ...

    def build(
        self, problem: Any, options: Options, *, native: bool, cutoff: float | None = None, precision: float = 1e-9
    ) -> BuiltModel | Refuted:
        """The model, with the translations between its variables and plans.

        Parameters
        ----------
        problem : Problem
            Of the formulation's own kind, and checked.
        options : Mapping
            The formulation's own, with their defaults filled in.
        native : bool
            The backend takes a `NativeModel`, so return one where it is the stronger choice.
        cutoff : float, optional
            Only plans of at most this value are asked for, in the problem's time unit. None: all.
        precision : float
            What rounding to integers may cost, relative to the cut-off.

        Returns
        -------
        BuiltModel or Refuted
            `Refuted` where the reductions alone prove that no plan is at or below the cut-off.

        Raises
        ------
        NativeOnlyError
            The model is written for CP-SAT alone, and the backend takes no such models.
        TooLargeError
            The model would be too large.
        """
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of `build`, as a record: see there."""

    native: bool
    cutoff: float | None
    precision: float


class CommonFormulation:
    """The parts that most formulations share; each has `check`, `lower_bound` and `model` of its own."""

    def contiguity(self, options: Options) -> str:
        return "none"

    def solvers(self, problem: Any, options: Options) -> tuple[str, ...]:
        """The solvers that work side by side until one of them has the answer."""
        return ("cp-sat",)

    def portfolio(self, problem: Any, options: Options, *, found: bool) -> tuple[Stage, ...]:
        return side_by_side(*self.solvers(problem, options))

    def build(
        self, problem: Any, options: Options, *, native: bool, cutoff: float | None = None, precision: float = 1e-9
    ) -> BuiltModel | Refuted:
        """Calls `model`, which others write too (docs/extending.md): add fields to `Wanted`, rename none."""
        return self.model(problem, options, Wanted(native, cutoff, precision))

    def model(self, problem: Any, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        raise NotImplementedError


@runtime_checkable
class Gradual(Protocol):
    """A formulation whose whole model may be too large: it is built for growing cut-offs, as far as proofs need it."""

    def next_cutoff(
        self,
        problem: Any,
        options: Options,
        bound: float | None,
        cutoff: float | None,
        out_of_time: Callable[[], bool],
    ) -> float | None:
        """The cut-off to ask for now: at most `cutoff`, and above the bound as far as the model stays small.

        A proof that no plan is below this cut-off is a better bound, with which this is called again. Where time runs
        out any answer will do, since no model is built for it.
        """
        ...


# ---- far costs: which plans to ask for first where some costs are far above all others ----------------------

# A limit of so many times the lower bound leaves some plan in all but strange problems.
FAR = 1e4


def near_cutoff(costs: Iterable[float], bound: float | None, cutoff: float | None) -> float | None:
    """The cut-off to ask for next: `FAR` times the bound where some costs are more than twice that, else `cutoff`.

    No plan below it pays such costs, so a model under it caps them (`capped`), and a solver sees the digits of all
    others. A proof that there is no such plan improves the bound, and with it the next cut-off.
    """
    positive = [cost for cost in costs if cost > 0]
    near = FAR * (bound or min(positive, default=0.0))
    if max(positive, default=0.0) <= 2 * near or (cutoff is not None and cutoff <= near):
        return cutoff
    return near


class FarCosts:
    """A formulation whose cut-offs grow by `near_cutoff`."""

    def costs(self, problem: Any, options: Options) -> Iterable[float]:
        """All costs that a plan may pay in one place."""
        raise NotImplementedError

    def next_cutoff(
        self,
        problem: Any,
        options: Options,
        bound: float | None,
        cutoff: float | None,
        out_of_time: Callable[[], bool],
    ) -> float | None:
        return near_cutoff(self.costs(problem, options), bound, cutoff)
