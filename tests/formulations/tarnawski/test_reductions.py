"""The reductions against enumeration: no plan below the cut-off may get lost, none may get cheaper."""

from __future__ import annotations

import itertools
import math

import pytest
from problems.placements import random_placement

from pipeplan.formulations.contract import Refuted
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.formulations.tarnawski.groups import GroupProblem, contract
from pipeplan.formulations.tarnawski.reductions import CutNetwork, average_load_bound, reduce_groups
from pipeplan.instances.placement.problem import Node, PlacementProblem


def values(groups: GroupProblem) -> dict[tuple[int, ...], float]:
    """Every feasible assignment of the groups to devices with its value: sum over parts of the largest load."""
    found = {}
    devices = range(groups.accelerators + groups.cpus)
    for choice in itertools.product(devices, repeat=groups.count):
        if _feasible(groups, choice):
            found[choice] = math.fsum(_largest_load(groups, choice, part) for part in range(groups.parts))
    return found


def _feasible(groups: GroupProblem, choice: tuple[int, ...]) -> bool:
    for device in range(groups.accelerators):
        held = [g for g, d in enumerate(choice) if d == device]
        if not all(groups.supported[g] for g in held):
            return False
        if groups.memory is not None and sum(groups.sizes[g] for g in held) > groups.memory:
            return False
    return _acyclic({(choice[u], choice[v]) for u, v in groups.arcs if choice[u] != choice[v]})


def _acyclic(arcs: set[tuple[int, int]]) -> bool:
    devices = sorted({d for arc in arcs for d in arc})
    return any(all(order.index(u) < order.index(v) for u, v in arcs) for order in itertools.permutations(devices))


def _largest_load(groups: GroupProblem, choice: tuple[int, ...], part: int) -> float:
    loads = []
    for device in range(groups.accelerators + groups.cpus):
        held = [g for g, d in enumerate(choice) if d == device]
        if device < groups.accelerators:
            loads.append(groups.load(held, part))
        else:
            loads.append(math.fsum(groups.cpu_times[part][g] for g in held))
    return max(loads)


def optimum(groups: GroupProblem) -> float | None:
    return min(values(groups).values(), default=None)


CASES = [
    (seed, contiguous, objective)
    for seed in range(60)
    for contiguous, objective in [((seed % 2) == 0, ("max-load", "gpipe")[seed % 3 == 0])]
]


@pytest.mark.parametrize(("seed", "contiguous", "objective"), CASES)
def test_no_optimum_is_lost_and_none_appears(seed: int, contiguous: bool, objective: str) -> None:
    """Under the optimum as a cut-off, and just below it; groups in conflict never share an accelerator."""
    groups = contract(random_placement(seed, 4), contiguous=contiguous, objective=objective)
    best = optimum(groups)
    if best is None:
        return
    reduced = reduce_groups(groups, best)
    assert not isinstance(reduced, Refuted), reduced
    found = values(reduced.groups)
    assert min(found.values()) == pytest.approx(best, rel=1e-12)
    for choice, value in found.items():
        if value <= best:
            for g, h in reduced.conflicts:
                assert choice[g] != choice[h] or choice[g] >= groups.accelerators
    below = reduce_groups(groups, best * 0.99)
    if best and not isinstance(below, Refuted):
        assert (optimum(below.groups) or math.inf) >= best * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_least_loads_equal_enumeration(seed: int) -> None:
    """The minimum cut is the smallest load over all sets with g and without h."""
    groups = contract(random_placement(seed, 4), contiguous=False)
    network = CutNetwork(groups)
    everything = range(groups.count)
    subsets = [set(s) for size in range(groups.count + 1) for s in itertools.combinations(everything, size)]
    for g, h in itertools.permutations(everything, 2):
        least = min(groups.load(s) for s in subsets if g in s and h not in s)
        found, witness = network.least_load((g,), (h,))
        assert found == pytest.approx(least, abs=1e-6)
        assert found <= least + 1e-12
        assert g in witness
        assert h not in witness
        assert groups.load(witness) == pytest.approx(least, abs=1e-6)


def test_an_orphaned_backward_class_follows_the_mirrored_order() -> None:
    """Backward edge 10 -> 11 with 11 an orphan: the orphan's stage is not after the stage of 10's class."""
    nodes = (Node(0, 1, 1, color="a"), Node(10, 1, 1, backward=True, color="a"), Node(11, 1, 1, backward=True))
    groups = contract(PlacementProblem(nodes, ((0, 10), (10, 11)), 2, 0), contiguous=True)
    owner = {i: g for g, members in enumerate(groups.members) for i in members}
    assert groups.arcs == ((owner[2], owner[0]),)


# ---- edges of arithmetic -------------------------------------------------------------------------------


def test_the_average_bound_without_accelerators() -> None:
    """0.1 + 0.1 + 0.4 relieved in another order is one unit in the last place less: no reason to refute every load."""
    nodes = tuple(Node(i, time, 1.0) for i, time in enumerate((0.1, 0.1, 0.4)))
    problem = PlacementProblem(nodes, (), 0, 2)
    assert average_load_bound(contract(problem, contiguous=False)) == pytest.approx(1.5)
    options, model = (
        {"non_contiguous": True, "variant": "strong", "objective": "max-load"},
        FORMULATIONS["ip-tarnawski"],
    )
    assert isinstance(model.load().build(problem, options, native=False, cutoff=1.4), Refuted)


def test_the_average_bound_counts_cpu_work_of_what_no_accelerator_takes() -> None:
    nodes = tuple(Node(i, 1e12, 2.0, supported=False) for i in range(3))
    groups = contract(PlacementProblem((*nodes, Node(3, 1.0, 1e12)), (), 1, 1), contiguous=False)
    assert average_load_bound(groups) == pytest.approx(6.0)
