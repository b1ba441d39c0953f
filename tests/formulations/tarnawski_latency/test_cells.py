"""Rows of cells: the bound is below what brute force finds, and close to plans of larger graphs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.latency import best_latency, random_latency_placement

from pipeplan.formulations.tarnawski_latency import cells as module
from pipeplan.formulations.tarnawski_latency.atoms import Atoms, atoms_of
from pipeplan.formulations.tarnawski_latency.cells import cell_bound, cells_of, row_of, stages_of_row
from pipeplan.formulations.tarnawski_latency.path_bound import path_bound
from pipeplan.instances.base import clock
from pipeplan.instances.base.compiled import always_compiled
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.planners.placement.latency import World
from pipeplan.planners.placement.latency_lns import cell_places

halves = st.integers(0, 8).map(lambda n: n / 2)


@st.composite
def rows(draw: st.DrawFn) -> tuple[PlacementProblem, int]:
    """Cut nodes with up to three nodes between two of them, and the number of pieces per accelerator."""
    edges: list[tuple[int, int]] = []
    count, cut = 0, None
    while count < 3 or (count < 6 and draw(st.booleans())):
        inner = list(range(count, count + draw(st.integers(0, min(3, 5 - count)))))
        behind = count + len(inner)
        chosen = {(u, v) for u in inner for v in inner if u < v and draw(st.booleans())}
        firsts = [v for v in inner if not any(w == v for _, w in chosen) or draw(st.booleans())]
        lasts = [u for u in inner if not any(w == u for w, _ in chosen) or draw(st.booleans())]
        edges += sorted(chosen) + [(u, behind) for u in lasts]
        if cut is not None:
            edges += [(cut, v) for v in firsts]
            if not inner or draw(st.booleans()):
                edges.append((cut, behind))
        count, cut = behind + 1, behind
    pieces = draw(st.integers(1, 2))
    senders = {u for u, _ in edges}
    slower = draw(st.sampled_from([0.5, 1, 2, 4, 10]))
    cpus = draw(st.integers(0, 3)) > 0
    nodes = []
    for v in range(count):
        work = draw(halves)
        nodes.append(
            Node(
                v,
                accelerator_time=work,
                cpu_time=work * slower + draw(st.sampled_from([0.0, 0.0, 0.5])),
                size_bytes=draw(halves),
                transfer_time=draw(st.sampled_from([0.0, 0.0, 0.5, 2.0])) if v in senders else 0.0,
                supported=not cpus or draw(st.integers(0, 7)) > 0,
                color=draw(st.sampled_from([None, None, None, None, None, "red"])),
            )
        )
    if draw(st.booleans()):  # equal branches, where nodes of a cell do not read each other
        nodes = [
            replace(
                nodes[0], id=v, transfer_time=nodes[0].transfer_time if v in senders else 0.0, color=nodes[v].color
            )
            for v in range(count)
        ]
    accelerators = draw(st.integers(1, 4 if pieces == 1 and count <= 5 else 2))
    if pieces == 2 and count > 5:
        accelerators = 1
    total = sum(node.size_bytes for node in nodes)
    limits = [None, 1.5 * total / accelerators, 0.6 * total / accelerators, total]
    memory = draw(st.sampled_from(limits)) if cpus else None
    return PlacementProblem(tuple(nodes), tuple(edges), accelerators, int(cpus), memory), pieces


@settings(max_examples=150, deadline=None)
@given(rows())
def test_no_plan_is_better_than_the_bounds(case: tuple[PlacementProblem, int]) -> None:
    problem, pieces = case
    best = best_latency(problem, pieces)
    if best is not None:
        atoms = atoms_of(problem, pieces)
        assert cell_bound(atoms) <= best * (1 + 1e-9)
        assert path_bound(atoms) <= best * (1 + 1e-9)


def test_pieces_beyond_the_number_of_chains_have_room_too() -> None:
    """Two accelerators with room for one node each share a chain of two."""
    nodes = (
        Node(0, 0.0, 0.0, supported=False),
        Node(1, accelerator_time=0.5, cpu_time=1.0, size_bytes=0.5),
        Node(2, accelerator_time=0.0, cpu_time=0.5, size_bytes=0.5),
        Node(3, 0.0, 0.0, supported=False, size_bytes=1.0),
    )
    problem = PlacementProblem(nodes, ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3)), 2, 1, 0.6)
    assert best_latency(problem, 1) == 0.5
    assert cell_bound(atoms_of(problem, 1)) <= 0.5


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_holds_on_graphs_that_are_no_rows(seed: int) -> None:
    problem = random_latency_placement(1000 + seed, 5)
    best = best_latency(problem, 1)
    assert best is None or cell_bound(atoms_of(problem, 1)) <= best * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(rows())
def test_the_plan_of_a_row_is_a_plan(case: tuple[PlacementProblem, int]) -> None:
    """It is no better than the bound; where it breaks a rule (colours, pieces that wait), it is no start."""
    problem, pieces = case
    world = World(problem, pieces)
    bound = cell_bound(atoms_of(problem, pieces))
    for place in cell_places(world):
        if world.fits(place):
            assert world.latency(place) >= bound * (1 - 1e-9)


def chain_with_fork() -> PlacementProblem:
    """a - b - (c | d d' | e) - f - g, and an arc from b past the fork."""
    edges = (
        ("a", "b"), ("b", "c"), ("b", "d"), ("d", "d'"), ("b", "e"), *((v, "f") for v in ("c", "d'", "e", "b")),
    )  # fmt: skip
    nodes = tuple(Node(v, 3.0, 30.0, 1.0, 0.25) for v in ("a", "b", "c", "d", "d'", "e", "f"))
    last = Node("g", 3.0, 30.0, 1.0)
    return PlacementProblem((*nodes, last), (*edges, ("f", "g")), 4, 1, 4.0)


def test_the_plan_that_the_bound_has_in_mind_runs_branches_at_the_same_time() -> None:
    """Two pieces for the two ends, and two for the three branches: d with d' beside c with e."""
    problem = chain_with_fork()
    world = World(problem, 1)
    (place,) = cell_places(world)
    value, bound = world.latency(place), cell_bound(atoms_of(problem, 1))
    assert world.fits(place)
    assert value == pytest.approx(6.25 + 6.25 + 0.5 + 0.25 + 6.5, abs=1.0)
    assert bound <= value <= 1.1 * bound
    assert path_bound(atoms_of(problem, 1)) < bound


def test_machine_code_finds_the_same() -> None:
    problem = chain_with_fork()
    plain = cell_bound(atoms_of(problem, 1)), stages_of_row(atoms_of(problem, 1))
    with always_compiled():
        row_of.cache_clear()
        assert (cell_bound(atoms_of(problem, 1)), stages_of_row(atoms_of(problem, 1))) == plain


@settings(max_examples=40, deadline=None)
@given(rows())
def test_large_cells_are_priced_by_their_longest_path(case: tuple[PlacementProblem, int]) -> None:
    problem, pieces = case
    best = best_latency(problem, pieces)
    usual = module.MAX_IDEALS
    try:
        module.MAX_IDEALS = 0
        cells = cells_of(atoms_of(problem, pieces))
        atoms: Atoms = atoms_of(problem, pieces)
        longest = max(atoms.finish_times(atoms.least_times()))
        if best is not None and 0 < longest < math.inf and len(cells) > 2:
            row = module.Row(atoms, cells, 100 * longest)
            assert row.best(row.least_rooms).value <= best * (1 + 1e-9)
    finally:
        module.MAX_IDEALS = usual


def branched(branches: int, length: int, *, alike: bool) -> PlacementProblem:
    """Three cut nodes, and between the last two so many branches."""
    edges = [("first", "before")]
    nodes = [Node("first", 1.0, 9.0, 1.0, 0.5), Node("before", 1.0, 9.0, 1.0, 0.5)]
    for b in range(branches):
        row = ["before", *(f"{b}.{k}" for k in range(length)), "behind"]
        edges += pairwise(row)
        extra = 0.0 if alike else b / 100
        nodes += [Node(v, 2.0 + k + extra, 20.0 + extra, 1.0 + k, 0.25) for k, v in enumerate(row[1:-1])]
    nodes.append(Node("behind", 1.0, 9.0, 1.0))
    size = sum(node.size_bytes for node in nodes)
    return PlacementProblem(tuple(nodes), tuple(edges), 3, 1, size / 2)


@pytest.mark.timing
@pytest.mark.parametrize("alike", [True, False])
def test_a_time_limit_ends_the_division_of_a_large_cell(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """46,656 ideals. Of the pairs there are 86 million where no branch is like another, else 230,230.

    The clock goes on at each look at it, between which there are half a million steps, and then alone."""
    atoms = atoms_of(branched(6, 5, alike=alike), 1)
    row_of.cache_clear()
    with always_compiled():
        cell_bound(atoms_of(branched(2, 2, alike=alike), 1))  # compiles
        with clock.within(0.0):
            least = cell_bound(atoms)
        looks = count()
        monkeypatch.setattr(clock, "wall", lambda: float(next(looks)))
        with clock.within(40.0):
            bound = cell_bound(atoms)
        assert next(looks) <= 40
        assert 0 < least <= bound
    row = row_of(atoms)
    assert bool(row.open) != alike
    assert (bound > least) == alike


@pytest.mark.timing
def test_what_a_time_limit_has_ended_goes_on_where_it_stopped() -> None:
    problem = branched(5, 3, alike=False)
    atoms = atoms_of(problem, 1)
    row_of.cache_clear()
    expected = cell_bound(atoms), stages_of_row(atoms)
    row_of.cache_clear()
    row, looks = row_of(atoms), 0
    assert row is not None
    usual = module.SLICE
    try:
        module.SLICE = 500
        while row.open:
            with clock.within(1e-3):
                assert cell_bound(atoms) <= expected[0] or not row.open
            looks += 1
    finally:
        module.SLICE = usual
    assert looks > 1
    assert (cell_bound(atoms), stages_of_row(atoms)) == expected


@pytest.mark.parametrize("alike", [True, False])
def test_of_equal_branches_each_choice_is_looked_at_once(alike: bool) -> None:
    row = row_of(atoms_of(branched(4, 3, alike=alike), 1))
    assert max(cell.steps for cell in map(row.divide, row.cells) if cell is not None) == (715 if alike else 10_000)
