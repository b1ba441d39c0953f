"""PyTorch's file of a pipeline's schedule: a row for each rank, a cell for each pass, in the order in which they run.

A cell is a stage, the kind of pass and a micro-batch, both counted from 0: ``0F0``, ``0I0``, ``0W0``, ``0B0``. Empty
cells are pauses and say nothing; ``(0F1;3B0)OVERLAP_F_B`` is a pair of passes that a rank overlaps, which for us follow
each other. Ranks are the devices that run blocks, in the order of the problem.

Files of all ages are read. Older ones call the backward pass for inputs ``B`` where a ``W`` of the same stage and
micro-batch follows, and the whole backward pass ``BW``. Sends, receives and other communication (``0SEND_F0``,
``2RECV_B1``, ``0UNSHARD``) are no passes, and such a cell is read as a pause.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ..base.errors import InputError, UsageError, show
from .order import Deadlock, Run, earliest_starts
from .plan import SchedulePlan
from .problem import KIND_NAMES, MAX_STARTS, BlockEdge, ScheduleProblem
from .referee import verify_schedule

# Kinds of passes that a cell may hold.
PASSES = "FBIW"
OVERLAP = "OVERLAP_F_B"
WHOLE = "BW"  # as older files write B
EXAMPLE = "write a stage, F, B, I or W and a micro-batch, such as 0F0"
PAIR_EXAMPLE = f"write a pair such as (0F1;3B0){OVERLAP}"

_ACTION = re.compile(rf"([0-9]{{1,9}})({WHOLE}|[{PASSES}])([0-9]{{1,9}})")
_PAIR = re.compile(rf"\(([^();]*);([^();]*)\){OVERLAP}")
_COMMUNICATION = re.compile(r"\d+(UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)\d*")


class Action(NamedTuple):
    """One pass of one stage."""

    stage: int
    kind: str
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


# A pass, two that are overlapped, or none: a pause.
Cell = tuple[Action, ...]
# The cells of each rank.
Table = tuple[tuple[Cell, ...], ...]


# ---- the text ------------------------------------------------------------------------------------------


def table_from_csv(text: str) -> Table:
    """The cells of a file; one that cannot be read is an `InputError` with its row and column."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows_read: list[tuple[Cell, ...]] = []
    cells = 0
    try:
        for number, row in enumerate(rows, 1):
            cells += max(1, len(row))
            if cells > MAX_STARTS:
                raise InputError(f"row {number}", f"brings the cells to {cells}", f"give at most {MAX_STARTS}")
            rows_read.append(tuple(_cell(_place(number, column), entry) for column, entry in enumerate(row, 1)))
    except csv.Error as error:
        raise InputError(f"row {len(rows_read) + 1}", f"is not CSV ({error})", "correct the text there") from None
    return _in_new_letters(rows_read)


def _in_new_letters(table: Sequence[Sequence[Cell]]) -> Table:
    """The table with the letters of newer files: a B becomes I where its stage and micro-batch have a W and no I."""
    passes = {action for row in table for cell in row for action in cell}

    def in_new_letters(action: Action) -> Action:
        divided = action._replace(kind="I")
        old = action.kind == "B" and action._replace(kind="W") in passes and divided not in passes
        return divided if old else action

    return tuple(tuple(tuple(map(in_new_letters, cell)) for cell in row) for row in table)


