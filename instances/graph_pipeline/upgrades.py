"""A graph pipeline on a slightly better cluster."""

from __future__ import annotations

from dataclasses import replace

from ..base.step import Found, Step
from .problem import GraphPipelineProblem, Link


def upgrades(problem: GraphPipelineProblem, step: Step) -> Found:
    """More memory and faster links, but no further device: a plan must use all of them, so one more can do harm."""
    if problem.memory_bytes is not None:
        yield step.more, problem.replace(memory_bytes=problem.memory_bytes + step.memory_bytes)
    link, node_link = _quicker(problem.link, step.factor), problem.node_link
    if (link, node_link) != (problem.link, None):
        node_link = None if node_link is None else _quicker(node_link, step.factor)
        yield step.faster, problem.replace(link=link, node_link=node_link)


def _quicker(link: Link, factor: float) -> Link:
    return link if link.bandwidth is None else replace(link, bandwidth=link.bandwidth * factor)
