"""The same problem in other units: all times, or all sizes, multiplied by a power of ten, as decimals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pipeplan.instances.base.amounts import as_written
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Link, Operator, TimeCurve
from pipeplan.instances.placement.problem import PlacementProblem
from pipeplan.instances.registry import Problem
from pipeplan.instances.schedule.problem import ScheduleProblem
from pipeplan.instances.staging.problem import Configuration, Layer, StagingProblem
from pipeplan.instances.training.model import MeasuredTime, OwnLayer
from pipeplan.instances.training.problem import TrainingProblem

Change = Callable[[Any], Any]
"""Of an amount; None, which is no amount, stays."""


def times_power(amount: float, power: int) -> float:
    """Of the decimal as it is written: 0.1 becomes 100.0, and 3e-7 becomes 0.3."""
    return float(as_written(amount) * Fraction(10) ** power)


def scaled(problem: Problem, time_power: int = 0, memory_power: int = 0) -> Problem:
    """All times multiplied by a power of ten, all sizes by another one, as decimals: optima follow the times.

    Where an amount has more than 15 digits the last one may change, and what just fits with it. Sizes of trainings are
    counts of parameters too, whose unit is the byte: they stay.
    """
    # The bytes that are sent between stages keep their unit.
    rate_power = (0 if isinstance(problem, StagingProblem | TrainingProblem) else memory_power) - time_power

    def times(power: int) -> Change:
        return lambda amount: None if amount is None else times_power(amount, power)

    return _changed(problem, times(time_power), times(memory_power), times(rate_power))


def in_fifteen_digits(problem: Problem) -> Any:
    """Rounded so that no digit is lost in any unit: what fits is the same in all of them."""

    def short(amount: float | None) -> Any:
        return None if amount is None else float(f"{amount:.15g}")

    return _changed(problem, short, short, short)


def _changed(problem: Problem, time: Change, size: Change, rate: Change) -> Problem:
    if isinstance(problem, PlacementProblem):
        nodes = tuple(
            replace(
                node,
                accelerator_time=time(node.accelerator_time),
                cpu_time=time(node.cpu_time),
                transfer_time=time(node.transfer_time),
                size_bytes=size(node.size_bytes),
            )
            for node in problem.nodes
        )
        return problem.replace(nodes=nodes, memory_bytes=size(problem.memory_bytes))
    if isinstance(problem, ChainProblem):
        return problem.replace(
            forward=tuple(map(time, problem.forward)),
            backward=tuple(map(time, problem.backward)),
            activations=tuple(map(size, problem.activations)),
            weights=tuple(map(size, problem.weights)),
            memory_bytes=size(problem.memory_bytes),
            transfer_times=None if problem.transfer_times is None else tuple(map(time, problem.transfer_times)),
            bandwidth=rate(problem.bandwidth),
        )
    if isinstance(problem, StagingProblem):
        return problem.replace(
            layers=tuple(_changed_layer(layer, time, size) for layer in problem.layers),
            memory_bytes=size(problem.memory_bytes),
            bandwidth=rate(problem.bandwidth),
            levels=tuple(replace(level, bandwidth=rate(level.bandwidth)) for level in problem.levels),
            device_types=tuple(
                replace(kind, memory_bytes=size(kind.memory_bytes)) for kind in problem.device_types
            ),
        )
    if isinstance(problem, ScheduleProblem):
        blocks = tuple(
            replace(
                block,
                time=time(block.time),
                memory={name: size(change) for name, change in block.memory.items()},
                workspace={name: size(amount) for name, amount in block.workspace.items()},
            )
            for block in problem.blocks
        )
        edges = tuple(replace(edge, lag=time(edge.lag)) for edge in problem.edges)
        devices = tuple(
            replace(device, memory=size(device.memory), standing=size(device.standing))
            for device in problem.devices
        )
        return problem.replace(blocks=blocks, edges=edges, devices=devices)
    if isinstance(problem, TrainingProblem):
        return _changed_training(problem, time, rate)
    assert isinstance(problem, GraphPipelineProblem)

    def link(old: Link) -> Link:
        return Link(rate(old.bandwidth), time(old.latency_s))

    return problem.replace(
        operators=tuple(_changed_operator(operator, time, size) for operator in problem.operators),
        memory_bytes=size(problem.memory_bytes),
        workspace_bytes=size(problem.workspace_bytes),
        link=link(problem.link),
        node_link=None if problem.node_link is None else link(problem.node_link),
    )


def _changed_training(problem: TrainingProblem, time: Change, rate: Change) -> TrainingProblem:
    def layer(own: OwnLayer) -> OwnLayer:
        return replace(own, times=tuple(map(measured, own.times)))

    def measured(own: MeasuredTime) -> MeasuredTime:
        forward, backward = time(own.forward_seconds), time(own.backward_seconds)
        return MeasuredTime(own.tensor, own.micro_batch, forward, backward, time(own.update_seconds))

    assert problem.model.own, "shapes have no unit of time"
    gpu, seconds = problem.gpu, ("launch_seconds", "collective_seconds", "step_seconds")
    return problem.replace(
        model=replace(problem.model, own=tuple(map(layer, problem.model.own))),
        gpu=replace(
            gpu, flops={name: rate(own) for name, own in gpu.flops.items()}, memory_rate=rate(gpu.memory_rate)
        ),
        levels=tuple(
            replace(own, bandwidth=rate(own.bandwidth), latency_seconds=time(own.latency_seconds))
            for own in problem.levels
        ),
        efficiencies=replace(
            problem.efficiencies, **{name: time(getattr(problem.efficiencies, name)) for name in seconds}
        ),
    )


def _changed_layer(layer: Layer, time: Change, size: Change) -> Layer:
    def scale(way: Configuration) -> Configuration:
        return replace(
            way,
            time=time(way.time),
            memory_per_batch=size(way.memory_per_batch),
            memory_fixed=size(way.memory_fixed),
        )

    return replace(layer, configurations={t: tuple(map(scale, ways)) for t, ways in layer.configurations.items()})


def _changed_operator(operator: Operator, time: Change, size: Change) -> Operator:
    def scale(curve: TimeCurve) -> TimeCurve:
        return replace(curve, seconds=tuple(map(time, curve.seconds)))

    return replace(
        operator,
        forward=scale(operator.forward),
        backward=scale(operator.backward),
        weight_bytes=size(operator.weight_bytes),
        stash_bytes=size(operator.stash_bytes),
        output_bytes=size(operator.output_bytes),
    )
