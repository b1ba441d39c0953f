"""The inner problem under 1F1B: where to cut a row of units, and what each stage computes again.

Plain arrays, which know nothing of models: whoever has times and bytes of units makes them. What is minimised is the
makespan of the simulated schedule. `pipeline_kernel` has the bounds and the search; this module speaks to it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...instances.base.compiled import compiled

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

# The most sets of last stages that one search looks at.
MOST_NODES = 20_000
# Plain Python looks at so many intervals of all stages in a tenth of a second.
BRIEF_INTERVALS = 50_000


@dataclass(frozen=True, slots=True)
class Intervals:
    """Sums over intervals of units, [first, behind the last]; those that depend on the word are [word, first,
    behind the last]."""

    forward_seconds: Array
    backward_seconds: Array
    """Seconds of the backward pass; infinite where a stage may not have this word."""
    fixed_bytes: Array
    stash_bytes: Array
    tail_seconds: Array

    @property
    def units(self) -> int:
        return int(self.forward_seconds.shape[0]) - 1

    def of_word(self, word: int) -> Intervals:
        """The same sums with one word alone."""
        one = slice(word, word + 1)
        return replace(
            self,
            backward_seconds=self.backward_seconds[one],
            fixed_bytes=self.fixed_bytes[one],
            stash_bytes=self.stash_bytes[one],
        )


@dataclass(frozen=True)
class Pipeline:
    """Stages for a row of units under 1F1B, one chunk on each rank."""

    intervals: Intervals
    stages: int
    micro_batches: int
    memory_bytes: float
    delays: tuple[float, ...]
    """Seconds of a message between each two stages that follow each other."""
    alike: bool = True
    """Do all stages have the same word?"""

    @cached_property
    def flights(self) -> Any:
        """Micro-batches of which each stage keeps the stash at once."""
        import numpy as np

        return np.minimum(self.micro_batches, self.stages - np.arange(self.stages)).astype(np.float64)

    @cached_property
    def down(self) -> Any:
        """Seconds of messages from the first stage to each stage."""
        import numpy as np

        return np.concatenate(([0.0], np.cumsum(self.delays[: self.stages - 1])))


@dataclass(frozen=True, slots=True)
class Best:
    """What is known of an inner problem. None: no layout is known, or none below the cut-off was looked for."""

    value: float | None
    bound: float
    """No layout is faster; infinite where none fits."""
    layout: tuple[int, ...] = ()
    words: tuple[int, ...] = ()
    """The number of the word of each stage."""
    nodes: int = 0


def is_long(units: int, stages: int) -> bool:
    """Is a row too long for plain Python?"""
    return units**2 * stages > BRIEF_INTERVALS


def solve(
    pipeline: Pipeline, cutoff: float = float("inf"), tolerance: float = 1e-12, most_nodes: int = MOST_NODES
) -> Best:
    """The best layout and words.

    Parameters
    ----------
    pipeline : Pipeline
        What is to be cut.
    cutoff : float
        Only what is faster is looked for.
    tolerance : float
        The relative gap that is good enough.
    most_nodes : int
        The most nodes of the search for each word; 0: a first layout and its bound; negative: only bounds.
    """
    if pipeline.stages > pipeline.intervals.units:
        return Best(None, float("inf"))
    words = pipeline.intervals.backward_seconds.shape[0]
    if not pipeline.alike:
        return _with_words(pipeline, _plan(pipeline, pipeline.intervals, cutoff, tolerance, most_nodes))
    best = Best(None, float("inf"))
    bounds = [_plan(pipeline, pipeline.intervals.of_word(w), cutoff, tolerance, -1).bound for w in range(words)]
    for word in sorted(range(words), key=bounds.__getitem__):
        limit = cutoff if best.value is None else min(cutoff, best.value)
        answer = Best(None, bounds[word])
        if most_nodes >= 0 and bounds[word] < limit * (1 - tolerance):
            answer = _plan(pipeline, pipeline.intervals.of_word(word), limit, tolerance, most_nodes)
        best = _better(best, replace(answer, words=(word,) * pipeline.stages))
    return best


def _better(one: Best, other: Best) -> Best:
    """The better layout of the two, with the weaker bound, which holds for both."""
    bound, nodes = min(one.bound, other.bound), one.nodes + other.nodes
    if other.value is not None and (one.value is None or other.value < one.value):
        one = other
    return replace(one, bound=bound if one.value is None else min(bound, one.value), nodes=nodes)


def _plan(pipeline: Pipeline, intervals: Intervals, cutoff: float, tolerance: float, most_nodes: int) -> Best:
    from . import pipeline_kernel

    brief = not is_long(intervals.units, pipeline.stages)
    value, bound, layout, nodes = compiled(pipeline_kernel, "plan_row", meanwhile=brief)(
        pipeline.stages,
        pipeline.micro_batches,
        tuple(getattr(intervals, entry.name) for entry in fields(intervals)),
        pipeline.down,
        pipeline.flights,
        float(pipeline.memory_bytes),
        float(cutoff),
        float(tolerance),
        most_nodes,
    )
    if value == float("inf"):
        return Best(None, float(bound), nodes=int(nodes))
    return Best(float(value), float(bound), tuple(int(count) for count in layout), (), int(nodes))


def _with_words(pipeline: Pipeline, best: Best) -> Best:
    """The layout with the fastest word that fits each stage."""
    if best.value is None:
        return best
    intervals, start, words = pipeline.intervals, 0, []
    for k, count in enumerate(best.layout):
        at = (slice(None), start, start + count)
        seconds = intervals.backward_seconds[at].copy()
        need = intervals.fixed_bytes[at] + pipeline.flights[k] * intervals.stash_bytes[at]
        seconds[need > pipeline.memory_bytes] = float("inf")
        words.append(int(seconds.argmin()))
        start += count
    return replace(best, words=tuple(words))
