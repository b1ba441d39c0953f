"""Has anything that was fast become slower? Whole commands of this checkout and of an older one, in turn.

    git worktree add OLD COMMIT && python benchmarks/paired.py OLD [--repeats 5] [--only NAME]

Instances that are done in a moment, of every kind, as `plan solve` plans them by the usual method of their
kind or the one named here. Each repetition runs old and new, the order in turn; what counts is the median of the ratios
of their times. The wall clock counts where nothing else runs, the processor time of all processes elsewhere
(`--clock cpu`). What is measured again because it looked slower counts with all of its repetitions. Exit code 1: one is
slower by more than 10 %.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = (
    "tiny-chain",
    "tiny-chain --planner dp",
    "bert-large-training",
    "gnmt-training",
    "vgg16-training --non-contiguous",
    "gpt3-6.7b-inference",
    "cpu-offload --objective latency",
    "bert-large-inference --planner dp",
    "figure-4",
    "guard-e5",
    "resnet18-chain",
    "resnet34-chain",
    "golden-4 --formulation ilp-beaumont",
    "tiny-stages",
    "bert-large-stages",
    "gpt2-medium-stages",
    "resnet50-stages",
    "tiny-levels",
    "tiny-graph",
    "candle-uno-8",
    "zero-bubble-4x12",
    "llama-3-8b-8xh100",
)
SLOWER = 1.10
AGAIN = 2
"""How often a case that looks slower is measured again."""
TIME_LIMIT_S = 60


def main() -> int:
    arguments = _parser().parse_args()
    if not (arguments.old / "pipeplan").is_dir():
        print(f"{arguments.old} is no checkout of pipeplan", file=sys.stderr)
        return 2
    cases = [case for case in CASES if arguments.only in case]
    print(f"| case | old, s | new, s | new / old ({arguments.clock}) |\n|---|---|---|---|", flush=True)
    slower = 0
    for case in cases:
        pairs: list[tuple[float, float]] = []
        for _ in range(1 + AGAIN):
            pairs += _pairs(case, arguments)
            ratio = statistics.median(new / old for old, new in pairs)
            if ratio <= SLOWER:
                break
        old, new = (statistics.median(times) for times in zip(*pairs, strict=True))
        slower += ratio > SLOWER
        print(f"| {case} | {old:.2f} | {new:.2f} | {ratio:.2f}{' slower' * (ratio > SLOWER)} |", flush=True)
    print(f"{len(cases) - slower} of {len(cases)} are no more than {SLOWER - 1:.0%} slower")
    return 1 if slower else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="the root of the older checkout")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="a part of the command")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    return parser


def _pairs(case: str, arguments: argparse.Namespace) -> list[tuple[float, float]]:
    roots = (arguments.old.resolve(), ROOT)
    for root in roots:  # machine code is compiled once
        _seconds(root, case, arguments.clock)
    found = []
    for turn in range(arguments.repeats):
        order = roots if turn % 2 == 0 else roots[::-1]
        times = {root: _seconds(root, case, arguments.clock) for root in order}
        found.append((times[roots[0]], times[roots[1]]))
    return found


def _seconds(root: Path, case: str, clock: str) -> float:
    command = [sys.executable, "-m", "pipeplan", "solve", *case.split(), "--time-limit", str(TIME_LIMIT_S)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"`plan solve {case}` of {root} ended with exit code {done.returncode}: {done.stderr}")
    if clock == "wall":
        return wall
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
