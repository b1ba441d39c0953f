"""Which layers a device or a stage holds, as ranges in the order in which they run."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..instances.base.graph import Graph

# What stands for the part that is cut out of a name.
DOTS = ".."
# The fewest characters to which a name is shortened.
LEAST_NAME = 2 + len(DOTS)
# Characters that stand between the parts of a name.
SEPARATORS = "./_"
# A name that ends in a number.
NUMBERED = re.compile(r"(.*?)(\d+)", re.DOTALL)


def shortened(text: str, most: int) -> str:
    """The name in `most` characters, or `LEAST_NAME` if that is more. It is cut behind parts that end in a number, as
    `branch0.1`, or else in its middle: the beginning says what it is, and the end which one. A number is kept whole
    where there is room for it."""
    if len(text) <= most:
        return text
    kept = max(most, LEAST_NAME) - len(DOTS)
    whole = re.match(r".*\d(?=[./_])", text[: kept + 1])
    if whole:
        return whole[0] + DOTS
    end = len(text) - kept // 2
    number = re.search(r"\d+$", text[:end])
    if number and text[end : end + 1].isdigit() and len(text) - number.start() < kept:
        end = number.start()
    start = text[: kept - (len(text) - end)]
    if text[len(start)].isdigit():
        start = start.rstrip("0123456789") or start
    return (start.rstrip(SEPARATORS) or start) + DOTS + text[end:].lstrip(SEPARATORS)


@dataclass(frozen=True, slots=True)
class Range:
    """Names that follow each other, by the first and the last."""

    first: str
    last: str

    def text(self, most: int | None = None) -> str:
        """`0-9`, `layer 0-9`, `layer3-layer9`, or `layer3-9` where there is no room for that. Parts
        that the last name shares with the first are left out before anything is cut."""
        if self.first == self.last:
            return self.first if most is None else shortened(self.first, most)
        start, end = NUMBERED.fullmatch(self.first), NUMBERED.fullmatch(self.last)
        if start and end and start[1] == end[1] and (not start[1] or start[1].endswith(" ")):
            whole = f"{self.first}-{end[2]}"
            return whole if most is None else shortened(whole, most)
        between = " to " if "-" in self.first + self.last else "-"
        if most is None or len(self.first) + len(between) + len(self.last) <= most:
            return f"{self.first}{between}{self.last}"
        if start and end and start[1] == end[1] and len(f"{self.first}-{end[2]}") <= most:
            return f"{self.first}-{end[2]}"
        shared = _shared_parts(self.first, self.last)
        last = self.last[len(shared) :]
        if len(self.first) + len(between) + len(last) <= most:
            return f"{self.first}{between}{last}"
        return between.join(_both_shortened(self.first, last, most - len(between)))


def _shared_parts(first: str, last: str) -> str:
    """The whole parts with which both begin: what they have in common tells neither from the other."""
    length = next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    common = first[:length]
    return common[: max(common.rfind(separator) for separator in SEPARATORS) + 1]


def _both_shortened(first: str, last: str, most: int) -> tuple[str, str]:
    """Both names in half of the room each; a name that needs less leaves the rest to the other."""
    half = most // 2
    if len(first) <= half:
        return first, shortened(last, most - len(first))
    if len(last) <= half:
        return shortened(first, most - len(last)), last
    return shortened(first, most - half), shortened(last, half)


@dataclass(frozen=True, slots=True)
class Held:
    """The layers or nodes that a device or a stage holds."""

    ranges: tuple[Range, ...]
    count: int

    def text(self, most: int | None = None) -> str:
        """All ranges, or as many as fit in `most` characters, and how many more there are."""
        texts = [part.text(most) for part in self.ranges]
        if most is None or len(texts) < 2 or len(", ".join(texts)) <= most:
            return ", ".join(texts)
        for shown in range(len(texts) - 1, 0, -1):
            more = f", +{len(texts) - shown}"
            line = ", ".join(texts[:shown])
            if len(line + more) <= most:
                return line + more
        more = f", +{len(texts) - 1}"
        return self.ranges[0].text(most - len(more)) + more

    def named(self, what: str, most: int | None = None) -> str:
        """The ranges behind their noun, if there is room: `layer 3`, `layers 3-9`; `layer3-layer9` needs no noun."""
        if not self.ranges:
            return f"no {what}s"
        if self.ranges[0].first.startswith(what):
            return self.text(most)
        whole = f"{what if self.count == 1 else f'{what}s'} {self.text()}"
        return whole if most is None or len(whole) <= most else self.text(most)


class Order:
    """The names of all layers or nodes of a problem in the order in which they run."""

    def __init__(self, names: Mapping[Any, str]) -> None:
        self.names = tuple(names.values())
        self.place = {name: i for i, name in enumerate(names)}

    def fold(self, ids: Iterable[Hashable], implied: Collection[Hashable] = ()) -> Held:
        """The ids as ranges of neighbours in this order. Ids that the order lacks are left out; `implied` ones are
        counted and not named."""
        members = {name for name in ids if name in self.place}
        places = sorted(self.place[name] for name in members.difference(implied))
        runs: list[list[int]] = []
        for place in places:
            if runs and place == runs[-1][1] + 1:
                runs[-1][1] = place
            else:
                runs.append([place, place])
        return Held(tuple(Range(self.names[first], self.names[last]) for first, last in runs), len(members))

    def first(self, ids: Iterable[Hashable]) -> int:
        """The place of the first of the ids; behind all places where the order has none of them."""
        return min((self.place[name] for name in ids if name in self.place), default=len(self.names))


def order_of(problem: Graph, parts: Sequence[object]) -> Order:
    """The order of the input where that leads along all edges, else a topological one. `parts` are the layers or nodes
    of the problem: they are called by their names where all have different ones, else by their ids."""
    names = [getattr(part, "name", None) for part in parts]
    is_named = None not in names and len(set(names)) == len(names)
    texts = [str(name) for name in (names if is_named else problem.ids)]
    is_sorted = all(u < v for u, v in problem.arcs)
    places = range(len(texts)) if is_sorted else problem.topological_order
    return Order({problem.ids[i]: texts[i] for i in places})
