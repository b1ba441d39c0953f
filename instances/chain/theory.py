"""Chains from the proofs and figures of Beaumont, Eyraud-Dubois and Shilova (2020), with their answers.

Where only a layer's whole time matters, half of it is the forward and half the backward task.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from ..base.errors import InputError
from .known_answers import KnownChain, Variant
from .problem import ChainProblem

PAPER = "Beaumont, Eyraud-Dubois and Shilova (2020)"


def halves(name: str, loads: Sequence[float], gpus: int, **more: Any) -> ChainProblem:
    """A chain without activations whose layers take these times, half forward and half backward."""
    half = tuple(load / 2 for load in loads)
    fields = {"weights": (0,) * len(loads), "time_unit": None, **more}
    return ChainProblem(half, half, (0,) * (len(loads) + 1), gpus=gpus, name=name, **fields)


def three_chain() -> KnownChain:
    """The smallest chain on which runs of layers are not enough."""
    problem = halves("three-chain", [1, 2, 1], gpus=2)
    return KnownChain(problem, {"general": 2, "contiguous": 3}, f"{PAPER}, section 4.2")


def family(k: int) -> KnownChain:
    """C_k (Theorem 1), times scaled by 2 k + 1 to be whole: runs of layers lose nearly a factor of 2."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 2:
        raise InputError("k", f"is {k}", "give a whole number of at least 2")
    scale = 2 * k + 1
    part = [k * scale, 1, (k - 1) * scale, 1]
    loads = part * k + [k * scale] + [1] * ((k - 2) * scale + 1) + [scale]
    problem = halves(f"theorem-1-k{k}", loads, gpus=2 * k + 1)
    answers: dict[Variant, float | None] = {"general": k * scale, "contiguous": (2 * k - 1) * scale + 1}
    return KnownChain(problem, answers, f"{PAPER}, Theorem 1 (k = {k})")


def lemma_2() -> KnownChain:
    """With memory for weights only, no run of layers fits at all."""
    problem = halves(
        "lemma-2", [1, 1, 1], gpus=2, weights=(1, 2, 1), weight_copies=1, memory_mode="weights", memory_bytes=2
    )
    return KnownChain(problem, {"general": 2, "contiguous": None, "unlimited": 2}, f"{PAPER}, Lemma 2")


def lemma_3(pairs: int = 2, large: int = 5, memory: int = 3) -> KnownChain:
    """Runs of layers fit, but are worse by a factor that grows with the number of GPUs (`pairs` + 2)."""
    if pairs < 2 or memory < max(3, pairs) or large < 1:
        raise InputError("lemma_3", "has arguments outside the lemma", "give 2 <= pairs <= memory, 3 <= memory")
    loads = [1] * pairs + [large] * (pairs + 1)
    weights = [memory - 1] * pairs + [memory] + [1] * pairs
    problem = halves(
        f"lemma-3-{pairs}-{large}-{memory}", loads, gpus=pairs + 2, weights=weights, weight_copies=1,
        memory_mode="weights", memory_bytes=memory,
    )  # fmt: skip
    return KnownChain(problem, {"general": large + 1, "contiguous": pairs * large}, f"{PAPER}, Lemma 3")


def theorem_2(numbers: Sequence[int] = (6, 6, 8, 6, 7, 7)) -> KnownChain:
    """3 m numbers of sum m V, each between V/4 and V/2: period V on m GPUs just when they split into triples."""
    groups, target = _triples(numbers)
    length = len(numbers)
    problem = ChainProblem(
        tuple(numbers), (0,) * length, (0,) * (length + 1), (0,) * length, gpus=groups, time_unit=None,
        name=f"theorem-2-{'-'.join(map(str, numbers))}",
    )  # fmt: skip
    answers: dict[Variant, float | None] = {"general": target} if splits_into_triples(numbers, target) else {}
    return KnownChain(problem, answers, f"{PAPER}, Theorem 2")


