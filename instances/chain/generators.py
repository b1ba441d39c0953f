"""Families of chains by name: the benchmark's recipe, and what the proofs and figures of the theory are about."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.errors import InputError, show
from ..base.kind import Generator, Parameter
from ..base.quantities import whole_numbers
from . import theory
from .known_answers import KnownChain
from .problem import MAX_LAYERS
from .random_chains import resnet_like

# Six numbers that split into two triples of sum 20.
NUMBERS = "6,6,8,6,7,7"
# Whether numbers split into triples is found by trying, which takes too long with more of them.
MOST_NUMBERS = 24
# The chain C_k has about 2 k^2 layers.
LARGEST_K = 60


def _resnet_like(layers: int, gpus: int, seed: int, memory_bytes: float | None) -> KnownChain:
    """Random times, activations that halve and weights that grow, as in a residual network."""
    if layers > MAX_LAYERS:
        raise InputError("layers", f"is {layers}", f"give at most {MAX_LAYERS}")
    return KnownChain(resnet_like(layers, gpus, seed, memory_bytes), {}, "recipe of the benchmark")


def _family(k: int) -> KnownChain:
    if k > LARGEST_K:
        raise InputError("k", f"is {k}", f"give at most {LARGEST_K}")
    return theory.family(k)


def _lemma_3(pairs: int, large: int, memory_bytes: float | None) -> KnownChain:
    if memory_bytes is None or not float(memory_bytes).is_integer():
        raise InputError("memory", f"is {memory_bytes}", "give a whole number of bytes")
    return theory.lemma_3(pairs, large, int(memory_bytes))


def _theorem_2(numbers: str) -> KnownChain:
    return theory.theorem_2(_whole_numbers(numbers))


def _theorem_3(numbers: str, printed_sizes: bool) -> KnownChain:
    return theory.theorem_3(_whole_numbers(numbers), printed_sizes)


def _whole_numbers(text: str) -> tuple[int, ...]:
    count = text.count(",") + 1
    if count > MOST_NUMBERS:
        raise InputError("numbers", f"are {count}", f"give at most {MOST_NUMBERS}")
    numbers = whole_numbers(text)
    if numbers is None:
        raise InputError("numbers", f"is {show(text)}", f"give whole numbers like {NUMBERS}")
    return numbers


_TRIPLES = Parameter(
    "numbers", "text", NUMBERS, "whole numbers, 3 m of them with sum m V, each between V/4 and V/2"
)

# Generators by name; what they build names its source and the answers that are known.
CHAIN_GENERATORS: Mapping[str, Generator[KnownChain]] = {
    generator.name: generator
    for generator in (
        Generator(
            "resnet-like",
            "Chains in the shape of a residual network, random by seed",
            _resnet_like,
            (
                Parameter("layers", "int", 18, "how many layers"),
                Parameter("gpus", "int", 4, "how many GPUs"),
                Parameter("seed", "int", 1, "seed of all random numbers"),
                Parameter("memory_bytes", "float", None, "memory of a GPU; none: no limit"),
            ),
        ),
        Generator("three-chain", "The smallest chain on which runs of layers are not enough", theory.three_chain),
        Generator(
            "theorem-1",
            "C_k: runs of layers lose nearly a factor of 2",
            _family,
            (Parameter("k", "int", 2, "which chain of the family"),),
        ),
        Generator("lemma-2", "Memory for weights only: no run of layers fits", theory.lemma_2),
        Generator(
            "lemma-3",
            "Memory for weights only: runs of layers are worse by a growing factor",
            _lemma_3,
            (
                Parameter("pairs", "int", 2, "how many pairs of a short heavy and a long light layer"),
                Parameter("large", "int", 5, "time of each long layer"),
                Parameter("memory_bytes", "float", 3, "memory of a GPU; a whole number"),
            ),
        ),
        Generator("theorem-2", "Numbers that split into triples or not: the allocation", _theorem_2, (_TRIPLES,)),
        Generator(
            "theorem-3",
            "Numbers that split into triples or not: the schedule of a given allocation",
            _theorem_3,
            (_TRIPLES, Parameter("printed_sizes", "flag", False, "the sizes as printed, which break the proof")),
        ),
        Generator("figure-4", "Two batches per period reach a load that one does not", theory.figure_4),
        Generator("figure-5", "Two batches per period take 8, one takes 5", theory.figure_5),
    )
}
