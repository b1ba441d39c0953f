"""Items of a best-first search count until they are dealt with, whenever an interrupt comes."""

from __future__ import annotations

import math

from interrupted import Lines

from pipeplan.planners.search import OpenItems


def test_the_least_item_comes_first_also_of_those_that_are_added() -> None:
    items, seen = OpenItems([(3.0, "c"), (1.0, "a")]), []
    for bound, name in items:
        seen.append(name)
        if name == "a":
            items.add((bound + 1, "b"))
    assert seen == ["a", "b", "c"]
    assert items.least == math.inf
    assert not items.left


def test_what_was_taken_counts_until_the_next_one_is_asked_for() -> None:
    items = OpenItems([(2.0,), (1.0,)])
    for bound, *_ in items:
        assert items.least == bound
        break
    assert items.least == 1.0
    assert sorted(items.left) == [(1.0,), (2.0,)]


def test_no_interrupt_between_two_lines_loses_an_item() -> None:
    """Each item that is dealt with makes the bound 1 larger, so that what is open is never below what was done."""
    for at in range(1, 60):
        items, done = OpenItems([(float(bound),) for bound in range(5)]), -1.0
        lines = Lines(at)

        def work(items: OpenItems[tuple[float]] = items) -> None:
            nonlocal done
            for (bound,) in items:
                done = bound - 1  # all before this one are dealt with

        try:
            lines.of(work)
        except KeyboardInterrupt:
            assert items.least <= done + 2
        if not lines.came:
            break
    assert at > 20, "the loop has more lines than this"
