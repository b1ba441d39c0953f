"""PyTorch's CSV of a schedule: read with suspicion, given its earliest times, and written back."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from problems.schedules import in_random_order, random_schedule

from pipeplan import InputError, SchedulePlan, UsageError, load_plan, save
from pipeplan.cli import main
from pipeplan.instances.schedule.csv_file import (
    Action,
    csv_stages,
    orders_of,
    schedule_from_csv,
    schedule_to_csv,
    table_from_csv,
    table_to_csv,
)
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.order import Deadlock, Run, earliest_starts
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule

# ---- The earliest starts of given orders, and which blocks wait for each other where there are none.


def two_stages(micro_batches: int = 2) -> ScheduleProblem:
    """F0 and B0 on d0, F1 and B1 on d1: passes of 1 and 2 units, half a unit from stage to stage."""
    return divided_pipeline(equal_stages(2, 1, 2, None), micro_batches, None, lag=0.5)


def runs(problem: ScheduleProblem, text: str) -> list[Run]:
    """F0.1 is block F0 of micro-batch 1."""
    return [(problem.block_index[name], int(n)) for name, n in (word.split(".") for word in text.split())]


def test_a_device_without_an_order_runs_what_is_ready_first() -> None:
    blocks = (
        Block("late", "F", ("d0",), 2),
        Block("early", "F", ("d1",), 1),
        Block("send late", "X", ("link",), 3),
        Block("send early", "X", ("link",), 3),
    )
    edges = (BlockEdge("late", "send late"), BlockEdge("early", "send early"))
    devices = tuple(map(ScheduleDevice, ("d0", "d1", "link")))
    problem = ScheduleProblem(devices, blocks, edges, 1)
    plan = earliest_starts(problem, {"d0": [(0, 0)], "d1": [(1, 0)]})
    assert isinstance(plan, SchedulePlan)
    assert (plan.starts["send early"], plan.starts["send late"]) == ((1,), (4,))


@pytest.mark.parametrize("seed", range(60))
def test_the_order_of_any_schedule_starts_no_later_than_it(seed: int) -> None:
    """Valid wherever no memory is asked for."""
    made = random_schedule(3, 8, 3, seed)
    problem = made.replace(devices=tuple(ScheduleDevice(device.name, None, 1000) for device in made.devices))
    schedule = in_random_order(problem, random.Random(seed))
    plan = earliest_starts(problem, orders_of(problem, schedule))
    assert isinstance(plan, SchedulePlan)
    assert not verify_schedule(problem, plan)
    for name, starts in schedule.starts.items():
        assert all(early <= start for early, start in zip(plan.starts[name], starts, strict=True))


def stuck(problem: ScheduleProblem, **orders: str) -> Deadlock:
    found = earliest_starts(problem, {name: runs(problem, text) for name, text in orders.items()})
    assert isinstance(found, Deadlock)
    return found


def test_a_block_that_stands_before_what_it_waits_for_is_named() -> None:
    problem = two_stages(1)
    deadlock = stuck(problem, d0="B0.0 F0.0", d1="F1.0 B1.0")
    assert deadlock.sentence(problem) == (
        "Block 'B0' of micro-batch 0 on 'd0' waits for block 'F0' of micro-batch 0, which stands behind it there."
    )


def test_two_devices_that_wait_for_each_other_are_named_by_what_stands_first_there() -> None:
    problem = two_stages()
    deadlock = stuck(problem, d0="F0.0 B0.0 F0.1 B0.1", d1="F1.0 F1.1 B1.0 B1.1")
    assert deadlock.sentence(problem) == (
        "Blocks 'B0' of micro-batch 0 on 'd0' and 'F1' of micro-batch 1 on 'd1' wait for each other."
    )


def test_a_circle_of_three_devices_is_told_from_one_to_the_next() -> None:
    blocks = tuple(Block(f"{kind}{d}", "X", (f"d{d}",), 1) for d in range(3) for kind in ("first", "second"))
    edges = tuple(BlockEdge(f"second{d}", f"first{(d + 1) % 3}") for d in range(3))
    problem = ScheduleProblem(tuple(ScheduleDevice(f"d{d}") for d in range(3)), blocks, edges, 1)
    deadlock = stuck(problem, **{f"d{d}": f"first{d}.0 second{d}.0" for d in range(3)})
    assert len(deadlock.waiting) == 3
    assert deadlock.sentence(problem) == (
        "Block 'first0' of micro-batch 0 on 'd0' waits for 'first2' of micro-batch 0 on 'd2', which waits for 'first1' "
        "of micro-batch 0 on 'd1', which waits for 'first0' of micro-batch 0 on 'd0'."
    )


@pytest.mark.parametrize(("order", "words"), [
    ("F0.0 F0.1 B0.0", "lacks block 'B0' of micro-batch 1"),
    ("F0.0 F0.1 B0.0 B0.1 F1.0", "has, though it does not run there, block 'F1' of micro-batch 0"),
    ("F0.0 F0.1 B0.0 B0.1 F0.1", "has block 'F0' of micro-batch 1 twice"),
    ("F0.0 F0.1 B0.0 B0.1 F0.2", "has, though it does not run there, block 'F0' of micro-batch 2"),
])  # fmt: skip
def test_an_order_has_each_run_of_its_device_once(order: str, words: str) -> None:
    problem = two_stages()
    with pytest.raises(InputError, match=words):
        earliest_starts(problem, {"d0": runs(problem, order)})


def test_an_order_is_of_a_device_that_exists() -> None:
    with pytest.raises(InputError, match="no device is called so"):
        earliest_starts(two_stages(), {"d7": []})


TWO = divided_pipeline(equal_stages(2, 5, 6, 4), 2, None)
"""Stages 0 and 1 with F, I and W, two micro-batches."""
GOOD = "0F0,0F1,,0I0,0I1,0W0,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n"


def whole_pipeline(stages: int, micro_batches: int | None, virtual: int = 1) -> ScheduleProblem:
    """Stages with a whole backward pass."""
    return divided_pipeline(equal_stages(stages, 1, 2, None), micro_batches, None, virtual=virtual)


# ---- cells ---------------------------------------------------------------------------------------------


def test_a_table_is_read_cell_by_cell() -> None:
    text = '0F0, 0F1 ,\n(1F0;1B0)OVERLAP_F_B,"1W1"\n'
    first = ((Action(0, "F", 0),), (Action(0, "F", 1),), ())
    second = ((Action(1, "F", 0), Action(1, "B", 0)), (Action(1, "W", 1),))
    assert table_from_csv(text) == (first, second)


def test_a_table_is_written_as_it_was_read() -> None:
    text = "0F0,,(0F1;0B0)OVERLAP_F_B,0I1,0W1\n1F0,1B0\n"
    assert table_to_csv(table_from_csv(text)) == text


def test_b_and_w_of_one_micro_batch_are_the_two_parts_of_a_divided_pass() -> None:
    """Older files write B for I; a B without W is a whole pass, in the same file, too."""
    assert table_from_csv("0F0,0F1,0B0,0B1,0W0\n") == table_from_csv("0F0,0F1,0I0,0B1,0W0\n")


def test_communication_is_read_as_a_pause() -> None:
    text = "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
    assert table_from_csv(text) == table_from_csv(",0F0,,,0B0,,\n")


# ---- schedules -----------------------------------------------------------------------------------------


def test_an_order_gets_its_earliest_times() -> None:
    plan = schedule_from_csv(GOOD, TWO)
    assert verify_schedule(TWO, plan) == ()
    assert [int(start) for start in plan.starts["F1"]] == [5, 16]
    assert [int(start) for start in plan.starts["I0"]] == [16, 27]
    assert evaluate_schedule(TWO, plan).makespan == 41


def test_what_is_written_is_read_as_the_same_order() -> None:
    plan = schedule_from_csv(GOOD, TWO)
    text = schedule_to_csv(TWO, plan)
    assert text == GOOD.replace(",,", ",")
    assert schedule_from_csv(text, TWO) == plan


def test_a_whole_backward_pass_is_both_parts_of_a_divided_one() -> None:
    whole = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
    parts = "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1W0,1F1,1I1,1W1\n"
    assert schedule_from_csv(whole, TWO) == schedule_from_csv(parts, TWO)


def test_overlapped_passes_follow_each_other() -> None:
    problem = whole_pipeline(2, 2)
    pair = "0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n"
    assert schedule_from_csv(pair, problem) == schedule_from_csv("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n", problem)


def test_a_rank_runs_several_stages() -> None:
    problem = whole_pipeline(4, 1, virtual=2)
    text = "0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n"
    plan = schedule_from_csv(text, problem)
    assert verify_schedule(problem, plan) == ()
    assert schedule_to_csv(problem, plan) == text


def test_a_device_that_runs_nothing_is_no_rank() -> None:
    problem = whole_pipeline(2, 1)
    idle = problem.replace(devices=(ScheduleDevice("spare"), *problem.devices))
    assert csv_stages(idle).ranks == (1, 2)
    assert schedule_to_csv(idle, schedule_from_csv("0F0,0B0\n1F0,1B0\n", idle)) == "0F0,0B0\n1F0,1B0\n"


# ---- malformed files -----------------------------------------------------------------------------------

MALFORMED = {
    "no pass": ("hello\n", "row 1, column 1 is 'hello'; write a stage"),
    "a kind that there is not": (GOOD.replace("0W1", "0Q1"), "row 1, column 7 is '0Q1'; write a stage"),
    "no micro-batch": (GOOD.replace("1F1", "1F"), "row 2, column 3 is '1F'; write a stage"),
    "something behind it": (GOOD.replace("1F1", "1F1x"), "row 2, column 3 is '1F1x'; write a stage"),
    "a negative micro-batch": (GOOD.replace("1F1", "1F-1"), "row 2, column 3 is '1F-1'; write a stage"),
    "three parts of one pass": (GOOD.replace("1W1", "1W1,1B1"), "column 7 is 1B1, which row 2, column 4 runs"),
    "a transfer in a pair": (GOOD.replace("1F1", "(1F1;1SEND_F1)OVERLAP_F_B"), "row 2, column 3 is '1SEND_F1'"),
    "a pair of one": (GOOD.replace("1F1", "(1F1)OVERLAP_F_B"), "column 3 is '(1F1)OVERLAP_F_B'; write a pair"),
    "a pair of nothing": (GOOD.replace("1F1", "(;1F1)OVERLAP_F_B"), "row 2, column 3 is ''; write a pair"),
    "a pair in a pair": (GOOD.replace("1F1", "((1F1;1I0)OVERLAP_F_B;1F1)OVERLAP_F_B"), "row 2, column 3"),
    "an open quote": (GOOD.replace("1F1", '"1F1'), "row 2 is not CSV"),
    "a stage too many": (GOOD.replace("1W1", "2W1"), "is 2W1, and the problem has no stage 2; use 0 to 1"),
    "a foreign stage": (
        GOOD.replace("1W1", "0W1"),
        "row 2, column 6 is 0W1, and stage 0 of the problem runs on 'd0'",
    ),
    "a micro-batch too many": (GOOD.replace("1W1", "1W2"), "row 2, column 6 is 1W2, and the problem has 2"),
    "a double pass": (GOOD.replace("0F1", "0F0"), "row 1, column 2 is 0F0, which row 1, column 1 runs already"),
    "both ways of the backward pass": (GOOD.replace("1W1", "1B1"), "column 6 is 1B1, which row 2, column 4 runs"),
    "a missing pass": (GOOD.replace("0W0,", ""), "row 1 ends after column 6 without 0W0; add it"),
    "an empty row": ("\n" + GOOD, "row 2, column 1 is 0F0, and stage 0 of the problem runs on 'd0'"),
    "a rank too many": (GOOD + "\n", "row 3 is one too many: 2 devices of the problem run passes"),
    "a rank too few": (GOOD.split("\n")[0], "row 2 is missing, that of 'd1'"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_named_by_row_and_column(name: str) -> None:
    text, message = MALFORMED[name]
    with pytest.raises(InputError) as error:
        schedule_from_csv(text, TWO)
    assert message in str(error.value)


def test_a_divided_pass_is_refused_where_the_problem_has_a_whole_one() -> None:
    with pytest.raises(
        InputError, match=r"row 2, column 2 is 1I0, and stage 1 of the problem has F and B; use those"
    ):
        schedule_from_csv("0F0,0B0\n1F0,1I0,1W0\n", whole_pipeline(2, 1))


def test_a_steady_state_has_no_order() -> None:
    with pytest.raises(InputError, match="micro_batches of the problem is null"):
        schedule_from_csv(GOOD, TWO.replace(micro_batches=None))


# ---- deadlocks -----------------------------------------------------------------------------------------


def test_two_passes_that_wait_for_each_other_are_named() -> None:
    text = "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"
    with pytest.raises(InputError) as error:
        schedule_from_csv(text, whole_pipeline(2, 2))
    assert "0B0 (row 1, column 2) waits for 1B0 (row 2, column 3)" in str(error.value)
    assert "1F1 (row 2, column 2) waits for 0F1 (row 1, column 3)" in str(error.value)


def test_a_pass_before_what_it_reads_is_refused() -> None:
    with pytest.raises(InputError, match=r"0B0 \(row 1, column 1\) waits for 0F0 \(row 1, column 2\) behind it"):
        schedule_from_csv("0B0,0F0\n1F0,1B0\n", whole_pipeline(2, 1))


# ---- problems that have no place in the file -----------------------------------------------------------


def _changed(number: int, **changes: object) -> ScheduleProblem:
    problem = whole_pipeline(2, 1)
    blocks = list(problem.blocks)
    blocks[number] = replace(blocks[number], memory={}, **changes)  # type: ignore[arg-type]
    return problem.replace(blocks=tuple(blocks), leaks=True)


HOMELESS = {
    "another kind": (_changed(0, kind="X"), 'blocks[0].kind is "X" (other)'),
    "several devices": (_changed(0, devices=("d0", "d1")),
        "blocks[0].devices are 2; in PyTorch's CSV a pass has one"),
    "no stage": (_changed(1, stage=None), "blocks[1].stage is missing"),
    "a name as stage": (_changed(1, stage="head"), "blocks[1].stage is 'head'"),
    "a gap": (
        whole_pipeline(2, 1).replace(
            blocks=tuple(replace(b, stage=5 * b.stage) for b in whole_pipeline(2, 1).blocks)
        ),
        "blocks have a stage 5 and no stage 1",
    ),
    "two forward passes": (_changed(2, stage=0), "blocks[2].stage is 0, whose F is 'F0' already"),
    "two homes": (_changed(1, devices=("d1",)), "other blocks of stage 0 run on 'd0'"),
    "only half a backward pass": (_changed(1, kind="I"), "of stage 0 have the backward passes I"),
    "an offset": (whole_pipeline(2, 1).replace(edges=(BlockEdge("F0", "F1", offset=1),)),
        "edges[0].offset is 1; PyTorch's CSV knows one iteration alone"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOMELESS)
def test_what_the_file_has_no_place_for_is_refused(name: str) -> None:
    problem, message = HOMELESS[name]
    with pytest.raises(InputError) as error:
        csv_stages(problem)
    assert message in str(error.value)


def test_an_order_that_the_row_of_stages_cannot_run_is_refused() -> None:
    """Two stages that read nothing of each other run in any order here; PyTorch's second one waits for its first."""
    problem = whole_pipeline(2, 2)
    free = problem.replace(edges=tuple(e for e in problem.edges if e.source[1] == e.target[1]))
    text = "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"
    plan = schedule_from_csv(text, free)
    with pytest.raises(UsageError, match=r"this order cannot be run: 0B0 waits for 1B0, 1F1 waits for 0F1"):
        schedule_to_csv(free, plan)


# ---- the doors -----------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, Path]:
    problem, schedule = tmp_path / "problem.json", tmp_path / "schedule.csv"
    save(TWO, problem)
    schedule.write_text(GOOD)
    return str(problem), schedule


def test_plans_are_loaded_from_csv(files: tuple[str, Path]) -> None:
    assert load_plan(files[1], files[0]) == schedule_from_csv(GOOD, TWO)


def test_a_csv_is_verified_and_shown(files: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", files[0], str(files[1])]) == 0
    assert "verified: yes, recomputed makespan 41" in capsys.readouterr().out
    assert main(["show", files[0], str(files[1])]) == 0
    assert "d1 |" in capsys.readouterr().out


def test_the_memory_of_an_order_is_judged(files: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", files[0], str(files[1]), "--memory", "3"]) == 3
    assert "'d0' holds 4 half-activation at 5" in capsys.readouterr().out
