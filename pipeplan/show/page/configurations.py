"""What a report says of training configurations besides the best one: the shortlist, where their time goes, and why the
judged ones are not the best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from ...instances.base.quantities import GIB
from ...instances.training.scope import fit_of
from ...instances.training.words import recompute_word
from ...studies.configure.least_change import memory_of_few
from ...studies.configure.loss import BUBBLE, IMBALANCE, PARTS, by_part
from ..configurations import LETTERS, counted_in_words, list_in_words, lost_in_words, shortly, told
from ..lanes import Amount, amount_lanes
from ..words import amount, plain, several
from .lanes import lanes_chart
from .markup import Node, tag
from .page import section, table

if TYPE_CHECKING:
    from ...instances.training.plan import Configuration
    from ...instances.training.referee.evaluate import ConfigurationEvaluation
    from ...planners.training.search import Found
    from ...studies.configure.answer import Answer
    from ...studies.configure.judge import Judged

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
SAME = 1e-6
# Parts of a time that are drawn as one, or under another name; the others have their own.
DRAWN: Mapping[str, str] = {
    "products": "computation",
    "measured": "computation",
    "attention": "computation",
    "memory": "computation",
    "pipeline": "sending",
}


def choice_sections(answer: Answer) -> list[Element]:
    """Why the judged ones are not the best, the shortlist, and the time by part of the first ones and of the judged."""
    parts = [section("Judged", *_all_judged(answer))] if answer.judged else []
    parts += [section("Time by part", *_times(answer))] if answer.best is not None or answer.judged else []
    return parts + ([section("Shortlist", *_shortlist(answer))] if answer.listed else [])


# ---- the shortlist ---------------------------------------------------------------------------------------


def _shortlist(answer: Answer) -> Iterator[Node]:
    yield tag("p", None, list_in_words(answer))
    yield tag("p", {"class": "note"}, f"As the search counted: {counted_in_words(answer)}")
    differences = list(_differences(answer))
    if differences:
        yield tag("p", {"class": "verdict no"}, "The file claims other times:")
        yield tag("ul", None, *(tag("li", None, text) for text in differences))
    yield tag("p", {"class": "controls note"}, SORTS)
    yield tag("div", {"class": "dense many"}, _list_table(answer))
    left = len(answer.listed) - MOST_SHOWN
    if left > 0:
        yield tag("p", {"class": "note"}, f"... and {left:,} more, which the data below have.")


def _differences(answer: Answer) -> Iterator[str]:
    for place, (claimed, own) in enumerate(zip(answer.listed, answer.shortlist, strict=False), 1):
        if not math.isclose(claimed.seconds, own.timing.seconds, rel_tol=SAME):
            yield f"place {place}: {claimed.seconds!r} s, the referee computes {own.timing.seconds!r} s"


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
    several = len({own.plan.schedule for own in shown}) > 1
    head = [
        "place",
        "seconds",
        "more",
        "GiB",
        "fits",
        *(name.replace("_", "-") for name in degrees),
        "micro-batch",
        "ZeRO",
        *(["schedule"] if several else []),
        "recompute",
        "layout",
    ]
    rows = [
        [
            str(place),
            f"{time:.4g}",
            _more(time, least),
            *_memory(answer, own),
            *(str(getattr(own.plan.degrees, name)) for name in degrees),
            str(own.plan.micro_batch),
            str(own.plan.zero),
            *([own.plan.schedule] if several else []),
            recompute_word(own.plan),
            layout_in_short(own.plan.layout),
        ]
        for place, (own, time) in enumerate(zip(shown, seconds, strict=True), 1)
    ]
    return table(head, rows, _meaning(len(shown), len(first)))


def _more(seconds: float, least: float) -> str:
    """How much longer than the best; negative for a faster configuration, which only may fit."""
    share = round(100 * (seconds / least - 1), 2)
    return f"{share or 0.0:.2f} %"


def _meaning(count: int, judged: int) -> str:
    times = "times are the referee's"
    if count > judged:
        times = f"times of places 1 to {judged} are the referee's, those of the others are what the search said"
    return (
        f"GiB: what the fullest rank holds, recomputed for all; {times}; more: than the best that "
        "fits for sure; layout: units of each chunk, 3×2 is three chunks of two"
    )


def _memory(answer: Answer, own: Found) -> tuple[str, str]:
    """The GiB of the fullest rank as the referee counts them, and whether they fit."""
    held = max(rank.bytes for rank in memory_of_few(answer.problem, own.plan))
    return f"{held / GIB:.2f}", fit_of(held, answer.problem.memory_bytes, answer.asked.memory_error)


def layout_in_short(layout: Sequence[int]) -> str:
    """The layout with equal neighbouring chunks as one: 3×2 is three chunks of two units."""
    runs = [(size, len(list(group))) for size, group in groupby(layout)]
    return ", ".join(f"{count}×{size}" if count > 1 else str(size) for size, count in runs)


# ---- time by part ----------------------------------------------------------------------------------------


def _times(answer: Answer) -> Iterator[Node]:
    names = ", ".join(f"{letter} {name}" for letter, name in LETTERS.items()).replace("_", "-")
    yield tag("p", None, TIMES)
    yield tag("p", {"class": "note"}, f"Beside the bars stand the degrees ({names}) and the micro-batch (b).")
    rows = list(_compared(answer))
    amounts = [Amount(name, drawn_parts(own)) for name, own in rows]
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
    return {name: seconds for name, seconds in parts.items() if seconds >= SAME * own.timing.seconds}


# ---- why not ---------------------------------------------------------------------------------------------


def _all_judged(answer: Answer) -> Iterator[Node]:
    yield from (_judged(answer, own) for own in answer.judged[:MOST_DETAILED])
    left = len(answer.judged) - MOST_DETAILED
    if left > 0:
        yield tag("p", {"class": "note"}, f"... and {left:,} more, which the data below have.")


def _judged(answer: Answer, judged: Judged) -> Element:
    """One judged configuration: sentences, then the loss by part and the memory by part under the limit."""
    name, framework = judged.asked or "the defaults", judged.problem.framework
    first, *more = told(judged)
    sentences = [first.removeprefix(f"{name}: "), *more, lost_in_words(answer, judged)]
    return tag(
        "div",
        None,
        tag("h3", None, name if framework == answer.problem.framework else f"{name} (by {framework})"),
        *(tag("p", None, sentence) for sentence in sentences if sentence),
        _loss(answer, judged),
        tag("p", {"class": "note"}, ALIKE),
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
    told_parts = (name for name in ours if max(ours[name], theirs[name]) > SAME * least)
    names = sorted(told_parts, key=lambda name: -lost.get(name, 0.0))
    rows = [_loss_row(name, ours[name], theirs[name], least) for name in names]
    slower = judged.evaluation.timing.seconds - least
    caption = (
        "Seconds of an iteration by part, in the mean over all stages, and what is lost against the best; in all "
        f"{amount(judged.evaluation.timing.seconds, 's', 4)} against {amount(least, 's', 4)}, {slower:+.3g} s"
    )
    head = ["part", "this one", "the best", "lost", "lost, of the best"]
    return tag("div", {"class": "dense"}, table(head, rows, caption))


def _loss_row(name: str, ours: float, theirs: float, least: float) -> list[str]:
    lost = ours - theirs
    return [name, plain(ours, 4), plain(theirs, 4), f"{lost:+.3g}", f"{100 * lost / least:+.2f} %"]


def _memory_bars(judged: Judged) -> Element:
    own = judged.evaluation
    limit, each = own.limit_bytes, judged.plan.degrees.stage_ranks
    shown = own.memory[:MOST_STAGES]
    rows = [
        Amount(
            stage_and_ranks(rank.rank, each),
            {name: held / GIB for name, held in rank.parts.items()},
            limit and limit / GIB,
        )
        for rank in shown
    ]
    words = f"Memory of each rank, by stage: {shortly(judged.plan)}"
    left = len(own.memory) - len(shown)
    more = tag("p", {"class": "note"}, f"... and {several(left, 'more stage')}.") if left else None
    return tag("div", None, lanes_chart(amount_lanes(rows, words, "memory", "GiB")), more)


def stage_and_ranks(stage: int, each: int) -> str:
    """The words for a stage and its ranks, which are alike."""
    first = stage * each
    return f"stage {stage}, rank {first}" if each == 1 else f"stage {stage}, ranks {first}-{first + each - 1}"
