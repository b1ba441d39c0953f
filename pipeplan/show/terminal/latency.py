"""The schedule of one sample: pieces in a table, then a Gantt with accelerators and the CPU pool in compact lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...cli.console import can_draw, out, styled
from ...cli.progress import number
from ...instances.errors import UsageError
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.latency import LatencyEvaluation, evaluate_latency
from ..pictures.spans import Span, lanes_of
from .shapes import MAX_DEVICES_DRAWN, columns, new_table, several, size

if TYPE_CHECKING:
    from rich.table import Table

GANTT_WIDTH = 60
MAX_POOL_LANES = 6
MARKS = "123456789abcdefghijklmnopqrstuvwxyz"


def draw(problem: PlacementProblem, plan: PlacementPlan) -> None:
    """Every piece with its time and size, the share of the CPUs, and who does what when."""
    evaluation = evaluate_latency(problem, plan)
    if evaluation.latency is None:
        raise UsageError(evaluation.reason or "The plan has no latency.")
    console = out()
    if evaluation.pieces:
        console.print(_pieces(problem, evaluation))
    console.print(styled(_pool_in_words(problem, plan)))
    for line in gantt(problem, plan, evaluation):
        console.print(styled(line), soft_wrap=True)


def _pieces(problem: PlacementProblem, evaluation: LatencyEvaluation) -> Table:
    table = new_table()
    columns(table, "device,piece,nodes,start,finish,load,memory", left="device")
    counts: dict[str, int] = {}
    for piece in evaluation.pieces[:MAX_DEVICES_DRAWN]:
        counts[piece.device] = counts.get(piece.device, 0) + 1
        table.add_row(
            styled(piece.device),
            str(counts[piece.device]),
            str(len(piece.nodes)),
            f"{piece.start:.5g}",
            f"{piece.finish:.5g}",
            f"{piece.finish - piece.start:.4g}",
            size(sum(problem.nodes[problem.index[node_id]].size_bytes for node_id in piece.nodes)),
        )
    return table


def _pool_in_words(problem: PlacementProblem, plan: PlacementPlan) -> str:
    nodes = [node_id for device in plan.devices if device.type == "cpu" for node_id in device.nodes]
    work = sum(problem.nodes[problem.index[node_id]].cpu_time for node_id in nodes)
    return f"CPU pool: {several(len(nodes), 'node')}, work {number(work)}"


def gantt(problem: PlacementProblem, plan: PlacementPlan, evaluation: LatencyEvaluation) -> list[str]:
    """A row per accelerator, marks for its pieces; rows of the pool with # where a node runs."""
    latency = evaluation.latency
    if not latency:
        return []
    lanes = lanes_of(problem, plan, evaluation)
    busy = {piece.device for piece in evaluation.pieces}
    pool = [name for name in lanes if name not in busy]
    shown = [name for name in lanes if name in busy][:MAX_DEVICES_DRAWN] + pool[:MAX_POOL_LANES]
    width = min(16, max(map(len, shown), default=0))
    lines = []
    for name in shown:
        marks = MARKS if name in busy else "#"
        lines.append(f"{name[:width]:>{width}} |{_row(lanes[name], latency, marks)}|")
    if len(pool) > MAX_POOL_LANES:
        lines.append(f"... and {len(pool) - MAX_POOL_LANES} more lanes of the CPU pool")
    return [*lines, f"{'':>{width}}  0{number(latency):>{GANTT_WIDTH - 1}}"]


def _row(spans: Sequence[Span], latency: float, marks: str) -> str:
    """Cells whose middle lies in a span; at least one cell for each span."""
    cells = ["·" if can_draw("·") else "."] * GANTT_WIDTH
    step = latency / GANTT_WIDTH
    for place, span in enumerate(spans):
        inside = [x for x in range(GANTT_WIDTH) if span.start <= (x + 0.5) * step < span.finish]
        for x in inside or [min(GANTT_WIDTH - 1, int(span.start / step))]:
            cells[x] = marks[place % len(marks)]
    return "".join(cells)
