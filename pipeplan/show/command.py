"""The command that asks for a result again, as far as the result tells."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from ..formulations.registry import FORMULATIONS
from ..instances.base.cluster import OF_ONE_SOURCE
from ..instances.base.errors import UsageError
from ..instances.base.result import Asked, Result
from ..instances.lookup import packaged_by_hash
from ..planners.options import SolveOptions
from ..planners.registry import EXACT, PLANNERS, USUAL_OPTIONS

# Options of the command line by the fields of `SolveOptions` that they set.
LIMITS = {
    "rel_gap": "--gap",
    "abs_gap": "--abs-gap",
    "time_limit_s": "--time-limit",
    "memory_limit_bytes": "--memory-limit",
    "threads": "--threads",
    "seed": "--seed",
}


def command_of(result: Result) -> str | None:
    """The command that gives this result: every option that differs from its default; None where a program
    asked about a problem of its own."""
    asked = result.asked or _packaged(result)
    if asked is None:
        return None
    words = [
        "plan",
        "solve",
        asked.instance,
        *cluster_words(asked),
        *_method(result),
        *_own(result),
        *_limits(result.options),
    ]
    return shlex.join(words)


def _packaged(result: Result) -> Asked | None:
    """What was asked, where the problem is an unchanged packaged instance: its name alone. None: it is not
    packaged."""
    try:
        return Asked(packaged_by_hash(result.problem).name)
    except UsageError:
        return None


def cluster_words(asked: Asked) -> Iterator[str]:
    """Options of the cluster and of the table as they were typed."""
    for name, value in asked.cluster.items():
        yield from _option(name, value, by_name=name in OF_ONE_SOURCE)


def _option(name: str, value: object, by_name: bool = False) -> Iterator[str]:
    """The option as it is typed; `by_name`: as `--option NAME=VALUE`."""
    flag = "--" + name.replace("_", "-")
    if by_name:
        text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        yield from (
            "--option",
            flag[2:] if value is True else f"{flag[2:]}={text.lower() if value is False else text}",
        )
    elif isinstance(value, bool):
        yield flag if value else flag.replace("--", "--no-", 1)
    else:
        yield from (flag, ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))


def _method(result: Result) -> Iterator[str]:
    if result.formulation is not None and result.planner in (EXACT, None):
        yield from ("--formulation", result.formulation)
    elif result.planner is not None:
        yield from ("--planner", result.planner)
    solver = result.options.get("solver", "auto")
    if solver != "auto":
        yield from ("--solver", str(solver))
    if result.cross_check is not None:
        yield "--cross-check"


def _own(result: Result) -> Iterator[str]:
    """Options that the method declares as its own."""
    entry = FORMULATIONS.get(result.formulation or "") or PLANNERS.get(result.planner or "")
    for spec in () if entry is None else entry.declared.values():
        value = result.options.get(spec.name, spec.default)
        if value not in (None, spec.default) and (spec.type != "flag" or value is True):
            yield from _option(spec.name, value, by_name=spec.name not in USUAL_OPTIONS)


def command_of_curve(asked: Asked, given: Mapping[str, object], limits: SolveOptions) -> str:
    """The `plan pareto` command that asks for the same curves; `given` holds values by option, None where not given."""
    # Each point has a memory of its own.
    cluster = {name: value for name, value in asked.cluster.items() if name != "memory"}
    words = ["plan", "pareto", asked.instance, *cluster_words(replace(asked, cluster=cluster))]
    for name, value in given.items():
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            words += _option(name, one)
    return shlex.join([*words, *_limits({limit.name: getattr(limits, limit.name) for limit in fields(limits)})])


def _limits(options: Mapping[str, Any]) -> Iterator[str]:
    for limit in fields(SolveOptions):
        value = options.get(limit.name)
        if limit.name in LIMITS and value is not None and value != limit.default:
            yield from (LIMITS[limit.name], str(value))
