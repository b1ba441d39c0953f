"""From the names and options that a user gives to one method, or to the list of what would make sense."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...formulations.contract import OptionSpec, Problem
from ...formulations.family import Family
from ...formulations.registry import FORMULATIONS, Entry
from ...instances.errors import InputError, UsageError, named
from ..options import SolveOptions
from ..registry import (
    EXACT,
    PLANNERS,
    all_methods,
    default_formulation,
    default_method,
    methods_of,
    option_owners,
)


@dataclass(frozen=True, slots=True)
class Method:
    """A planner, with a formulation where the planner is `exact`, and every option with its value."""

    planner: Entry
    formulation: Entry | None
    solver: str | None
    options: Mapping[str, Any]

    @property
    def entry(self) -> Entry:
        """What says all about it: the formulation where there is one."""
        return self.formulation or self.planner

    @property
    def name(self) -> str:
        """What a proof is signed with."""
        return self.entry.name

    @property
    def title(self) -> str:
        return self.planner.name if self.formulation is None else f"{self.planner.name} ({self.name})"

    def family(self, problem: Problem) -> Family | None:
        """The plans of which its bounds speak; None where it has no bounds."""
        return self.entry.family(problem, self.options)

    @property
    def names(self) -> dict[str, Any]:
        """By which it is asked for."""
        if self.formulation is None:
            return {"planner": self.planner.name}
        return {"formulation": self.formulation.name, "solver": self.solver}

    def request_options(self) -> dict[str, Any]:
        """What the planner is told: its options, and for `exact` the formulation and the solver as well."""
        return {**self.options, **(self.names if self.formulation is not None else {})}


def choose(
    problem: Problem, formulation: str | None, planner: str | None, solver: str, options: Mapping[str, Any]
) -> Method:
    """Resolve names; neither given: the default method for this kind of problem.

    An exact planner that is more than one model may be named as a formulation, too.
    """
    if formulation is None and planner is None and (solver == "auto" or problem.extensions):
        default = default_method(problem.kind, problem.extensions)
        planner = default.name if default is not None and default.name in PLANNERS else None
    if (entry := PLANNERS.get(formulation or "")) and entry.as_formulation and planner in (None, formulation):
        formulation, planner = None, formulation
    if planner is not None and planner != EXACT:
        return _choose_planner(problem, formulation, planner, solver, options)
    return _choose_exact(problem, formulation, solver, options)


def _choose_planner(
    problem: Problem, formulation: str | None, planner: str, solver: str, options: Mapping[str, Any]
) -> Method:
    entry = named(planner, PLANNERS, "planner")
    if formulation is not None:
        raise UsageError(
            f"Planner {planner!r} uses no formulation; give --planner {planner} alone, or --formulation {formulation} "
            f"alone or with --planner {EXACT}."
        )
    if solver != "auto":
        raise UsageError(
            f"Planner {planner!r} uses no solver; drop --solver {solver}, or choose --planner {EXACT}."
        )
    _check_kind(entry, problem.kind, PLANNERS.values(), "planner")
    check_extensions(entry, problem)
    return Method(entry, None, None, resolve_options(entry, options))


def _choose_exact(problem: Problem, formulation: str | None, solver: str, options: Mapping[str, Any]) -> Method:
    kind = problem.kind
    entry = default_formulation(kind) if formulation is None else named(formulation, FORMULATIONS, "formulation")
    if entry is None:
        kinds = dict.fromkeys(other.problem_kind for other in FORMULATIONS.values())
        raise UsageError(f"No formulation plans problems of kind {kind!r}; kinds with one: {_list(kinds)}.")
    _check_kind(entry, kind, FORMULATIONS.values(), "formulation")
    check_extensions(entry, problem)
    _check_solver(solver)
    return Method(PLANNERS[EXACT], entry, solver, resolve_options(entry, options))


def _check_solver(solver: str) -> None:
    """`auto`, or installed solvers joined by commas; an unknown one is refused before any work is done."""
    from ..backends.registry import find_backend  # loads numpy, which the tables of names do without

    if solver != "auto":
        for name in solver.split(","):
            find_backend(name.strip())


def check_native(solver: str, limits: SolveOptions) -> None:
    """A native option is known to one solver; sent to several it would be an error in all others."""
    if limits.native and (solver == "auto" or "," in solver):
        raise UsageError(
            f"--native {next(iter(limits.native))}=... belongs to one solver and --solver is {solver!r}; "
            "name one solver with --solver."
        )


def _check_kind(entry: Entry, kind: str, others: Iterable[Entry], what: str) -> None:
    if entry.problem_kind not in (kind, "any"):
        fitting = [other.name for other in others if other.problem_kind in (kind, "any")]
        raise UsageError(
            f"The {what} {entry.name!r} plans problems of kind {entry.problem_kind!r}, this one is of kind {kind!r}; "
            f"choose one of {_list(fitting)}."
        )


EXTENSIONS: Mapping[str, str] = {
    "levels": "devices within devices, replication or a transfer factor (`levels`)",
    "types": "several types of accelerators or devices (`other_types`, `device_types`)",
}


def lacks(entry: Entry, problem: Problem) -> str | None:
    """What the problem uses and the method cannot plan, in words; None: nothing."""
    missing = sorted(problem.extensions - entry.extensions)
    return " and ".join(EXTENSIONS[name] for name in missing) or None


def check_extensions(entry: Entry, problem: Problem) -> None:
    """A method that would ignore what the problem says of its cluster is refused, with those that do not."""
    missing = lacks(entry, problem)
    if missing is None:
        return
    able = [other.name for other in methods_of(problem.kind) if lacks(other, problem) is None]
    remedy = f"choose one of {_list(able)}" if able else "no method can: change the problem"
    raise UsageError(f"{entry.name!r} cannot plan {missing}; {remedy}.")


def resolve_options(entry: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """The method's own options with defaults filled in; an option of somebody else is refused."""
    known = {spec.name: spec for spec in entry.options}
    for name in given:
        if name not in known:
            raise UsageError(_foreign_option(name, entry))
    return {name: check_value(spec, given.get(name, spec.default)) for name, spec in known.items()}


