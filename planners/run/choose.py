"""From what a user asks to one resolved question (`ask`), or to the list of what would make sense.

Method, rules, plans of its proofs, starts and second method are looked up here, and nowhere in `run` after this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...formulations.contract import OptionSpec, Plan, Problem
from ...formulations.family import Family
from ...formulations.plugins import installed
from ...formulations.registry import FORMULATIONS, Entry, find_formulation
from ...formulations.registry import GROUP as FORMULATION_PLUGINS
from ...instances.base.errors import InputError, NotInstalledError, UsageError, did_you_mean, show, unknown_name
from ...instances.base.kind import Rules
from ...instances.base.quantities import listed
from ...instances.lookup import plan_of
from ..options import SolveOptions
from ..referee import rules_of
from ..registry import (
    EXACT,
    GROUP,
    PLANNERS,
    all_methods,
    asked_formulation,
    cross_check_of,
    default_formulation,
    default_method,
    find_planner,
    methods_of,
    objectives_of,
    option_owners,
    questions,
    quick_planners,
    usual_objective,
)

Word = Literal["auto", "dp", "none"]
WORDS: tuple[Word, ...] = ("auto", "dp", "none")
AskedStart = Word | Plan

# The word that asks for a dynamic program's plan as a start: in general the optimum among chains.
DP = "dp"
# Asks `quick_planners` for those whose plan may stand in for one that died with its solver.
INSTEAD = "instead"


@dataclass(frozen=True, slots=True)
class Method:
    """A planner, with a formulation where the planner is `exact`, and every option with its value."""

    planner: Entry
    formulation: Entry | None
    solver: str | None
    options: Mapping[str, Any]

    @property
    def entry(self) -> Entry:
        """The entry in the registry: that of the formulation where there is one."""
        return self.formulation or self.planner

    @property
    def name(self) -> str:
        """What a proof is signed with."""
        return self.entry.name

    @property
    def title(self) -> str:
        return self.planner.name if self.formulation is None else f"{self.planner.name} ({self.name})"

    @property
    def is_plugin(self) -> bool:
        """Is it somebody else's code?"""
        return self.name not in FORMULATIONS and self.name not in PLANNERS

    def family(self, problem: Problem) -> Family | None:
        """The plans of which its bounds speak; None where it has no bounds."""
        return self.entry.family(problem, self.options)

    @property
    def names(self) -> dict[str, Any]:
        """The arguments of `solve` that ask for it."""
        if self.formulation is None:
            return {"planner": self.planner.name}
        return {"formulation": self.formulation.name, "solver": self.solver}

    def request_options(self) -> dict[str, Any]:
        """What the planner is told: its options, and for `exact` the formulation and the solver as well."""
        return {**self.options, **(self.names if self.formulation is not None else {})}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of one run, resolved once."""

    problem: Problem
    method: Method
    rules: Rules
    """The rules by which plans are judged."""
    family: Family | None
    """The plans of which the method's proofs speak; None where it proves nothing."""
    start: AskedStart
    starts: tuple[Entry, ...]
    """Quick planners whose plans are offered to the method as a start."""
    instead: tuple[Entry, ...]
    """Quick planners whose plan may stand in for one that died with its solver."""
    second: Entry | None
    """The method that checks the proof; None: nobody asks for that."""


def ask(
    problem: Problem,
    formulation: str | None,
    planner: str | None,
    solver: str,
    options: Mapping[str, Any],
    start: AskedStart = "auto",
    cross_check: bool = False,
) -> Question:
    """The question, with the method of these names; what cannot be asked is refused before any work is done."""
    method = choose(problem, formulation, planner, solver, options)
    loaded = method.entry.load() if method.formulation is not None or method.is_plugin else None
    rules = rules_of(problem, method.options, loaded)
    second = _second_method(problem, method, rules) if cross_check else None
    return Question(
        problem,
        method,
        rules,
        method.family(problem),
        start,
        _able(_starts(method, start), problem),
        _able(quick_planners(method.entry, INSTEAD), problem),
        second,
    )


