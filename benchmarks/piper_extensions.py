"""Staging beyond the paper: `dp-piper` and `mip-piper` side by side, and levels with thousands of devices.

    python benchmarks/piper_extensions.py [--problems 10] [--only-levels | --only-pairs]

Of each extension so many variants of packaged instances are planned by both methods, the model without the program's
plan as a start. Large clusters are planned in a process each, so that their peak memory is seen. Seconds are elapsed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pipeplan
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.staging.problem import DeviceType, StagingLevel, StagingProblem

LIMIT_S, GAP = 120.0, 1e-3
SOURCES = ("resnet50-stages", "bert-large-stages")
LARGE = (
    ("bert-large-stages", (8, 128)),
    ("bert-large-stages", (64, 64)),
    ("bert-large-stages", (8, 8, 16)),
    ("bert-large-stages", (16, 16, 16)),
)
BANDWIDTHS = (300e9, 25e9, 12.5e9)
"""Of the levels, the innermost first, in bytes/s."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=10, help="of each extension")
    parser.add_argument("--only-levels", action="store_true", help="only the large clusters")
    parser.add_argument("--only-pairs", action="store_true", help="only the two methods side by side")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "SHAPE"), help="one large cluster: its facts as JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(_large(arguments.one[0], tuple(map(int, arguments.one[1].split("x"))))))
        return 0
    if not arguments.only_pairs:  # first, for a process begins with the peak memory of the one that starts it
        print("\n".join(_clusters()))
    if not arguments.only_levels:
        print("\n".join(_pairs(arguments.problems)))
    return 0


# ---- both methods ---------------------------------------------------------------------------------------


def _cases(extension: str) -> Iterator[tuple[StagingProblem, dict[str, str]]]:
    """Variants of packaged instances: other numbers of devices, memories and micro-batches."""
    for name, devices, memory, batches in itertools.product(SOURCES, (4, 6, 8), (1.0, 0.75), (8, 32)):
        problem = load_packaged(name)
        assert problem.memory_bytes is not None
        problem = problem.replace(
            devices=devices, memory_bytes=round(memory * problem.memory_bytes), micro_batches=batches
        )
        if extension == "flush":
            yield problem, {"objective": "flush"}
        elif extension in ("types", "types, flush"):
            yield typed(problem), {"objective": "flush"} if "flush" in extension else {}
        else:
            yield leveled(problem, (devices // 2, 2)), {}


def typed(problem: StagingProblem) -> StagingProblem:
    """Half of the devices twice as fast, the other half with twice the memory."""
    half, memory = problem.devices // 2, problem.memory_bytes
    assert memory is not None
    kinds = (DeviceType("fast", half, 2.0, memory), DeviceType("large", problem.devices - half, 1.0, 2 * memory))
    return problem.replace(memory_bytes=None, device_types=kinds)


def leveled(problem: StagingProblem, shape: tuple[int, ...]) -> StagingProblem:
    levels = tuple(StagingLevel(*pair) for pair in zip(shape, BANDWIDTHS, strict=False))
    return problem.replace(devices=math.prod(shape), levels=levels)


def _pairs(count: int) -> list[str]:
    lines = [
        f"To a gap of {100 * GAP:g} % within {LIMIT_S:.0f} s, 2 threads. Values agree where both have proven theirs.",
        "",
        "| extension | problems | both proven | no plan | dp-piper, s (worst) | mip-piper, s (worst) | gap, % |",
        "|---|---|---|---|---|---|---|",
    ]
    for extension in ("flush", "types", "types, flush", "levels"):
        rows = [_both(problem, options) for problem, options in itertools.islice(_cases(extension), count)]
        spent = [f"{sum(row[i] for row in rows):.1f} ({max(row[i] for row in rows):.1f})" for i in (0, 1)]
        proven, none = sum(row[2] == "proven" for row in rows), sum(row[2] == "none" for row in rows)
        gap = 100 * max(row[3] for row in rows)
        lines.append(f"| {extension} | {len(rows)} | {proven} | {none} | {' | '.join(spent)} | {gap:.3g} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return [*lines, ""]


def _both(problem: StagingProblem, options: dict[str, str]) -> tuple[float, float, str, float]:
    """Seconds of each, what came of it, and the model's gap."""
    began = time.monotonic()
    program = pipeplan.solve(problem, planner="dp-piper", options=options)
    middle = time.monotonic()
    limits = pipeplan.SolveOptions(threads=2, time_limit_s=LIMIT_S, rel_gap=GAP)
    model = pipeplan.solve(problem, formulation="mip-piper", options=options, limits=limits, warm_start="none")
    seconds = middle - began, time.monotonic() - middle
    if program.objective is None:
        return *seconds, "none" if model.stop == pipeplan.Stop.INFEASIBLE else str(model.stop), 0.0
    bound, value = model.bound or 0.0, model.objective or math.inf
    assert bound <= program.objective * (1 + 1e-6), "the proofs contradict each other"
    if value == math.inf:
        return *seconds, "no plan in time", math.inf
    assert value >= program.objective * (1 - 1e-6), "the proofs contradict each other"
    gap = (value - bound) / value
    return *seconds, "proven" if gap <= GAP * (1 + 1e-6) else "open", gap


# ---- large clusters --------------------------------------------------------------------------------------


def _clusters() -> list[str]:
    lines = [
        "`dp-piper`, N = the number of devices, every optimum proven:",
        "",
        "| instance | devices | levels | s | MiB in the whole process | time per micro-batch, s |",
        "|---|---|---|---|---|---|",
    ]
    for name, shape in LARGE:
        text = "x".join(map(str, shape))
        done = subprocess.run(
            [sys.executable, __file__, "--one", name, text], check=True, capture_output=True, text=True
        )
        facts = json.loads(done.stdout)
        measured = f"{facts['seconds']:.0f} | {facts['mib']:.0f} | {facts['value']:.9g}"
        lines.append(f"| {name} | {math.prod(shape):,} | {text} | {measured} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return [*lines, ""]


def _large(name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    problem = leveled(load_packaged(name), shape)
    began = time.monotonic()
    result = pipeplan.solve(problem.replace(micro_batches=problem.devices), planner="dp-piper")
    assert result.stop == pipeplan.Stop.PROVEN, result.stop
    assert result.verified
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    return {"seconds": time.monotonic() - began, "mib": peak, "value": result.objective}


if __name__ == "__main__":
    sys.exit(main())
