"""A run that somebody made: a configuration, the seconds of an iteration and the peak of a GPU's memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...instances.base.errors import InputError
from ...instances.base.quantities import GIB
from ...instances.physics.efficiencies import Efficiencies
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee.memory import memory_of_ranks
from ...instances.training.referee.seconds import timing_of

# A measured amount so many times above or below its prediction is no run of this configuration: another unit, or
# another model.
MOST_TIMES = 100.0
# Units that people write in place of seconds and of GiB, and how many of each make one of these.
INSTEAD_OF_SECONDS = (("milliseconds", 1e3), ("microseconds", 1e6))
INSTEAD_OF_GIB = (("MiB", 2.0**10), ("KiB", 2.0**20), ("bytes", 2.0**30))


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What was run, and what came of it; None: that was not measured."""

    problem: TrainingProblem
    plan: Configuration
    seconds: float | None
    """Seconds of one iteration; None: the run has no time."""
    peak_bytes: float | None = None
    """Allocated at most on the fullest GPU, without what the driver takes."""
    name: str = "run"
    told: tuple[str, ...] = ()
    """Sentences on how it was read."""

    def predicted_seconds(self, efficiencies: Efficiencies) -> float:
        """Seconds of an iteration by the model with these efficiencies."""
        return timing_of(self.problem.replace(efficiencies=efficiencies), self.plan).seconds

    def predicted_peak(self) -> float:
        """Bytes allocated on the fullest rank, without the reserve, which no framework counts."""
        ranks = memory_of_ranks(self.problem, self.plan)
        return max(sum(size for part, size in rank.parts.items() if part != "reserve") for rank in ranks)

    def check_plausible(self, by_hand: bool) -> None:
        """Raise an `InputError` for an amount that no run of this configuration can have.

        `by_hand`: somebody wrote the amounts down, perhaps in other units.
        """
        if self.seconds is not None:
            predicted = self.predicted_seconds(self.problem.efficiencies)
            _check_near("seconds", self.seconds, predicted, "s", by_hand * INSTEAD_OF_SECONDS)
        if self.peak_bytes is not None:
            _check_near(
                "peak_gib", self.peak_bytes / GIB, self.predicted_peak() / GIB, "GiB", by_hand * INSTEAD_OF_GIB
            )


def _check_near(
    column: str, value: float, predicted: float, unit: str, others: Iterable[tuple[str, float]]
) -> None:
    """Refuse an amount that is far from its prediction, with the unit that it seems to have."""
    times = value / predicted
    if 1 / MOST_TIMES <= times <= MOST_TIMES:
        return
    problem = f"is {value:.6g}, and this configuration is predicted to take {predicted:.3g} {unit}"
    guess = next((own for own in others if 0.1 <= times / own[1] <= 10), None)
    if guess is None:
        remedy = "give what was measured, or a model, a batch and GPUs that are those of the run"
    else:
        name, count = guess
        problem += f"; these look like {name}"
        remedy = f"divide the column by {count:.0f}"
    raise InputError(column, problem, remedy)
