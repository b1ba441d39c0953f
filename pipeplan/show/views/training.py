"""The view of a training configuration: time and memory of each pipeline stage, and the timeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...instances.base.kind import Rules
from ...instances.physics.optimizers import USUAL_OPTIMIZER
from ...instances.timeline.engine import run
from ...instances.timeline.model import Simulation
from ...instances.training.iteration import RankTime, pipeline_of
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import ConfigurationEvaluation
from ...instances.training.words import recompute_word, words_of
from ..configurations import memory_in_words, shortly
from ..palette import PHASE_NAMES
from ..view import MOST_TOLD, Bar, PlanView, Row, Table, Timeline
from ..words import Held, Order, amount, percent, rate, several, with_memory
from .simulated import bar_of

# Fields of `RankTime` that are work of the model itself.
COMPUTATION = ("products", "attention", "memory", "measured")
# Fields that are parts of a load by themselves.
OTHERS = ("recomputation", "tensor", "context", "expert", "host", "data", "optimizer")
# The most micro-batches of the timeline, unless two for each stage are more.
MOST_MICRO_BATCHES = 24
# Decimal digits of a share that idles; what is smaller is rounding.
DIGITS = 6
WINDOWS = ("warm-up", "steady", "cool-down")
# Names of the units that are no layers.
UNIT_NAMES = {"embedding": "embedding", "head": "head", "prediction": "prediction"}


def facts(problem: TrainingProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    links = ", ".join(f"{level.count} at {rate(level.bandwidth, problem.time_unit)}" for level in problem.levels)
    return {
        "model": f"{problem.model.name}, {several(len(problem.model.units), 'unit')}",
        "cluster": f"{problem.devices} {problem.gpu.name} {with_memory(problem.memory_bytes)}, links of {links}",
        "batch": f"{several(problem.batch, 'sequence')} of {several(problem.sequence, 'token')} in {problem.precision}",
        "framework": problem.framework + f" with {problem.optimizer}" * (problem.optimizer != USUAL_OPTIMIZER),
    }


def assumptions(problem: TrainingProblem, rules: Rules) -> tuple[str, ...]:
    return (
        "Times follow from shapes and from the problem's efficiencies, and the ranks of a stage are alike.",
        "Tokens are routed to experts evenly, up to the problem's factor for imbalance.",
    )


def value_name(rules: Rules) -> str:
    return "time of an iteration"


def view(problem: TrainingProblem, plan: Configuration, rules: Rules) -> PlanView:
    """A row for each pipeline stage."""
    own: ConfigurationEvaluation = rules.evaluation(problem, plan)
    timing = own.timing
    mfu = "" if timing.mfu is None else f", MFU {percent(timing.mfu)}"
    return PlanView(
        name=problem.name,
        value=f"{shortly(plan)} takes {amount(timing.seconds, problem.time_unit)} per iteration",
        headline=f"{amount(timing.seconds, problem.time_unit, 6)} per iteration, "
        f"{timing.tokens_per_second_per_gpu:,.0f} tokens per second and GPU{mfu}",
        tables=(Table("stage", tuple(_rows(problem, plan, own)), item="unit"),),
        unit=problem.time_unit,
        full_load=timing.seconds,
        sentences=(words_of(plan), memory_in_words(own), *_told(own)),
        limits=_limits(own),
        each=f"pipeline stage of {several(plan.degrees.stage_ranks, 'GPU')}",
        legend=f"load: what a rank is busy with in an iteration of {_micro_batches(own.micro_batches)}; "
        "tensor, context, expert and data are communication that nothing hides; memory: at the fullest moment",
        time_unit=problem.time_unit,
        timelines=(_timeline(problem, plan, own),),
    )


def _rows(problem: TrainingProblem, plan: Configuration, own: ConfigurationEvaluation) -> Iterator[Row]:
    loads = [_parts(rank) for rank in own.timing.ranks]
    occur = [name for name in loads[0] if any(parts[name] for parts in loads)]
    most, order = max(sum(parts.values()) for parts in loads), unit_names(problem)
    for rank, (memory, parts) in enumerate(zip(own.memory, loads, strict=True)):
        load = sum(parts.values())
        yield Row(
            name=str(rank),
            load=load,
            parts={name: parts[name] for name in occur},
            cells={"idle": percent(round(max(0.0, 1 - load / own.timing.seconds), DIGITS))},
            label=f"stage {rank}",
            memory=dict(memory.parts),
            limit=own.limit_bytes,
            slowest=load == most,
            held=held_by(plan, rank, order),
            told={"computes again": recompute_word(plan)},
        )


def _parts(rank: RankTime) -> dict[str, float]:
    """Seconds of a rank's load by part; waiting is no part."""
    return {
        "computation": sum(getattr(rank, name) for name in COMPUTATION),
        **{name: getattr(rank, name) for name in OTHERS},
    }


