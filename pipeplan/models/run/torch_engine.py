"""The same stages in torch's own pipelines (`torch.distributed.pipelining`), whose stages stand in a row.

There a stage receives from the one before it alone, so whatever skips stages is relayed by those in between. Orders
that torch has a class for run by it, 1F1B and GPipe with one stage on each rank; all others by its runtime of listed
actions, which gets exactly our order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

from ...instances.base.errors import UsageError
from ...instances.schedule.csv_file import Action, table_to_csv
from ...instances.timeline.model import INPUTS, WEIGHTS, WHOLE, Pass, gpipe_order, kfkb_order
from ..grouping import ModelInput, Piece
from ..torch_profile import CpuClock
from .engine import SharedParameter, Span, Step, add_up
from .orders import Layout, Value


class _Row(torch.nn.Module):
    """A piece between its neighbours: it takes what crosses the border before it and gives what crosses the next one.

    Its keyword argument is the number of the micro-batch, for the model's inputs, which every rank has.
    """

    def __init__(self, piece: Piece, before: Sequence[str], after: Sequence[str], micro_batches: int) -> None:
        super().__init__()
        self.module, self.piece = piece.module, piece
        self.before, self.after, self.micro_batches = tuple(before), tuple(after), micro_batches
        self.inputs: Sequence[Mapping[str, Any]] = ()

    def forward(self, *received: torch.Tensor, number: torch.Tensor) -> Any:
        values = {name: _Whole.apply(tensor) for name, tensor in zip(self.before, received, strict=True)}
        inputs = self.inputs[int(number)]
        arguments = [
            inputs[entry.name] if isinstance(entry, ModelInput) else values[entry.value]
            for entry in self.piece.inputs
        ]
        outputs, finals = self.module(*arguments)
        if self.piece.loss is not None:
            return finals[self.piece.finals.index(self.piece.loss)].reshape(1)
        values.update(zip(self.piece.outputs, outputs, strict=True))
        return tuple(_own(values[name]) for name in self.after)


class _Whole(torch.autograd.Function):
    """What was received, unchanged, so that its gradient is contiguous: torch sends it as it is."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.contiguous()


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy where it is a view or was received, which torch could not detach in place later on."""
    if tensor._is_view() or tensor.is_leaf:
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor.contiguous()


def crossing(values: Sequence[Value], stages: int) -> list[list[Value]]:
    """For each border between a stage and the next one, the values that are made before it and read after it."""
    return [
        [value for value in values if value.producer <= border < max(value.readers)] for border in range(stages - 1)
    ]


def choose(orders: Sequence[Sequence[Pass]], micro_batches: int) -> tuple[str, Callable[..., Any]]:
    """A class of torch's where it runs this very order, else its runtime of listed actions; its name first."""
    stages = 1 + max(p.stage for order in orders for p in order)
    divided = any(p.part != WHOLE for order in orders for p in order)
    signed = [tuple(p.micro_batch for p in order) for order in orders]
    batches = range(1, micro_batches + 1)
    if not divided and all({p.stage for p in order} == {rank} for rank, order in enumerate(orders)):
        if micro_batches >= stages and signed == [kfkb_order(batches, stages - x) for x in range(stages)]:
            return "torch's Schedule1F1B", Schedule1F1B
        if signed == [gpipe_order(batches)] * stages:
            return "torch's ScheduleGPipe", ScheduleGPipe
    return "torch's runtime of listed actions", partial(_listed, orders)


def _listed(orders: Sequence[Sequence[Pass]], stages: Any, micro_batches: int, **options: Any) -> Any:
    schedule = _PipelineScheduleRuntime(stages, micro_batches, **options)
    with tempfile.TemporaryDirectory(prefix="pipeplan-orders-") as folder:
        path = Path(folder) / "orders.csv"
        cells = tuple(tuple((Action(p.stage, p.kind, abs(p.micro_batch) - 1),) for p in order) for order in orders)
        path.write_text(table_to_csv(cells))
        schedule._load_csv(str(path), format="compute_only")
    return schedule


