"""What several lessons share: pictures of pipelines, of schedules and of memory, and checks of answers with hints.

Light is forward, dark is backward, in every picture; the number on a task is that of its batch.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from functools import wraps
from hashlib import sha256
from numbers import Real

import matplotlib.pyplot as plt
from cycler import cycler
from IPython import get_ipython
from IPython.core.pylabtools import print_figure
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from matplotlib_inline.backend_inline import set_matplotlib_formats

from pipeplan.instances.chain.layout import unroll
from pipeplan.instances.schedule.problem import KIND_NAMES
from pipeplan.show.pictures import GROUND, INK, themed
from pipeplan.show.views import BACKWARD, CATEGORIES, FORWARD, OTHER, PHASES, ink_on
from pipeplan.show.views import TERMS as TERM_COLOURS
from pipeplan.show.views.schedule import COLOUR_OF

SMALL = 8
"""Points: nothing is written smaller than that."""
CHARACTER = 0.7
"""The width of one, relative to its size, and a little more."""
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
ROUND = (1, 2, 5, 10)
ABOVE_LEGEND = 20
"""Points between the axes and a title: the legend lies between them."""
PALE = 0.55
"""So much white is in the colour of a device's second stage, and of its later ones."""
STYLES = ("-", "--", "-.", ":", "-", "--", "-.")

plt.rcParams.update(
    {
        "axes.formatter.useoffset": False,
        "axes.prop_cycle": cycler(color=CATEGORIES, linestyle=STYLES),  # curves on one another are told apart
        "axes.titlesize": 10,
        "font.size": 9,
        "legend.fontsize": SMALL,
        "legend.frameon": False,
        "svg.fonttype": "none",  # text stays text
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    }
)


def on_the_page(figure):
    """As an SVG in the colours of the page that shows it: lines in black and white are drawn in its ink and ground."""
    svg = print_figure(figure, fmt="svg", bbox_inches="tight")
    svg = re.sub('(<use [^>]*style=")(?=stroke)', rf"\1fill: {INK}; ", svg)  # a marker without a colour is black
    for line, becomes in (("#000000", INK), ("#ffffff", GROUND)):
        svg = svg.replace(f"stroke: {line}", f"stroke: {becomes}")
    return themed(svg)


if get_ipython() is not None:
    set_matplotlib_formats("svg")
    get_ipython().display_formatter.formatters["image/svg+xml"].for_type(Figure, on_the_page)


def draw_pipeline(axes, problem, plan, until, title="", *, steady=False, links=False, label="name"):
    """A row for each GPU, and each link if asked for. `steady`: batches were there before time 0 as well.

    `label`: name, as F2 with the number of the batch as a subscript, or batch, the number alone.
    """
    first = {"first_batch": None} if steady else {}
    works = [work for work in unroll(problem, plan, 0, until, **first) if links or work.resource.startswith("gpu")]
    draw_works(axes, works, until, label=label)
    axes.set_title(title, loc="left", pad=ABOVE_LEGEND)


def draw_works(axes, works, until, *, row="resource", label="name"):
    """Tasks and transfers of a pattern, a row for each resource or for each name, batches from the earliest on."""
    rows = {name: i for i, name in enumerate(sorted({getattr(work, row) for work in works}))}
    earliest = min(work.batch for work in works)
    for work in works:
        moved = work.resource.startswith("link")
        colour = OTHER if moved else BACKWARD if work.backward else FORWARD
        batch = str(work.batch - earliest)
        named = [] if moved or label == "batch" else [work.name + batch.translate(SUBSCRIPTS)]
        place = rows[getattr(work, row)]
        draw_bar(axes, place, max(0, work.start), min(work.end, until), until, colour, (*named, batch))
    explain(axes, links=any(work.resource.startswith("link") for work in works))
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    set_time(axes, until)


def set_time(axes, until):
    """From 0 on, with numbers that are short to write."""
    axes.set_xlim(0, until)
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=ROUND))


def draw_bar(axes, row, start, end, until, colour, labels):
    """With the longest of its labels that it has room for."""
    axes.broken_barh([(start, end - start)], (row - 0.4, 0.8), facecolor=colour, edgecolor="white")
    points = axes.get_window_extent().width / axes.figure.dpi * 72 * (end - start) / until
    label = next((text for text in labels if CHARACTER * SMALL * len(text) <= points), "")
    middle = {"ha": "center", "va": "center", "clip_on": True}
    axes.text((start + end) / 2, row, label, fontsize=SMALL, color=ink_on(colour), **middle)


