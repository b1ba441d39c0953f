"""What `plan verify` and `plan show` share: the plan's file, and by which rules it is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ..instances.errors import UsageError
from ..instances.kinds import Plan, Problem
from ..instances.referee import Violation
from ..planners.referees import Rules, referee_of
from .console import say_note

SEMANTICS = ("paper", "reference")
CONTIGUITIES = ("none", "device", "chain")
OBJECTIVES = ("max-load", "gpipe", "latency")

MADE_FOR = ("contiguity", "objective", "semantics", "subgraphs_per_device", "hash")
"""What a result file says about the rules and the problem that its plan was made for."""

PlanArgument = Annotated[
    str,
    typer.Argument(metavar="PLAN", help="A plan, a result of `plan solve`, or an expert split.", show_default=False),
]
Contiguity = Annotated[
    str | None,
    typer.Option(
        "--contiguity",
        metavar="|".join(CONTIGUITIES),
        help="What each device's nodes must form; default: what the result was made for, else none.",
        show_default=False,
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="|".join(OBJECTIVES),
        help="What is recomputed; default: what the result was made for, else max-load.",
        show_default=False,
    ),
]


Semantics = Annotated[
    str | None,
    typer.Option(
        "--semantics",
        metavar="|".join(SEMANTICS),
        help="Of staging problems; default: what the result was made for, else paper.",
        show_default=False,
    ),
]


SubgraphsPerDevice = Annotated[
    int | None,
    typer.Option(
        "--subgraphs-per-device",
        metavar="Q",
        min=1,
        help="With --objective latency, pieces that an accelerator may hold; default: what the result was made for.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Case:
    """A plan before the referee, with the rules that apply."""

    problem: Problem
    plan: Plan
    rules: Rules

    def violations(self) -> tuple[Violation, ...]:
        return referee_of(self.problem).violations(self.problem, self.plan, self.rules)

    def value(self) -> float:
        return referee_of(self.problem).value(self.problem, self.plan, self.rules)

    def evaluation(self) -> Any:
        return referee_of(self.problem).evaluation(self.problem, self.plan, self.rules)


def read_case(
    problem: Problem,
    path: str,
    contiguity: str | None,
    objective: str | None,
    semantics: str | None = None,
    subgraphs_per_device: int | None = None,
) -> Case:
    """The plan in a file; a result also says for which rules and for which problem it was made."""
    from ..instances.io import load_plan

    made_for = _made_for(path)
    plan = load_plan(path, problem)
    made_hash = made_for.get("hash")
    if made_hash is not None and made_hash != problem.hash:
        say_note(
            f"{path} was made for another problem (hash {made_hash}, this one has {problem.hash}); "
            "give the same cluster options as then."
        )
    rules = Rules(
        contiguity=_rule("--contiguity", contiguity, made_for.get("contiguity"), CONTIGUITIES, "none"),
        objective=_rule("--objective", objective, made_for.get("objective"), OBJECTIVES, "max-load"),
        semantics=_rule("--semantics", semantics, made_for.get("semantics"), SEMANTICS, "paper"),
        subgraphs_per_device=_pieces(subgraphs_per_device, made_for.get("subgraphs_per_device")),
    )
    if subgraphs_per_device is not None and not rules.latency:
        raise UsageError("--subgraphs-per-device counts only with --objective latency; give both or neither.")
    return Case(problem, plan, rules)


def _made_for(path: str) -> dict[str, Any]:
    """The problem's hash, contiguity and objective of a result file; nothing where the file is a mere plan."""
    from ..instances.io import read_json

    data = read_json(path)
    if not isinstance(data, dict) or "schema" not in data:
        return {}
    parts = [data.get("options"), data.get("problem")]
    known: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, dict):
            known |= {key: part[key] for key in MADE_FOR if key in part}
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
