"""`plan memory`: the least memory in one sentence, the table, the files, Ctrl-C, and what is refused."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, refused
from signals import PATIENCE_S, after_work, started

import pipeplan
from pipeplan.instances.base.result import Stop
from pipeplan.studies.memory import MemoryPoint, settled
from pipeplan.studies.sweep import Candidate

LEAST = {"tiny-stages": 18, "tiny-levels": 12, "tiny-chain": 200, "golden-4": 29, "tiny-graph": 13}
"""One instance of each kind, and one with levels."""


@pytest.mark.sweeps("golden-4", "tiny-graph")
@pytest.mark.parametrize("instance", LEAST)
def test_the_answer_is_one_sentence_for_every_kind(plan: Plan, instance: str) -> None:
    least = LEAST[instance]
    said = done(plan("memory", instance, "--points", 0, "--time-limit", "600s"))
    assert said.out.startswith(f"{instance}: {least} bytes of memory per device is the least with a plan (proven")
    assert f"--memory {least} asks for it" in said.out
    assert plan("solve", instance, "--memory", f"{least}B", "--time-limit", "600s").code == 0
    assert plan("solve", instance, "--memory", f"{least - 1}B", "--time-limit", "600s").code in (1, 2)


def test_what_more_memory_is_worth_as_table_json_file_and_picture(plan: Plan, tmp_path: Path) -> None:
    """Every value that is shown is the optimum with that memory, and at the last one more does not help."""
    answer, curve = tmp_path / "answer.json", tmp_path / "curve.svg"
    asked = ("memory", "tiny-stages", "--time-limit", "600s")
    said = done(plan(*asked, "-o", answer, "--picture", curve))
    assert (
        "from 50 bytes on more memory does not help (proven by dp-piper); with 30 bytes it still does" in said.out
    )
    assert curve.read_text().lstrip().startswith("<?xml")
    stored = json.loads(answer.read_text())
    told = plan(*asked, "--json").json
    for point in (*stored["points"], *told["points"]):
        assert point.pop("seconds") >= 0
    assert stored == told
    assert (told["schema"], told["complete"]) == ("pipeplan.memory/1", True)
    assert (told["least"]["memory_bytes"], told["least"]["proven"], told["no_more_helps_from_bytes"]) == (
        18,
        True,
        50,
    )
    problem = pipeplan.load_packaged("tiny-stages")
    for point in told["points"]:
        assert point["certified"]
        best = pipeplan.solve(problem.replace(memory_bytes=point["memory_bytes"]), planner="dp-piper")
        assert point["value"] == best.objective
    assert told["points"][-1]["value"] == pipeplan.solve(problem.replace(memory_bytes=None)).objective


def test_the_cluster_and_the_method_can_be_chosen(plan: Plan) -> None:
    more = plan("memory", "tiny-stages", "--devices", 8, "--points", 0, "--time-limit", "600s", "--json").json
    assert more["least"]["memory_bytes"] <= LEAST["tiny-stages"]
    levels = plan(
        "memory", "tiny-levels", "--hierarchy", "basic", "--points", 2, "--time-limit", "600s", "--json"
    ).json
    assert (levels["least"]["memory_bytes"], levels["least"]["reason"]) == (0, "memory is no matter")
    free = plan(
        "memory", "tiny-chain", "--planner", "brute-force", "--non-contiguous", "--points", 1, "--json"
    ).json
    assert (free["method"], free["least"]["proven"]) == ("brute-force", True)


def test_without_time_the_answer_is_a_bound_with_its_name(plan: Plan) -> None:
    said = plan("memory", "tiny-stages", "--time-limit", "0s")
    assert said.code == 1
    bound = "at least 12 bytes is needed, by an even share of all layers on 4 devices"
    assert f"no amount of memory is known to be enough; {bound}" in said.out
    assert "not complete" in said.err


def test_where_no_memory_is_enough_that_is_said(plan: Plan) -> None:
    said = plan("memory", "tiny-stages", "--exact-batches")
    assert said.code == 1
    why = "no amount of memory is enough: data-parallel degrees must sum to exactly"
    assert why in said.out


def test_where_the_scope_is_empty_the_rule_is_said(plan: Plan) -> None:
    said = plan("memory", "tiny-training", "--fix", "tensor=7")
    assert said.code == 1
    assert "no amount of memory is enough: Nothing with tensor=7 can be run. The degrees make" in said.out


def test_what_makes_no_sense_is_refused_in_one_sentence(plan: Plan, tmp_path: Path) -> None:
    wrong: dict[tuple[Any, ...], str] = {
        ("nothing-like-it",): "nothing-like-it",
        ("tiny-stages", "--planner", "nonsense"): "no planner named 'nonsense'",
        ("tiny-stages", "--non-contiguous"): "'dp-piper' has no option 'non-contiguous'",
        ("tiny-stages", "--picture", tmp_path / "curve.txt"): "name a file that ends in",
        ("tiny-stages", "--picture", tmp_path / "curve.svg", "--points", 0): "drop one of them",
        ("tiny-stages", "-o", tmp_path / "none" / "answer.json"): "does not exist",
        ("tiny-stages", "--memory", "5GB"): "drop --memory",
        ("tiny-stages", "--progress", "loud"): "give one of auto, json, none",
    }
    for arguments, words in wrong.items():
        refused(plan("memory", *arguments), words)


@pytest.mark.slow
@pytest.mark.timing
def test_an_interrupt_shows_what_is_known(tmp_path: Path) -> None:
    """The least memory of many nodes on few accelerators, in any order, is hard; a bracket is there at once."""
    asked = ("memory", "bert-large-training", "--formulation", "ip-tarnawski", "--non-contiguous")
    with started(*asked, "--time-limit", "10min", "--progress", "json", "--json") as process:
        after_work(process.pid, seconds=2.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    least = json.loads(out)["least"]
    assert process.returncode in (0, 130)
    assert (least["stop"], least["proven"]) == ("interrupted", False)
    assert least["lower_bytes"] > 0
    assert "not complete" in err


def test_plans_count_for_more_memory_and_bounds_for_less() -> None:
    def point(memory: float, value: float | None, bound: float | None) -> MemoryPoint:
        plan = None if value is None else Candidate(None, value, memory)
        return MemoryPoint(memory, Stop.COMPLETED, plan, bound)

    curve = settled([point(30, 7, 5), point(10, 6, 2), point(20, None, 3), point(30, 6, None)])
    assert [(p.limit, p.value, p.bound) for p in curve] == [(10, 6, 5), (20, 6, 5), (30, 6, 5)]