def explain(axes, links=False, other="transfer"):
    """What the colours of tasks mean, above the axes on the right."""
    colours = {"forward": FORWARD, "backward": BACKWARD} | ({other: OTHER} if links else {})
    patches = [Patch(color=colour, label=name) for name, colour in colours.items()]
    axes.legend(handles=patches, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)


def draw_limit(axes, limit, name="limit"):
    """A dashed line with its name beside the axes, where no curve comes."""
    axes.axhline(limit, color="black", linestyle="--", linewidth=1)
    axes.set_ylim(0, max(1.1 * limit, axes.get_ylim()[1]))
    axes.yaxis.set_major_locator(MaxNLocator("auto", steps=ROUND))
    place = {"xytext": (3, 0), "textcoords": "offset points", "ha": "left", "va": "center"}
    axes.annotate(f"{name} {limit:g}", (1, limit), xycoords=axes.get_yaxis_transform(), fontsize=SMALL, **place)


def draw_steps(axes, profile, period, amount, label, scale=1):
    """What `amount` reads off each instant of a period, as steps; times are divided by `scale`."""
    times = [instant.time / scale for instant in profile.instants] + [float(period) / scale]
    held = [amount(instant) for instant in profile.instants]
    axes.step(times, [*held, held[-1]], where="post", label=label)
    set_time(axes, times[-1])


def draw_terms(axes, amounts, names):
    """Bars of memory, one for each of `names`, the terms stacked; `amounts` has a `terms` for each bar."""
    below = [0.0] * len(names)
    for term, colour in TERM_COLOURS.items():
        heights = [getattr(entry.terms, term) for entry in amounts]
        axes.bar(names, heights, bottom=below, label=term, color=colour)
        below = [base + height for base, height in zip(below, heights, strict=True)]


def draw_timeline(axes, simulation, names, title=""):
    """A simulated iteration: a row for each stage, the number of the micro-batch on each pass."""
    colours = {"forward": FORWARD, "backward": BACKWARD, "synchronisation": OTHER}
    tasks = [
        (row, task) for row, stage in enumerate(simulation.stages) for task in stage.tasks if task.end > task.start
    ]
    for row, task in tasks:
        label = str(task.micro_batch) if task.micro_batch else ""
        draw_bar(axes, row, task.start, task.end, simulation.iteration, colours[task.kind], (label,))
    explain(axes, any(task.kind == "synchronisation" for _, task in tasks), "synchronisation")
    axes.set(yticks=range(len(names)), yticklabels=names, xlabel="time")
    set_time(axes, max(other.dataLim.x1 for other in axes.get_shared_x_axes().get_siblings(axes)))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_title(title, loc="left", pad=ABOVE_LEGEND)


def draw_schedule(axes, problem, plan, title="", until=None):
    """A row for each device, the number of the micro-batch on each pass; later stages of a device are paler."""
    rows = {device.name: row for row, device in enumerate(problem.devices)}
    first_stage = {name: min(block.stage for block in problem.blocks if name in block.devices) for name in rows}
    runs = [
        (block, name, float(start), str(n))
        for block in problem.blocks
        for name in block.devices
        for n, start in enumerate(plan.starts[block.id])
    ]
    end = until or max(start + block.time for block, _, start, _ in runs)
    for block, name, start, number in runs:
        colour = PHASES[COLOUR_OF[block.kind]]
        colour = colour if block.stage == first_stage[name] else pale(colour)
        draw_bar(axes, rows[name], start, start + block.time, end, colour, (number,))
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    set_time(axes, end)
    axes.set_title(title, loc="left", pad=ABOVE_LEGEND)


def pale(colour):
    return to_hex([PALE + (1 - PALE) * part for part in to_rgb(colour)])


def draw_kinds(figure, kinds, more=()):
    """The legend of schedules with these kinds of passes, below them; `more` handles follow."""
    handles = [Patch(color=PHASES[COLOUR_OF[kind]], label=f"{kind}: {KIND_NAMES[kind]}") for kind in kinds]
    figure.legend(handles=[*handles, *more], loc="outside lower center", ncols=5)


def is_secret(value, digest):
    """Is this the number, to six digits, whose hash that is? So a check need not contain its answer."""
    return sha256(f"{value:.6g}".encode()).hexdigest().startswith(digest)


def mismatch(where, expected, got, hint=""):
    """What a check says of an answer: what was expected, what came, and where to look."""
    return f"{where}: expected {_short(expected)}, got {_short(got)}" + (f"; {hint}" if hint else "")


