"""The pages of the documentation: what they tell a reader to type works as it is written there."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import os
import pickle
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Plan, done, refused
from explored_pipelines import SITUATIONS
from page_blocks import write_files

import pipeplan
from pipeplan.cli.app import GROUPS, app
from pipeplan.formulations.contract import NativeModel
from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.catalogue import best_known, packaged_info, packaged_kinds, read_best_known
from pipeplan.instances.networks.profile import load_packaged_profile, packaged_profile_names
from pipeplan.instances.registry import plan_types
from pipeplan.planners.registry import methods_of
from pipeplan.studies.compare.suite import expand, load_suite, packaged_suites

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS.parent / "benchmarks" / "results"


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    text = (DOCS / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The `plan` commands of a page, as words."""
    joined = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
    words = [shlex.split(line, comments=True) for line in joined.splitlines()]
    return [line[1:] for line in words if line and line[0] == "plan"]


def run(plan: Plan, line: list[str]) -> None:
    """A command of a page, which may write its output to a file."""
    words, target = (line[:-2], line[-1]) if ">" in line else (line, None)
    said = done(plan(*words))
    if target is not None:
        Path(target).write_text(said.out, encoding="utf-8")


@pytest.fixture
def own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`mine.json` as the tutorial says, in the folder where the commands run."""
    (model,) = blocks("tutorial.md", "json")
    path = tmp_path / "mine.json"
    path.write_text(model, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.slow
def test_the_tutorial_leads_to_a_comparison_of_ones_own_model(plan: Plan, own_model: Path) -> None:
    lines = [line for line in commands("tutorial.md") if line[:2] != ["solve", "--formulation"]]
    table, own = ["import", "solve", "report"], ["solve", "show", "report", "compare", "report"]
    assert [line[0] for line in lines] == [*table, *own]
    for line in lines:
        run(plan, line)
    assert (own_model.parent / "my.html").stat().st_size > 10_000
    assert (own_model.parent / "comparison.html").stat().st_size > 10_000
    tables = (own_model.parent / "comparison" / "tables.md").read_text("utf-8")
    text = " ".join((DOCS / "tutorial.md").read_text("utf-8").split())
    told = re.findall(
        r"takes ([\d.]+) ms, where ([\d.]+) ms are proven; on three it takes ([\d.]+) ms, where ([\d.]+) ms are",
        text,
    )
    assert re.findall(r"\| ([\d.]+) \(\+[\d.]+ %\) \|", tables) == [told[0][0], told[0][2]], "greedy loses"
    assert re.findall(r"\| ([\d.]+) \*proven\*", tables)[::2] == [told[0][1], told[0][3]]


def test_the_page_on_profiles_lists_the_packaged_ones() -> None:
    rows = re.findall(
        r"^\| `([\w.-]+)` \| (\S+/\S+) \| .* \| ([\d,]+) \|$", (DOCS / "profiles.md").read_text("utf-8"), re.M
    )
    assert sorted(name for name, *_ in rows) == list(packaged_profile_names())
    for name, repository, parameters in rows:
        profile = load_packaged_profile(name)
        held = sum(node.parameter_bytes for node in profile.nodes) - profile.tied_bytes
        assert held == 2 * int(parameters.replace(",", ""))
        assert str(profile.source["config"]).startswith(repository + " ")


@pytest.fixture
def extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files of the page on extending, where Python finds them."""
    write_files(DOCS / "extending.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)


def test_the_formulation_of_the_page_on_extending_proves_what_the_dynamic_program_does(
    plan: Plan, extended: Path
) -> None:
    described, exported, checked = (plan(*line) for line in commands("extending.md") if "example:ENTRY" in line)
    assert (described.code, exported.code, checked.code) == (0, 0, 0)
    assert "eq_2" in (extended / "example.lp").read_text("utf-8")
    assert "optimal" in checked.out
    assert "no contradiction" in " ".join(checked.out.split())


@pytest.mark.sweeps
def test_the_altered_program_of_the_page_on_extending_proves_its_answer(plan: Plan, extended: Path) -> None:
    line = next(line for line in commands("extending.md") if "few:ENTRY" in line)
    result = plan(*line, "--json").json
    assert "eq_few" in (extended / "few.lp").read_text("utf-8")
    assert result["stop"] == "proven"
    assert max(map(result["plan"]["allocation"].count, range(2))) == 2
    assert "at most two layers on each GPU" in result["scope"]


@pytest.mark.parametrize("free", [False, True])
def test_one_row_more_has_the_optimum_of_the_plans_that_keep_it(plan: Plan, extended: Path, free: bool) -> None:
    line = next(line for line in commands("extending.md") if "capacity:ENTRY" in line)
    tiny = pipeplan.load("tiny-chain")
    nodes = [replace(node, accelerator_time=t) for node, t in zip(tiny.nodes, (1, 1, 1, 1, 4, 4), strict=True)]
    problem = tiny.replace(nodes=tuple(nodes))
    pipeplan.save(problem, "tiny-chain.json")
    line = [word.replace("tiny-chain", "tiny-chain.json") for word in line]
    found = plan(*line, "--json", *(["--non-contiguous"] if free else [])).json
    best = math.inf
    for where in itertools.product(range(problem.accelerators + problem.cpus), repeat=len(problem.nodes)):
        one = pipeplan.PlacementPlan.from_assignment(
            problem, {v.id: i for v, i in zip(problem.nodes, where, strict=True)}
        )
        few = all(where.count(i) <= 2 for i in range(problem.accelerators))
        if few and not pipeplan.verify(problem, one, contiguity="none" if free else "device"):
            best = min(best, pipeplan.evaluate(problem, one).max_load)
    assert found["stop"] == "proven"
    assert found["objective"] == pytest.approx(best)
    assert best > pipeplan.solve(problem, formulation="ip-tarnawski", options={"non_contiguous": free}).objective
    assert "eq_capacity" in (extended / "capacity.lp").read_text("utf-8")
    assert "no accelerator has more nodes than it may" in (extended / "capacity.lp.md").read_text("utf-8")


@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
def test_a_row_on_reduced_problems_is_refused_with_the_way_out(plan: Plan, extended: Path, solver: str) -> None:
    """It was `'NativeModel' object has no attribute 'x'`, or, with HiGHS, an answer to another question."""
    said = plan("solve", "tiny-chain", "--formulation", "capacity:ENTRY", "--variant", "strong", "--solver", solver)
    refused(said, "give --option variant=plain")


def test_a_model_of_cp_sat_says_that_it_takes_no_rows() -> None:
    native = NativeModel("package.module:build", {})
    with pytest.raises(UsageError, match=r"There is no 'x' in a model for CP-SAT.*native=False"):
        native.x  # noqa: B018
    with pytest.raises(UsageError, match=r"takes no 'eq_apart'.*--solver highs"):
        native.eq_apart = 1  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(native)) == native


