"""Plans of every kind to every framework: read back as the same stages, or refused with what to ask for instead."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from problems.exported_plans import INSTEAD, LAYERS, PLANS, Planned, outcome, planned, table

from pipeplan.instances.networks.megatron_layout import read_layout
from pipeplan.instances.networks.profile.profile import number_in
from pipeplan.models.export.contract import TARGETS, Exported
from pipeplan.models.stages import stages_of

PAGE = Path(__file__).parents[4] / "docs" / "export.md"


@pytest.mark.sweeps(
    "a chain-torch", "a chain-torchtitan", "a graph of stages-torch", "a training configuration-sglang"
)
@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("name", PLANS)
def test_it_comes_back_or_is_refused_with_what_to_ask_for(
    name: str, to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, case = outcome(name, to), planned(name)
    if not isinstance(found, Exported):
        assert str(found).endswith(".")
        assert "\n" not in str(found)
        assert INSTEAD.search(str(found)), found
    elif name in ("a training configuration", "a schedule"):
        return  # these are read back in tests of their own
    else:
        monkeypatch.setitem(sys.modules, "deepspeed", ModuleType("deepspeed"))
        pipe = ModuleType("deepspeed.pipe")
        pipe.PipelineModule = type("PipelineModule", (), {})  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "deepspeed.pipe", pipe)
        assert READERS[to](found, case) == layers_of(case)


def test_the_page_shows_what_becomes_of_each() -> None:
    assert "\n".join(table()) in PAGE.read_text(encoding="utf-8")


def layers_of(case: Planned) -> list[int]:
    """By stage the number of layers."""
    return [_count(stage.nodes) for stage in stages_of(case.plan, case.problem).stages]


def _count(modules: Any) -> int:
    return sum(number_in(module) is not None for module in modules)


# ---- what each framework makes of the text, by its own rules --------------------------------------------


def torch(found: Exported, case: Planned) -> list[int]:
    """The modules of each stage; a split point begins every stage but the first."""
    told = json.loads(found.text)
    stages = range(len(told["stages"]))
    assert list(told["split_spec"].values()) == ["BEGINNING"] * (len(stages) - 1)
    if "schedule.csv" in found.files:
        passes = sorted(cell for line in found.files["schedule.csv"].splitlines() for cell in line.split(","))
        assert passes == sorted(f"{stage}{kind}{j}" for stage in stages for kind in "FB" for j in range(4))
    return [_count(modules) for modules in told["stages"]]


def torchtitan(found: Exported, case: Planned) -> list[int]:
    own = tomllib.loads(found.text)["parallelism"]
    assert own["pipeline_parallel_schedule"] in ("1F1B", "Interleaved1F1B")
    assert len(own["module_fqns_per_model_part"]) % own["pipeline_parallel_degree"] == 0
    return [_count(modules) for modules in own["module_fqns_per_model_part"]]


def layout(found: Exported, case: Planned) -> list[int]:
    """Megatron's layout and lists of layer counts, as people write them."""
    read = read_layout(found.text, LAYERS)
    assert read.ranks is None or len(read.stages) % read.ranks == 0
    return [stage.count("t") for stage in read.stages]


def deepspeed(found: Exported, case: Planned) -> list[int]:
    """The module runs beside theirs, and its parts divide the list of layers."""
    told: dict[str, Any] = {}
    exec(compile(found.text, "planned_pipeline.py", "exec"), told)
    parts, layers = told["parts"], told["planned_layers"]
    assert (parts[0], parts[-1]) == (0, len(layers))
    return [_count(layers[start:end]) for start, end in pairwise(parts)]


def accelerate(found: Exported, case: Planned) -> list[int]:
    """Devices by module: those of one rank are the stages on it."""
    device_map = json.loads(found.text)
    stages = stages_of(case.plan, case.problem).stages
    for stage in stages:
        devices = {device_map.get(node) for node in stage.nodes}
        assert len(devices) == 1
        assert devices == {"cpu"} or not stage.on_cpu
    assert _count(device_map) == LAYERS
    return layers_of(case)


def llamacpp(found: Exported, case: Planned) -> list[int]:
    mode, split = found.text.split()[1::2]
    assert mode == "layer"
    return [int(count) for count in split.split(",")]


READERS: dict[str, Callable[[Exported, Planned], list[int]]] = {
    "torch": torch, "torchtitan": torchtitan, "deepspeed": deepspeed, "accelerate": accelerate, "llamacpp": llamacpp,
    **dict.fromkeys(("megatron", "vllm", "sglang", "trtllm"), layout),
}  # fmt: skip
