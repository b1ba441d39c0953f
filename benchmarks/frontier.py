"""Make `pipeplan/show/assets/frontier.json`: proven schedules for every memory limit, beside every named rule.

    python benchmarks/frontier.py [--time-limit 10]
    python benchmarks/frontier.py --picture docs/frontier.svg

`plan explore` draws it. For each number of stages and micro-batches, each ratio of the three passes and each way to put
stages on devices, the exact method finds the shortest span within every limit of memory (in halves of a stage's
activations), and each rule that plans this shape gives its schedule. Two schedules may share a span and a memory; the
first is kept. What stands in the file already is kept, so an interrupted run goes on. `--picture` draws one pipeline of
the file and solves nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pipeplan
from pipeplan.instances.base.json_file import write_text_atomically
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.problem import ScheduleProblem

TARGET = Path(__file__).parents[1] / "pipeplan" / "show" / "assets" / "frontier.json"
PASSES = ((2, 2, 2), (10, 12, 8), (4, 6, 2))
"""Times of F, I and W of a stage; even, so that halves of a stage take whole times."""
SIZES = [(2, 4), (2, 8), (4, 4), (4, 8), (4, 16), (8, 8), (8, 16)]
SHAPES = {"one": (1, "loop", SIZES), "loop": (2, "loop", SIZES[:4]), "v": (2, "v", SIZES[:4])}
"""Chunks on a device, their layout, and the sizes that are tried."""
RULES = {
    "one": ("gpipe", "1f1b", "zb-h1", "zb-h2", "zb-greedy"),
    "loop": ("interleaved-1f1b",),
    "v": ("zb-v", "dualpipe-v", "zb-greedy"),
}
LETTERS = {"F": "FG", "I": "IJ", "W": "WX"}
"""Of a pass by its chunk on the device."""


def problem_of(
    shape: str, stages: int, batches: int, passes: tuple[int, ...], limit: float | None
) -> ScheduleProblem:
    """Equal stages whose activations count 2, one half of which the pass I gives back."""
    chunks, layout, _ = SHAPES[shape]
    own = equal_stages(stages * chunks, *(time / chunks for time in passes), 2 / chunks, 1 / chunks)
    return divided_pipeline(own, batches, limit, 0, f"{shape}-{stages}x{batches}", virtual=chunks, layout=layout)


def coded(problem: ScheduleProblem, plan: Any) -> list[str]:
    """Each device's passes in order: the time that it waits before one (none is left out), its letter, the batch."""
    rows = []
    for device in problem.devices:
        own = [block for block in problem.blocks if block.devices == (device.name,)]
        chunks = sorted({block.stage for block in own})
        ran = sorted(
            (start, LETTERS[block.kind][chunks.index(block.stage)] + chr(ord("a") + batch), block.time)
            for block in own
            for batch, start in enumerate(plan.starts[block.id])
        )
        text, now = "", 0
        for start, word, duration in ran:
            text += (str(int(start - now)) if start > now else "") + word
            now = start + duration
        rows.append(text)
    return rows


def answer(problem: ScheduleProblem, name: str, limit_s: float) -> dict[str, Any] | None:
    result = pipeplan.solve(problem, planner=name, options={"objective": "span"}, time_limit_s=limit_s)
    if result.plan is None or not result.verified:
        return None
    found = {"name": name, "time": result.objective, "memory": max(result.memory.values())}
    if name == "exact-schedule":
        found |= {"limit": problem.devices[0].memory, "bound": result.bound}
    return found | {"passes": coded(problem, result.plan)}


def frontier(
    shape: str, stages: int, batches: int, passes: tuple[int, ...], limit_s: float
) -> Iterator[dict[str, Any]]:
    """The proven schedules by memory, each shorter than the one before, until more of it is worth nothing."""
    best = answer(problem_of(shape, stages, batches, passes, None), "exact-schedule", limit_s)
    assert best is not None
    shortest = float("inf")
    for limit in range(2, 2 * batches + 1):
        found = answer(problem_of(shape, stages, batches, passes, limit), "exact-schedule", limit_s)
        if found is not None:
            if found["time"] < shortest:
                shortest = found["time"]
                yield found
            if found["time"] <= best["time"] and found["bound"] >= best["bound"] - 1e-9:
                return


# ---- the picture of one pipeline ---------------------------------------------------------------------------

