"""Sets of layers that a GPU can hold: refuted only where nothing fits, and no partition that fits is passed over.

The loops are run as they are written, without compiling them.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import pytest

from pipeplan.formulations.beaumont.fixed_allocation import Known
from pipeplan.formulations.beaumont.integer_chain import IntegerChain, integer_chain
from pipeplan.instances.base.compiled import compiled
from pipeplan.instances.chain.plan import canonical
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.planners.backends.client import Solver
from pipeplan.planners.chain import exact, layer_sets
from pipeplan.planners.chain.exact import Levels
from pipeplan.planners.chain.layer_sets import Facts, Partitions, layers_of
from pipeplan.planners.chain.schedule import fit


@pytest.fixture(autouse=True)
def _plain_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_sets, "compiled", getattr)


def small_chain(seed: int) -> ChainProblem:
    """Four or five layers on three GPUs; every fourth chain has tasks that take no time."""
    draw = random.Random(seed)
    layers = draw.randint(4, 5)
    mode = draw.choice(("reserved", "inputs"))
    return ChainProblem(
        forward=tuple(draw.randint(1 if seed % 4 else 0, 4) for _ in range(layers)),
        backward=tuple(draw.randint(1, 5) for _ in range(layers)),
        activations=tuple(draw.randint(0, 5) for _ in range(2 * layers + 1)),
        weights=tuple(draw.randint(0, 2) for _ in range(layers)),
        gpus=3,
        memory_bytes=draw.randint(20, 40) if mode == "reserved" else draw.randint(5, 15),
        transfer_times=tuple(draw.randint(0, 3) for _ in range(2 * layers - 1)),
        duplex=draw.choice(("half", "full")),
        memory_mode=mode,
    )


def whole(problem: ChainProblem) -> IntegerChain:
    return integer_chain(problem, Fraction(1))


def every(chain: IntegerChain) -> Facts:
    """All layers are in sets."""
    return Facts(chain, chain.layers)


def course_of(problem: ChainProblem) -> Levels:
    levels = Levels(whole(problem))
    levels.facts = every(levels.chain)
    return levels


def known_of(chain: IntegerChain, sets: tuple[int, ...]) -> Known:
    """The same in the words of the constraint model."""
    groups = tuple(frozenset(layers_of(members)) for members in sets)
    inside = frozenset().union(*groups)
    beside = ({n for i in g for n in (i - 1, i + 1) if 0 <= n < chain.layers} - inside for g in groups)
    return Known(groups, tuple(map(frozenset, beside)))


def some_sets(draw: random.Random, layers: int) -> tuple[int, ...]:
    """Layers of one, two or three GPUs; of others nothing is known."""
    groups = draw.randint(1, 3)
    gpu = [draw.randint(-1, groups - 1) for _ in range(layers)]
    sets = {sum(1 << i for i in range(layers) if gpu[i] == g) for g in range(groups)} - {0}
    return tuple(sorted(sets, key=lambda members: members & -members)) or (1,)


@pytest.mark.parametrize("seed", range(24))
def test_refuted_is_what_the_constraint_model_refutes(seed: int) -> None:
    chain, draw = whole(small_chain(seed)), random.Random(seed)
    for _ in range(2):
        sets = some_sets(draw, chain.layers)
        most = max(sum(chain.load(layer) for layer in layers_of(members)) for members in sets)
        period = draw.randint(most, most + most // 2 + 1)
        fits = fit(chain, known_of(chain, sets), period, Solver()).fits
        refuted = every(chain).refuted(sets, period, 10_000)
        if all(chain.durations):
            assert refuted is not fits
        else:
            assert not (refuted and fits)


@pytest.mark.sweeps
def test_compiled_loops_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(24):
        chain, sets = whole(small_chain(seed)), some_sets(random.Random(seed), 4)
        period = max(sum(chain.load(layer) for layer in layers_of(members)) for members in sets) + 2
        plain = every(chain).refuted(sets, period, 100)
        with monkeypatch.context() as patch:
            patch.setattr(layer_sets, "compiled", compiled)
            assert every(chain).refuted(sets, period, 100) is plain


def candidates(partitions: Partitions) -> Iterator[tuple[int, ...]]:
    while not partitions.done:
        allocation = partitions.next()
        if allocation is not None:
            partitions.settle()
            yield allocation


@pytest.mark.parametrize("seed", range(1, 13))
def test_what_the_first_layers_alone_refute_fits_with_no_layers_behind_them(seed: int) -> None:
    """Of long chains only the first layers are in sets: a period without partitions of these has no pattern."""
    chain = whole(small_chain(seed))
    facts = Facts(chain, chain.layers - 1 - seed % 2)
    allocations = {canonical((0, *rest)) for rest in product(range(3), repeat=chain.layers - 1)}
    for period in (max(map(chain.load, range(chain.layers))), sum(chain.durations) // 2, sum(chain.durations)):
        sets = facts.load_sets(period)
        assert sets is not None
        walk = Partitions(chain, facts, period, sets)
        while not walk.done and not walk.hopeless:
            assert walk.next() is None
        if not walk.hopeless:
            assert not any(fit(chain, Known.whole(a), period, Solver()).fits for a in allocations)


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_walk_passes_over_no_allocation_that_fits(seed: int) -> None:
    chain = whole(small_chain(seed))
    period = max(sum(chain.durations) // 2, max(map(chain.load, range(chain.layers))))
    sets = every(chain).load_sets(period)
    assert sets is not None
    found = list(candidates(Partitions(chain, every(chain), period, sets)))
    assert len(found) == len(set(found))
    allocations = {canonical((0, *rest)) for rest in product(range(3), repeat=chain.layers - 1)}
    fitting = {a for a in allocations if fit(chain, Known.whole(a), period, Solver()).fits}
    assert fitting <= set(found) <= allocations


def test_threads_that_walk_together_see_what_one_sees() -> None:
    chain = whole(small_chain(2).replace(memory_bytes=100))
    period = sum(chain.durations)
    sets = every(chain).load_sets(period)
    assert sets is not None
    alone = sorted(candidates(Partitions(chain, every(chain), period, sets)))
    shared, found = Partitions(chain, every(chain), period, sets), []
    threads = [threading.Thread(target=lambda: found.extend(candidates(shared))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert alone
    assert sorted(found) == alone


def test_long_chains_have_hopeless_sets_to_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_sets, "MOST_SETS", 100)
    problem = ChainProblem((1,) * 40, (1,) * 40, (1,) * 41, (0,) * 40, gpus=4, memory_bytes=100)
    assert course_of(problem).walk(20, 60) is None


@pytest.mark.parametrize(
    ("clock_s", "processor_s", "on_disk", "loaded"),
    [(1.5, 0.1, True, True), (1.5, 0.1, False, False), (9.0, 1.1, False, True), (0.5, 0.1, True, False)],
)
def test_loops_on_disk_are_loaded_by_the_clock_and_others_made_by_the_processors_time(
    clock_s: float, processor_s: float, on_disk: bool, loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Solvers run in other processes, whose time is not counted; small problems are done before loops are made."""
    chain = integer_chain(small_chain(0), Fraction(1))
    begun = exact.Search(small_chain(0), chain, Solver(), 0, None, lambda plan, bound: None)
    began_s, spent_s = begun.started, begun.spent_before
    monkeypatch.setattr(exact, "now", lambda: began_s + clock_s)
    monkeypatch.setattr(exact, "processor_seconds", lambda: spent_s + processor_s)
    monkeypatch.setattr(exact, "is_kept", lambda unit, entry: on_disk)
    begun._load_loops()
    assert (begun.levels.facts is not None) == loaded
    assert begun.annealer is None