def table_to_csv(table: Table) -> str:
    """The text of a file with these cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in table:
        writer.writerow([_written(cell) for cell in row])
    return text.getvalue()


def _written(cell: Cell) -> str:
    return f"({';'.join(map(str, cell))}){OVERLAP}" if len(cell) > 1 else "".join(map(str, cell))


def _cell(where: str, entry: str) -> Cell:
    entry = entry.strip()
    if not entry or _COMMUNICATION.fullmatch(entry):
        return ()
    pair = _PAIR.fullmatch(entry)
    if pair is not None:
        return _action(where, pair[1].strip(), PAIR_EXAMPLE), _action(where, pair[2].strip(), PAIR_EXAMPLE)
    return (_action(where, entry, PAIR_EXAMPLE if entry.startswith("(") else EXAMPLE),)


def _action(where: str, entry: str, remedy: str) -> Action:
    match = _ACTION.fullmatch(entry)
    if match is None:
        raise InputError(where, f"is {show(entry)}", remedy)
    return Action(int(match[1]), "B" if match[2] == WHOLE else match[2], int(match[3]))


def _place(row: int, column: int) -> str:
    return f"row {row}, column {column}"


# ---- the stages of a problem ---------------------------------------------------------------------------


@dataclass(frozen=True)
class CsvStages:
    """The stages of a problem as the file names them: where each runs, and which block is which of its passes."""

    problem: ScheduleProblem
    ranks: tuple[int, ...]
    """Positions of the devices that run blocks."""
    rank_of: tuple[int, ...]
    """The rank of each stage."""
    block_of: dict[tuple[int, str], int]
    """Position of the block of each stage and kind of pass."""

    @cached_property
    def chain(self) -> ScheduleProblem:
        """The problem with the same blocks, where each stage reads from its neighbours alone, as PyTorch's runtime has
        it."""
        pairs: list[tuple[int, int]] = []
        for stage in range(len(self.rank_of)):
            backward = self.backward(stage)
            blocks = [self.block_of[stage, "F"], *(self.block_of[stage, kind] for kind in backward)]
            pairs += pairwise(blocks)
            if stage and backward:
                pairs.append((blocks[1], self.block_of[stage - 1, self.backward(stage - 1)[0]]))
            if stage:
                pairs.append((self.block_of[stage - 1, "F"], blocks[0]))
        ids = [block.id for block in self.problem.blocks]
        return self.problem.replace(edges=tuple(BlockEdge(ids[i], ids[j]) for i, j in pairs))

    def backward(self, stage: int) -> tuple[str, ...]:
        """Kinds of the backward passes of a stage, in their order; empty where nothing is trained."""
        return tuple(kind for kind in "BIW" if (stage, kind) in self.block_of)

    def action(self, run: Run) -> Action:
        block = self.problem.blocks[run[0]]
        assert isinstance(block.stage, int), "checked"
        return Action(block.stage, block.kind, run[1])


def csv_stages(problem: ScheduleProblem) -> CsvStages:
    """What the file's stages are in this problem, or an `InputError` that says what has no place in such a file."""
    block_of: dict[tuple[int, str], int] = {}
    ranks = tuple(d for d, blocks in enumerate(problem.on_device) if blocks)
    homes: dict[int, int] = {}
    for b, block in enumerate(problem.blocks):
        where = f"blocks[{b}]"
        if block.kind == "X":
            raise InputError(f"{where}.kind", f'is "X" ({KIND_NAMES["X"]})', f"{ONLY}; leave such blocks out")
        if len(block.devices) > 1:
            raise InputError(
                f"{where}.devices", f"are {len(block.devices)}", "in PyTorch's CSV a pass has one device; name one"
            )
        stage = block.stage
        if isinstance(stage, bool) or not isinstance(stage, int) or stage < 0:
            what = "is missing" if stage is None else f"is {show(stage)}"
            raise InputError(f"{where}.stage", what, f"PyTorch's CSV needs its {NUMBER}; give it")
        if (stage, block.kind) in block_of:
            raise InputError(
                f"{where}.stage",
                f"is {stage}, whose {block.kind} is {show(problem.blocks[block_of[stage, block.kind]].id)} already",
                f"in PyTorch's CSV a chunk is a stage of its own; give its {NUMBER}",
            )
        block_of[stage, block.kind] = b
        home = problem.device_index[block.devices[0]]
        if homes.setdefault(stage, home) != home:
            first = problem.devices[homes[stage]].name
            raise InputError(
                f"{where}.devices",
                f"are {show(block.devices[0])}, and other blocks of stage {stage} run on {show(first)}",
                "in PyTorch's CSV a stage has one device; name that",
            )
    for i, edge in enumerate(problem.edges):
        if edge.offset:
            raise InputError(
                f"edges[{i}].offset", f"is {edge.offset}", "PyTorch's CSV knows one iteration alone; leave it out"
            )
    stages = CsvStages(problem, ranks, tuple(ranks.index(homes[s]) for s in sorted(homes)), block_of)
    _check_stages(stages, sorted(homes))
    return stages


