"""A simulated iteration in letters: what every stage does at the start, in the middle and at the end."""

from __future__ import annotations

from ...cli.console import can_draw, out, styled
from ...cli.progress import number
from ...instances.simulation.timeline import Simulation, StageRun, Task
from .shapes import MAX_DEVICES_DRAWN, bar, columns, new_table, size

WIDTH = 66
WINDOWS = ("warm-up", "steady", "cool-down")
FEW_PASSES = WIDTH // 3
"""So many of a stage are told apart in one line, however long the others take."""
LEGEND = "digits: forward, letters: backward (1 and a: micro-batch 1), =: weights are synchronised"


def draw_simulation(simulation: Simulation, counted: str = "samples") -> None:
    """A line of facts for each stage, the timeline, and how long the iteration took; `counted`: what it works on."""
    table = new_table()
    columns(table, "stage,devices,busy,,warm-up,held,memory", left="stage")
    for stage in simulation.stages[:MAX_DEVICES_DRAWN]:
        table.add_row(
            styled(stage.name),
            str(stage.devices),
            f"{100 * stage.busy / simulation.iteration:.0f}%" if simulation.iteration else "-",
            styled(bar(stage.busy, simulation.iteration), "cyan"),
            str(stage.warm_up),
            str(stage.peak_in_flight),
            size(stage.memory_bytes),
        )
    console = out()
    console.print(table)
    if len(simulation.stages) > MAX_DEVICES_DRAWN:
        console.print(styled(f"... and {len(simulation.stages) - MAX_DEVICES_DRAWN} more stages"))
    draw_timeline(simulation, counted)


def draw_timeline(simulation: Simulation, counted: str = "samples") -> None:
    """The timeline and its sum."""
    console = out()
    for line in timeline(simulation):
        console.print(styled(line), soft_wrap=True)
    unit = f" {simulation.time_unit}" if simulation.time_unit else ""
    console.print(
        styled(
            f"iteration {number(simulation.iteration)}{unit} for {simulation.mini_batch} {counted}, depth "
            f"{simulation.depth}, idle {100 * simulation.bubble:.1f} % of all devices' time"
        )
    )


def timeline(simulation: Simulation) -> list[str]:
    """One row for each replica of each stage. A long iteration is shown in three windows of time."""
    windows, step = _windows(simulation)
    if not windows:
        return []
    idle = "·" if can_draw("·") else "."
    rows: list[tuple[str, str]] = []
    for stage in simulation.stages[:MAX_DEVICES_DRAWN]:
        for replica in range(stage.replicas):
            tasks = [task for task in stage.tasks if task.replica == replica]
            cells = [_cells(tasks, start, count, step, idle) for start, count in windows]
            rows.append((_label(stage, replica), "|".join(cells)))
    wide = max(len(name) for name, _ in rows)
    lines = [f"{name:>{wide}} |{cells}|" for name, cells in rows]
    ends = [f"{number(start):<{count}}" for start, count in windows]
    lines.append(f"{'':>{wide}}  {' '.join(ends)}")
    if len(windows) > 1:
        titles = [f"{title:<{count}}" for title, (_, count) in zip(WINDOWS, windows, strict=True)]
        lines.append(f"{'':>{wide}}  {' '.join(titles)}")
        unit = f" {simulation.time_unit}" if simulation.time_unit else ""
        lines.append(f"three windows of {number(windows[0][1] * step)}{unit} each; what runs between them is left out")
    return [*(line.rstrip() for line in lines), LEGEND]


def _label(stage: StageRun, replica: int) -> str:
    return stage.name if stage.replicas == 1 else f"{stage.name}/{replica}"


def _windows(simulation: Simulation) -> tuple[list[tuple[float, int]], float]:
    """Starts and numbers of cells, and the time of a cell: fine enough to see the passes of most stages."""
    spans = sorted(
        task.end - task.start for stage in simulation.stages for task in stage.tasks if task.kind == "forward"
    )
    spans = [span for span in spans if span > 0]
    if not spans or not simulation.iteration:
        return [], 0.0
    step = max(spans[len(spans) // 4], simulation.iteration / 10_000)
    if simulation.iteration <= WIDTH * step or _most_passes(simulation) <= FEW_PASSES:
        return [(0.0, WIDTH)], simulation.iteration / WIDTH
    count = WIDTH // 3
    length = count * step
    return [(0.0, count), ((simulation.iteration - length) / 2, count), (simulation.iteration - length, count)], step


def _most_passes(simulation: Simulation) -> int:
    """Of a stage."""
    return max(sum(task.kind != "synchronisation" for task in stage.tasks) for stage in simulation.stages)


def _cells(tasks: list[Task], start: float, count: int, step: float, idle: str) -> str:
    """Each cell shows what runs in its middle."""
    cells = [idle] * count
    for task in tasks:
        first = max(0, int((task.start - start) / step) - 1)
        for x in range(first, count):
            middle = start + (x + 0.5) * step
            if middle >= task.end:
                break
            if middle >= task.start:
                cells[x] = _mark(task)
    return "".join(cells)


def _mark(task: Task) -> str:
    if task.kind == "synchronisation":
        return "="
    return str(task.micro_batch % 10) if task.kind == "forward" else chr(ord("a") + (task.micro_batch - 1) % 26)
