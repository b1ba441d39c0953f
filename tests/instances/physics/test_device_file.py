"""A device of one's own, as a file: what it says becomes a GPU, and every mistake is one sentence with its remedy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Plan, refused

from pipeplan import PipeplanError
from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.physics.hardware import devices_given
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.problem import Level, TrainingProblem

CARD = """
[device]
name = "my-card"
memory_bytes = "24GiB"
memory_rate = "1008GB/s"
flops = {bf16 = "165TFLOP/s", fp8 = 330e12}
node = 8
inside = "32GB/s"
between = 12.5e9
inside_seconds = "2us"

[efficiencies]
products = 0.75
host_seconds = 2e-5
"""


def problem(devices: str, text: str = CARD, **more: object) -> TrainingProblem:
    Path("card.toml").write_text(text)
    return problem_of("llama-3-8b", devices, batch=64, sequence=2048, gpu="card.toml", **more)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_amounts_are_numbers_or_texts_with_units() -> None:
    gpu = problem("8").gpu
    assert (gpu.name, gpu.memory_bytes, gpu.memory_rate) == ("my-card", 24 * 2**30, 1008e9)
    assert gpu.flops == {"bf16": 165e12, "fp8": 330e12}


@pytest.mark.parametrize(("devices", "levels"), [
    ("1", (Level(1, 32e9, 2e-6),)),
    ("8", (Level(8, 32e9, 2e-6),)),
    ("32", (Level(8, 32e9, 2e-6), Level(4, 12.5e9, 0.0))),
    ("2x4", (Level(4, 32e9, 2e-6), Level(2, 12.5e9, 0.0))),
])  # fmt: skip
def test_the_number_of_devices_is_said_beside_the_file(devices: str, levels: tuple[Level, ...]) -> None:
    assert problem(devices).levels == levels
    assert problem_of("llama-3-8b", f"{devices}xcard.toml", batch=64, sequence=2048) == problem(devices)


def test_without_nodes_all_devices_are_linked_alike() -> None:
    alike = CARD.replace("node = 8\n", "").replace("between = 12.5e9\n", "")
    assert problem("64", alike).levels == (Level(64, 32e9, 2e-6),)
    assert [level.bandwidth for level in problem("8x8", alike).levels] == [32e9, 32e9]


def test_its_efficiencies_count_for_more_than_a_framework_s_and_for_less_than_those_given() -> None:
    own = problem("8", framework="pytorch", efficiencies={"products": 0.5}).efficiencies
    usual = problem("8", CARD.partition("[efficiencies]")[0], framework="pytorch").efficiencies
    assert own == replace(usual, products=0.5, host_seconds=2e-5)
    assert problem("8").efficiencies == Efficiencies(products=0.75, host_seconds=2e-5)


CHANGES = {
    '"24GiB"->"24 gigs"': "device.memory_bytes is no amount: '24 gigs' is not a quantity like 80GiB; units: B, kB",
    '"24GiB"->24': "device.memory_bytes is 24 bytes, which no hardware has; write 24GB if you mean 24,000",
    '"24GiB"->true': "device.memory_bytes is true, not a number; give a finite number.",
    '"24GiB"->-1': "device.memory_bytes is negative (-1); give a finite number >= 0.",
    '"24GiB"->nan': "device.memory_bytes is NaN; give a finite number.",
    "memory_bytes->memory": 'device.memory is an unknown key; write "memory_bytes" or remove it.',
    'memory_rate = "1008GB/s"\n->': 'device.memory_rate is missing; add the key "memory_rate".',
    "1008GB/s->1008Gb/s": "'1008Gb/s' is not a quantity like 3350GB/s (1008Gb/s are 126GB/s)",
    "165TFLOP/s->165TFLOPS": "device.flops.bf16 is no amount: '165TFLOPS' is not a quantity like 989TFLOP/s (did you",
    "330e12->330": "device.flops.fp8 is 330 operations a second, which no hardware has; write 3.3e+14 if you mean",
    "fp8->fp4": 'device.flops.fp4 is an unknown key; write "fp8" or remove it.',
    'bf16 = "165TFLOP/s", fp8 = 330e12->': 'device.flops is empty; give the peak of a format, as bf16 = "989TFLOP/s".',
    '{bf16 = "165TFLOP/s", fp8 = 330e12}->"165TFLOP/s"': "device.flops is '165TFLOP/s', not an object; give {...}.",
    '"my-card"->7': "device.name is 7, not a text; give a text.",
    "my-card->h100-80gb": "device.name is 'h100-80gb', which is known by its data sheet; choose another.",
    "node = 8\n->": "device.node is missing, and between is given; give the devices of a node, as 8.",
    "node = 8->node = 0": "device.node is 0; give a whole number from 1 to",
    "between = 12.5e9\n->": "device.between is missing, and there are 64 devices; give the rate of their links, as",
    '"2us"->2': "device.inside_seconds is 2 seconds, which no hardware has; write 2e-06 if you mean 2 us.",
    "products->product": 'efficiencies.product is an unknown key; write "products" or remove it.',
    "0.75->75": "efficiencies.products is 75; give 0.01 to 1.",
    "0.75->high": "content is no TOML (Invalid value (at line 13, column 12)); correct the text there.",
    "[device]->[gpu]": "gpu is an unknown key; use one of device, efficiencies or remove it.",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_mistake_is_one_sentence_with_file_field_and_remedy(change: str) -> None:
    old, _, new = change.partition("->")
    assert old in CARD, "the row changes something"
    with pytest.raises(PipeplanError) as caught:
        problem("64", CARD.replace(old, new, 1))
    said = str(caught.value)
    assert said.startswith("card.toml: "), said
    assert CHANGES[change] in said, said
    assert "\n" not in said


def test_a_file_without_a_device_is_refused() -> None:
    Path("fit.json").write_text(json.dumps({"schema": "pipeplan.efficiencies/1", "efficiencies": {}}))
    with pytest.raises(PipeplanError, match=r'^fit.json: device is missing; add the key "device"\.$'):
        problem_of("llama-3-8b", "8", batch=64, sequence=2048, gpu="fit.json")


def test_profiles_know_no_devices_of_files() -> None:
    Path("card.toml").write_text(CARD)
    with pytest.raises(PipeplanError, match="profiles know no devices of files; give GPUs by name"):
        devices_given("2xcard.toml")


ASKED = (
    "configure", "llama-3-8b", "--layers", 2, "--sequence", 2048, "--batch", 8, "--judge", "tensor=4 pipeline=2",
)  # fmt: skip


def test_the_command_line_counts_devices_of_the_file(plan: Plan) -> None:
    Path("card.toml").write_text(CARD)
    told = plan(*ASKED, "--devices", 8, "--gpu", "card.toml", "--json").json["judged"][0]
    assert told["seconds"] == plan(*ASKED, "--devices", "8xcard.toml", "--json").json["judged"][0]["seconds"]
    refused(plan(*ASKED, "--devices", "8xh100", "--gpu", "card.toml"), "give their number alone, as 8 or 8x8")
    refused(plan(*ASKED, "--devices", 8, "--gpu", "h100"), "--gpu is 'h100', no file that ends in .toml or .json")
    refused(plan(*ASKED, "--devices", 8, "--gpu", "care.toml"), "does not exist (did you mean 'card.toml'?)")
    Path("card.toml").write_text(CARD.replace("24GiB", "24 gigs"))
    refused(plan(*ASKED, "--devices", 8, "--gpu", "card.toml"), "card.toml: device.memory_bytes is no amount")
