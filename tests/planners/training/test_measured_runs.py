"""Predicted times beside those that others measured; docs/configure.md has the table."""

from __future__ import annotations

import csv
import importlib
import os
import statistics
from pathlib import Path

import pytest

from pipeplan.instances.physics.efficiencies import MEASURED_ERRORS
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.referee import evaluate_configuration
from pipeplan.instances.training.words import configuration_from_words

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
WORKLOADS = Path(os.environ.get("PIPEPLAN_WORKLOADS", BENCHMARKS.parent.parent / "shared" / "workloads"))
MEASURED = WORKLOADS.parent / "data" / "training"
PAGE = BENCHMARKS.parent / "docs" / "accuracy.md"
LLAMA = (
    "llama3_70b_l12_tp1_pp2_dp4_mbc4_cef",
    "llama3_70b_l12_tp8_pp1_dp1_mbc4_cef",
    "llama3_70b_l12_tp4_pp1_dp2_mbc8_cef",
    "llama3_70b_l12_tp1_cp8_pp1_dp1_seq131072_mbc4_cef",
)
DEEPSEEK = ("deepseekv2_tp1_ep8_pp1_dp8_l4_mbc4_cef", "deepseekv2_tp1_ep4_pp2_dp4_l4_mbc4_cef")


def test_three_published_mappings_come_in_the_order_in_which_they_were_measured() -> None:
    """704, 668 and 508.7 TFLOP/s per GPU: fine-tuning of Llama 3 70B on 32 H100, fp8, 32 sequences of 4,096."""
    problem = problem_of("llama-3-70b", "32xh100-80gb", batch=32, sequence=4096, precision="fp8")
    seconds = []
    for tensor, pipeline in ((4, 4), (4, 8), (8, 4)):
        plan = configuration_from_words(problem, f"tensor={tensor} pipeline={pipeline} virtual=5")
        seconds.append(evaluate_configuration(problem, plan).timing.seconds)
    assert seconds == sorted(seconds)
    assert seconds[2] > 1.2 * seconds[0]


@pytest.mark.skipif(not MEASURED.exists(), reason="no measured runs beside this checkout")
@pytest.mark.parametrize(("size", "least", "most"), [("70b", -0.06, 0.1), ("8b", 0.21, 0.24)])
def test_runs_with_adapters_are_met_as_the_page_says(size: str, least: float, most: float) -> None:
    with (MEASURED / "dgxc_benchmarking.csv").open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(line for line in lines if line[0] != "#") if row["task"] == "lora"]
    off = []
    for row in rows:
        if row["model"] == f"llama-3.1-{size}":
            sizes = {name: int(row[key]) for name, key in (("sequence", "sequence"), ("batch", "global_batch"))}
            gpus, precision = f"{row['gpus']}xh100-80gb", row["precision"]
            problem = problem_of(f"llama-3-{size}", gpus, precision=precision, adapter_rank=16, **sizes)
            words = f"tensor={row['tensor']} pipeline={row['pipeline']} virtual={row['virtual']}"
            own = evaluate_configuration(problem, configuration_from_words(problem, words))
            off.append(own.timing.seconds / float(row["seconds"]) - 1)
    assert len(off) == 6
    assert least < min(off) <= max(off) < most


