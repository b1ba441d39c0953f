"""What stages are worth: every address is there, what stands in a stage's place is called, and the page is true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ablation
import pytest

ROW = "row"


def run(**changes: Any) -> Any:
    usual = {
        "row": ROW, "stage": "", "number": 0, "limit_s": 10.0, "stop": "proven", "value": 6.0, "bound": 6.0,
        "seconds": 2.0, "cpu": 2.0, "counters": {"steps": 100},
    }  # fmt: skip
    return ablation.Run(**{**usual, **changes})


def loss(whole: dict[str, Any] | None = None, **without: Any) -> Any:
    """Of a row that is the same twice with all stages."""
    both = [run(number=number, **(whole or {})) for number in range(2)]
    return ablation.loss_on(both, [run(stage="covers", **without)])


# ---- the stages ------------------------------------------------------------------------------------------


def test_every_address_exists_and_every_name_is_said_once() -> None:
    for stage in ablation.STAGES:
        for address in stage.swaps:
            holder, name = ablation.holder_of(address)
            assert name in vars(holder), address
    names = [stage.name for stage in ablation.STAGES]
    rows = [row.name for row in ablation.ROWS]
    assert len(set(names)) == len(names)
    assert len(set(rows)) == len(rows)
    assert {stage.method for stage in ablation.STAGES} <= {method.name for method in ablation.METHODS}
    assert {name for stage in ablation.STAGES for name in stage.rows} <= set(rows)
    assert all(ablation.rows_of(stage) for stage in ablation.STAGES)


def test_no_address_is_inside_a_compiled_loop() -> None:
    """There nothing can be exchanged: the loop on disk is found by the source of its module."""
    for stage in ablation.STAGES:
        assert not any("kernel" in address or ".scan:" in address for address in stage.swaps), stage.name


def test_rows_that_never_come_to_a_stage_say_nothing_of_it() -> None:
    whole = [run(), run(number=1)]
    assert ablation.verdict_of("annealing", [*whole, run(stage="annealing", cpu=9.0)]).rows == 0
    assert ablation.verdict_of("annealing", [*whole, run(stage="annealing", cpu=9.0, calls=1)]).rows == 1
    assert ablation.verdict_of("growing limits", [*whole, run(stage="families", cpu=9.0)]).rows == 0
    assert ablation.verdict_of("families", [*whole, run(stage="families", cpu=9.0)]).rows == 1


def test_what_stands_in_the_place_of_a_stage_was_called_on_some_row() -> None:
    """Constants are not called; whoever asks another method instead exchanges nothing."""
    runs = ablation.read()
    for stage in ablation.STAGES:
        reached = any(each.calls for each in runs if each.stage == stage.name)
        assert reached or not ablation.is_called(stage) or not ablation.verdict_of(stage.name, runs).rows, (
            stage.name
        )


def test_a_stage_is_switched_off_and_counted() -> None:
    """In a process of its own, as all rows are run: what one planned before is there already for the next."""
    stage = next(stage for stage in ablation.STAGES if stage.name == "bound by cycles")
    row = next(row for row in ablation.ROWS if row.name == "period: x-8-6")
    run = ablation.run_apart(row, stage, number=0, limit_s=30.0)
    assert (run.stop, run.value) == ("proven", 6.0)
    assert run.calls > 0


# ---- what is worse ---------------------------------------------------------------------------------------


def test_what_is_the_same_is_no_loss() -> None:
    assert loss() is None
    assert loss(cpu=2.15) is None
    assert loss({"cpu": 0.1}, cpu=0.3) is None
    assert loss(counters={"steps": 102}) is None
    assert loss({"counters": {"sets": 5}}, counters={"sets": 9}) is None


def test_the_gravest_loss_is_told() -> None:
    assert loss(value=None, bound=None).measure == "plan"
    assert loss(value=6.6, bound=6.0, stop="time").measure == "value"
    assert loss(bound=5.4, stop="time").measure == "gap"
    assert loss(stop="time").measure == "end of the search"
    assert loss(cpu=2.5, counters={"steps": 200}).measure == "processor time"
    assert loss(counters={"steps": 200}).by == "2 times"


def test_where_an_input_is_refused_there_is_no_plan() -> None:
    row = next(row for row in ablation.ROWS if row.name == "mip-piper: bert-large-stages")
    stage = next(stage for stage in ablation.STAGES if stage.name == "equal trees")
    refused = ablation.run_here(row, replace(stage, instead={"options": {"objective": "none of these"}}), 10.0)
    assert refused["stop"] == "refused"
    assert loss(**refused).by == "no plan"


def test_noise_speaks_for_the_removal() -> None:
    """The worse run with all stages is compared with the best one without the stage."""
    whole = [run(number=0, cpu=2.0), run(number=1, cpu=3.0, counters={"steps": 90})]
    without = [run(stage="covers", cpu=3.1, counters={"steps": 500})]
    assert ablation.loss_on(whole, without) is None


def test_one_run_decides_unless_noise_may() -> None:
    whole = [run(), run(number=1)]
    assert not ablation.is_doubtful(whole, [run(stage="covers")])
    assert ablation.is_doubtful(whole, [run(stage="covers", cpu=2.4)])
    assert not ablation.is_doubtful(whole, [run(stage="covers", cpu=9.0)])
    assert ablation.is_doubtful(whole, [run(stage="covers", bound=5.0, stop="time")])


# ---- what is kept, and the page ---------------------------------------------------------------------------


def test_what_is_kept_is_not_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, made = tmp_path / "runs.jsonl", []

    def apart(row: Any, stage: Any, number: int, limit_s: float) -> Any:
        made.append((row.name, "" if stage is None else stage.name))
        return run(row=row.name, stage="" if stage is None else stage.name, number=number, limit_s=limit_s)

    monkeypatch.setattr(ablation, "run_apart", apart)
    stage = next(stage for stage in ablation.STAGES if stage.name == "annealing")
    ablation.measure([stage], "", None, path)
    assert {(row, name) for row, name in made} == {
        (row.name, name) for row in ablation.rows_of(stage) for name in ("", stage.name)
    }
    before = list(made)
    ablation.measure([stage], "", None, path)
    assert made == before
    assert len(ablation.read(path)) == len(before)


def test_further_rows_are_for_stages_that_no_other_row_misses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def apart(row: Any, stage: Any, number: int, limit_s: float) -> Any:
        off = stage is not None
        return run(row=row.name, stage=stage.name if off else "", number=number, limit_s=limit_s,
            cpu=9.0 if off else 2.0, calls=int(off))  # fmt: skip

    monkeypatch.setattr(ablation, "run_apart", apart)
    stage = next(stage for stage in ablation.STAGES if stage.name == "annealing")
    ablation.measure([stage], "", None, tmp_path / "runs.jsonl")
    further = {row.name for row in ablation.ROWS if row.further}
    assert not further & {each.row for each in ablation.read(tmp_path / "runs.jsonl")}


def test_the_page_is_what_the_program_writes() -> None:
    assert ablation.PAGE.read_text("utf-8") == ablation.page(ablation.read())


def test_every_stage_is_on_the_page_and_is_missed_or_explained() -> None:
    runs, page = ablation.read(), ablation.PAGE.read_text("utf-8")
    waiting = page.partition("Not measured yet: ")[2].partition(".\n")[0].replace("\n  ", " ")
    for stage in ablation.STAGES:
        verdict = ablation.verdict_of(stage.name, runs)
        if not verdict.rows:
            assert stage.name in waiting, stage.name
            continue
        assert f"| {stage.name} |" in page, stage.name
        rows = verdict.losses or stage.kept or ablation.waiting_rows(stage, runs)
        assert rows, f"no row misses {stage.name}: remove it, or say why it stays"
