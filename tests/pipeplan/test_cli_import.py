"""Tables, profiles, GPUs by name and published inputs on the command line: the way of a new user to a plan, in every
kind."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, has, refused

import pipeplan
from pipeplan.instances.networks.profile.profile import profile_from_json

FOUR = ("--devices", 4, "--memory", "40GB", "--bandwidth", "12GB/s")
EIGHT = ("--devices", 8, "--levels", "4x300GB/s,2x12GB/s", "--memory", "40GB")


@pytest.fixture
def table(plan: Plan, tmp_path: Path) -> Path:
    """The filled example, as `plan import table --template > t.csv` leaves it."""
    said = plan("import", "table", "--template")
    assert (said.code, said.err) == (0, "")
    path = tmp_path / "t.csv"
    path.write_text(said.out, encoding="utf-8")
    return path


@pytest.mark.slow
def test_eight_devices_in_two_nodes(plan: Plan, table: Path) -> None:
    """The first thing that a new user does: from the template to a proof that names each stage's layers."""
    said = done(plan("solve", table, *EIGHT))
    assert "optimal" in said.out
    assert "planned as a staging problem, because --levels is given" in said.err
    result = plan("solve", table, *EIGHT, "--json").json
    assert (result["stop"], result["found"], result["verified"]) == ("proven", "optimal", True)
    leaves = [leaf for stage in result["plan"]["stages"] for leaf in stage["children"]]
    assert len(leaves) == 8
    assert [name for leaf in leaves for name in leaf["nodes"]] == [
        "embedding",
        *(f"block {i}" for i in range(1, 33)),
        "head",
    ]


@pytest.mark.slow
def test_the_report_of_a_table_repeats_its_command_and_what_was_assumed(plan: Plan, table: Path) -> None:
    path, page = table.with_name("r.json"), table.with_name("r.html")
    own = ("--optimizer", "adam", "--data-parallel", "--tensor-parallel", "1,2", "--batch", 16)
    done(plan("solve", table, *EIGHT, *own, "--planner", "equi", "-o", path))
    assert plan("report", path, table, *EIGHT, *own, "-o", page).code == 0
    text = html.unescape(page.read_text("utf-8"))
    (command,) = re.findall(r"<code>plan (solve .*?)</code>", text)
    words = shlex.split(command)
    assert words[:2] == ["solve", str(table)]
    assert "4x300GB/s,2x12GB/s" in words
    again = plan(*words, "--json")
    assert again.json["problem"]["hash"] == json.loads(path.read_text("utf-8"))["problem"]["hash"]
    assert "memory counts 4 copies of the parameters (--optimizer adam)" in text
    assert "planned as a staging problem, because" in text.partition("<h3>Assumptions</h3>")[2]


@pytest.mark.sweeps("graph-pipeline-method3")
@pytest.mark.parametrize(("kind", "method"), [
    (None, ()), ("staging", ()), ("placement", ()), ("graph-pipeline", ("--formulation", "cp-graphpipe")),
    pytest.param("chain", (), marks=pytest.mark.sweeps),
])  # fmt: skip
def test_four_devices_in_every_kind(plan: Plan, table: Path, kind: str | None, method: tuple[str, ...]) -> None:
    named = () if kind is None else ("--kind", kind)
    said = done(plan("solve", table, *FOUR, *named, *method, "--json"))
    result = said.json
    assert (result["stop"], result["found"], result["verified"]) == ("proven", "optimal", True)
    assert result["problem"]["kind"] == (kind or "staging")
    assert ("planned as a staging problem" in said.err) == (kind is None)
    # at best a GPU has 8 blocks and the head; with transfers where the kind counts them in
    assert result["objective"] == pytest.approx(154.8 if kind == "chain" else 157.6)


def test_a_profile_is_as_good_as_its_table(plan: Plan, table: Path, tmp_path: Path) -> None:
    profile = tmp_path / "t.profile.json"
    said = done(plan("import", "table", table, "-o", profile))
    assert "a profile of 34 layers" in said.out
    assert pipeplan.load_profile(profile).hash == pipeplan.load_profile(table).hash
    hashes = {plan("solve", path, *FOUR, "--json").json["problem"]["hash"] for path in (profile, table)}
    assert len(hashes) == 1
    assert profile_from_json(plan("import", "table", table, "--json").json) == pipeplan.load_profile(profile)


