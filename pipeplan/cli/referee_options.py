"""What `plan verify` and `plan show` share: the plan's file, and by which rules it is judged."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.errors import UsageError
from ..planners.run.rules import CONTIGUITIES, FLUSH, Rules, stored_allocation, unknown_allocation
from .console import say_note
from .signatures import option, with_options

if TYPE_CHECKING:
    from ..instances.kinds import Plan, Problem
    from ..instances.placement.referee.verify import Violation
    from ..instances.result import Result
    from ..planners.run.referees import Referee

SEMANTICS = ("paper", "reference")
RULE_NAMES = ("contiguity", "objective", "semantics", "hierarchy", "subgraphs_per_device", "allocation", "hash")
"""What a result file says about the rules and the problem that its plan was made for."""
OBJECTIVES: Mapping[str, tuple[str, ...]] = {
    "placement": ("max-load", "gpipe", "latency"),
    "staging": ("throughput", "flush"),
    "graph-pipeline": ("time-per-sample", "iteration"),
}
"""By kind of problem, the default first; others have one objective."""
HIERARCHIES = ("precise", "crude", "basic")

PlanArgument = Annotated[
    str,
    typer.Argument(metavar="PLAN", help="A plan, a result of `plan solve`, or an expert split.", show_default=False),
]


@dataclass(frozen=True, slots=True)
class Given:
    """What the user says about the rules; None: what the result was made for, else the first of its kind."""

    contiguity: str | None = None
    objective: str | None = None
    semantics: str | None = None
    hierarchy: str | None = None
    subgraphs_per_device: int | None = None


def with_rules(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of the rules, which arrive together as its argument `given`."""
    return with_options(command, "given", _rule_options(), lambda given: Given(**given))


def _rule_options() -> list[inspect.Parameter]:
    objectives = [name for names in OBJECTIVES.values() for name in names]
    return [
        _choice("contiguity", CONTIGUITIES, "What each device's nodes must form", "none"),
        _choice("objective", objectives, "What is recomputed", "the first of its kind"),
        _choice("semantics", SEMANTICS, "Of staging problems", "paper"),
        _choice("hierarchy", HIERARCHIES, "Of staging problems with levels", "precise"),
        option(
            "subgraphs_per_device",
            int,
            "--subgraphs-per-device",
            metavar="Q",
            min=1,
            help="With --objective latency, pieces that an accelerator may hold; "
            "default: what the result was made for.",
        ),
    ]


def _choice(name: str, choices: Iterable[str], what: str, default: str) -> inspect.Parameter:
    sentence = f"{what}; default: what the result was made for, else {default}."
    return option(name, str, f"--{name}", metavar="|".join(choices), help=sentence)


@dataclass(frozen=True, slots=True)
class Case:
    """A plan before the referee, with the rules that apply."""

    problem: Problem
    plan: Plan
    rules: Rules
    result: Result | None = None
    """What the plan's file says of it, where it is a result about this problem."""

    def differences(self) -> tuple[str, ...]:
        """What the result claims and the referee does not find, by the rules that it was made for."""
        from ..planners.run.claims import recompute

        return () if self.result is None else recompute(self.problem, self.result).differences

    def violations(self) -> tuple[Violation, ...]:
        return self._referee.violations(self.problem, self.plan, self.rules)

    def value(self) -> float:
        return self._referee.value(self.problem, self.plan, self.rules)

    def evaluation(self) -> Any:
        return self._referee.evaluation(self.problem, self.plan, self.rules)

    @property
    def _referee(self) -> Referee:
        from ..planners.run.referees import referee_of

        return referee_of(self.problem)


def read_case(problem: Problem, path: str, given: Given) -> Case:
    """The plan in a file; a result also says for which rules and for which problem it was made."""
    from ..instances.results import load_plan, load_result

    made_for = _made_for(path)
    plan = load_plan(path, problem)
    made_hash = made_for.get("hash")
    if made_hash is not None and made_hash != problem.hash:
        say_note(
            f"{path} was made for another problem (hash {made_hash}, this one has {problem.hash}); "
            "give the same cluster options as then."
        )
    rules = Rules(
        contiguity=_rule("--contiguity", given.contiguity, made_for.get("contiguity"), CONTIGUITIES, "none"),
        objective=_objective(problem, given.objective, made_for.get("objective")),
        semantics=_rule("--semantics", given.semantics, made_for.get("semantics"), SEMANTICS, "paper"),
        hierarchy=_rule("--hierarchy", given.hierarchy, made_for.get("hierarchy"), HIERARCHIES, "precise"),
        subgraphs_per_device=_pieces(given.subgraphs_per_device, made_for.get("subgraphs_per_device")),
        allocation=stored_allocation(made_for.get("allocation")),
    )
    unknown = unknown_allocation(made_for.get("allocation"))
    if unknown is not None:
        say_note(f"{unknown}.")
    if given.subgraphs_per_device is not None and not rules.latency:
        raise UsageError("--subgraphs-per-device counts only with --objective latency; give both or neither.")
    return Case(problem, plan, rules, load_result(path) if made_hash == problem.hash else None)


def _objective(problem: Problem, given: str | None, made_for: Any) -> str:
    """What is recomputed of problems of this kind."""
    names = OBJECTIVES.get(problem.kind, ())
    if given is not None and not names:
        raise UsageError(f"--objective says nothing about a {problem.kind} problem; drop it.")
    if given == FLUSH and "levels" in problem.extensions:
        raise UsageError("--objective flush is for flat networks and this problem has levels; drop it.")
    return _rule("--objective", given, made_for, names, names[0] if names else "max-load")


def _made_for(path: str) -> dict[str, Any]:
    """The problem's hash, contiguity and objective of a result file; nothing where the file is a mere plan."""
    from ..instances.json_file import read_json

    data = read_json(path)
    if not isinstance(data, dict) or "schema" not in data:
        return {}
    parts = [data.get("options"), data.get("problem")]
    known: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, dict):
            known |= {key: part[key] for key in RULE_NAMES if key in part}
    return known


def _pieces(given: int | None, made_for: Any) -> int | None:
    """A result that says nonsense here is judged without a limit, as a mere plan is."""
    if given is not None:
        return given
    return made_for if isinstance(made_for, int) and not isinstance(made_for, bool) and made_for >= 1 else None


def _rule(option: str, given: str | None, made_for: Any, choices: tuple[str, ...], default: str) -> str:
    if given is not None:
        return one_of(option, given, choices)
    return made_for if isinstance(made_for, str) and made_for in choices else default


def one_of(option: str, value: str, choices: tuple[str, ...]) -> str:
    """The value, where it is one of the choices."""
    if value not in choices:
        raise UsageError(f"{option} is {value!r}; give one of {', '.join(choices)}.")
    return value
