"""Degrees in columns: what the costs of a unit depend on, for many configurations at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem

if TYPE_CHECKING:
    import numpy as np

    Column = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Keys:
    """One row for each choice; neither stages nor data-parallel ranks change what one micro-batch costs a rank."""

    tensor: Column
    context: Column
    expert: Column
    expert_tensor: Column
    micro_batch: Column

    @classmethod
    def of(cls, rows: Any) -> Keys:
        """From rows of (tensor, context, expert, expert tensor, micro-batch)."""
        import numpy as np

        table = np.asarray(rows, np.int64).reshape(-1, 5)
        return cls(*(table[:, i].copy() for i in range(5)))

    @classmethod
    def of_plan(cls, plan: Configuration) -> Keys:
        d = plan.degrees
        return cls.of([(d.tensor, d.context, d.expert, d.expert_tensor, plan.micro_batch)])

    def tokens(self, problem: TrainingProblem) -> Any:
        """Tokens of one micro-batch on one context rank."""
        return problem.sequence * self.micro_batch / self.context

    def tokens_between(self, problem: TrainingProblem) -> Any:
        """The same on one tensor rank between products."""
        tokens = self.tokens(problem)
        return tokens / self.tensor if problem.sequence_parallel else tokens

    def key_value_heads(self, problem: TrainingProblem) -> Any:
        import numpy as np

        attention = problem.model.attention
        assert attention is not None, "asked of shapes alone"
        return np.maximum(1.0, attention.key_value_heads / self.tensor)