class TorchEngine:
    """One rank, with the methods of `Engine`."""

    def __init__(
        self,
        rank: int,
        pieces: Sequence[Piece],
        layout: Layout,
        orders: Sequence[Sequence[Pass]],
        device: torch.device,
        clock: CpuClock,
        shared: Sequence[SharedParameter],
    ) -> None:
        self.layout, self.clock, self.shared = layout, clock, shared
        self.borders = crossing(layout.values, len(pieces))
        _check(pieces, self.borders, layout)
        self.schedule, make = choose(orders, layout.micro_batches)
        self.rows: list[_Row] = []
        self.marks: list[tuple[Pass, Any, Any]] = []
        mine = [x for x, stage in enumerate(layout.stages) if rank in stage.ranks]
        stages = [self._stage(x, pieces, device) for x in mine]
        on = stages[0] if isinstance(make, type) else stages
        self.runner = make(on, layout.micro_batches, loss_fn=self._loss, scale_grads=False)
        self.sent_bytes = sum(self._sent(x) for x in mine)

    def _stage(self, x: int, pieces: Sequence[Piece], device: torch.device) -> PipelineStage:
        before = self.borders[x - 1] if x else []
        after = self.borders[x] if x + 1 < len(pieces) else []
        row = _Row(pieces[x], [v.name for v in before], [v.name for v in after], self.layout.micro_batches)
        self.rows.append(row)
        outputs = tuple(map(_example, after)) if after else (torch.empty(1),)
        inputs = tuple(map(_example, before))
        stage = PipelineStage(row, x, len(pieces), device, input_args=inputs, output_args=outputs)
        for name, sign, part in (
            ("forward_one_chunk", 1, WHOLE),
            ("backward_one_chunk", -1, WHOLE),
            ("backward_weight_one_chunk", -1, WEIGHTS),
        ):
            setattr(stage, name, self._timed(x, sign, part, getattr(stage, name)))
        return stage

    def _timed(self, x: int, sign: int, part: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def timed(number: int, *args: Any, **kwargs: Any) -> Any:
            begin = self.clock.mark()
            result = run(number, *args, **kwargs)
            half = part if kwargs.get("full_backward", True) else INPUTS
            self.marks.append((Pass(x, sign * (number + 1), half), begin, self.clock.mark()))
            return result

        return timed

    def _loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The share of a micro-batch in the loss; torch would divide a gradient once for each stage that holds it."""
        return output.sum() / self.layout.micro_batches

    def _sent(self, x: int) -> int:
        """Bytes that one stage sends in a step, over both of its borders."""
        home = [stage.ranks for stage in self.layout.stages]
        forth = self.borders[x] if x + 1 < len(home) and home[x + 1] != home[x] else []
        back = self.borders[x - 1] if x and home[x - 1] != home[x] else []
        sizes = [_bytes(value) for value in forth] + [_bytes(value) for value in back if value.gradient]
        return sum(sizes) * self.layout.micro_batches

    def step(self, inputs: Sequence[Mapping[str, Any]]) -> Step:
        """One iteration over all micro-batches."""
        count = self.layout.micro_batches
        for row in self.rows:
            row.inputs = inputs
        self.marks.clear()
        losses: list[torch.Tensor] = []
        self.clock.begin()
        begin = self.clock.mark()
        numbers = torch.arange(count)
        self.runner.step(number=numbers, target=torch.zeros(count), losses=losses, return_outputs=False)
        add_up(self.shared)
        end, read = self.clock.mark(), self.clock.read
        spans = tuple(Span(*p, read(first), read(last)) for p, first, last in self.marks)
        loss = float(sum(float(part.detach()) for part in losses)) if losses else None
        return Step(read(begin), read(end), spans, self.sent_bytes, loss)


def _check(pieces: Sequence[Piece], borders: Sequence[Sequence[Value]], layout: Layout) -> None:
    if any(len(stage.ranks) > 1 for stage in layout.stages):
        raise UsageError("torch's pipelines have no replicas of a stage; give --engine own.")
    if pieces[-1].loss is None:
        raise UsageError("The last stage does not make the loss, as torch's pipelines want it; give --engine own.")
    empty = next((border for border, values in enumerate(borders) if not values), None)
    if empty is not None:
        raise UsageError(
            f"Nothing passes from stage {empty} to stage {empty + 1}, and torch's pipelines are rows; "
            "give --engine own."
        )


def _example(value: Value) -> torch.Tensor:
    return torch.empty(value.shape, dtype=getattr(torch, value.dtype)).requires_grad_(value.gradient)


def _bytes(value: Value) -> int:
    return _example(value).nbytes
