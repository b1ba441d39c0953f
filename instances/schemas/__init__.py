"""JSON Schemas (2020-12) of our own files, for tools that want to check them without this package."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

_ENDING = ".schema.json"

# Names of the schemas in this folder.
NAMES = tuple(
    sorted(
        entry.name.removesuffix(_ENDING)
        for entry in resources.files(__package__).iterdir()
        if entry.name.endswith(_ENDING)
    )
)


def read_schema(name: str) -> dict[str, Any]:
    """The schema of that name as parsed JSON; references between schemas are by their `$id`."""
    if name not in NAMES:
        raise KeyError(f"{name!r} is no schema; there are {', '.join(NAMES)}")
    text = resources.files(__package__).joinpath(name + _ENDING).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