def theorem_3(numbers: Sequence[int] = (6, 6, 8, 6, 7, 7), printed_sizes: bool = False) -> KnownChain:
    """A fixed allocation on two GPUs: period 2 m V just when the numbers split into triples of sum V.

    The sizes as printed lie one layer too far back and leave the second GPU room that breaks the reduction.
    """
    m, target = _triples(numbers)
    layers = 6 * m
    ones = range(4 * m + 1, 6 * m + 1) if printed_sizes else range(4 * m, 6 * m)
    sizes = tuple(int(edge in ones) for edge in range(layers + 1))
    problem = ChainProblem(
        (*[target] * m, *numbers, *[target] * (2 * m)), (0,) * layers, sizes, (0,) * layers, gpus=2, memory_bytes=m,
        memory_mode="inputs", name=f"theorem-3-{'-'.join(map(str, numbers))}{'-printed' * printed_sizes}",
        time_unit=None,
    )  # fmt: skip
    on_first = {*range(m + 1, 4 * m + 1), *range(4 * m + 2, layers + 1, 2)}
    allocation = tuple(0 if layer in on_first else 1 for layer in range(1, layers + 1))
    answers: dict[Variant, float | None] = {"fixed": 2 * m * target} if splits_into_triples(numbers, target) else {}
    return KnownChain(problem, answers, f"{PAPER}, Theorem 3", allocation)


def _triples(numbers: Sequence[int]) -> tuple[int, int]:
    """How many triples there should be, and the sum of each."""
    groups, rest = divmod(len(numbers), 3)
    total = sum(numbers)
    if rest or not groups or total % groups:
        raise InputError(
            "numbers", "are no 3-partition problem", "give 3 m whole numbers with a sum divisible by m"
        )
    target = total // groups
    if any(not target < 4 * number < 2 * target for number in numbers):
        raise InputError("numbers", f"are not all between {target / 4:g} and {target / 2:g}", "give such numbers")
    return groups, target


def splits_into_triples(numbers: Sequence[int], target: int) -> bool:
    """Can the numbers be divided into triples of this sum? By trying all, the first number always included."""
    if not numbers:
        return True
    first, *others = numbers
    for i, j in combinations(range(len(others)), 2):
        if first + others[i] + others[j] == target:
            rest = [number for k, number in enumerate(others) if k not in (i, j)]
            if splits_into_triples(rest, target):
                return True
    return False


def figure_4() -> KnownChain:
    """Two batches per period reach the load of GPU 1, one batch does not."""
    times = (3, 2, 2, 2)
    problem = ChainProblem(
        times, times, (1, 2, 2, 4, 0), (0,) * 4, gpus=4, memory_bytes=4, memory_mode="inputs", name="figure-4",
        time_unit=None,
    )  # fmt: skip
    answers: dict[Variant, float | None] = {"general": 8, "contiguous": 8, "unlimited": 6, "two-batches": 6}
    return KnownChain(problem, answers, f"{PAPER}, Fig. 4")


def figure_4_reserved() -> KnownChain:
    """With outputs and slots counted, F_4 alone needs 8 bytes."""
    problem = figure_4().problem.replace(memory_mode="reserved", name="figure-4-reserved")
    return KnownChain(problem, {"general": None, "contiguous": None}, f"{PAPER}, Fig. 4, with all terms")


def figure_5() -> KnownChain:
    """Two batches per period take 8, one takes 5: here on two GPUs, with layers 1 and 3 together."""
    times = (1, 2, 1)
    problem = ChainProblem(
        times, times, (2, 3, 2, 0), (0,) * 3, gpus=2, memory_bytes=6, memory_mode="inputs", name="figure-5",
        time_unit=None,
    )  # fmt: skip
    return KnownChain(problem, {"general": 5, "unlimited": 4, "two-batches": 4}, f"{PAPER}, Fig. 5")


def theory_chains() -> tuple[KnownChain, ...]:
    """One of each, small."""
    return (
        three_chain(), family(2), family(3), lemma_2(), lemma_3(), theorem_2(), theorem_3(), figure_4(),
        figure_4_reserved(), figure_5(),
    )  # fmt: skip