PICTURED = ("one", 4, 8, [10, 12, 8])
NAMES = {"gpipe": "GPipe", "1f1b": "1F1B", "zb-h1": "ZB-H1", "zb-h2": "ZB-H2", "zb-greedy": "greedy zero bubble"}
BESIDE = {"gpipe": (-8, -10, "end"), "zb-h1": (10, -6, "start"), "zb-h2": (0, -12, "middle")}
"""Where the name of a rule stands, seen from its mark; elsewhere to the right of it."""
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 340, 48, 44, 26
STYLE = """text{font:13px system-ui,sans-serif;fill:#1b1f24}.grid{stroke:#d1d9e0}
.best{fill:none;stroke:#0b7d6b;stroke-width:2.5}
.dot{fill:#0b7d6b}.rule{fill:#fff;stroke:#cc5229;stroke-width:2.5}.soft{fill:#59636e}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}.rule{fill:#0f141a}.soft{fill:#9aa6b2}
.best{stroke:#38b59e}.dot{fill:#38b59e}}"""


def picture(grid: list[dict[str, Any]]) -> str:
    """Time against memory of every rule, and below them the steps of what is proven to be the shortest."""
    (point,) = (
        own for own in grid if [own[key] for key in ("shape", "stages", "batches", "passes")] == list(PICTURED)
    )
    best = [own for own in point["best"] if own["limit"] >= 4]  # below two micro-batches all is slow
    most, slowest = point["batches"] + 0.6, 1.06 * best[0]["time"]

    def x(halves: float) -> float:
        return round(LEFT + halves / 2 / most * (WIDTH - LEFT - 8), 1)

    def y(time: float) -> float:
        return round(HEIGHT - BOTTOM - time / slowest * (HEIGHT - BOTTOM - TOP), 1)

    parts = [f'<text x="{LEFT}" y="15" class="soft">time of an iteration</text>']
    for time in range(0, int(slowest) + 1, 100):
        parts.append(f'<path class="grid" d="M{LEFT},{y(time)}H{WIDTH - 8}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(time) + 4}" text-anchor="end">{time}</text>')
    parts += [
        f'<text x="{x(2 * n)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{n}</text>' for n in range(1, 9)
    ]
    axis = "memory of the fullest device, in micro-batches whose activations it holds"
    parts.append(f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end" class="soft">{axis}</text>')
    steps = "".join(
        f"{'H' if i else 'M'}{x(own['limit'])}{'V' if i else ','}{y(own['time'])}" for i, own in enumerate(best)
    )
    parts.append(f'<path class="best" d="{steps}H{WIDTH - 8}"/>')
    parts += [f'<circle class="dot" cx="{x(own["limit"])}" cy="{y(own["time"])}" r="4"/>' for own in best]
    parts.append(f'<text x="{x(5)}" y="{y(best[-1]["time"]) + 30}">no schedule lies below this line: proven</text>')
    for own in point["rules"]:
        across, down, anchor = BESIDE.get(own["name"], (10, -6, "start"))
        place = x(own["memory"]), y(own["time"])
        parts.append(f'<circle class="rule" cx="{place[0]}" cy="{place[1]}" r="6"/>')
        if own["name"] != "zb-greedy":  # beside ZB-H2, and no faster
            words = f'x="{place[0] + across}" y="{place[1] + down}" text-anchor="{anchor}"'
            parts.append(f"<text {words}>{NAMES[own['name']]}</text>")
    box = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f"<svg {box}>\n<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds for each schedule")
    parser.add_argument("--picture", metavar="FILE", type=Path, help="draw one pipeline instead")
    arguments = parser.parse_args()
    limit_s = arguments.time_limit
    grid = json.loads(TARGET.read_text("utf-8")) if TARGET.exists() else []
    if arguments.picture:
        write_text_atomically(arguments.picture, picture(grid))
        return
    known = {(own["shape"], own["stages"], own["batches"], *own["passes"]) for own in grid}
    for shape, passes in product(SHAPES, PASSES):
        for stages, batches in SHAPES[shape][2]:
            if (shape, stages, batches, *passes) in known:
                continue
            free = problem_of(shape, stages, batches, passes, None)
            rules = [own for name in RULES[shape] if (own := answer(free, name, limit_s))]
            best = list(frontier(shape, stages, batches, passes, limit_s))
            grid.append(
                {
                    "shape": shape,
                    "stages": stages,
                    "batches": batches,
                    "passes": passes,
                    "rules": rules,
                    "best": best,
                }
            )
            write_text_atomically(
                TARGET, json.dumps(grid, separators=(",", ":")).replace('{"shape"', '\n{"shape"') + "\n"
            )
            print(
                shape,
                stages,
                batches,
                passes,
                [(own["limit"], own["time"], own["bound"]) for own in best],
                flush=True,
            )


if __name__ == "__main__":
    main()
