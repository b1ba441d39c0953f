"""Ideals, their keys and their transfers, against the definitions; and merging what costs nothing."""

from __future__ import annotations

import pytest
from problems.placements import random_placement

from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.planners.placement.dp_dense import Pairs
from pipeplan.planners.placement.groups import various_orders
from pipeplan.planners.placement.ideals import (
    Lattice,
    Model,
    all_ideals,
    beam,
    build,
    cheapest,
)

SEEDS = range(25)


def model_of(seed: int) -> Model:
    return build(random_placement(seed, layers=6))


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


@pytest.mark.parametrize("seed", SEEDS)
def test_families_are_ideals_with_both_ends(seed: int) -> None:
    model = model_of(seed)
    whole = all_ideals(model, 10**6)
    part = whole.part(cheapest(whole, 6, 3))
    some = beam(model, various_orders(model, 2, 0), 3 * model.count)
    for family in (part, some):
        held = sets(family)
        assert (held[0], held[-1]) == (frozenset(), frozenset(range(model.count)))
        assert set(held) <= set(sets(whole))
        assert not family.complete
        # Its tables say the same as those of the whole.
        places = [sets(whole).index(ideal) for ideal in held]
        assert family.cut[0] == pytest.approx(whole.cut[0][places])
        assert Pairs(family).cut[0] == pytest.approx(Pairs(whole).cut[0][places][:, places], abs=1e-9)


# ---- merging -------------------------------------------------------------------------------------------


def test_a_free_reader_joins_its_only_producer() -> None:
    """u (work 2) -> v (free, reads alone) -> w: cutting v off u costs 3, cutting it off w only 1."""
    nodes = (Node("u", 2.0, 9.0, transfer_time=3.0), Node("v", 0.0, 0.0, transfer_time=1.0), Node("w", 2.0, 9.0))
    model = build(PlacementProblem(nodes, (("u", "v"), ("v", "w")), accelerators=2, cpus=0))
    assert model.members == ((0, 1), (2,))
    assert model.nets == (((0, 1), 1.0, 0),)


def test_it_stays_where_a_load_could_rise() -> None:
    """The output of v costs more than that of u, and w does not take v for its only producer."""
    works = {"u": (2.0, 9.0, 1.0), "v": (0.0, 0.0, 3.0), "w": (2.0, 9.0, 0.0), "x": (2.0, 9.0, 0.0)}
    nodes = tuple(Node(name, work, cpu, transfer_time=moved) for name, (work, cpu, moved) in works.items())
    problem = PlacementProblem(nodes, (("u", "v"), ("v", "w"), ("v", "x")), accelerators=2, cpus=0)
    assert len(build(problem).members) == 4


def test_memory_that_cannot_bind_is_no_obstacle_and_memory_that_can_is() -> None:
    nodes = (Node("u", 2.0, 9.0, 4.0, 3.0), Node("v", 0.0, 0.0, 4.0, 1.0), Node("w", 2.0, 9.0, 4.0))
    problem = PlacementProblem(nodes, (("u", "v"), ("v", "w")), accelerators=2, cpus=0, memory_bytes=12.0)
    assert len(build(problem).members) == 2
    assert len(build(problem.replace(memory_bytes=8.0)).members) == 3
