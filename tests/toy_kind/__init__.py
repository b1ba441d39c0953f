"""A kind of problem that is not in the house: jobs on equal machines, of which none is to work longer than needed.

All of it stands here, and `register` adds three lines to three tables: that is what CONTRIBUTING tells of.
"""

from __future__ import annotations

from pipeplan.kinds import SHOWN
from toy_kind.kind import KIND, SHOWN_KIND
from toy_kind.methods import BALANCED, EXHAUSTIVE

FILES = ("kind.py", "methods.py", "problem.py", "rules.py", "view.py")
"""What a kind needs, as CONTRIBUTING lists it."""


def register(kinds: dict[str, object], planners: dict[str, object]) -> None:
    kinds[KIND.name] = KIND
    SHOWN[KIND.name] = SHOWN_KIND
    planners |= {entry.name: entry for entry in (EXHAUSTIVE, BALANCED)}
