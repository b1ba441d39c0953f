"""Command lines and files of the frameworks' public tests, examples and recipes, as data with their source."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.model import Attention, Mlp, Model
from pipeplan.instances.training.problem import TrainingProblem


@dataclass(frozen=True)
class Line:
    """What somebody ran, on which problem, and what it is in our words."""

    source: str
    text: str
    model: str | Model
    devices: str
    batch: int
    sequence: int
    words: str
    unknown: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    """Beginnings of the sentences, in their order."""
    more: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None
    """A file that the text names; its path stands in place of {file}."""

    def problem(self) -> TrainingProblem:
        facts = {"framework": "megatron"} | dict(self.more)
        return problem_of(self.model, self.devices, batch=self.batch, sequence=self.sequence, **facts)


def small(layers: int, hidden: int, heads: int, mlp: int, *, key_values: int, gated: bool, norm: Any) -> Model:
    """A model that only a test or an example has."""
    attention = Attention(heads, hidden // heads, key_values)
    return Model(
        "small", hidden, layers, vocabulary=32000, attention=attention, mlp=Mlp(mlp, gated=gated), norm=norm
    )


def read_line(row: dict[str, Any], shared: Mapping[str, str]) -> Line:
    """A row of `command_lines.toml`."""
    text = "".join(shared[name] for name in row.pop("with", ())) + row.pop("text")
    model = small(**row.pop("small")) if "small" in row else row.pop("model")
    lists = {name: tuple(row.pop(name, ())) for name in ("unknown", "told")}
    return Line(text=text, model=model, **lists, **row)


DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
LINES = tuple(read_line(row, DATA["shared"]) for row in DATA["lines"])
