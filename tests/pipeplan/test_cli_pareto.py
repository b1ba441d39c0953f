"""`plan pareto`: the table, the files, going on, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from command_line import Plan, refused
from signals import PATIENCE_S, started


def test_period_against_memory_as_table_points_csv_and_picture(plan: Plan, tmp_path: Path) -> None:
    """Without an instance a packaged chain is taken; 13 with 34 bytes and 9 without a limit are its answers."""
    files = {name: tmp_path / name for name in ("points.jsonl", "points.csv", "curves.svg", "page.html")}
    asked = ("--points", 3, "--output", files["points.jsonl"])
    said = plan(
        "pareto", *asked, "--csv", files["points.csv"], "--picture", files["curves.svg"], "--report",
        files["page.html"],
    )  # fmt: skip
    assert said.code == 0
    for words in ("exact-beaumont gap", "pipedream-eager", "smallest memory with any pattern: 29 B (proven)"):
        assert words in said.out
    assert "without a limit: period 9 (proven)" in said.out
    lines = [json.loads(line) for line in files["points.jsonl"].read_text().splitlines()]
    assert lines[0]["schema"] == "pipeplan.pareto/1"
    assert [line.get("record") for line in lines[1:]].count("point") == 3 * 5
    assert len(files["points.csv"].read_text().splitlines()) == 1 + 3 * 5
    assert files["curves.svg"].read_text().lstrip().startswith("<?xml")
    page = files["page.html"].read_text("utf-8")
    assert "plan pareto golden-4 --points 3 --time-limit 60.0" in page
    assert "13 at 29: exact-beaumont (proven), contiguous (no bound)" in page

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


@pytest.mark.parametrize("instance", ["golden-4", "tiny-stages", "bert-large-stages"])
def test_a_limit_is_never_a_mistake_of_the_user(plan: Plan, instance: str) -> None:
    """Too short a time leaves what is known, or says that nothing is."""
    said = plan("pareto", instance, "--points", 2, "--time-limit", "0s")
    assert said.code in (0, 1), said
    assert "Error" not in said.err
    facts = plan("pareto", instance, "--points", 2, "--time-limit", "0s", "--json").json
    assert facts["schema"] == "pipeplan.pareto/1"
    assert isinstance(facts["points"], list)


def test_what_makes_no_sense_is_refused_in_one_sentence(plan: Plan, tmp_path: Path) -> None:
    wrong = {
        ("tiny-graph",): "tiny-graph is a graph-pipeline problem",
        ("--method", "dp"): "no method 'dp'; choose from exact-beaumont",
        ("--points", 1): "points is 1",
        ("--points", 3, "--memory", "34B"): "give one of them",
        ("--picture", tmp_path / "curves.gif"): "name a file that ends in .svg, .png or .pdf",
        ("--csv", tmp_path / "none" / "points.csv"): "does not exist",
        ("--progress", "loud"): "give one of auto, json, none",
    }
    for arguments, words in wrong.items():
        refused(plan("pareto", *arguments), words)


def test_the_file_of_another_sweep_is_refused_or_begun_anew(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    common = ("pareto", "--method", "contiguous", "--output", path)
    assert plan(*common, "--memory", "34B").code == 0
    refused(plan(*common, "--memory", "35B"), "settings.memory_bytes is [34.0] there and [35.0] now")
    assert plan(*common, "--memory", "35B", "--no-resume").code == 0


@pytest.mark.at_once(4, "slow")
@pytest.mark.slow("levels-zero-bubble-4x12")
@pytest.mark.parametrize("instance", ["golden-4", "tiny-stages", "zero-bubble-4x12"])
@pytest.mark.parametrize("lost", ["levels", "lower", "least"])
def test_a_file_that_lacks_what_this_version_keeps_is_to_be_begun_anew(
    plan: Plan, tmp_path: Path, instance: str, lost: str
) -> None:
    """An older version wrote it, say: nobody is asked to add a key to a file that we write."""
    path = tmp_path / "points.jsonl"
    assert plan("pareto", instance, "--points", 2, "--time-limit", 600, "--output", path).code == 0
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    ends = next(line for line in lines if line.get("record") == "ends")
    del ends[lost]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    said = plan("pareto", instance, "--points", 2, "--time-limit", 600, "--output", path)
    sentence = " ".join(said.err.split())
    assert (said.code, path.name in sentence) == (2, True)
    assert sentence.endswith("name another file, or start anew with --no-resume.")


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
        assert process.stderr is not None
        for line in process.stderr:
            if "exact-beaumont at" in line and json.loads(line)["incumbent"] is not None:
                break
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert points(path)[: len(done)] == done
    assert len(set(points(path))) == len(points(path)) >= 6  # the quick method came first, and nothing came twice
    assert "interrupted: the curves are not complete; the same command continues from" in said
    assert "contiguous" in shown
