"""What the scripts in benchmarks/ ask, what they call late, wrong or lost, and that pages say what runs stored."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import kills
import overrun
import packaged_instances
import packaged_profiles
import pytest
import schedules as script
import training_heuristics as heuristics
from recipes.catalogue import NETWORKS, build

from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.networks.profile.profile import profile_to_json
from pipeplan.planners.registry import EXACT, all_methods

# ---- Runs that are killed at random moments: four of the sixty of `benchmarks/kills.py`, one of each death.


METHODS = {"worker": "exact-beaumont", "memory": "cp-schedule", "SIGINT": "cp-periodic", "SIGTERM": "ilp-beaumont"}


def test_every_exact_method_meets_every_death() -> None:
    exact = {entry.name for entry in all_methods() if entry.exact and entry.name != EXACT}
    pairs = len(exact) * len(kills.DEATHS)
    assert set(kills.PROBLEMS) == exact
    assert len({run[:2] for run in kills.drawn(pairs, 0)}) == pairs
    assert set(METHODS) == set(kills.DEATHS)


@pytest.mark.slow("SIGTERM", "memory", "worker")
@pytest.mark.sweeps
@pytest.mark.parametrize("death", METHODS)
def test_a_run_ends_as_it_should_whatever_dies(death: str) -> None:
    """At the moment that the first seed draws for this pair."""
    (moment,) = (
        moment for *pair, moment in kills.drawn(4 * len(kills.PROBLEMS), 0) if pair == [METHODS[death], death]
    )
    code, _, faults = kills.run(METHODS[death], death, moment)
    assert not faults
    assert code in (0, 1, 130)


# ---- The script that measures how far runs go beyond their limits: whom it asks, what it calls late, and one real
# run.


OVERRUN = Path(__file__).parent.parent / "benchmarks" / "overrun.py"


@pytest.mark.timing
@pytest.mark.parametrize(("instance", "default"), [
    ("tiny-chain", "ip-tarnawski"), ("golden-4", "exact-beaumont"), ("tiny-levels", "dp-piper"),
    ("tiny-graph", "graphpipe"),
])  # fmt: skip
def test_the_default_method_comes_first_then_quick_ones(instance: str, default: str) -> None:
    methods = overrun.methods_for(load_packaged(instance))
    assert methods[0].name == default
    assert not methods[1].exact
    assert not {"expert", "latency-expert", "exact"} & {entry.name for entry in methods}


@pytest.mark.timing
@pytest.mark.parametrize(
    ("wall", "work", "late"),
    [(4.0, 0.0, False), (6.4, 3.0, False), (6.6, 3.0, True), (9.0, 1.0, False), (9.0, 2.0, True)],
)
def test_a_run_is_late_if_it_works_too_long(wall: float, work: float, late: bool) -> None:
    """Who only waits for a processor is not."""
    run = overrun.Run("i", "m", 5.0, wall, work, 0.0, 0, "time", True, True)
    assert run.is_late == late
    compiled = overrun.Run("i", "m", 5.0, wall + 60.0, work, 60.0, 0, "time", True, True)
    assert compiled.is_late == late


@pytest.mark.timing
def test_a_run_without_a_plan_is_wrong_only_if_it_owes_one() -> None:
    for code, verified, owes, right in ((0, True, True, True), (1, False, True, False), (1, False, False, True)):
        assert overrun.Run("i", "m", 5.0, 1.0, 0.0, 0.0, code, "completed", verified, owes).is_right == right


@pytest.mark.timing
@pytest.mark.slow
def test_the_script_prints_a_row_for_one_run() -> None:
    asked = [
        sys.executable, OVERRUN, "--only", "tiny-levels", "--method", "equi", "--time-limit", "30", "--cold",
        "warm",
    ]  # fmt: skip
    said = subprocess.run(asked, capture_output=True, text=True, timeout=600)
    assert said.returncode == 0, said.stderr
    first, equi, last = said.stdout.splitlines()[0], said.stdout.splitlines()[1], said.stdout.splitlines()[-1]
    assert first.split() == ["instance", "method", "wall", "compile", "overrun", "work", "stop"]
    assert equi.split()[:2] == ["tiny-levels", "equi"]
    assert last.endswith(
        "0 went more than 10% + 1 s beyond the limit, and 0 ended without the answer that they owe"
    )


# ---- The table of what exactness is worth says what the stored runs say, and a loss is a loss.


def run(**changes: Any) -> Any:
    usual = {
        "pair": heuristics.PAIRS[0].name, "planner": "guide", "limit_s": 30.0, "stop": "completed", "seconds": 11.0,
        "bound": None, "took_s": 1.0,
    }  # fmt: skip
    return heuristics.Run(**{**usual, **changes})


def test_the_page_is_what_the_stored_runs_say() -> None:
    page = heuristics.PAGE.read_text("utf-8")
    assert page == heuristics.with_section(page, heuristics.kept())


def test_every_planner_ran_on_every_pair() -> None:
    ran = {(one.pair, one.planner) for one in heuristics.kept()}
    assert ran == {(pair.name, planner) for pair in heuristics.PAIRS for planner in heuristics.PLANNERS}


def test_no_heuristic_beats_the_bound() -> None:
    runs = heuristics.kept()
    bounds = {one.pair: one.bound for one in runs if one.planner == heuristics.EXACT}
    assert all(one.seconds is None or one.seconds >= bounds[one.pair] * (1 - 1e-9) for one in runs)


def test_losses_are_told_as_they_are() -> None:
    exact = run(planner=heuristics.EXACT, seconds=10.0, bound=9.9)
    assert heuristics.cell(run(), exact) == "+10.0 %"
    assert heuristics.cell(run(seconds=9.95), exact) == "-0.5 %"
    assert heuristics.cell(run(stop="time"), exact) == "+10.0 % (time)"
    assert heuristics.cell(run(seconds=None), exact) == "nothing fits"
    assert heuristics.cell(run(seconds=None, stop="time"), exact) == "nothing in time"
    assert heuristics.cell(None, exact) == "not run"


def test_the_pairs_are_problems() -> None:
    for pair in heuristics.PAIRS:
        problem = pair.problem()
        assert problem.devices == int(pair.devices.partition("x")[0])
        assert pair.name in "\n".join(heuristics.table([]))


# ---- The script that measures schedules: its rows, what it calls a failure, the page it writes, and one real row.


SCHEDULES = Path(__file__).parent.parent / "benchmarks" / "schedules.py"


@pytest.fixture
def row() -> Any:
    return next(row for row in script.rows() if row.optimum == 103)


@pytest.fixture
def proven() -> Any:
    return script.Measured(
        value=103.0, bound=103.0, proven=True, verified=True, stop="proven", method="exact-schedule", wall_s=2.0,
        work_s=3.0, peak_bytes=2.0**28, rules={"zb-greedy": 105.0, "gpipe": None},
    )  # fmt: skip


def test_there_are_rows_of_every_section_and_no_two_have_one_name() -> None:
    rows = list(script.rows())
    assert {row.section for row in rows} == set(script.WORDS)
    assert len({(row.section, row.name) for row in rows}) == len(rows)
    assert sum(row.section == script.UNEVEN for row in rows) == 12
    large = [row for row in rows if row.section == script.LARGE]
    assert {len(row.problem.blocks) * row.problem.micro_batches for row in large} == {3072}
    assert {row.name for row in rows if row.section == script.SHAPES_8} >= {"NN, memory 6", "X, memory 16"}


def test_a_proven_optimum_is_as_wanted(row: Any, proven: Any) -> None:
    assert script.faults(row, proven) == []
    assert script.cells(row, proven)[5] == "zb-greedy 105, +1.94 %"


@pytest.mark.parametrize(("changes", "fault"), [
    ({"value": 104.0}, "not the known optimum 103"),
    ({"value": 106.0}, "worse than the released heuristic"),
    ({"value": None, "verified": False}, "no verified plan"),
    ({"verified": False}, "no verified plan"),
    ({"bound": 102.0, "proven": False}, "not proven"),
    ({"wall_s": 61.0, "work_s": 100.0}, "more than 60 s"),
    ({"rules": {"zb-h1": 102.0}}, "worse than zb-h1"),
    ({"refused": ("zb-h1",)}, "the plan of zb-h1 is refused"),
])  # fmt: skip
def test_what_is_not_as_wanted_is_told(row: Any, proven: Any, changes: dict[str, Any], fault: str) -> None:
    assert fault in script.faults(row, replace(proven, **changes))


def test_a_machine_with_other_work_is_no_failure(row: Any, proven: Any) -> None:
    assert script.faults(row, replace(proven, wall_s=100.0)) == []


def test_a_gap_and_memory_have_limits(proven: Any) -> None:
    row = next(row for row in script.rows() if row.section == script.LARGE)
    near = replace(proven, bound=102.0, proven=False)
    assert script.faults(row, near) == []
    assert script.faults(row, replace(near, bound=100.0)) == ["gap above 2.00%"]
    assert script.faults(row, replace(near, bound=None)) == ["gap above 2.00%"]
    assert script.faults(row, replace(near, peak_bytes=2.0**32)) == ["more than 2 GiB"]


def test_a_section_has_a_limit_for_all_its_proofs(row: Any, proven: Any) -> None:
    assert script.late([(row, proven)] * 29) == []
    assert script.late([(row, proven)] * 31) == [f"{script.KNOWN}: 62 s together, the target is 60 s"]


def test_the_page_keeps_what_is_written_by_hand(row: Any, proven: Any, tmp_path: Path) -> None:
    page = tmp_path / "schedules.md"
    page.write_text(f"before\n\n{script.BEGIN}\nold\n{script.END}\n\nafter\n")
    script.replace_measured(page, script.page([(row, proven)]))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert f"## {script.KNOWN}" in text
    assert "its solvers together. Seconds and MiB are approximate, of one run on a machine of" in text
    assert "| 4 x 6, times 5/6/4, memory 10 | 103 | 103 | proven | 105 | zb-greedy 105, +1.94 % |" in text
    script.replace_measured(page, script.page([(row, proven)]))
    assert page.read_text() == text


def test_the_page_says_that_seconds_differ() -> None:
    text = (SCHEDULES.parents[1] / "benchmarks" / "results" / "schedules.md").read_text("utf-8")
    before, after = map(re.escape, script.ONE_RUN.split("{cores}"))
    assert re.search(rf"{before}\d+{after}", text)


def test_the_page_says_what_problems_without_a_file_are_made_of() -> None:
    text = (SCHEDULES.parents[1] / "benchmarks" / "results" / "schedules.md").read_text("utf-8")
    assert all(words in text for words in script.WORDS.values())
    for section in (script.UNEVEN, script.LARGE):
        (lag,) = {
            edge.lag for row in script.rows() if row.section == section for edge in row.problem.edges if edge.lag
        }
        assert f"lags of {lag:g}" in script.WORDS[section]
    large = next(row.problem for row in script.rows() if row.section == script.LARGE)
    assert "/".join(f"{block.time:g}" for block in large.blocks[:3]) in script.WORDS[script.LARGE]


def test_the_suite_has_the_rows_of_the_tables_that_the_page_names() -> None:
    from pipeplan.studies.compare.suite import load_suite

    text = (SCHEDULES.parents[1] / "benchmarks" / "results" / "schedules.md").read_text("utf-8")
    titles = list(dict.fromkeys(row.section for row in script.rows()))
    assert "`plan compare --suite zero-bubble-tables -o tables`" in text
    assert "for the first and the third of these tables" in text
    rows = [row for row in script.rows() if row.section in (titles[0], titles[2])]
    assert len(load_suite("zero-bubble-tables").instances) == len(rows)


@pytest.mark.slow
def test_one_row_is_measured_in_a_process_of_its_own(row: Any) -> None:
    command = [sys.executable, str(SCHEDULES), "--row", row.section, row.name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = script.Measured(**json.loads(done.stdout.splitlines()[-1]))
    assert found.verified
    assert (found.value, found.bound, found.proven) == (103.0, 103.0, True)
    assert found.rules["list-schedule"] >= 103
    assert found.peak_bytes > 2**24
    assert script.faults(row, found) == []


# ---- The recipes in `benchmarks/recipes` make the packaged files, and their networks are those of the papers.


def test_the_stored_instances_are_what_their_recipes_make() -> None:
    assert packaged_instances.differing() == []


@pytest.mark.parametrize("name", packaged_profiles.OF_PAPERS)
def test_the_stored_profiles_of_papers_are_what_is_made(name: str) -> None:
    stored = json.loads((packaged_profiles.FOLDER / f"{name}.json").read_text("utf-8"))
    assert stored == packaged_profiles.short(profile_to_json(packaged_profiles.made(name)))


# Of torchvision and Hugging Face, to the last one.
EXACT_PARAMETERS = {
    "resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032, "vgg16": 138_357_544,
    "inception_v3": 23_834_568, "densenet121": 7_978_856, "bert-base": 109_482_240, "bert-large": 335_141_888,
    "gpt2-medium": 354_823_168, "gpt2-xl": 1_557_611_200,
}  # fmt: skip
# Brown et al. 2020, table 2.1; Shazeer et al. 2017 for GNMT.
ROUNDED_PARAMETERS = {"gpt3-6.7b": 6.7e9, "gnmt": 278e6, "gnmt-operators": 278e6}
GIGA_MACS = {"resnet18": 1.82, "resnet50": 4.1, "vgg16": 15.5, "inception_v3": 5.7, "densenet121": 2.87}


def test_every_network_has_as_many_parameters_as_published() -> None:
    coarse = {name for name in NETWORKS if name.removesuffix("-operators") not in NETWORKS or name in GIGA_MACS}
    assert coarse <= EXACT_PARAMETERS.keys() | ROUNDED_PARAMETERS.keys()
    assert {name: build(name).parameters for name in EXACT_PARAMETERS} == EXACT_PARAMETERS
    found = {name: build(name).parameters for name in ROUNDED_PARAMETERS}
    assert found == pytest.approx(ROUNDED_PARAMETERS, rel=0.02)


def test_every_network_works_as_much_as_published() -> None:
    assert {name: build(name).flops / 2e9 for name in GIGA_MACS} == pytest.approx(GIGA_MACS, rel=0.03)


@pytest.mark.parametrize("name", [name for name in NETWORKS if f"{name}-operators" in NETWORKS])
def test_operators_are_the_same_network_in_smaller_pieces(name: str) -> None:
    coarse, fine = build(name), build(f"{name}-operators")
    assert len(fine.layers) > len(coarse.layers)
    assert fine.parameters == coarse.parameters
    assert fine.flops == pytest.approx(coarse.flops, rel=0.01)
