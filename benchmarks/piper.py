"""Piper: the dynamic program on the published transformer and on a large lattice, proofs of the MIP, the 2-D table.

    python benchmarks/piper.py --output benchmarks/results --workloads DIR [--devices 512] [--skip-mip]

DIR holds piper/bert32a100.json. Seconds are processor time of the library in a warm process: machine code is loaded
before. What is measured replaces the part of piper.md between its two marks; the rest of that page is written by hand.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from recipes.catalogue import build
from recipes.recipe import LINKS, made_on
from recipes.staging import to_staging

import pipeplan
from pipeplan.instances.staging.kind_functions import staging_from_published
from pipeplan.planners.staging.model import model_of
from pipeplan.planners.staging.search import DegreeTable, Search, table_of
from pipeplan.show.pictures import STYLES, canvas, legible, write_picture
from pipeplan.show.views import CATEGORIES
from pipeplan.show.words import Times, measured

GIB = 2.0**30
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PUBLISHED_S = {8: 0.07, 64: 0.33, 512: 3.9, 1024: 16.0}
"""Seconds of the published program (reference semantics) on a slow core; with 2048 devices more than 300."""

MIP_DEVICES, MIP_LIMIT_S, MIP_GAP = (8, 32, 64), 300.0, 1e-3
GNMT_DOWNSETS, GNMT_DEVICES, GNMT_LIMIT_S = 17_000, 32, 900.0


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.only_gnmt:
        print(json.dumps(_gnmt()))
        return 0
    bert = _bert(arguments.workloads)
    lines = [*_program(bert), *_large_lattice()]
    lines += [] if arguments.skip_mip else _proofs(bert)
    lines += _two_dimensions(bert, arguments.devices, arguments.output / "piper-table.svg")
    _replace_measured(arguments.output / "piper.md", lines)
    print("\n".join(lines))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=Path, help="folder with piper/")
    folder = Path("benchmarks/results")
    parser.add_argument("--output", type=Path, default=folder, help="folder of the page and the picture")
    parser.add_argument("--devices", type=int, default=256, help="of the 2-D table")
    parser.add_argument("--skip-mip", action="store_true", help="leave out the proofs, which take minutes")
    parser.add_argument("--only-gnmt", action="store_true", help=argparse.SUPPRESS)
    return parser


def _bert(folder: Path) -> Any:
    data = json.loads((folder / "piper" / "bert32a100.json").read_text())
    problem = staging_from_published(data, "bert32")
    return problem.replace(memory_bytes=8 * GIB, micro_batches=1920, bandwidth=25 * GIB)


def _seconds(problem: Any, repeats: int = 3, **method: Any) -> tuple[float, pipeplan.Result]:
    """The least processor time of some runs."""
    least, result = float("inf"), None
    for _ in range(repeats):
        began = time.process_time()
        result = pipeplan.solve(problem, **method, limits=pipeplan.SolveOptions(threads=1))
        least = min(least, time.process_time() - began)
    assert result is not None
    assert result.found == pipeplan.Found.OPTIMAL, (method, result.stop, result.messages)
    return least, result


def _program(bert: Any) -> list[str]:
    for semantics in ("reference", "paper"):
        _seconds(bert.replace(devices=32), 1, planner="dp-piper", options={"semantics": semantics})
    lines = [
        "## The dynamic program on bert32, 8 GiB, N = 1920",
        "",
        "Knapsacks are exact, and every optimum is proven. The published program has its greedy knapsack.",
        "",
        "K counts devices and N micro-batches; *reference* and *paper* are the choices of `--option semantics`.",
        "All figures are seconds: how long each program takes, then the optimum, which is a time per micro-batch.",
        "",
        "| K | published program | `dp-piper`, reference | `dp-piper`, paper | optimum, reference | optimum, paper |",
        "|---|---|---|---|---|---|",
    ]
    for k in (8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
        runs = [
            _seconds(bert.replace(devices=k), planner="dp-piper", options={"semantics": semantics})
            for semantics in ("reference", "paper")
        ]
        theirs = PUBLISHED_S.get(k, "> 300" if k == 2048 else "")
        times = " | ".join(f"{seconds:.3f}" for seconds, _ in runs)
        optima = " | ".join(f"{result.objective:.9g}" for _, result in runs)
        lines.append(f"| {k} | {theirs} | {times} | {optima} |")
    return [*lines, ""]


def _large_lattice() -> list[str]:
    """In a process of its own, so that its peak memory is seen."""
    command = [sys.executable, __file__, "--only-gnmt"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    facts = json.loads(done.stdout)
    return [
        f"## A large lattice: GNMT by operators, K = {GNMT_DEVICES}",
        "",
        f"{facts['downsets']:,} downsets, {facts['stages']:,} stages (pairs of downsets times degrees): "
        f"{facts['seconds']:.1f} s of processor time and at most {facts['mib']:.0f} MiB in the whole process. "
        f"After {facts['decisions']} decisions the optimum is {facts['optimum']:.9g} s, {facts['stop']}.",
        "",
    ]


def _gnmt() -> dict[str, Any]:
    from pipeplan.planners.staging.model import model_of

    problem = _gnmt_problem()
    downsets = model_of(problem, {}).downsets
    assert downsets >= GNMT_DOWNSETS, downsets
    small = to_staging(build("gnmt"), made_on("v100-pcie-16gb"), LINKS["pcie3-x16"], devices=4, micro_batches=8)
    pipeplan.solve(small, planner="dp-piper")
    seconds, result = _seconds(problem, 1, planner="dp-piper")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    facts = {"seconds": seconds, "mib": peak, "optimum": result.objective, "stop": str(result.stop)}
    return {**result.model_size, **facts}


def _gnmt_problem() -> pipeplan.StagingProblem:
    network = build("gnmt-operators", 8)
    settings: dict[str, Any] = {"devices": GNMT_DEVICES, "micro_batches": 256, "merge": False}
    return to_staging(network, made_on("v100-pcie-16gb"), LINKS["pcie3-x16"], **settings)


def _proofs(bert: Any) -> list[str]:
    lines = [
        "## Proofs by mip-piper on bert32, 8 GiB, N = 1920",
        "",
        f"Each run starts from the plan of `dp-piper` and ends at a gap of {100 * MIP_GAP:g} %, at the latest after",
        f"{MIP_LIMIT_S:.0f} s. 2 threads; *s* is elapsed time.",
        "",
        "| K | s | objective | bound | stop |",
        "|---|---|---|---|---|",
    ]
    limits = pipeplan.SolveOptions(threads=2, time_limit_s=MIP_LIMIT_S, rel_gap=MIP_GAP)
    for k in MIP_DEVICES:
        began = time.monotonic()
        result = pipeplan.solve(bert.replace(devices=k), formulation="mip-piper", limits=limits)
        seconds = time.monotonic() - began
        bound = "none" if result.bound is None else f"{result.bound:.9g}"
        lines.append(f"| {k} | {seconds:.1f} | {result.objective:.9g} | {bound} | {result.stop} |")
    return [*lines, ""]


def _table(problem: Any) -> DegreeTable:
    """With the paper's costs."""
    return table_of(Search(model_of(problem, {"semantics": "paper"}), True))


