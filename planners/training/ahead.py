"""Machine code of the search for configurations, made by other processes while the first choices are looked at.

On a new machine the search needs some dozen seconds of a processor for its code. It makes that of its first loops
itself; those of rows and of bounds are made beside it, and it waits for them only where it calls them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ...instances.base.compiled import is_kept, make, make_beside
from ..backends.process import child_environment, die_with_parent, own_python
from . import loads_kernel, paths_kernel, pipeline_kernel

# A unit, an entry, and arguments of the types that the search calls it with.
Call = tuple[ModuleType, str, tuple[Any, ...]]


def calls() -> Mapping[str, tuple[Call, ...]]:
    """What each process makes."""
    import numpy as np

    f1, f2, f3 = (np.empty((0,) * axes) for axes in (1, 2, 3))
    i1, i2, i3 = (np.empty((0,) * axes, np.int64) for axes in (1, 2, 3))
    loads = (2, i2, i2, 1, 1.0, 1.0, 1, f1, f1, f2, f1, f2, f2, f2, 1.0, 1.0, f1, 1.0, i1, 1, i2, i1, i2)
    return {
        "rows": ((pipeline_kernel, "plan_row", (1, 1, f2, f3, f3, f3, f2, f1, f1, 1.0, 1.0, 1.0, 1)),),
        "bounds": (
            (loads_kernel, "in_flight", (i3, i2, 1, 1)),
            (loads_kernel, "least_seconds", loads),
            (paths_kernel, "longest_path", (i3, i1, i2, f1, f1, f1, f1, f1, 1)),
            (paths_kernel, "cheapest_layout", (f2, f3)),
        ),
    }


def begin() -> None:
    """Start the processes of what is not on disk yet, where there is more than one processor."""
    if (os.cpu_count() or 1) > 1:
        for part, made in calls().items():
            if not all(is_kept(unit, entry) for unit, entry, _ in made):
                command = own_python("-m", __name__, part, str(os.getpid()))
                make_beside(command, child_environment(), [(unit, entry) for unit, entry, _ in made])


def main(part: str, parent: int) -> None:
    die_with_parent()
    for unit, entry, like in calls()[part]:
        if os.getppid() == parent and not is_kept(unit, entry):
            make(unit, entry, *like)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
