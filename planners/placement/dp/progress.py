"""What a search tells while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Progress:
    """What a search has done so far; `hear` is told now and then, and may raise to stop it."""

    hear: Callable[[Progress], None] = lambda progress: None
    bound: float = 0.0
    limit: float | None = None
    done: int = 0
    """ideals of the present run"""
    of: int = 0
    pairs: int = 0
    runs: int = 0
    warm_up_seconds: float = 0.0
