"""What the command line says of the cluster of a staging problem, file or packaged: batches, levels, units of time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from pipeplan import ChainProblem, InputError, UsageError, save
from pipeplan.instances.base.quantities import levels
from pipeplan.instances.lookup import Cluster, load, load_instance
from pipeplan.instances.registry import kind_of
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingLevel, StagingProblem


def on_cluster(given: Any, cluster: Cluster) -> Any:
    return kind_of(given).on_cluster(given, cluster)


def problem(**changes: Any) -> StagingProblem:
    layers = tuple(Layer(v, {1: (Configuration("keep", 1.0),)}) for v in range(2))
    return StagingProblem(layers, (Edge(0, 1, 1.0),), devices=4, bandwidth=1e9, micro_batches=8).replace(**changes)


def test_levels_bring_their_devices_and_bandwidths() -> None:
    given = on_cluster(problem(), Cluster(levels=((8, 300e9), (2, 25e9))))
    assert given.levels == (StagingLevel(8, 300e9), StagingLevel(2, 25e9))
    assert given.devices == 16
    flat = on_cluster(given, Cluster(levels=(), bandwidth=5.0))
    assert (flat.levels, flat.devices, flat.bandwidth) == ((), 16, 5.0)


def test_levels_contradict_another_number_of_devices_or_one_bandwidth() -> None:
    with pytest.raises(InputError, match="make 16 devices, not 8"):
        on_cluster(problem(), Cluster(devices=8, levels=((8, 300e9), (2, 25e9))))
    with pytest.raises(UsageError, match="--levels have bandwidths of their own"):
        on_cluster(problem(), Cluster(bandwidth=1.0, levels=((4, 1.0),)))
    with pytest.raises(UsageError, match="give --levels"):
        on_cluster(problem(levels=(StagingLevel(4, 1.0),)), Cluster(bandwidth=2.0))


def test_rates_are_per_second_and_become_rates_per_unit_of_time() -> None:
    assert on_cluster(problem(time_unit="ms"), Cluster(bandwidth=1e9)).bandwidth == 1e6
    assert on_cluster(problem(time_unit="ms"), Cluster(levels=((4, 1e9),))).levels[0].bandwidth == 1e6
    assert on_cluster(problem(time_unit=None), Cluster(bandwidth=1e9)).bandwidth == 1e9, "in the file's own units"
    with pytest.raises(UsageError, match="times are in 'h'; write the bandwidth into the file"):
        on_cluster(problem(time_unit="h"), Cluster(bandwidth=1e9))


def test_a_file_without_a_unit_of_time_can_be_given_one() -> None:
    """Its bandwidth is per second, so that transfers are no longer a thousand times too cheap."""
    told = on_cluster(problem(time_unit=None), Cluster(time_unit="ms"))
    assert (told.time_unit, told.bandwidth) == ("ms", 1e6)
    assert on_cluster(problem(), Cluster(time_unit="s")).bandwidth == 1e9
    with pytest.raises(UsageError, match="this problem is in s; drop --option time-unit"):
        on_cluster(problem(), Cluster(time_unit="ms"))
    with pytest.raises(UsageError, match="give one of s, ms, us, ns"):
        on_cluster(problem(time_unit=None), Cluster(time_unit="h"))


@pytest.mark.parametrize("name", ["tiny-chain", "golden-4", "tiny-graph"])
def test_other_kinds_of_problems_refuse_them(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--levels"):
        load_instance(name, Cluster(levels=()))
    path = tmp_path / "file.json"
    save(load_instance(name, Cluster()), path)
    with pytest.raises(UsageError, match="--option time-unit is for staging problems"):
        load(path, time_unit="ms")


EVERY_OPTION: dict[str, list[Cluster]] = {
    "devices": [Cluster(devices=2)],
    "cpus": [Cluster(cpus=0), Cluster(cpus=3)],
    "memory": [Cluster(memory_bytes=5e8), Cluster(memory_bytes=math.inf)],
    "bandwidth": [Cluster(bandwidth=1e9), Cluster(bandwidth=0.3), Cluster(bandwidth=math.inf)],
    "batch": [Cluster(batch=16)],
    "levels": [Cluster(levels=()), Cluster(levels=((2, 3e9), (2, 1e9)))],
    "time unit": [Cluster(time_unit="ms"), Cluster(time_unit="us")],
    "cpu slowdown": [Cluster(cpu_slowdown=2.0)],
    "inference": [Cluster(training=False)],
    "together": [
        Cluster(devices=2, memory_bytes=1e9, bandwidth=1e9, batch=4),
        Cluster(devices=2, memory_bytes=1e9),
    ],
}
ONE_OF_EACH = (
    "tiny-chain", "cpu-offload", "tiny-stages", "three-chain", "resnet18-chain", "resnet18-training-chain",
    "golden-4", "tiny-graph",
)  # fmt: skip


@pytest.mark.parametrize("option", EVERY_OPTION)
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_an_option_means_the_same_for_a_packaged_problem_and_for_its_file(
    name: str, option: str, tmp_path: Path
) -> None:
    """The same problem, or the same refusal."""
    packaged = load_instance(name, Cluster())
    path = tmp_path / "its-file.json"
    save(packaged, path)
    for cluster in EVERY_OPTION[option]:
        assert asked(name, cluster) == asked(str(path), cluster)


def asked(name: str, cluster: Cluster) -> str:
    try:
        return load_instance(name, cluster).hash
    except (InputError, UsageError) as error:
        return str(error).removeprefix(f"{name}: ")


def test_a_rate_per_second_becomes_a_rate_per_time_unit_of_the_chain(tmp_path: Path) -> None:
    """In decimals: 0.3 bytes per second are 3e-7 per microsecond, not 2.9999999999999997e-07."""
    for rate, per_microsecond in ((1e9, 1000.0), (0.3, 3e-7)):
        problem = load_instance("resnet18-chain", Cluster(bandwidth=rate))
        assert isinstance(problem, ChainProblem)
        assert (problem.time_unit, problem.bandwidth) == ("us", per_microsecond)
    unknown = ChainProblem([1], [1], [0, 0], [0], gpus=1, time_unit=None)
    with pytest.raises(UsageError, match="the chain's time_unit is null"):
        on_cluster(unknown, Cluster(bandwidth=1.0))


def test_levels_as_people_write_them() -> None:
    assert levels("8x300GB/s, 2x25GB/s") == ((8, 300e9), (2, 25e9))
    assert levels("none") == ()
    for wrong in ("8", "x3", "8x300GB/s,", "axb", "-2x3"):
        with pytest.raises(ValueError, match=r"level like 8x300GB/s|quantity like"):
            levels(wrong)
