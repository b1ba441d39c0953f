"""A problem on a slightly better cluster: one more device, more memory, faster links, for problems of every kind.

Every plan of a problem is one of its variants, at the same cost or less: none has a worse optimum. (The crude variant
of levels is the exception: it counts memory by the devices that there are.)
"""

from __future__ import annotations

from dataclasses import dataclass

from .base.checks import check_positive
from .base.step import Step
from .registry import Problem, kind_of

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
    """One more device (of each type, or on each level), so much more memory, links faster by this share.

    What the problem does not limit has no variant: memory without a limit, transfers that take no time.
    """
    for name, value in (("memory_bytes", memory_bytes), ("bandwidth_share", bandwidth_share)):
        check_positive(name, value)
    amount = f"{memory_bytes / GIGABYTE:g} GB" if memory_bytes >= 1e-3 * GIGABYTE else f"{memory_bytes:g} B"
    faster = f"{100 * bandwidth_share:g} % more bandwidth"
    step = Step(memory_bytes, f"{amount} more memory", 1 + bandwidth_share, faster)
    upgrades = kind_of(problem).upgrades
    changes = () if upgrades is None else upgrades(problem, step)
    return tuple(Variant(change, better) for change, better in changes)
