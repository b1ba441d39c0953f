"""Memory and time of the ranks of one configuration, as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from ...instances.base.quantities import GIB
from ...instances.training.lengths import mean_over_tokens, slowest, spread
from ...instances.training.referee import ConfigurationEvaluation
from ..console import MAX_DEVICES_DRAWN, draw_rows, put
from ..words import amount, is_noise, percent, plain, several

# Short titles of columns for a terminal.
SHORT_TITLES = {"gradients": "grads", "activations": "acts", "recomputation": "again"}
SHORT_TITLES |= {"pipeline": "sending", "idle": "waiting"}
WAITING = "sending: time that messages between stages add to the iteration; waiting: all other idle time"
# What a rank spends its time on, in the order of the tables.
SPENT = (
    *("products", "attention", "memory", "measured", "recomputation", "host"),
    *("tensor", "context", "expert", "pipeline", "data", "optimizer", "idle"),
)


def gib(amount_bytes: float) -> str:
    return f"{amount_bytes / GIB:.2f} GiB"


def draw_ranks(own: ConfigurationEvaluation) -> None:
    """Print memory and time in one row for each pipeline stage, whose ranks are alike."""
    limit, whole, ranks = own.limit_bytes, own.timing.seconds, own.timing.ranks
    memory, each = own.memory[:MAX_DEVICES_DRAWN], own.plan.degrees.stage_ranks
    pools, sorts = own.problem.pools, own.problem.sorts(own.plan.degrees.pipeline, own.plan.first_pool)
    names = ["a GPU"] if len(pools) == 1 else [pool.gpu.name for pool in pools]
    limits = [f"{name} has {(pool.memory_bytes or 0) / GIB:.2f}" for name, pool in zip(names, pools, strict=True)]
    put("GiB of memory for one rank of each stage" + f" ({', '.join(limits)})" * (limit is not None), style="bold")
    parts = tuple(own.memory[0].parts)
    rows = [
        (
            rank.rank,
            _ranks_of(rank.rank, each),
            *([pools[sorts[rank.rank]].gpu.name] if len(pools) > 1 else []),
            *(f"{amount / GIB:.2f}" for amount in (*(rank.parts[name] for name in parts), rank.bytes)),
            *([] if rank.limit is None else [f"{100 * rank.full:.0f}%"]),
        )
        for rank in memory
    ]
    sort = ["GPU"] * (len(pools) > 1)
    titles = ("stage", "ranks", *sort, *_short_titles(parts), "sum", *(() if limit is None else ("full",)))
    draw_rows(titles, rows, "stage,ranks,GPU", [i for i, rank in enumerate(memory) if rank is own.fullest])
    left = len(own.memory) - len(memory)
    more = f"... and {left} more stages" if left > 0 else ""
    put(more)
    if reserve := own.problem.reserve_bytes:
        excluded = f"torch.cuda.max_memory_allocated excludes the reserve (assumed: {gib(reserve)})"
        put(f"sum: as reported by nvidia-smi; {excluded}")
    put("seconds per iteration for one rank of each stage", style="bold")
    spent = [name for name in SPENT if any(getattr(rank, name) for rank in ranks)]
    seconds = [[getattr(rank, name) for name in spent] for rank in ranks[:MAX_DEVICES_DRAWN]]
    times = [(i, *("0" if is_noise(s / whole) else plain(s, 3) for s in own)) for i, own in enumerate(seconds)]
    draw_rows(("stage", *_short_titles(spent)), times, "stage")
    put(more, WAITING if "pipeline" in spent else "", _uneven(own))


def _uneven(own: ConfigurationEvaluation) -> str:
    """Of packed documents: how much less attention does, and how uneven that is, which no seconds contain."""
    problem, plan = own.problem, own.plan
    if not problem.lengths:
        return ""
    share = mean_over_tokens(problem.lengths, problem.sequence, float) / problem.sequence
    one = spread(problem.lengths, problem.sequence) / math.sqrt(plan.micro_batch)
    late = slowest(one / math.sqrt(own.micro_batches), plan.degrees.data)
    longest = max(rank.attention for rank in own.timing.ranks)
    return (
        f"packed documents: attention does {percent(share)} of its work on whole sequences, and this varies by "
        f"{percent(one)} between micro-batches. The slowest of {several(plan.degrees.data, 'data-parallel rank')} is "
        f"expected to take {amount(late * longest, 's', 2)} longer than the mean, which the seconds above leave out."
    )


def _short_titles(names: Iterable[str]) -> Iterator[str]:
    return (SHORT_TITLES.get(name, name) for name in names)


def _ranks_of(stage: int, each: int) -> str:
    first = stage * each
    return str(first) if each == 1 else f"{first}-{first + each - 1}"