def agree(where, got, expected, hint=""):
    """Refuses what differs from what is expected by more than rounding."""
    numbers = isinstance(got, Real) and isinstance(expected, Real)
    alike = math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-9) if numbers else got == expected
    assert alike, mismatch(where, expected, got, hint)


def _short(value):
    if value is None:
        return "nothing"
    number = isinstance(value, Real) and not isinstance(value, int)
    return f"{float(value):.6g}" if number else str(value)


class NotYetRightError(AssertionError):
    """What a check says of a wrong answer. A notebook shows it alone: the lines of a check hold the solution."""

    def _render_traceback_(self):
        """Called by IPython in place of its own traceback."""
        return [f"Not yet: {self}"]


def asks(example):
    """Of a check: answers must have the shape of the example that stands in its call, and functions must answer.

    Whatever is wrong, the check says so in a sentence, without the lines of its own code.
    """
    shapes = ast.parse(f"check({example})").body[0].value
    shapes = [*shapes.args, *(keyword.value for keyword in shapes.keywords)]

    def of(check):
        @wraps(check)
        def checked(*answers, **named):
            given = [*answers, *named.values()]
            wanted = f"{check.__name__}({example})"
            cannot_try = mismatch(
                wanted,
                "an answer that can be tried",
                ", ".join(map(_answer_given, given)),
                "are its kind and its size what the exercise asks for?",
            )
            try:
                assert len(given) == len(shapes), mismatch(
                    wanted, "an answer for each place", f"{len(given)} of {len(shapes)}"
                )
                heard = [_heard(shape, answer, wanted) for shape, answer in zip(shapes, given, strict=True)]
                return check(*heard[: len(answers)], **dict(zip(named, heard[len(answers) :], strict=True)))
            except Exception as error:  # only what checks say is for readers (`mismatch`)
                told = isinstance(error, AssertionError) and ": expected " in str(error)
                sentence = str(error) if told else cannot_try
            raise NotYetRightError(sentence)

        return checked

    return of


def _answer_given(answer):
    return "your function" if callable(answer) else repr(answer)


def _plain(answer):
    """The answer with whole numbers as such, also those that are written as 27.0 or come from NumPy."""
    if hasattr(answer, "tolist"):
        answer = answer.tolist()
    if isinstance(answer, list | tuple | set) and type(answer) in (list, tuple, set):
        return type(answer)(map(_plain, answer))
    whole = isinstance(answer, Real) and not isinstance(answer, bool) and math.isfinite(answer)
    return int(answer) if whole and answer == int(answer) else answer


def _heard(shape, answer, wanted):
    """The answer, if it has the shape, with functions that must give a value."""
    answer = _plain(answer)
    if isinstance(shape, ast.Lambda):
        names = [argument.arg for argument in shape.args.args]
        function = f"a function of {', '.join(names)}"
        assert callable(answer), mismatch(wanted, function, repr(answer))
        try:
            inspect.signature(answer).bind(*names)
        except TypeError as error:
            raise AssertionError(mismatch(wanted, function, "another function", str(error))) from None
        return _answering(answer, wanted)
    if isinstance(shape, ast.Tuple | ast.List | ast.Set):
        there = hasattr(answer, "__iter__") and not isinstance(answer, str | dict)
        assert there, mismatch(wanted, "several answers", repr(answer))
        if any(isinstance(part, ast.Lambda) for part in shape.elts) and len(answer) == len(shape.elts):
            return tuple(_heard(part, one, wanted) for part, one in zip(shape.elts, answer, strict=True))
        return answer
    if isinstance(shape, ast.Call):
        kind = shape.func.attr
        assert type(answer).__name__ == kind, mismatch(wanted, f"a {kind}", repr(answer))
    if isinstance(shape, ast.Constant):
        kind = str if isinstance(shape.value, str) else Real
        fits = isinstance(answer, kind) and not isinstance(answer, bool)
        fits = fits and (kind is str or math.isfinite(answer))
        assert fits, mismatch(wanted, "a text" if kind is str else "a number", repr(answer))
    return answer


def _answering(function, wanted):
    @wraps(function)
    def answering(*arguments):
        try:
            value = function(*arguments)
        except Exception as error:  # of the reader's own code, which only its name helps to mend
            got = f"{type(error).__name__} ({error})".splitlines()[0]
            raise AssertionError(mismatch(wanted, "a value of your function", got)) from None
        assert value is not None and value is not ..., mismatch(wanted, "a value of your function", value)  # noqa: PT018
        return value

    return answering
