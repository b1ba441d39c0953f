"""What the printed program gets wrong, one by one: each can be put back alone, to see what it does."""

from __future__ import annotations

# Sharing a GPU is not transitive: (1) bounds only one of three variables.
TRANSITIVITY = "E1"
# Kept copies may be fewer than none: sigma has no sign.
SIGN = "E2"
# (18), (23)-(30) charge transfers on one GPU as well, and so ask for shifts that are not needed.
LOCAL_TRANSFERS = "E3"
# Tasks without a duration may be both before and after each other, or neither.
TIES = "E4"

# The errata that the printed program has, and those of the corrected one.
PRINTED = frozenset({TRANSITIVITY, SIGN, LOCAL_TRANSFERS, TIES})
CORRECTED: frozenset[str] = frozenset()
