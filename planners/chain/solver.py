"""Hands small models to CP-SAT processes: one at a time per caller, with a limit, stopped when the planner stops."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...formulations.contract import NativeModel
from ...instances.base.clock import now
from ...instances.base.result import Stop
from ..backends import Answer, Event, submit
from ..backends.registry import BACKENDS
from ..options import SolveOptions

NAME = "cp-sat"

# Seconds within which a caller notices that it shall stop.
POLL_S = 0.2


@dataclass
class Solver:
    """Shared by all threads of one planner run."""

    deadline: float | None = None
    """When to stop, on the clock of limits; None: no limit."""
    seed: int = 0
    memory_limit_bytes: int | None = None
    """Memory that each solver process may use."""
    death: Answer | None = None
    """The last word of a process that failed or was killed; nothing more is asked after it."""
    stopped: threading.Event = field(default_factory=threading.Event)
    asked: bool = False
    """Has any model been handed over, even if it was not solved to the end?"""
    solved: int = 0

    def seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - now())

    def over(self) -> bool:
        left = self.seconds_left()
        return self.stopped.is_set() or (left is not None and left <= 0)

    def unfinished(self) -> Stop:
        """Why a search ends without a proof: its process died, or its time limit came, or, without one, it was done."""
        if self.death is not None:
            return self.death.stop
        return Stop.COMPLETED if self.deadline is None else Stop.TIME

    def messages(self) -> tuple[str, ...]:
        """Messages for a result: how the solver died, if it did."""
        return () if self.death is None else (f"{NAME}: {self.death.message}",)

    def backend(self) -> dict[str, Any]:
        """Facts of the solver for a result: its name, its version, and the models that it solved; none where it was not
        asked."""
        if not self.asked:
            return {}
        return {"name": NAME, "version": BACKENDS[NAME].version(), "models": self.solved}

    def run(
        self,
        model: NativeModel,
        limit_s: float | None = None,
        threads: int = 1,
        native: Mapping[str, Any] | None = None,
        heard: Callable[[Event], None] | None = None,
    ) -> Answer | None:
        """The solver's answer; None where the time was up or its process died. `heard` gets the events before it."""
        if self.over():
            return None
        limits = [limit for limit in (limit_s, self.seconds_left()) if limit is not None]
        limit = min(limits, default=None)
        options = SolveOptions(
            time_limit_s=limit,
            threads=threads,
            memory_limit_bytes=self.memory_limit_bytes,
            seed=self.seed,
            native=native or {},
        )
        job = submit(model.backend, model, options)
        self.asked = True
        try:
            while job.outcome is None:
                for event in job.poll(POLL_S):
                    if heard is not None:
                        heard(event)
                if self.stopped.is_set():
                    job.interrupt()
        except BaseException:
            job.kill()
            raise
        self.solved += 1
        if job.outcome.stop in (Stop.ERROR, Stop.MEMORY):
            self.death = job.outcome
            self.stopped.set()
            return None
        return job.outcome