FLOOR = """
import pyomo.environ as pyo

from pipeplan.formulations.registry import FORMULATIONS, Entry
from pipeplan.formulations.tarnawski.formulation import TarnawskiThroughput

class Floor(TarnawskiThroughput):
    rows_see_groups_alone = True

    def model(self, problem, options, wanted):
        built = super().model(problem, options, wanted)
        built.model.eq_floor = pyo.Constraint([0], rule=lambda m, q: m.T[q] >= 6)
        return built

FORMULATION = Floor()
ENTRY = Entry("floor", "A floor", "placement", "floor:FORMULATION", FORMULATIONS["ip-tarnawski"].options)
"""


def test_a_row_that_sees_groups_alone_is_added_for_highs_and_refused_in_a_sentence_for_cp_sat(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was `TypeError: super(type, obj): obj must be an instance or subtype of type`, as a fault of the plug-in."""
    (tmp_path / "floor.py").write_text(FLOOR, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    said = plan("solve", "tiny-chain", "--formulation", "floor:ENTRY")
    assert said.code == 2
    assert "give --solver highs" in said.err
    assert "failed at" not in said.err
    assert plan("solve", "tiny-chain", "--formulation", "floor:ENTRY", "--solver", "highs").code == 0


def test_the_stream_of_progress_is_json_to_its_end_and_can_be_drawn(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = next(line for line in commands("howto.md") if "--progress" in line)
    said = plan(*line[: line.index("2>")])
    told = [json.loads(text) for text in said.err.splitlines()]
    assert all("seconds" in record for record in told[:-1])
    assert told[-1] == {"wrote": "r.json"}
    Path("progress.jsonl").write_text(said.err, encoding="utf-8")
    (draw,) = (block for block in blocks("howto.md", "python") if "progress.jsonl" in block)
    exec(draw, {})
    pipeplan.load_result("r.json").history.plot("search.svg")
    assert Path("convergence.svg").exists()
    assert Path("search.svg").exists()


def test_errors_and_notes_are_lines_of_that_stream_too(plan: Plan) -> None:
    (record,) = map(json.loads, plan("solve", "no-such-file", "--progress", "json").err.splitlines())
    assert "no-such-file" in record["error"]
    noted = plan("solve", "tiny-chain", "--planner", "dp", "--native", "a=1", "--progress=json")
    assert all(json.loads(line) for line in noted.err.splitlines())
    assert "Error: " in plan("solve", "no-such-file").err, "in the next command errors are text again"


def test_the_suite_of_the_page_on_comparisons_is_one(plan: Plan, own_model: Path) -> None:
    (text,) = blocks("reproduce.md", "toml")
    path = own_model.with_name("suite.toml")
    path.write_text(text, encoding="utf-8")
    assert len(expand(load_suite(str(path))).runs) == 6


@pytest.mark.slow
def test_the_commands_of_the_page_on_schedules_work_and_give_the_values_that_it_names(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in commands("schedules.md"):
        if line[:2] != ["compare", "--suite"]:
            run(plan, line)
    values = [pipeplan.load_result(name).objective for name in ("best.json", "rule.json")]
    others = [
        plan("solve", "pipeline.json", "--objective", "span", "--planner", name, "--json").json["objective"]
        for name in ("zb-greedy", "1f1b")
    ]
    text = (DOCS / "schedules.md").read_text("utf-8")
    number = r"([0-9]+)"
    sentence = rf"takes {number} time units.* \*zb-greedy\* takes {number}, \*zb-h1\* {number}, and 1F1B {number}\."
    named = [tuple(map(float, row)) for row in re.findall(sentence, " ".join(text.split()))]
    assert named == [(values[0], others[0], values[1], others[1])]
    assert (DOCS / "schedules.svg").stat().st_size > 10_000


@pytest.mark.slow
def test_the_table_of_the_page_on_schedules_is_what_its_commands_give(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row's options are given in place of the command's own; *the best order* is the answer, others are beside it."""
    monkeypatch.chdir(tmp_path)
    layout, schedule = (line for line in commands("schedules.md") if "even.json" in line)
    run(plan, layout)
    at = schedule.index("--memory")
    text = (DOCS / "schedules.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]*?) \| ([^|]*?) ?\| ([0-9.]+) ms \| (.*?) GB \|$", text, re.MULTILINE)
    assert len(rows) == 5
    for name, options, makespan, memory in rows:
        given = shlex.split(options.strip("`"))
        kept = schedule if "--memory" not in given else schedule[:at] + schedule[at + 2 :]
        answer = plan(*kept, *given, "--json").json
        assert answer["result"]["found"] == "optimal"
        best = {"value": answer["result"]["objective"], "peak": answer["peak"]}
        shown = answer["own"] if name.startswith("1F1B") else answer["rule"] if "1F1B" in name else best
        assert f"{shown['value'] * 1000:.1f}" == makespan, name
        least, _, most = memory.partition(" to ")
        assert float(least) - 0.005 <= shown["peak"] / 1e9 <= float(most or least) + 0.005, name
    two_chunks = plan(*schedule, "--virtual", "2", "--json").json["result"]["objective"]
    assert f"{two_chunks * 1000:.1f} ms" in text


@pytest.mark.slow
def test_the_problem_on_the_page_on_schedules_is_one(tmp_path: Path) -> None:
    (text,) = blocks("schedules.md", "json")
    path = tmp_path / "two.json"
    path.write_text(text, encoding="utf-8")
    result = pipeplan.solve(path, planner="list-schedule")
    assert result.found == pipeplan.Found.FEASIBLE


def test_the_page_on_schedules_names_every_method_for_them() -> None:
    text = (DOCS / "schedules.md").read_text("utf-8")
    named = set(re.findall(r"`([\w-]+)`", "".join(re.findall(r"^\| .*$", text, re.MULTILINE))))
    assert {entry.name for entry in methods_of("schedule")} <= named


def test_the_page_on_exploring_names_every_situation() -> None:
    named = re.findall(r"^\| ([A-Z].*?) \|", (DOCS / "explore.md").read_text("utf-8"), re.MULTILINE)
    assert named == [entry["name"] for entry in SITUATIONS]


def test_every_command_of_the_pages_has_options_that_exist() -> None:
    root: Any = typer.main.get_command(app)
    pages = (
        "index", "start", "tutorial", "howto", "reproduce", "export", "from-your-model", "profiles", "schedules",
        "explore", "configure", "training-memory", "hierarchy", "graph-pipelines", "../README",
    )  # fmt: skip
    for page in pages:
        for name, *words in commands(f"{page}.md"):
            command = root.commands[name]
            command = command.commands[words[0]] if name in GROUPS else command
            known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
            flags = {word for word in words if word.startswith("--") and " " not in word}
            assert flags <= known, (page, name)


def test_the_page_on_the_papers_has_a_command_for_every_packaged_suite() -> None:
    root: Any = typer.main.get_command(app)
    text = (DOCS / "reproduce.md").read_text("utf-8")
    lines = [shlex.split(line) for line in re.findall(r"^\|.*\| `plan (.*?)` \|$", text, re.MULTILINE)]
    named = {line[line.index("--suite") + 1] for line in lines if "--suite" in line}
    assert named == set(packaged_suites()) - {"leaderboard"}, "which is of no paper"
    for name, *words in lines:
        known = {flag for option in root.commands[name].params for flag in option.opts}
        own = {"--table"}  # of dp-piper, read as an option of the method
        assert {word for word in words if word.startswith("-")} <= known | own


def test_the_page_on_papers_says_what_quick_shows_of_every_suite() -> None:
    (section,) = re.findall(
        r"^### What quick shows\n(.*?)^### ", (DOCS / "reproduce.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+)[^|]*\| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    assert {name for name, *_ in rows} == set(packaged_suites()) - {"leaderboard"}


@pytest.mark.slow
def test_the_quick_part_of_piper_tells_methods_apart_without_published_inputs() -> None:
    """It had ratio 1 in every cell."""
    expanded = expand(load_suite("piper-table1", quick=True))
    cells = {run.setting: expanded.problems[run.problem_hash] for run in expanded.runs}
    gains = {}
    for setting, problem in cells.items():
        exact, equal = (pipeplan.solve(problem, planner=name).objective for name in ("dp-piper", "equi"))
        gains[setting] = equal / exact
    assert max(gains.values()) == pytest.approx(1.25, abs=0.01), "as the page says"
    assert sum(gain > 1.05 for gain in gains.values()) >= 3


def test_the_quick_part_of_tarnawski_takes_two_minutes_at_most() -> None:
    """Methods with a solver or a search may take their limit; each other run takes a second or two."""
    runs = expand(load_suite("tarnawski-table1", quick=True)).runs
    long = [run for run in runs if run.method == "ip free"]
    assert sum(run.limits["time_limit_s"] for run in long) + 1.5 * (len(runs) - len(long)) < 120


def test_the_page_says_what_becomes_of_published_inputs_that_are_not_at_hand() -> None:
    expanded = expand(load_suite("tarnawski-table1", quick=True))
    assert expanded.stand_ins
    assert expanded.left_out
    words = " ".join((DOCS / "reproduce.md").read_text("utf-8").split())
    assert "packaged networks of the same kind replace the published inputs" in words
    assert "an input without a replacement is left out" in words


def test_the_page_on_why_counts_the_ideals_that_the_page_of_measurements_has() -> None:
    measured = (RESULTS / "dynamic-program.md").read_text("utf-8").partition("## Published inputs")[2]
    rows = re.findall(r"^\| (?:layer|operator)/\w[\w-]* \| ([\d,]+) \|", measured, re.MULTILINE)
    ideals = sorted(rows, key=lambda count: int(count.replace(",", "")))
    words = " ".join((DOCS / "why.md").read_text("utf-8").split())
    assert len(rows) == 9
    assert f"all nine throughput inputs available to us, which have {ideals[0]} to {ideals[-1]} [ideals]" in words


def test_the_questions_name_every_origin_of_a_packaged_instance() -> None:
    origins = {
        "analytic": r"\(analytic costs\)$",
        "by a generator": r"^(?:generator |random instance;)|^(?:two chains between|a chain of stages)",
        "by hand": r"hand-written|^exposes an erratum",
        "examples from papers": r"\(20\d\d\), ",
        "the authors of Zero Bubble measured": r"the authors of Zero Bubble measured",
    }
    words = " ".join((DOCS / "faq.md").read_text("utf-8").replace("*", "").split())
    found = set()
    for kind in packaged_kinds():
        for info in packaged_info(kind):
            fits = {name for name, pattern in origins.items() if re.search(pattern, info["source"])}
            assert len(fits) == 1, (info["name"], info["source"], fits)
            found |= fits
    assert found == set(origins)
    for name in (
        "analytic costs",
        "by hand or by a generator",
        "examples from papers",
        "authors of Zero Bubble measured",
    ):
        assert name in words, name


@pytest.mark.workloads
@pytest.mark.parametrize(("name", "ours"), [("gnmt_inference", 75.23), ("resnet50_inference", 36.71)])
def test_pipedream_differs_from_the_paper_by_what_the_page_says(workloads: Path, name: str, ours: float) -> None:
    problem = pipeplan.load(workloads / f"tarnawski/throughput/layer/{name}.json")
    assert pipeplan.solve(problem, planner="pipedream").objective == pytest.approx(ours, abs=0.005)
    assert f"{ours} [" in (DOCS / "reproduce.md").read_text("utf-8")


def test_the_example_on_the_first_page_prints_what_stands_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    (example,), (output,) = blocks("index.md", "python"), blocks("index.md", "text")
    assert len([line for line in example.splitlines() if line]) <= 10
    exec(compile(example, "index.md", "exec"), {})
    assert capsys.readouterr().out == output


def test_the_answer_to_a_first_plan_begins_as_the_page_says(plan: Plan) -> None:
    page = " ".join((ROOT / "docs/start.md").read_text(encoding="utf-8").split())
    (command,) = re.findall(r"```sh plan (solve .*?) ```", page)
    (parts,) = re.findall(r"The answer begins with three sentences: (.*?)\.", page)
    assert parts.split(", ") == [
        "the value and what limits the pipeline",
        "how good the plan is proven to be",
        "and how much slower an even split is",
    ]
    sentence = " ".join(plan(*command.split()).out.split())
    said = (
        r"[\d.]+ ms per micro-batch: stage .* limits the pipeline.*\. Proven optimal .*\. An even split .* slower\."
    )
    assert re.match(said, sentence), sentence


def test_the_picture_on_the_first_page_shows_the_best_period_known() -> None:
    (command,) = [words for words in commands("index.md") if "--picture" in words]
    row = best_known(command[1], "general")
    assert row is not None
    assert row.proven
    assert f"every {row.value / 1000:.2f} ms" in (DOCS / "index.md").read_text("utf-8")
    assert (DOCS / command[-1]).stat().st_size > 10_000


@pytest.mark.workloads
def test_the_page_on_the_papers_lays_the_published_inputs_out_as_the_tests_want_them(
    workloads: Path, tmp_path: Path
) -> None:
    """Its commands run on repositories of empty files: only the names can be compared here."""
    (script,) = blocks("reproduce.md", "bash")
    for path in files_of_the_repositories():
        (tmp_path / "theirs" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "theirs" / path).touch()
    subprocess.run(["bash", "-euo", "pipefail", "-c", "git() { :; }\n" + script], cwd=tmp_path, check=True)
    laid_out = tmp_path / "workloads"
    ours = {"README.md", "piper/reference.csv"}
    assert files_below(laid_out) == files_below(workloads) - ours


def files_of_the_repositories() -> Iterator[str]:
    """What is taken from the repositories, and other inputs of theirs."""
    for net in ("bert24", "gnmt", "inceptionv3", "resnet50"):
        yield f"dnn-partitioning/human-experts/{net}_inference_expert.json"
        yield f"dnn-partitioning/latency-inputs/LayerGraphs/{net}_inference.json"
        yield from (f"dnn-partitioning/throughput-inputs/LayerGraphs/{net}_{mode}.json" for mode in MODES)
    for net in ("bert_l-3", "bert_l-6", "resnet50"):
        yield f"dnn-partitioning/latency-inputs/OperatorGraphs/{net}_inference.json"
        yield from (f"dnn-partitioning/throughput-inputs/OperatorGraphs/{net}_{mode}.json" for mode in MODES)
    yield "dnn-partitioning/throughput-inputs/OperatorGraphs/bert_L-12_training.json"
    yield from (f"piper/inputs/{name}.json" for name in ("bert32a100", "gnmt", "resnet"))
    for net in ("alexnet", "resnet18", "resnet50", "resnet101", "vgg16"):
        yield f"pipedream/profiler/image_classification/profiles/{net}/graph.txt"
    for name in ("dualpipev_4rank_10mb", "zb1p_2rank_2stagep_comms", "zb1p_2rank_2stagep_compute"):
        yield f"pytorch/test/distributed/pipelining/artifacts/{name}.csv"


MODES = ("inference", "training")


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_page_on_memory_names_functions_that_exist() -> None:
    code = "".join(
        (DOCS.parent / "instances/training" / f"{name}.py").read_text("utf-8")
        for name in ("unit_costs", "unit_bytes", "cases", "referee")
    )
    named = set(re.findall(r"`(_?\w+_\w+)`", (DOCS / "training-memory.md").read_text("utf-8")))
    functions = {name for name in named if name.startswith("_") or name.endswith(("_of", "_rank"))}
    assert len(functions) > 6
    assert {name for name in functions if f"def {name}(" not in code} == set()


def test_plans_are_written_as_the_page_on_formats_shows_them() -> None:
    (text,) = blocks("profiles.md", "json")
    assert {json.loads(line)["kind"] for line in text.splitlines()} <= set(plan_types())


def test_the_page_of_proofs_has_a_row_for_each_packaged_value() -> None:
    text = (RESULTS / "proofs.md").read_text("utf-8").partition("## Inputs")[2]
    listed = re.findall(r"^\| (\S+) \| (\S+) \|", text, re.MULTILINE)
    assert {(row.instance, row.variant) for row in read_best_known()} <= set(listed)


def test_the_page_on_the_api_lists_the_public_names_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    page = importlib.import_module("generate").api()
    listed = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted(name for name in pipeplan.__all__ if not name.startswith("_"))
    for argument in ("cross_check", "micro_batches", "max_bytes", "contiguity", "precision"):
        assert re.search(rf"^`{argument}` \(.*\)\n: \w", page, re.MULTILINE), argument


ROOT = DOCS.parent
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("models/*.md")),
    *sorted(RESULTS.glob("*.md")), *sorted(ROOT.glob("notebooks/*.ipynb")),
]  # fmt: skip
FOLDERS = "instances|formulations|planners|pipeplan|plugins|tests|benchmarks|notebooks|docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_on_the_pages_exist(page: Path) -> None:
    """What a page names in our folders is there; <kind> and * stand for anything."""
    named = set(re.findall(rf"`((?:{FOLDERS})/[\w./*<>-]*)`", page.read_text("utf-8")))
    patterns = {path: re.sub(r"<[^>]*>", "*", path).rstrip("/") for path in named}
    made_later = ("docs/reference", "docs/lessons", "docs/_build")
    missing = [
        path
        for path, pattern in patterns.items()
        if not pattern.startswith(made_later) and not any(ROOT.glob(pattern))
    ]
    assert not missing


# ---- links ---------------------------------------------------------------------------------------------

READ = [*PAGES, ROOT / "notebooks" / "README.md", ROOT / "CHANGELOG.md"]


def prose(page: Path) -> str:
    """The text of a page, or of the text cells of a notebook, without blocks of code."""
    text = page.read_text("utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def links(page: Path) -> set[str]:
    text = re.sub(r"`[^`\n]+`", "", prose(page))
    return {*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)}


def anchors(page: Path) -> set[str]:
    """What GitHub and the site call the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", READ, ids=lambda page: page.parent.name + "/" + page.name)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    """As GitHub follows them, from the folder of the page. The site follows the same ones, and a few that it adds."""
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if heading:
            assert heading in anchors(target), link


# ---- how many pages, how many words, how far from the first one ---------------------------------------------

HAND_WRITTEN = [*sorted(DOCS.glob("*.md")), DOCS / "models" / "index.md"]
"""What somebody wrote for the site; lessons, the pages of models, and what programs make are apart."""
MOST_PAGES, MOST_WORDS, MOST_CLICKS = 25, 35_000, 2


def written_by_hand(page: Path) -> list[str]:
    """The words of a page without code, comments and tables."""
    text = re.sub(r"<!--.*?-->", "", prose(page), flags=re.DOTALL)
    return re.sub(r"^\|.*$", "", text, flags=re.MULTILINE).split()


def test_the_site_has_few_pages_and_few_words() -> None:
    assert len(HAND_WRITTEN) <= MOST_PAGES
    assert sum(len(written_by_hand(page)) for page in HAND_WRITTEN) <= MOST_WORDS


def test_pages_have_pictures_that_say_what_they_show() -> None:
    pictures = [found for page in HAND_WRITTEN for found in re.findall(r"!\[(.*?)\]\((.*?)\)", prose(page))]
    assert len(pictures) >= 10
    assert [path for words, path in pictures if len(words.split()) < 4] == []


def linked_pages(page: Path) -> set[Path]:
    paths = {link.partition("#")[0] for link in links(page) if "://" not in link}
    return {(page.parent / path).resolve() for path in paths if path.endswith((".md", ".ipynb"))}


def test_every_page_is_two_clicks_from_the_first_one() -> None:
    reached = {DOCS / "index.md"}
    for _ in range(MOST_CLICKS):
        reached |= {target for page in reached for target in linked_pages(page)}
    lessons = ROOT.glob("notebooks/*.ipynb")
    tables = RESULTS.glob("*.md")
    assert {*DOCS.glob("*.md"), *DOCS.glob("models/*.md"), *lessons, *tables} <= reached


def test_the_first_page_lists_every_other_once_and_its_lists_are_the_sidebar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(DOCS)
    site_map, lesson_pages = (importlib.import_module(name) for name in ("site_map", "lesson_pages"))
    home = lesson_pages.from_docs((DOCS / "index.md").read_text("utf-8"))
    listed = [page for _, page in site_map.listed(home)]
    assert len(set(listed)) == len(listed)
    others = {page.relative_to(DOCS).with_suffix("").as_posix() for page in HAND_WRITTEN} - {"index"}
    assert set(listed) == others | {"lessons/index"}
    assert re.findall(r"^[^\n]+ <([\w/-]+)>$", site_map.sidebar(home), re.MULTILINE) == listed
    for page, added in site_map.ADDED.items():
        assert "<" in added((DOCS / f"{page}.md").read_text("utf-8")), "what the site links to is named on the page"


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: page.name)
def test_a_page_reads_well_on_github(page: Path) -> None:
    """No directive of the site is in its source, and no link leads to what only the site has."""
    text = page.read_text("utf-8")
    assert re.findall(r"^(?:```|:::)\{.*|(?<![`\w])\{\w+\}`.*", text, re.MULTILINE) == []
    assert "](reference/" not in text


def test_old_addresses_lead_to_pages_and_headings_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    for old, new in importlib.import_module("site_map").MOVED.items():
        assert not (DOCS / f"{old}.md").exists()
        name, _, heading = new.partition("#")
        page = DOCS / name.replace(".html", ".md")
        assert not heading or heading in anchors(page), (old, new)


def test_raw_tables_name_the_command_that_makes_them() -> None:
    for page in RESULTS.glob("*.md"):
        assert re.search(r"python benchmarks/\w+\.py|`plan leaderboard ", page.read_text("utf-8")), page.name


def test_the_headlines_of_the_page_of_evidence_are_those_of_the_raw_tables() -> None:
    said = " ".join((DOCS / "evidence.md").read_text("utf-8").split())
    raw = {page.stem: page.read_text("utf-8") for page in RESULTS.glob("*.md")}

    def cells(study: str, start: str) -> list[str]:
        (row,) = re.finditer(rf"^\| {start}.*\|$", raw[study], re.MULTILINE)
        return [cell.strip() for cell in row[0].strip("|").split("|")]

    release = re.escape(pipeplan.__version__)
    _, _, _, inputs, best, proven, to_best, to_bound, limit, *_ = cells("proofs", rf"{release} \| ")
    assert (
        f"Of {inputs} inputs, {best} reach the best known value and {proven} are proven optimal, within 10 s each"
        in said
    )
    assert limit.startswith("10 s")
    assert f"best known value is {to_best}, and the mean gap to the bound is {to_bound}" in said
    means = [cell.strip("+").partition(" (")[0] for cell in cells("leaderboard", "geometric mean")]
    assert f"`greedy` is {means[5]} above" in said
    assert f"the even split `equi` is {means[7]} above it (" in said
    of_ten, widest = re.findall(r"(\d+) of 10 graphs .* the widest is ([\d.]+)%", raw["throughput"])[0]
    assert f"{of_ten} of 10 large graphs are solved to within a gap of 1 %; the widest gap is {widest} %" in said
    for name in ("bert24_inference", "gnmt_inference", "bert_l-3_inference"):
        row = next(row for row in re.findall(rf"^\| {name} \| 1 \|.*$", raw["latency"], re.MULTILINE))
        _, _, greedy, value, *_ = (cell.strip() for cell in row.strip("|").split("|"))
        assert f"| {name} | {greedy} ms | {value} ms |" in said
    proven, _, seconds, ratio = cells("chains", "24x8 \\| \\d of")[1:5]
    assert proven == "5 of 5"
    assert f"in a median of {float(seconds):.0f} s" in said
    assert f"takes {100 - 100 * float(ratio):.0f} % less time" in said
    points, own, theirs, better = re.findall(
        r"Of (\d+) points, .* and a proof at (\d+); .* at (\d+) of them: exact-beaumont is better at (\d+) and worse",
        raw["pareto"],
    )[0]
    assert theirs == better
    assert f"at all {theirs} points where PipeDream finds a plan" in said
    assert f"a plan at all {points} points and proves {own}" in said
    for devices in (64, 512, 1024):
        _, published, _, paper, *_ = cells("piper", f"{devices} \\| ([0-9.]+ \\| ){{4}}[0-9.]+ ")
        assert f"| {devices:,} | {published} s | {paper} s |" in said
    assert f"2,048 devices in {cells('piper', '2048 ')[3]} s" in said
    low, high = re.findall(r"([\d.]+) to ([\d.]+) times as fast", raw["case-study"])[0]
    assert f"{low} to {high} times as fast" in said
    problems, proofs = re.findall(r": (\d+) problems, (\d+) proven", raw["schedules"])[0]
    assert f"{proofs} of {problems} schedule problems are solved to proven optimality" in said
    fit, trained, off, published = re.findall(
        r"(\d+) of (\d+) fit or may fit.* off by (\d+)% in the median of the (\d+) ", raw["trained"]
    )[0]
    assert f"{fit} of {trained} configurations from real training runs fit or may fit" in said
    assert f"for the {published} with published figures, the median error of the predicted MFU is {off} %" in said
    groups, kept = re.findall(r"Of (\d+) groups (\d+) meet the rule", raw["ablation"])[0]
    (gone,) = re.findall(r"(\d+)\s+\[went\]", raw["ablation"])
    assert f"Of {groups} groups of heuristics, reductions and bounds, {kept} earn their place" in said
    assert f"by our rule; {gone} others were removed" in said
    runs, late = re.findall(r"Of (\d+) runs, (\d+) went more", raw["time-limits"])[0]
    assert f"{late} of {runs} runs exceed their time limit" in said


def test_the_map_of_the_house_has_every_folder_and_no_other() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    rooms: dict[str, set[str]] = {}
    package = ""
    for line in text.splitlines():
        words = re.findall(r"[a-z_]+(?=/)", line)
        if not line.startswith(" "):
            package, *words = words
        rooms.setdefault(package, set()).update(words)
    for package, names in rooms.items():
        assert [name for name in names if not (ROOT / package / name).is_dir()] == [], package
    for package in ("instances", "planners", "pipeplan"):
        folders = {path.parent for path in (ROOT / package).glob("*/*.py")}
        of_code = {folder.name for folder in folders if not folder.is_symlink() and any(folder.glob("[!_]*.py"))}
        assert of_code == rooms[package]


def test_examples_of_what_can_be_added_are_tests() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "instances" / "physics").glob("*.py")
    )
    examples = re.findall(r"`(test_a_new_\w+)`", text)
    assert len(examples) == 3
    assert [name for name in examples if f"def {name}(" not in tests] == []


def test_lessons_link_to_papers_by_the_addresses_of_the_page_on_the_papers() -> None:
    known = links(DOCS / "reproduce.md")
    for page in ROOT.glob("notebooks/*.ipynb"):
        assert {link for link in links(page) if "://" in link} <= known, page.name


def test_the_command_that_launches_a_job_hands_every_flag_on_and_contradicts_none(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan has a layout, which stands in quotes; programs that print their arguments stand for launchers."""
    monkeypatch.chdir(tmp_path)
    for name in ("torchrun", "srun", "scontrol"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name in ("NODE_RANK", "MASTER_ADDR", "SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        monkeypatch.setenv(name, "1")
    (line,) = (line for line in blocks("configure.md", "sh") if "my-13b.json" in line)
    subprocess.run(["sh", "-c", line.splitlines()[0]], check=True)
    asked = ("my-13b.json", "--devices", "4x8xa100-80gb", "--sequence", 4096, "--batch", 512)
    fixed = [word for key in ("tensor=2", "pipeline=4", "virtual=2", "zero=1") for word in ("--fix", key)]
    assert plan("configure", *asked, *fixed, "-o", "best.json").code == 0
    assert plan("export", "best.json", "--to", "megatron", "--with-model-flags", "-o", "flags.txt").code == 0
    flags = shlex.split((tmp_path / "flags.txt").read_text("utf-8"))
    assert any("|" in word for word in flags)
    best = json.loads((tmp_path / "best.json").read_text("utf-8"))["plan"]
    (launch,) = (line for line in commands("export.md") if "slurm" in line)
    for launcher in ("slurm", "torchrun"):
        line = [launcher if word == "slurm" else word for word in launch]
        assert plan(*["best.json" if word == "configuration.json" else word for word in line]).code == 0
        call = ["bash", "launch.sh", "--mock-data"]
        words = subprocess.run(call, check=True, capture_output=True, text=True).stdout.splitlines()
        assert words[-len(flags) - 2 :] == ["./pretrain_gpt.py", "--mock-data", *flags]
        (judged,) = json.loads(plan("configure", *asked, "--json", "--judge", "launch.sh").out)["judged"]
        assert (judged["fits"], judged["notes"]) == ("yes", [])
        assert best == {"kind": "configuration"} | {name: judged[name] for name in best if name != "kind"}


# ---- Pictures of the documentation are what their commands draw today.


COMMANDS = {
    "first-plan.svg": ("plan solve resnet18-training-chain --picture first-plan.svg",),
    "schedules.svg": (
        "plan generate pipeline --stages 4 --micro-batches 12 --limit 10 -o pipeline.json",
        "plan solve pipeline.json --objective span -o best.json",
        "plan show pipeline.json best.json --picture schedules.svg",
    ),
    "levels.svg": (
        "plan solve tiny-levels --planner dp-piper -o result.json",
        "plan simulate tiny-levels result.json --picture levels.svg",
    ),
    "memory.svg": ("plan memory bert-large-stages --picture memory.svg",),
    "frontier.svg": ("python benchmarks/frontier.py --picture frontier.svg",),
    "case-study-row.svg": ("python benchmarks/case_study.py --output .",),
    "case-study-graph.svg": ("python benchmarks/case_study.py --output .",),
}
"""What draws each; the others show what took hours, or how long something took."""
MEASURED = {
    "dynamic-program.svg": "benchmarks/dynamic_program.py",
    "graphpipe.svg": "benchmarks/graphpipe.py",
    "piper-table.svg": "benchmarks/piper.py",
    "replay.svg": "benchmarks/replay.py",
    **{path.name: "benchmarks/pareto.py" for path in RESULTS.glob("pareto-*.svg")},
}
"""Their scripts write the page around them as well."""
ONE_OF_SEVERAL = {"schedules.svg": "span"}
"""Several schedules are best, and any may be found: then the headline, with this word, is the same as far as the idle
time of each device."""


def words(path: Path) -> list[str]:
    """What stands in a picture, and what its shapes say below the pointer: names, numbers, starts and ends."""
    return re.findall(r"<(?:text|title)[^>]*>([^<]*)<", path.read_text("utf-8"))


PICTURES = {path.name: path for folder in (DOCS, RESULTS) for path in sorted(folder.glob("*.svg"))}


@pytest.mark.parametrize("path", PICTURES.values(), ids=lambda path: path.name)
def test_a_picture_has_the_font_of_its_words(path: Path) -> None:
    """But for one that is written by hand, in the reader's own font."""
    assert path.read_text("utf-8").count("@font-face") == (path.name != "frontier.svg")


def test_every_picture_has_a_command() -> None:
    assert PICTURES.keys() == {*COMMANDS, *MEASURED}
    assert all((ROOT / script).is_file() for script in MEASURED.values())


@pytest.mark.sweeps
@pytest.mark.slow("case-study-graph.svg", "case-study-row.svg", "first-plan.svg")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_picture_is_what_its_command_draws(
    plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS[name]:
        program, *arguments = shlex.split(command)
        if program == "plan":
            done(plan(*arguments))
        else:
            script, *rest = arguments
            subprocess.run([sys.executable, str(ROOT / script), *rest], check=True, cwd=tmp_path)
    told = ONE_OF_SEVERAL.get(name, "")
    pictures = (tmp_path / name, PICTURES[name])
    drawn, kept = ([text for text in words(path) if told in text] for path in pictures)
    if told:
        drawn, kept = ([text.partition(", devices are idle")[0] for text in texts] for texts in (drawn, kept))
    assert drawn
    assert drawn == kept
