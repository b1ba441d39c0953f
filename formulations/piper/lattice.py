"""Suffix sets of the layer DAG (with a layer, all that needs it) and the stages between them, as bit masks.

A chain of suffix sets from none to all layers is a sequence of stages, the last stage first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...instances.base.errors import TooLargeError
from ...instances.staging.problem import StagingProblem

# Largest number of suffix sets.
MAX_SETS = 5_000
# Largest number of stages in a lattice.
MAX_STAGES = 150_000
# What to do about a graph with too many sets or stages.
REMEDY = "coarsen the graph (merge layers that stay together), or plan it with --planner dp-piper"


@dataclass(frozen=True)
class Lattice:
    """`sets` in order of size, the first empty, the last everything; bit v is the layer at position v."""

    sets: tuple[int, ...]
    stages_from: tuple[tuple[int, ...], ...]
    """Per set D', indices of the sets D such that D without D' may be a stage, ascending."""


def build_lattice(problem: StagingProblem, sets: tuple[int, ...], may_be_stage: Callable[[int], bool]) -> Lattice:
    """The lattice of all stages. `may_be_stage` is false for layers that can be no stage, nor part of one."""
    needed_by = _needed_by(problem)
    index = {members: i for i, members in enumerate(sets)}
    stages_from = []
    total = 0
    for inner in sets:
        outers = _outer_sets(needed_by, inner, may_be_stage, MAX_STAGES - total)
        total += len(outers)
        stages_from.append(tuple(sorted(index[outer] for outer in outers)))
    return Lattice(sets, tuple(stages_from))


def _needed_by(problem: StagingProblem) -> list[int]:
    return [sum(1 << w for w in successors) for successors in problem.successors]


def suffix_sets(problem: StagingProblem) -> tuple[int, ...]:
    """All suffix sets, level by level; a `TooLargeError` where there are too many."""
    needed_by = _needed_by(problem)
    sets = [0]
    level = [0]
    while level:
        level = sorted({members | 1 << v for members in level for v in _addable(needed_by, members)})
        sets += level
        if len(sets) > MAX_SETS:
            raise TooLargeError("layers", f"have more than {MAX_SETS} sets that a stage can start with", REMEDY)
    return tuple(sets)


def _outer_sets(needed_by: list[int], inner: int, may_be_stage: Callable[[int], bool], most: int) -> list[int]:
    """Larger suffix sets that a stage leads to from `inner`; the sets between them, layer by layer, are such, too."""
    seen: set[int] = set()
    waiting = [inner]
    while waiting:
        members = waiting.pop()
        for v in _addable(needed_by, members):
            outer = members | 1 << v
            if outer not in seen and may_be_stage(outer ^ inner):
                seen.add(outer)
                waiting.append(outer)
        if len(seen) > most:
            raise TooLargeError("layers", f"can form more than {MAX_STAGES} stages", REMEDY)
    return list(seen)


def _addable(needed_by: list[int], members: int) -> list[int]:
    """Layers outside that no other layer outside needs."""
    return [v for v, after in enumerate(needed_by) if not members >> v & 1 and not after & ~members]
