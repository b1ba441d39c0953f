"""A problem on a slightly better cluster: one more device, more memory, faster links, for problems of every kind.

Every plan of a problem is one of its variants, at the same cost or less: none has a worse optimum. (The crude variant
of levels is the exception: it counts memory by the devices that there are.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .chain.problem import ChainProblem
from .checks import check_amount
from .errors import InputError
from .graph_pipeline.problem import GraphPipelineProblem, Link
from .kinds import Problem
from .placement.cluster import Level
from .placement.problem import Node, PlacementProblem
from .staging.problem import StagingLevel, StagingProblem

GIGABYTE = 1e9
TENTH = 0.1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Variant:
    """What is better, in words, and the problem with it."""

    change: str
    problem: Problem


def variants(problem: Problem, memory_bytes: float = GIGABYTE, bandwidth_share: float = TENTH) -> tuple[Variant, ...]:
    """One more device (of each type, or on each level), so much more memory, links faster by this share.

    What the problem does not limit has no variant: memory without a limit, transfers that take no time.
    """
    for name, value in (("memory_bytes", memory_bytes), ("bandwidth_share", bandwidth_share)):
        check_amount(name, value)
        if not value:
            raise InputError(name, "is 0", "give a finite number > 0")
    amount = f"{memory_bytes / GIGABYTE:g} GB" if memory_bytes >= 1e-3 * GIGABYTE else f"{memory_bytes:g} B"
    more, faster = f"{amount} more memory", f"{100 * bandwidth_share:g} % more bandwidth"
    factor = 1 + bandwidth_share
    if isinstance(problem, PlacementProblem):
        found = _placement(problem, more, memory_bytes, faster, factor)
    elif isinstance(problem, ChainProblem):
        found = _chain(problem, more, memory_bytes, faster, factor)
    elif isinstance(problem, GraphPipelineProblem):
        found = _graph_pipeline(problem, more, memory_bytes, faster, factor)
    else:
        found = _staging(problem, more, memory_bytes, faster, factor)
    return tuple(Variant(change, better) for change, better in found)


Found = Iterator[tuple[str, Problem]]


def _placement(problem: PlacementProblem, more: str, memory_bytes: float, faster: str, factor: float) -> Found:
    if problem.levels:
        for number, level in enumerate(problem.levels):
            levels = _with(problem.levels, number, devices=level.devices + 1)
            count = math.prod(level.devices for level in levels)
            yield f"one more device on level {number + 1}", problem.replace(levels=levels, accelerators=count)
    else:
        yield "one more accelerator", problem.replace(accelerators=problem.accelerators + 1)
    for number, other in enumerate(problem.other_types):
        types = _with(problem.other_types, number, count=other.count + 1)
        yield f"one more {other.name}", problem.replace(other_types=types)
    if problem.memory_bytes is not None:
        yield more, problem.replace(memory_bytes=problem.memory_bytes + memory_bytes)
    for number, other in enumerate(problem.other_types):
        if other.memory_bytes is not None:
            types = _with(problem.other_types, number, memory_bytes=other.memory_bytes + memory_bytes)
            yield f"{more} in {other.name}", problem.replace(other_types=types)
    if any(node.transfer_time for node in problem.nodes) or any(level.sync_bandwidth for level in problem.levels):
        yield (
            faster,
            problem.replace(
                nodes=tuple(_sooner(node, factor) for node in problem.nodes),
                levels=tuple(_faster(level, factor) for level in problem.levels),
            ),
        )


def _sooner(node: Node, factor: float) -> Node:
    return replace(node, transfer_time=node.transfer_time / factor)


def _faster(level: Level, factor: float) -> Level:
    return level if level.sync_bandwidth is None else replace(level, sync_bandwidth=level.sync_bandwidth * factor)


def _chain(problem: ChainProblem, more: str, memory_bytes: float, faster: str, factor: float) -> Found:
    yield "one more GPU", problem.replace(gpus=problem.gpus + 1)
    if problem.memory_bytes is not None:
        yield more, problem.replace(memory_bytes=problem.memory_bytes + memory_bytes)
    if problem.transfer_times is not None:
        yield faster, problem.replace(transfer_times=tuple(time / factor for time in problem.transfer_times))
    elif problem.bandwidth is not None:
        yield faster, problem.replace(bandwidth=problem.bandwidth * factor)


def _graph_pipeline(problem: GraphPipelineProblem, more: str, memory_bytes: float, faster: str, factor: float) -> Found:
    """No further device: a plan must use all of them, so one more can do harm."""
    if problem.memory_bytes is not None:
        yield more, problem.replace(memory_bytes=problem.memory_bytes + memory_bytes)
    link, node_link = _quicker(problem.link, factor), problem.node_link
    if (link, node_link) != (problem.link, None):
        node_link = None if node_link is None else _quicker(node_link, factor)
        yield faster, problem.replace(link=link, node_link=node_link)


def _quicker(link: Link, factor: float) -> Link:
    return link if link.bandwidth is None else replace(link, bandwidth=link.bandwidth * factor)


def _staging(problem: StagingProblem, more: str, memory_bytes: float, faster: str, factor: float) -> Found:
    yield from _more_devices(problem)
    if problem.memory_bytes is not None:
        yield more, problem.replace(memory_bytes=problem.memory_bytes + memory_bytes)
    for number, kind in enumerate(problem.device_types):
        if kind.memory_bytes is not None:
            types = _with(problem.device_types, number, memory_bytes=kind.memory_bytes + memory_bytes)
            yield f"{more} in {kind.name}", problem.replace(device_types=types)
    if not problem.levels:
        yield faster, problem.replace(bandwidth=problem.bandwidth * factor)
    for number, level in enumerate(problem.levels):
        yield (
            f"{faster} on level {number + 1}",
            problem.replace(levels=_with(problem.levels, number, bandwidth=level.bandwidth * factor)),
        )


def _more_devices(problem: StagingProblem) -> Found:
    for number, level in enumerate(problem.levels):
        levels: tuple[StagingLevel, ...] = _with(problem.levels, number, devices=level.devices + 1)
        count = math.prod(level.devices for level in levels)
        yield f"one more device on level {number + 1}", problem.replace(levels=levels, devices=count)
    for number, kind in enumerate(problem.device_types):
        types = _with(problem.device_types, number, devices=kind.devices + 1)
        yield f"one more {kind.name}", problem.replace(device_types=types, devices=problem.devices + 1)
    if not problem.levels and not problem.device_types:
        yield "one more device", problem.replace(devices=problem.devices + 1)


def _with(entries: Sequence[T], number: int, **changes: Any) -> tuple[T, ...]:
    """The same entries, one of them changed."""
    changed: Any = entries[number]
    return (*entries[:number], replace(changed, **changes), *entries[number + 1 :])
