"""What a report says of a problem beside its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any


def facts_of(
    problem: Any, counted: Sequence[str], told: Sequence[str], extensions: Sequence[str] = ()
) -> dict[str, Any]:
    """How many entries some fields have, what others say, and the entries of extensions where there are any."""
    counts = {name: len(getattr(problem, name)) for name in counted}
    said = {name: getattr(problem, name) for name in told}
    extended = {name: [asdict(entry) for entry in getattr(problem, name)] for name in extensions}
    return counts | said | {name: entries for name, entries in extended.items() if entries}
