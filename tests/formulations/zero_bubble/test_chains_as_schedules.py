"""A chain with a given allocation is a schedule problem: two blocks a layer, and transfers as blocks of a link."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import pytest
from oracles.chain import allocations, least_memory
from problems.chains import random_chain

from pipeplan.instances.base.result import Stop
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.run.solve import solve


def as_schedule(chain: ChainProblem, allocation: tuple[int, ...]) -> ScheduleProblem:
    """Memory as the mode "inputs" counts it: what a layer reads, from the start of its forward to the end of its
    backward task, beside the weights."""
    assert chain.memory_mode == "inputs"
    gpus = range(max(allocation) + 1)
    weights = [sum(chain.held_weights[i] for i, gpu in enumerate(allocation) if gpu == g) for g in gpus]
    devices = [ScheduleDevice(f"gpu{g}", chain.memory_bytes, float(weights[g])) for g in gpus]
    blocks, edges = [], []
    names = [f"F{i}" for i in range(chain.layers)] + [f"B{i}" for i in reversed(range(chain.layers))]
    for task, name in enumerate(names):
        layer = chain.layer_of[task]
        gpu = f"gpu{allocation[layer]}"
        held = chain.activations[layer] * (1 if name[0] == "F" else -1)
        kind = "F" if name[0] == "F" else "B"
        blocks.append(Block(name, kind, (gpu,), chain.durations[task], layer, {gpu: held} if held else {}))
    links: dict[str, None] = {}
    for edge, (here, there) in enumerate(pairwise(names), start=1):
        ends = allocation[chain.layer_of[edge - 1]], allocation[chain.layer_of[edge]]
        if ends[0] == ends[1] or not chain.edge_times[edge - 1]:
            edges.append(BlockEdge(here, there))
            continue
        first, second = ends if chain.duplex == "full" else sorted(ends)
        link = f"link{first}-{second}"
        links[link] = None
        blocks.append(Block(f"X{edge}", "X", (link,), chain.edge_times[edge - 1]))
        edges += [BlockEdge(here, f"X{edge}"), BlockEdge(f"X{edge}", there)]
    devices += [ScheduleDevice(link) for link in links]
    return ScheduleProblem(tuple(devices), tuple(blocks), tuple(edges), name=chain.name)


def cases(seed: int) -> Iterator[tuple[ChainProblem, tuple[int, ...]]]:
    """A random chain with little memory to spare, and each of its allocations whose weights fit."""
    chain = random_chain(seed).replace(memory_mode="inputs")
    chain = chain.replace(memory_bytes=int(least_memory(chain)) + seed % 3)
    for allocation in allocations(chain):
        held = [
            sum(w for w, gpu in zip(chain.held_weights, allocation, strict=True) if gpu == g) for g in allocation
        ]
        if max(held) <= chain.memory_bytes:
            yield chain, allocation


@pytest.mark.sweeps
@pytest.mark.parametrize("seed", range(50))
def test_the_period_is_that_of_the_chain(seed: int) -> None:
    for chain, allocation in cases(seed):
        options = {"allocation": ",".join(map(str, allocation))}
        limits = SolveOptions(threads=1)
        pattern = solve(chain, formulation="cp-beaumont", options=options, limits=limits)
        schedule = solve(as_schedule(chain, allocation), formulation="cp-periodic", limits=limits)
        assert schedule.stop == pattern.stop
        if pattern.stop != Stop.INFEASIBLE:
            assert pattern.stop == Stop.PROVEN
            assert schedule.plan.period == Fraction(pattern.plan.period)  # type: ignore[union-attr]
