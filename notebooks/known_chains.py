"""Chains whose best periods are known: what the proofs and figures of the theory are about, and small ones that guard.

Lessons 3 and 4 compute with them, tests compare with their answers, and some are packaged. Answers may not be changed:
`tests/instances/chain/test_known_chains.py` finds them by trying everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.chain.problem import ChainProblem

Variant = Literal["general", "contiguous", "unlimited", "two-batches", "fixed", "exclusive"]

# The variants, in order: any allocation; a run of layers on each GPU; no memory limit; two batches per period; the
# allocation that comes with the chain; slots that are never overrun.
VARIANTS: tuple[Variant, ...] = get_args(Variant)


@dataclass(frozen=True)
class KnownChain:
    """A chain, and the shortest period per batch of each variant where it is known; None: no pattern fits."""

    problem: ChainProblem
    answers: Mapping[Variant, float | None]
    source: str
    allocation: tuple[int, ...] | None = None
    """The GPU of each layer, for the variant `fixed`."""
    printed: float | None = None
    """The answer of the model as it was printed, where that is wrong."""

    @property
    def name(self) -> str:
        return self.problem.name


# ---- theory ------------------------------------------------------------------------------------------
# Chains from the proofs and figures of Beaumont, Eyraud-Dubois and Shilova (2020), with their answers. Where only a
# layer's whole time matters, half of it is the forward and half the backward task.

PAPER = "Beaumont, Eyraud-Dubois and Shilova (2020)"


def halves(name: str, loads: Sequence[float], gpus: int, **more: Any) -> ChainProblem:
    """A chain without activations whose layers take these times, half forward and half backward."""
    half = tuple(load / 2 for load in loads)
    return _chain(name, half, half, (0,) * (len(loads) + 1), gpus, **more)


def _chain(
    name: str, forward: Sequence[int | float], backward: Sequence[int | float], activations: tuple[int, ...],
    gpus: int, weights: tuple[int, ...] | None = None, **more: Any,
) -> ChainProblem:  # fmt: skip
    """A chain whose times are in no unit; without weights, unless there are some."""
    weights = (0,) * len(forward) if weights is None else weights
    return ChainProblem(
        tuple(forward), tuple(backward), activations, weights, gpus=gpus, name=name, time_unit=None, **more
    )


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
    problem = _chain(
        f"theorem-2-{'-'.join(map(str, numbers))}", numbers, (0,) * length, (0,) * (length + 1), groups
    )
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
    name = f"theorem-3-{'-'.join(map(str, numbers))}{'-printed' * printed_sizes}"
    times = (*[target] * m, *numbers, *[target] * (2 * m))
    problem = _chain(name, times, (0,) * layers, sizes, 2, memory_bytes=m, memory_mode="inputs")
    on_first = {*range(m + 1, 4 * m + 1), *range(4 * m + 2, layers + 1, 2)}
    allocation = tuple(0 if layer in on_first else 1 for layer in range(1, layers + 1))
    answers: dict[Variant, float | None] = {"fixed": 2 * m * target} if splits_into_triples(numbers, target) else {}
    return KnownChain(problem, answers, f"{PAPER}, Theorem 3", allocation)


def _triples(numbers: Sequence[int]) -> tuple[int, int]:
    """Number of triples of a 3-partition problem, and the sum of each."""
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
    problem = _chain("figure-4", times, times, (1, 2, 2, 4, 0), 4, memory_bytes=4, memory_mode="inputs")
    answers: dict[Variant, float | None] = {"general": 8, "contiguous": 8, "unlimited": 6, "two-batches": 6}
    return KnownChain(problem, answers, f"{PAPER}, Fig. 4")


def figure_5() -> KnownChain:
    """Two batches per period take 8, one takes 5: here on two GPUs, with layers 1 and 3 together."""
    times = (1, 2, 1)
    problem = _chain("figure-5", times, times, (2, 3, 2, 0), 2, memory_bytes=6, memory_mode="inputs")
    return KnownChain(problem, {"general": 5, "unlimited": 4, "two-batches": 4}, f"{PAPER}, Fig. 5")


# Seven random chains on two GPUs, all terms counted, whose optima two models and a brute force agree on.


GOLDEN_SOURCE = "random instance; integer program, constraint model and brute force agree"

Row = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None, tuple[int, ...], int, int, int]

# Durations of tasks 1..2L, a_0..a_2L, transfer times, weights, memory, shortest period, the same without limit.
ROWS: tuple[Row, ...] = (
    ((1, 3, 3, 1, 3, 2, 3, 2), (4, 0, 4, 0, 3, 0, 4, 0, 4), None, (1, 2, 0, 0), 25, 11, 9),
    ((3, 1, 2, 2, 3, 1, 1, 1), (4, 3, 2, 2, 0, 2, 2, 3, 4), None, (1, 1, 0, 2), 24, 10, 7),
    ((3, 2, 3, 2, 1, 1, 1, 2), (2, 4, 2, 2, 2, 2, 2, 4, 2), None, (1, 0, 0, 0), 24, 10, 8),
    ((3, 1, 3, 1, 3, 3, 2, 2), (4, 1, 4, 4, 2, 4, 4, 1, 4), None, (2, 2, 1, 1), 34, 13, 9),
    ((2, 2, 1, 2, 2, 1), (2, 0, 4, 1, 4, 0, 2), (0, 1, 0, 1, 0), (2, 1, 1), 18, 7, 6),
    ((1, 1, 1, 2, 1, 1), (3, 2, 2, 2, 2, 2, 3), (1, 1, 0, 1, 1), (1, 2, 1), 28, 5, 4),
    ((2, 2, 2, 1, 2, 1), (3, 1, 2, 2, 2, 1, 3), (1, 1, 0, 1, 1), (1, 1, 0), 17, 7, 6),
)


def golden_chains() -> tuple[KnownChain, ...]:
    """The chains golden-1 to golden-7."""
    return tuple(_golden(number, row) for number, row in enumerate(ROWS, start=1))


def _golden(number: int, row: Row) -> KnownChain:
    durations, activations, transfers, weights, memory, period, unlimited = row
    layers = len(weights)
    times = durations[:layers], durations[: layers - 1 : -1]
    problem = _chain(
        f"golden-{number}", *times, activations, 2, weights, memory_bytes=memory, transfer_times=transfers
    )
    return KnownChain(problem, {"general": period, "unlimited": unlimited}, GOLDEN_SOURCE)


# Small chains on which errors of the published model show: one or more for each of E1 to E6 of our list.
#
# E1 co-location that is no equivalence; E2 shifts that may be negative; E3 transfer times on edges that stay on a GPU;
# E4 tasks without duration, whose order at the same instant is free; E5 one slot for a tensor that is needed for
# longer than a period; E6 the sizes in the proof of Theorem 3.


GUARD_SOURCE = "exposes an erratum of the published model"


def e1_overlap() -> KnownChain:
    """On one GPU nothing overlaps; as printed, layers 1 and 3 may."""
    problem = _chain("guard-e1", (1, 1, 1), (1, 1, 1), (0,) * 7, 1)
    return KnownChain(problem, {"general": 6}, f"{GUARD_SOURCE}: E1", printed=4)


def e1_load() -> KnownChain:
    """An example whose period, as printed, falls below the mean load of 8."""
    problem = _chain("guard-e1-load", (2, 3, 2, 1), (2, 3, 2, 1), (0,) * 9, 2)
    return KnownChain(problem, {"general": 8}, f"{GUARD_SOURCE}: E1", printed=7)


def e2_negative_shift() -> KnownChain:
    """The chain of Fig. 5: a period of 4 would take 8 bytes, which negative shifts of other layers hide."""
    problem = figure_5().problem.replace(name="guard-e2")
    return KnownChain(problem, {"general": 5}, f"{GUARD_SOURCE}: E2", printed=4)


def e3_phantom_transfer() -> KnownChain:
    """One GPU needs no transfers; as printed, they shift batches and the memory with them."""
    times = (1, 1, 1)
    problem = _chain("guard-e3", times, times, (1, 1, 1, 1), 1, memory_bytes=5, bandwidth=0.5)
    return KnownChain(problem, {"general": 6}, f"{GUARD_SOURCE}: E3", printed=11)


def e4_ties() -> KnownChain:
    """Layers 1 and 2 take no time and must share a GPU, since layer 3 fills the other one.

    While layer 3 works, both a_0 and a_1 are kept: 2 bytes, so nothing fits. With a free order at the instant at
    which F_1, F_2, B_2 and B_1 all stand, each of them can be told that one of the two is gone already.
    """
    times = (0, 0, 1)
    problem = _chain("guard-e4", times, times, (1, 1, 1, 0), 2, memory_bytes=1, memory_mode="inputs")
    return KnownChain(problem, {"general": None}, f"{GUARD_SOURCE}: E4")


def e5_overrun() -> KnownChain:
    """Layer 2 must have a GPU alone, and one copy of a_1 there at most.

    So F2 to B2 takes a whole period of 7, in which the link is never idle; the gradient of B2 is ready when its
    transfer has just begun for the batch before, and waits in the one slot for longer than a period. All plans
    with a period of 7 overrun slots; without that, 8.
    """
    sizes, weights = (0, 10, 0, 0, 0, 0, 0), (12, 24, 12)
    problem = _chain(
        "guard-e5", (1, 1, 1), (1, 2, 1), sizes, 2, weights, memory_bytes=44, weight_copies=1,
        transfer_times=(2, 1, 0, 1, 3),
    )  # fmt: skip
    return KnownChain(problem, {"general": 7, "exclusive": 8}, f"{GUARD_SOURCE}: E5")


def e6_sizes_as_printed() -> KnownChain:
    """These numbers split into no triples, yet with the sizes as printed the period of a split is reached."""
    return _without_triples("guard-e6-printed", 80, printed_sizes=True)


def e6_sizes_corrected() -> KnownChain:
    """The chain of E6 with the sizes one layer earlier: the numbers have no split, so its period is longer."""
    return _without_triples("guard-e6", 81, printed_sizes=False)


def _without_triples(name: str, period: int, printed_sizes: bool) -> KnownChain:
    """The chain of Theorem 3 for numbers that split into no triples."""
    chain = theorem_3((6, 6, 6, 6, 7, 9), printed_sizes)
    problem = chain.problem.replace(name=name)
    return KnownChain(problem, {"fixed": period}, f"{GUARD_SOURCE}: E6", chain.allocation)


def guard_chains() -> tuple[KnownChain, ...]:
    """All chains on which errors of the published model show."""
    return (
        e1_overlap(), e1_load(), e2_negative_shift(), e3_phantom_transfer(), e4_ties(), e5_overrun(),
        e6_sizes_as_printed(), e6_sizes_corrected(),
    )  # fmt: skip
