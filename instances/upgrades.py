"""A problem on a slightly better cluster: one more device, more memory, faster links, for problems of every kind.

Every plan of a problem is also a plan of each variant, at the same cost or less, so that no variant has a worse
optimum. (Stagings that are judged by the crude hierarchy are the exception: it counts memory by the devices there are.)
"""

from __future__ import annotations

from dataclasses import dataclass

from .base.checks import check_positive
from .base.step import Step
from .registry import Problem, kind_of

# How much more memory and bandwidth a variant has unless the caller says otherwise.
GIGABYTE = 1e9
TENTH = 0.1


@dataclass(frozen=True, slots=True)
class Variant:
    """What is better, in words, and the problem with it."""

    change: str
    problem: Problem


def variants(
    problem: Problem, memory_bytes: float = GIGABYTE, bandwidth_share: float = TENTH
) -> tuple[Variant, ...]:
    """The problem with one device more (of each type, or on each level), more memory, or faster links by this share.

    Memory without a limit and transfers that take no time have no variant.
    """
    for name, value in (("memory_bytes", memory_bytes), ("bandwidth_share", bandwidth_share)):
        check_positive(name, value)
    amount = f"{memory_bytes / GIGABYTE:g} GB" if memory_bytes >= 1e-3 * GIGABYTE else f"{memory_bytes:g} B"
    faster = f"{100 * bandwidth_share:g} % more bandwidth"
    step = Step(memory_bytes, f"{amount} more memory", 1 + bandwidth_share, faster)
    upgrades = kind_of(problem).upgrades
    changes = () if upgrades is None else upgrades(problem, step)
    return tuple(Variant(change, better) for change, better in changes)
