"""What the printed program gets wrong, one by one: each can be put back alone, to see what it does."""

from __future__ import annotations

TRANSITIVITY = "E1"
"""Sharing a GPU is not transitive: (1) bounds only one of three variables."""
SIGN = "E2"
"""Kept copies may be fewer than none: sigma has no sign."""
LOCAL_TRANSFERS = "E3"
"""(18), (23)-(30) charge transfers on one GPU as well, and so ask for shifts that are not needed."""
TIES = "E4"
"""Tasks without a duration may be both before and after each other, or neither."""

PRINTED = frozenset({TRANSITIVITY, SIGN, LOCAL_TRANSFERS, TIES})
CORRECTED: frozenset[str] = frozenset()
