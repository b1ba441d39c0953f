"""What must hold before a plan is turned into passes, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterable

from ..base.errors import InputError, UsageError, Violation

# Passes whose start and end are told one by one.
MAX_TASKS = 2_000_000

# Rules that a plan may break and still be run: the simulation shows what comes of it.
HARMLESS = frozenset({"memory", "devices", "batches", "divides", "in-flight", "deadlock"})


def check_tasks(micro_batches: Iterable[int]) -> None:
    """Before the orders of all stages are made: `micro_batches` of each stage."""
    count = 2 * sum(micro_batches)
    if count > MAX_TASKS:
        raise UsageError(
            f"An iteration of this plan has {count} passes; at most {MAX_TASKS} can be listed one by one."
        )


def refuse_broken(violations: Iterable[Violation], what: str = "simulated") -> None:
    """A plan that breaks a rule which the simulation needs, or `what` else is made of the same stages."""
    blocking = next((violation for violation in violations if violation.rule not in HARMLESS), None)
    if blocking is not None:
        raise UsageError(f"The plan cannot be {what}. {blocking.message}")


def given(count: int | None) -> int:
    """The number of micro-batches, for kinds that do not say it themselves."""
    if count is None:
        raise InputError(
            "micro_batches", "is missing: this kind of problem does not say it", "give how many to run"
        )
    return count