def _two_dimensions(bert: Any, devices: int, picture: Path) -> list[str]:
    problem = bert.replace(devices=devices, micro_batches=512, time_unit="s")  # which its file leaves open
    _table(problem.replace(devices=8))
    began = time.process_time()
    table = _table(problem)
    seconds = time.process_time() - began
    _draw(table, picture)
    values = "; ".join(
        f"{k} devices: {table.time(k, k):.6g}" for k in (8, 32, devices) if table.time(k, k) is not None
    )
    return [
        f"## All devices and sums of degrees in one run: bert32, 8 GiB, up to {devices} devices",
        "",
        f"{len(table.times) * len(table.times[0]):,} entries, {'all' if table.proven else 'not all'} of them proven, "
        f"take {seconds:.1f} s of processor time. The least times with any sum of degrees, in s: {values}.",
        "",
        "![The least time by the number of devices and the sum of data-parallel degrees](piper-table.svg)",
        "",
    ]


# The most sums of degrees that get a curve, and the words for what is drawn.
CURVES = len(CATEGORIES)
TIME = "time per micro-batch"


def _draw(table: DegreeTable, path: Path) -> None:
    """Draw all entries as colours, and below them the time over the devices for sums of 1, 2, 4, ... degrees."""
    scale = Times.of((time for row in table.times for time in row), table.time_unit)
    values = np.array([[np.nan if time is None else time * scale.factor for time in row] for row in table.times])
    label, (k, s) = measured(TIME, scale.unit), values.shape
    sums = [*(1 << e for e in range(s.bit_length()) if 1 << e < s), s][-CURVES:]
    with canvas(5.6, 7.6) as figure:
        above, below = figure.subplots(2, 1)
        place: Any = {"origin": "lower", "aspect": "auto", "extent": (0.5, k + 0.5, 0.5, s + 0.5)}
        image = above.imshow(values.T, cmap="viridis", norm="log", **place)
        above.set(xlabel="devices", ylabel="sum of data-parallel degrees, at most")
        figure.colorbar(image, ax=above, label=label)
        for ink, style, most in zip(CATEGORIES, cycle(STYLES), sums, strict=False):
            look: dict[str, Any] = {"color": ink, "label": f"{most}", "linewidth": 1.2}
            below.plot(range(1, k + 1), values[:, most - 1], style, **look)
        below.set(xscale="log", yscale="log", xlabel="devices", ylabel=label)
        figure.legend(title="sum of degrees, at most", loc="outside lower center", ncols=CURVES)
        below.grid(True, which="both", linewidth=0.3)
        figure.suptitle(legible(table.name or ""))
        write_picture(figure, path)


def _replace_measured(page: Path, lines: list[str]) -> None:
    text = page.read_text() if page.exists() else f"# Piper: measured\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join([before + BEGIN, "", *lines]) + END + after)


if __name__ == "__main__":
    sys.exit(main())
