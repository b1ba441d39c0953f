"""Equations (1)-(4): which layers share a GPU. F_l and B_l do by definition: (4) needs rows for tasks alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from .errata import TRANSITIVITY
from .frame import Frame


def add(frame: Frame) -> None:
    z, holders = frame.z, frame.tasks if TRANSITIVITY in frame.errata else frame.layers
    triples = list(combinations(holders, 3))
    # Sharing a GPU is transitive, whichever of three layers is the middle one. The paper prints the first row
    # alone, which bounds z of the two highest only (E1).
    rows = {(i, j, k, 1): z(j, k) >= z(i, j) + z(i, k) - 1 for i, j, k in triples}
    if TRANSITIVITY not in frame.errata:
        rows |= {(i, j, k, 2): z(i, k) >= z(i, j) + z(j, k) - 1 for i, j, k in triples}
        rows |= {(i, j, k, 3): z(i, j) >= z(i, k) + z(j, k) - 1 for i, j, k in triples}
    frame.rows("eq_1", rows, "sharing a GPU is transitive")
    first = frame.model.f
    firsts = {i: first[i] >= 1 - sum(z(j, i) for j in range(1, i)) for i in holders}
    frame.rows("eq_2", firsts, "a layer with no earlier one on its GPU is the first of it")
    frame.rows(
        "eq_3", {0: sum(first[i] for i in holders) <= frame.facts.gpus}, "as many first layers as GPUs at most"
    )
    if TRANSITIVITY in frame.errata:
        pairs = {i: z(i, frame.facts.backward(i)) == 1 for i in frame.layers}
        frame.rows("eq_4", pairs, "forward and backward task of a layer share a GPU")


def fix(frame: Frame, allocation: Sequence[int]) -> None:
    """Fix Z where the allocation is given, which says which layers share a GPU; presolve settles what depends on Z."""
    gpu = [allocation[frame.facts.layer(task) - 1] for task in frame.tasks]
    for (i, j), variable in frame.model.Z.items():
        together = int(gpu[i - 1] == gpu[j - 1])
        variable.setlb(together)
        variable.setub(together)
