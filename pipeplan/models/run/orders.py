"""What each rank runs, in which order, and how long that should take: one order for the simulator and for the run.

Stages that have their ranks for themselves run 1F1B, or kFkB where the plan says so, with as many micro-batches in
flight as `plan simulate` gives them. Ranks with several stages follow a list schedule (`instances/timeline/engine.py`).

The prediction is the simulator's, with the times of the profile and each tensor on its own way: it is sent once to each
stage that reads it, where a problem made of the profile may know it only as a part of a sum.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ...instances.base.checks import check_positive, check_whole
from ...instances.base.cluster import SECONDS
from ...instances.base.errors import UsageError, show
from ...instances.base.graph import strong_components
from ...instances.base.quantities import several
from ...instances.networks.profile.profile import Profile, ProfileTensor
from ...instances.registry import Plan
from ...instances.simulate import MAX_MICRO_BATCHES
from ...instances.timeline.engine import run, share_devices
from ...instances.timeline.model import (
    Dependency,
    Order,
    Pass,
    Pipeline,
    Simulation,
    Stage,
    check_tasks,
    kfkb_order,
    replica_orders,
)
from ..stages import ModelStage, stages_of

# What gloo moves between two processes of one machine: 1.9 to 4.8 GiB/s were seen, by the size of the message.
LOOPBACK_BYTES_PER_S = 2e9
# Each byte is sent and comes back, for all ranks of a ring but one.
ALL_REDUCE_TRIPS = 2.0


@dataclass(frozen=True, slots=True)
class RunStage:
    """Nodes that run as one, on each of its ranks in turn: micro-batch j on `ranks[(j - 1) % len(ranks)]`."""

    name: str
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]

    def rank_of(self, micro_batch: int) -> int:
        return self.ranks[(abs(micro_batch) - 1) % len(self.ranks)]


@dataclass(frozen=True)
class Schedule:
    """The stages of a plan on ranks, and what the simulator makes of them; times in seconds.

    A rank is a process that stands for one device.
    """

    stages: tuple[RunStage, ...]
    pipeline: Pipeline
    training: bool
    ranks: int

    @cached_property
    def orders(self) -> tuple[tuple[Pass, ...], ...]:
        """The passes of each rank."""
        if self.pipeline.shared:
            return self.pipeline.shared
        orders: list[tuple[Pass, ...]] = [()] * self.ranks
        for x, (stage, planned) in enumerate(zip(self.stages, self.pipeline.stages, strict=True)):
            for rank, order in zip(stage.ranks, planned.orders, strict=True):
                orders[rank] = tuple(Pass(x, j) for j in order)
        return tuple(orders)

    @cached_property
    def predicted(self) -> Simulation:
        return run(self.pipeline)

    def replayed(self, times: Mapping[Pass, float]) -> Simulation:
        """The simulation of the same order with other times of the passes."""
        return run(replace(self.pipeline, times=times))


def schedule_of(
    plan: Plan, profile: Profile, micro_batches: int, bandwidth: float = LOOPBACK_BYTES_PER_S
) -> Schedule:
    """The schedule of a plan, or a `UsageError` where it cannot be run; `bandwidth` is in bytes per second.

    Each replica of a stage works in an order of its own, unless its device holds several stages.
    """
    check_whole("micro_batches", micro_batches, MAX_MICRO_BATCHES)
    check_positive("bandwidth", bandwidth)
    planned = stages_of(plan, profile).stages
    check_tasks([micro_batches] * len(planned))
    _check(planned, profile, micro_batches)
    stages = _on_ranks(planned)
    orders = [_orders(stage, micro_batches, profile.training) for stage in planned]
    factor = float(SECONDS[profile.time_unit])
    pipeline = Pipeline(
        tuple(_stage(profile, stages, x, order, factor, bandwidth) for x, order in enumerate(orders)),
        tuple(_dependencies(profile, stages, bandwidth)),
        micro_batches,
        profile.name,
    )
    ranks = [rank for stage in stages for rank in stage.ranks]
    if len(set(ranks)) < len(ranks):
        limits = [stage.in_flight for stage in planned]
        pipeline = share_devices(pipeline, [stage.ranks[0] for stage in stages], limits, training=profile.training)
    return Schedule(stages, pipeline, profile.training, 1 + max(ranks))


def _check(planned: Iterable[ModelStage], profile: Profile, micro_batches: int) -> None:
    """Refuse what a plan can say and a run cannot do."""
    for stage in planned:
        name = stage.device.capitalize()
        if stage.tensor_parallel > 1:
            raise UsageError(
                f"{name} divides each layer over {stage.tensor_parallel} devices, which only a model written for that "
                "can do; plan without --tensor-parallel."
            )
        if stage.configurations:
            way = next(iter(stage.configurations.values()))
            raise UsageError(
                f"{name} runs layers in the configuration {show(way)}, and a run computes nothing again; "
                "plan without --recompute."
            )
        if stage.samples is not None:
            if stage.replicas > 1:
                raise UsageError(
                    f"{name} divides each micro-batch over {stage.replicas} devices, and the model was captured with "
                    "whole ones; plan with one device for each stage."
                )
            if stage.samples != profile.micro_batch:
                raise UsageError(
                    f"{name} runs {several(stage.samples, 'sample')} at once and the model was captured with "
                    f"{profile.micro_batch}; plan with micro-batches of that size, or capture the model with the other."
                )
        elif stage.replicas > micro_batches:
            raise UsageError(
                f"{name} has {stage.replicas} replicas for {several(micro_batches, 'micro-batch')}; "
                f"give --micro-batches {stage.replicas} or more."
            )


def _on_ranks(planned: tuple[ModelStage, ...]) -> tuple[RunStage, ...]:
    """A rank for each replica of each device, numbered in the order of the stages."""
    replicas: dict[int, int] = {}
    pieces: dict[int, int] = {}
    for stage in planned:
        replicas[stage.rank] = stage.replicas
        pieces[stage.rank] = pieces.get(stage.rank, 0) + 1
    first, count = {}, 0
    for device in sorted(replicas):
        if replicas[device] > 1 and max(pieces.values()) > 1:
            raise UsageError(
                "Devices of the plan hold several pieces, and one of them has replicas; give a contiguous plan."
            )
        first[device] = count
        count += replicas[device]
    stages, seen = [], dict.fromkeys(pieces, 0)
    for stage in planned:
        device = stage.rank
        name = f"{stage.device}/{seen[device]}" if pieces[device] > 1 else stage.device
        seen[device] += 1
        stages.append(RunStage(name, stage.nodes, tuple(range(first[device], first[device] + stage.replicas))))
    return tuple(stages)


def _orders(stage: ModelStage, micro_batches: int, training: bool) -> tuple[Order, ...]:
    if stage.samples is not None:
        orders: tuple[Order, ...] = (kfkb_order(range(1, micro_batches + 1), stage.in_flight, stage.k),)
    else:
        orders = replica_orders(micro_batches, stage.replicas, stage.in_flight, stage.k)
    return orders if training else tuple(tuple(j for j in order if j > 0) for order in orders)


def _stage(
    profile: Profile,
    stages: tuple[RunStage, ...],
    x: int,
    orders: tuple[Order, ...],
    factor: float,
    bandwidth: float,
) -> Stage:
    """`factor`: seconds in the profile's unit of time."""
    stage = stages[x]
    nodes = [profile.nodes[profile.index[node_id]] for node_id in stage.nodes]
    return Stage(
        name=stage.name,
        micro_batch=1,
        forward=factor * math.fsum(profile.time(node.forward) for node in nodes),
        backward=factor * math.fsum(profile.time(node.backward) for node in nodes),
        orders=orders,
        devices=len(stage.ranks),
        synchronisation=synchronised_bytes(profile, stages, x) / bandwidth,
        fixed_bytes=math.fsum(node.parameter_bytes + node.buffer_bytes for node in nodes),
        sample_bytes=math.fsum(node.saved_bytes for node in nodes),
    )


