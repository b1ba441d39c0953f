"""Period against memory for residual networks on 4 and 8 GPUs: pictures, points, and the page that shows them.

    python benchmarks/pareto.py --output docs [--chains resnet18-4,...] [--points 8] [--time-limit 20] [--keep DIR]

With --keep, finished points are kept in files of that folder and an interrupted run goes on from there.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from pipeplan.instances.catalogue import load_packaged
from pipeplan.planners.options import SolveOptions
from pipeplan.show.front import Front, of_chain
from pipeplan.show.pictures.front import draw_front
from pipeplan.show.words import Times, amount, measured, plain
from pipeplan.studies.pareto.export import by_memory, verdict
from pipeplan.studies.pareto.records import DEFAULT_METHODS, Pareto, Point, Settings
from pipeplan.studies.pareto.stored import open_journal
from pipeplan.studies.pareto.sweep import sweep

CHAINS = "resnet18-4,resnet18-8,resnet34-4,resnet34-8,resnet50-4,resnet50-8"
EXACT, PIPEDREAM = "exact-beaumont", "pipedream-eager"
DIGITS = 5
"""Of periods and bounds in the tables."""


def run(chain: str, settings: Settings, keep: Path | None) -> Pareto:
    network, gpus = chain.rsplit("-", 1)
    problem = load_packaged(f"{network}-chain").replace(gpus=int(gpus))
    begun = time.monotonic()
    journal = open_journal(None if keep is None else keep / f"{chain}.jsonl", problem, settings)
    pareto = sweep(problem, settings, journal)
    sys.stderr.write(f"{chain}: {time.monotonic() - begun:.0f} s\n")
    return pareto


def cell(point: Point | None, times: Times) -> str:
    if point is None or point.period is None:
        return "-"
    several = point.batches_per_period or 1
    period = times.text(point.period, digits=DIGITS)
    return " ".join(filter(None, [period, verdict(point), f"({several}x)" if several > 1 else ""]))


def facts(pareto: Pareto, front: Front) -> str:
    """What holds of the whole curve."""
    frame, unit = pareto.frame, pareto.problem.time_unit
    assert frame is not None
    proven = ("not proven", "proven")
    return (
        f"The smallest memory with any pattern is {front.limit_text(frame.smallest_bytes)} "
        f"({proven[frame.smallest_proven]}). The best period without a limit is "
        f"{amount(frame.unlimited_period, unit, DIGITS)} ({proven[frame.unlimited_proven]})."
    )


def section(chain: str, pareto: Pareto, picture: str) -> str:
    """The curve of a chain: its picture, and its table in the units of the picture."""
    front = of_chain(pareto)
    times, (step, memory_unit) = front.times(), front.scale()
    network, gpus = chain.rsplit("-", 1)
    head = [measured("memory", memory_unit), "bound", *DEFAULT_METHODS, "seconds"]
    lines = [
        f"### {network}, {gpus} GPUs",
        "",
        f"![period against memory]({picture})",
        "",
        facts(pareto, front),
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
    ]
    for level, points in by_memory(pareto):
        exact = points[EXACT]
        periods = [cell(points.get(method), times) for method in DEFAULT_METHODS]
        row = [plain(level / step, 4), times.text(exact.bound, digits=DIGITS), *periods, f"{exact.seconds:.1f}"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join([*lines, ""])


def summary(curves: dict[str, Pareto]) -> str:
    """The claims of the page, counted and not assumed."""
    pairs = [points for pareto in curves.values() for _, points in by_memory(pareto)]
    exact = [points[EXACT] for points in pairs]
    both = [(p[EXACT].period, p[PIPEDREAM].period) for p in pairs if p[PIPEDREAM].period is not None]
    worse = sum(mine is None or mine > theirs for mine, theirs in both if theirs is not None)
    better = sum(mine is not None and mine < theirs * (1 - 1e-9) for mine, theirs in both if theirs is not None)
    planned, proven = sum(p.plan is not None for p in exact), sum(p.certified for p in exact)
    slowest = max(p.seconds for p in exact)
    return (
        f"Of {len(exact)} points, {EXACT} has a verified plan at {planned} and a proof at {proven}; the slowest took "
        f"{slowest:.0f} s. PipeDream has a plan at {len(both)} of them: {EXACT} is better at {better} "
        f"and worse at {worse}."
    )


def page(curves: dict[str, Pareto], limit_s: float, introduction: str) -> str:
    sections = [section(chain, pareto, f"pareto-{chain}.svg") for chain, pareto in curves.items()]
    told = f"Each point had {limit_s:g} s. {summary(curves)}"
    return "\n".join([introduction, "## Measured", "", told, "", *sections])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--chains", default=CHAINS)
    parser.add_argument("--points", type=int, default=8)
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    settings = Settings(levels=given.points, limits=SolveOptions(time_limit_s=given.time_limit))
    curves: dict[str, Pareto] = {}
    for chain in given.chains.split(","):
        curves[chain] = run(chain, settings, given.keep)
        draw_front(of_chain(curves[chain]), given.output / f"pareto-{chain}.svg")
    introduction = Path(__file__).with_name("pareto_introduction.md").read_text("utf-8")
    (given.output / "pareto.md").write_text(page(curves, given.time_limit, introduction), "utf-8")


if __name__ == "__main__":
    main()
