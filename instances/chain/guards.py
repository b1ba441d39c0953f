"""Small chains on which errors of the published model show: one or more for each of E1 to E6 of our list.

E1 co-location that is no equivalence; E2 shifts that may be negative; E3 transfer times on edges that stay on a GPU;
E4 tasks without duration, whose order at the same instant is free; E5 one slot for a tensor that is needed for
longer than a period; E6 the sizes in the proof of Theorem 3.
"""

from __future__ import annotations

from .known_answers import KnownChain
from .problem import ChainProblem
from .theory import figure_5, theorem_3

SOURCE = "errors of the published model"


def e1_overlap() -> KnownChain:
    """On one GPU nothing overlaps; as printed, layers 1 and 3 may."""
    problem = _plain((1, 1, 1), 1, "guard-e1")
    return KnownChain(problem, {"general": 6}, f"{SOURCE}: E1", printed=4)


def e1_load() -> KnownChain:
    """As printed, the period falls below the mean load of 8."""
    problem = _plain((2, 3, 2, 1), 2, "guard-e1-load")
    return KnownChain(problem, {"general": 8}, f"{SOURCE}: E1", printed=7)


def e2_negative_shift() -> KnownChain:
    """Fig. 5: a period of 4 would take 8 bytes, which negative shifts of other layers hide."""
    problem = figure_5().problem.replace(name="guard-e2")
    return KnownChain(problem, {"general": 5}, f"{SOURCE}: E2", printed=4)


def e3_phantom_transfer() -> KnownChain:
    """One GPU needs no transfers; as printed, they shift batches and the memory with them."""
    times = (1, 1, 1)
    problem = ChainProblem(
        times,
        times,
        (1, 1, 1, 1),
        (0, 0, 0),
        gpus=1,
        memory_bytes=5,
        bandwidth=0.5,
        name="guard-e3",
        time_unit=None,
    )
    return KnownChain(problem, {"general": 6}, f"{SOURCE}: E3", printed=11)


def e4_ties() -> KnownChain:
    """Layers 1 and 2 take no time and must share a GPU, since layer 3 fills the other one.

    While layer 3 works, both a_0 and a_1 are kept: 2 bytes, so nothing fits. With a free order at the instant at
    which F_1, F_2, B_2 and B_1 all stand, each of them can be told that one of the two is gone already.
    """
    problem = ChainProblem(
        (0, 0, 1), (0, 0, 1), (1, 1, 1, 0), (0, 0, 0), gpus=2, memory_bytes=1, memory_mode="inputs",
        name="guard-e4", time_unit=None,
    )  # fmt: skip
    return KnownChain(problem, {"general": None}, f"{SOURCE}: E4")


def e5_overrun() -> KnownChain:
    """Layer 2 must have a GPU alone, and one copy of a_1 there at most.

    So F2 to B2 takes a whole period of 7, in which the link is never idle; the gradient of B2 is ready when its
    transfer has just begun for the batch before, and waits in the one slot for longer than a period. All plans
    with a period of 7 overrun slots; without that, 8.
    """
    problem = ChainProblem(
        (1, 1, 1), (1, 2, 1), (0, 10, 0, 0, 0, 0, 0), (12, 24, 12), gpus=2, memory_bytes=44, weight_copies=1,
        transfer_times=(2, 1, 0, 1, 3), name="guard-e5", time_unit=None,
    )  # fmt: skip
    return KnownChain(problem, {"general": 7, "exclusive": 8}, f"{SOURCE}: E5")


def e6_sizes_as_printed() -> KnownChain:
    """These numbers split into no triples, yet with the sizes as printed the period of a split is reached."""
    numbers = (6, 6, 6, 6, 7, 9)
    known = theorem_3(numbers, printed_sizes=True)
    return KnownChain(
        known.problem.replace(name="guard-e6-printed"), {"fixed": 80}, f"{SOURCE}: E6", known.allocation
    )


def e6_sizes_corrected() -> KnownChain:
    """The same numbers with the sizes one layer earlier: no split, so a longer period."""
    known = theorem_3((6, 6, 6, 6, 7, 9))
    return KnownChain(known.problem.replace(name="guard-e6"), {"fixed": 81}, f"{SOURCE}: E6", known.allocation)


def _plain(times: tuple[int, ...], gpus: int, name: str) -> ChainProblem:
    """A chain in which only times matter."""
    layers = len(times)
    return ChainProblem(times, times, (0,) * (layers + 1), (0,) * layers, gpus=gpus, name=name, time_unit=None)


def guard_chains() -> tuple[KnownChain, ...]:
    """All of them."""
    return (
        e1_overlap(), e1_load(), e2_negative_shift(), e3_phantom_transfer(), e4_ties(), e5_overrun(),
        e6_sizes_as_printed(), e6_sizes_corrected(),
    )  # fmt: skip