def _dependencies(profile: Profile, stages: tuple[RunStage, ...], bandwidth: float) -> Iterator[Dependency]:
    """What stages read of each other; a gradient has the size of its tensor. On one rank nothing is sent."""
    moved: dict[tuple[int, int], list[float]] = {}
    for tensor, x, y in crossing(profile, stages):
        amounts = moved.setdefault((x, y), [0.0, 0.0])
        if set(stages[x].ranks) != set(stages[y].ranks):
            amounts[0] += tensor.bytes
            amounts[1] += tensor.bytes * tensor.gradient
    for (x, y), (forth, back) in sorted(moved.items()):
        yield Dependency(x, y, forth / bandwidth, back / bandwidth)


def crossing(profile: Profile, stages: tuple[RunStage, ...]) -> Iterator[tuple[ProfileTensor, int, int]]:
    """Tensors that one stage makes and another reads, once for each that reads it."""
    home = {node_id: x for x, stage in enumerate(stages) for node_id in stage.nodes}
    for tensor in profile.tensors:
        for y in dict.fromkeys(home[reader] for reader in tensor.readers):
            if y != home[tensor.producer]:
                yield tensor, home[tensor.producer], y


def synchronised_bytes(profile: Profile, stages: tuple[RunStage, ...], x: int) -> float:
    """Bytes that a rank of the stage sends to add up gradients of parameters that other ranks hold as well."""
    if not profile.training:
        return 0.0
    homes = holders(profile, stages)
    sizes = {name: size for node in profile.nodes for name, size in node.parameters.items()}
    parameters = {name for node_id in stages[x].nodes for name in profile.nodes[profile.index[node_id]].parameters}
    return math.fsum(
        ALL_REDUCE_TRIPS * (len(ranks) - 1) / len(ranks) * sizes[names[0]]
        for names, ranks in homes
        if len(ranks) > 1 and parameters & set(names)
    )


