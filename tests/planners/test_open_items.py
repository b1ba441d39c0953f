"""Items of a best-first search count until they are dealt with, whenever an interrupt comes."""

from __future__ import annotations

from interrupted import Lines

from pipeplan.planners.search import OpenItems


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
