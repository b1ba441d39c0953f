"""Trainings as they are shown: the view of a configuration (time and memory of each pipeline stage, and the timeline),
and what `plan configure` answers, in sentences, in a terminal and on pages.

The sentences are written once, for a terminal and for a page; a number in them comes from the referee's evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, groupby
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

from ...instances.base.kind import Rules
from ...instances.base.quantities import GIB
from ...instances.base.result import met
from ...instances.physics.efficiencies import USUAL_ERROR
from ...instances.physics.optimizers import USUAL_OPTIMIZER
from ...instances.timeline.engine import run
from ...instances.training.frameworks import one_name_each
from ...instances.training.iteration import RankTime, model_operations, pipeline_of
from ...instances.training.plan import Configuration, layout_word
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import ConfigurationEvaluation, RankMemory, evaluate_configuration
from ...instances.training.scope import both_sides, usual_errors
from ...instances.training.unit_costs import count_of
from ...instances.training.words import recompute_word, words_of
from ...studies.configure.answer import BUBBLE, IMBALANCE, NEAR, PARTS, by_part
from ..console import draw_rows, out, put, room
from ..lanes import Amount, amount_lanes, memory_lanes
from ..page import Node, lanes_chart, listed, paragraph, section, table, tag
from ..words import Order, amount, is_noise, percent, rate, several, with_memory
from . import (
    MOST_MICRO_BATCHES,
    MOST_TOLD,
    PHASE_NAMES,
    WINDOWS,
    Bar,
    PlanView,
    Row,
    Table,
    Timeline,
    bar_of,
    in_order,
)
from .ranks import draw_ranks, gib

if TYPE_CHECKING:
    from ...planners.training.cover import Condition
    from ...planners.training.search import Report
    from ...studies.configure.answer import Answer, Preferred
    from ...studies.configure.judge import Judged


# Fields of `RankTime` that are work of the model itself.
COMPUTATION = ("products", "attention", "memory", "measured")
# Fields that are parts of a load by themselves.
OTHERS = ("recomputation", "tensor", "context", "expert", "host", "data", "optimizer")
# Decimal digits of a share that idles; what is smaller is rounding.
DIGITS = 6
# The units that are no layers.
NO_LAYERS = ("patches", "embedding", "head", "prediction")


def facts(problem: TrainingProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    return {
        "model": f"{problem.model.name}, {several(len(problem.model.units), 'unit')}",
        "cluster": "; ".join(map(_cluster, problem.pools)),
        "batch": f"{several(problem.batch, 'sequence')} of {several(problem.sequence, 'token')} in {problem.precision}",
        "framework": problem.framework
        + f" with {problem.optimizer}" * (problem.optimizer != USUAL_OPTIMIZER)
        + f", adapters of rank {problem.adapter_rank}" * bool(problem.adapter_rank)
        + f", a frozen {problem.frozen}" * bool(problem.frozen),
    }


def _cluster(problem: TrainingProblem) -> str:
    links = ", ".join(f"{level.count} at {rate(level.bandwidth, problem.time_unit)}" for level in problem.levels)
    return f"{problem.devices} {problem.gpu.name} {with_memory(problem.memory_bytes)}, links of {links}"


def assumptions(problem: TrainingProblem, rules: Rules) -> tuple[str, ...]:
    return (
        "Times follow from shapes and from the problem's efficiencies, and all ranks of a stage are the same.",
        "Tokens are routed to experts evenly, except for the problem's imbalance factor.",
    )


def value_name(rules: Rules) -> str:
    return "time per iteration"


def view(problem: TrainingProblem, plan: Configuration, rules: Rules) -> PlanView:
    """A row for each pipeline stage."""
    own: ConfigurationEvaluation = rules.evaluation(problem, plan)
    timing = own.timing
    return PlanView(
        value=f"{shortly(plan)} takes {amount(timing.seconds, problem.time_unit)} per iteration",
        headline=f"{amount(timing.seconds, problem.time_unit, 6)} per iteration, {_rates(own)}",
        tables=(Table("stage", tuple(_rows(problem, plan, own)), item="unit"),),
        full_load=timing.seconds,
        sentences=(words_of(plan), memory_in_words(own), *_told(own)),
        limits=_limits(own),
        each=f"pipeline stage of {several(plan.degrees.stage_ranks, 'GPU')}",
        legend=f"load: busy time of a rank in an iteration of {several(own.micro_batches, 'micro-batch')}; "
        "tensor, context, expert and data are communication that is not hidden; memory: the peak",
        timelines=(_timeline(plan, own),),
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
            limit=memory.limit,
            slowest=load == most,
            held=order.fold(unit for chunk in plan.chunks_of_ranks[rank] for unit in plan.intervals[chunk]),
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
    numbers = count()
    units = enumerate(problem.model.units)
    seeing = {i: f"encoder layer {i - 1}" for i, unit in enumerate(problem.model.units) if unit == "encoder"}
    texts = {i: unit if unit in NO_LAYERS else f"layer {next(numbers)}" for i, unit in units if i not in seeing}
    return Order(dict(sorted({**seeing, **texts}.items())))


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


def _timeline(plan: Configuration, own: ConfigurationEvaluation) -> Timeline:
    """The timeline of as many micro-batches as show the steady state, with a lane for each pipeline stage."""
    p, m = plan.degrees.pipeline, own.micro_batches
    few = min(m, max(2 * p, (MOST_MICRO_BATCHES // p) * p))
    whole = several(m, "micro-batch")
    bars, iteration = _bars(plan, own, few)
    return Timeline(
        f"{few} of {whole}, simulated" if few < m else f"{whole}, simulated",
        tuple(f"stage {rank}" for rank in range(p)),
        in_order(bars),
        iteration,
        marks="digits: forward, letters: backward (1 and a: micro-batch 1)",
        colours=PHASE_NAMES,
        windows=WINDOWS,
    )


def _bars(plan: Configuration, own: ConfigurationEvaluation, micro_batches: int) -> tuple[list[Bar], float]:
    """The bars of all passes of so many micro-batches, and when the last ends. Where backward passes have two parts,
    the simulation has the second ones as forward passes of stages of their own, which follow the chunks."""
    simulation = run(pipeline_of(plan, own.timing.chunks, own.timing.delays, micro_batches))
    chunks, bars = len(plan.layout), []
    home = {chunk: rank for rank, chunks_of_rank in enumerate(plan.chunks_of_ranks) for chunk in chunks_of_rank}
    for x, stage in enumerate(simulation.stages):
        chunk = x % chunks
        where = f" of chunk {chunk}" if plan.degrees.virtual > 1 else ""
        for task in stage.tasks:
            bar = bar_of(f"stage {home[chunk]}", replace(task, kind="weights") if x >= chunks else task)
            bars.append(replace(bar, title=bar.title + where))
    return bars, simulation.iteration


# ---- in sentences ---------------------------------------------------------------------------------------------


# Parts of a loss below this share of the whole time are summed up in one.
WORTH_TELLING = 0.002
FITS = {"yes": "fits", "maybe": "may fit", "no": "does not fit"}
TAKES = {"yes": "It takes", "maybe": "If it fits, it takes", "no": "If it fitted, it would take"}
PART_WORDS = {"transient": "temporary memory", "reserve": "the reserve", "optimizer": "optimizer state"}
# Letters of the degrees for narrow places; degrees that are 1 everywhere are left out.
LETTERS = {"t": "tensor", "c": "context", "p": "pipeline", "v": "virtual", "e": "expert", "et": "expert_tensor"}
LETTERS["d"] = "data"
LEGEND = ", ".join(f"{letter} {name}" for letter, name in LETTERS.items()).replace("_", "-") + ", b micro-batch"


def told(judged: Judged) -> Iterator[str]:
    """Sentences on a judged configuration: the answer first, then every key, and what would make it fit."""
    if judged.another_job:
        yield f"{judged.asked} is for another job than the one asked for: {' '.join(judged.another_job)}"
    yield f"{judged.asked} {FITS[judged.fits]}: {memory_in_words(judged.evaluation)}."
    yield f"{TAKES[judged.fits]} {time_in_words(judged.evaluation)}."
    yield in_full(judged.plan)
    if judged.fits != "yes":
        yield change_in_words(judged)
    yield from (f"note: {note.rstrip('.')}." for note in judged.notes if note not in judged.another_job)


def memory_in_words(own: ConfigurationEvaluation) -> str:
    """A phrase on the memory of the fullest rank and its largest part."""
    full = own.fullest
    part = max(full.parts, key=lambda name: full.parts[name])
    share = percent(full.parts[part] / full.bytes)
    held = gib(full.bytes) + ("" if own.limit_bytes is None else f" (a GPU has {gib(own.limit_bytes)})")
    return f"its fullest rank (stage {full.rank}) needs {held}, {share} of it for {PART_WORDS.get(part, part)}"


def time_in_words(own: ConfigurationEvaluation) -> str:
    """A phrase on the time of an iteration and its rates."""
    return f"{amount(own.timing.seconds, 's', 4)} per iteration ({_rates(own)})"


def in_full(plan: Configuration) -> str:
    """The words with which `--judge` gives the same configuration; what is 1 by default is left out."""
    words = " ".join(word for word in words_of(plan).split() if not word.endswith("=1") or word.startswith("zero"))
    return f"in full, for --judge: {words} (layout: layers per chunk, with embedding and head)"


def _rates(own: ConfigurationEvaluation) -> str:
    """What passes through, and the share of the peak where that is known."""
    timing = own.timing
    rate = f"{timing.tokens_per_second_per_gpu:,.0f} tokens/s per GPU"
    if timing.mfu is None:
        return rate
    return f"{rate}, {timing.mfu * own.problem.peak / 1e12:,.0f} TFLOP/s, MFU {percent(timing.mfu)}"


def change_in_words(judged: Judged) -> str:
    """How much memory the configuration lacks, and the least change that makes it fit."""
    full, limit, change = judged.evaluation.fullest, judged.evaluation.limit_bytes, judged.change
    assert limit is not None, "without a limit everything fits"
    rank, over = full.rank * judged.plan.degrees.stage_ranks, full.bytes - limit
    missed = f"Rank {rank} lacks {gib(over)}"
    if over <= 0:
        error = percent(both_sides(judged.memory_error).more)
        missed = f"Rank {rank} leaves {gib(-over)} free, less than the assumed error of {error}"
    if change is None:
        return f"{missed}; no single change (recomputation, sharding, layout or degrees) makes it fit."
    more = change.seconds / judged.evaluation.timing.seconds - 1
    longer = "just as long" if is_noise(more) else f"{percent(abs(more))} {'longer' if more > 0 else 'less'}"
    return (
        f"{missed}. With {change.words} it {FITS[change.fits]}: its fullest rank then needs {gib(change.bytes)}, and "
        f"an iteration takes {amount(change.seconds, 's', 4)} ({longer})."
    )


# ---- what was found --------------------------------------------------------------------------------------


def best_in_words(answer: Answer) -> Iterator[str]:
    """The answer first: the best configuration, its time and its fullest rank; or what is missing."""
    best, report = answer.best, answer.report
    assert report is not None, "asked of a search"
    if best is None:
        yield from _nothing(answer, report)
        return
    cut = "" if report.finished else "The search was cut short, and this is the best so far. "
    yield f"{cut}{shortly(best.plan)} takes {time_in_words(best)}."
    yield f"I{memory_in_words(best)[1:]}."
    yield in_full(best.plan)
    if answer.preferred is not None and answer.preferred.near > 1:
        yield _preferred_in_words(answer.preferred, best)
    for gpus, own in answer.alone.items():
        short = "" if own.finished else " (the search was cut short, so a better configuration may exist)"
        if own.seconds is None:
            yield f"On {gpus} alone, no configuration that fits was found{short}."
        else:
            more = own.seconds / best.timing.seconds - 1
            longer = f"{percent(abs(more))} {'longer' if more > 0 else 'less'}"
            yield f"On {gpus} alone, an iteration takes {amount(own.seconds, 's', 4)}, {longer}{short}."
    claim = "is faster"
    if not met(best.timing.seconds, report.bound):
        claim = f"takes less than {amount(report.bound, 's', 4)} ({percent(report.gap or 0.0)} less)"
    yield f"Proven: no configuration in scope that is certain to fit {claim}."


def _preferred_in_words(own: Preferred, best: ConfigurationEvaluation) -> str:
    what = "the simplest" if own.prefer == "simplest" else "the one that needs the least memory"
    if own.fastest.plan == best.plan:
        return f"It is the fastest configuration, and {what} of the {own.near} at most {percent(NEAR)} slower."
    more = percent(best.timing.seconds / own.fastest.seconds - 1)
    return (
        f"It takes {more} longer than the fastest, {shortly(own.fastest.plan)}, and is {what} of the {own.near} "
        f"configurations at most {percent(NEAR)} slower."
    )


def _nothing(answer: Answer, report: Report) -> Iterator[str]:
    """Sentences for a search without a best configuration: why there is none, and the nearest miss."""
    nearest, considered = answer.nearest, several(report.considered, "choice", ",")
    if answer.why_empty is not None:
        yield answer.why_empty
    elif not report.finished:
        yield "The search ended before it found a configuration that fits."
    elif not report.nothing_fits:
        yield f"No configuration that fits was found, but {report.fit:,} of {considered} may still contain one."
    else:
        yield f"No configuration in scope is certain to fit (considered: {considered})."
    if nearest is None or nearest.limit_bytes is None:
        return
    over, holds = nearest.fullest.bytes - nearest.limit_bytes, memory_in_words(nearest)
    if nearest.fit(answer.asked.memory_error) == "yes":
        yield f"{shortly(nearest.plan)} fits, but the search did not consider it: {holds}."
    else:
        missing = f"lacks {gib(over)}" if over > 0 else f"leaves {gib(-over)} free, less than the assumed error"
        yield f"{shortly(nearest.plan)} comes nearest, but {missing}: {holds}."
    yield in_full(nearest.plan)
    if (more := answer.on_more_nodes) is not None:
        d, gpu = more.degrees, answer.problem.gpu.name
        yield f"{d.stage_ranks * d.pipeline} {gpu} are enough, with {shortly(more)}."


def shortly(plan: Configuration) -> str:
    """A configuration in short: degrees above 1, data parallelism, micro-batch, ZeRO stage, and any recomputation."""
    degrees = plan.degrees
    named = ((name.replace("_", "-"), getattr(degrees, name)) for name in LETTERS.values() if name != "data")
    told = [f"{name}={value}" for name, value in named if value > 1]
    told += [f"data={degrees.data}", f"micro-batch={plan.micro_batch}", f"zero={plan.zero}"]
    if recompute_word(plan) != "none":
        told.append(f"recompute={recompute_word(plan)}")
    return " ".join(told)


def list_in_words(answer: Answer) -> Iterator[str]:
    """Sentences on what the shortlist promises."""
    asked, count, report = answer.asked, len(answer.listed), answer.report
    if report is None or not report.finished:
        yield f"The search was cut short: the list has the {count} found so far, and the fastest may be missing."
        return
    left = len(report.unlisted)  # choices of which the search knows too little
    margin = both_sides(asked.memory_error)
    if answer.best is None:
        less = f"they fit if memory is up to {percent(margin.less)} below its prediction"
        yield f"None of the {count} on the list is certain to fit; {less}."
    else:
        listed = f"among the {count} on the list" if count > 1 else "the one on the list"
        others = "is the undecided choice" if left == 1 else f"among the {left:,} undecided choices"
        among = f"{listed} or {others}" if left else listed
        memory = f"{percent(margin.more)} upwards or {percent(margin.less)} downwards"
        memory = percent(margin.more) if margin.more == margin.less else memory
        yield (
            f"The fastest configuration is {among}, if no predicted time is off by more than "
            f"{percent(asked.error)} and no memory by more than {memory}."
        )
        slower = f"take over {asked.ratio:.4g} times as long as the best"
        yield f"All other choices of degrees, micro-batch and ZeRO stage cannot fit or {slower}."
    if left:
        yield "undecided: no layout fast enough for the list was found, but no bound rules one out"
    yield _one_name(answer)


def model_in_words(problem: TrainingProblem) -> str:
    """The size of the model without multi-token prediction, as publishers state it, and what MFU counts."""
    operations, model, tokens = model_operations(problem), problem.model, problem.batch * problem.sequence
    if operations is None:
        return ""
    parameters = sum(count_of(model, unit) * n for unit, n in model.counted.items() if unit != "prediction")
    of_both = "" if problem.second is None else ", the mean of all GPUs"
    trained = "" if problem.adapter_rank is None else f", trains only adapters of rank {problem.adapter_rank}"
    if model.encoder is not None:
        seen = sum(count_of(model, unit) * model.counted[unit] for unit in ("patches", "encoder"))
        trained = f" ({seen / 1e9:,.3g} billion in its {'frozen ' * bool(problem.frozen)}vision encoder){trained}"
    return (
        f"{model.name} has {parameters / 1e9:,.3g} billion parameters{trained} and needs "
        f"{operations / tokens / 1e9:,.3g} GFLOP per token. MFU counts matrix products and attention, without "
        f"recomputation, relative to {problem.peak / 1e12:,.4g} dense TFLOP/s in {problem.precision}{of_both}."
    )


def errors_in_words(problem: TrainingProblem) -> str:
    """How far predictions of such problems were off on published runs, and where that stands."""
    if problem.second is not None:
        return " ".join(map(errors_in_words, problem.pools))
    own, bits = usual_errors(problem).measured, "fp8" if problem.precision == "fp8" else "16-bit"
    whose = f"{problem.framework}, {bits}, {problem.gpu.name} and similar GPUs"
    if own is None:
        return f"How accurate? No published runs are known ({whose}), so errors are guesses ({ACCURACY})."
    peaks = (
        "" if own.memory is None else f", and memory at most {percent(own.memory)} above it ({own.peaks:,} runs)"
    )
    dense, more = (" without experts", "; expect more here") if problem.model.experts is not None else ("", "")
    runs = f"{several(own.runs, 'published run', ',')}{dense}"
    times = f"the measured time was within {percent(own.time)} of the prediction{more}"
    return f"How accurate? In 90 % of the {runs} ({whose}), {times}{peaks} ({ACCURACY})."


def _one_name(answer: Answer) -> str:
    """That ZeRO stages which are the same are listed once, where the list has such an entry."""
    stages = answer.problem.states
    for own in answer.listed:
        if len(one_name_each(answer.problem, own.plan.degrees, stages)) < len(stages):
            return (
                f"With data={own.plan.degrees.data}, all ZeRO stages are the same, because data-parallel ranks have "
                f"nothing to divide. They are listed once, as zero={own.plan.zero}."
            )
    return ""


def measured_in_words(answer: Answer) -> Iterator[str]:
    """Sentences on the given runs, and on the error that the shortlist allows for."""
    if answer.measured is None:
        return
    yield from answer.measured.sentences()
    eps = answer.measured.eps
    if eps is not None and eps < answer.asked.error == USUAL_ERROR:
        yield (
            f"The list allows for an error of {percent(USUAL_ERROR)} instead of {percent(eps)}, because these runs do "
            "not show that other configurations are predicted equally well; use --error to change this."
        )
    usual, fastest = usual_errors(answer.problem).time, answer.fastest
    if fastest is not None and eps is not None and eps == answer.asked.error > usual:
        most = (1 + usual) / (1 - usual) * fastest.seconds
        short = sum(own.seconds <= most for own in answer.listed)
        yield (
            f"By these runs the list allows for an error of {percent(eps)} instead of the usual {percent(usual)}, "
            f"which lengthens it from {short} to {several(len(answer.listed), 'configuration')}."
        )


def counted_in_words(answer: Answer) -> str:
    """A phrase on how many choices there were, how many cannot fit, and which bounds discarded the others."""
    report = answer.report
    assert report is not None, "asked of a search"
    by = ", ".join(f"{count:,} by the {name} bound" for name, count in report.discarded.items() if count)
    if not report.considered:
        return "0 choices in scope."
    parts = [f"{report.unfit:,} cannot fit"]
    if by:
        parts.append(f"{report.discarded.total():,} are too slow ({by.replace('ramp', 'fill-and-drain')})")
    if report.unlisted and report.finished:
        parts.append(f"{len(report.unlisted):,} undecided")
    if not report.finished:
        parts.append(f"{report.undecided:,} not yet decided")
    return f"{several(report.considered, 'choice', ',')} in scope: {', '.join(parts)}."


def lost_in_words(answer: Answer, judged: Judged) -> str:
    """Why a judged configuration is not the best: what each part costs against the best, the largest first."""
    best, lost = answer.best, answer.lost(judged)
    if best is None or lost is None:
        return ""
    seconds, least = judged.evaluation.timing.seconds, best.timing.seconds
    if judged.plan == best.plan:
        return "This is the best configuration in scope."
    slower = seconds - least
    large = {name: value for name, value in lost.items() if abs(value) >= WORTH_TELLING * least}
    rest = slower - sum(large.values())
    order = sorted(large, key=lambda name: -abs(large[name]))
    parts = [f"{name} {large[name]:+.3g} s" for name in order]
    if abs(rest) >= WORTH_TELLING * least:
        parts.append(f"the rest {rest:+.3g} s")
    word = "slower" if slower >= 0 else "faster"
    by_parts = ", ".join(parts) or "no part differs much"
    return f"It is {percent(abs(slower) / least)} {word} than the best ({slower:+.4g} s per iteration): {by_parts}."


# ---- terminal -------------------------------------------------------------------------------------------------


# The page on how far predictions are off.
ACCURACY = "docs/accuracy.md"
# What a family needs that no efficiency alone makes the fastest.
SEVERAL = "several differ"
# The most families of which a sentence says when they are faster.
MOST_CONDITIONS = 3
# The most characters of a layout in a table, where room is limited.
LONGEST_LAYOUT = 18


def draw_answer(answer: Answer, every: bool = False) -> None:
    """Print the best configuration, the shortlist by families or with `every` entry, how the others were discarded, and
    what was judged."""
    if answer.report is not None:
        _put_answer(*best_in_words(answer))
        if answer.best is not None:
            draw_ranks(answer.best)
        _draw_list(answer, every)
        put(counted_in_words(answer))
    put(*measured_in_words(answer))
    for judged in answer.judged:
        _put_answer(*told(judged))
        draw_ranks(judged.evaluation)
        put(lost_in_words(answer, judged))
    put(model_in_words(answer.problem), errors_in_words(answer.problem))


def _put_answer(first: str, *more: str) -> None:
    put(first, style="bold")
    put(*more)


def _draw_list(answer: Answer, every: bool) -> None:
    """Print the shortlist as a table, and sentences on what it promises."""
    if not answer.listed:
        return
    numbers = {
        own.plan: str(number) for number, own in enumerate(answer.listed, 1)
    }  # as `plan export --row` counts
    rows = [({}, own) for own in answer.shortlist] if every else list(_families(answer))
    rows.sort(key=lambda row: row[1].fit(answer.asked.memory_error) != "yes")  # those that fit for sure come first
    shown = [own for _, own in rows]
    entries = [(own.plan, own.timing.seconds, own.fullest) for own in shown]
    letters = [f"{letter} = {name}" for letter, name in _degrees_of(plan for plan, _, _ in entries).items()]
    what = "shortlist" if every else "shortlist, one row per family"
    put(f"{what} ({', '.join(letters).replace('_', '-')}, b = micro-batch)", style="bold")
    cells = [
        {"row": numbers.get(own.plan, ""), **line, **beside, "layout": _cut(layout_word(own.plan.layout))}
        for line, (beside, own) in zip(list_cells(answer, entries), rows, strict=True)
    ]
    best = [i for i, own in enumerate(shown) if answer.best is not None and own.plan == answer.best.plan]
    draw_rows(list(cells[0]), [list(line.values()) for line in cells], "recompute,fastest if,layout", best)
    left = len(answer.listed) - len(shown)
    if every:
        put(f"... and {left} more; --json lists all" if left else "")
    else:
        put(*_families_in_words(answer, rows))
    put(*list_in_words(answer))


def list_cells(
    answer: Answer, entries: Sequence[tuple[Configuration, float, RankMemory]]
) -> Iterator[dict[str, str]]:
    """Cells by column of configurations of the list, each given with its seconds and its fullest rank."""
    plans, fastest = [plan for plan, _, _ in entries], min(seconds for _, seconds, _ in entries)
    least = fastest if answer.best is None else answer.best.timing.seconds
    degrees = _degrees_of(plans)
    for plan, seconds, full in entries:
        more = seconds / least - 1  # negative for what is faster and only may fit, or is less simple
        yield {
            "s": f"{seconds:.4g}",
            "slower": "" if is_noise(more) else percent(more),
            "GiB": f"{full.bytes / GIB:.1f}",
            "fits (GiB)": _fits(answer, full),
            **{letter: str(getattr(plan.degrees, name)) for letter, name in degrees.items()},
            **{"b": str(plan.micro_batch), "zero": str(plan.zero)},
            "recompute": recompute_word(plan),
            **({} if (problem := answer.problem).second is None else {"first": _first_sort(problem, plan)}),
        }


def _first_sort(problem: TrainingProblem, plan: Configuration) -> str:
    """The GPUs of the first stages, among two sorts."""
    return problem.pools[plan.first_pool - 1].gpu.name


def _fits(answer: Answer, full: RankMemory) -> str:
    """Does the rank fit for sure? Else how many GiB are left, or missing, by the prediction."""
    held, limit = full.bytes, full.limit
    if limit is None or full.fit(answer.asked.memory_error) == "yes":
        return "yes"
    return f"{(limit - held) / GIB:.1f} free" if held <= limit else f"{(held - limit) / GIB:.1f} over"


def _families(answer: Answer) -> Iterator[tuple[dict[str, str], ConfigurationEvaluation]]:
    """The families that are printed, the fastest first: how many are alike, when it wins, and its best one."""
    members = {} if answer.cover is None else {own.family: own for own in answer.cover.members}
    for i in answer.printed:
        own, member = answer.families[i], members.get(i)
        wins = "" if member is None else _wins(member.wins) if member.wins else SEVERAL
        if answer.best is not None and own.best.plan == answer.best.plan:
            wins = "as assumed"
        elif wins and answer.report is not None and answer.report.best is not None and not own.best.sure:
            wins = "it fits" if own.best.seconds < answer.report.best.seconds else wins
        beside = {"similar": str(own.alike or ""), "fastest if": wins}
        yield beside, evaluate_configuration(answer.problem, own.best.plan)


def _wins(wins: Condition) -> str:
    """One efficiency beyond which a family is the fastest."""
    return f"{wins.name} {'<' if wins.below else '>'} {wins.value:.3g}"


def _families_in_words(answer: Answer, rows: Sequence[tuple[dict[str, str], Any]]) -> Iterator[str]:
    """What to run if the best does not fit, what decides between the rows, and what is proven of them."""
    best, cover, entries = answer.best, answer.cover, [own["fastest if"] for own, _ in rows if own["fastest if"]]
    yield "row: number on the whole list, for plan export --row"
    if any(beside["similar"] for beside, _ in rows):
        yield "similar: how many others on the list differ only in layout or number of chunks"
    if (left := len(answer.families) - len(rows)) > 0:
        yield f"... and {several(left, 'more family')}; --all lists every configuration"
    if best is not None and (own := answer.leaner(best.plan)) is not None:
        less, longer = 1 - answer.fullest(own.plan).full / best.fullest.full, own.seconds / best.timing.seconds - 1
        yield (
            f"If the best does not fit in practice, try {shortly(own.plan)}: it needs {percent(less)} less memory and "
            f"takes {percent(abs(longer))} {'longer' if longer > 0 else 'less time'}."
        )
    if cover is None or cover.families == 1:
        return
    yield "fastest if: efficiency of the cluster at which the row is the fastest"
    if SEVERAL in entries:
        yield f"{SEVERAL}: no single efficiency is enough"
    yield from _conditions(answer)
    yield (
        f"Whatever the efficiencies are, the best of the {several(len(entries), 'row')} with such an entry takes at "
        f"most {percent(cover.proven)} longer than the best of all {cover.families} families (proven for the model), "
        f"and at most {percent(cover.delta)} longer in the {cover.points} cases tried."
    )
    rest, count = cover.others, several(cover.others.choices, "choice", ",")
    proven = "all of them" if not rest.open else f"all but {rest.open:,} of them"
    yield f"That row takes at most {percent(rest.within)} longer than any of {count} in scope (proven for {proven})."


def _conditions(answer: Answer) -> Iterator[str]:
    """What would have to be true for the first few other families of the cover to be faster than the best."""
    best, members = answer.best, () if answer.cover is None else answer.cover.members
    rows = {own.plan: row for row, own in enumerate(answer.listed, 1)}
    others = [(own.wins, answer.families[own.family].best.plan) for own in members]
    told = [(wins, plan) for wins, plan in others if wins is not None and best is not None and plan != best.plan]
    yield from (
        f"Row {rows[plan]} is faster than the best only if {wins.words}." for wins, plan in told[:MOST_CONDITIONS]
    )


def _degrees_of(plans: Iterable[Configuration]) -> dict[str, str]:
    """The degrees that divide anything in one of these configurations, and data parallelism, by their letters."""
    return {
        letter: name
        for letter, name in LETTERS.items()
        if name == "data" or any(getattr(plan.degrees, name) > 1 for plan in plans)
    }


def _cut(layout: str) -> str:
    """The layout, cut off where room is limited."""
    console = out()
    if len(layout) <= LONGEST_LAYOUT or room(console) > console.width:
        return layout
    return layout[: LONGEST_LAYOUT - 3] + "..."


# ---- pages ----------------------------------------------------------------------------------------------------


# The most rows of the shortlist, judged configurations, bars of configurations of the list, and stages of a
# judged one.
MOST_SHOWN, MOST_DETAILED, MOST_BARS, MOST_STAGES = 100, 20, 6, 32
ALIKE = "Memory of each rank by part, against the limit of a GPU; all ranks of a stage are the same:"
TIMES = (
    "Seconds per iteration, averaged over all stages, as recomputed by the referee. Computation is the model's own "
    "work; tensor, context, expert and data are communication that is not hidden; even equal stages have the bubble."
)
SORTS = "Click a heading to sort the table by its column; click again to reverse the order."
# A relative difference of a stored time from the referee's that is rounding alone.
ROUNDING = 1e-6
# Parts of a time that are drawn as one, or under another name; the others have their own.
DRAWN: Mapping[str, str] = {
    **dict.fromkeys(("products", "measured", "attention", "memory"), "computation"),
    "pipeline": "sending",
}


def choice_sections(answer: Answer) -> list[Element]:
    """Why the judged ones are not the best, the shortlist, and the time by part of the first ones and of the judged."""
    parts = []
    if answer.judged:
        judged = (_judged(answer, own) for own in answer.judged[:MOST_DETAILED])
        parts.append(section("Judged", *judged, _left(len(answer.judged) - MOST_DETAILED)))
    if answer.best is not None or answer.judged:
        letters = paragraph(f"Letters beside the bars: {LEGEND}.", "note")
        amounts = [Amount(name, drawn_parts(own)) for name, own in _compared(answer)]
        bars = lanes_chart(amount_lanes(amounts, "Time per iteration by part", "time", "s"))
        parts.append(section("Time by part", paragraph(TIMES), letters, bars))
    return parts + ([section("Shortlist", *_shortlist(answer))] if answer.listed else [])


def _left(count: int) -> Node:
    return paragraph(f"... and {count:,} more, listed in the data below.", "note") if count > 0 else None


# ---- the shortlist ---------------------------------------------------------------------------------------


def _shortlist(answer: Answer) -> Iterator[Node]:
    yield paragraph(" ".join(list_in_words(answer)))
    yield paragraph(errors_in_words(answer.problem))
    yield paragraph(f"Counted by the search: {counted_in_words(answer)}", "note")
    differences = [
        f"row {row}: {claimed.seconds!r} s, but the referee computes {own.timing.seconds!r} s"
        for row, (claimed, own) in enumerate(zip(answer.listed, answer.shortlist, strict=False), 1)
        if not math.isclose(claimed.seconds, own.timing.seconds, rel_tol=ROUNDING)
    ]
    if differences:
        yield paragraph("The file claims different times:", "verdict no")
        yield listed(differences)
    yield paragraph(SORTS, "controls note")
    yield tag("div", {"class": "dense many"}, _list_table(answer))
    yield _left(len(answer.listed) - MOST_SHOWN)


def _list_table(answer: Answer) -> Element:
    """The shortlist, the fastest first."""
    shown, first = answer.listed[:MOST_SHOWN], answer.shortlist
    seconds = [own.timing.seconds for own in first] + [own.seconds for own in shown[len(first) :]]
    fullest = (answer.fullest(own.plan) for own in shown)
    entries = list(zip((own.plan for own in shown), seconds, fullest, strict=True))
    rows = [
        {"row": str(row), **cells, "schedule": plan.schedule, "layout": layout_in_short(plan.layout)}
        for row, (cells, (plan, _, _)) in enumerate(zip(list_cells(answer, entries), entries, strict=True), 1)
    ]
    times = "times are the referee's"
    if len(shown) > len(first):
        times = f"times of rows 1 to {len(first)} are the referee's, the others are from the search"
    meaning = (
        f"s: seconds, {times}; slower: than the best that is certain to fit; GiB: memory of the fullest rank, "
        f"recomputed for all; {LEGEND}; layout: units of each chunk, 3×2 means three chunks of two"
    )
    return table(list(rows[0]), [list(row.values()) for row in rows], meaning)


def layout_in_short(layout: Sequence[int]) -> str:
    """The layout with equal neighbouring chunks as one: 3×2 is three chunks of two units."""
    runs = [(size, len(list(group))) for size, group in groupby(layout)]
    return ", ".join(f"{count}×{size}" if count > 1 else str(size) for size, count in runs)


# ---- time by part ----------------------------------------------------------------------------------------


def _compared(answer: Answer) -> Iterator[tuple[str, ConfigurationEvaluation]]:
    """The best configuration, the judged ones and the first of the list, each with the words beside its bar."""
    best = answer.best
    if best is not None:
        yield f"Best: {in_letters(best.plan)}", best
    for judged in answer.judged[:MOST_DETAILED]:
        yield f"Asked for: {in_letters(judged.plan)}", judged.evaluation
    for row, own in enumerate(answer.shortlist[:MOST_BARS], 1):
        if best is None or own.plan != best.plan:
            yield f"Row {row}: {in_letters(own.plan)}", own


def in_letters(plan: Configuration) -> str:
    """The degrees that divide anything, and the micro-batch."""
    degrees = [(letter, getattr(plan.degrees, name)) for letter, name in LETTERS.items()]
    told = [f"{letter}{value}" for letter, value in degrees if value > 1 or letter == "d"]
    return " ".join([*told, f"b{plan.micro_batch}"])


def drawn_parts(own: ConfigurationEvaluation) -> dict[str, float]:
    """Seconds of an iteration in few enough parts to be told apart by their colours; they add up to the iteration."""
    fields = {words: name for name, words in PARTS.items()} | {IMBALANCE: "imbalance", BUBBLE: "bubble"}
    parts: dict[str, float] = {}
    for words, seconds in by_part(own).items():
        name = DRAWN.get(fields[words], fields[words])
        parts[name] = parts.get(name, 0.0) + max(0.0, seconds)
    return {name: seconds for name, seconds in parts.items() if seconds >= ROUNDING * own.timing.seconds}


# ---- why not ---------------------------------------------------------------------------------------------


def _judged(answer: Answer, judged: Judged) -> Element:
    """One judged configuration: sentences, also on what it loses by part, then the memory by part under the limit."""
    name, framework = judged.asked, judged.problem.framework
    first, *more = told(judged)
    stages = tuple(_rows(judged.problem, judged.plan, judged.evaluation))
    memory, left = memory_lanes((Table("stage", stages[:MOST_STAGES]),)), len(stages) - MOST_STAGES
    sentences = [first.removeprefix(f"{name} "), *more, lost_in_words(answer, judged)]
    return tag(
        "div",
        None,
        tag("h3", None, name if framework == answer.problem.framework else f"{name} (by {framework})"),
        *(paragraph(sentence) for sentence in sentences if sentence),
        paragraph(ALIKE, "note"),
        None if memory is None else lanes_chart(memory),
        paragraph(f"... and {several(left, 'more stage')}.", "note") if left > 0 else None,
    )