def test_every_command_that_takes_an_instance_takes_the_table(plan: Plan, table: Path, tmp_path: Path) -> None:
    result, problem, page = tmp_path / "r.json", tmp_path / "p.json", tmp_path / "r.html"
    assert plan("solve", table, *FOUR, "-o", result).code == 0
    for words in (
        ("show", table),
        ("show", table, result),
        ("verify", table, result),
        ("simulate", table, result),
        ("report", result, table, "-o", page),
        ("convert", table, "-o", problem),
    ):
        done(plan(*words, *FOUR))
    assert pipeplan.load(problem).hash == plan("solve", table, *FOUR, "--json").json["problem"]["hash"]


@pytest.mark.slow("cluster0")
@pytest.mark.parametrize("cluster", [
    EIGHT,
    (*FOUR, "--kind", "placement", "--optimizer", "adam", "--in-flight", 3),
    (*FOUR, "--data-parallel", "--tensor-parallel", "1,2", "--efficiency", "0.9", "--batch", 16),
])  # fmt: skip
def test_a_result_knows_its_cluster(plan: Plan, table: Path, tmp_path: Path, cluster: tuple[Any, ...]) -> None:
    """Who has the result need not repeat the options; who names a cluster means that one."""
    result, page = tmp_path / "r.json", tmp_path / "r.html"
    assert plan("solve", table, *cluster, "-o", result).code == 0
    for words in (("verify", table, result), ("show", table, result), ("simulate", table, result)):
        if words[0] == "simulate" and "placement" in cluster:
            continue  # its devices wait for each other
        said = done(plan(*words))
        assert f"using the cluster options of {result}: --devices" in said.err
        assert "made for another problem" not in said.err
    for words in ((result,), (result, table)):
        done(plan("report", *words, "-o", page))
    other = plan("verify", table, result, *cluster, "--memory", "39GB")
    assert "made for another problem" in other.err


