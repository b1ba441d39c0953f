"""The table of what to run when nodes are lost."""

from __future__ import annotations

from collections.abc import Sequence

from ...instances.training.referee import ConfigurationEvaluation
from ...instances.training.words import words_of
from ...studies.configure.ladder import Rung, tokens_per_second
from ..console import draw_rows, put
from ..words import percent, several
from .training import memory_in_words, shortly

TITLES = (
    "nodes lost",
    "GPUs",
    "best configuration",
    "s",
    "tokens/s",
    "share",
    "fewer replicas",
    "s (fewer)",
    "tokens/s (fewer)",
    "share (fewer)",
)


def draw_ladder(rungs: Sequence[Rung], whole: ConfigurationEvaluation) -> None:
    """Print a row for each number of lost nodes; shares are of the tokens a second of all nodes."""
    all_tokens, each = tokens_per_second(whole), whole.problem.levels[0].count

    def rates(own: ConfigurationEvaluation | None) -> list[str]:
        if own is None:
            return ["", "", ""]
        tokens = tokens_per_second(own)
        return [f"{own.timing.seconds:.4g}", f"{tokens:,.0f}", percent(tokens / all_tokens)]

    put("when nodes are lost (s: per iteration; share: of the tokens/s with all nodes)", style="bold")
    rows = []
    for rung in rungs:
        best = "none" if rung.best is None else shortly(rung.best.plan)
        fewer = "none" if rung.fewer is None else _fewer(rung.fewer)
        rows.append((rung.lost, rung.devices, best, *rates(rung.best), fewer, *rates(rung.fewer)))
    draw_rows(TITLES, rows, "best configuration,fewer replicas")
    for rung in rungs:
        for what, own in (("best", rung.best), ("fewer replicas", rung.fewer)):
            if own is not None and rung.lost:
                put(
                    f"{several(rung.lost, 'node')} lost, {what}: --devices {own.problem.devices // each}x{each}x"
                    f'{own.problem.gpu.name} --batch {own.problem.batch} --judge "{words_of(own.plan)}"; '
                    f"{memory_in_words(own)}."
                )
    put(
        f"fewer replicas: {shortly(whole.plan)} with less data parallelism, and the largest batch that the replicas "
        "divide evenly. Left-over GPUs stay idle. The best configuration keeps the batch size.",
        "" if all(rung.finished for rung in rungs) else "A search was cut short: better configurations may exist.",
    )


def _fewer(own: ConfigurationEvaluation) -> str:
    return f"data={own.plan.degrees.data} batch={own.problem.batch}"
