"""How long one iteration takes, and nothing else: iterations of many passes are simulated by machine code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.compiled import compiled, repays_loading
from . import kernel
from .engine import run
from .model import Pipeline

# Passes from which loading the compiled loop pays off.
COMPILED_FROM = 20_000


def iteration_time(pipeline: Pipeline) -> float:
    """The time of an iteration, the same to the last bit as `run` computes it.

    Raises `DeadlockError` where the stages wait for each other.
    """
    passes = sum(len(order) for stage in pipeline.stages for order in stage.orders)
    if pipeline.shared or pipeline.times or not repays_loading(passes, COMPILED_FROM):
        return run(pipeline).iteration
    return compiled_iteration_time(pipeline)


def compiled_iteration_time(pipeline: Pipeline) -> float:
    """The time of an iteration by machine code, even where loading that code takes longer than running it repays."""
    import numpy as np

    stages = pipeline.stages
    workers = [(x, order) for x, stage in enumerate(stages) for order in stage.orders]
    counts = [pipeline.passes(x) for x in range(len(stages))]
    ends = np.full((2, sum(counts)), -1.0)
    done = compiled(kernel, "run_passes")(
        np.array([x for x, _ in workers]),
        _offsets(len(order) for _, order in workers),
        np.concatenate([np.array(order, dtype=np.int64) for _, order in workers]),
        np.array([stage.micro_batch for stage in stages]),
        np.array([stage.replicas for stage in stages]),
        np.array([[stage.forward for stage in stages], [stage.backward for stage in stages]], dtype=float),
        _offsets(counts),
        _table(len(stages), [(d.target, d.source, d.forward_delay) for d in pipeline.dependencies]),
        _table(len(stages), [(d.source, d.target, d.backward_delay) for d in pipeline.dependencies]),
        ends,
    )
    if not done:
        return run(pipeline).iteration  # raises, with the circle in words
    last = np.maximum.reduceat(ends.max(axis=0), _offsets(counts)[:-1])
    return float(max(end + stage.synchronisation for end, stage in zip(last, stages, strict=True)))


def _offsets(counts: Iterable[int]) -> Any:
    import numpy as np

    return np.concatenate([[0], np.cumsum(list(counts))]).astype(np.int64)


def _table(count: int, entries: list[tuple[int, int, float]]) -> tuple[Any, Any, Any]:
    """Entries (stage, other stage, delay) as three arrays, sorted by stage: where the entries of each stage begin, the
    other stages, and the delays."""
    import numpy as np

    entries = sorted(entries)
    offsets = _offsets(sum(x == stage for x, _, _ in entries) for stage in range(count))
    others = np.array([y for _, y, _ in entries], dtype=np.int64)
    return offsets, others, np.array([delay for _, _, delay in entries], dtype=float)
