"""What tells a file with a profile or a table from all others: its name, or its first lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ...base.errors import InputError
from ...base.json_file import parse_json

PROFILE_SCHEMA = "pipeplan.profile/1"
# Packages that read the tables that are no text, by the end of the file's name.
PACKAGES: Mapping[str, str] = {".xlsx": "openpyxl", ".parquet": "pyarrow"}
SUFFIXES = (".csv", ".tsv", *PACKAGES)


def is_profile(data: object) -> bool:
    """Is this the content of a profile's file, of whatever version?"""
    schema = data.get("schema") if isinstance(data, dict) else None
    return isinstance(schema, str) and schema.startswith(PROFILE_SCHEMA.rpartition("/")[0] + "/")


def is_profile_text(text: str) -> bool:
    """Is this the text of a profile's file? Text that is no JSON is none."""
    if PROFILE_SCHEMA.partition("/")[0] not in text:
        return False
    try:
        return is_profile(parse_json(text, ""))
    except InputError:
        return False


def looks_like_graph_txt(text: str) -> bool:
    """Is there a node or edge line of PipeDream among the first ones, and no JSON?"""
    return text.lstrip()[:1] not in ("{", "[") and any(" -- " in line for line in text.splitlines()[:100])


def looks_like_table(path: str | os.PathLike[str]) -> bool:
    """Does the name of the file end as those of tables do?"""
    return Path(path).suffix.lower() in SUFFIXES