def test_a_result_of_another_cluster_of_a_packaged_instance(plan: Plan, tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    assert plan("solve", "tiny-chain", "--devices", 3, "-o", result).code == 0
    assert plan("verify", "tiny-chain", result, "--json").json["differences"] == []
    assert plan("report", result, "-o", tmp_path / "r.html").code == 0


def test_a_result_with_a_cluster_that_means_nothing(plan: Plan, table: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    assert plan("solve", table, *FOUR, "-o", path).code == 0
    result = json.loads(path.read_text("utf-8"))
    result["asked"]["cluster"]["memory"] = "much"
    path.write_text(json.dumps(result), encoding="utf-8")
    refused(plan("verify", table, path), f"{path}: asked.cluster.memory cannot be read")


def test_options_of_the_lowering(plan: Plan, table: Path) -> None:
    degrees = ("--data-parallel", "--tensor-parallel", "1,2,4", "--efficiency", "0.9", "--optimizer", "adam-mixed")
    result = plan("solve", table, *EIGHT[:2], *FOUR[2:], *degrees, "--recompute", "--json").json
    assert result["found"] == "optimal"
    assert result["objective"] < 157.6 / 2 * 1.2
    inference = plan("solve", table, *FOUR, "--kind", "placement", "--inference", "--json").json
    assert inference["objective"] == pytest.approx(8 * 6 + 3.6 + 1.4)


def test_the_parameters_of_a_table_may_be_counted(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "counted.csv"
    head = "layer,forward [ms],backward [ms],parameters_count,activation [MB],output [MB],count"
    path.write_text(f"{head}\nblock,1,2,1e6,4,5,4\n", encoding="utf-8")
    said = plan("solve", path, *FOUR, "--bytes-per-parameter", 2, "--json")
    assert said.json["objective"] == pytest.approx(3 + 2 * 2 * 5 / 12)


def test_columns_for_people_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    head = "layer,Comment,forward [ms],backward [ms],parameters [MB],activation [MB],output [MB]"
    path.write_text(f"{head}\na,slow,1,2,3,4,5\nb,,1,2,3,4,5\n", encoding="utf-8")
    assert len(pipeplan.load_profile(path).nodes) == 2


def test_how_much_memory_a_table_needs(plan: Plan, table: Path) -> None:
    """Nobody has to say how much there is to be told how much is needed."""
    asked = ("memory", table, "--devices", 4, "--bandwidth", "12GB/s", "--points", 0, "--time-limit", "600s")
    said = done(plan(*asked, "--json"))
    least = said.json["least"]["memory_bytes"]
    assert plan("solve", table, "--devices", 4, "--bandwidth", "12GB/s", "--memory", f"{least}B").code == 0
    assert plan("solve", table, "--devices", 4, "--bandwidth", "12GB/s", "--memory", f"{least - 1}B").code == 1
    refused = plan("memory", table, "--bandwidth", "12GB/s")
    assert (refused.code, "--memory" in refused.err) == (2, False)


def test_sequence_and_micro_batch_of_a_packaged_model(plan: Plan) -> None:
    words = ("solve", "llama-3-8b", "--devices", 8, "--memory", "80GB", "--bandwidth", "300GB/s")
    said = done(plan(*words, "--sequence", 8192, "--micro-batch", 2, "--planner", "equi"))
    assert "made anew for --sequence 8192 and --micro-batch 2" in " ".join(said.err.split())


@pytest.mark.parametrize("kind", ["staging", "placement"])
def test_mixed_gpus_as_far_as_a_server(plan: Plan, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "mixed.json"
    mixed = ("--devices", "2xa100-80gb,2xt4-16gb", "--kind", kind)
    assert plan("solve", "llama-3-8b", "--inference", *mixed, "-o", target).code == 0
    assert json.loads(target.read_text())["asked"]["cluster"]["devices"] == "2xa100-80gb,2xt4"
    for server in ("vllm", "sglang"):
        said = done(plan("export", target, "llama-3-8b", "--inference", "--to", server))
        counts = [int(count) for count in said.out.strip().partition("=")[2].split(",")]
        assert sum(counts) == 32
        told = " ".join(said.err.split())
        has(told, "on a100-80gb", "on t4", "CUDA_VISIBLE_DEVICES", "t4 has no bfloat16")
    assert plan("verify", "llama-3-8b", target).code == 0


@pytest.mark.parametrize("name", ["tiny-stages", "tiny-graph", "figure-4"])
def test_small_examples_count_in_units_of_their_own(plan: Plan, name: str, tmp_path: Path) -> None:
    assert plan("convert", name, "-o", tmp_path / "out.json", "--memory", 30).code == 0


@pytest.mark.parametrize(("field", "before", "after", "meant"), [
    ("memory_bytes", "4294967296", "4", "write 4GB if"),
    ("bandwidth", "32000000000.0", "32", "write 32GB/s if"),
    ("memory_rate", "936000000000.0", "936", "write 9.36e+11 if you mean 936 GB/s"),
    ("bf16", "71000000000000.0", "71", "write 7.1e+13 if you mean 71 TFLOP/s"),
    ("latency_seconds", "2.5e-06", "2.5", "write 2.5e-06 if you mean 2.5 us"),
])  # fmt: skip
def test_files_of_named_gpus_have_figures_of_hardware(
    plan: Plan, field: str, before: str, after: str, meant: str, tmp_path: Path
) -> None:
    """A GPU of an unknown name may be anything."""
    path = tmp_path / "problem.json"
    assert plan("convert", "tiny-training", "-o", path).code == 0
    text, count = re.subn(rf'"{field}": ?{re.escape(before)}', f'"{field}": {after}', path.read_text("utf-8"))
    assert count
    path.write_text(text, "utf-8")
    refused(plan("show", path), meant)
    path.write_text(text.replace('"rtx-3090"', '"mine"'), "utf-8")
    assert plan("show", path).code == 0