def _foreign_option(name: str, entry: Entry) -> str:
    flag = "--" + name.replace("_", "-")
    owners = option_owners().get(name)
    if not owners:
        has = _list("--" + spec.name.replace("_", "-") for spec in entry.options) or "none"
        return f"There is no option {flag}; {entry.name!r} has {has}."
    return f"{entry.name!r} has no option {flag}; it belongs to {_list(owners)}."


def declared_options(name: str) -> tuple[str, ...]:
    """The names of a method's own options; none where there is no such method."""
    entry = next((entry for entry in all_methods() if entry.name == name), None)
    return () if entry is None else tuple(spec.name for spec in entry.options)


def check_value(spec: OptionSpec, value: Any) -> Any:
    """The value in the type that the option declares, or an `InputError`."""
    if value is None and spec.default is None:
        return None
    checks = {
        "flag": _flag, "choice": _choice, "int": _int, "float": _float, "text": _text, "path": _text,
        "allocation": _allocation,
    }  # fmt: skip
    return checks[spec.type](spec, value)


def _wrong(spec: OptionSpec, value: Any, remedy: str) -> InputError:
    return InputError(f"option {spec.name}", f"is {value!r}", remedy)


def _flag(spec: OptionSpec, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(spec, value, "give true or false")
    return value


def _choice(spec: OptionSpec, value: Any) -> Any:
    if value not in spec.choices:
        raise _wrong(spec, value, f"give one of {_list(spec.choices)}")
    return value


def _int(spec: OptionSpec, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(spec, value, "give a whole number")
    return value


def _float(spec: OptionSpec, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _wrong(spec, value, "give a finite number")
    return float(value)


def _text(spec: OptionSpec, value: Any) -> str:
    if not isinstance(value, str):
        value = str(value)
    if not value:
        raise _wrong(spec, value, "give a text that is not empty")
    return str(value)


def _allocation(spec: OptionSpec, value: Any) -> list[Any]:
    """The numbers themselves: what is stored must not hang on a file."""
    from ...instances.chain.allocation import read_allocation

    return read_allocation(value)


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
