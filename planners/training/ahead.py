"""Machine code of the search for configurations, made before it begins and by other processes beside it.

On a new machine the search needs some ten seconds of a processor for its code. It makes that of layouts itself while
another process begins with that of loads, without which it gets nowhere. For paths and rows plain Python will do, where
they are short, until their code is there. With more processors each has a process of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ...instances.base.compiled import can_be_kept, child_environment, is_kept, make, make_beside, own_python
from ..backends.process import die_with_parent
from . import layouts_kernel, pipeline_kernel

# A unit, an entry, and arguments of the types that the search calls it with.
Call = tuple[ModuleType, str, tuple[Any, ...]]


def calls() -> tuple[Call, ...]:
    """What the search makes itself, for layouts; and what other processes make, for loads, paths and rows."""
    import numpy as np

    f1, f2, f3 = (np.empty((0,) * axes) for axes in (1, 2, 3))
    i1, i2, i3 = (np.empty((0,) * axes, np.int64) for axes in (1, 2, 3))
    facts = (i1, f1, f1, f1, f2, f1, f2, 1, (1.0, 1.0), 1, f1, 1.0, 1.0)
    rows = (1, 1, (f3, f3, f3, f3, f3), i1, f1, f1, f1, 1.0, 1.0, 1)
    loads = (2, (i2, i2, 1), 1.0, 1.0, 1, (f1, f1, f2, f2, f2, i1, i2, i1), (f1, f2, 1.0, 1.0, f1, 1.0, 1), i2)
    return (
        (layouts_kernel, "climb", (i1, (i3, i1, i2), (1, 1, 1, True), f1, f3, facts, 1.0, 1, 1.0)),
        (layouts_kernel, "least_seconds", loads),
        (layouts_kernel, "longest_path", ((i3, i1, i2), f1, f1, f1, f1, f1, 1)),
        (pipeline_kernel, "plan_row", rows),
    )


def begin(long_rows: bool) -> None:
    """Make what is not on disk yet; the code for paths and rows may come later, and that for long rows before paths.

    A processor alone makes all of it where it is called, and so does each process where nothing can be kept.
    """
    if not can_be_kept(*calls()[0][:2]):
        return
    layouts, loads, paths, rows = range(4)
    order = (loads, rows, paths) if long_rows else (loads, paths, rows)
    missing = [i for i in order if not is_kept(*calls()[i][:2])]
    processes = min(len(missing), (os.cpu_count() or 1) - 1)
    for first in range(processes):
        own = missing[first::processes]
        command = own_python("-m", __name__, str(os.getpid()), *map(str, own))
        make_beside(command, child_environment(), [calls()[i][:2] for i in own])
    unit, entry, like = calls()[layouts]
    if processes and not is_kept(unit, entry):
        make(unit, entry, *like)


def main(parent: int, own: Sequence[int]) -> None:
    die_with_parent()
    for i in own:
        unit, entry, like = calls()[i]
        if os.getppid() == parent:
            make(unit, entry, *like)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(number) for number in sys.argv[2:]])
