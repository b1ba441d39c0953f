"""JSON Schemas (2020-12) of our own files, for tools that want to check them without this package."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

NAMES = (
    "chain-1",
    "graph-pipeline-1",
    "placement-1",
    "plan-1",
    "profile-1",
    "result-1",
    "stage-graph-1",
    "staged-plan-1",
    "staging-1",
)


def read_schema(name: str) -> dict[str, Any]:
    """The schema of that name as parsed JSON; references between schemas are by their `$id`."""
    if name not in NAMES:
        raise KeyError(f"{name!r} is no schema; there are {', '.join(NAMES)}")
    text = resources.files(__package__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
