"""Ideals of more groups than a machine word has bits."""

from __future__ import annotations

from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.planners.placement.ideals import Lattice, all_ideals, build


def sets(lattice: Lattice) -> list[frozenset[int]]:
    return [
        frozenset(g for g in range(lattice.model.count) if int(row[g // 64]) >> (g % 64) & 1)
        for row in lattice.bits
    ]


def test_more_groups_than_a_machine_word_has_bits() -> None:
    count = 150
    nodes = tuple(Node(i, 1.0, 5.0, transfer_time=0.5 * (i < count - 1)) for i in range(count))
    edges = tuple((i, i + 1) for i in range(count - 1))
    lattice = all_ideals(build(PlacementProblem(nodes, edges, accelerators=4, cpus=0)), 1000)
    assert sets(lattice) == [frozenset(range(size)) for size in range(count + 1)]
    assert lattice.prefix([float(g) for g in range(count)])[-1] == count * (count - 1) / 2
