"""The exit codes of `plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..instances.base.result import Result

# A plan that the referee accepts (for lists and conversions: done).
OK = 0
# Infeasible, or a limit with nothing found; a proof that could not be confirmed.
NO_PLAN = 1
BAD_INPUT = 2
# The referee rejected a plan or contradicts the method, a result claims what is not so, or a second proof contradicts
# the first.
REJECTED = 3
# An error inside pipeplan: a bug.
INTERNAL = 70
# Interrupted with nothing to show.
INTERRUPTED = 130
# The reader of our output went away.
BROKEN_PIPE = 141


def exit_code(result: Result) -> int:
    """The code with which `plan` ends after this result: 0 for a verified plan, 3 for a rejected or
    contradicted one, 130 for an interrupt, else 1."""
    from ..instances.base.result import Found, Stop

    if result.contradicted or result.found == Found.REJECTED:
        return REJECTED
    if result.verified:
        return OK
    return INTERRUPTED if result.stop == Stop.INTERRUPTED else NO_PLAN
