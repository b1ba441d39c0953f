"""What the name of a module tells: the list of layers that it is in, and its number there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_NUMBERED = re.compile(
    r"(?P<list>[^\[]+?)(?:\.(?P<dot>[0-9]{1,18})|\[(?P<bracket>[0-9]{1,18})\]| (?P<space>[0-9]{1,18}))(?=\.|$|@)"
)


def number_in(name: str) -> tuple[str, int] | None:
    """The list and the number, from the outermost number in the name: `h`, 7 of `h.7.mlp`, `h[7]` and `h 7`."""
    match = _NUMBERED.match(name)
    if match is None:
        return None
    return match["list"], int(match["dot"] or match["bracket"] or match["space"])


def numbered_part(name: str) -> str | None:
    """The name up to its outermost number: `h.7` of `h.7.mlp`."""
    match = _NUMBERED.match(name)
    return None if match is None else match[0]


def runs_backward(lists: Sequence[Sequence[str]]) -> bool:
    """Do the numbers fall along these lists of names more often than they rise?"""
    steps = 0
    for names in lists:
        homes = [home for name in names if (home := number_in(name)) is not None]
        steps += sum((b[1] > a[1]) - (b[1] < a[1]) for a, b in pairwise(homes) if a[0] == b[0])
    return steps < 0