@pytest.mark.skipif(not MEASURED.exists(), reason="no measured runs beside this checkout")
@pytest.mark.parametrize(("file", "fitted", "group", "mean", "median", "worst"), [
    # Calculon, on the same rows: mean 3.65 %, worst 8.87 %.
    ("a100_2205_05198.json", (), "a100", 0.0365, None, 0.0887),
    ("b200_measured.json", LLAMA, "B200 llama3-70b", 0.055, None, 0.13),
    ("b200_measured.json", (*LLAMA, *DEEPSEEK), "B200 deepseekv2", 0.10, None, None),
    ("gh200_opt350_measured.json", (), "gh200", None, 0.08, None),
])  # fmt: skip
def test_measured_times_are_met(
    file: str,
    fitted: tuple[str, ...],
    group: str,
    mean: float | None,
    median: float | None,
    worst: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the rows that took no part in the fit."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    times = importlib.import_module("training_time")
    report = times.time_rows([MEASURED / file], fitted)
    errors = [abs(row.error) for row in report.rows if row.group == group and not row.fitted]
    assert len(errors) >= 4
    assert mean is None or statistics.mean(errors) <= mean
    assert median is None or statistics.median(errors) <= median
    assert worst is None or max(errors) <= worst


@pytest.mark.sweeps
@pytest.mark.skipif(not MEASURED.exists(), reason="no measured runs beside this checkout")
def test_thousands_of_published_runs_are_met_and_the_page_says_how_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table of times is as accurate as was wanted, more than a flat share of the peak is, and on the page."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    measured = importlib.import_module("measured")
    for table in measured.TABLES:
        runs = measured.runs_of(MEASURED, table)
        error = measured.mean(measured.time_errors(runs))
        assert error <= table.wanted, table.name
        assert error < measured.mean(measured.time_errors(runs, measured.flat)), table.name
    page = PAGE.read_text("utf-8")
    assert "\n".join(measured.lines(MEASURED, 0, measured.peer_cells_on(page))) in page
    for key, (runs, nine_in_ten) in measured.errors_by_default(MEASURED).items():
        if (own := MEASURED_ERRORS.get(key)) is not None:
            assert own.runs == runs, key
            assert own.time == pytest.approx(nine_in_ten, abs=0.002), key


@pytest.mark.sweeps
@pytest.mark.skipif(not MEASURED.exists(), reason="no measured runs beside this checkout")
def test_the_page_says_what_each_source_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    left_out = importlib.import_module("left_out")
    assert "\n".join(left_out.lines_of_sources(MEASURED)) in PAGE.read_text("utf-8")


def test_the_page_has_the_peers_errors_and_ours_are_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a checkout of Calculon its numbers are those on the page, where the program's own stand beside them."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    measured = importlib.import_module("measured")
    page = PAGE.read_text("utf-8")
    cells = measured.peer_cells_on(page)
    assert [*cells] == [table.name for table in measured.TABLES]
    for name, cell in cells.items():
        if cell != "refuses all":
            row = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
            ours, theirs = row.split(" | ")[2], cell
            if "ours is" in cell:
                theirs, _, ours = cell.partition(" ours is ")
            assert float(ours.partition("%")[0]) < float(theirs.partition("%")[0]), name


def test_a_peer_is_asked_in_a_process_of_its_own_and_what_it_refuses_is_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the peer is a module that takes a second for each layer and asserts that micro-batches are short."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    measured, peer = importlib.import_module("measured"), importlib.import_module("peer")
    (tmp_path / "systems").mkdir()
    (tmp_path / "calculon" / "llm").mkdir(parents=True)
    (tmp_path / "calculon" / "__init__.py").write_text(
        "from . import io\n\n\nclass System:\n    def __init__(self, read):\n        self.name = read\n"
    )
    (tmp_path / "calculon" / "io.py").write_text("def read_json_file(path):\n    return path\n")
    (tmp_path / "calculon" / "llm" / "__init__.py").write_text(
        "class Llm:\n"
        "    class Error(Exception):\n        pass\n\n"
        "    class Execution:\n        from_json = dict\n\n"
        "    Application = dict\n\n"
        "    def __init__(self, app, log):\n        self.app = app\n\n"
        "    def compile(self, system, execution):\n"
        "        assert execution['microbatch_size'] < 4, 'too long'\n"
        "        assert system.name.endswith('h100_80g_nvl8.json')\n\n"
        "    def run(self, system):\n        self.seconds = self.app['num_blocks'] * 1.0\n\n"
        "    def get_total_time(self):\n        return self.seconds\n"
    )

    def run(words: str, micro_batch: int, gpu: str = "h100-80gb") -> object:
        problem = problem_of("llama-3-8b", f"8x{gpu}", batch=64, sequence=4096)
        plan = configuration_from_words(problem, f"{words} micro-batch={micro_batch}")
        return measured.Run(("llama",), problem, plan, 40.0)

    runs = [run("tensor=2", 1), run("tensor=2", 4), run("context=2", 1), run("tensor=2", 1, "a100-40gb")]
    answers = peer.ask(tmp_path, runs)
    assert answers == [32.0, "too long", "no context parallelism", "no file for a100-40gb"]
    assert measured.peer_cell(runs, answers).startswith("20.0% on 1, where ours is ")
    assert measured.peer_cell(runs[1:], answers[1:]) == "refuses all"


@pytest.mark.sweeps
@pytest.mark.skipif(not MEASURED.exists(), reason="no measured runs beside this checkout")
def test_campaigns_on_published_sweeps_end_early_and_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 17 groups on A100 sees its own runs one by one, and trusts the form of the model as far as the other
    groups say; no certificate is off by more than it allows."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    replay = importlib.import_module("replay")
    ((folder, table),) = replay.tables_of(MEASURED / "aleph_alpha_a100_layouts.csv")
    groups = replay.groups_of(folder, table)
    found = replay.replayed(groups, draws=10)
    own = MEASURED_ERRORS["a100", "scaling", False]
    assert own.groups == len(found)
    assert own.form == pytest.approx(max(each.rho for each in found), abs=0.01)
    assert sum(each.certified for each in found) >= 15
    assert all(each.certified or each.runs >= replay.MOST_RUNS for each in found)
    assert statistics.median(each.runs for each in found) <= 7
    assert statistics.mean(each.regret for each in found) <= 0.001
    assert max(each.regret for each in found) <= replay.USUAL_DELTA
    assert statistics.mean(each.until for each in found) <= statistics.mean(each.by_prediction for each in found)