def start_of(given: object) -> AskedStart:
    """What the caller asks for: a word, or a plan, of which the referee says whether it is one for the problem."""
    if not isinstance(given, str):
        return plan_of(given, "warm_start")
    for word in WORDS:
        if given == word:
            return word
    raise UsageError(f"The warm start is {show(given)}; give a plan, or one of {_list(WORDS)}.")


def _able(entries: Iterable[Entry], problem: Problem) -> tuple[Entry, ...]:
    """Those that can plan all that the problem uses; the plan of another would be one for another problem."""
    return tuple(entry for entry in entries if lacks(entry, problem) is None)


def _starts(method: Method, start: AskedStart) -> list[Entry]:
    """The quick planners that are asked for a start; a start that the method cannot have is refused."""
    if start in ("auto", "none"):
        return quick_planners(method.entry, str(start))
    if not method.planner.takes_start:
        able = _list(entry.name for entry in PLANNERS.values() if entry.takes_start)
        raise UsageError(
            f"Planner {method.planner.name!r} starts from nothing; drop --warm-start, or choose one of {able}."
        )
    if start != DP:
        return []
    quick = quick_planners(method.entry, DP)
    if method.name in [entry.name for entry in quick]:
        raise UsageError(f"--warm-start {DP} starts {method.name} from itself; drop it.")
    if not quick:
        kinds = dict.fromkeys(entry.problem_kind for entry in all_methods() if entry.starts.get(DP))
        raise UsageError(f"--warm-start {DP} is for {listed(list(kinds))} problems; drop it.")
    return quick


def _second_method(problem: Problem, method: Method, rules: Rules) -> Entry:
    """The method that checks the proof, or a `UsageError` where there is none."""
    entry = cross_check_of(method.entry)
    if entry is None:
        raise UsageError(f"There is no cross-check for {method.entry.name!r}; drop --cross-check.")
    limited = next((name for name in questions() if method.options.get(name) is not None), None)
    if limited is not None:
        flag = "--" + limited.replace("_", "-")
        raise UsageError(f"There is no cross-check with {flag}; drop --cross-check.")
    objectives = entry.objectives or tuple(filter(None, [usual_objective(entry.problem_kind)]))
    if objectives and rules.objective not in objectives:
        others = " or ".join(map(str, objectives))
        raise UsageError(
            f"There is no cross-check for {rules.objective}; drop --cross-check, or minimise {others}."
        )
    missing = lacks(entry, problem)
    if missing is not None:
        raise UsageError(
            f"There is no cross-check here, since {entry.name!r} cannot plan {missing}; drop --cross-check."
        )
    return entry


def choose(
    problem: Problem, formulation: str | None, planner: str | None, solver: str, options: Mapping[str, Any]
) -> Method:
    """The method of these names; without a name what the options ask for, or the default for this kind of problem.

    An exact planner that is more than one model may be named as a formulation, too.
    """
    _check_question(problem.kind, options)
    if formulation is None and planner in (None, EXACT):
        formulation = _asked(problem, solver, options)
    if formulation is None and planner is None and (solver == "auto" or problem.extensions):
        default = default_method(problem.kind, problem.extensions)
        planner = default.name if default is not None and default.name in PLANNERS else None
    if (entry := PLANNERS.get(formulation or "")) and entry.as_formulation and planner in (None, formulation):
        formulation, planner = None, formulation
    if planner is not None and planner != EXACT:
        return _choose_planner(problem, formulation, planner, solver, options)
    return _choose_exact(problem, formulation, solver, options)


