"""`--table FILE.svg`, `.png` or `.pdf`: the planner writes the numbers beside it, and they are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..instances.registry import Problem

PICTURES = (".svg", ".png", ".pdf")


@contextmanager
def pictured_table(problem: Problem, options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The options to plan with; what they let the planner write is drawn at the end."""
    path = options.get("table")
    if path is None or Path(path).suffix.lower() not in PICTURES:
        yield dict(options)
        return
    with TemporaryDirectory() as folder:
        numbers = Path(folder) / "table.csv"
        yield {**options, "table": str(numbers)}
        if numbers.exists():
            from ..planners.staging.degree_table import read_table
            from ..show.pictures.degree_table import draw_table

            draw_table(read_table(numbers, problem), path)
