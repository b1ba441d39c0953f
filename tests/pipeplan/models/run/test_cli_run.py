"""`plan run` from a profile to the report, and every way in which it can go wrong: one sentence, no process left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from command_line import Plan, Said, done, in_one_line, refused
from run_cases import MODELS, in_shares, profile_of
from signals import hear_ctrl_c

import pipeplan
from pipeplan.instances.networks.profile.profile import profile_to_json
from pipeplan.models.run.launch import RunError

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch-runs")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Profiles and plans of two stages of the small models, on fake tensors."""
    folder = tmp_path_factory.mktemp("runs")
    found = {}
    for function in ("gpt", "wider_gpt", "noisy", "cusp", "rootless"):
        profile = profile_of(function)
        first = len(profile.nodes) // 2 - 1
        plan = in_shares(profile, first, len(profile.nodes) - first)
        for name, data in ((function, profile_to_json(profile)), (f"{function}-plan", plan.to_json())):
            path = folder / f"{name}.json"
            path.write_text(json.dumps(data), encoding="utf-8")
            found[name] = str(path)
    return found


def model(function: str) -> str:
    return f"{MODELS}:{function}"


Run = Callable[..., Said]


@pytest.fixture
def run(plan: Plan, files: dict[str, str]) -> Run:
    """Runs the plan of a small model, if need be with the function of another."""

    def run_plan(function: str, *options: object, of: str | None = None) -> Said:
        words = (files[f"{function}-plan"], files[function], "--model", model(of or function))
        return plan("run", *words, *options)

    return run_plan


def test_a_plan_is_run_checked_and_compared(run: Run, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    words = ("--check", "--compare", "even", "--measure", "--save-profile", saved, "--json")
    told = done(run("gpt", "--micro-batches", 4, "--steps", 3, *words)).json
    assert told["schema"] == "pipeplan.run/1"
    assert told["gain_predicted"] == told["even"]["predicted_s"] / told["plan"]["predicted_s"]
    for case in (told["plan"], told["even"]):
        assert case["check"]["agrees"]
        assert len(case["iterations_s"]) == 3
        assert len(case["passes"]) == 2 * 2 * 4
        assert case["judged_s"] == (case["measured_s"] if case["clean"] else case["virtual_s"])
        assert all(rank["sent_bytes"] > 0 for rank in case["ranks"])
        assert all(rank["busy_s"] + rank["waiting_s"] <= case["measured_s"] * 1.5 for rank in case["ranks"])
    profile = pipeplan.load_profile(saved)
    times = sum(profile.time(node.forward) + profile.time(node.backward) for node in profile.nodes)
    stages = told["plan"]["stages"]
    measured = sum(stage["forward_measured_s"] + stage["backward_measured_s"] for stage in stages)
    assert times == pytest.approx(measured)
    assert "in a run" in profile.source["times"]


def test_a_run_in_words(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files beside the run are no modules of its ranks."""
    monkeypatch.chdir(tmp_path)
    for name in ("random", "torch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
    words = in_one_line(done(run("gpt", "--steps", 1, "--micro-batches", 2)).out)
    assert "Gpt on 2 processes, 2 micro-batches, 1 iteration with the passes in the plan's order" in words
    assert "an iteration was predicted to take" in words
    assert "clean, the prediction is" in words or "the machine was busy" in words


def test_a_plan_that_is_the_even_split_is_not_run_twice(files: dict[str, str]) -> None:
    from pipeplan.models.run.run import even_split

    profile = pipeplan.load_profile(files["gpt"])
    plan = even_split(profile, 2)
    report = pipeplan.run(plan, profile, model("gpt"), steps=1, micro_batches=2, compare="even")
    assert report.even is None
    assert report.notes == ("the plan is the even split, so there is nothing to compare",)


# ---- what goes wrong ---------------------------------------------------------------------------------------


REFUSED: list[tuple[str, tuple[object, ...], str]] = [
    ("wider_gpt", (), "is another model than the profile's (graph "),
    (
        "raising",
        (),
        "raising raised ValueError: there is no such file of weights; let it return (model, args, kwargs)",
    ),
    ("missing", (), "has no function 'missing'"),
    ("gpt", ("--steps", 0), "steps is 0; give a whole number from 1"),
    ("gpt", ("--bandwidth", "0GB/s"), "bandwidth is 0; give a finite number > 0"),
    ("gpt", ("--time-limit", "10ms"), "The run has not ended after 0.01 s"),
]


@pytest.mark.parametrize(("function", "options", "sentence"), REFUSED)
def test_one_sentence_says_what_is_wrong(
    run: Run, function: str, options: tuple[object, ...], sentence: str
) -> None:
    refused(run("gpt", "--steps", 1, *options, of=function), sentence)


@pytest.mark.parametrize(("function", "options", "code", "sentence"), [
    ("noisy", ("--check",), 2, "draws random numbers .*; drop --check"),
    ("cusp", ("--check",), 3, "7 gradients DO NOT AGREE, some are not finite"),
    ("rootless", (), 2, "has the loss nan; give a model and inputs with a finite loss"),
])  # fmt: skip
def test_what_cannot_be_checked_or_is_no_number_is_told(
    run: Run, function: str, options: tuple[str, ...], code: int, sentence: str
) -> None:
    said = run(function, "--steps", 1, *options)
    assert said.code == code
    assert re.search(sentence, in_one_line(said.out + said.err))


def test_without_torch_the_sentence_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeplan.models.from_torch.find_spec", lambda name: None)
    refused(run("gpt"), "torch is not installed; run pip install 'pipeplan[torch]'.")


def test_functions_without_a_file_are_refused(files: dict[str, str]) -> None:
    with pytest.raises(pipeplan.UsageError, match="at the top level of a file"):
        pipeplan.run(pipeplan.load_plan(files["gpt-plan"]), files["gpt"], lambda: None)


@pytest.mark.timing
def test_a_rank_that_is_killed_ends_the_run(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeplan.models.run import launch

    def kill_one(processes: list[Any], folder: Path, deadline_s: float) -> None:
        processes[1].kill()
        wait(processes, folder, deadline_s)

    wait = launch._wait
    monkeypatch.setattr(launch, "_wait", kill_one)
    with pytest.raises(RunError, match="Rank 1 was ended by signal 9"):
        pipeplan.run(pipeplan.load_plan(files["gpt-plan"]), files["gpt"], model("gpt"), steps=1)


@pytest.mark.timing
def test_ctrl_c_ends_all_processes(files: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pipeplan", "run", files["gpt-plan"], files["gpt"], "--model", model("gpt")]
    process = subprocess.Popen([*command, "--steps", "10000"], stderr=subprocess.PIPE, preexec_fn=hear_ctrl_c)
    try:
        end = time.monotonic() + 600
        while len(ranks := _children(process.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(ranks) == 2
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130
    assert error.decode() == "Error: interrupted before there was any result.\n"
    end = time.monotonic() + 600
    while any(os.path.exists(f"/proc/{rank}") for rank in ranks) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [rank for rank in ranks if os.path.exists(f"/proc/{rank}")]


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
