"""What may be asked of a staging problem: which options make sense for it. No cost is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.checks import check_known
from ..base.errors import InputError
from .problem import StagingProblem

# The objective that counts how the pipeline fills and drains once per batch.
FLUSH = "flush"

VARIANTS = ("basic", "crude", "precise")

# The only values of these options for which the recursion over levels is defined.
_NEEDED = {"semantics": "paper", "knapsack": "exact"}


def check_question(problem: StagingProblem, options: Mapping[str, Any]) -> None:
    """Refuse options that a problem with levels, or one without them, gives no meaning."""
    if not problem.levels:
        if options.get("hierarchy", "precise") != "precise":
            raise InputError("option hierarchy", "is given and the problem has no levels", "drop it, or add levels")
        return
    for name, needed in _NEEDED.items():
        if options.get(name, needed) != needed:
            problem_is = f"is {options[name]} and the problem has levels"
            raise InputError(f"option {name}", problem_is, f"give {needed}, or remove the levels")
    variant = options.get("hierarchy", "precise")
    if options.get("objective") == FLUSH and variant != "precise":
        raise InputError(
            "option objective",
            f"is {FLUSH} and the {variant} variant counts no copies",
            "give --option hierarchy=precise",
        )
    check_levels(problem, variant)


def check_levels(problem: StagingProblem, variant: str) -> None:
    """Refuse a problem for which this variant of the hierarchy makes no sense."""
    check_known("variant", variant, VARIANTS)
    if not problem.levels:
        raise InputError("levels", "is empty", "give the devices and the bandwidth of each level")
    if variant != "precise" and problem.exact_batches:
        raise InputError("exact_batches", f"means nothing to the {variant} variant", "use the precise variant")
    if variant == "crude" and problem.zero:
        raise InputError("zero", "divides what copies hold, which crude does not count", "use the precise variant")
