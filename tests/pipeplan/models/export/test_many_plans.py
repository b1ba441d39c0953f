"""Plans of every kind to every framework: read back as the same stages, or refused with what to ask for instead."""

from __future__ import annotations

import argparse
import json
import shlex
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
from pipeplan.instances.networks.profile.profile import Profile, number_in
from pipeplan.instances.training.flags import configuration_from_flags
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
    elif name == "a training configuration":
        own = case.problem.replace(framework=to)
        assert configuration_from_flags(own, found.text).configuration == case.plan
    elif name == "a schedule":
        rows = [line.split(",") for line in found.text.splitlines()]
        assert len(rows) == 4
        assert sorted({cell for row in rows for cell in row if cell.startswith("0F")}) == sorted(
            f"0F{j}" for j in range(12)
        )
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
    assert isinstance(case.problem, Profile)
    return [_count(stage.nodes) for stage in stages_of(case.plan, case.problem).stages]


def _count(modules: Any) -> int:
    return sum(number_in(module) is not None for module in modules)


# ---- what each framework makes of the text, by its own rules --------------------------------------------


def torch(found: Exported, case: Planned) -> list[int]:
    """The modules of each stage; a split point begins every stage but the first."""
    told = json.loads(found.text)
    assert len(told["split_spec"]) == len(told["stages"]) - 1
    assert {*told["split_spec"].values()} <= {"BEGINNING"}
    if "schedule.csv" in found.files:
        rows = [line.split(",") for line in found.files["schedule.csv"].splitlines()]
        passes = sorted(cell for row in rows for cell in row)
        stages = range(len(told["stages"]))
        assert passes == sorted(f"{stage}{kind}{j}" for stage in stages for kind in "FB" for j in range(4))
    return [_count(modules) for modules in told["stages"]]


def torchtitan(found: Exported, case: Planned) -> list[int]:
    told = tomllib.loads(found.text)["parallelism"]
    parts = told["module_fqns_per_model_part"]
    assert len(parts) % told["pipeline_parallel_degree"] == 0
    return [_count(modules) for modules in parts]


def megatron(found: Exported, case: Planned) -> list[int]:
    """The flags of its parser, and a layout of its letters."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for name in (
        "pipeline-model-parallel-size",
        "tensor-model-parallel-size",
        "micro-batch-size",
        "global-batch-size",
    ):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--pipeline-model-parallel-layout")
    parser.add_argument("--sequence-parallel", action="store_true")
    told = parser.parse_args(shlex.split(found.text))
    layout = read_layout(told.pipeline_model_parallel_layout, LAYERS)
    assert len(layout.stages) % told.pipeline_model_parallel_size == 0
    assert "".join(layout.stages).count("E") == "".join(layout.stages).count("L") == 1
    return [stage.count("t") for stage in layout.stages]


def deepspeed(found: Exported, case: Planned) -> list[int]:
    """The module runs beside theirs, and its parts divide the list of layers."""
    told: dict[str, Any] = {}
    exec(compile(found.text, "planned_pipeline.py", "exec"), told)
    parts, layers = told["parts"], told["planned_layers"]
    assert (parts[0], parts[-1]) == (0, len(layers))
    return [_count(layers[start:end]) for start, end in pairwise(parts)]


def counts(found: Exported, case: Planned) -> list[int]:
    """vLLM and SGLang: whole numbers between commas, that sum to the layers."""
    told = [int(count) for count in found.text.strip().partition("=")[2].split(",")]
    assert sum(told) == LAYERS
    return told


def trtllm(found: Exported, case: Planned) -> list[int]:
    """A line of YAML, whose list is also one of JSON."""
    key, _, listed = found.text.strip().partition(": ")
    assert key == "pp_partition"
    return [int(count) for count in json.loads(listed)]


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
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--split-mode", choices=["none", "layer", "row"])
    parser.add_argument("--tensor-split", type=lambda text: [float(part) for part in text.split(",")])
    told = parser.parse_args(shlex.split(found.text))
    assert sum(told.tensor_split) == LAYERS
    return [int(count) for count in told.tensor_split]


READERS: dict[str, Callable[[Exported, Planned], list[int]]] = {
    "torch": torch, "torchtitan": torchtitan, "megatron": megatron, "deepspeed": deepspeed, "vllm": counts,
    "sglang": counts, "trtllm": trtllm, "accelerate": accelerate, "llamacpp": llamacpp,
}  # fmt: skip
