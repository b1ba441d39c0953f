"""What a report says of a problem beside its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .fields import plain


def facts_of(
    problem: Any, counted: Sequence[str], told: Sequence[str], extensions: Sequence[str] = ()
) -> dict[str, Any]:
    """Facts of a problem: the number of entries of the fields `counted`, the values of the fields `told`, and the
    entries of those `extensions` that have any."""
    counts = {name: len(getattr(problem, name)) for name in counted}
    said = {name: getattr(problem, name) for name in told}
    extended = {name: plain(getattr(problem, name)) for name in extensions}
    return counts | said | {name: entries for name, entries in extended.items() if entries}
