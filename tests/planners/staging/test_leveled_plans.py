"""The best tree of stages on devices within devices: against brute force, against the flat problem, and its limits."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from oracles.leveled_staging import best_leveled
from oracles.staging import best_stages
from problems.stagings import random_staging

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.staging.kind_functions import staging_from_published
from pipeplan.instances.staging.problem import VARIANTS, Configuration, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.instances.staging.referee.levels import evaluate_leveled, verify_leveled
from pipeplan.planners.staging import levels as hierarchy
from pipeplan.planners.staging.costs import Shape, StageCosts, whole_memory
from pipeplan.planners.staging.levels import MAX_DOWNSETS, downsets, plan_levels

CLUSTERS = ((2, 2), (1, 3), (3, 1), (2, 1, 2), (4,), (2, 2))


def leveled(seed: int, layers: tuple[int, int] = (2, 4)) -> StagingProblem:
    """A random problem on one of a few small clusters, the links of higher levels mostly slower."""
    rng = random.Random(1000 + seed)
    shape = CLUSTERS[seed % len(CLUSTERS)]
    flat = random_staging(seed, layers=layers, exact_batches=False)
    bandwidth = flat.bandwidth
    levels = []
    for devices in shape:
        levels.append(StagingLevel(devices, bandwidth))
        bandwidth *= rng.choice((0.1, 0.4, 1.0))
    return flat.replace(devices=math.prod(shape), levels=tuple(levels), micro_batches=rng.choice((2, 3, 4, 9)))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(24))
def test_no_tree_is_better(seed: int, variant: str) -> None:
    problem = leveled(seed, (2, 3) if len(CLUSTERS[seed % len(CLUSTERS)]) > 2 else (2, 4))
    found, expected = plan_levels(problem, variant), best_leveled(problem, variant)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.load == pytest.approx(expected[0], rel=1e-9)
        assert not verify_leveled(problem, found.plan, variant)
        value = evaluate_leveled(problem, found.plan, variant).time_per_micro_batch
        assert value == pytest.approx(found.load, rel=1e-9)


def test_examples_are_many_sided() -> None:
    """Among them are problems without a plan, and plans with tensor parallelism and with copies on either level."""
    plans = [plan_levels(leveled(seed)) for seed in range(24)]
    assert None in plans
    assert any(leaf.tensor_parallel > 1 for found in plans if found for leaf in found.plan.leaves())
    assert any(leaf.data_parallel > 1 for found in plans if found for leaf in found.plan.leaves())
    assert any(stage.data_parallel > 1 for found in plans if found for stage in found.plan.stages if stage.children)


def test_a_group_is_copied_rather_than_cut_at_a_slow_link() -> None:
    """A device holds one layer. Cutting between servers takes 2 x 20 / 1; two copies take (8 + 2 x 20 / 10) / 2."""
    way = Configuration("way", 8.0, memory_per_batch=1.0, memory_fixed=10.0)
    problem = StagingProblem(
        (Layer("a", {1: (way,)}), Layer("b", {1: (way,)})), (Edge("a", "b", 20.0),), 4, 10.0, 4, memory_bytes=15.0,
        levels=(StagingLevel(2, 10.0), StagingLevel(2, 1.0)),
    )  # fmt: skip
    found = plan_levels(problem)
    assert found is not None
    assert found.load == 6.0
    assert [(stage.data_parallel, len(stage.children)) for stage in found.plan.stages] == [(2, 2)]


@pytest.mark.parametrize("seed", range(0, 24, 2))
def test_exactly_n(seed: int) -> None:
    problem = leveled(seed, (2, 3)).replace(exact_batches=True)
    found, expected = plan_levels(problem), best_leveled(problem, "precise")
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.load == pytest.approx(expected[0], rel=1e-9)
        assert evaluate_leveled(problem, found.plan).degrees == problem.micro_batches


def test_more_batches_than_devices_cannot_be_met_exactly() -> None:
    assert plan_levels(leveled(0).replace(exact_batches=True, micro_batches=5)) is None


# ---- one level in truth --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_single_devices_above_make_a_flat_problem(seed: int) -> None:
    """Every upper level has one device: nothing crosses its links, and nothing is copied there."""
    flat = random_staging(seed, layers=(2, 5))
    upper = (StagingLevel(1, flat.bandwidth / 10),) * (seed % 3)
    problem = flat.replace(levels=(StagingLevel(flat.devices, flat.bandwidth), *upper))
    found, expected = plan_levels(problem), best_stages(flat)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.load == pytest.approx(expected[0], rel=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_basic_is_flat_without_memory_and_batches(seed: int) -> None:
    flat = random_staging(seed, layers=(2, 4), exact_batches=False).replace(memory_bytes=None, micro_batches=100)
    problem = flat.replace(
        levels=(StagingLevel(flat.devices, flat.bandwidth), StagingLevel(1, 1.0)), memory_bytes=1.0, micro_batches=1
    )
    found, expected = plan_levels(problem, "basic"), best_stages(flat)
    assert found is not None
    assert expected is not None
    assert found.load == pytest.approx(expected[0], rel=1e-9)


# ---- what the variants have to do with each other -----------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_basic_is_a_bound_and_crude_is_safe(seed: int) -> None:
    """With batches enough; crude counts more memory than there ever is, so its plans are plans."""
    problem = leveled(seed).replace(micro_batches=100)
    basic, crude, precise = (plan_levels(problem, variant) for variant in VARIANTS)
    if crude is not None:
        assert precise is not None
        assert not verify_leveled(problem, crude.plan, "precise")
        assert precise.load <= crude.load * (1 + 1e-12)
    if precise is not None:
        assert basic is not None
        assert basic.load <= precise.load * (1 + 1e-12)


@pytest.mark.sweeps
@pytest.mark.workloads
def test_bert32_on_two_servers_of_four(workloads: Path) -> None:
    """8 GiB, fast links inside a server: plans obey the rules, and levels matter."""
    published = staging_from_published(json.loads((workloads / "piper" / "bert32a100.json").read_text("utf-8")))
    gib = 2.0**30
    inside = StagingLevel(4, 300 * gib)
    problem = published.replace(
        devices=8, memory_bytes=8 * gib, bandwidth=inside.bandwidth, levels=(inside, StagingLevel(2, 25 * gib))
    )
    values = {}
    for variant in VARIANTS:
        found = plan_levels(problem, variant)
        assert found is not None
        assert not verify_leveled(problem, found.plan, variant)
        values[variant] = found.load
        assert evaluate_leveled(problem, found.plan, variant).time_per_micro_batch == pytest.approx(values[variant])
    assert values["basic"] < values["precise"] < values["crude"]
    flat_optimum = 0.16585575
    assert values["precise"] < flat_optimum, "on 25 GiB/s everywhere"


# ---- limits --------------------------------------------------------------------------------------------


def independent(count: int) -> StagingProblem:
    """Layers without edges: 2^count downsets."""
    layers = tuple(Layer(v, {1: (Configuration("way", 1.0),)}) for v in range(count))
    return StagingProblem(layers, (), 2, 1.0, 2, levels=(StagingLevel(2, 1.0),))


def test_downsets_hold_all_successors_of_their_members() -> None:
    edges = (Edge(0, 1), Edge(0, 2))
    assert sorted(downsets(independent(3).replace(edges=edges))) == [0b000, 0b010, 0b100, 0b110, 0b111]


def test_too_many_downsets_are_refused_at_once() -> None:
    assert len(downsets(independent(5))) == 32 <= MAX_DOWNSETS
    with pytest.raises(InputError, match="more than 300 downsets") as caught:
        plan_levels(independent(40))
    assert caught.value.field == "layers"


def many_devices(layers: int, **changes: Any) -> StagingProblem:
    """A chain of equal layers on 64 servers of 64 devices."""
    return independent(layers).replace(
        edges=tuple(Edge(v, v + 1) for v in range(layers - 1)),
        devices=4096,
        micro_batches=4096,
        levels=(StagingLevel(64, 1.0), StagingLevel(64, 1.0)),
        **changes,
    )


def test_exactly_n_on_thousands_of_devices_is_refused() -> None:
    """At most N is planned: there only the most that may come later counts, and no table has all sums of copies."""
    with pytest.raises(InputError, match="for exactly N micro-batches; plan for at most N") as caught:
        plan_levels(many_devices(30, exact_batches=True))
    assert caught.value.field == "levels"


def test_thousands_of_devices_by_hand() -> None:
    """Nothing is sent or synchronised: 4,096 devices share 3 s of work, however they are divided."""
    found = plan_levels(many_devices(3))
    assert found is not None
    assert not verify_leveled(many_devices(3), found.plan)
    assert found.load == pytest.approx(3 / 4096, rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_one_limit_after_the_other_finds_what_the_whole_table_holds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every seventh problem forbids replicas."""
    problem = leveled(seed, (2, 5)).replace(replication=seed % 7 != 3)
    whole = plan_levels(problem)
    monkeypatch.setattr(hierarchy, "MANY_ENTRIES", 0)
    found = plan_levels(problem)
    assert (found is None) == (whole is None)
    if found is not None and whole is not None:
        assert found.load == pytest.approx(whole.load, rel=1e-11)
        assert not verify_leveled(problem, found.plan)


@pytest.mark.parametrize("seed", range(30))
def test_the_most_in_flight_is_what_the_loads_say(seed: int) -> None:
    problem = random_staging(seed, layers=(2, 4), exact_batches=False)
    costs = StageCosts(problem, "paper", whole_memory(problem, problem.devices))
    everything = (1 << len(problem.layers)) - 1
    for t in problem.degrees:
        shape = Shape(everything, 0, t)
        for d, limit in itertools.product(costs.replicas(shape), (1.0, 4.0, 8.0, 16.0, 64.0, math.inf)):
            loads = [costs.load(shape, d, y) for y in range(1, -(-costs.most // d) + 1)]
            within = [y for y, load in enumerate(loads, 1) if load is not None and load <= limit]
            assert costs.most_in_flight(shape, d, limit) == max(within, default=0)


def test_a_flat_problem_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        plan_levels(independent(2).replace(levels=()))
    assert caught.value.field == "levels"


@pytest.mark.parametrize("variant", ["basic", "crude"])
def test_exactly_n_needs_the_precise_variant(variant: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_levels(independent(2).replace(exact_batches=True), variant)
    assert caught.value.field == "exact_batches"


def test_an_unknown_variant_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="basic, crude, precise"):
        plan_levels(independent(2), "exact")
