"""The public question, for every kind of problem: how much memory is needed at least? And where a problem has no plan:
how much would do?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from ...formulations.contract import Problem
from ...instances.base.amounts import as_written
from ...instances.base.errors import PipeplanError, UsageError, show
from ...instances.least_memory import SmallestMemory, option, said, sufficient
from ...instances.lookup import problem_of
from ...instances.registry import kind_of
from ..kinds import planned_kind
from ..options import Progress, SolveOptions, check_asked, limits_of
from ..registry import methods_of

if TYPE_CHECKING:
    from ...instances.chain.problem import ChainProblem
    from ..chain.smallest_memory import ChainMemory


@overload
def smallest_memory(
    problem: ChainProblem,
    limits: SolveOptions | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> ChainMemory: ...


@overload
def smallest_memory(
    problem: Problem | str | os.PathLike[str],
    limits: SolveOptions | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> SmallestMemory: ...


def smallest_memory(
    problem: Problem | str | os.PathLike[str],
    limits: SolveOptions | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> SmallestMemory:
    """Find the smallest memory per device with which a problem has any plan, however slow.

    An interrupt keeps what is known by then.

    Parameters
    ----------
    problem : Problem, str or PathLike
        A problem, the path of a file, or the name of a packaged instance; its own limit of memory does not count.
    limits : SolveOptions, optional
        Where a limit ends the search, what is known by then is returned. None: no limits.
    options : Mapping, optional
        Options of formulations and planners that say which plans there are, `{"non_contiguous": True}` say; others
        make no difference. None: their defaults.
    on_progress : callable, optional
        Called with a `Progress` whenever there is news: the least amount that is known to be enough, and the bound,
        both in the unit of the result. None: nobody watches.

    Returns
    -------
    SmallestMemory
        An amount with a plan that it holds, and one below which there is none, the same on each device; where they
        meet, it is proven. Both are in bytes, or in the memory unit of a schedule. Of chains it says what the memory
        is made of, too.

    Raises
    ------
    InputError
        An argument has another type.
    UsageError
        There is no such instance, or an option is none of the kind's.
    """
    problem, limits = problem_of(problem), limits_of(limits)
    check_asked({}, options, on_progress)
    _check_options(problem, options or {})
    ask = planned_kind(problem).least_memory
    if ask is None:
        raise UsageError(
            f"The smallest memory of a {problem.kind} problem cannot be found; give one of another kind."
        )
    least = ask(problem, options or {}, limits, on_progress)
    if least.memory_bytes is None and least.proven:
        return replace(least, reason=_why_none(problem, options or {}, limits))
    return least


def _why_none(problem: Problem, options: Mapping[str, Any], limits: SolveOptions) -> str:
    """Why no amount of memory is enough, where that is known."""
    explain = planned_kind(problem).why_none
    # Whether another amount would do is not asked again: none does.
    why = () if explain is None else explain(kind_of(problem).with_memory(problem, None), options, limits, False)
    return why[0].removesuffix(".") if why else "something else is missing"


def _check_options(problem: Problem, options: Mapping[str, Any]) -> None:
    names = sorted({spec.name for entry in methods_of(problem.kind) for spec in entry.options})
    for name in options:
        if name not in names:
            raise UsageError(
                f"There is no option {show(name)} for a {problem.kind} problem; give one of {', '.join(names)}."
            )


# ---- why a problem has no plan, where memory is missing ------------------------------------------------


def explain(problem: Problem, options: Mapping[str, Any], limits: SolveOptions, proven: bool) -> tuple[str, ...]:
    """Which memory would do for a problem that has no plan; nothing where it is not proven that there is none."""
    return would_do(problem, options, limits) if proven else ()


def would_do(problem: Problem, options: Mapping[str, Any], limits: SolveOptions) -> tuple[str, ...]:
    """A sentence on how much memory would be enough, as far as it is known; nothing where nobody can tell."""
    ask = planned_kind(problem).least_memory
    try:
        if ask is None or kind_of(problem).with_memory(problem, None) == problem:
            return ()
        memory = ask(problem, options, limits, None)
    except PipeplanError:  # plans that nobody can tell the least memory of
        return ()
    return (_sentence(problem, memory),)


def _sentence(problem: Problem, memory: SmallestMemory) -> str:
    if memory.memory_bytes is None:
        return said(memory)
    limit_bytes = problem.memory_bytes
    if limit_bytes is not None and as_written(memory.memory_bytes) <= as_written(limit_bytes):
        enough = sufficient(memory.memory_bytes, memory.counted)
        return f"plans exist with {enough} of memory per device, but none that this method makes"
    return f"{said(memory)}; give {option(memory.memory_bytes, memory.counted)}"
