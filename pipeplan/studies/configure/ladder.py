"""What to run when nodes are lost: for each number of them the best configuration, and the best one's own degrees with
fewer replicas, or those of a configuration that is judged.

A batch seldom divides among fewer replicas. The search keeps the batch, so that it may choose other degrees; a
configuration that only drops replicas keeps its degrees, gets the largest batch below that divides, and leaves GPUs
idle that make no whole replica. Rates of tokens compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ...instances.base.errors import UsageError, show
from ...instances.base.quantities import several, whole_number
from ...instances.training.plan import Configuration
from ...instances.training.problem import Level, TrainingProblem, refuse_two_sorts
from ...instances.training.referee import (
    ConfigurationEvaluation,
    evaluate_configuration,
    framework_faults,
    shape_faults,
)
from ...instances.training.words import words_of
from .answer import Answer, Asked


@dataclass(frozen=True)
class Rung:
    """One number of lost nodes."""

    lost: int
    devices: int
    best: ConfigurationEvaluation | None
    """The best configuration with the same batch; None: none fits for sure, or divides the batch."""
    finished: bool
    """Was the search for it finished? Else a better one may exist."""
    fewer: ConfigurationEvaluation | None
    """The full cluster's configuration with fewer replicas, and the batch that they divide; None: it has none left, or
    cannot be run so."""

    def to_json(self) -> dict[str, Any]:
        return {
            "lost_nodes": self.lost,
            "devices": self.devices,
            "best": None if self.best is None else _facts(self.best),
            "finished": self.finished,
            "fewer_replicas": None if self.fewer is None else _facts(self.fewer),
        }


def _facts(own: ConfigurationEvaluation) -> dict[str, Any]:
    return {
        "words": words_of(own.plan),
        "batch": own.problem.batch,
        "devices": own.problem.devices,
        "seconds": own.timing.seconds,
        "tokens_per_second": tokens_per_second(own),
    }


def tokens_per_second(own: ConfigurationEvaluation) -> float:
    return own.timing.tokens_per_second_per_gpu * own.problem.devices


def lost_nodes(text: str, problem: TrainingProblem) -> tuple[int, ...]:
    """The numbers of lost nodes in words such as 4, which is 1 to 4, or 2..4."""
    refuse_two_sorts(problem, "ladder of lost nodes")
    first, dots, last = text.partition("..")
    numbers = [whole_number(part.strip()) for part in ((first, last) if dots else ("1", first))]
    nodes = problem.devices // problem.levels[0].count
    least, most = (number or 0 for number in numbers)
    if None in numbers or least > most:
        raise UsageError(f"--lose is {show(text)}; give a number of nodes, as in 4, or 0..4.")
    if most >= nodes:
        raise UsageError(f"--lose is {show(text)}, but the cluster has {several(nodes, 'node')}; one must remain.")
    return tuple(range(least, most + 1))


def ladder(
    answer: Answer, best: Configuration, lost: tuple[int, ...], search: Callable[[TrainingProblem], Answer]
) -> Iterator[Rung]:
    """A rung for each number of lost nodes; `search` answers for fewer nodes, and for all where `answer` does not."""
    for number in lost:
        smaller = without_nodes(answer.problem, number)
        own = search(smaller) if number or answer.report is None else answer
        finished = own.report is not None and own.report.finished
        fewer = _fewer_replicas(answer.problem, best, smaller.devices, answer.asked)
        yield Rung(number, smaller.devices, own.best, finished, fewer)


def without_nodes(problem: TrainingProblem, lost: int) -> TrainingProblem:
    """The problem on fewer nodes; where they make no whole groups any more, links above the node are the slowest."""
    if not lost:
        return problem
    node, *above = problem.levels
    nodes, groups = problem.devices // node.count - lost, prod(level.count for level in above[:-1])
    if nodes % groups:
        above, groups = [min(above, key=lambda level: level.bandwidth)], 1
    levels = (node, *above[:-1], replace(above[-1], count=nodes // groups))
    return problem.replace(devices=node.count * nodes, levels=_joined(levels))


def _joined(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Without levels of one group, which join nothing."""
    return levels[:1] + tuple(level for level in levels[1:] if level.count > 1)


def _fewer_replicas(
    problem: TrainingProblem, plan: Configuration, devices: int, asked: Asked
) -> ConfigurationEvaluation | None:
    """The configuration with as many replicas as fit on these devices, if that can be run and fits for sure."""
    degrees, node = plan.degrees, problem.levels[0].count
    replica = problem.devices // degrees.data
    data = devices // replica
    # Whole nodes stay, so that all replicas lie as before.
    while data and (data * replica) % node:
        data -= 1
    batch = problem.batch // (data * plan.micro_batch) * data * plan.micro_batch if data else 0
    if not batch:
        return None
    smaller = without_nodes(problem, (problem.devices - data * replica) // node).replace(batch=batch)
    fewer = replace(plan, degrees=replace(degrees, data=data))
    if any((*shape_faults(smaller, fewer), *framework_faults(smaller, fewer))):
        return None
    own = evaluate_configuration(smaller, fewer)
    return own if own.fit(asked.memory_error) == "yes" else None
