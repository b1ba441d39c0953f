"""How a process of our own is started: by this Python, from our package, and never from the user's folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGE_ROOT = str(Path(__file__).absolute().parents[3])


def own_python(*words: str) -> list[str]:
    """The command of a child: this Python, which imports nothing from the folder in which the user happens to be."""
    return [sys.executable, "-P", *words]


def child_environment() -> dict[str, str]:
    """The child finds our package first, wherever it is started, and what the parent's environment adds."""
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (PACKAGE_ROOT, inherited)))}
