"""What a slightly better cluster is worth: one more device, more memory, faster links, each solved by the same method.

Every plan of a problem is also a plan of each variant, at the same cost or less, so that no variant has a worse
optimum.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

from ..formulations.contract import Problem
from ..instances.base.checks import check_positive
from ..instances.base.errors import InputError, show
from ..instances.base.kind import Step
from ..instances.base.result import Result, Stop
from ..instances.lookup import problem_of
from ..instances.registry import is_problem, kind_of
from ..instances.staging.problem import StagingProblem
from ..planners.options import Progress, SolveOptions
from ..planners.run.solve import solve

SCHEMA = "pipeplan.sensitivity/1"
# How much more memory and bandwidth a variant has unless the caller says otherwise.
GIGABYTE = 1e9
TENTH = 0.1


class Variant(NamedTuple):
    """What is better, in words, and the problem with it."""

    change: str
    problem: Problem


@dataclass(frozen=True, slots=True)
class Worth:
    """One change and the result with it."""

    change: str
    result: Result
    ratio: float | None
    """The value with the change, divided by that of the problem itself; below 1 the change is worth something. None:
    one of the two has no plan, or the problem itself has the value 0 and the change has not."""
    problem: Problem | None = None
    """The problem that was solved."""
    makes_possible: bool = False
    """Is there a plan where the problem itself has none?"""

    def to_json(self) -> dict[str, Any]:
        return {"change": self.change, "ratio": self.ratio, **_facts(self.result)}


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The result of the problem itself, and one entry for each change."""

    base: Result
    changes: tuple[Worth, ...]

    @property
    def interrupted(self) -> bool:
        """Was it cut short, so that changes are missing?"""
        last = self.changes[-1].result if self.changes else self.base
        return last.stop == Stop.INTERRUPTED

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "problem": dict(self.base.problem),
            "formulation": self.base.formulation,
            "planner": self.base.planner,
            "options": dict(self.base.options),
            **_facts(self.base),
            "changes": [worth.to_json() for worth in self.changes],
        }


def _facts(result: Result) -> dict[str, Any]:
    return {
        "stop": str(result.stop),
        "found": str(result.found),
        "objective": result.objective,
        "bound": result.bound,
        "verified": result.verified,
        "seconds": result.seconds.get("total"),
    }


def sensitivity(
    problem: Problem | str | os.PathLike[str],
    *,
    formulation: str | None = None,
    planner: str | None = None,
    solver: str = "auto",
    options: Mapping[str, Any] | None = None,
    limits: SolveOptions | None = None,
    memory_bytes: float = GIGABYTE,
    bandwidth_share: float = TENTH,
    questions: Mapping[str, Problem] | None = None,
    batch_grows: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Sensitivity:
    """Solve a problem on its own cluster and on slightly better ones, to say what each change would be worth.

    Values are as exact as the method's proofs: a ratio of two proven values is exact, others say how they stopped.
    An interrupt leaves out what has not been asked yet.

    Parameters
    ----------
    problem : Problem, str or PathLike
        A problem, the path of a file, or the name of a packaged instance.
    formulation : str, optional
        The name of a model, which the exact planner is handed. None: see `planner`.
    planner : str, optional
        The name of another way to a plan. None: the exact planner with that formulation; with neither, the best exact
        method for the problem, which the result names.
    solver : str
        "auto", or the names of installed solvers, joined by commas, that work on the model side by side.
    options : Mapping, optional
        Options that the formulation or planner declares, by name (`plan formulations NAME` lists them). None: its
        defaults.
    limits : SolveOptions, optional
        Limits of each run. None: no limits.
    memory_bytes : float
        How much more memory a device has in the variant with more, in bytes.
    bandwidth_share : float
        How much faster the links are in the variant with faster ones, as a share: 0.1 is a tenth more bandwidth.
    questions : Mapping, optional
        Further problems to compare with, by their names, on other clusters for example. None: no others.
    batch_grows : bool
        For stagings: a variant with more devices also has as many more micro-batches in a batch, which otherwise limit
        how many devices can be used. False: the batch is that of the problem.
    on_progress : callable, optional
        Called with a `Progress` whenever there is news. None: nobody watches.

    Returns
    -------
    Sensitivity
        The problem's own result, and for each change its result and the ratio of the values. Nothing is said of what
        the problem does not limit.

    Raises
    ------
    InputError
        An argument has another type, or a step is not above 0.
    UsageError
        There is no such instance, method, solver or option, or they do not go together.
    """
    problem = problem_of(problem)
    others = _questions(questions or {})
    better = variants(problem, memory_bytes, bandwidth_share)  # refuses before any work is done
    asked_for = (*others, *(_with_larger_batch(problem, variant) if batch_grows else variant for variant in better))

    ask = partial(
        solve,
        formulation=formulation,
        planner=planner,
        solver=solver,
        options=options,
        limits=limits,
        on_progress=on_progress,
    )
    base = ask(problem)
    changes: list[Worth] = []
    last = base
    for change, variant in asked_for:
        if last.stop == Stop.INTERRUPTED:
            break
        last = ask(variant)
        possible = base.plan is None and last.plan is not None
        changes.append(Worth(change, last, _ratio(last, base), variant, possible))
    return Sensitivity(base, tuple(changes))


def variants(
    problem: Problem, memory_bytes: float = GIGABYTE, bandwidth_share: float = TENTH
) -> tuple[Variant, ...]:
    """The problem with one device more (of each type, or on each level), more memory, or faster links by this share.

    Memory without a limit and transfers that take no time have no variant.
    """
    for name, value in (("memory_bytes", memory_bytes), ("bandwidth_share", bandwidth_share)):
        check_positive(name, value)
    amount = f"{memory_bytes / GIGABYTE:g} GB" if memory_bytes >= 1e-3 * GIGABYTE else f"{memory_bytes:g} B"
    faster = f"{100 * bandwidth_share:g} % more bandwidth"
    step = Step(memory_bytes, f"{amount} more memory", 1 + bandwidth_share, faster)
    upgrades = kind_of(problem).upgrades
    return () if upgrades is None else tuple(starmap(Variant, upgrades(problem, step)))


def _questions(questions: Mapping[str, Problem]) -> tuple[Variant, ...]:
    for name, problem in questions.items():
        if not is_problem(problem):
            raise InputError(f"questions[{show(name)}]", f"is {show(problem)}", "give a problem")
    return tuple(starmap(Variant, questions.items()))


def _with_larger_batch(problem: Problem, variant: Variant) -> Variant:
    """A variant of a staging with a larger batch: its values are per micro-batch and can still be compared. Values of
    other kinds are per batch, and their variants stay as they are."""
    change, larger = variant
    if not isinstance(problem, StagingProblem) or not isinstance(larger, StagingProblem):
        return variant
    more = larger.devices - problem.devices
    return Variant(change, larger.replace(micro_batches=larger.micro_batches + more))


def _ratio(result: Result, base: Result) -> float | None:
    if result.objective is None or base.objective is None:
        return None
    if not base.objective:
        return None if result.objective else 1.0
    return result.objective / base.objective
