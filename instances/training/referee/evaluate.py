"""What follows from a configuration: memory of every rank, the time of an iteration, and what fills the memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...base.errors import UsageError
from ...base.fields import plain_fields
from ...base.quantities import GIB
from ..plan import Configuration
from ..problem import TrainingProblem
from ..scope import Fit, Margin, fit_of
from .memory import RankMemory, memory_of_ranks
from .seconds import Timing, timing_of
from .verify import shape_faults


@dataclass(frozen=True)
class ConfigurationEvaluation:
    """Memory and time of a configuration, as the referee counts them."""

    plan: Configuration
    micro_batches: int
    memory: tuple[RankMemory, ...]
    """The memory of the ranks of each pipeline stage."""
    limit_bytes: float | None
    problem: TrainingProblem

    @cached_property
    def timing(self) -> Timing:
        """Simulated when it is first asked for: whoever wants bytes alone does not wait for a long pipeline."""
        return timing_of(self.problem, self.plan)

    @property
    def fullest(self) -> RankMemory:
        return max(self.memory, key=lambda rank: rank.bytes)

    def fit(self, error: float | Margin) -> Fit:
        """Whether the fullest rank fits, where its bytes may be misjudged by the share or margin `error`."""
        return fit_of(self.fullest.bytes, self.limit_bytes, error)

    @property
    def limited_by(self) -> str:
        """The fullest stage and what most of its memory is for, in words."""
        full = self.fullest
        part = max(full.parts, key=lambda name: full.parts[name])
        return f"memory of stage {full.rank}: {full.bytes / GIB:.2f} GiB, most of it {part}"

    def to_json(self) -> dict[str, Any]:
        timing = self.timing
        return {
            "seconds": timing.seconds,
            "tokens_per_second_per_gpu": timing.tokens_per_second_per_gpu,
            "mfu": timing.mfu,
            "micro_batches": self.micro_batches,
            "ranks": [
                {
                    "rank": rank.rank * self.plan.degrees.stage_ranks,
                    "stage": rank.rank,
                    "bytes": rank.bytes,
                    "parts": dict(rank.parts),
                    "seconds": plain_fields(time),
                }
                for rank, time in zip(self.memory, timing.ranks, strict=True)
            ],
            "limited_by": self.limited_by,
        }


def evaluate_configuration(problem: TrainingProblem, plan: Configuration) -> ConfigurationEvaluation:
    """What a configuration holds and takes whose numbers go together, even if it breaks rules or does not fit.

    Raises
    ------
    UsageError
        The numbers do not go together, or the framework has no such ZeRO stage.
    """
    for fault in shape_faults(problem, plan):
        raise UsageError(f"The configuration cannot be evaluated. {fault}")
    return ConfigurationEvaluation(
        plan,
        plan.micro_batches(problem.batch),
        memory_of_ranks(problem, plan),
        problem.memory_bytes,
        problem,
    )
