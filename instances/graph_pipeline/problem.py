"""The graph-pipeline problem (GraphPipe): a DAG of operators whose times depend on how many samples they run at once.

A synchronous training step runs `mini_batch` samples. Stages are sets of operators that run micro-batches of b
samples on d devices, b / d samples on each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..base.amounts import canonical, canonical_or_none, digest
from ..base.checks import (
    NodeId,
    check_amount,
    check_devices,
    check_distinct,
    check_id,
    check_labels,
    check_limit,
    check_positive,
    check_size,
    check_text,
    check_whole,
)
from ..base.curve import TimeCurve as TimeCurve
from ..base.curve import check_curve
from ..base.errors import InputError, UsageError
from ..base.fields import check_members, check_numbers
from ..base.graph import Graph, check_acyclic, check_ends
from ..base.kind import AnyProblem

MAX_OPERATORS = 100_000
MAX_OPERATOR_EDGES = 1_000_000
MAX_MINI_BATCH = 10_000_000


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: `forward(q)` and `backward(q)` are the times of q samples at once on one device."""

    id: NodeId
    forward: TimeCurve
    backward: TimeCurve
    weight_bytes: float = 0.0
    """One copy of its parameters; every device of its stage holds all of them."""
    stash_bytes: float = 0.0
    """Bytes per sample that are kept from the forward to the backward pass."""
    output_bytes: float = 0.0
    """Bytes per sample of the one tensor that every consumer reads."""
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two devices, in one direction. Its times are in the problem's time unit, whatever names say."""

    bandwidth: float | None = None
    """Bytes per time unit; None: a transfer takes no time but the latency."""
    latency_s: float = 0.0

    def seconds(self, amount_bytes: float) -> float:
        """Time of one transfer, in the problem's time unit."""
        return self.latency_s + (0.0 if self.bandwidth is None else amount_bytes / self.bandwidth)


@dataclass(frozen=True, repr=False)
class GraphPipelineProblem(AnyProblem, Graph):
    """A graph-pipeline problem, checked at construction; `replace()` makes variants.

    Which link a transfer uses does not depend on where stages are put: one between stages uses `node_link` unless all
    devices stand in one node, one inside a stage uses `node_link` only where the stage has more devices than a node.
    """

    operators: tuple[Operator, ...]
    edges: tuple[tuple[NodeId, NodeId], ...]
    mini_batch: int
    """Samples between two updates of the weights."""
    devices: int
    memory_bytes: float | None = None
    """Memory of one device; None: no limit."""
    link: Link = Link()
    """The link between devices of one node."""
    node_link: Link | None = None
    """The link between nodes; None: there is one level, and `link` joins all devices."""
    devices_per_node: int | None = None
    weight_copies: float = 2.0
    """Bytes that a device holds for each byte of weights: the weights, their gradients, optimiser states."""
    workspace_bytes: float = 0.0
    """Further bytes that a device needs, whatever it runs."""
    name: str = "graph-pipeline"
    time_unit: str | None = "s"

    kind = "graph-pipeline"

    def __post_init__(self) -> None:
        check_members(self)
        _check(self)

    # ---- derived structure: positions instead of ids ---------------------------------------------------

    @property
    def ids(self) -> tuple[NodeId, ...]:
        return tuple(operator.id for operator in self.operators)

    @property
    def ends(self) -> tuple[tuple[NodeId, NodeId], ...]:
        return self.edges

    @property
    def boundary_link(self) -> Link:
        """The link of transfers between stages."""
        return self.inner_link(self.devices)

    def inner_link(self, devices: int) -> Link:
        """The link over which a stage of so many devices synchronises its weights."""
        if self.node_link is None or self.devices_per_node is None or devices <= self.devices_per_node:
            return self.link
        return self.node_link

    @cached_property
    def hash(self) -> str:
        """A digest of every field that can change a plan's value (so not of names)."""
        facts: list[Any] = [
            [_operator_facts(operator) for operator in self.operators],
            [list(edge) for edge in self.edges],
            self.mini_batch,
            self.devices,
            canonical_or_none(self.memory_bytes),
            _link_facts(self.link),
            _link_facts(self.node_link),
            self.devices_per_node,
            canonical(self.weight_copies),
            canonical(self.workspace_bytes),
        ]
        return digest(facts)


