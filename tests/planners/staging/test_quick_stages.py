"""Stages that are computed and not stored, and long rows of layers that save alike."""

from __future__ import annotations

import random

import pytest
from problems.stagings import random_staging

from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingProblem
from pipeplan.planners.run.solve import solve
from pipeplan.planners.staging import kernel
from pipeplan.planners.staging.model import build
from pipeplan.planners.staging.search import Search


def chain_of(ways: list[tuple[Configuration, ...]], memory: float | None, devices: int = 2) -> StagingProblem:
    layers = tuple(Layer(i, {1: row}) for i, row in enumerate(ways))
    edges = tuple(Edge(i, i + 1, 1.0) for i in range(len(ways) - 1))
    return StagingProblem(
        layers, edges, devices=devices, bandwidth=100.0, micro_batches=4, memory_bytes=memory, name="chain"
    )


@pytest.mark.parametrize("seed", range(6))
def test_quick_stages_cost_what_the_table_says(seed: int) -> None:
    """The same problem without a memory has no row in the table; with all rows forced, every stage is as long."""
    problem = random_staging(seed, exact_batches=False).replace(memory_bytes=None)
    bare = problem.replace(layers=tuple(_without_gathers(layer) for layer in problem.layers))
    search = Search(build(bare))
    x, quick = search.tables.layers, search.tables.table
    assert not len(quick.row)
    slow = search.tables.layers._replace(simple=x.simple & False)
    row = quick.pair_source.copy()
    count = kernel.number_rows(slow, quick.pair_start, quick.pair_source, row)
    assert count == len(quick.pair_source)
    table = _tabled(slow, quick, row)
    for j in range(len(quick.pair_start) - 1):
        for p in range(quick.pair_start[j], quick.pair_start[j + 1]):
            for tau in range(len(x.only)):
                given = (p, int(quick.pair_source[p]), j, tau)
                ours, theirs = kernel.stage_at(x, quick, *given), kernel.stage_at(slow, table, *given)
                assert ours[:2] == pytest.approx(theirs[:2], rel=1e-9, abs=1e-12)


def _without_gathers(layer: Layer) -> Layer:
    rows = {
        t: tuple(Configuration(way.id, way.time, 3.0, way.memory_per_batch, way.memory_fixed) for way in row)
        for t, row in layer.configurations.items()
    }
    return Layer(layer.id, rows, layer.name)


def _tabled(x: kernel.Layers, quick: kernel.Table, row: object) -> kernel.Table:
    import numpy as np

    shape = (len(quick.pair_source), len(x.only))
    table = quick._replace(
        row=row,
        base=np.full(shape, np.inf),
        weight=np.zeros(shape),
        fastest=np.zeros(shape, dtype=np.int32),
        last=np.zeros(shape, dtype=np.int32),
        extra_start=np.zeros(shape, dtype=np.int64),
    )
    kernel.tabulate(x, table, 1, len(quick.pair_start) - 1, 0)
    return table


def test_one_way_to_run_each_layer_needs_no_knapsack() -> None:
    """Memory limits the batches in flight, but there is nothing to choose: 3 bytes hold 3 in flight of one layer."""
    ways = [(Configuration("only", 1.0, memory_per_batch=1.0, memory_fixed=0.25),)] * 4
    problem = chain_of(ways, 4.6, devices=4)
    search = Search(build(problem))
    assert len(search.tables.table.base) == 0
    result = solve(problem, planner="dp-piper")
    assert result.verified


def test_forty_layers_that_save_alike_are_settled_cheapest_first() -> None:
    """Two devices hold 40 layers, 2 bytes each kept or nothing at some cost: branching over them would never end."""
    rng = random.Random(7)
    extra = [rng.uniform(1.0, 1.2) for _ in range(40)]
    ways = [(Configuration("keep", 5.0, memory_per_batch=2.0), Configuration("recomp", 5.0 + e)) for e in extra]
    problem = chain_of(ways, 19.0, devices=1)
    result = solve(problem, planner="dp-piper")
    assert result.bound == pytest.approx(result.objective, rel=1e-12)
    # 9 layers can be kept, 31 are computed again: the cheapest ones.
    assert result.objective == pytest.approx(200 + sum(sorted(extra)[:31]), rel=1e-12)
