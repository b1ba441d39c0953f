"""What several lessons share: pictures of pipelines, of schedules and of memory, and answers that are kept as hashes.

Light is forward, dark is backward, in every picture. In those of schedules the colour is the kind of pass, as in all of
pipeplan's own; elsewhere it is the batch.
"""

from __future__ import annotations

from hashlib import sha256

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from pipeplan.instances.chain.referee.memory import TERMS
from pipeplan.instances.chain.referee.unrolled import unroll
from pipeplan.instances.schedule.problem import KIND_NAMES
from pipeplan.show.views.schedule import COLOUR_OF, PALETTE

COLOURS = plt.get_cmap("tab10").colors
TERM_COLOURS = dict(zip(TERMS, ("#bbbbbb", "#4477aa", "#ee6677", "#228833", "#ccbb44"), strict=True))
LIGHT, DARK = 0.45, 1.0
PALE = 0.55
"""So much white is in the colour of a device's second stage, and of its later ones."""


def draw_pipeline(axes, problem, plan, until, title="", *, steady=False, links=False, label="name", colour="batch"):
    """A row for each GPU, and each link if asked for. `steady`: batches were there before time 0 as well.

    `label` and `colour` name what of a task is written on its bar and gives it its colour: name, batch or layer.
    """
    first = {"first_batch": None} if steady else {}
    works = [work for work in unroll(problem, plan, 0, until, **first) if links or work.resource.startswith("gpu")]
    rows = {name: row for row, name in enumerate(sorted({work.resource for work in works}))}
    for work in works:
        start, end = max(0, work.start), min(work.end, until)
        axes.broken_barh(
            [(start, end - start)],
            (rows[work.resource] - 0.4, 0.8),
            facecolor=COLOURS[getattr(work, colour) % 10],
            alpha=DARK if work.backward else LIGHT,
            edgecolor="white",
        )
        axes.text(
            (start + end) / 2,
            rows[work.resource],
            getattr(work, label),
            ha="center",
            va="center",
            fontsize=8,
            clip_on=True,
        )
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlim(0, until)
    axes.set_title(title, loc="left")


def draw_steps(axes, profile, period, amount, label, scale=1):
    """What `amount` reads off each instant of a period, as steps; times are divided by `scale`."""
    times = [instant.time / scale for instant in profile.instants] + [float(period) / scale]
    held = [amount(instant) for instant in profile.instants]
    axes.step(times, [*held, held[-1]], where="post", label=label)


def draw_terms(axes, amounts, names):
    """Bars of memory, one for each of `names`, the terms stacked; `amounts` has a `terms` for each bar."""
    below = [0.0] * len(names)
    for term, colour in TERM_COLOURS.items():
        heights = [getattr(entry.terms, term) for entry in amounts]
        axes.bar(names, heights, bottom=below, label=term, color=colour)
        below = [base + height for base, height in zip(below, heights, strict=True)]


def draw_timeline(axes, simulation, names, title=""):
    """A simulated iteration: a row for each stage, the number of the micro-batch on each pass."""
    for row, stage in enumerate(simulation.stages):
        for task in stage.tasks:
            if task.end > task.start:
                other = {"synchronisation": "#888888"}.get(task.kind)
                shade = DARK if task.kind == "backward" else LIGHT
                axes.barh(
                    row, task.end - task.start, left=task.start, edgecolor="white",
                    color=other or COLOURS[task.micro_batch % 10], alpha=shade,
                )  # fmt: skip
                if other is None:
                    middle = (task.start + task.end) / 2
                    axes.text(middle, row, task.micro_batch, ha="center", va="center", fontsize=7)
    axes.set(yticks=range(len(names)), yticklabels=names, title=title, xlabel="time")
    axes.invert_yaxis()


def draw_schedule(axes, problem, plan, title="", until=None):
    """A row for each device, the number of the micro-batch on each pass; later stages of a device are paler."""
    rows = {device.name: row for row, device in enumerate(problem.devices)}
    first_stage = {name: min(block.stage for block in problem.blocks if name in block.devices) for name in rows}
    for block in problem.blocks:
        for name in block.devices:
            later = block.stage != first_stage[name]
            colour = pale(PALETTE[COLOUR_OF[block.kind]]) if later else PALETTE[COLOUR_OF[block.kind]]
            starts = [float(start) for start in plan.starts[block.id]]
            bars = [(start, block.time) for start in starts]
            axes.broken_barh(bars, (rows[name] - 0.42, 0.84), facecolor=colour, edgecolor="white", linewidth=0.6)
            for n, start in enumerate(starts):
                axes.text(
                    start + block.time / 2, rows[name], n, ha="center", va="center", fontsize=7,
                    color="black" if later else "white", clip_on=True,
                )  # fmt: skip
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, until)
    axes.set_title(title, loc="left", fontsize=10)


def pale(colour):
    return tuple(PALE + (1 - PALE) * part for part in to_rgb(colour))


def draw_kinds(figure, kinds, more=()):
    """The legend of schedules with these kinds of passes, below them; `more` handles follow."""
    handles = [Patch(color=PALETTE[COLOUR_OF[kind]], label=f"{kind}: {KIND_NAMES[kind]}") for kind in kinds]
    figure.legend(handles=[*handles, *more], loc="outside lower center", ncols=5, frameon=False)


def is_secret(value, digest):
    """Is this the number, to six digits, whose hash that is? So a check need not contain its answer."""
    return sha256(f"{value:.6g}".encode()).hexdigest().startswith(digest)
