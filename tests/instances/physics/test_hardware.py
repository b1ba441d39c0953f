"""GPUs are found by the names that people use, have plausible figures, and links for any usual cluster."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pipeplan import InputError, UsageError, load_profile, lower
from pipeplan.instances.base.quantities import MIB
from pipeplan.instances.physics.efficiencies import MEASURED
from pipeplan.instances.physics.hardware import (
    A100_FLOPS,
    DEVICES,
    GPUS,
    assumed_of,
    devices_and_gpu,
    known_gpu,
    usual_of,
)
from pipeplan.instances.training.build import problem_of


@pytest.mark.parametrize(("said", "meant"), [
    ("h100", "h100-80gb"), ("NVIDIA-H100-SXM5-80GB", "h100-80gb"), ("NVIDIA H100 80GB HBM3", "h100-80gb"),
    ("gb300-nvl72", "gb300"), ("B300-288GB", "b300"), ("Tesla V100-SXM2-16GB", "v100-16gb"),
    ("Tesla V100-PCIE-16GB", "v100-pcie-16gb"), ("a100_80", "a100-80gb"), ("GeForce RTX 3090", "rtx-3090"),
    ("NVIDIA A10G", "a10g"), ("NVIDIA L40S 48GB", "l40s"), ("RTX 4090", "rtx-4090"),
    *((name, name) for name in GPUS),
])  # fmt: skip
def test_a_gpu_is_found_by_what_people_call_it(said: str, meant: str) -> None:
    assert known_gpu(said).name == meant


@pytest.mark.parametrize(("said", "answer"), [
    ("a100", "The GPU 'a100' has several sizes; say a100-40gb or a100-80gb."),
    ("h1000", "There is no GPU named 'h1000'; choose one of"),
    ("a10", "There is no GPU named 'a10' (did you mean 'a10g'?)"),
    ("a100-80bg", "There is no GPU named 'a100-80bg' (did you mean 'a100-80gb'?)"),
    ("", "There is no GPU named ''"),
])  # fmt: skip
def test_an_unknown_gpu_is_refused_with_those_that_are_near(said: str, answer: str) -> None:
    with pytest.raises(UsageError) as caught:
        known_gpu(said)
    assert str(caught.value).startswith(answer)


@pytest.mark.parametrize("name", GPUS)
def test_figures_are_of_the_size_that_their_name_says_and_have_sources(name: str) -> None:
    known = GPUS[name]
    assert set(known.sources) == {"memory", "flops", "memory_rate", "links"}
    assert all(known.sources.values())
    _, _, size = name.rpartition("-")
    if size.endswith("gb"):
        assert 0.92 * float(size[:-2]) * 1e9 < known.memory_bytes <= 1.08 * float(size[:-2]) * 1e9
    assert known.flops["fp16"] > 1e13
    assert known.flops.get("fp8", 2 * known.flops["fp16"]) == pytest.approx(2 * known.flops["fp16"], rel=0.03)
    assert known.inside >= known.between
    assert known.memory_rate > known.inside


def test_chips_without_bf16_say_so_and_memory_is_what_the_driver_reports() -> None:
    """81,559 MiB of an H100, and 183,359 MiB of a B200 with 192 GB on the chip."""
    assert [known_gpu(name).memory_bytes / MIB for name in ("h100", "b200")] == [81_559, 183_359]
    without = {name for name, known in GPUS.items() if "bf16" not in known.flops}
    assert without == {"v100-pcie-16gb", "v100-16gb", "v100-32gb", "t4"}


def test_a_gpu_without_published_runs_is_told_as_an_assumption() -> None:
    """The A100's shares of its peak are assumed, and for larger peaks the least of any family with runs."""
    assert {gpu.measured_as for gpu in GPUS.values()} - {None} == set(MEASURED)
    peaks = {name: known.half_flops for name, known in GPUS.items() if known.measured_as is None}
    assert {"a10g", "l40s", "rtx-4090", "h20-96gb", "mi325x", "mi355x", "rtx-pro-6000", "trn2"} <= {*peaks}
    for name, peak in peaks.items():
        told, share = str(assumed_of(name, peak)), usual_of(name).products
        assert told.startswith(f"there are no published runs on {name}, so ")
        assert f"{share:.0%} of its peak" in told
        least = min(family.changes.get("products", 0.85) for family in MEASURED.values())
        assert share == (least if peak > A100_FLOPS else 0.85)
    assert assumed_of("h100-80gb", GPUS["h100-80gb"].half_flops) is None
    with pytest.raises(UsageError, match="no GPU named 'abacus'"):
        usual_of("abacus")


