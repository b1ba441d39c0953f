"""A periodic pattern: GPUs with their layers, load and memory, and one period as a Gantt in letters."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...cli.console import can_draw, out, styled
from ...cli.progress import number
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee.evaluate import GpuUse, PatternEvaluation, evaluate_pattern
from ...instances.kind import Rules
from .shapes import MAX_DEVICES_DRAWN, bar, columns, limit, new_table, several, size
from .unrolled import draw_memory

GANTT_WIDTH = 64


def facts(problem: ChainProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    speed = "transfers take no time"
    if problem.has_transfers:
        rate = "given times" if problem.bandwidth is None else f"{size(problem.bandwidth)} per time unit"
        speed = f"transfers at {rate}, {problem.duplex} duplex"
    return {
        "chain": f"{several(problem.layers, 'layer')}, work {number(sum(problem.durations))}",
        "cluster": f"{problem.gpus} GPUs with memory {limit(problem.memory_bytes)}; {speed}",
        "memory": f"mode {problem.memory_mode}, weights x {problem.weight_copies:g}",
    }


def draw(problem: ChainProblem, plan: PatternPlan, rules: Rules) -> None:
    """Allocation, load and memory per GPU; one period; the overruns of transfer buffers."""
    evaluation = evaluate_pattern(problem, plan)
    console = out()
    console.print(_gpu_table(problem, evaluation))
    console.print(
        styled(
            f"period {number(evaluation.period)}, batches per period: {evaluation.batches_per_period}, "
            f"under way: {evaluation.in_flight}; bottleneck: {evaluation.bottleneck}"
        )
    )
    for use in evaluation.devices[:MAX_DEVICES_DRAWN]:
        console.print(styled(_peak(use)))
    for line in gantt(problem, plan):
        console.print(styled(line), soft_wrap=True)
    draw_memory(problem, plan)
    for overrun in evaluation.overruns:
        console.print(
            styled(
                f"buffer of {overrun.name} on gpu{overrun.gpu} ({overrun.side}) is needed {number(overrun.excess)} "
                "longer than until the next batch"
            )
        )


def _gpu_table(problem: ChainProblem, evaluation: PatternEvaluation) -> Any:
    table = new_table()
    columns(table, "gpu,layers,share,busy,idle,in flight,peak,full", left="share,layers")
    for use in evaluation.devices[:MAX_DEVICES_DRAWN]:
        table.add_row(
            str(use.gpu),
            _layers(use),
            styled(bar(use.busy, evaluation.period), "cyan"),
            f"{use.busy:.4g}",
            f"{use.idle:.3g}",
            str(use.in_flight),
            size(use.peak_bytes),
            f"{100 * use.peak_bytes / problem.memory_bytes:.0f}%" if problem.memory_bytes else "-",
        )
    return table


def _peak(use: GpuUse) -> str:
    """What the peak is made of, and when it is."""
    terms = asdict(use.terms)
    parts = ", ".join(f"{name} {size(amount)}" for name, amount in terms.items() if amount)
    when = f"during {use.peak_task}" if use.peak_task else f"at {number(use.peak_time)}"
    return f"gpu{use.gpu} holds the most {when}: {parts or 'nothing'}"


def _layers(use: GpuUse) -> str:
    """Runs of layers as 1-3."""
    runs: list[list[int]] = []
    for layer in use.layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return ",".join(f"{a}-{b}" if a < b else str(a) for a, b in runs)


def gantt(problem: ChainProblem, plan: PatternPlan) -> list[str]:
    """One period: a row per GPU and per link. Digits: forward (last digit of the layer), letters: backward."""
    period = plan.period
    if period <= 0:
        return []
    rows: dict[str, list[str]] = {}
    idle = "·" if can_draw("·") else "."
    for row in plan.starts:
        for task, start in enumerate(row):
            layer = problem.layer_of[task]
            mark = str((layer + 1) % 10) if task < problem.layers else chr(ord("a") + layer % 26)
            _fill(rows, f"gpu{plan.allocation[layer]}", start, problem.durations[task], period, mark, idle)
    for transfers in plan.transfers:
        for edge, start in transfers.items():
            ends = [plan.allocation[problem.layer_of[task]] for task in (edge - 1, edge)]
            name = f"link{min(ends)}-{max(ends)}"
            _fill(rows, name, start, problem.edge_times[edge - 1], period, ">" if edge < problem.layers else "<", idle)
    width = max(map(len, rows))
    lines = [f"{name:>{width}} |{''.join(cells)}|" for name, cells in sorted(rows.items())]
    legend = "one period; digits: forward, letters: backward (1 and a: layer 1)"
    return [*lines, f"{'':>{width}}  0{number(period):>{GANTT_WIDTH - 1}}", legend]


def _fill(
    rows: dict[str, list[str]], name: str, start: float, duration: float, period: float, mark: str, idle: str
) -> None:
    """Cells whose middle lies in the interval, modulo the period; at least one for what takes any time."""
    cells = rows.setdefault(name, [idle] * GANTT_WIDTH)
    if duration <= 0:
        return
    first = start % period
    step = period / GANTT_WIDTH
    marked = [x for x in range(2 * GANTT_WIDTH) if first <= (x + 0.5) * step < first + duration]
    for x in marked or [int(first / step)]:
        cells[x % GANTT_WIDTH] = mark