def micro_batch_sizes(problem: GraphPipelineProblem, given: int | None, mixed: bool = False) -> tuple[int, ...]:
    """The sizes that stages may have: the given one, or all powers of two that divide the mini-batch. `mixed`: are
    different sizes asked for? Then none may be given."""
    batch = problem.mini_batch
    if given is None:
        return tuple(1 << e for e in range(batch.bit_length()) if batch % (1 << e) == 0)
    if mixed:
        raise UsageError(
            "--micro-batch is one size for all stages, --option mixed-micro-batches asks for several; drop one."
        )
    if given < 1 or batch % given:
        raise InputError(
            "option micro_batch", f"is {given}", f"give a whole number that divides the mini-batch of {batch}"
        )
    return (given,)


def _operator_facts(operator: Operator) -> list[Any]:
    curves = [
        [list(map(float, c.samples)), list(map(float, c.seconds))] for c in (operator.forward, operator.backward)
    ]
    amounts = (operator.weight_bytes, operator.stash_bytes, operator.output_bytes)
    return [operator.id, *curves, *map(float, amounts)]


def _link_facts(link: Link | None) -> list[float | None] | None:
    return None if link is None else [canonical_or_none(link.bandwidth), float(link.latency_s)]


# ---- the door ------------------------------------------------------------------------------------------


def _check(problem: GraphPipelineProblem) -> None:
    check_labels(problem.name, problem.time_unit)
    _check_cluster(problem)
    if not problem.operators:
        raise InputError("operators", "is empty", "give at least one operator")
    check_size("operators", problem.operators, MAX_OPERATORS)
    check_size("edges", problem.edges, MAX_OPERATOR_EDGES)
    for i, operator in enumerate(problem.operators):
        _check_operator(f"operators[{i}]", operator)
    check_distinct("operators", "operator", problem.ids)
    _check_edges(problem)
    check_acyclic(problem)


def _check_cluster(problem: GraphPipelineProblem) -> None:
    check_whole("mini_batch", problem.mini_batch, MAX_MINI_BATCH)
    check_devices("devices", problem.devices)
    check_limit("memory_bytes", problem.memory_bytes)
    check_amount("weight_copies", problem.weight_copies)
    check_amount("workspace_bytes", problem.workspace_bytes)
    _check_link("link", problem.link)
    if (problem.node_link is None) != (problem.devices_per_node is None):
        missing = "node_link" if problem.node_link is None else "devices_per_node"
        raise InputError(missing, "is missing", "give `node_link` and `devices_per_node` together, or neither")
    if problem.node_link is not None:
        _check_link("node_link", problem.node_link)
        check_devices("devices_per_node", problem.devices_per_node)


def _check_link(where: str, link: Link) -> None:
    if link.bandwidth is not None:
        check_positive(
            f"{where}.bandwidth", link.bandwidth, "give a finite number > 0, or null for no transfer time"
        )
    check_amount(f"{where}.latency_s", link.latency_s)


def _check_operator(where: str, operator: Operator) -> None:
    check_id(f"{where}.id", operator.id)
    if operator.name is not None:
        check_text(f"{where}.name", operator.name)
    for side in ("forward", "backward"):
        check_curve(f"{where}.{side}", getattr(operator, side))
    check_numbers(operator, where, 0)


def _check_edges(problem: GraphPipelineProblem) -> None:
    seen: set[tuple[NodeId, NodeId]] = set()
    for i, edge in enumerate(problem.edges):
        check_ends(f"edges[{i}]", edge, problem.index, "operator", "name an operator")
        if edge in seen:
            raise InputError(f"edges[{i}]", "repeats an edge", "name each edge once")
        seen.add(edge)
