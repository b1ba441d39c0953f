"""Chains with known answers, checked where trying everything is cheap."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from known_chains import (
    VARIANTS,
    KnownChain,
    family,
    figure_4,
    figure_5,
    golden_chains,
    guard_chains,
    lemma_2,
    lemma_3,
    splits_into_triples,
    theorem_2,
    theorem_3,
    three_chain,
)
from oracles.chain import least_load
from problems.chains import theory_chains
from recipes.chain import known_chains as packaged_chains

from pipeplan import ChainProblem, InputError
from pipeplan.instances.catalogue import best_known

ALL = (*theory_chains(), *golden_chains(), *guard_chains())


# ---- by trying all allocations: without activations, loads and weights decide -----------------------------


def runs_of_layers(problem: ChainProblem) -> Iterator[tuple[int, ...]]:
    for parts in range(1, problem.gpus + 1):
        for cuts in itertools.combinations(range(1, problem.layers), parts - 1):
            yield tuple(sum(cut <= i for cut in cuts) for i in range(problem.layers))


@pytest.mark.parametrize(
    "known", [three_chain(), lemma_2(), lemma_3(), lemma_3(2, 4, 5), theorem_2()], ids=lambda k: k.name
)
def test_general_answers_are_those_of_all_allocations(known: KnownChain) -> None:
    assert least_load(known.problem) == known.answers["general"]


@pytest.mark.parametrize("known", [three_chain(), family(2), lemma_2(), lemma_3()], ids=lambda k: k.name)
def test_contiguous_answers_are_those_of_all_runs_of_layers(known: KnownChain) -> None:
    assert least_load(known.problem, runs_of_layers(known.problem)) == known.answers["contiguous"]


@pytest.mark.parametrize("known", [figure_4(), figure_5(), *golden_chains()], ids=lambda k: k.name)
def test_answers_without_a_memory_limit_are_those_of_all_allocations(known: KnownChain) -> None:
    assert least_load(known.problem.replace(memory_bytes=None)) == known.answers["unlimited"]


@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_the_family_of_theorem_1_fills_all_gpus(k: int) -> None:
    """The answer is the mean load, so no allocation is better; the proof gives one that reaches it."""
    known = family(k)
    assert known.problem.layers == 4 * k + (k - 2) * (2 * k + 1) + 3
    assert sum(known.problem.durations) / known.problem.gpus == known.answers["general"]


def test_arguments_outside_a_theorem_are_refused() -> None:
    for build in (lambda: family(1), lambda: lemma_3(1), lambda: lemma_3(3, 5, 2), lambda: theorem_2((1, 2))):
        with pytest.raises(InputError):
            build()
    with pytest.raises(InputError, match="not all between 5 and 10"):
        theorem_3((5, 7, 8, 6, 7, 7))


@pytest.mark.parametrize(("numbers", "target", "splits"), [
    ((6, 6, 8, 6, 7, 7), 20, True),
    ((6, 6, 6, 6, 7, 9), 20, False),
    ((26, 33, 41, 30, 35, 35, 28, 31, 41), 100, True),
])  # fmt: skip
def test_numbers_split_into_triples_or_not(numbers: tuple[int, ...], target: int, splits: bool) -> None:
    by_trying = any(
        all(sum(order[i : i + 3]) == target for i in range(0, len(order), 3))
        for order in itertools.permutations(numbers)
    )
    assert splits_into_triples(numbers, target) == splits == by_trying
    assert ("general" in theorem_2(numbers).answers) == splits
    assert ("fixed" in theorem_3(numbers).answers) == splits


# ---- plans that reach the answers ----------------------------------------------------------------------


def test_names_are_unique_and_variants_known() -> None:
    assert len({known.name for known in ALL}) == len(ALL)
    assert {variant for known in ALL for variant in known.answers} <= set(VARIANTS)
    assert {known.name[:8] for known in guard_chains()} == {f"guard-e{i}" for i in range(1, 7)}


# ---- Packaged chains: the table of best known values holds what is proved of them.


@pytest.mark.parametrize("known", packaged_chains(), ids=lambda known: known.name)
def test_the_table_holds_what_is_known_by_proof(known: KnownChain) -> None:
    assert known.answers
    for variant, value in known.answers.items():
        row = best_known(known.name, variant)
        assert row is not None
        assert (row.value, row.bound, row.proven) == (value, value, True)
        assert (row.source, row.hash, row.objective) == (known.source, known.problem.hash, "period")