def unit_names(problem: TrainingProblem) -> Order:
    """Names of the units: layers have numbers, unless the model's own layers have names."""
    if problem.model.own:
        return Order({i: layer.name for i, layer in enumerate(problem.model.own)})
    names, layer = {}, 0
    for i, unit in enumerate(problem.model.units):
        names[i] = UNIT_NAMES.get(unit, f"layer {layer}")
        layer += unit not in UNIT_NAMES
    return Order(names)


def held_by(plan: Configuration, rank: int, order: Order) -> Held:
    """The units of all chunks of a pipeline rank."""
    return order.fold(unit for chunk in plan.chunks_of_ranks[rank] for unit in plan.intervals[chunk])


def _limits(own: ConfigurationEvaluation) -> str:
    """Words on what the time of an iteration is spent on, in the mean over stages."""
    ranks, seconds = own.timing.ranks, own.timing.seconds
    waiting = sum(rank.idle + rank.pipeline for rank in ranks) / len(ranks) / seconds
    parts = [_parts(rank) for rank in ranks]
    shares = {name: sum(row[name] for row in parts) / len(parts) / seconds for name in parts[0]}
    work = shares.pop("computation")
    rest = [f"{name} {percent(share)}" for name, share in shares.items() if share >= 0.005]
    told = [f"computation takes {percent(work)} of it", *rest]
    return ", ".join([*told, f"waiting {percent(waiting)}"] if waiting >= 0.0005 else told)


def _told(own: ConfigurationEvaluation) -> Iterator[str]:
    """A sentence on the largest part of the memory of each stage."""
    for rank in own.memory[:MOST_TOLD]:
        part = max(rank.parts, key=lambda name: rank.parts[name])
        yield f"stage {rank.rank}: {percent(rank.parts[part] / rank.bytes)} of its memory is for {part}"


def _timeline(problem: TrainingProblem, plan: Configuration, own: ConfigurationEvaluation) -> Timeline:
    """The timeline of as many micro-batches as show the steady state, with a lane for each pipeline stage."""
    p, m = plan.degrees.pipeline, own.micro_batches
    few = min(m, max(2 * p, (MOST_MICRO_BATCHES // p) * p))
    simulation = run(pipeline_of(plan, own.timing.chunks, own.timing.delays, few))
    return Timeline(
        f"{few} of {_micro_batches(m)}, simulated" if few < m else f"{_micro_batches(m)}, simulated",
        tuple(f"stage {rank}" for rank in range(p)),
        tuple(sorted(_bars(plan, simulation), key=lambda bar: (bar.start, bar.lane))),
        simulation.iteration,
        marks="digits: forward, letters: backward (1 and a: micro-batch 1)",
        colours=PHASE_NAMES,
        windows=WINDOWS,
    )


def _micro_batches(count: int) -> str:
    return several(count, "micro-batch")


def _bars(plan: Configuration, simulation: Simulation) -> Iterator[Bar]:
    """The bars of all passes. Where backward passes have two parts, the simulation has the second ones as forward
    passes of stages of their own, which follow the chunks."""
    chunks = len(plan.layout)
    home = {chunk: rank for rank, chunks_of_rank in enumerate(plan.chunks_of_ranks) for chunk in chunks_of_rank}
    for x, stage in enumerate(simulation.stages):
        chunk = x % chunks
        where = f" of chunk {chunk}" if plan.degrees.virtual > 1 else ""
        for task in stage.tasks:
            kept = replace(task, kind="weights") if x >= chunks else task
            bar = bar_of(f"stage {home[chunk]}", kept)
            if bar.end > bar.start:
                yield replace(bar, title=bar.title + where)