# Parts of several messages.
ONLY = "PyTorch's CSV has forward and backward passes alone"
NUMBER = "position along the chain of stages, a whole number from 0 on"


def _check_stages(stages: CsvStages, numbers: Sequence[int]) -> None:
    """Refuse stages with gaps in their numbers or without a forward pass, and those of which some alone go backward."""
    for number, stage in enumerate(numbers):
        if stage != number:
            raise InputError("blocks", f"have a stage {stage} and no stage {number}", "number stages from 0 on")
        backward = stages.backward(stage)
        if (stage, "F") not in stages.block_of:
            raise InputError("blocks", f"of stage {stage} have no forward pass (F)", "give each stage one")
        if backward not in ((), ("B",), ("I", "W")):
            raise InputError(
                "blocks",
                f"of stage {stage} have the backward passes {' and '.join(backward)}",
                "give each stage B, or I and W",
            )
        if bool(backward) != bool(stages.backward(0)):
            raise InputError(
                "blocks",
                f"of stage {stage if stages.backward(0) else 0} have no backward pass, and those of another stage do",
                "give each stage B, or I and W",
            )


# ---- a schedule of it ----------------------------------------------------------------------------------


def schedule_to_csv(problem: ScheduleProblem, plan: SchedulePlan) -> str:
    """The order of a finite schedule as a file, in which its times have no place.

    PyTorch's runtime lets each stage wait for its neighbours in the chain alone. An order that would then deadlock is
    refused.
    """
    stages = csv_stages(problem)
    faults = verify_schedule(problem, plan)
    if faults:
        raise InputError(
            "plan", f"is no schedule of this problem ({faults[0].message})", "give one that is verified"
        )
    orders = orders_of(problem, plan)
    starts = earliest_starts(stages.chain, orders)
    if isinstance(starts, Deadlock):
        waits = ", ".join(
            f"{stages.action(run)} waits for {stages.action(needed)}" for run, needed in _pairs(starts)
        )
        raise UsageError(
            f"PyTorch passes tensors along the row of stages alone, and in that row this order cannot be run: {waits}; "
            "number the stages along the chain."
        )
    names = [problem.devices[device].name for device in stages.ranks]
    return table_to_csv(tuple(tuple((stages.action(run),) for run in orders[name]) for name in names))


def orders_of(problem: ScheduleProblem, plan: SchedulePlan) -> dict[str, list[Run]]:
    """What each device runs one after the other.

    Of blocks that start at one instant, those that take no time come first, then earlier micro-batches.
    """
    orders: dict[str, list[Run]] = {}
    for device, blocks in zip(problem.devices, problem.on_device, strict=True):
        runs = [
            (start, problem.times[b] > 0, n, problem.depths[b], b)
            for b in blocks
            for n, start in enumerate(plan.starts[problem.blocks[b].id])
        ]
        orders[device.name] = [(b, n) for *_, n, _, b in sorted(runs)]
    return orders


def _pairs(deadlock: Deadlock) -> list[tuple[Run, Run]]:
    return list(zip(deadlock.waiting, deadlock.missed, strict=True))


def schedule_from_csv(text: str, problem: ScheduleProblem) -> SchedulePlan:
    """The file's order with the earliest starts; whatever is wrong is an `InputError` with its row and column."""
    return _Reader(text, problem).plan()