def test_a_new_gpu_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """`plan solve` and `plan configure` both read the record: memory, links and the shares of the peak."""
    new = replace(GPUS["h100-80gb"], name="x1000-90gb", memory_mib=90_000, memory_rate=4e12, node=4)
    monkeypatch.setitem(GPUS, new.name, new)  # type: ignore[arg-type]
    trained = problem_of("llama-3-8b", "8xx1000", batch=8, sequence=8_192)
    assert trained.gpu.memory_bytes == 90_000 * 2**20
    assert [level.count for level in trained.levels] == [4, 2]
    assert trained.efficiencies == usual_of("h100-80gb")
    solved = lower(load_profile("llama-3-8b"), devices="8xx1000").problem
    assert (solved.memory_bytes, solved.bandwidth) == (90_000 * 2**20, 50e9)


# ---- the roofline rule -----------------------------------------------------------------------------------


def test_shorter_numbers_are_faster_where_the_device_has_arithmetic_for_them() -> None:
    accelerator, host = DEVICES["v100-pcie-16gb"], DEVICES["xeon-8380"]
    assert accelerator.seconds(112e12, 0, 2) == pytest.approx(1 / 0.85, rel=1e-4)
    assert accelerator.seconds(112e12, 0, 4) == pytest.approx(8 / 0.85, rel=1e-4)
    assert host.seconds(1e12, 0, 2) == host.seconds(1e12, 0, 4)
    assert DEVICES["a100-40gb"].seconds(1.0, 1555e9) == pytest.approx(1 / 0.8, rel=1e-4)  # waits for memory


# ---- links ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("devices", "counts"), [
    ("64xh100-80gb", [8, 8]), ("4xh100", [4]), ("1xh100", [1]), ("144xgb200", [72, 2]), ("128xgb200", [64, 2]),
    ("1024xgb300", [64, 16]), ("8xgh200", [4, 2]), ("4x8xh100", [8, 4]), (" 8 x H100 ", [8]),
])  # fmt: skip
def test_the_usual_node_is_cut_or_repeated(devices: str, counts: list[int]) -> None:
    """Jobs leave trays of a rack out so that their number is a power of two."""
    count, gpu = devices_and_gpu(devices)
    levels = gpu.levels(count)
    assert [many for many, _, _ in levels] == counts
    assert math.prod(counts) == count
    assert levels[0][1] == gpu.inside


@pytest.mark.parametrize(("name", "count", "said"), [
    ("h100", 12, "devices are 12 h100-80gb, which do not fill nodes of 8 GPUs; give a multiple of 8, or say with"),
    # 37 racks with four GPUs of each would be one.
    ("gb200", 148, "devices are 148 gb200-186gb, which do not fill nodes of 72 GPUs; give a multiple of 72"),
])  # fmt: skip
def test_gpus_that_are_no_product_are_refused(name: str, count: int, said: str) -> None:
    with pytest.raises(InputError) as caught:
        known_gpu(name).levels(count)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "text", ["h100", "xh100", "8x", "8 h100", "-8xh100", "1.5xh100", "0xh100", "0x8xh100", "9" * 40 + "xh100", ""]
)
def test_what_names_no_devices_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        devices_and_gpu(text)
    assert caught.value.field == "devices"
