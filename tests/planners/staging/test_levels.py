"""The best tree of stages on devices within devices: against enumeration and the flat problem, through `solve`, files
and the command line, and its limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from oracles.leveled_staging import best_leveled
from oracles.staging import best_stages
from problems.stagings import leveled_staging, random_staging

import pipeplan
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.catalogue import best_known, load_packaged
from pipeplan.instances.staging.kind_functions import staging_from_published
from pipeplan.instances.staging.plan import LeveledPlan
from pipeplan.instances.staging.problem import VARIANTS, Configuration, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.instances.staging.referee import evaluate_leveled, rules_of, verify_leveled
from pipeplan.planners.staging.equal import best_quick_tree, quick_trees
from pipeplan.planners.staging.levels import decisions_of
from pipeplan.planners.staging.search import Found


def plan_levels(problem: StagingProblem, variant: str = "precise") -> Found[LeveledPlan] | None:
    return decisions_of(problem, {"hierarchy": variant}).best()


def check(problem: StagingProblem, variant: str, best: tuple[float, Any] | None) -> None:
    """The best plan is worth what enumeration says, obeys the rules, and `solve` proves it."""
    found, result = plan_levels(problem, variant), pipeplan.solve(problem, options={"hierarchy": variant})
    assert (result.planner, found is None) == ("dp-piper", best is None)
    if found is None or best is None:
        assert result.stop == pipeplan.Stop.INFEASIBLE
        return
    assert (found.load, result.objective) == (pytest.approx(best[0], rel=1e-9),) * 2
    assert (result.stop, result.found, result.verified) == (pipeplan.Stop.PROVEN, pipeplan.Found.OPTIMAL, True)
    assert not verify_leveled(problem, found.plan, variant)
    cost = evaluate_leveled(problem, found.plan, variant)
    assert cost.time_per_micro_batch == pytest.approx(found.load, rel=1e-9)
    assert not problem.exact_batches or cost.degrees == problem.micro_batches


@pytest.mark.parametrize("variant", [*VARIANTS, "exactly N"])
@pytest.mark.parametrize("seed", range(24))
def test_no_tree_is_better(seed: int, variant: str) -> None:
    exact = variant == "exactly N"
    problem = leveled_staging(seed, (2, 3) if exact else (2, 4)).replace(exact_batches=exact)
    variant = "precise" if exact else variant
    check(problem, variant, best_leveled(problem, variant))


def test_examples_are_many_sided() -> None:
    """Among them are problems without a plan, and plans with tensor parallelism and with copies on either level."""
    plans = [plan_levels(leveled_staging(seed)) for seed in range(24)]
    assert None in plans
    assert any(leaf.tensor_parallel > 1 for found in plans if found for leaf in found.plan.leaves())
    assert any(leaf.data_parallel > 1 for found in plans if found for leaf in found.plan.leaves())
    assert any(stage.data_parallel > 1 for found in plans if found for stage in found.plan.stages if stage.children)


# ---- one level in truth --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_single_devices_above_make_a_flat_problem(seed: int) -> None:
    """Every upper level has one device: nothing crosses its links, and nothing is copied there."""
    flat = random_staging(seed, layers=(2, 5))
    upper = (StagingLevel(1, flat.bandwidth / 10),) * (seed % 3)
    check(flat.replace(levels=(StagingLevel(flat.devices, flat.bandwidth), *upper)), "precise", best_stages(flat))


@pytest.mark.parametrize("seed", range(12))
def test_basic_is_flat_without_memory_and_batches(seed: int) -> None:
    flat = random_staging(seed, layers=(2, 4), exact_batches=False).replace(memory_bytes=None, micro_batches=100)
    problem = flat.replace(
        levels=(StagingLevel(flat.devices, flat.bandwidth), StagingLevel(1, 1.0)), memory_bytes=1.0, micro_batches=1
    )
    check(problem, "basic", best_stages(flat))


# ---- what the variants have to do with each other -----------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_basic_is_a_bound_and_crude_is_safe(seed: int) -> None:
    """With batches enough; crude counts more memory than there ever is, so its plans are plans."""
    problem = leveled_staging(seed).replace(micro_batches=100)
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
    levels = (StagingLevel(4, 300 * gib), StagingLevel(2, 25 * gib))
    problem = published.replace(devices=8, memory_bytes=8 * gib, bandwidth=300 * gib, levels=levels)
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


def many_devices(layers: int, **changes: Any) -> StagingProblem:
    """A chain of equal layers on 64 servers of 64 devices."""
    return independent(layers).replace(
        edges=tuple(Edge(v, v + 1) for v in range(layers - 1)),
        devices=4096,
        micro_batches=4096,
        levels=(StagingLevel(64, 1.0), StagingLevel(64, 1.0)),
        **changes,
    )


def test_thousands_of_devices_by_hand() -> None:
    """Nothing is sent or synchronised: 4,096 devices share 3 s of work, however they are divided."""
    found = plan_levels(many_devices(3))
    assert found is not None
    assert not verify_leveled(many_devices(3), found.plan)
    assert found.load == pytest.approx(3 / 4096, rel=1e-9)


EXACTLY_N = independent(2).replace(exact_batches=True)


@pytest.mark.parametrize(
    ("problem", "variant", "words"),
    [
        (independent(40), "precise", "layers .* more than 300 downsets"),
        (EXACTLY_N, "basic", "exact_batches"),
        (EXACTLY_N, "crude", "exact_batches"),
        # At most N is planned: there only the most that may come later counts, and no table has all sums of copies.
        (
            many_devices(30, exact_batches=True),
            "precise",
            "levels .* for exactly N micro-batches; plan for at most N",
        ),
    ],
)
def test_what_is_refused(problem: StagingProblem, variant: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan_levels(problem, variant)


ABLE = "one of mip-piper, dp-piper, equi, equi-no-tp, uniform"


def tiny() -> StagingProblem:
    return load_packaged("tiny-levels")


# ---- the library ---------------------------------------------------------------------------------------


def test_tiny_levels_are_known_by_hand() -> None:
    """A copy on each server, cut inside: (8 + 2 x 20 / 10) / 2. The links between the servers carry nothing."""
    problem, known = tiny(), best_known("tiny-levels", "paper")
    result = pipeplan.solve(problem)
    assert known is not None
    assert isinstance(result.plan, LeveledPlan)
    assert (result.objective, result.bound, known.value, known.proven) == (6.0, 6.0, 6.0, True)
    cost = evaluate_leveled(problem, result.plan)
    assert [(stage.links, stage.inside, stage.binds) for stage in cost.stages] == [(0.0, 6.0, ("inside",))]


@pytest.mark.parametrize("planner", ["dp-piper", "equi"])
def test_time_runs_out(planner: str) -> None:
    result = pipeplan.solve(tiny(), planner=planner, limits=pipeplan.SolveOptions(time_limit_s=0.0))
    assert (result.stop, result.plan) == (pipeplan.Stop.TIME, None)


@pytest.mark.parametrize("planner", ["piper-no-dp", "piper-no-tp", "piper-no-ar", "piper-pipedream"])
def test_other_planners_refuse_levels(planner: str) -> None:
    with pytest.raises(UsageError, match=rf"'{planner}' cannot plan devices within devices.*choose {ABLE}\.$"):
        pipeplan.solve(tiny(), planner=planner)


# ---- files ---------------------------------------------------------------------------------------------


def test_a_flat_plan_is_none_for_levels(tmp_path: Path) -> None:
    flat = pipeplan.solve(load_packaged("tiny-stages"))
    pipeplan.save(flat, tmp_path / "flat.json")
    with pytest.raises(InputError, match="is of the kind stages, but the problem is a staging with levels"):
        pipeplan.load_plan(tmp_path / "flat.json", tiny())


# ---- the command line ----------------------------------------------------------------------------------


def test_solve_show_and_verify(plan: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    solved = plan("solve", "tiny-levels", "--planner", "dp-piper", "--output", file)
    assert solved.code == 0
    assert solved.err.startswith("wrote ")
    shown = plan("show", "tiny-levels", file)
    assert shown.code == 0
    rows = [line.split() for line in shown.out.splitlines() if "█" in line]
    known = {"inside", "links", "computation"}
    assert [(row[0], known & set(row)) for row in rows] == [
        ("0", {"inside"}), ("│", {"computation"}), ("│", {"computation"}),
    ]  # fmt: skip
    verified = plan("verify", "tiny-levels", file, "--json").json
    assert (verified["verified"], verified["objective"]) == (True, 6.0)
    assert verified["options"] == {"hierarchy": "precise"}
    assert verified["evaluation"]["stages"][0]["binds"] == ["inside"]
    assert [leaf["binds"] for leaf in verified["evaluation"]["leaves"]] == [["computation"]] * 2


def test_a_result_is_judged_by_its_variant(plan: Callable[..., Any], tmp_path: Path) -> None:
    """The basic variant forgets memory; the precise one does not."""
    problem, result, file = tiny().replace(memory_bytes=1.0), tmp_path / "basic.json", tmp_path / "problem.json"
    pipeplan.save(problem, file)
    assert plan("solve", file).code == 1
    assert plan("solve", file, "--hierarchy", "basic", "--output", result).code == 0
    assert plan("verify", file, result).code == 0
    refused = plan("verify", file, result, "--hierarchy", "precise")
    assert refused.code == 3
    assert "bytes with" in refused.out


@pytest.mark.parametrize("option", [("--bandwidth", "1GB/s"), ("--devices", "8")])
def test_overrides_that_levels_leave_no_room_for(
    plan: Callable[..., Any], option: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "problem.json"
    pipeplan.save(tiny(), file)
    for instance in ("tiny-levels", file):
        said = plan("solve", instance, *option)
        assert (said.code, said.out) == (2, "")
        assert "levels" in said.err
        assert said.err.count("\n") == 1


def test_a_search_that_is_out_of_time_leaves_a_plan() -> None:
    """A model of 70 billion parameters on hundreds of devices, where the search takes minutes."""
    levels, degrees = ((8, 450e9), (64, 50e9)), {"data_parallel": True, "tensor_parallel": (1, 2, 4, 8)}
    facts: dict[str, Any] = {"devices": 512, "batch": 512, "optimizer": "adam-mixed", "recompute": True, **degrees}
    problem = pipeplan.load_profile("llama-3-70b").to_staging(levels=levels, memory_bytes=80e9, **facts)
    result = pipeplan.solve(problem, limits=pipeplan.SolveOptions(time_limit_s=0.5))
    assert (result.stop, result.found, result.verified) == ("time", "feasible", True)


def test_a_quick_tree_is_a_plan_whatever_the_levels() -> None:
    """With one level of devices as well as with three, with and without replicas."""
    for levels in ([(4, 9.0)], [(2, 9.0), (2, 3.0)], [(2, 9.0), (1, 5.0), (2, 3.0)]):
        for replication in (True, False):
            problem = pipeplan.load_packaged("tiny-stages").replace(
                levels=tuple(StagingLevel(*level) for level in levels), replication=replication, memory_bytes=None
            )
            plans = list(quick_trees(problem))
            assert plans
            rules = rules_of(problem, {})
            assert best_quick_tree(problem, rules, lambda: False) in plans
            assert all(rules.violations(problem, plan) == () for plan in plans)


@pytest.mark.parametrize("name", ["tiny-stages", "resnet50-stages"])
def test_what_is_known_of_stagings_is_found_by_another_program(name: str) -> None:
    problem = load_packaged(name)
    found = plan_levels(problem.replace(levels=(StagingLevel(problem.devices, problem.bandwidth),)))
    known = best_known(name, "paper")
    assert found is not None
    assert known is not None
    assert found.load == pytest.approx(known.value, rel=1e-9)


@pytest.mark.parametrize("what", ["recomputation", "tensor parallelism"])
def test_gpt2_medium_needs_recomputation_and_tensor_parallelism(what: str) -> None:
    """Without one of them, on one level, there is no plan."""
    problem = load_packaged("gpt2-medium-stages")
    assert best_known("gpt2-medium-stages", "paper") is not None
    left = [
        {
            t: tuple(way for way in row if what != "recomputation" or way.id == "vanilla")
            for t, row in layer.configurations.items()
            if what != "tensor parallelism" or t == 1
        }
        for layer in problem.layers
    ]
    layers = tuple(replace(layer, configurations=of) for layer, of in zip(problem.layers, left, strict=True))
    level = StagingLevel(problem.devices, problem.bandwidth)
    assert plan_levels(problem.replace(layers=layers, levels=(level,))) is None