def _asked(problem: Problem, solver: str, options: Mapping[str, Any]) -> str | None:
    """The formulation that the question means; None where the default method answers it."""
    kind, objective = problem.kind, options.get("objective")
    usual = default_method(kind, problem.extensions)
    if solver != "auto" and not problem.extensions:
        usual = default_formulation(kind)
    objectives = objectives_of(kind)
    if objective is not None and objectives and objective not in objectives:
        raise InputError("option objective", f"is {objective!r}", f"give one of {_list(objectives)}")
    entry = asked_formulation(kind, options)
    if entry is None or (not entry.asked_by and usual is not None and objective in usual.objectives):
        return None
    return entry.name


def _check_question(kind: str, options: Mapping[str, Any]) -> None:
    """Refuse options that change the question of another kind of problem."""
    for entry in all_methods():
        if entry.problem_kind != kind and set(entry.asked_by) & set(options):
            flag = "--" + entry.asked_by[0].replace("_", "-")
            raise UsageError(f"{flag} is for {entry.problem_kind} problems, but this one is a {kind}; drop it.")


def _choose_planner(
    problem: Problem, formulation: str | None, planner: str, solver: str, options: Mapping[str, Any]
) -> Method:
    entry = PLANNERS.get(planner) or _another("planner", planner, PLANNERS, GROUP, find_planner)
    entry = entry.for_kind(problem.kind)
    if formulation is not None:
        raise UsageError(
            f"Planner {planner!r} uses no formulation; give --planner {planner} alone, or --formulation {formulation} "
            f"alone or with --planner {EXACT}."
        )
    if solver != "auto":
        raise UsageError(
            f"Planner {planner!r} uses no solver; drop --solver {solver}, or choose --planner {EXACT}."
        )
    _check_kind(entry, problem.kind, [other.for_kind(problem.kind) for other in PLANNERS.values()], "planner")
    check_extensions(entry, problem)
    return Method(entry, None, None, resolve_options(entry, options))


def _choose_exact(problem: Problem, formulation: str | None, solver: str, options: Mapping[str, Any]) -> Method:
    kind = problem.kind
    entry = default_formulation(kind) if formulation is None else FORMULATIONS.get(formulation)
    if entry is None and formulation is not None:
        entry = _another("formulation", formulation, FORMULATIONS, FORMULATION_PLUGINS, find_formulation)
    if entry is None:
        names = _list(dict.fromkeys(other.name for other in methods_of(kind)))
        raise UsageError(
            f"No formulation or solver plans problems of kind {kind!r}; give a --planner alone: {names}."
        )
    _check_kind(entry, kind, FORMULATIONS.values(), "formulation")
    check_extensions(entry, problem)
    usable, _ = installed_solvers(solver)
    return Method(PLANNERS[EXACT], entry, usable, resolve_options(entry, options))


def installed_solvers(solver: str) -> tuple[str, tuple[str, ...]]:
    """Those of the named solvers that are installed, and a sentence on each other; an unknown one, or none, is refused.

    `solver` is "auto", or names joined by commas.
    """
    if solver == "auto":
        return solver, ()
    from ..backends.registry import find_backend  # loads numpy, which the tables of names do without

    usable, missing = [], []
    for name in dict.fromkeys(name.strip() for name in solver.split(",")):
        try:
            usable.append(find_backend(name).name)
        except NotInstalledError as error:
            missing.append(error)
    if not usable:
        raise missing[0]
    return ",".join(usable), tuple(map(str, missing))


def check_native(solver: str, limits: SolveOptions) -> None:
    """Refuse native options unless one solver is named: only one knows them, and for all others they are errors."""
    if limits.native and (solver == "auto" or "," in solver):
        raise UsageError(
            f"--native {next(iter(limits.native))}=... belongs to one solver and --solver is {solver!r}; "
            "name one solver with --solver."
        )


def _another(what: str, name: str, ours: Iterable[str], group: str, find: Callable[[str], Entry | None]) -> Entry:
    """The entry of another package, or a `UsageError` with all names."""
    entry = find(name)
    if entry is None:
        raise unknown_name(f"{what} named", name, dict.fromkeys((*ours, *installed(group))))
    return entry


