"""Suites: every method on every instance of its kind; what cannot be meant is refused with a sentence, and what a
machine lacks costs its column or row and one line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Plan, refused

import pipeplan
from pipeplan.instances.base.errors import PipeplanError, UsageError
from pipeplan.planners.backends.registry import OFFERED, available
from pipeplan.studies.compare.suite import (
    Competitor,
    Instance,
    Setting,
    Suite,
    competitor,
    expand,
    load_suite,
    packaged_suites,
)

TINY = Instance("tiny", "tiny-chain")
CHAIN = Instance("chain", "golden-4")

OWN = """
title = "own"
seeds = [0, 1]

[limits]
time_limit = "5s"

[[instances]]
label = "tiny"
source = "tiny-chain"

[[settings]]
label = "two"
devices = 2
memory = "none"

[[methods]]
method = "local-search"

[[methods]]
label = "exact"
method = "ip-tarnawski"
options = { non_contiguous = true }
time_limit = "1min"
seeds = [3]

[quick]
time_limit = "1s"
methods = ["local-search"]
"""


def written(folder: Path, text: str = OWN) -> str:
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_runs_are_all_methods_with_their_seeds_and_limits(tmp_path: Path) -> None:
    runs = expand(load_suite(written(tmp_path))).runs
    assert [(run.method, run.setting, run.seed, run.limits["time_limit_s"]) for run in runs] == [
        ("local-search", "two", 0, 5.0),
        ("local-search", "two", 1, 5.0),
        ("exact", "two", 3, 60.0),
    ]
    assert runs[2].formulation == "ip-tarnawski"
    assert runs[2].options == {"non_contiguous": True}


def test_an_allocation_beside_the_suite_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "given.json").write_text("[0, 1, 1, 0]", encoding="utf-8")
    text = '[[instances]]\nlabel = "chain"\nsource = "golden-4"\n[[methods]]\nmethod = "exact-beaumont"\n'
    for given in ('"given.json"', '"0,1,1,0"', "[0, 1, 1, 0]"):
        suite = load_suite(written(tmp_path, text + f"options = {{ allocation = {given} }}\n"))
        (run,) = expand(suite).runs
        assert run.options == {"allocation": [0, 1, 1, 0]}


def test_a_setting_overrides_the_cluster(tmp_path: Path) -> None:
    problems = expand(load_suite(written(tmp_path))).problems
    (problem,) = problems.values()
    assert (problem.accelerators, problem.memory_bytes) == (2, None)


def test_a_setting_takes_levels_of_stagings(tmp_path: Path) -> None:
    text = (
        OWN.replace("tiny-chain", "tiny-stages")
        .replace("ip-tarnawski", "mip-piper")
        .replace("local-search", "dp-piper")
    )
    text = text.replace("options = { non_contiguous = true }", "")
    text = text.replace("devices = 2", 'levels = "2x3GB/s,2x1GB/s"\nbatch = 2')
    (problem,) = expand(load_suite(written(tmp_path, text))).problems.values()
    assert [(level.devices, level.bandwidth) for level in problem.levels] == [(2, 3e9), (2, 1e9)]


def test_quick_takes_the_part_that_the_suite_names(tmp_path: Path) -> None:
    runs = expand(load_suite(written(tmp_path), quick=True)).runs
    assert {(run.method, run.limits["time_limit_s"]) for run in runs} == {("local-search", 1.0)}


def test_keys_differ_between_runs_and_repeat_between_calls() -> None:
    suite = Suite("s", (TINY,), (competitor("local-search"), competitor("lns")), seeds=(0, 1))
    keys = [run.key for run in expand(suite).runs]
    assert len(set(keys)) == 4
    assert keys == [run.key for run in expand(suite).runs]


def test_a_method_is_written_with_solver_and_options() -> None:
    method = competitor("ip-tarnawski@highs:non-contiguous=true,variant=plain")
    assert (method.formulation, method.solver) == ("ip-tarnawski", "highs")
    assert method.options == {"non_contiguous": True, "variant": "plain"}


def test_an_exact_method_that_is_more_than_a_model_is_a_planner() -> None:
    assert competitor("exact-beaumont").planner == "exact-beaumont"


def test_the_exact_planner_is_the_formulation_that_its_options_ask_for() -> None:
    assert competitor("exact:objective=latency").formulation == "ip-tarnawski-latency"


def test_published_inputs_are_left_out_or_replaced_and_printed_values_with_them() -> None:
    suite = load_suite("tarnawski-table1")
    found = expand(suite)
    assert "BERT-3 operators, inference" in found.left_out
    assert "BERT-24 layers, inference" in found.stand_ins
    assert not found.published


@pytest.mark.workloads
def test_published_inputs_are_taken_where_they_are(workloads: Path) -> None:
    found = expand(load_suite("tarnawski-table1", quick=True), workloads)
    assert not found.stand_ins
    assert {entry.value for entry in found.published if entry.instance == "BERT-24 layers, inference"} == {
        17.79,
        17.71,
    }


# Packaged suites, but for the one whose methods a user gives.
WITH_METHODS = sorted({*packaged_suites()} - {"leaderboard"})


@pytest.mark.parametrize("name", WITH_METHODS)
@pytest.mark.parametrize("quick", [True, False])
def test_every_packaged_suite_has_a_title_and_runs(name: str, quick: bool) -> None:
    assert packaged_suites()[name]
    assert expand(load_suite(name, quick)).runs


def test_a_suite_without_methods_asks_for_some_and_may_have_instances_that_none_plans() -> None:
    suite = load_suite("leaderboard")
    with pytest.raises(UsageError, match=r"The suite leaderboard has no methods; give some with --method\."):
        expand(suite)
    runs = expand(replace(suite, methods=(competitor("contiguous"),))).runs
    assert {run.kind for run in runs} == {"chain"}


@pytest.mark.parametrize(("suite", "words"), [
    (Suite("s", (TINY, TINY), (competitor("greedy"),)), "Two instances are called 'tiny'"),
    (Suite("s", (TINY,), (competitor("greedy"),) * 2), "Two methods are called 'greedy'"),
    (Suite("s", (TINY,), (competitor("greedy"),), (Setting("a"), Setting("a"))), "Two settings are called 'a'"),
    (Suite("s", (TINY,), (competitor("greedy"), competitor("contiguous"))), "none is among the instances"),
    (Suite("s", (TINY,), (competitor("greedy"), competitor("latency-greedy"))),
     "judged by max-load and latency-greedy by latency"),
    (Suite("s", (TINY, CHAIN), (competitor("greedy"),)), "No method of the comparison plans chain"),
    (Suite("s", (Instance("x", "nowhere"),), (competitor("greedy"),)), "'nowhere' is neither a file nor a pack"),
    (Suite("s", (Instance("x", None, "a.json"),), (competitor("greedy"),)), "--workloads"),
    (Suite("s", (TINY,), (Competitor("x", planner="nobody"),)), "no formulation or planner 'nobody'"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(suite: Suite, words: str) -> None:
    with pytest.raises(PipeplanError, match=words):
        expand(suite)


@pytest.mark.parametrize(("old", "new", "words"), [
    ('label = "tiny"', 'lable = "tiny"', r"instances\[0\].lable is an unknown key"),
    ('method = "local-search"', 'method = "local-serach"',
     r"methods\[0\] cannot be used: There is no formulation or planner"),
    ("non_contiguous = true", "noncontiguous = true", r"There is no option 'noncontiguous'"),
    ('memory = "none"', 'memory = "much"', r"settings\[0\].memory cannot be read"),
    ("devices = 2", 'devices = "two"', r"settings\[0\].devices are"),
    ("devices = 2", 'levels = "two"', r"settings\[0\].levels cannot be read"),
    ("seeds = [0, 1]", "seeds = []", "seeds is"),
    ('methods = ["local-search"]', 'methods = ["other"]', r"quick.methods names 'other'"),
    ('title = "own"', "title", "is no TOML"),
])  # fmt: skip
def test_a_fault_in_a_file_is_named_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = written(tmp_path, OWN.replace(old, new, 1))
    with pytest.raises(PipeplanError, match=words) as caught:
        load_suite(path, quick=True)
    assert path in str(caught.value)


def test_an_unknown_suite_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(PipeplanError, match="tarnawski-table1"):
        load_suite("no-such-suite")


def test_a_name_of_several_kinds_competes_in_each() -> None:
    """Schedules by span, chains by their period; the options of one are not asked of the other."""
    schedule = Instance("schedule", "zero-bubble-4x12")
    by_span = [competitor(f"{name}:objective=span") for name in ("gpipe", "1f1b")]
    runs = expand(Suite("both", (CHAIN, schedule), (competitor("gpipe"),))).runs
    assert [(run.instance, run.kind) for run in runs] == [("chain", "chain"), ("schedule", "schedule")]
    assert len(expand(Suite("span", (schedule,), tuple(by_span))).runs) == len(by_span)
    with pytest.raises(PipeplanError, match="is judged by"):
        expand(Suite("mixed", (schedule,), (by_span[0], competitor("1f1b"))))


def suite(*methods: str) -> Suite:
    return Suite("own", (Instance("tiny", "tiny-chain"),), tuple(map(competitor, methods)))


@pytest.fixture
def without_metis(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pymetis" else find(name))


@pytest.mark.usefixtures("without_metis")
def test_a_missing_extra_costs_its_column_and_one_line(plan: Plan, tmp_path: Path) -> None:
    said = plan("compare", "tiny-chain", "-m", "greedy", "-m", "partition", "-o", tmp_path)
    assert said.code == 0
    line = "partition is left out: 'partition' needs pymetis; install it with pip install 'pipeplan[partition]'"
    assert said.err.count(line) == 1
    assert line in (tmp_path / "tables.md").read_text("utf-8")
    assert "partition" not in said.out


@pytest.mark.usefixtures("without_metis")
def test_where_nothing_is_left_the_comparison_is_refused(plan: Plan, tmp_path: Path) -> None:
    said = plan("compare", "tiny-chain", "-m", "partition", "-o", tmp_path / "out")
    refused(said, "nothing left to compare. 'partition' needs pymetis; install it with pip install")
    assert not (tmp_path / "out").exists()


def test_a_missing_solver_costs_its_column_and_an_unknown_one_is_refused() -> None:
    offered = next(name for name in OFFERED if name not in available())
    expanded = expand(suite("greedy", f"ip-tarnawski@{offered}", f"ip-tarnawski@highs,{offered}"))
    assert [run.method for run in expanded.runs if run.seed == 0] == ["greedy", f"ip-tarnawski@highs,{offered}"]
    assert f"ip-tarnawski@{offered} is left out: The solver '{offered}' is not installed: pip install" in str(
        expanded.notes
    )
    with pytest.raises(UsageError, match="no solver named 'nonsense'"):
        expand(suite("ip-tarnawski@nonsense"))


def test_of_several_solvers_a_missing_one_is_a_message() -> None:
    offered = next(name for name in OFFERED if name not in available())
    result = pipeplan.solve("tiny-chain", formulation="ip-tarnawski", solver=f"highs,{offered}")
    assert (result.stop, result.objective) == ("proven", 6.0)
    assert any(f"The solver '{offered}' is not installed" in message for message in result.messages)
    with pytest.raises(UsageError, match="is not installed"):
        pipeplan.solve("tiny-chain", formulation="ip-tarnawski", solver=offered)


def test_a_published_instance_that_the_folder_lacks_has_its_stand_in_or_no_row(tmp_path: Path) -> None:
    lacking = (Instance("a", "tiny-chain", "not/there.json"), Instance("b", None, "not/there.json"))
    expanded = expand(Suite("own", lacking, (competitor("greedy"),)), tmp_path)
    assert ([run.instance for run in expanded.runs], expanded.stand_ins, expanded.left_out) == (
        ["a"],
        ("a",),
        ("b",),
    )


# A plain install: what the extras bring cannot be imported. (Pyomo fails where a
# None stands in place of gurobipy.)
PLAIN = """
import sys
from dataclasses import replace
sys.modules.update(dict.fromkeys(("pymetis",)))
from pipeplan.studies.compare.suite import expand, load_suite
suite = load_suite(sys.argv[1], quick=len(sys.argv) == 3)
expanded = expand(suite)
"""


@pytest.mark.sweeps
@pytest.mark.parametrize("name", WITH_METHODS)
def test_every_suite_runs_in_a_plain_install(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", PLAIN, name, "quick"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
