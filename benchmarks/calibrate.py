"""`plan calibrate` on an idle machine: are small trainings predicted within 10 %, or twice the spread of their steps?

`python benchmarks/calibrate.py [--on cpu] [--repeats 2] [--time-limit 120]` prints a table; exit code 1: one is not.
"""

from __future__ import annotations

import argparse
import sys

from pipeplan.models.calibration import calibrate

BOUND = 0.1


def main(on: str | None, repeats: int, seconds: float) -> int:
    """The number of trainings whose median is not predicted within the bound."""
    wrong = 0
    print("| repeat | training | seconds | predicted | error | bound | error of memory |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for repeat in range(1, repeats + 1):
        for own in calibrate(on, 1, None, seconds, lambda what: None).judged:
            bound = max(BOUND, 2 * own.spread)
            wrong += abs(own.error) > bound
            print(
                f"| {repeat} | {own.name} | {own.seconds:.4g} | {own.predicted_seconds:.4g} | {own.error:+.1%} "
                f"| {bound:.1%} | {own.memory_error:+.1%} |"
            )
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", choices=("cpu", "cuda"))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=120)
    given = parser.parse_args()
    sys.exit(main(given.on, given.repeats, given.time_limit) > 0)
