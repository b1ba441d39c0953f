"""What a slightly better cluster is worth: problems of every kind, their variants, and the same method for all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import pipeplan
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.placement.problem import AcceleratorType, Level, PlacementProblem
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.kind_functions import with_memory
from pipeplan.instances.schedule.problem import ScheduleProblem
from pipeplan.instances.staging.problem import DeviceType
from pipeplan.planners.options import SolveOptions
from pipeplan.studies import sensitivity as module
from pipeplan.studies.sensitivity import Worth, sensitivity, variants
from pipeplan.studies.stage_schedule import best_rule, rule_schedules


def changes(problem: Any, **steps: float) -> dict[str, Any]:
    return {variant.change: variant.problem for variant in variants(problem, **steps)}


# ---- variants ------------------------------------------------------------------------------------------


def test_a_flat_staging() -> None:
    problem = load_packaged("tiny-stages")
    found = changes(problem, memory_bytes=2e9, bandwidth_share=0.5)
    assert found == {
        "one more device": problem.replace(devices=5),
        "2 GB more memory": problem.replace(memory_bytes=35.0 + 2e9),
        "50 % more bandwidth": problem.replace(bandwidth=6.0),
    }


def test_levels_grow_one_by_one() -> None:
    problem = load_packaged("tiny-levels")
    found = changes(problem)
    inner, outer = found["one more device on level 1"], found["one more device on level 2"]
    assert [level.devices for level in inner.levels] == [3, 2]
    assert [level.devices for level in outer.levels] == [2, 3]
    assert inner.devices == outer.devices == 6
    faster = found["10 % more bandwidth on level 2"]
    assert [level.bandwidth for level in faster.levels] == [10.0, 1.1]


def test_each_type_of_device_grows() -> None:
    kinds = (DeviceType("big", 1, 1.0, 40.0), DeviceType("small", 2, 0.5))
    problem = load_packaged("tiny-stages").replace(devices=3, memory_bytes=None, device_types=kinds)
    found = changes(problem)
    assert list(found) == ["one more big", "one more small", "1 GB more memory in big", "10 % more bandwidth"]
    assert [kind.devices for kind in found["one more small"].device_types] == [1, 3]
    assert found["1 GB more memory in big"].device_types[0].memory_bytes == 40.0 + 1e9


def test_links_of_placements_are_times() -> None:
    problem = pipeplan.load_packaged("tiny-chain")
    found = changes(problem)
    assert list(found) == ["one more accelerator", "1 GB more memory", "10 % more bandwidth"]
    assert [node.transfer_time for node in found["10 % more bandwidth"].nodes] == pytest.approx(
        [node.transfer_time / 1.1 for node in problem.nodes]
    )


def test_placements_with_levels_and_types() -> None:
    nested = pipeplan.load_packaged("tiny-chain").replace(accelerators=4, levels=(Level(2, 1.0, 8.0), Level(2)))
    found = changes(nested)
    assert found["one more device on level 2"].accelerators == 6
    assert found["10 % more bandwidth"].levels[0].sync_bandwidth == pytest.approx(8.8)
    assert found["10 % more bandwidth"].levels[1].sync_bandwidth is None
    typed = pipeplan.load_packaged("tiny-chain").replace(other_types=(AcceleratorType("slow", 2, 10.0),))
    assert changes(typed)["one more slow"].other_types[0].count == 3
    assert changes(typed)["1 GB more memory in slow"].other_types[0].memory_bytes == 10.0 + 1e9


def test_chains_have_a_bandwidth_or_times() -> None:
    chain = load_packaged("golden-4").replace(bandwidth=2.0, transfer_times=None)
    found = changes(chain)
    assert found["one more GPU"].gpus == chain.gpus + 1
    assert found["10 % more bandwidth"].bandwidth == pytest.approx(2.2)
    timed = chain.replace(bandwidth=None, transfer_times=(1.0,) * (chain.tasks - 1))
    assert changes(timed)["10 % more bandwidth"].transfer_times == pytest.approx((1 / 1.1,) * (chain.tasks - 1))


def test_what_is_not_limited_has_no_variant() -> None:
    assert "1 GB more memory" not in changes(load_packaged("tiny-stages").replace(memory_bytes=None))
    free = load_packaged("golden-4").replace(bandwidth=None, transfer_times=None, memory_bytes=None)
    assert list(changes(free)) == ["one more GPU"]


@pytest.mark.parametrize("step", [{"memory_bytes": 0.0}, {"bandwidth_share": 0.0}, {"bandwidth_share": -0.5}])
def test_steps_go_up(step: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(step))):
        variants(load_packaged("tiny-stages"), **step)


# ---- solved anew ---------------------------------------------------------------------------------------


def test_a_change_can_make_a_plan_possible() -> None:
    problem = load_packaged("tiny-stages").replace(memory_bytes=5.0)
    found = {worth.change: worth for worth in sensitivity(problem).changes}
    assert found["one more device"].result.stop == pipeplan.Stop.INFEASIBLE
    more = found["1 GB more memory"]
    assert (more.result.objective, more.ratio) == (pytest.approx(5.0), None)
    assert more.makes_possible


def test_a_problem_that_takes_no_time_has_a_plan() -> None:
    problem = load_packaged("tiny-chain")
    free = problem.replace(
        nodes=tuple(replace(n, accelerator_time=0.0, cpu_time=0.0, transfer_time=0.0) for n in problem.nodes)
    )
    changes = sensitivity(free).changes
    assert [(worth.ratio, worth.makes_possible) for worth in changes] == [(1.0, False)] * len(changes)


def test_facts_as_json() -> None:
    data = sensitivity(load_packaged("tiny-stages")).to_json()
    assert (data["schema"], data["planner"], data["objective"]) == ("pipeplan.sensitivity/1", "dp-piper", 6.0)
    assert len(data["changes"]) == 3
    assert all(row["stop"] == "proven" and row["verified"] for row in data["changes"])


def test_an_interrupt_leaves_out_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["proven", "interrupted"])

    def solve(problem: PlacementProblem, **how: Any) -> pipeplan.Result:
        return pipeplan.Result(problem={}, stop=pipeplan.Stop(next(answers)), found=pipeplan.Found.NOTHING)

    monkeypatch.setattr(module, "solve", solve)
    found = sensitivity(load_packaged("tiny-stages"))
    assert found.interrupted
    assert [isinstance(worth, Worth) for worth in found.changes] == [True]


SMALL = divided_pipeline(equal_stages(2, 1, 2, 1), None, 3, lag=1.1, name="small")
BYTES = replace(SMALL, memory_unit="bytes")
LIMITS = SolveOptions(time_limit_s=600, threads=1)


# ---- better devices ------------------------------------------------------------------------------------


def changes_of_schedule(problem: ScheduleProblem) -> dict[str, Any]:
    return {variant.change: variant.problem for variant in variants(problem)}


def test_more_memory_is_a_share_where_it_is_not_counted_in_bytes() -> None:
    found = changes_of_schedule(SMALL)
    assert [device.memory for device in found["10 % more memory"].devices] == [3.3, 3.3]
    assert [device.memory for device in changes_of_schedule(BYTES)["1 GB more memory"].devices] == [3 + 1e9] * 2


def test_one_device_at_a_time_is_faster_and_so_are_all_lags() -> None:
    found = changes_of_schedule(SMALL)
    assert list(found) == [
        "10 % more memory", "d0 1.1 times as fast", "d1 1.1 times as fast", "10 % more bandwidth",
    ]  # fmt: skip
    assert [block.time for block in found["d1 1.1 times as fast"].blocks] == [1, 2, 1, 0.9091, 1.818, 0.9091]
    assert {edge.lag for edge in found["10 % more bandwidth"].edges} == {0, 1}


def test_links_and_devices_without_limits_get_no_more() -> None:
    free = with_memory(SMALL, None)
    assert "10 % more memory" not in changes_of_schedule(free)


def test_of_rules_that_are_as_fast_the_one_with_the_least_memory_is_named() -> None:
    """GPipe holds all micro-batches and 1F1B one for each device; on equal stages both take as long."""
    problem = replace(pipeplan.load_packaged("v-shape-4"), micro_batches=8)
    rules = {known.name: known for known in rule_schedules(problem, "makespan", LIMITS)}
    assert rules["gpipe"].value == rules["1f1b"].value
    assert rules["gpipe"].peak == 8 > rules["1f1b"].peak == 4
    assert best_rule([rules["gpipe"], rules["1f1b"]]) is rules["1f1b"]
