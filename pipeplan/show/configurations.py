"""Training configurations in sentences, in a terminal and on pages: what they take, whether they fit, and what would
make them fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from ..instances.base.quantities import GIB
from ..instances.base.result import met
from ..instances.physics.efficiencies import USUAL_ERROR
from ..instances.training.frameworks import one_name_each
from ..instances.training.scope import Margin, both_sides, fit_of
from ..instances.training.words import layout_word, recompute_word, words_of
from ..studies.configure.answer import BUBBLE, IMBALANCE, PARTS, by_part
from ..studies.configure.judge import memory_of_few
from .console import MAX_DEVICES_DRAWN, columns, draw_table, new_table, out, put, room, styled
from .lanes import Amount, amount_lanes
from .page import Node, lanes_chart, listed, paragraph, section, table, tag
from .words import amount, is_noise, percent, plain, several

if TYPE_CHECKING:
    from ..instances.training.plan import Configuration
    from ..instances.training.referee import ConfigurationEvaluation
    from ..studies.configure.answer import Answer
    from ..studies.configure.judge import Judged

# Parts of a loss below this share of the whole time are summed up in one.
WORTH_TELLING = 0.002
FITS = {"yes": "fits", "maybe": "may fit", "no": "does not fit"}
PART_WORDS = {"transient": "memory that is needed for a moment", "reserve": "the reserve"}
# Letters of the degrees for narrow places; degrees that are 1 everywhere are left out.
LETTERS = {"t": "tensor", "c": "context", "p": "pipeline", "v": "virtual", "e": "expert", "et": "expert_tensor"}
LETTERS["d"] = "data"
# What a rank spends its time on, in the order of the tables.
SPENT = (
    *("products", "attention", "memory", "measured", "recomputation"),
    *("tensor", "context", "expert", "pipeline", "data", "optimizer", "idle"),
)


def gib(amount_bytes: float) -> str:
    return f"{amount_bytes / GIB:.2f} GiB"


def told(judged: Judged) -> Iterator[str]:
    """Sentences on a judged configuration: the answer first, then every key, and what would make it fit."""
    memory, time = memory_in_words(judged.evaluation), time_in_words(judged.evaluation)
    yield f"{judged.asked or 'the defaults'}: {FITS[judged.fits]}; {memory}; {time}."
    yield f"in full: {words_of(judged.plan)}"
    if judged.fits != "yes":
        yield change_in_words(judged)
    yield from (f"note: {note.rstrip('.')}." for note in judged.notes)


def memory_in_words(own: ConfigurationEvaluation) -> str:
    """A phrase on the memory of the fullest rank and its largest part."""
    full = own.fullest
    part = max(full.parts, key=lambda name: full.parts[name])
    share = percent(full.parts[part] / full.bytes)
    limit = "" if own.limit_bytes is None else f" of {own.limit_bytes / GIB:.2f}"
    return (
        f"its fullest rank, on stage {full.rank}, holds {full.bytes / GIB:.2f}{limit} GiB, "
        f"{share} of it {PART_WORDS.get(part, part)}"
    )


def time_in_words(own: ConfigurationEvaluation) -> str:
    """A phrase on the time of an iteration and its rates; what is not known is left out."""
    timing = own.timing
    mfu = "" if timing.mfu is None else f", MFU {percent(timing.mfu)}"
    return (
        f"an iteration takes {amount(timing.seconds, 's', 4)} "
        f"({timing.tokens_per_second_per_gpu:,.0f} tokens per second and GPU{mfu})"
    )


def change_in_words(judged: Judged) -> str:
    """How much memory the configuration lacks, and the least change that makes it fit."""
    full, limit = judged.evaluation.fullest, judged.evaluation.limit_bytes
    assert limit is not None, "without a limit everything fits"
    first = full.rank * judged.plan.degrees.stage_ranks
    over = full.bytes - limit
    error = percent(both_sides(judged.memory_error).more)
    missed = (
        f"rank {first} is over by {gib(over)}"
        if over > 0
        else f"rank {first} has {gib(-over)} left, less than the {error} by which memory may be wrong"
    )
    change = judged.change
    if change is None:
        return f"{missed}; neither recomputation, sharding, another layout nor other degrees alone make it fit."
    return f"{missed}; {change.words} {FITS[change.fits]}, with {gib(change.bytes)} on its fullest rank."


# ---- what was found --------------------------------------------------------------------------------------


def best_in_words(answer: Answer) -> Iterator[str]:
    """The answer first: the best configuration, its time and its fullest rank; or what is missing."""
    best, report = answer.best, answer.report
    assert report is not None, "asked of a search"
    if best is None:
        yield from _nothing(answer)
        return
    yield f"{shortly(best.plan)}: {time_in_words(best)}; {memory_in_words(best)}."
    yield f"in full: {words_of(best.plan)}"
    gap = report.gap or 0.0
    if met(best.timing.seconds, report.bound):
        yield "Proven: no configuration of the scope that fits for sure is faster."
    else:
        yield (
            f"Proven: no configuration of the scope that fits for sure takes less than {amount(report.bound, 's', 4)}, "
            f"which is {percent(gap)} less."
        )


def _nothing(answer: Answer) -> Iterator[str]:
    """Sentences for a search without a best configuration: why there is none, and the nearest miss."""
    report, nearest = answer.report, answer.nearest
    assert report is not None, "asked of a search"
    if answer.why_empty is not None:
        yield answer.why_empty
    elif not report.finished:
        yield "No configuration that fits was found before the search ended."
    elif not report.nothing_fits:
        left = f"{report.fit:,} of {several(report.considered, 'choice', ',')}"
        yield f"No configuration that fits was found, and {left} may have one: no bound excludes them."
    else:
        yield f"No configuration of the scope fits for sure, out of {several(report.considered, 'choice', ',')}."
    if nearest is None or nearest.limit_bytes is None:
        return
    over = nearest.fullest.bytes - nearest.limit_bytes
    if nearest.fit(answer.asked.memory_error) == "yes":
        fits = f"{shortly(nearest.plan)}: {memory_in_words(nearest)}"
        yield f"This configuration fits, but the search did not look at it: {fits}."
        yield f"in full: {words_of(nearest.plan)}"
        return
    missing = f"lacks {gib(over)}" if over > 0 else f"has {gib(-over)} left, too little for the error of memory"
    yield f"The nearest miss is {shortly(nearest.plan)}: {memory_in_words(nearest)}, and so it {missing}."
    yield f"in full: {words_of(nearest.plan)}"


def shortly(plan: Configuration) -> str:
    """A configuration in short: degrees above 1, data parallelism, micro-batch, ZeRO stage, and any recomputation."""
    degrees = plan.degrees
    named = ((name.replace("_", "-"), getattr(degrees, name)) for name in LETTERS.values() if name != "data")
    told = [f"{name}={value}" for name, value in named if value > 1]
    told += [f"data={degrees.data}", f"micro-batch={plan.micro_batch}", f"zero={plan.zero}"]
    if recompute_word(plan) != "none":
        told.append(f"recompute={recompute_word(plan)}")
    return " ".join(told)


def list_in_words(answer: Answer) -> str:
    """What the shortlist means, in one sentence."""
    asked, count, report = answer.asked, len(answer.listed), answer.report
    beside = 0 if report is None else len(report.unlisted)
    if report is None or not report.finished:
        return (
            f"The search was cut short: these {count} are what it knows, and the fastest one may be none of them."
        )
    if answer.best is None:
        share = percent(both_sides(asked.memory_error).less)
        may = f"None of these {count} fits for sure; they fit if memory is wrong by up to {share}."
        return f"{may} {_beside(beside)}" if beside else may
    listed = f"these {count}" if count > 1 else "this one"
    among = f"among {listed} and {beside:,} that are not excluded" if beside else f"among {listed}"
    if not beside and count == 1:
        among = "this one"
    has = "the list has" if not beside else "together they are"
    takes = "takes" if not beside else "may take"
    theorem = (
        f"If no time is wrong by more than {percent(asked.error)} and no memory by more than "
        f"{_margin(asked.memory_error)}, the fastest one is {among}: {has} every choice of degrees, "
        f"micro-batch and ZeRO stage that may fit and {takes} at most {asked.ratio:.4g} times as long as the best."
    )
    return " ".join(filter(None, (theorem, _beside(beside) if beside else "", _one_name(answer))))


def _one_name(answer: Answer) -> str:
    """That ZeRO stages which are the same are listed once, where the list has such an entry."""
    stages = answer.problem.states
    for own in answer.listed:
        if len(one_name_each(answer.problem, own.plan.degrees, stages)) < len(stages):
            return (
                f"With data={own.plan.degrees.data} nothing is divided among data-parallel ranks, so that stages of "
                f"ZeRO are the same: such a choice is listed once, as zero={own.plan.zero}."
            )
    return ""


def _margin(error: float | Margin) -> str:
    """The margin of memory in words: one share, or those to either side."""
    margin = both_sides(error)
    if margin.more == margin.less:
        return percent(margin.more)
    return f"{percent(margin.more)} upwards or {percent(margin.less)} downwards"


def _beside(count: int) -> str:
    """Choices of which the search knows too little, in one sentence."""
    whose = "1 choice is" if count == 1 else f"{count:,} choices are"
    them = "it" if count == 1 else "them"
    return (
        f"{whose} not excluded: no layout of {them} that belongs in the list was found, and no bound rules one out."
    )


def measured_in_words(answer: Answer) -> Iterator[str]:
    """Sentences on the given runs, and on how they changed the shortlist."""
    if answer.measured is None:
        return
    yield from answer.measured.sentences()
    if answer.before is not None:
        allowed = "" if answer.before_error is None else f", for an error of {percent(answer.before_error)}"
        yield (
            f"With these runs the shortlist has {several(len(answer.listed), 'choice')}, for an error of "
            f"{percent(answer.asked.error)}; without the fit it has {len(answer.before.listed):,}{allowed}."
        )
    elif answer.report is not None:
        off = percent(answer.measured.eps_before or 0)
        yield f"Without the fit times are off by {off}: no list can allow for that."
    eps = answer.measured.eps
    if eps is not None and eps < answer.asked.error == USUAL_ERROR:
        yield (
            f"The list allows for {percent(USUAL_ERROR)} and not {percent(eps)}: these runs do not show that other "
            "configurations come as near; --error says otherwise."
        )


def counted_in_words(answer: Answer) -> str:
    """A phrase on how many choices there were, how many cannot fit, and which bounds discarded the others."""
    report = answer.report
    assert report is not None, "asked of a search"
    by = ", ".join(f"{count:,} by the bound of {name}" for name, count in report.discarded.items() if count)
    if not report.considered:
        return "0 choices in the scope."
    parts = [f"{report.unfit:,} cannot fit"]
    if report.unlisted and report.finished:
        parts.append(f"{len(report.unlisted):,} not excluded")
    if by:
        parts.append(f"discarded as too slow: {by}")
    if not report.finished:
        parts.append(f"{report.undecided:,} not decided")
    return f"{several(report.considered, 'choice', ',')} in the scope: {'; '.join(parts)}."


def lost_in_words(answer: Answer, judged: Judged) -> str:
    """Why a judged configuration is not the best: what each part costs against the best, the largest first."""
    best, lost = answer.best, answer.lost(judged)
    if best is None or lost is None:
        return ""
    seconds, least = judged.evaluation.timing.seconds, best.timing.seconds
    if judged.plan == best.plan:
        return "This is the best configuration of the scope."
    slower = seconds - least
    large = {name: value for name, value in lost.items() if abs(value) >= WORTH_TELLING * least}
    rest = slower - sum(large.values())
    order = sorted(large, key=lambda name: -abs(large[name]))
    parts = [f"{name} {large[name]:+.3g} s" for name in order]
    if abs(rest) >= WORTH_TELLING * least:
        parts.append(f"all else {rest:+.3g} s")
    word = "slower" if slower >= 0 else "faster"
    told_parts = ", ".join(parts) or "no part is worth telling"
    return f"Against the best it is {percent(abs(slower) / least)} {word} ({slower:+.4g} s): {told_parts}."


# ---- terminal -------------------------------------------------------------------------------------------------


# Short titles of columns for a terminal.
SHORT_TITLES = {"gradients": "grads", "activations": "acts", "recomputation": "again"}

# The most characters of a layout in a table, where room is limited.
LONGEST_LAYOUT = 18


def draw_answer(answer: Answer) -> None:
    """Print the best configuration, the shortlist, how the others were discarded, and what was judged."""
    if answer.report is not None:
        _put_answer(*best_in_words(answer))
        if answer.best is not None:
            draw_ranks(answer.best)
        _draw_list(answer)
        put(counted_in_words(answer))
    put(*measured_in_words(answer))
    for judged in answer.judged:
        _put_answer(*told(judged))
        draw_ranks(judged.evaluation)
        put(lost_in_words(answer, judged))


def _put_answer(first: str, *more: str) -> None:
    put(first, style="bold")
    put(*more)


def _draw_list(answer: Answer) -> None:
    """Print the shortlist as a table, and a sentence on what it promises."""
    shown = answer.shortlist
    if not shown:
        return
    console = out()
    least = min(own.timing.seconds for own in shown) if answer.best is None else answer.best.timing.seconds
    degrees = {
        title: name
        for title, name in LETTERS.items()
        if any(getattr(own.plan.degrees, name) > 1 for own in shown) or name == "data"
    }
    letters = [f"{title} {name.replace('_', '-')}" for title, name in degrees.items()]
    put(f"shortlist ({', '.join(letters)}, b micro-batch)", style="bold")
    table = new_table()
    columns(
        table,
        ",".join(("s", "more", "GiB", "fits", *degrees, "b", "zero", "recompute", "layout")),
        "recompute,layout",
    )
    for own in shown:
        layout = layout_word(own.plan)
        row = [
            f"{own.timing.seconds:.4g}",
            "" if is_noise(more := own.timing.seconds / least - 1) else percent(more),
            f"{own.fullest.bytes / GIB:.1f}",
            own.fit(answer.asked.memory_error),
            *(str(getattr(own.plan.degrees, name)) for name in degrees.values()),
            str(own.plan.micro_batch),
            str(own.plan.zero),
            recompute_word(own.plan),
            layout
            if len(layout) <= LONGEST_LAYOUT or room(console) > console.width
            else layout[: LONGEST_LAYOUT - 3] + "...",
        ]
        best = answer.best is not None and own.plan == answer.best.plan
        table.add_row(*(styled(cell, "bold" if best else "") for cell in row))
    draw_table(table)
    left = len(answer.listed) - len(shown)
    put(f"... and {left} more; --json has all of them" if left else "", list_in_words(answer))


def draw_ranks(own: ConfigurationEvaluation) -> None:
    """Print memory and time in one row for each pipeline stage, whose ranks are alike."""
    limit = "" if own.limit_bytes is None else f"; a GPU has {own.limit_bytes / GIB:.2f}"
    put(f"memory of a rank in GiB, by stage{limit}", style="bold")
    _draw_memory(own)
    put("time of a rank in seconds of an iteration", style="bold")
    _draw_time(own)


def _draw_memory(own: ConfigurationEvaluation) -> None:
    parts = tuple(own.memory[0].parts)
    table, each = new_table(), own.plan.degrees.stage_ranks
    full = () if own.limit_bytes is None else ("full",)
    titles = (SHORT_TITLES.get(name, name) for name in parts)
    columns(table, ",".join(("stage", "ranks", *titles, "sum", *full)), left="stage,ranks")
    for rank in own.memory[:MAX_DEVICES_DRAWN]:
        cells = [f"{rank.parts[name] / GIB:.2f}" for name in parts]
        used = [] if own.limit_bytes is None else [f"{100 * rank.bytes / own.limit_bytes:.0f}%"]
        style = "bold" if rank is own.fullest else ""
        row = [str(rank.rank), _ranks_of(rank.rank, each), *cells, f"{rank.bytes / GIB:.2f}", *used]
        table.add_row(*(styled(cell, style) for cell in row))
    draw_table(table)
    _say_left(len(own.memory))


def _draw_time(own: ConfigurationEvaluation) -> None:
    ranks = own.timing.ranks
    parts = [name for name in SPENT if any(getattr(rank, name) for rank in ranks)]
    table = new_table()
    columns(table, ",".join(("stage", *(SHORT_TITLES.get(name, name) for name in parts))), left="stage")
    for number, rank in enumerate(ranks[:MAX_DEVICES_DRAWN]):
        spent = [getattr(rank, name) for name in parts]
        table.add_row(str(number), *("0" if is_noise(s / own.timing.seconds) else plain(s, 3) for s in spent))
    draw_table(table)
    _say_left(len(ranks))


def _ranks_of(stage: int, each: int) -> str:
    first = stage * each
    return str(first) if each == 1 else f"{first}-{first + each - 1}"


def _say_left(count: int) -> None:
    if count > MAX_DEVICES_DRAWN:
        put(f"... and {count - MAX_DEVICES_DRAWN} more stages")


# ---- pages ----------------------------------------------------------------------------------------------------


# The most rows of the shortlist, judged configurations, bars of configurations of the list, and stages of a
# judged one.
MOST_SHOWN, MOST_DETAILED, MOST_BARS, MOST_STAGES = 100, 20, 6, 32
ALIKE = "Memory of each rank by part, under the limit of a GPU; the ranks of a stage are alike:"
TIMES = (
    "Seconds of an iteration, the mean over all stages, by the referee. Computation is the model's own work; tensor, "
    "context, expert and data are communication that nothing hides; the bubble is waiting that even stages have too."
)
SORTS = "Press a heading to sort the table by its column, and once more to reverse the order."
# A relative difference of a stored time from the referee's that is rounding alone.
ROUNDING = 1e-6
# Parts of a time that are drawn as one, or under another name; the others have their own.
DRAWN: Mapping[str, str] = {
    **dict.fromkeys(("products", "measured", "attention", "memory"), "computation"),
    "pipeline": "sending",
}


def choice_sections(answer: Answer) -> list[Element]:
    """Why the judged ones are not the best, the shortlist, and the time by part of the first ones and of the judged."""
    parts = [section("Judged", *_all_judged(answer))] if answer.judged else []
    parts += [section("Time by part", *_times_by_part(answer))] if answer.best is not None or answer.judged else []
    return parts + ([section("Shortlist", *_shortlist(answer))] if answer.listed else [])


# ---- the shortlist ---------------------------------------------------------------------------------------


def _shortlist(answer: Answer) -> Iterator[Node]:
    yield paragraph(list_in_words(answer))
    yield paragraph(f"As the search counted: {counted_in_words(answer)}", "note")
    differences = [
        f"place {place}: {claimed.seconds!r} s, the referee computes {own.timing.seconds!r} s"
        for place, (claimed, own) in enumerate(zip(answer.listed, answer.shortlist, strict=False), 1)
        if not math.isclose(claimed.seconds, own.timing.seconds, rel_tol=ROUNDING)
    ]
    if differences:
        yield paragraph("The file claims other times:", "verdict no")
        yield listed(differences)
    yield paragraph(SORTS, "controls note")
    yield tag("div", {"class": "dense many"}, _list_table(answer))
    yield _left(len(answer.listed) - MOST_SHOWN)


def _list_table(answer: Answer) -> Element:
    """The shortlist, the fastest first; columns that are the same for all are left out."""
    shown = answer.listed[:MOST_SHOWN]
    first = answer.shortlist
    seconds = [own.timing.seconds for own in first] + [own.seconds for own in shown[len(first) :]]
    least = min(seconds) if answer.best is None else answer.best.timing.seconds
    degrees = [
        name
        for name in LETTERS.values()
        if name == "data" or any(getattr(own.plan.degrees, name) > 1 for own in shown)
    ]
    differ = len({own.plan.schedule for own in shown}) > 1
    rows = []
    for place, (own, time) in enumerate(zip(shown, seconds, strict=True), 1):
        plan, held = own.plan, max(rank.bytes for rank in memory_of_few(answer.problem, own.plan))
        # Negative for a faster configuration, which only may fit.
        more = round(100 * (time / least - 1), 2) or 0.0
        cells = {"place": str(place), "seconds": f"{time:.4g}", "more": f"{more:.2f} %", "GiB": f"{held / GIB:.2f}"}
        cells["fits"] = fit_of(held, answer.problem.memory_bytes, answer.asked.memory_error)
        cells |= {name.replace("_", "-"): str(getattr(plan.degrees, name)) for name in degrees}
        cells |= {"micro-batch": str(plan.micro_batch), "ZeRO": str(plan.zero)}
        cells |= {"schedule": plan.schedule} if differ else {}
        rows.append({**cells, "recompute": recompute_word(plan), "layout": layout_in_short(plan.layout)})
    return table(list(rows[0]), [list(row.values()) for row in rows], _meaning(len(shown), len(first)))


def _meaning(count: int, judged: int) -> str:
    times = "times are the referee's"
    if count > judged:
        times = f"times of places 1 to {judged} are the referee's, those of the others are what the search said"
    return (
        f"GiB: what the fullest rank holds, recomputed for all; {times}; more: than the best that "
        "fits for sure; layout: units of each chunk, 3×2 is three chunks of two"
    )


def layout_in_short(layout: Sequence[int]) -> str:
    """The layout with equal neighbouring chunks as one: 3×2 is three chunks of two units."""
    runs = [(size, len(list(group))) for size, group in groupby(layout)]
    return ", ".join(f"{count}×{size}" if count > 1 else str(size) for size, count in runs)


# ---- time by part ----------------------------------------------------------------------------------------


def _times_by_part(answer: Answer) -> Iterator[Node]:
    names = ", ".join(f"{letter} {name}" for letter, name in LETTERS.items()).replace("_", "-")
    yield paragraph(TIMES)
    yield paragraph(f"Beside the bars stand the degrees ({names}) and the micro-batch (b).", "note")
    amounts = [Amount(name, drawn_parts(own)) for name, own in _compared(answer)]
    yield lanes_chart(amount_lanes(amounts, "Time of an iteration by part", "time", "s"))


def _compared(answer: Answer) -> Iterator[tuple[str, ConfigurationEvaluation]]:
    """The best configuration, the judged ones and the first of the list, each with the words beside its bar."""
    best = answer.best
    if best is not None:
        yield f"Best: {in_letters(best.plan)}", best
    for judged in answer.judged[:MOST_DETAILED]:
        yield f"Asked for: {in_letters(judged.plan)}", judged.evaluation
    for place, own in enumerate(answer.shortlist[:MOST_BARS], 1):
        if best is None or own.plan != best.plan:
            yield f"Place {place}: {in_letters(own.plan)}", own


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


def _all_judged(answer: Answer) -> Iterator[Node]:
    yield from (_judged(answer, own) for own in answer.judged[:MOST_DETAILED])
    yield _left(len(answer.judged) - MOST_DETAILED)


def _left(count: int) -> Node:
    return paragraph(f"... and {count:,} more, which the data below have.", "note") if count > 0 else None


def _judged(answer: Answer, judged: Judged) -> Element:
    """One judged configuration: sentences, then the loss by part and the memory by part under the limit."""
    name, framework = judged.asked or "the defaults", judged.problem.framework
    first, *more = told(judged)
    sentences = [first.removeprefix(f"{name}: "), *more, lost_in_words(answer, judged)]
    return tag(
        "div",
        None,
        tag("h3", None, name if framework == answer.problem.framework else f"{name} (by {framework})"),
        *(paragraph(sentence) for sentence in sentences if sentence),
        _loss(answer, judged),
        paragraph(ALIKE, "note"),
        _memory_bars(judged),
    )


def _loss(answer: Answer, judged: Judged) -> Element | None:
    """A table of the parts against the best, the largest loss first; they sum to the whole difference."""
    best = answer.best
    if best is None or judged.plan == best.plan:
        return None
    ours, theirs = by_part(judged.evaluation), by_part(best)
    lost = answer.lost(judged) or {}
    least = best.timing.seconds
    told_parts = (name for name in ours if max(ours[name], theirs[name]) > ROUNDING * least)
    names = sorted(told_parts, key=lambda name: -lost.get(name, 0.0))
    rows = [
        [name, plain(own, 4), plain(other, 4), f"{own - other:+.3g}", f"{100 * (own - other) / least:+.2f} %"]
        for name, own, other in ((name, ours[name], theirs[name]) for name in names)
    ]
    slower = judged.evaluation.timing.seconds - least
    caption = (
        "Seconds of an iteration by part, in the mean over all stages, and what is lost against the best; in all "
        f"{amount(judged.evaluation.timing.seconds, 's', 4)} against {amount(least, 's', 4)}, {slower:+.3g} s"
    )
    head = ["part", "this one", "the best", "lost", "lost, of the best"]
    return tag("div", {"class": "dense"}, table(head, rows, caption))


def _memory_bars(judged: Judged) -> Element:
    own = judged.evaluation
    limit, each = own.limit_bytes, judged.plan.degrees.stage_ranks
    shown = own.memory[:MOST_STAGES]
    rows = [
        Amount(
            f"stage {rank.rank}, {'ranks' if each > 1 else 'rank'} {_ranks_of(rank.rank, each)}",
            parts,
            limit and limit / GIB,
        )
        for rank in shown
        for parts in [{name: held / GIB for name, held in rank.parts.items()}]
    ]
    words = f"Memory of each rank, by stage: {shortly(judged.plan)}"
    left = len(own.memory) - len(shown)
    more = paragraph(f"... and {several(left, 'more stage')}.", "note") if left else None
    return tag("div", None, lanes_chart(amount_lanes(rows, words, "memory", "GiB")), more)
