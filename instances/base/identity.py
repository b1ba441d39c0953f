"""How problems are told apart: a digest of the facts that can change a plan's value."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(amount: float) -> float:
    """Equal amounts are written alike: 1 as 1.0, -0.0 as 0.0."""
    return float(amount) + 0.0


def canonical_or_none(amount: float | None) -> float | None:
    return None if amount is None else canonical(amount)


def digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
