"""Column generation over whole devices: all sets are paths of the graph, the most profitable one is found, and no
cut-off is refuted below which enumeration has a plan."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems.placements import random_placement
from recipes.transformer import transformer

from pipeplan import Node, PlacementProblem, SolveOptions, Stop, solve
from pipeplan.formulations.tarnawski.groups import GroupProblem, contract
from pipeplan.planners.placement import device_sets
from pipeplan.planners.placement.device_sets import Columns, Pricer, pricer, set_graph

pytestmark = pytest.mark.xdist_group("device-sets")  # one worker compiles

SEEDS = st.integers(0, 10_000)
ANYWHERE = {"non_contiguous": True}


def groups_of(seed: int, nodes: int = 7) -> GroupProblem:
    return contract(random_placement(seed, layers=nodes, training=bool(seed % 2)), contiguous=False)


def all_sets(groups: GroupProblem) -> list[frozenset[int]]:
    allowed = [g for g in range(groups.count) if groups.supported[g]]
    return [frozenset(s) for size in range(len(allowed) + 1) for s in itertools.combinations(allowed, size)]


def priced(groups: GroupProblem, seed: int) -> tuple[Pricer, np.ndarray, int]:
    """Random prices, some of them below zero, and a limit that half of the groups could meet."""
    rng = random.Random(seed)
    total = sum(groups.total_times) + sum(net.cost for net in groups.nets)
    found = pricer(groups, total + 1.0)
    prices = np.array([rng.randrange(-30, 100) * 10**9 for _ in range(groups.count)], dtype=np.int64)
    return found, prices, found.limit(rng.uniform(0.2, 0.8) * total)


def dense_block(
    layers: int, seed: int, costs: Sequence[float] = (0.5, 1.0), accelerators: int = 3, cpus: int = 1
) -> PlacementProblem:
    """Each layer reads the outputs of all before, and so does the node behind them, as in DenseNet."""
    rng = random.Random(seed)
    names = ["in", *(f"{part}{layer}" for layer in range(layers) for part in ("join", "layer")), "out"]
    edges = [(f"join{layer}", f"layer{layer}") for layer in range(layers)]
    edges += [("in", f"join{layer}") for layer in range(layers)] + [("in", "out")]
    for layer in range(layers):
        edges += [(f"layer{layer}", to) for to in (*(f"join{later}" for later in range(layer + 1, layers)), "out")]
    nodes = []
    for name in names:
        work, cpu = float(rng.randrange(1, 5)), float(rng.randrange(2, 20))
        nodes.append(Node(name, work, cpu, transfer_time=0.0 if name == "out" else rng.choice(costs)))
    return PlacementProblem(tuple(nodes), tuple(edges), accelerators, cpus)


@pytest.mark.parametrize("layers", [12, 24])
def test_outputs_that_the_same_layers_read_are_counted_and_not_told_apart(layers: int) -> None:
    """Else there would be a state for every choice among them: 2 to the power of the layers."""
    groups = contract(dense_block(layers, 0, costs=(1.0,)), contiguous=False)
    graph = set_graph(groups, [1] * len(groups.nets))
    assert max(np.diff(graph.first)) <= 8 * layers


@given(SEEDS)
def test_the_search_finds_the_set_that_earns_most(seed: int) -> None:
    """Or the bound of all weights says so already; what is named has the load that is told."""
    groups = groups_of(seed)
    asked, prices, limit = priced(groups, seed)
    loads = {held: sum(asked.steps.floor([groups.total_times[g] for g in held])) + sum(
        asked.steps.floor([net.cost for net in groups.nets if 0 < len(held & set(net.pins)) < len(net.pins)])
    ) for held in all_sets(groups)}  # fmt: skip
    most = max(sum(int(prices[g]) for g in held) for held, load in loads.items() if load <= limit)
    quick = asked.quick(prices, limit, asked.nothing)
    asked.quick(-prices, limit, asked.nothing)  # a question in between changes nothing
    offers, top = asked.search(quick, limit, most - 1, set())
    assert quick.most >= most
    assert top == most or (most == 0 and top <= 0)
    for each in (*quick.sets, *offers):
        assert loads[each.groups] == each.load <= limit


def check_bound(problem: PlacementProblem, objective: str = "max-load") -> None:
    """No bound is above the optimum, and the plan is the referee's word."""
    options = {**ANYWHERE, "objective": objective}
    truth = solve(problem, planner="brute-force", options=options)
    found = solve(problem, planner="device-sets", options=options, limits=SolveOptions(time_limit_s=5))
    best = math.inf if truth.objective is None else truth.objective
    assert found.bound is None or found.bound <= best * (1 + 1e-9)
    assert found.objective is None or found.objective >= best * (1 - 1e-9)


