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


# ---- the groups ------------------------------------------------------------------------------------------


def test_every_address_exists_and_every_name_is_said_once() -> None:
    for group in ablation.GROUPS:
        for address in group.swaps:
            holder, name = ablation.holder_of(address)
            assert name in vars(holder), address
    names = [group.name for group in ablation.GROUPS]
    rows = [row.name for row in ablation.ROWS]
    assert len(set(names)) == len(names)
    assert len(set(rows)) == len(rows)
    assert {name for group in ablation.GROUPS for name in group.rows} <= set(rows)


def test_no_address_is_inside_a_compiled_loop() -> None:
    """There nothing can be exchanged: the loop on disk is found by the source of its module."""
    for group in ablation.GROUPS:
        assert not any("kernel" in address or ".scan:" in address for address in group.swaps), group.name


def test_a_group_is_switched_off_and_counted() -> None:
    """In a process of its own, as all rows are run: what one planned before is there already for the next."""
    group = next(group for group in ablation.GROUPS if group.name == "facts of periods")
    row = next(row for row in ablation.ROWS if row.name == "period: nn-4-4")
    run = ablation.run_apart(row, group, number=0, limit_s=30.0)
    assert run.value == 21.0
    assert run.calls > 0


# ---- what is worse ---------------------------------------------------------------------------------------


def test_what_is_nearly_the_same_is_no_loss() -> None:
    assert loss() is None
    assert loss(cpu=3.9) is None
    assert loss({"cpu": 0.1}, cpu=0.3) is None
    assert loss(counters={"steps": 199}) is None
    assert loss({"counters": {"sets": 5}}, counters={"sets": 19}) is None
    assert loss({"stop": "time"}, value=6.05, bound=6.0, stop="time") is None


def test_the_gravest_loss_is_told() -> None:
    assert loss(value=None, bound=None).by == "no plan"
    assert loss(value=6.6, bound=6.0, stop="time").by == "value +10 %"
    assert loss(bound=5.4, stop="time").by == "no proof"
    assert loss({"stop": "time"}, bound=5.4, stop="time").by == "gap +10 points"
    assert loss(cpu=5.0, counters={"steps": 200}).by == "2.5 times the processor time"
    assert loss(counters={"steps": 200}).by == "2 times the steps"


def test_where_an_input_is_refused_there_is_no_plan() -> None:
    row = next(row for row in ablation.ROWS if row.name == "mip-piper: bert-large-stages")
    group = replace(ablation.GROUPS[0], swaps={}, instead={"options": {"objective": "none of these"}})
    refused = ablation.run_here(row, group, 10.0)
    assert refused["stop"] == "refused"
    assert loss(**refused).by == "no plan"


def test_noise_speaks_for_the_removal() -> None:
    """The worse run with all stages is compared with the best one without the group."""
    whole = [run(number=0, cpu=2.0), run(number=1, cpu=3.0, counters={"steps": 90})]
    without = [run(stage="covers", cpu=5.1, counters={"steps": 500})]
    assert ablation.loss_on(whole, without) is None


@pytest.mark.parametrize(("rows", "stays"), [
    (("chain 8x4-1",), False), (("chain 8x4-1", "chain 12x4-1"), False), (("chain 8x4-1", "lemma-2"), True),
])  # fmt: skip
def test_two_inputs_have_to_miss_a_group_and_one_has_to_be_known(rows: tuple[str, ...], stays: bool) -> None:
    """A row that misses a single stage misses its group."""
    group = ablation.GROUPS[0]
    whole = [run(row=row, number=number) for row in rows for number in range(2)]
    without = [run(row=row, stage=group.was[0], cpu=9.0) for row in rows]
    verdict = ablation.verdict_of(group, [*whole, *without])
    assert (len(verdict.losses), verdict.stays) == (len(rows), stays)


# ---- what is kept, and the page ---------------------------------------------------------------------------


def test_what_is_kept_is_not_run_again_and_two_misses_are_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, made = tmp_path / "runs.jsonl", []

    def apart(row: Any, group: Any, number: int, limit_s: float) -> Any:
        made.append(row.name)
        name, cpu = ("", 2.0) if group is None else (group.name, 9.0)
        return run(row=row.name, stage=name, number=number, limit_s=limit_s, cpu=cpu)

    monkeypatch.setattr(ablation, "run_apart", apart)
    group = next(group for group in ablation.GROUPS if len(group.rows) > 2)
    ablation.measure([group], "", None, path)
    assert list(dict.fromkeys(made)) == list(group.rows[:2])
    before = list(made)
    ablation.measure([group], "", None, path)
    assert made == before
    assert len(ablation.read(path)) == len(before)


def test_the_page_is_what_the_program_writes() -> None:
    assert ablation.PAGE.read_text("utf-8") == ablation.page(ablation.read())


def test_every_group_stays_by_the_rule_or_is_explained() -> None:
    runs = ablation.read()
    for group in ablation.GROUPS:
        assert ablation.verdict_of(group, runs).stays != bool(group.kept), group.name


def test_what_went_was_measured() -> None:
    runs = ablation.read()
    for gone in ablation.GONE:
        verdict = ablation.verdict_of(gone, runs)
        assert verdict.rows, gone.what
        assert not verdict.stays, gone.what
