"""Flushes, types of devices and sensitivity on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Plan, done, refused

import pipeplan
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.staging.problem import DeviceType


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    """tiny-stages on devices of two types."""
    kinds = (DeviceType("big", 2, 1.0, 70.0), DeviceType("small", 2, 0.8, 35.0))
    file = tmp_path / "typed.json"
    pipeplan.save(load_packaged("tiny-stages").replace(memory_bytes=None, device_types=kinds), file)
    return file


def test_a_flush_is_named_and_remembered(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "flush.json"
    solved = done(plan("solve", "tiny-stages", "--objective", "flush", "--output", file, "-v"))
    assert "a batch of 8 micro-batches takes 9 slots" in solved.out
    assert "verified: yes, recomputed time per micro-batch, flushes included, 7.3125 s" in solved.out
    same = plan("verify", "tiny-stages", file, "--json").json
    assert (same["objective"], same["options"]["objective"]) == (7.3125, "flush")
    other = plan("verify", "tiny-stages", file, "--json", "--objective", "throughput").json
    assert (other["objective"], other["options"]) == (6.5, {"semantics": "paper"})


def test_stages_show_their_type(plan: Plan, typed: Path, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    assert plan("solve", typed, "--output", file).code == 0
    shown = done(plan("show", typed, file))
    assert {line.split()[3] for line in shown.out.splitlines() if "█" in line} == {"big", "small"}
    data = plan("show", typed, file, "--json").json
    assert all(stage["binds"] for stage in data["evaluation"]["stages"])
    assert "2 devices of speed 0.8 with memory 35 B" in plan("solve", typed, "-v").out


def test_a_plan_on_unknown_or_too_many_devices_of_a_type_is_rejected(
    plan: Plan, typed: Path, tmp_path: Path
) -> None:
    file, problem = tmp_path / "plan.json", load_packaged("tiny-stages")
    pipeplan.save(pipeplan.solve(problem), file)
    untyped = plan("verify", typed, file)
    assert untyped.code == 3
    assert "Stage 0 does not say on which type of devices it is." in untyped.out.replace("\n", " ")
    file.write_text(file.read_text().replace('"tensor_parallel"', '"device_type": "big", "tensor_parallel"'))
    crowded = plan("verify", typed, file)
    assert crowded.code == 3
    assert "uses 4 devices of type 'big', the problem has 2" in crowded.out.replace("\n", " ").replace('"', "'")


@pytest.mark.parametrize(
    ("option", "said"),
    [(("--devices", "5"), "device_types make 4 devices, not 5"), (("--memory", "1GB"), "memories")],
)
def test_overrides_that_types_leave_no_room_for(
    plan: Plan, typed: Path, option: tuple[str, str], said: str
) -> None:
    refused(plan("solve", typed, *option), said)


def test_levels_show_what_each_layer_runs(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    assert plan("solve", "tiny-levels", "--output", file).code == 0
    assert "vanilla" not in plan("show", "tiny-levels", file).out  # there is no other way
    recomputing = tmp_path / "recomputing.json"
    assert plan("solve", "bert-large-stages", "--memory", "3GB", "--output", recomputing).code == 0
    assert re.search(
        r"stage 0: \d+ (vanilla|activation recomp)", plan("show", "bert-large-stages", recomputing).out
    )


# ---- sensitivity ---------------------------------------------------------------------------------------


def test_changes_are_told_in_plain_words(plan: Plan) -> None:
    said = done(plan("sensitivity", "tiny-stages"))
    assert said.out.splitlines() == [
        "as it is (4 devices, 35 B): 6 s (proven)",
        "5 devices: 5 s, 16.67 % less time (proven)",
        "1 GB more memory (954 MiB): 5 s, 16.67 % less time (proven)",
        "10 % more bandwidth: 5.909091 s, 1.52 % less time (proven)",
        "Advice: 5 devices and 1 GB more memory (954 MiB) help most, with 16.67 % less time.",
    ]


def test_options_of_the_cluster_are_questions(plan: Plan) -> None:
    """Each alone, and all together, beside the usual changes."""
    said = plan("sensitivity", "tiny-stages", "--devices", 3, "--memory", "50B")
    assert said.out.splitlines()[:4] == [
        "as it is (4 devices, 35 B): 6 s (proven)",
        "3 devices: 9.5 s, 58.33 % more time (proven)",
        "50 B of memory: 5 s, 16.67 % less time (proven)",
        "3 devices, 50 B of memory: 8.5 s, 41.67 % more time (proven)",
    ]
    data = plan("sensitivity", "tiny-stages", "--devices", 3, "--json").json
    assert [row["change"] for row in data["changes"]][:2] == ["3 devices", "one more device"]


def test_what_makes_no_cluster_alone_is_asked_together(plan: Plan) -> None:
    said = plan("sensitivity", "tiny-levels", "--devices", 2, "--levels", "2x10B/s,1x1B/s").out.splitlines()
    assert said[1].startswith("levels of 2 x 1 devices (10 B/s, 1 B/s): 12 s, 100.00 % more time")
    assert said[2].startswith("2 devices, levels of 2 x 1 devices (10 B/s, 1 B/s): 12 s")
    refused(plan("sensitivity", "tiny-levels", "--devices", 3), "levels make 4 devices, not 3")


@pytest.fixture
def tight(tmp_path: Path) -> Callable[[float], Path]:
    """`tiny-stages` with another memory, as a file."""

    def file(memory_bytes: float) -> Path:
        path = tmp_path / "tight.json"
        pipeplan.save(load_packaged("tiny-stages").replace(memory_bytes=memory_bytes), path)
        return path

    return file


def test_steps_and_options_of_methods(plan: Plan, tight: Callable[[float], Path]) -> None:
    given = ("--objective", "flush", "--more-memory", "5B", "--more-bandwidth", "0.2", "--json")
    data = plan("sensitivity", tight(30.0), *given).json
    assert [row["change"] for row in data["changes"]][1:] == ["5 B more memory", "20 % more bandwidth"]
    assert (data["problem"]["memory_bytes"], data["options"]["objective"]) == (30.0, "flush")
    again = plan("solve", "tiny-stages", "--objective", "flush", "--json").json  # 30 B and 5 B more
    assert data["changes"][1]["objective"] == again["objective"]


def test_no_plan_at_all(plan: Plan, tight: Callable[[float], Path]) -> None:
    said = plan("sensitivity", tight(5.0))
    assert said.code == 1
    assert "1 GB more memory (954 MiB): 5 s, where there was no plan (proven)" in said.out
    assert "Advice: 1 GB more memory (954 MiB) makes a plan possible." in said.out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--more-bandwidth", "0"), "--more-bandwidth is 0; give a finite number > 0."),
        (("--more-bandwidth", "nan"), "--more-bandwidth is nan"),
        (("--more-memory", "0"), "--more-memory is 0"),
        (("--planner", "nothing"), "There is no planner named 'nothing'"),
        (("--progress", "loud"), "--progress is 'loud'"),
    ],
)
def test_wrong_input_is_one_sentence(plan: Plan, given: tuple[str, str], said: str) -> None:
    refused(plan("sensitivity", "tiny-stages", *given), said)
