"""Pyomo for model builders, loaded without what they do not need.

Pyomo loads scipy's statistics together with scipy itself, which takes longer than many a model's whole proof. While
Pyomo is imported for the first time, empty modules stand in their place; whoever wants the real ones later gets them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import scipy.sparse  # noqa: F401 (Pyomo takes scipy as it is only where it is there already)

UNNEEDED = ("scipy.stats", "scipy.integrate", "scipy.spatial")


@contextmanager
def _without(names: tuple[str, ...]) -> Iterator[None]:
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update({name: ModuleType(name) for name in absent})
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


with _without(UNNEEDED):
    import pyomo.environ as pyo

__all__ = ["pyo"]
