"""Period against memory for residual networks on 4 and 8 GPUs: pictures, points, and the page that shows them.

    python benchmarks/pareto.py --output benchmarks/results [--chains resnet18-4,...] [--points 8] [--time-limit 20]
                                [--keep DIR]

With --keep, finished points are kept in files of that folder and an interrupted run goes on from there.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from pipeplan.instances.catalogue import load_packaged
from pipeplan.planners.options import SolveOptions
from pipeplan.show.front import Front, draw_front, of_chain, verdict
from pipeplan.show.words import Times, amount, measured, plain
from pipeplan.studies.chain_memory import DEFAULT_METHODS, Curve, Settings, sweep
from pipeplan.studies.sweep import CurvePoint

CHAINS = "resnet18-4,resnet18-8,resnet34-4,resnet34-8,resnet50-4,resnet50-8"
EXACT, PIPEDREAM = "exact-beaumont", "pipedream-eager"
DIGITS = 5
"""Of periods and bounds in the tables."""


def run(chain: str, settings: Settings, keep: Path | None) -> Curve:
    network, gpus = chain.rsplit("-", 1)
    problem = load_packaged(f"{network}-chain").replace(gpus=int(gpus))
    begun = time.monotonic()
    pareto = sweep(problem, settings, None if keep is None else keep / f"{chain}.jsonl")
    sys.stderr.write(f"{chain}: {time.monotonic() - begun:.0f} s\n")
    return pareto


def cell(point: CurvePoint | None, times: Times) -> str:
    if point is None or point.value is None:
        return "-"
    several = point.batches_per_period or 1
    period = times.text(point.value, digits=DIGITS)
    return " ".join(filter(None, [period, verdict(point), f"({several}x)" if several > 1 else ""]))


def ends_in_words(pareto: Curve, front: Front) -> str:
    """What holds of the whole curve."""
    ends, unit = pareto.ends, pareto.problem.time_unit
    assert ends is not None
    proven = ("not proven", "proven")
    return (
        f"The smallest memory with any pattern is {front.limit_text(ends.least.need)} "
        f"({proven[ends.least_proven]}). The best period without a limit is "
        f"{amount(ends.best.value, unit, DIGITS)} ({proven[ends.best_proven]})."
    )


def section(chain: str, pareto: Curve, picture: str) -> str:
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
        ends_in_words(pareto, front),
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
    ]
    for level, points in front.by_limit():
        exact = points[EXACT]
        periods = [cell(points.get(method), times) for method in DEFAULT_METHODS]
        row = [plain(level / step, 4), times.text(exact.bound, digits=DIGITS), *periods, f"{exact.seconds:.1f}"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join([*lines, ""])


def summary(curves: dict[str, Curve]) -> str:
    """The claims of the page, counted and not assumed."""
    pairs = [points for pareto in curves.values() for _, points in of_chain(pareto).by_limit()]
    exact = [points[EXACT] for points in pairs]
    both = [(p[EXACT].value, p[PIPEDREAM].value) for p in pairs if p[PIPEDREAM].value is not None]
    worse = sum(mine is None or mine > theirs for mine, theirs in both if theirs is not None)
    better = sum(mine is not None and mine < theirs * (1 - 1e-9) for mine, theirs in both if theirs is not None)
    planned, proven = sum(p.plan is not None for p in exact), sum(p.certified for p in exact)
    slowest = max(p.seconds for p in exact)
    return (
        f"Of {len(exact)} points, {EXACT} has a verified plan at {planned} and a proof at {proven}; the slowest took "
        f"{slowest:.0f} s. PipeDream has a plan at {len(both)} of them: {EXACT} is better at {better} "
        f"and worse at {worse}."
    )


def page(curves: dict[str, Curve], limit_s: float, introduction: str) -> str:
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
    settings = Settings(given.points, limits=SolveOptions(time_limit_s=given.time_limit), methods=DEFAULT_METHODS)
    curves: dict[str, Curve] = {}
    for chain in given.chains.split(","):
        curves[chain] = run(chain, settings, given.keep)
        draw_front(of_chain(curves[chain]), given.output / f"pareto-{chain}.svg")
    introduction = Path(__file__).with_name("pareto_introduction.md").read_text("utf-8")
    (given.output / "pareto.md").write_text(page(curves, given.time_limit, introduction), "utf-8")


if __name__ == "__main__":
    main()