@given(SEEDS, st.sampled_from(["max-load", "gpipe"]))
def test_no_bound_is_above_the_optimum(seed: int, objective: str) -> None:
    """Memory and stages only make the optimum larger."""
    check_bound(random_placement(seed, layers=4 + seed % 3, training=bool(seed % 2)), objective)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cpus", [0, 1])
def test_no_bound_is_above_the_optimum_of_a_dense_block(seed: int, cpus: int) -> None:
    check_bound(dense_block(3, seed, accelerators=2, cpus=cpus))


@pytest.mark.parametrize("seed", range(6))
def test_a_cut_off_is_refuted_just_where_the_sets_in_part_say_so(seed: int) -> None:
    """Against the linear program over all sets at once, on both sides of its optimum."""
    from scipy.optimize import linprog

    groups = contract(random_placement(seed, layers=6), contiguous=False)
    asked, _, _ = priced(groups, seed)
    sets = [held for held in all_sets(groups) if held]

    def lowest_missing(limit: float) -> float:
        usable = [held for held in sets if groups.load(held) <= limit]
        slow = [g for g in range(groups.count) if groups.cpus and groups.total_cpu_times[g] <= limit]
        rows = [[float(g in held) for held in usable] + [float(g == h) for h in slow] for g in range(groups.count)]
        slack = np.eye(groups.count)
        cost = [0.0] * (len(usable) + len(slow)) + [1.0] * 2 * groups.count
        slow_times = [groups.total_cpu_times[g] for g in slow]
        unused = [0.0] * 2 * groups.count
        upper = [[1.0] * len(usable) + [0.0] * len(slow) + unused, [0.0] * len(usable) + slow_times + unused]
        room = [groups.accelerators, groups.cpus * limit]
        return float(linprog(cost, upper, room, np.hstack([rows, slack, -slack]), np.ones(groups.count)).fun)

    top = sum(groups.total_times) + 1.0
    for share in (0.05, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0):
        cutoff = share * top
        columns = Columns(groups, asked, lambda: None)
        mixed = columns.mixture(asked.limit(cutoff), asked.nothing, groups.accelerators)
        missing = lowest_missing(cutoff)
        assert (mixed is None) == (missing > 1e-6), (cutoff, missing)


@pytest.mark.sweeps
@pytest.mark.parametrize("method", [{"planner": "device-sets"}, {"formulation": "ip-tarnawski"}], ids=str)
def test_dear_transfers_are_proven_where_work_alone_says_little(method: dict[str, str]) -> None:
    """By itself, and by the integer program, which uses it."""
    problem, limits = transformer(250, 4, seed=8, transfers=24.0), SolveOptions(rel_gap=0.01, time_limit_s=600)
    found = solve(problem, options=ANYWHERE, limits=limits, **method)  # type: ignore[arg-type]
    assert found.stop in (Stop.GAP, Stop.PROVEN)
    assert (found.bound or 0.0) > 1.1 * sum(node.accelerator_time for node in problem.nodes) / problem.accelerators


def test_wide_graphs_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_sets, "MOST_STATES", 20)
    found = solve(transformer(120, 3), planner="device-sets", options=ANYWHERE)
    assert None not in (found.objective, found.bound)
    assert any("too wide" in message for message in found.messages)


def test_no_accelerator_is_no_search() -> None:
    check_bound(random_placement(3, layers=5).replace(accelerators=0, cpus=2))
