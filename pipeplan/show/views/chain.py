"""The view of a periodic pattern: GPUs with layers, load and memory, one period, and the pipeline from the start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any

from ...instances.base.kind import Rules
from ...instances.chain.layout import Activity, resources, steady_from, unroll
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee import TERMS, GpuUse, PatternEvaluation, memory_profiles
from ...planners.search import shares
from ..words import IN_BYTES, Held, Order, amount, percent, rate, several, with_memory
from . import MOST_TOLD, PHASE_NAMES, Bar, Curve, PlanView, Row, Table, Timeline

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
# Number of periods that are shown after the pipeline has filled.
STEADY_PERIODS = 2
# The most periods that are shown in all.
MOST_PERIODS = 12
# Index of the colour of transfers.
MOVED = 3
COLOURS = (*PHASE_NAMES[:3], "transfer")
MARKS = "digits: forward, letters: backward (0 and a: batch 0), =: transfer"
# A device that idles for less than this share of a period is always busy, but for rounding.
ALWAYS = 1e-9
TERM_NAMES = {"kept": "kept activations"}

# The even plans in words.
EVEN = "equally many layers on each GPU"


def even_plans(problem: ChainProblem) -> Iterator[PatternPlan]:
    """The best pattern of equally many layers on each GPU."""
    from ...planners.chain.baselines import best_contiguous

    sizes = map(len, shares(range(problem.layers), problem.gpus))
    plan = best_contiguous(problem, tuple(accumulate(sizes, initial=0)))
    if plan is not None:
        yield plan


def facts(problem: ChainProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    speed = "transfers take no time"
    if problem.has_transfers:
        at = "given times" if problem.bandwidth is None else rate(problem.bandwidth, problem.time_unit)
        speed = f"transfers at {at}, {problem.duplex} duplex"
    return {
        "chain": f"{several(problem.layers, 'layer')}, work {amount(sum(problem.durations), problem.time_unit)}",
        "cluster": f"{several(problem.gpus, 'GPU')} {with_memory(problem.memory_bytes)}; {speed}",
        "memory": f"mode {problem.memory_mode}, weights x {problem.weight_copies:g}",
    }


# What memory counts in each mode.
MEMORY = {
    "reserved": "weights, kept activations, what the running task reads and writes, and a slot for each tensor that "
    "crosses to another GPU",
    "strict": "weights, kept activations, what the running task reads and writes, and tensors on their way",
    "inputs": "weights and kept activations",
    "weights": "only weights",
}


def assumptions(problem: ChainProblem, rules: Rules) -> tuple[str, ...]:
    return (
        "The same pattern repeats in every period; a GPU runs one task at a time, and links work beside the GPUs.",
        f"Memory counts {MEMORY[problem.memory_mode]}; weights are held {problem.weight_copies:g} times.",
    )


def value_name(rules: Rules) -> str:
    return "period per batch"


def view(problem: ChainProblem, plan: PatternPlan, rules: Rules) -> PlanView:
    """Allocation, load and memory of each GPU, the timelines, and the overruns of transfer buffers."""
    evaluation: PatternEvaluation = rules.evaluation(problem, plan)
    batches, unit = evaluation.batches_per_period, problem.time_unit
    period = amount(evaluation.period, unit, 6) + (f" for {several(batches, 'batch')}" if batches > 1 else "")
    return PlanView(
        value=f"{amount(evaluation.period_per_batch, unit)} per batch",
        headline=f"period {period}, batches under way: {evaluation.in_flight}",
        tables=(Table("GPU", tuple(_row(problem, use, evaluation) for use in evaluation.devices)),),
        full_load=evaluation.period,
        limits=_limits(problem, evaluation),
        sentences=(
            f"period {amount(evaluation.period, unit)}, batches per period: {batches}, "
            f"under way: {evaluation.in_flight}; bottleneck: {evaluation.bottleneck}",
            *(_peak(use, problem) for use in evaluation.devices[:MOST_TOLD]),
            *(
                f"buffer of {overrun.name} on gpu{overrun.gpu} ({overrun.side}) is needed "
                f"{amount(overrun.excess, unit)} longer than until the next batch"
                for overrun in evaluation.overruns
            ),
        ),
        timelines=(_one_period(problem, plan), _unrolled(problem, plan)),
        memory=_memory(problem, plan, evaluation.period),
    )


def _held(problem: ChainProblem, use: GpuUse) -> Held:
    return Order({layer: str(layer) for layer in range(1, problem.layers + 1)}).fold(use.layers)


def _limits(problem: ChainProblem, evaluation: PatternEvaluation) -> str:
    """The GPU or link that is always busy; where none is, words on waiting for data or memory."""
    name = evaluation.bottleneck
    for use in evaluation.devices:
        name += f" ({_held(problem, use).named('layer')})" if f"gpu{use.gpu}" == evaluation.bottleneck else ""
    times = [*(use.busy for use in evaluation.devices), *(use.busy for use in evaluation.links)]
    busy = max(times) / evaluation.period
    if busy >= 1 - ALWAYS:
        return f"{name} limits the pipeline and is always busy"
    return f"waiting for data or memory limits the pipeline: {name} is busy for only {percent(busy)} of the time"


def _row(problem: ChainProblem, use: GpuUse, evaluation: PatternEvaluation) -> Row:
    name = f"gpu{use.gpu}"
    return Row(
        name=name,
        load=use.busy,
        parts={"busy": use.busy},
        cells={"held": str(use.in_flight)},
        times={"idle": use.idle},
        memory=_terms(use.terms),
        limit=problem.memory_bytes,
        slowest=name == evaluation.bottleneck,
        held=_held(problem, use),
        told={"at its peak": use.peak_task or ""},
    )


def _terms(terms: Any) -> dict[str, float]:
    return {TERM_NAMES.get(term, term): float(getattr(terms, term)) for term in TERMS}


def _peak(use: GpuUse, problem: ChainProblem) -> str:
    """A sentence on what the peak of a GPU consists of, and when it is."""
    memory = IN_BYTES.like([problem.memory_bytes])
    parts = ", ".join(f"{name} {memory.text(held)}" for name, held in _terms(use.terms).items() if held)
    when = f"during {use.peak_task}" if use.peak_task else f"at {amount(use.peak_time, problem.time_unit)}"
    return f"gpu{use.gpu} holds the most {when}: {parts or 'nothing'}"


def _one_period(problem: ChainProblem, plan: PatternPlan) -> Timeline:
    """One period, labelled by task and batch; batches are counted from the earliest one under way."""
    period = float(plan.period)
    unrolled = unroll(problem, plan, 0, period, first_batch=None)
    earliest = min(activity.batch for activity in unrolled)
    labels = []
    for activity in (replace(activity, batch=activity.batch - earliest) for activity in unrolled):
        batch = str(activity.batch)
        labels.append((activity, batch if _moves(activity) else activity.name + batch.translate(SUBSCRIPTS)))
    title = "one period, by task and number of the batch"
    marks = f"one period; bars show task and batch, and short ones {MARKS}"
    return Timeline(
        title, *_lanes_and_bars(problem, plan, labels, 0.0, period), period, colours=COLOURS, marks=marks
    )


def _unrolled(problem: ChainProblem, plan: PatternPlan) -> Timeline:
    """The pipeline from the first batch until everything repeats, labelled by batch."""
    period, steady = float(plan.period), steady_from(problem, plan)
    end = min(steady + STEADY_PERIODS * period, MOST_PERIODS * period)
    begin = min(0.0, float(min(min(row) for row in plan.starts)))
    labels = [(activity, str(activity.batch)) for activity in unroll(problem, plan, begin, end)]
    return Timeline(
        "starting with the first batch, by batch number",
        *_lanes_and_bars(problem, plan, labels, begin, end),
        end,
        begin,
        colours=COLOURS,
        marks=f"starting with the first batch; {MARKS}",
        period=period,
        steady=steady if begin < steady < end else None,
    )


def _lanes_and_bars(
    problem: ChainProblem, plan: PatternPlan, labels: Iterable[tuple[Activity, str]], begin: float, end: float
) -> tuple[tuple[str, ...], tuple[Bar, ...]]:
    """All GPUs and the links on which anything takes time, and the bars of the activities with their labels."""
    bars = []
    for activity, label in labels:
        mark, colour = "=", MOVED
        if not _moves(activity):
            colour = int(activity.backward)
            mark = chr(ord("a") + activity.batch % 26) if activity.backward else str(activity.batch % 10)
        title = f"{activity.name} of batch {activity.batch}"
        span = max(activity.start, begin), min(activity.end, end)
        bars.append(Bar(activity.resource, *span, mark, label, title, colour, str(activity.batch)))
    busy = {bar.lane for bar in bars}
    lanes = (lane for lane in resources(problem, plan) if lane in busy or lane.startswith("gpu"))
    return tuple(lanes), tuple(bars)


def _moves(activity: Activity) -> bool:
    return activity.resource.startswith("link")


def _memory(problem: ChainProblem, plan: PatternPlan, period: float) -> tuple[Curve, ...]:
    """Memory of each GPU over one period; terms that do not occur are left out."""
    profiles = memory_profiles(problem, plan)
    instants = [instant for profile in profiles for instant in profile.instants]
    used = [term for term in TERMS if any(getattr(instant.terms, term) for instant in instants)] or TERMS[:1]
    return tuple(
        Curve(
            f"gpu{profile.gpu}",
            tuple(instant.time for instant in profile.instants),
            {TERM_NAMES.get(term, term): tuple(getattr(i.terms, term) for i in profile.instants) for term in used},
            period,
            problem.memory_bytes,
        )
        for profile in profiles
    )
