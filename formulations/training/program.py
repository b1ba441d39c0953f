"""Layouts and words of training configurations as one mixed-integer program, with the passes of every rank in order.

A *block* q is one choice of degrees, micro-batch, ZeRO stage and schedule with one word for recomputation. A column a
of its rank r says which units the rank's chunks have; only what fits is a column. Its seconds F (of the pass of kind k
of chunk j), D (of a message after chunk j) and E (after the rank's last pass) are data. One block is chosen, and all
times of the others are 0, so that no large constants are needed:

    minimise T
    (1)  sum over q, a of x_q0a = 1                        one block, and one column of its first rank
    (2)  sum of x_qra where chunk j ends at unit i         chunk j + 1 begins where chunk j ends, on whatever ranks
         = sum of x_qsa where chunk j + 1 begins at i      r and s they lie
    (3)  f_qjk = sum over a of F_qrajk x_qra, d_qj alike   what passes and messages take
    (4)  e_u >= f_u                                        u is the first pass of a rank
    (5)  e_u >= e_v + delta + f_u                          pass v comes before pass u on the rank (delta = 0), or pass u
                                                           waits for the message of pass v on another chunk (d_qj)
    (6)  g_q >= e_u + sum over a of E_qra x_qra            u is the last pass of rank r
    (7)  T >= step + sum over q of g_q                     step: what is added to every iteration

For given columns (4) to (7) are a longest path, which is the iteration of the referee's simulation: the value is exact
for every schedule whose name gives the order of its passes, interleaved ones included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from ...instances.base.errors import TooLargeError
from ...instances.base.quantities import several
from ...instances.physics.schedules import SCHEDULES
from ...instances.training.plan import Configuration, Recompute
from ..contract import Values
from .columns import Column
from .settings import Setting

NAME = "mip-configuration"
# Names of the rows, by the numbers of the equations above; (3a) is about passes, (3b) about messages.
ROWS = ("eq_1", "eq_2", "eq_3a", "eq_3b", "eq_4", "eq_5", "eq_6", "eq_7")
# The index of a kind of pass among the seconds of its chunk.
PARTS = {"F": 0, "B": 1, "I": 1, "W": 2}
# The most passes of all blocks together.
MOST_PASSES = 60_000

# A pass: its chunk, its part (the index in `PARTS`), and its micro-batch.
Pass = tuple[int, int, int]


@dataclass(frozen=True)
class Block:
    """A setting and a word, with what each rank may have."""

    setting: Setting
    word: Recompute
    micro_batches: int
    homes: tuple[tuple[int, ...], ...]
    ranks: tuple[tuple[Column, ...], ...]

    @cached_property
    def place(self) -> dict[int, tuple[int, int]]:
        """The rank of each chunk, and its number there."""
        return {j: (rank, i) for rank, own in enumerate(self.homes) for i, j in enumerate(own)}

    @cached_property
    def orders(self) -> tuple[tuple[Pass, ...], ...]:
        """The passes of each rank."""
        d = self.setting.degrees
        rule = SCHEDULES[self.setting.schedule].order
        return tuple(
            tuple((own[i], PARTS[kind], n) for kind, i, n in rule(r, d.pipeline, d.virtual, self.micro_batches))
            for r, own in enumerate(self.homes)
        )

    def waits(self) -> Iterator[tuple[Pass, Pass, int | None]]:
        """A pass, one that it waits for, and the chunk whose message lies between; None: they follow on a rank."""
        last = len(self.place) - 1
        for order in self.orders:
            for i, own in enumerate(order):
                j, part, n = own
                if i:
                    yield own, order[i - 1], None
                if part == 0 and j > 0:
                    yield own, (j - 1, 0, n), j - 1
                if part == 1 and j < last:
                    yield own, (j + 1, 1, n), j

    @property
    def passes(self) -> int:
        return sum(map(len, self.orders))

    @property
    def longest(self) -> float:
        """Upper bound on the seconds of a layout: all passes and messages one after the other."""
        seconds = 0.0
        for columns in self.ranks:
            own = [column.figures for column in columns]
            seconds += self.micro_batches * max(figures.busy + 2 * sum(figures.delays) for figures in own)
            seconds += max(figures.tail for figures in own)
        return seconds


@dataclass(frozen=True)
class Grid:
    """How seconds become numbers of the model: whole steps, rounded down, or fractions of a unit."""

    unit: float
    whole: bool

    def __call__(self, seconds: float) -> float:
        return float(seconds // self.unit) if self.whole else seconds / self.unit


class Program:
    """The model of some blocks."""

    def __init__(self, blocks: tuple[Block, ...], step_seconds: float, grid: Grid, limit: float) -> None:
        self.blocks, self.step_seconds, self.grid, self.limit = blocks, step_seconds, grid, limit
        self.passes = sum(block.passes for block in blocks)
        if self.passes > MOST_PASSES:
            raise TooLargeError(
                "batch",
                f"gives {self.passes:,} passes to order in {len(blocks)} choices, too many for {NAME}",
                "fix more, as in --fix pipeline=2",
            )
        self.model = self._build()

    def _build(self) -> Any:
        from ..quick_pyomo import pyo

        model = self.model = pyo.ConcreteModel(NAME)
        columns = [
            (q, r, a)
            for q, block in enumerate(self.blocks)
            for r, own in enumerate(block.ranks)
            for a in range(len(own))
        ]
        model.x = pyo.Var(columns, domain=pyo.Binary)
        blocks = range(len(self.blocks))
        parts = [(q, j, k) for q in blocks for j, k in self._parts(q)]
        most = self.limit / self.grid.unit
        most = float(int(most) + 1) if self.grid.whole else most
        events = [(q, *own) for q in blocks for order in self.blocks[q].orders for own in order]
        model.f = pyo.Var(parts, bounds=(0, most))
        model.d = pyo.Var([(q, j) for q in blocks for j in range(len(self.blocks[q].place) - 1)], bounds=(0, most))
        model.e = pyo.Var(events, bounds=(0, most))
        model.g = pyo.Var(blocks, bounds=(0, most))
        model.T = pyo.Var(bounds=(0, most))
        for name in ROWS:
            model.add_component(name, pyo.ConstraintList())
        self.row("eq_1", sum(model.x[q, 0, a] for q in blocks for a in range(len(self.blocks[q].ranks[0]))) == 1)
        for q, block in enumerate(self.blocks):
            self._borders(q, block)
            self._seconds(q, block)
            self._passes(q, block)
        self.row("eq_7", model.T - sum(model.g[q] for q in blocks) >= self.grid(self.step_seconds))
        model.objective = pyo.Objective(expr=self.grid.unit * model.T)
        return model

    def row(self, equation: str, expression: Any) -> None:
        self.model.component(equation).add(expression)

    def key(self) -> list[str]:
        """What the numbers in names stand for."""
        return list(self._numbered())

    def _numbered(self) -> Iterator[str]:
        for q, block in enumerate(self.blocks):
            degrees = " ".join(f"{name}={number}" for name, number in asdict(block.setting.degrees).items())
            how = f"{block.setting.schedule}, computed again: {block.word.word}"
            yield f"block {q}: {degrees}, {how}, {several(block.micro_batches, 'micro-batch')}"
            for r, own in enumerate(block.ranks):
                for a, column in enumerate(own):
                    units = ", ".join(f"{first} to {behind - 1}" for first, behind in column.intervals)
                    yield f"block {q}, rank {r}, column {a}: units {units}"

    def _parts(self, q: int) -> Iterator[tuple[int, int]]:
        block = self.blocks[q]
        for j, (rank, i) in block.place.items():
            yield from ((j, k) for k in range(len(block.ranks[rank][0].figures.passes[i])))

    def _borders(self, q: int, block: Block) -> None:
        """Rows of equation (2): the chunk that ends at a border and the one that begins there agree on it."""
        model = self.model
        for j in range(len(block.place) - 1):
            (rank, i), (other, k) = block.place[j], block.place[j + 1]
            if rank == other:
                continue  # its columns keep that by themselves
            at = defaultdict(list)
            for a, column in enumerate(block.ranks[rank]):
                at[column.intervals[i][1]].append(model.x[q, rank, a])
            for a, column in enumerate(block.ranks[other]):
                at[column.intervals[k][0]].append(-model.x[q, other, a])
            for terms in at.values():
                self.row("eq_2", sum(terms) == 0)

    def _seconds(self, q: int, block: Block) -> None:
        """Rows of equation (3): the seconds of passes and of messages follow from the chosen columns."""
        model, grid = self.model, self.grid
        for j, (rank, i) in block.place.items():
            own = list(enumerate(block.ranks[rank]))
            for k in range(len(own[0][1].figures.passes[i])):
                total = sum(grid(column.figures.passes[i][k]) * model.x[q, rank, a] for a, column in own)
                self.row("eq_3a", model.f[q, j, k] - total == 0)
            if j < len(block.place) - 1:
                total = sum(grid(column.figures.delays[i]) * model.x[q, rank, a] for a, column in own)
                self.row("eq_3b", model.d[q, j] - total == 0)

    def _passes(self, q: int, block: Block) -> None:
        """Rows of equations (4) to (6): passes end after those that they wait for, and the iteration after the
        tails."""
        model = self.model
        for order in block.orders:
            first = order[0]
            self.row("eq_4", model.e[q, *first] - model.f[q, first[0], first[1]] >= 0)
        for own, before, message in block.waits():
            wait = model.e[q, *own] - model.e[q, *before] - model.f[q, own[0], own[1]]
            self.row("eq_5", wait - (0 if message is None else model.d[q, message]) >= 0)
        for rank, order in enumerate(block.orders):
            tails = [self.grid(column.figures.tail) for column in block.ranks[rank]]
            after = sum(tail * model.x[q, rank, a] for a, tail in enumerate(tails))
            self.row("eq_6", model.g[q] - model.e[q, *order[-1]] - after >= 0)

    # ---- translations -----------------------------------------------------------------------------------------

    @property
    def steps(self) -> Mapping[str, float]:
        """A step of 1 for each column of times, by name: their values are whole numbers."""
        model = self.model
        families = (model.f, model.d, model.e, model.g, model.T)
        return {own.name: 1.0 for family in families for own in family.values()}

    @property
    def rounding(self) -> float:
        """What rounding down may take from an iteration: a step for every pass and every message of a path."""
        return self.grid.unit * (2 * max(block.passes for block in self.blocks) + 2) if self.grid.whole else 0.0

    def decode(self, values: Values) -> Configuration:
        for q, block in enumerate(self.blocks):
            layout = [0] * len(block.place)
            for rank, own in enumerate(block.ranks):
                chosen = max(range(len(own)), key=lambda a: values.get(self.model.x[q, rank, a].name, 0.0))
                if values.get(self.model.x[q, rank, chosen].name, 0.0) < 0.5:
                    break
                for j, (first, behind) in zip(block.homes[rank], own[chosen].intervals, strict=True):
                    layout[j] = behind - first
            else:
                return block.setting.plan(tuple(layout), block.word)
        raise AssertionError("equation (1) chooses a block")

    def encode(self, plan: Configuration) -> Values | None:
        """Values of x alone, from which all times follow; None where the plan is outside this model."""
        chosen: dict[tuple[int, int, int], float] = {}
        for q, block in enumerate(self.blocks):
            if (block.setting, block.word) == (Setting.of(plan), plan.recompute[0]) and len({*plan.recompute}) == 1:
                intervals = [(own.start, own.stop) for own in plan.intervals]
                wanted = [tuple(intervals[j] for j in own) for own in block.homes]
                for rank, own in enumerate(block.ranks):
                    chosen |= {
                        (q, rank, a): 1.0 for a, column in enumerate(own) if column.intervals == wanted[rank]
                    }
                if len(chosen) < len(block.ranks):
                    return None
        return {own.name: chosen.get(key, 0.0) for key, own in self.model.x.items()} if chosen else None
