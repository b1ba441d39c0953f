"""Training configurations in characters: the answer, and tables of what every rank holds and spends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...instances.base.quantities import GIB
from ...instances.training.words import layout_word, recompute_word
from ..configurations import (
    LETTERS,
    SPENT,
    best_in_words,
    counted_in_words,
    list_in_words,
    lost_in_words,
    measured_in_words,
    told,
)
from ..console import MAX_DEVICES_DRAWN, columns, draw_table, new_table, out, room, styled
from ..words import is_noise, percent, plain

if TYPE_CHECKING:
    from ...instances.training.referee.evaluate import ConfigurationEvaluation
    from ...studies.configure.answer import Answer
    from ...studies.configure.judge import Judged

# Short titles of columns for a terminal.
SHORT = {"gradients": "grads", "activations": "acts", "recomputation": "again"}

# The most characters of a layout in a table, where room is limited.
LONGEST = 18


def draw_answer(answer: Answer) -> None:
    """Print the best configuration, the shortlist, how the others were discarded, and what was judged."""
    if answer.report is not None:
        _draw_best(answer)
        _draw_list(answer)
        out().print(styled(counted_in_words(answer)))
    for sentence in measured_in_words(answer):
        out().print(styled(sentence))
    for judged in answer.judged:
        draw_judged(judged)
        loss = lost_in_words(answer, judged)
        if loss:
            out().print(styled(loss))


def _draw_best(answer: Answer) -> None:
    first, *more = best_in_words(answer)
    out().print(styled(first, "bold"))
    for sentence in more:
        out().print(styled(sentence))
    if answer.best is not None:
        draw_ranks(answer.best)


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
    console.print(styled(f"shortlist ({', '.join(letters)}, b micro-batch)", "bold"))
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
            layout if len(layout) <= LONGEST or room(console) > console.width else layout[: LONGEST - 3] + "...",
        ]
        best = answer.best is not None and own.plan == answer.best.plan
        table.add_row(*(styled(cell, "bold" if best else "") for cell in row))
    draw_table(table)
    left = len(answer.listed) - len(shown)
    if left:
        console.print(styled(f"... and {left} more; --json has all of them"))
    console.print(styled(list_in_words(answer)))


def draw_judged(judged: Judged) -> None:
    """Print the answer, then the memory and the time of every rank by part."""
    answer, *more = told(judged)
    console = out()
    console.print(styled(answer, "bold"))
    for sentence in more:
        console.print(styled(sentence))
    draw_ranks(judged.evaluation)


def draw_ranks(own: ConfigurationEvaluation) -> None:
    """Print memory and time in one row for each pipeline stage, whose ranks are alike."""
    console = out()
    limit = "" if own.limit_bytes is None else f"; a GPU has {own.limit_bytes / GIB:.2f}"
    console.print(styled(f"memory of a rank in GiB, by stage{limit}", "bold"))
    _draw_memory(own)
    console.print(styled("time of a rank in seconds of an iteration", "bold"))
    _draw_time(own)


def _draw_memory(own: ConfigurationEvaluation) -> None:
    parts = tuple(own.memory[0].parts)
    table, each = new_table(), own.plan.degrees.stage_ranks
    full = () if own.limit_bytes is None else ("full",)
    titles = (SHORT.get(name, name) for name in parts)
    columns(table, ",".join(("stage", "ranks", *titles, "sum", *full)), left="stage,ranks")
    for rank in own.memory[:MAX_DEVICES_DRAWN]:
        cells = [f"{rank.parts[name] / GIB:.2f}" for name in parts]
        used = [] if own.limit_bytes is None else [f"{100 * rank.bytes / own.limit_bytes:.0f}%"]
        style = "bold" if rank is own.fullest else ""
        row = [str(rank.rank), _ranks(rank.rank, each), *cells, f"{rank.bytes / GIB:.2f}", *used]
        table.add_row(*(styled(cell, style) for cell in row))
    draw_table(table)
    _say_left(len(own.memory))


def _draw_time(own: ConfigurationEvaluation) -> None:
    ranks = own.timing.ranks
    parts = [name for name in SPENT if any(getattr(rank, name) for rank in ranks)]
    table = new_table()
    columns(table, ",".join(("stage", *(SHORT.get(name, name) for name in parts))), left="stage")
    for number, rank in enumerate(ranks[:MAX_DEVICES_DRAWN]):
        spent = [getattr(rank, name) for name in parts]
        table.add_row(str(number), *("0" if is_noise(s / own.timing.seconds) else plain(s, 3) for s in spent))
    draw_table(table)
    _say_left(len(ranks))


def _ranks(stage: int, each: int) -> str:
    first = stage * each
    return str(first) if each == 1 else f"{first}-{first + each - 1}"


def _say_left(count: int) -> None:
    if count > MAX_DEVICES_DRAWN:
        out().print(styled(f"... and {count - MAX_DEVICES_DRAWN} more stages"))
