"""`plan configure` on GPUs of two sorts: judged, searched, saved and verified, fitted to runs, and exported."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from command_line import Plan, done, has, in_one_line, refused

import pipeplan
from pipeplan.instances.physics.hardware import GPUS
from pipeplan.instances.schemas import read_schema
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.iteration import Iteration
from pipeplan.instances.training.words import configuration_from_words

BOTH = "4xa100-80gb,4xh100-80gb"
ASKED = ("configure", "llama-3-8b", "--sequence", 2048, "--batch", 32, "--layers", 6, "--devices", BOTH)
HALVES = "pipeline=2 layout=3/5 first-pool=1"


def test_each_stage_is_on_one_sort_in_either_order(plan: Plan) -> None:
    said = done(plan(*ASKED, "--judge", HALVES, "--judge", "pipeline=2 layout=5/3 first-pool=2"))
    rows = [
        line.split()[:3]
        for line in said.out.splitlines()
        if "-80gb " in line and line[:1].isdigit() and "and similar" not in line
    ]
    assert rows == [
        ["0", "0-3", "a100-80gb"],
        ["1", "4-7", "h100-80gb"],
        ["0", "0-3", "h100-80gb"],
        ["1", "4-7", "a100-80gb"],
    ]
    has(in_one_line(said.out), "a100-80gb has 79.35, h100-80gb has 79.65", "recompute=none first-pool=2")


def test_the_slower_sort_has_fewer_layers_and_the_file_is_verified(plan: Plan, tmp_path: Path) -> None:
    problem, best = tmp_path / "problem.json", tmp_path / "best.json"
    said = done(plan(
        *ASKED, "--fix", "tensor=1", "--fix", "context=1", "--json", "-o", best, "--problem-output", problem
    ))  # fmt: skip
    answer = json.loads(said.out)
    jsonschema.Draft202012Validator(read_schema("configurations-1")).validate(answer)
    jsonschema.Draft202012Validator(read_schema("training-1")).validate(json.loads(problem.read_text("utf-8")))
    own = answer["best"]
    assert own["degrees"]["pipeline"] == 2
    halves = own["layout"][:: 1 if own.get("first_pool", 1) == 1 else -1]
    assert halves[0] < halves[1], "the A100 has fewer units than the H100"
    alone = answer["alone"]
    assert own["seconds"] < alone["4xh100-80gb"]["seconds"] < alone["4xa100-80gb"]["seconds"]
    assert all(sort["finished"] for sort in alone.values())
    done(plan("verify", problem, best))
    loaded = pipeplan.load(problem)
    assert [pool.gpu.name for pool in loaded.pools] == ["a100-80gb", "h100-80gb"]
    assert loaded.second.bandwidth == min(GPUS[name].between for name in ("a100-80gb", "h100-80gb"))
    flags = done(plan("export", best, "--to", "megatron"))
    first = "a100-80gb" if own.get("first_pool", 1) == 1 else "h100-80gb"
    has(in_one_line(flags.out + flags.err), f"ranks 0 to 3 are the {first}, 1 stage of 4 GPUs")
    refused(plan("export", best, "--to", "megatron", "--launcher", "slurm"), "drop --launcher")


def test_runs_are_fitted_to_the_sort_that_they_name(plan: Plan, tmp_path: Path) -> None:
    rows = ["devices,data,tensor,micro_batch,seconds"]
    for name, slower in (("a100-80gb", 1.2), ("h100-80gb", 1.0)):
        alone = problem_of("llama-3-8b", f"4x{name}", batch=32, sequence=2048, layers=6)
        for tensor in (1, 2, 4):
            own = configuration_from_words(alone, f"tensor={tensor} micro-batch=2")
            seconds = slower * Iteration(alone, own).seconds()
            rows.append(f"4x{name},{4 // tensor},{tensor},2,{seconds}")
    table = tmp_path / "runs.csv"
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    plain = json.loads(done(plan(*ASKED, "--judge", HALVES, "--json")).out)["judged"][0]
    answer = json.loads(done(plan(*ASKED, "--judge", HALVES, "--measured", table, "--json")).out)
    before, after = ([rank["seconds"] for rank in own["ranks"]] for own in (plain, answer["judged"][0]))
    assert after[0]["products"] > 1.02 * before[0]["products"]
    assert after[1]["products"] == pytest.approx(before[1]["products"], rel=1e-3)
    assert {*answer["measured"]["sorts"]} == {"a100-80gb", "h100-80gb"}
    table.write_text("tensor,seconds\n1,2.5\n", encoding="utf-8")
    refused(plan(*ASKED, "--measured", table), "devices", "two sorts")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--judge", "tensor=8 pipeline=1"), "Stages of 8 GPUs do not divide the 4 and 4 GPUs of each sort"),
        (("--judge", "pipeline=2 layout=4/4 first-pool=3"), "first-pool"),
        (("--lose", 1), "no ladder of lost nodes"),
        (("--levels", "8x450GB/s"), "drop them"),
    ],
)
def test_what_two_sorts_do_not_have_is_refused(plan: Plan, more: tuple[object, ...], said: str) -> None:
    refused(plan(*ASKED, *more), said)


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ("4xa100-80gb,4xh100-80gb,4xt4-16gb", "are of 3 sorts"),
        ("4xa100-80gb,4xv100-32gb", "bf16"),
        ("4xa100-80gb,4xa100-80gb", "twice"),
    ],
)
def test_pools_that_cannot_be_are_refused(plan: Plan, devices: str, said: str) -> None:
    refused(plan(*ASKED[:-1], devices), said)
