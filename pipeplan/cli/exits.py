"""The exit codes of `plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..instances.base.result import Result

OK = 0
"""A plan that the referee accepts (for lists and conversions: done)."""
NO_PLAN = 1
"""Infeasible, or a limit with nothing found; a proof that could not be confirmed."""
BAD_INPUT = 2
REJECTED = 3
"""The referee rejected a plan, a result claims what is not so, or a second proof contradicts one."""
INTERNAL = 70
"""An error inside pipeplan: a bug."""
INTERRUPTED = 130
"""Interrupted with nothing to show."""
BROKEN_PIPE = 141
"""The reader of our output went away."""


def exit_code(result: Result) -> int:
    """What the shell is told about a run."""
    from ..instances.base.result import Found, Stop

    if result.contradicted:
        return REJECTED
    if result.verified:
        return OK
    if result.found == Found.REJECTED:
        return REJECTED
    return INTERRUPTED if result.stop == Stop.INTERRUPTED else NO_PLAN