def _check_kind(entry: Entry, kind: str, others: Iterable[Entry], what: str) -> None:
    if entry.problem_kind not in (kind, "any"):
        fitting = [other.name for other in others if other.problem_kind in (kind, "any")]
        remedy = f"choose one of {_list(fitting)}" if fitting else f"drop it: there is no {what} for this kind"
        raise UsageError(
            f"The {what} {entry.name!r} plans problems of kind {entry.problem_kind!r}, but this one is of kind "
            f"{kind!r}; {remedy}."
        )


# What a problem may have beyond the flat one, in the words of errors.
EXTENSIONS: Mapping[str, str] = {
    "levels": "devices within devices (`levels`)",
    "no replicas": "stages without replicas (`replication`)",
    "types": "several types of accelerators or devices (`other_types`, `device_types`)",
}


def lacks(entry: Entry, problem: Problem) -> str | None:
    """What the problem uses and the method cannot plan, in words; None: nothing."""
    missing = sorted(problem.extensions - entry.extensions)
    return listed([EXTENSIONS[name] for name in missing]) if missing else None


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
    specs = {spec.name: spec for spec in entry.options}
    for name in given:
        if name not in specs:
            raise UsageError(_foreign_option(name, entry))
    return {name: check_value(spec, given.get(name, spec.default)) for name, spec in specs.items()}


def _foreign_option(name: str, entry: Entry) -> str:
    option, owners = name.replace("_", "-"), option_owners().get(name)
    if not owners:
        known = [spec.name.replace("_", "-") for spec in entry.options]
        guess = did_you_mean(option, known)
        return f"There is no option {option!r}{guess}; {entry.name!r} has {_list(known) or 'none'}."
    return f"{entry.name!r} has no option {option!r}; it belongs to {_list(owners)}."


def check_value(spec: OptionSpec, value: Any) -> Any:
    """The value in the type that the option declares, or an `InputError`."""
    if value is None and spec.default is None:
        return None
    if spec.type in _PLAIN:
        types, remedy = _PLAIN[spec.type]
        fits = isinstance(value, types) and isinstance(value, bool) == (types is bool)
        if not fits or (spec.type == "float" and not math.isfinite(value)):
            raise _wrong(spec, value, remedy)
        if (spec.least is not None and value < spec.least) or (spec.most is not None and value > spec.most):
            raise _wrong(spec, value, remedy + _range(spec))
        return float(value) if spec.type == "float" else value
    checks = {"choice": _choice, "text": _text, "path": _text, "allocation": _allocation}
    return checks[spec.type](spec, value)


_PLAIN: Mapping[str, tuple[Any, str]] = {
    "flag": (bool, "give true or false"),
    "int": (int, "give a whole number"),
    "float": ((int, float), "give a finite number"),
}


def _range(spec: OptionSpec) -> str:
    """The numbers that the option takes, as the end of a remedy."""
    least, most = (None if end is None else f"{end:.15g}" for end in (spec.least, spec.most))
    if least is not None and most is not None:
        return f" from {least} to {most}"
    return f" >= {least}" if most is None else f" <= {most}"


def _wrong(spec: OptionSpec, value: Any, remedy: str) -> InputError:
    return InputError(f"option {spec.name}", f"is {show(value)}", remedy)


def _choice(spec: OptionSpec, value: Any) -> Any:
    if value not in spec.choices:
        field, guess = f"option {spec.name}", did_you_mean(value, spec.choices)
        raise InputError(field, f"is {value!r}{guess}", f"give one of {_list(spec.choices)}")
    return value


def _text(spec: OptionSpec, value: Any) -> str:
    if not isinstance(value, str):
        value = str(value)
    if not value:
        raise _wrong(spec, value, "give a text that is not empty")
    return str(value)


def _allocation(spec: OptionSpec, value: Any) -> list[Any]:
    """The numbers themselves: what is stored must not hang on a file."""
    from ...instances.chain.plan import read_allocation

    return read_allocation(value)


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
