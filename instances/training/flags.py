"""A configuration from a framework's own flags or files: Megatron's, torchtitan's or DeepSpeed's.

Everything here is data: sizes are checked, and nothing that is read is run.
"""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Configuration
from .problem import TrainingProblem


@dataclass(frozen=True, slots=True)
class Read:
    """What a command line says."""

    configuration: Configuration
    framework: str
    """Whose flags they are."""
    understood: tuple[tuple[str, str], ...] = ()
    """Flags that decide something, with their values."""
    unknown: tuple[str, ...] = ()
    """Names of flags that say nothing to us."""
    contradictions: tuple[str, ...] = ()
    """Whole sentences: what the flags say of the model, the batch or the framework that the problem does not."""


def configuration_from_flags(problem: TrainingProblem, text: str) -> Read:
    """The configuration of a command line or a file; an `InputError` names the flag that is wrong."""
    raise NotImplementedError
