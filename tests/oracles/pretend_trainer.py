"""A trainer that trains nothing: a command for `plan tune --command` whose seconds come from the cost model.

`python pretend_trainer.py PROBLEM.json [its own options] FLAGS`, with flags of Megatron or with our words. What it adds
to the model is drawn from the seed: efficiencies anywhere in a box, a factor of all times, an error of each
configuration, and the same for bytes. So whoever knows the seed knows the fastest configuration (`World.seconds`).
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

import pipeplan
from pipeplan.instances.physics.efficiencies import ABOUT
from pipeplan.instances.training.flags import configuration_from_flags
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.words import configuration_from_words, words_of
from pipeplan.planners.training.runs import Run

ITERATIONS = 5
FAULTS = ("crash", "hang", "silent")


@dataclass(frozen=True)
class World:
    """What a cluster is really like; all errors are shares."""

    problem: TrainingProblem
    seed: int = 0
    box: float = 0.3
    """Every efficiency is off by at most so much."""
    common: float = 0.2
    """All times together."""
    rho: float = 0.03
    """The time of each configuration."""
    memory_limit: float = math.inf
    """Bytes of a GPU."""

    def _drawn(self, what: str, most: float) -> float:
        """A factor, the same whenever it is asked for."""
        return math.exp(Random(f"{self.seed} {what}").uniform(-1, 1) * math.log1p(most))

    @cached_property
    def real(self) -> TrainingProblem:
        """The problem with the efficiencies that this cluster has."""
        values = {name: getattr(self.problem.efficiencies, name) * self._drawn(name, self.box) for name in ABOUT}
        bounds = {
            name: (about.least, math.inf if about.most is None else about.most) for name, about in ABOUT.items()
        }
        moved = {name: min(max(value, bounds[name][0]), bounds[name][1]) for name, value in values.items()}
        return self.problem.replace(efficiencies=replace(self.problem.efficiencies, **moved))

    def seconds(self, plan: Configuration) -> float:
        """Seconds of an iteration."""
        off = self._drawn("all times", self.common) * self._drawn(f"time of {words_of(plan)}", self.rho)
        return Run(self.real, plan, None).iteration(self.real.efficiencies).seconds() * off

    def peak_bytes(self, plan: Configuration) -> float:
        """Bytes on the fullest GPU."""
        return Run(self.real, plan, None).predicted_peak() * self._drawn(f"bytes of {words_of(plan)}", self.rho)

    def log(self, plan: Configuration, flags: Sequence[str]) -> list[str]:
        """What the run prints, and where it ends without memory that line alone after the arguments."""
        lines = [] if not flags else arguments(flags, self.problem.devices)
        if self.peak_bytes(plan) > self.memory_limit:
            return [*lines, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."]
        for number in range(1, ITERATIONS + 1):
            took = 1000 * self.seconds(plan) * (2 if number == 1 else 1)  # the first one warms up
            lines.append(f" iteration {number:8d}/{ITERATIONS:8d} | elapsed time per iteration (ms): {took:.6f} |")
        peak = self.peak_bytes(plan) / 2**20
        return [*lines, f"[Rank 0] (after 2 iterations) memory (MB) | max allocated: {peak:.3f}"]


def arguments(flags: Sequence[str], devices: int) -> list[str]:
    """Flags as Megatron prints them at the beginning of its log."""
    rows: list[list[str]] = [["--world-size", str(devices)]]
    for word in flags:
        rows += [[word]] if word.startswith("--") else []
        rows[-1] += [word] if not word.startswith("--") else []
    return [f"  {row[0][2:].replace('-', '_')} ........ {' '.join(row[1:]) or True}" for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rho", type=float, default=World.rho)
    parser.add_argument("--memory-limit", type=float, default=math.inf)
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--where", default="", help="Only runs whose words hold this have the fault.")
    own, words = parser.parse_known_args()
    problem = pipeplan.load(own.problem)
    flags = words if any(word.startswith("--") for word in words) else []
    text = " ".join(words)
    plan = (
        configuration_from_flags(problem, text).configuration if flags else configuration_from_words(problem, text)
    )
    world = World(problem, own.seed, rho=own.rho, memory_limit=own.memory_limit)
    lines = world.log(plan, flags)
    fault = own.fault if own.where in text else None
    if fault == "silent":
        return
    print("\n".join(lines if fault is None else lines[:-ITERATIONS]), flush=True)  # noqa: T201 - one iteration is left
    if fault == "hang":
        signal.pause()
    if fault == "crash":
        raise RuntimeError("NCCL error: remote process exited or there was a network error")
    sys.exit("OutOfMemory" in lines[-1])


if __name__ == "__main__":
    main()
