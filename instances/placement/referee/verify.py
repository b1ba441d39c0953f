"""What is wrong with a split, rule by rule, one sentence each.

At the end are the rules by which splits are judged: for throughput, or for the latency of one sample at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...base.amounts import as_written, exact_sum, fits, in_digits
from ...base.checks import check_known
from ...base.errors import Violation, show
from ...base.kind import Rules, chosen
from ...base.quantities import of_limit, several
from ..plan import Device, NotAnAssignmentError, PlacementPlan, limit_of
from ..problem import NodeId, PlacementProblem, refuse_other_kinds
from .evaluate import OBJECTIVES, PlacementEvaluation, evaluate
from .latency import LatencyEvaluation, circle_in_words, evaluate_latency, given_pieces, partition_fault, units
from .structure import (
    DEVICE_TYPES,
    Arc,
    order_or_circle,
    other_type_of,
    returning_path,
    stage_arcs,
    topological_ranks,
    type_faults,
)

CONTIGUITIES = ("none", "device", "chain")


def verify(problem: PlacementProblem, plan: PlacementPlan, contiguity: str = "none") -> tuple[Violation, ...]:
    """Every broken rule; an empty tuple is a valid plan.

    Rules: devices, assignment, memory, support, colocation, contiguity-device, contiguity-chain and subgraphs.

    `contiguity`: "none"; "device", the published notion, of each device alone; or "chain", which asks that
    the devices can be put in an order in which no edge leads back (and implies "device").

    A plan that is no assignment is judged all the same. Memory and support look at what a device lists. The
    rules between devices count a node where it is listed first, and one that is listed nowhere as standing alone.
    """
    check_known("contiguity", contiguity, CONTIGUITIES)
    refuse_other_kinds(problem, "verify")
    owner = _first_places(problem, plan)
    violations = [*_devices(problem, plan)]
    violations += [*_assignment(problem, plan), *_memory(problem, plan), *_support(problem, plan)]
    violations += _colocation(problem, plan, owner)
    if contiguity == "device":
        violations += _contiguous_devices(problem, plan, owner)
    elif contiguity == "chain":
        violations += _contiguous_chain(problem, plan, owner)
    if any(device.subgraphs is not None for device in plan.devices):
        violations += _subgraphs(problem, plan, owner)
    return tuple(violations)


def _first_places(problem: PlacementProblem, plan: PlacementPlan) -> list[int]:
    """Position of the first device that lists each node; -1, -2, ...: on no device, each in a place of its own."""
    owner = [-1 - i for i in range(len(problem.nodes))]
    for d, device in enumerate(plan.devices):
        for i in _known(problem, device.nodes):
            if owner[i] < 0:
                owner[i] = d
    return owner


def _known(problem: PlacementProblem, node_ids: Sequence[NodeId]) -> list[int]:
    """Positions of the nodes, each once; unknown and repeated ones are a matter of `assignment` alone."""
    return list(dict.fromkeys(problem.index[node_id] for node_id in node_ids if node_id in problem.index))


# ---- rules about a device and its list ------------------------------------------------------------------


def _devices(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    for name, count in Counter(device.name for device in plan.devices).items():
        if count > 1:
            yield Violation("devices", f"The device name {show(name)} is used {count} times.")
    for device in plan.devices:
        if device.type not in DEVICE_TYPES:
            yield Violation("devices", f"Device {show(device.name)} is of the unknown type {show(device.type)}.")
    for message in type_faults(problem, plan):
        yield Violation("devices", message)
    yield from _counts(problem, plan)


def _counts(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    """A violation for each type of which the plan has more devices than the problem."""
    for kind, limit in (("accelerator", problem.accelerators), ("cpu", problem.cpus)):
        listed = sum(device.type == kind and device.accelerator_type is None for device in plan.devices)
        if listed > limit:
            devices = "device" if listed == 1 else "devices"
            yield Violation("devices", f"The plan has {listed} {devices} of type {kind}, the problem only {limit}.")
    for other in problem.other_types:
        listed = sum(device.accelerator_type == other.name for device in plan.devices)
        if listed > other.count:
            devices = "accelerator" if listed == 1 else "accelerators"
            yield Violation(
                "devices",
                f"The plan has {listed} {devices} of type {show(other.name)}, the problem only {other.count}.",
            )


def _assignment(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    holders: dict[NodeId, list[str]] = {}
    for device in plan.devices:
        for node_id in device.nodes:
            holders.setdefault(node_id, []).append(device.name)
    for node_id, names in holders.items():
        if node_id not in problem.index:
            yield Violation("assignment", f"Device {show(names[0])} holds the unknown node {show(node_id)}.")
        elif len(names) > 1:
            listed = ", ".join(map(show, dict.fromkeys(names)))
            yield Violation("assignment", f"Node {show(node_id)} is placed {len(names)} times (on {listed}).")
    for node in problem.nodes:
        if node.id not in holders:
            yield Violation("assignment", f"Node {show(node.id)} is on no device.")


def overfull(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[tuple[Device, float]]:
    """Accelerators that hold more bytes than their memory has, with that memory."""
    for device in plan.devices:
        limit = limit_of(problem, device)
        if limit is not None and not fits(_sizes(problem, device), limit):
            yield device, limit


def _memory(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    for device, limit in overfull(problem, plan):
        size = exact_sum(_sizes(problem, device))
        yield Violation(
            "memory",
            f"Device {show(device.name)} holds {in_digits(size)} bytes, {in_digits(size - as_written(limit))} more "
            f"than its memory of {in_digits(limit)} bytes{of_limit(float(size), limit)}.",
        )


def _sizes(problem: PlacementProblem, device: Device) -> list[float]:
    return [problem.nodes[i].size_bytes for i in _known(problem, device.nodes)]


def _support(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    for device in plan.devices:
        kind = other_type_of(problem, device)
        if device.type != "accelerator" or (kind is None and device.accelerator_type is not None):
            continue
        for i in _known(problem, device.nodes):
            if problem.time_on(i, kind) is None:
                where = f"Node {show(problem.nodes[i].id)} is on accelerator {show(device.name)}"
                if kind is None and not problem.other_types:
                    yield Violation("support", f"{where}, but only a CPU can run it.")
                else:
                    yield Violation("support", f"{where}, whose type cannot run it.")


# ---- rules between devices -----------------------------------------------------------------------------


def _colocation(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> Iterator[Violation]:
    for members in problem.color_classes:
        placed = [i for i in members if owner[i] >= 0]
        other = next((i for i in placed if owner[i] != owner[placed[0]]), None)
        if other is None:
            continue
        first = problem.nodes[placed[0]]
        devices = len({owner[i] for i in placed})
        yield Violation(
            "colocation",
            f"Nodes {show(first.id)} and {show(problem.nodes[other].id)} of colour {show(first.color)} are on "
            f"{show(plan.devices[owner[placed[0]]].name)} and {show(plan.devices[owner[other]].name)}; the "
            f"{several(len(placed), 'node')} of this colour are on {several(devices, 'device')} and must share one.",
        )


def _contiguous_devices(
    problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]
) -> Iterator[Violation]:
    ranks = topological_ranks(problem)
    forward: list[list[int]] = [[] for _ in plan.devices]
    for i, node in enumerate(problem.nodes):
        if owner[i] >= 0 and not node.backward:
            forward[owner[i]].append(i)
    for device, held in zip(plan.devices, forward, strict=True):
        path = returning_path(problem, held, ranks)
        if path is not None:
            where = _path_in_words(problem, path)
            yield Violation("contiguity-device", f"Device {show(device.name)} is not contiguous: {where}.")


def _path_in_words(problem: PlacementProblem, path: tuple[int, int, int]) -> str:
    leaves, passes, returns = (show(problem.nodes[i].id) for i in path)
    return f"a path leaves it at node {leaves}, passes node {passes} outside and comes back at node {returns}"


def _contiguous_chain(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> Iterator[Violation]:
    order, circle = order_or_circle(owner, stage_arcs(problem))
    if order is None:
        steps = ", ".join(_step_in_words(problem, plan, owner, arc) for arc in circle)
        yield Violation("contiguity-chain", f"The devices cannot be ordered as a chain of stages: {steps}.")


def _step_in_words(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int], arc: Arc) -> str:
    before, after = (
        show(plan.devices[owner[i]].name) if owner[i] >= 0 else f"the unplaced node {show(problem.nodes[i].id)}"
        for i in arc
    )
    u, v = (problem.nodes[i] for i in arc)
    edge = f"edge {show(u.id)} -> {show(v.id)}"
    if u.backward:
        edge = f"backward edge {show(v.id)} -> {show(u.id)}, mirrored"
    return f"{before} must come before {after} ({edge})"


# ---- pieces of latency plans ---------------------------------------------------------------------------


def _subgraphs(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> Iterator[Violation]:
    """Pieces partition the device's nodes; on accelerators they can be run one after the other, each as a whole.

    On CPUs, where nodes run one by one, the order of pieces asks for nothing.
    """
    ranks = topological_ranks(problem)
    sound = True
    for device in plan.devices:
        if device.subgraphs is None:
            continue
        fault = partition_fault(device)
        faults = [fault] if fault else []
        if not fault and device.type == "accelerator":
            faults = [*_broken_pieces(problem, device, ranks), *_late_producers(problem, device)]
        sound = sound and not faults
        for message in faults:
            yield Violation("subgraphs", message)
    if sound:
        keys = given_pieces(problem, plan, owner)
        circle = circle_in_words(problem, plan, units(problem, plan, owner, keys), keys)
        if circle is not None:
            yield Violation("subgraphs", f"The subgraphs wait for each other in a circle: {circle}.")


def _broken_pieces(problem: PlacementProblem, device: Device, ranks: Sequence[int]) -> Iterator[str]:
    for number, piece in enumerate(device.subgraphs or ()):
        path = returning_path(problem, _known(problem, piece), ranks)
        if path is not None:
            where = f"subgraphs[{number}] of device {show(device.name)}"
            yield f"The piece {where} is not convex: {_path_in_words(problem, path)}."


def _late_producers(problem: PlacementProblem, device: Device) -> Iterator[str]:
    """The first path, if any, from a later piece to an earlier one."""
    piece_of = {i: number for number, piece in enumerate(device.subgraphs or ()) for i in _known(problem, piece)}
    latest: dict[int, tuple[int, int]] = {}
    """Node -> the latest piece among its ancestors and itself, and a node of that piece."""
    for v in problem.topological_order:
        before = max((latest[u] for u in problem.predecessors[v] if u in latest), default=None)
        mine = piece_of.get(v)
        if mine is not None and before is not None and before[0] > mine:
            u = show(problem.nodes[before[1]].id)
            yield (
                f"The piece subgraphs[{mine}] of device {show(device.name)} runs before subgraphs[{before[0]}], but "
                f"its node {show(problem.nodes[v].id)} needs node {u} of that later piece."
            )
            return
        place = before if mine is None else (mine, v)
        if place is not None:
            latest[v] = place


# ---- as a plan for latency -----------------------------------------------------------------------------


def verify_latency(
    problem: PlacementProblem, plan: PlacementPlan, subgraphs_per_device: int | None = None
) -> tuple[Violation, ...]:
    """Every broken rule of `verify`, with `latency` where a plan has none; an empty tuple is a valid plan for latency.

    All CPUs are one pool, so nodes of one colour may be on several of them. `subgraphs_per_device`: how many pieces
    an accelerator may hold (None: any number); where the plan states none, the fewest that can be run are counted.
    """
    if subgraphs_per_device is not None and subgraphs_per_device < 1:
        raise ValueError(f"subgraphs_per_device is {show(subgraphs_per_device)}; give at least 1")
    violations = [violation for violation in verify(problem, plan) if violation.rule != "colocation"]
    violations += [violation for violation in verify(problem, _pooled(plan)) if violation.rule == "colocation"]
    if not {"devices", "assignment", "subgraphs"} & {violation.rule for violation in violations}:
        violations += _pieces(problem, plan, subgraphs_per_device)
    return tuple(violations)


def _pooled(plan: PlacementPlan) -> PlacementPlan:
    """The plan with everything that is on CPUs on the first of them."""
    cpus = [device for device in plan.devices if device.type == "cpu"]
    if len(cpus) < 2:
        return plan
    pool = replace(cpus[0], nodes=tuple(node_id for device in cpus for node_id in device.nodes), subgraphs=None)
    return replace(plan, devices=(*(device for device in plan.devices if device.type != "cpu"), pool))


def _pieces(problem: PlacementProblem, plan: PlacementPlan, limit: int | None) -> Iterator[Violation]:
    try:
        evaluation = evaluate_latency(problem, plan)
    except NotAnAssignmentError as error:
        yield Violation("latency", str(error))
        return
    if evaluation.latency is None:
        yield Violation("latency", evaluation.reason or "The plan has no latency.")
        return
    counts = Counter(piece.device for piece in evaluation.pieces)
    stated = {device.name for device in plan.devices if device.subgraphs is not None}
    for name, count in counts.items():
        if limit is not None and count > limit:
            how = "has" if name in stated else "needs"
            pieces = "subgraph" if limit == 1 else "subgraphs"
            yield Violation("subgraphs", f"Device {show(name)} {how} {count} subgraphs, {limit} {pieces} allowed.")


LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class ThroughputRules:
    """Plans are judged by the loads of their devices; `contiguity` says what the nodes of each device must form."""

    objective: str = "max-load"
    contiguity: str = "chain"

    plan_type = PlacementPlan

    def violations(self, problem: PlacementProblem, plan: PlacementPlan) -> tuple[Violation, ...]:
        return verify(problem, plan, contiguity=self.contiguity)

    def value(self, problem: PlacementProblem, plan: PlacementPlan) -> float:
        return evaluate(problem, plan).objective(self.objective)

    def evaluation(self, problem: PlacementProblem, plan: PlacementPlan) -> PlacementEvaluation:
        return evaluate(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {"contiguity": self.contiguity, "objective": self.objective}


@dataclass(frozen=True, slots=True)
class LatencyRules:
    """One sample at a time, in pieces, without stages."""

    subgraphs_per_device: int | None = None
    """Number of pieces that an accelerator may hold; None: any number."""

    objective = LATENCY
    plan_type = PlacementPlan

    def violations(self, problem: PlacementProblem, plan: PlacementPlan) -> tuple[Violation, ...]:
        return verify_latency(problem, plan, self.subgraphs_per_device)

    def value(self, problem: PlacementProblem, plan: PlacementPlan) -> float:
        evaluation = self.evaluation(problem, plan)
        if evaluation.latency is None:
            raise ValueError(evaluation.reason)
        return evaluation.latency

    def evaluation(self, problem: PlacementProblem, plan: PlacementPlan) -> LatencyEvaluation:
        return evaluate_latency(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {"objective": self.objective, "subgraphs_per_device": self.subgraphs_per_device}


def rules_of(problem: PlacementProblem, options: Mapping[str, Any]) -> Rules:
    """The rules that options ask for. `contiguity` comes from results, which say by which one their plan was judged."""
    if options.get("objective") == LATENCY:
        limit = options.get("subgraphs_per_device")  # of a broken result it may be anything
        whole = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1
        return LatencyRules(limit if whole else None)
    return ThroughputRules(chosen(options, "objective", OBJECTIVES), _contiguity(options))


def _contiguity(options: Mapping[str, Any]) -> str:
    """How the plan has to be contiguous: as a result or `--contiguity` has it, else by the flags of planners."""
    stored = options.get("contiguity")
    if stored in CONTIGUITIES:
        return str(stored)
    if options.get("non_contiguous"):
        return "none"
    return "device" if options.get("device_contiguity") else "chain"