def holders(profile: Profile, stages: tuple[RunStage, ...]) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """All names of each parameter and the ranks that have it; tied parameters count as one."""
    ranks: dict[str, set[int]] = {}
    for stage in stages:
        for node_id in stage.nodes:
            for name in profile.nodes[profile.index[node_id]].parameters:
                ranks.setdefault(name, set()).update(stage.ranks)
    names = sorted(ranks)
    place = {name: i for i, name in enumerate(names)}
    arcs = [(place[one], place[other]) for pair in profile.tied for one, other in (pair, pair[::-1])]
    groups = ([names[i] for i in part] for part in strong_components(len(names), arcs))
    return [(tuple(group), tuple(sorted(set().union(*(ranks[name] for name in group))))) for group in groups]


# ---- layout ------------------------------------------------------------
# The messages between passes: which values go from which rank to which, and by what tag.
#
# Sender and receiver both know all messages in advance, so that nothing but tensors has to be sent.


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that one stage makes and others read."""

    name: str
    producer: int
    readers: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str
    gradient: bool
    """Does a gradient of its size come back?"""


class Message(NamedTuple):
    """A value of one micro-batch on its way to one reader, or its gradient on the way back."""

    value: int
    reader: int
    micro_batch: int
    back: bool


@dataclass(frozen=True)
class Layout:
    """All messages of a run, by the pass that makes them and by the pass that reads them."""

    stages: tuple[RunStage, ...]
    values: tuple[Value, ...]
    micro_batches: int

    @cached_property
    def _ends(self) -> tuple[dict[int, list[tuple[int, int]]], ...]:
        """By stage the values that it reads, and those that it makes: the number of each, with one of its readers."""
        read: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        made: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, value in enumerate(self.values):
            for reader in value.readers:
                read[reader].append((number, reader))
                made[value.producer].append((number, reader))
        return read, made

    def read_by(self, run_pass: Pass) -> list[Message]:
        """Messages that a pass needs of other stages: values forward, their gradients backward."""
        return self._messages(run_pass, reads=True)

    def made_by(self, run_pass: Pass) -> list[Message]:
        """Messages that a pass has for other stages."""
        return self._messages(run_pass, reads=False)

    def _messages(self, run_pass: Pass, *, reads: bool) -> list[Message]:
        x, j, _ = run_pass
        back = j < 0
        # Gradients come to the stage that made the value, from those that read it.
        ends = self._ends[reads == back][x]
        return [Message(n, reader, abs(j), back) for n, reader in ends if self.values[n].gradient or not back]

    def sender(self, message: Message) -> int:
        return self._rank(message, message.back)

    def receiver(self, message: Message) -> int:
        return self._rank(message, not message.back)

    def _rank(self, message: Message, of_reader: bool) -> int:
        stage = message.reader if of_reader else self.values[message.value].producer
        return self.stages[stage].rank_of(message.micro_batch)

    def tag(self, message: Message) -> int:
        """A number that no other message has."""
        place = message.value * len(self.stages) + message.reader
        return 2 * (place * self.micro_batches + message.micro_batch - 1) + message.back
