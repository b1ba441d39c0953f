"""What several lessons share: pictures of pipelines and of memory, and answers that are kept as hashes.

Light is forward, dark is backward, in every picture.
"""

from __future__ import annotations

from hashlib import sha256

import matplotlib.pyplot as plt

from pipeplan.instances.chain.referee.unrolled import unroll
from pipeplan.show.palette import TERMS as TERM_COLOURS

COLOURS = plt.get_cmap("tab10").colors
LIGHT, DARK = 0.45, 1.0


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


def is_secret(value, digest):
    """Is this the number, to six digits, whose hash that is? So a check need not contain its answer."""
    return sha256(f"{value:.6g}".encode()).hexdigest().startswith(digest)
