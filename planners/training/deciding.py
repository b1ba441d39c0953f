"""Which configurations are worth a run, and when no other can be faster: what measured runs prove.

The form of the model is trusted within a share `rho`, its efficiencies only within a box, and the iteration may be off
by a factor that all configurations share. A configuration is excluded where no point of the box that agrees with all
runs makes it faster than the fastest run by more than `delta`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem

Outcome = Literal["measured", "out of memory", "failed"]


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one run of a candidate."""

    candidate: int
    """Its number among the candidates."""
    outcome: Outcome
    seconds: float | None = None
    """Of one iteration, a median over iterations; None unless it was measured."""
    peak_bytes: float | None = None
    """Allocated at most on the fullest GPU; None: that is not known."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be decided, and what is believed before any run."""

    problem: TrainingProblem
    candidates: tuple[Configuration, ...]
    delta: float = 0.02
    """The share by which the answer may be slower than the fastest."""
    rho: float = 0.07
    """The share by which the form of the model may be wrong for one configuration."""
    common: float = 0.5
    """The logarithm of the factor that all times share is at most so much, up and down."""
    memory_rho: float = 0.05
    """The share by which the bytes of one configuration may be wrong."""
    memory_common: float = 0.2
    """The share by which the bytes of all of them may be wrong."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known after some runs."""

    best: int | None
    """The fastest candidate that was measured."""
    regret: float | None
    """No candidate is faster than it by more than this share of its time; None before the first run."""
    certified: bool
    """Is the regret at most `delta`?"""
    may: tuple[int, ...]
    """Candidates without a run that may still be faster by more than `delta`."""
    excluded: Mapping[int, str]
    """Every other candidate without a run, with what excludes it."""
    next: int | None
    """The candidate to run next; None where nothing is left."""
    why: str
    """A sentence: why this one."""
    rho: float
    """The share that was used: greater than asked for where runs contradict it."""
    notes: tuple[str, ...] = ()
    """Sentences on runs that contradict the others."""
    predicted: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """By candidate the least and the greatest seconds that agree with all runs."""


def verdict(question: Question, trials: Sequence[Trial]) -> Verdict:
    """What these runs prove, and which one comes next."""
    raise NotImplementedError
