"""Tables on the command line: the way of a new user from a table to a plan, in every kind."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, refused

import pipeplan
from pipeplan.instances.networks.profile.profile import profile_from_json

FOUR = ("--devices", 4, "--memory", "40GB", "--bandwidth", "12GB/s")
EIGHT = ("--devices", 8, "--levels", "4x300GB/s,2x12GB/s", "--memory", "40GB")


# What people give where an instance is asked for.
OTHERS = {
    "config.json": '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64}',
    "net.py": "def build(): ...",
    "net.onnx": "",
    "schedule.csv": ",0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n",
}


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
@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (None, ()),
        ("staging", ()),
        ("placement", ()),
        ("graph-pipeline", ("--formulation", "cp-graphpipe")),
        pytest.param("chain", (), marks=pytest.mark.sweeps),
    ],
)
def test_four_devices_in_every_kind(plan: Plan, table: Path, kind: str | None, method: tuple[str, ...]) -> None:
    named = () if kind is None else ("--kind", kind)
    said = done(plan("solve", table, *FOUR, *named, *method, "--json"))
    result = said.json
    assert (result["stop"], result["found"], result["verified"]) == ("proven", "optimal", True)
    assert result["problem"]["kind"] == (kind or "staging")
    assert ("planned as a staging problem" in said.err) == (kind is None)
    # at best a GPU has 8 blocks and the head; with transfers where the kind counts them in
    assert result["objective"] == pytest.approx(154.8 if kind == "chain" else 157.6)


def test_the_usual_planner_of_graph_pipelines_takes_it_too(plan: Plan, table: Path) -> None:
    said = done(plan("solve", table, *FOUR, "--kind", "graph-pipeline"))
    assert "verified: yes" in said.out
    # the least time per sample is not that of an iteration, and so the even split is a candidate, here the best one,
    # with more samples in flight
    text = " ".join(said.out.split())
    assert "this is an even split" not in text
    assert "4 samples, depth 4" in text


@pytest.mark.sweeps
def test_a_table_is_compared_with_an_even_split(plan: Plan, table: Path) -> None:
    """In its usual kind, flat and on levels: the sentence, and the planner of that name."""
    for cluster in (FOUR, EIGHT):
        said = plan("solve", table, *cluster)
        assert "an even split (" in " ".join(said.out.split())
        even = plan("solve", table, *cluster, "--planner", "equi", "--json").json
        assert (even["verified"], even["objective"] > 0) == (True, True)


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
        ("sensitivity", table, "--time-limit", "600s"),
    ):
        done(plan(*words, *FOUR))
    assert pipeplan.load(problem).hash == plan("solve", table, *FOUR, "--json").json["problem"]["hash"]


@pytest.mark.slow("cluster0")
@pytest.mark.parametrize(
    "cluster",
    [
        EIGHT,
        (*FOUR, "--kind", "placement", "--optimizer", "adam", "--in-flight", 3),
        (*FOUR, "--data-parallel", "--tensor-parallel", "1,2", "--efficiency", "0.9", "--batch", 16),
    ],
)
def test_a_result_knows_its_cluster(plan: Plan, table: Path, tmp_path: Path, cluster: tuple[Any, ...]) -> None:
    """Who has the result need not repeat the options; who names a cluster means that one."""
    result, page = tmp_path / "r.json", tmp_path / "r.html"
    assert plan("solve", table, *cluster, "-o", result).code == 0
    for words in (("verify", table, result), ("show", table, result), ("simulate", table, result)):
        if words[0] == "simulate" and "placement" in cluster:
            continue  # its devices wait for each other
        said = done(plan(*words))
        assert f"on the cluster of {result}: --devices" in said.err
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


@pytest.mark.slow
def test_a_comparison_takes_the_table(plan: Plan, table: Path, tmp_path: Path) -> None:
    done(plan("compare", table, "-m", "dp-piper", *FOUR, "-o", tmp_path / "comparison"))
    done(plan("compare", table, "-m", "dp", "--kind", "placement", *FOUR, "-o", tmp_path / "placements"))
    rows = (tmp_path / "placements" / "runs.csv").read_text("utf-8")
    assert ",placement," in rows


@pytest.mark.slow
def test_time_against_memory_takes_the_table_as_other_commands_do(plan: Plan, table: Path) -> None:
    said = done(plan("pareto", table, *EIGHT[:4], "--optimizer", "adam", "--points", 2, "--json"))
    assert "planned as a staging problem, because --levels is given" in said.err
    assert said.json["problem"]["kind"] == "staging"
    best = plan("solve", table, *EIGHT[:4], "--optimizer", "adam", "--memory", "none", "--json").json
    assert said.json["points"][-1]["value"] == best["objective"]


@pytest.mark.slow
def test_period_against_memory_takes_the_table(plan: Plan, table: Path) -> None:
    words = ("--kind", "chain", "--method", "contiguous", "--points", 2)
    done(plan("pareto", table, "--devices", 4, "--bandwidth", "12GB/s", *words))


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


def test_numbers_without_a_unit_are_asked_back(plan: Plan, table: Path) -> None:
    few = plan("solve", table, "--devices", 4, "--memory", 40, "--bandwidth", "12GB/s")
    assert (few.code, few.err.count("write 40GB if you mean that")) == (2, 1)
    slow = plan("solve", table, "--devices", 4, "--memory", "40GB", "--bandwidth", 12)
    assert (slow.code, slow.err.count("write 12GB/s if you mean that")) == (2, 1)
    assert " if you mean " not in plan("solve", table, *FOUR).err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("import", "table"), "Name the table, or give --template for an example."),
        (("import", "table", "t.csv"), "Say where the profile goes: give -o my.profile.json, or --json."),
        (("import", "table", "t.csv", "--template"), "--template prints an example and reads nothing"),
        (("import", "table", "t.txt", "--json"),
         "file has the ending .txt; give a table: .csv, .tsv, .xlsx, .parquet"),
        (("import", "table", "gone.csv", "--json"), "gone.csv: file does not exist; check the path"),
        (("import", "table", "t.csv", "-o", "no/where.json"), "no/where.json lies in a folder that does not exist"),
        (("solve", "t.csv"),
         "t.csv: cluster is missing: a model or a table of layers names none; "
         "add --devices 4 --memory 40GB --bandwidth 300GB/s."),
        (("solve", "t.csv", "--devices", 0, "--memory", "40GB", "--bandwidth", "9GB/s"),
         "t.csv: --devices is 0; give at least 1"),
        (("solve", "config.json"),
         "is a model's configuration, which names no times; run plan import hf config.json"),
        (("solve", "net.py"), "is a Python file; run plan import torch net.py:build"),
        (("solve", "net.py:build"), "is a Python file; run plan import torch net.py:build"),
        (("solve", "gone.py"), "gone.py: file does not exist"),
        (("solve", "net.onnx"), "is an ONNX model; run plan import onnx net.onnx"),
        (("solve", "schedule.csv", *FOUR),
         "is PyTorch's file of a schedule, an order without times; give it as PLAN"),
        (("show", "schedule.csv"), "is PyTorch's file of a schedule, an order without times; give it as PLAN"),
        (("configure", "net.py", "--devices", "8xh100-80gb", "--sequence", 64, "--batch", 8),
         "is a Python file; run"),
        (("solve", "t.csv", *FOUR, "--kind", "row"), "--kind is 'row'; give one of placement, chain, staging"),
        (("solve", "golden-4", "--kind", "staging"), "--kind is staging, but the problem is a chain"),
        (("solve", "golden-4", "--optimizer", "adam"), "--optimizer is for profiles and tables"),
        (("solve", "t.profile.json", *FOUR, "--bytes-per-parameter", 2), "--bytes-per-parameter is for tables"),
        (("solve", "t.csv", *FOUR, "--time-unit", "s"),
         "--option time-unit is for files that name no unit of time"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_sentence(
    plan: Plan, table: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[Any, ...], says: str
) -> None:
    monkeypatch.chdir(table.parent)
    assert plan("import", "table", "t.csv", "-o", "t.profile.json").code == 0
    for name, content in OTHERS.items():
        Path(name).write_text(content, encoding="utf-8")
    refused(plan(*words), says)


def test_degrees_that_are_none_are_bad_usage(plan: Plan, table: Path) -> None:
    refused(plan("solve", table, *FOUR, "--tensor-parallel", "1,two"), "no list of degrees")


def test_from_python(table: Path) -> None:
    profile = pipeplan.load_profile(table)
    problem = profile.to_placement(devices=4, memory_bytes=40e9, bandwidth=12e9)
    same = pipeplan.load(table, kind="placement", devices=4, memory_bytes=40e9, bandwidth=12e9)
    assert problem == same
    options = pipeplan.ProfileOptions(optimizer="adam")
    more = pipeplan.load(table, devices=4, memory_bytes=80e9, bandwidth=12e9, profile=options)
    assert isinstance(more, pipeplan.StagingProblem)
    assert json.loads(json.dumps(more.layers[1].configurations[1][0].memory_fixed)) == 4 * 402.7e6


def test_columns_for_people_are_left_alone(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    head = "layer,Comment,forward [ms],backward [ms],parameters [MB],activation [MB],output [MB]"
    path.write_text(f"{head}\na,slow,1,2,3,4,5\nb,,1,2,3,4,5\n", encoding="utf-8")
    assert len(pipeplan.load_profile(path).nodes) == 2


def test_a_file_whose_name_is_misspelt_is_guessed(plan: Plan, table: Path) -> None:
    said = plan("solve", table.with_name("tt.csv"), *EIGHT)
    refused(said, "does not exist (did you mean 't.csv'?); check the path")


@pytest.mark.parametrize(
    ("devices", "words"),
    [(12, "--levels 4x300GB/s,3x12GB/s"), (10, "let the numbers of all levels multiply to --devices")],
)
def test_levels_that_make_another_number_of_devices_are_mended(
    plan: Plan, table: Path, devices: int, words: str
) -> None:
    said = plan("solve", table, "--devices", devices, "--levels", "4x300GB/s,2x12GB/s", "--memory", "40GB")
    refused(said, f"levels make 8 devices, not {devices}", words)


@pytest.mark.parametrize("levels", [("--levels", "2x300GB/s,2x12GB/s"), ()])
def test_one_more_device_is_worth_what_solve_says(plan: Plan, tmp_path: Path, levels: tuple[str, ...]) -> None:
    """Without --batch the batch of a table has a micro-batch for each device, with one more device as well."""
    rows = "".join(f"layer{i},1,2,10,5,1\n" for i in range(12))
    table = tmp_path / "row.csv"
    header = "layer,forward [ms],backward [ms],parameters [MB],activation [MB],output [MB]\n"
    table.write_text(header + rows, encoding="utf-8")
    four = (*(levels or ("--devices", 4, "--bandwidth", "12GB/s")), "--memory", "40GB")
    six = ("--levels", "2x300GB/s,3x12GB/s") if levels else ("--devices", 5, "--bandwidth", "12GB/s")
    said = plan("sensitivity", table, *four, "--json")
    assert "a batch has as many more micro-batches" in said.err
    change = "one more device on level 2" if levels else "one more device"
    worth = next(change_ for change_ in said.json["changes"] if change_["change"] == change)
    solved = plan("solve", table, *six, "--memory", "40GB", "--json").json
    assert worth["objective"] == pytest.approx(solved["objective"])
    assert worth["ratio"] < (0.8 if levels else 1.0 + 1e-9)
    fixed = plan("sensitivity", table, *four, "--batch", 4, "--json")
    assert "micro-batches" not in fixed.err


def test_how_much_memory_a_table_needs(plan: Plan, table: Path) -> None:
    """Nobody has to say how much there is to be told how much is needed."""
    asked = ("memory", table, "--devices", 4, "--bandwidth", "12GB/s", "--points", 0, "--time-limit", "600s")
    said = done(plan(*asked, "--json"))
    least = said.json["least"]["memory_bytes"]
    assert plan("solve", table, "--devices", 4, "--bandwidth", "12GB/s", "--memory", f"{least}B").code == 0
    assert plan("solve", table, "--devices", 4, "--bandwidth", "12GB/s", "--memory", f"{least - 1}B").code == 1
    refused = plan("memory", table, "--bandwidth", "12GB/s")
    assert (refused.code, "--memory" in refused.err) == (2, False)


def test_how_much_memory_a_pipedream_profile_needs(plan: Plan, tmp_path: Path) -> None:
    graph = tmp_path / "graph.txt"
    graph.write_text(
        "node1 -- A -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=8.0, parameter_size=4.0\n",
        encoding="utf-8",
    )
    said = plan(
        "memory", graph, "--devices", 1, "--bandwidth", "1GB/s", "--points", 0, "--time-limit", "600s", "--json"
    )
    assert said.json["least"]["memory_bytes"] == 24