class _Reader:
    """Matches the cells of a file with the blocks of a problem."""

    def __init__(self, text: str, problem: ScheduleProblem) -> None:
        if problem.micro_batches is None:
            raise InputError(
                "micro_batches", "of the problem is null, and a CSV needs a number of them", "give one"
            )
        self.problem, self.count = problem, problem.micro_batches
        self.stages = csv_stages(problem)
        self.table = table_from_csv(text)
        self.places: dict[Run, str] = {}

    def plan(self) -> SchedulePlan:
        """The earliest schedule in which every rank runs its row; errors name the cell."""
        ranks = self.stages.ranks
        orders: list[list[Run]] = [[] for _ in ranks]
        for rank, row in enumerate(self.table):
            if rank >= len(ranks):
                raise InputError(
                    f"row {rank + 1}",
                    f"is one too many: {len(ranks)} devices of the problem run passes",
                    "give a row for each of them",
                )
            for column, cell in enumerate(row):
                where = _place(rank + 1, column + 1)
                orders[rank] += [run for action in cell for run in self._runs(where, rank, action)]
        self._check_missing()
        names = [self.problem.devices[device].name for device in ranks]
        starts = earliest_starts(self.problem, dict(zip(names, orders, strict=True)))
        if isinstance(starts, Deadlock):
            raise self._deadlocked(_pairs(starts))
        return starts

    def _runs(self, where: str, rank: int, action: Action) -> Iterator[Run]:
        """The blocks of a pass: a whole backward pass of a divided stage is both of its parts, one after the other."""
        self._check(where, rank, action)
        backward = self.stages.backward(action.stage)
        kinds = backward if action.kind == "B" and backward else (action.kind,)
        for kind in kinds:
            block = self.stages.block_of.get((action.stage, kind))
            if block is None:
                has = " and ".join(("F", *backward))
                raise InputError(
                    where, f"is {action}, and stage {action.stage} of the problem has {has}", "use those"
                )
            run = block, action.micro_batch
            if run in self.places:
                raise InputError(where, f"is {action}, which {self.places[run]} runs already", "keep one of them")
            self.places[run] = where
            yield run

    def _check(self, where: str, rank: int, action: Action) -> None:
        homes = self.stages.rank_of
        if action.stage >= len(homes):
            raise InputError(
                where, f"is {action}, and the problem has no stage {action.stage}", f"use 0 to {len(homes) - 1}"
            )
        if homes[action.stage] != rank:
            name = self.problem.devices[self.stages.ranks[homes[action.stage]]].name
            raise InputError(
                where,
                f"is {action}, and stage {action.stage} of the problem runs on {show(name)}",
                f"move it to row {homes[action.stage] + 1}",
            )
        if action.micro_batch >= self.count:
            raise InputError(
                where,
                f"is {action}, and the problem has {self.count} micro-batches",
                f"use 0 to {self.count - 1}, or give --batch",
            )

    def _check_missing(self) -> None:
        if len(self.table) < len(self.stages.ranks):
            name = self.problem.devices[self.stages.ranks[len(self.table)]].name
            raise InputError(f"row {len(self.table) + 1}", f"is missing, that of {show(name)}", "add it")
        for (stage, kind), block in sorted(self.stages.block_of.items()):
            for n in range(self.count):
                if (block, n) not in self.places:
                    row = self.stages.rank_of[stage]
                    columns = len(self.table[row])
                    end = f"ends after column {columns}" if columns else "is empty"
                    raise InputError(f"row {row + 1}", f"{end} without {Action(stage, kind, n)}", "add it")

    def _deadlocked(self, waits: Sequence[tuple[Run, Run]]) -> InputError:
        """The passes that wait for each other, each with what it waits for."""
        parts = [f"{self._placed(run)} waits for {self._placed(needed)}" for run, needed in waits]
        if len(parts) == 1:
            return InputError(self.places[waits[0][0]], f"deadlocks: {parts[0]} behind it", "exchange them")
        listed = ", ".join(parts[:-1]) + f" and {parts[-1]}"
        return InputError(self.places[waits[0][0]], f"deadlocks: {listed}", "run what is waited for before them")

    def _placed(self, run: Run) -> str:
        return f"{self.stages.action(run)} ({self.places[run]})"
