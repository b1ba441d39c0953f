"""`plan pareto` and `plan memory`: the tables, the files, going on, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from command_line import Plan, done, refused
from signals import PATIENCE_S, after_work, started

import pipeplan

LEAST = {"tiny-stages": 18, "tiny-levels": 12, "tiny-chain": 200, "golden-4": 29, "tiny-graph": 13}
"""One instance of each kind, and one with levels."""


@pytest.mark.sweeps("golden-4", "tiny-graph")
@pytest.mark.parametrize("instance", LEAST)
def test_the_answer_is_one_sentence_for_every_kind(plan: Plan, instance: str) -> None:
    least = LEAST[instance]
    said = done(plan("memory", instance, "--points", 0, "--time-limit", "600s"))
    start = f"{instance}: {least} bytes of memory per device is the smallest amount with a plan (proven"
    assert said.out.startswith(start)
    assert f"; use --memory {least}" in said.out
    assert plan("solve", instance, "--memory", f"{least}B", "--time-limit", "600s").code == 0
    assert plan("solve", instance, "--memory", f"{least - 1}B", "--time-limit", "600s").code in (1, 2)


def test_what_more_memory_is_worth_as_table_json_file_and_picture(plan: Plan, tmp_path: Path) -> None:
    """Every value that is shown is the optimum with that memory, and at the last one more does not help."""
    answer, curve = tmp_path / "answer.json", tmp_path / "curve.svg"
    asked = ("memory", "tiny-stages", "--time-limit", "600s")
    said = done(plan(*asked, "-o", answer, "--picture", curve))
    assert "above 50 bytes, more memory does not help (proven by dp-piper); at 30 bytes it still does" in said.out
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


NONE_IS_ENOUGH = {
    "memory tiny-stages --time-limit 0s": (
        "known to be enough; at least 12 bytes is needed, by an even share of all layers on 4 devices"
    ),
    "memory tiny-training --fix tensor=7": "enough: No configuration with tensor=7 can be run. 7 does not divide",
}


@pytest.mark.parametrize("words", NONE_IS_ENOUGH)
def test_where_no_memory_is_enough_the_reason_is_said(plan: Plan, words: str) -> None:
    """Without time the answer is a bound with its name."""
    said = plan(*words.split())
    assert said.code == 1
    assert f"no amount of memory is {NONE_IS_ENOUGH[words]}" in said.out
    assert ("incomplete" in said.err) == ("--time-limit" in words)


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
    assert "incomplete" in err


def test_period_against_memory_as_table_points_csv_and_picture(plan: Plan, tmp_path: Path) -> None:
    """Without an instance a packaged chain is taken; 13 with 34 bytes and 9 without a limit are its answers."""
    files = {name: tmp_path / name for name in ("points.jsonl", "points.csv", "curves.svg")}
    asked = ("--points", 3, "--output", files["points.jsonl"])
    said = plan("pareto", *asked, "--csv", files["points.csv"], "--picture", files["curves.svg"])
    assert said.code == 0
    for words in ("exact-beaumont gap", "pipedream-eager", "smallest memory with any pattern: 29 B (proven)"):
        assert words in said.out
    assert "without a limit: period 9 (proven)" in said.out
    lines = [json.loads(line) for line in files["points.jsonl"].read_text().splitlines()]
    assert lines[0]["schema"] == "pipeplan.pareto/1"
    assert [line.get("record") for line in lines[1:]].count("point") == 3 * 5
    assert len(files["points.csv"].read_text().splitlines()) == 1 + 3 * 5
    assert files["curves.svg"].read_text().lstrip().startswith("<?xml")

    again = plan("pareto", *asked, "--json").json
    assert len(files["points.jsonl"].read_text().splitlines()) == len(lines)  # nothing was done twice
    exact = [point for point in again["points"] if point["method"] == "exact-beaumont"]
    assert (exact[0]["period"], exact[-1]["period"]) == (13, 9)
    assert all(point["certified"] and point["gap"] == 0 for point in exact)
    assert (again["complete"], again["unlimited"]["period"]) == (True, 9)


def test_methods_memories_and_the_cluster_can_be_chosen(plan: Plan) -> None:
    facts = plan(
        "pareto", "golden-4", "--method", "contiguous", "--memory", "34B", "--memory", "40B", "--devices", 1,
        "--json",
    ).json  # fmt: skip
    assert [(p["method"], p["memory_bytes"]) for p in facts["points"]] == [("contiguous", 34), ("contiguous", 40)]
    assert facts["problem"]["gpus"] == 1
    assert facts["settings"]["memory_bytes"] == [34, 40]


def test_memory_that_is_too_small_for_anything_is_no_plan(plan: Plan) -> None:
    said = plan("pareto", "golden-4", "--memory", "5B")
    assert said.code == 1
    assert "-*" in said.out  # proven that there is none


@pytest.mark.parametrize("instance", ["golden-4", "resnet50-chain"])
def test_a_limit_is_never_a_mistake_of_the_user(plan: Plan, instance: str) -> None:
    """Too short a time leaves what is known, or says that nothing is."""
    said = plan("pareto", instance, "--points", 2, "--time-limit", "0s")
    assert said.code in (0, 1), said
    assert "Error" not in said.err
    facts = plan("pareto", instance, "--points", 2, "--time-limit", "0s", "--json").json
    assert facts["schema"] == "pipeplan.pareto/1"
    assert isinstance(facts["points"], list)


def test_the_file_of_another_sweep_is_refused_or_begun_anew(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    common = ("pareto", "--method", "contiguous", "--output", path)
    assert plan(*common, "--memory", "34B").code == 0
    refused(plan(*common, "--memory", "35B"), "settings.memory_bytes is [34.0] there and [35.0] now")
    assert plan(*common, "--memory", "35B", "--no-resume").code == 0


# ---- as a process of its own: killed, and interrupted --------------------------------------------------------

MEMORIES = tuple(word for size in range(400, 1000, 100) for word in ("--memory", f"{size}MiB"))
METHODS = ("--method", "contiguous", "--method", "exact-beaumont")
ENDLESS = ("resnet50-chain", *MEMORIES, "--time-limit", "10min", *METHODS)


def points(path: Path) -> list[tuple[str, float]]:
    """The finished points of a journal."""
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines if line.endswith("}")]
    return [(record["method"], record["memory_bytes"]) for record in records if record.get("record") == "point"]


@pytest.mark.slow
@pytest.mark.timing
def test_a_killed_sweep_goes_on_and_an_interrupted_one_shows_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    hour = ("pareto", *ENDLESS, "--output", path, "--progress", "json")
    with started(*hour) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not points(path) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = points(path)
    assert done
    with started(*hour) as process:
        for line in process.stderr:
            if "exact-beaumont at" in line and json.loads(line)["incumbent"] is not None:
                break
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert points(path)[: len(done)] == done
    assert len(set(points(path))) == len(points(path)) >= 6  # the quick method came first, and nothing came twice
    assert "interrupted: the curves are incomplete; the same command continues from" in said
    assert "contiguous" in shown
