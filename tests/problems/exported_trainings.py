"""Fifteen training configurations for three frameworks: what each of them can be told of."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.words import configuration_from_words


@dataclass(frozen=True)
class Case:
    """A configuration, and who can say it."""

    name: str
    model: str
    devices: str
    words: str
    framework: str = "megatron"
    batch: int = 256
    sequence: int = 4096
    precision: str = "bf16"
    layers: int | None = None
    dense_layers: int | None = None
    refused: tuple[tuple[str, str], ...] = ()
    """Frameworks that cannot, with a part of their sentence."""

    def problem(self, framework: str | None = None) -> TrainingProblem:
        """Without a limit of memory: what frameworks can say does not depend on it."""
        return _problem(self).replace(framework=framework or self.framework)

    @property
    def plan(self) -> Configuration:
        return configuration_from_words(self.problem(), self.words)


@cache
def _problem(case: Case) -> TrainingProblem:
    more: dict[str, Any] = {"layers": case.layers, "dense_layers": case.dense_layers}
    return problem_of(
        case.model, case.devices, batch=case.batch, sequence=case.sequence, precision=case.precision, **more
    )


def read_case(row: dict[str, Any]) -> Case:
    """A row of `exported_trainings.toml`."""
    return Case(**{**row, "refused": tuple(row.get("refused", {}).items())})


DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CASES = tuple(read_case(row) for row in DATA["cases"])
FRAMEWORKS = ("megatron", "torchtitan", "deepspeed")
