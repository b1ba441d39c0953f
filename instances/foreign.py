"""What tells files that are no instances but lead to one: models, schedules and configurations of other programs, which
are refused with the command that reads them, and profiles and tables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from .base.errors import InputError
from .base.json_file import parse_json

# By the end of a file's name: what it is, and the command that reads it.
_BY_SUFFIX: Mapping[str, tuple[str, str]] = {
    ".py": ("is a Python file", "plan import torch {}:build"),
    ".onnx": ("is an ONNX model, which pipeplan does not read", "plan import torch my.py:build --inference"),
}
_FUNCTION = re.compile(r"(.*\.py):\w+")
# The beginning of a schedule in PyTorch's CSV format: empty cells are pauses, and the first other one is a pass.
_PASS = re.compile(r",*\(?\d+(F|B|I|W|BW|RECV_F|UNSHARD)\d*[,;]")
# Keys that tell a model's `config.json` from other JSON.
_CONFIG_KEYS = ("model_type", "architectures")
# Characters of a CSV file that are read to tell what it is.
_FIRST_CHARACTERS = 1_000


def names_a_model(text: str) -> bool:
    """Is this the name of a file that holds a model in another form, or of a function in one?"""
    return _without_function(text).endswith(tuple(_BY_SUFFIX))


def refuse_foreign_file(path: str | os.PathLike[str]) -> None:
    """Raise where the file is a model or a schedule of another program."""
    file = _without_function(os.fspath(path))
    suffix = Path(file).suffix.lower()
    if suffix in SPREADSHEETS and os.path.exists(file):
        raise InputError(
            "content", "is a spreadsheet, which pipeplan does not read", "save the sheet as .csv", file
        )
    if suffix in _BY_SUFFIX and os.path.exists(file):
        what, command = _BY_SUFFIX[suffix]
        raise _refusal(file, what, command.format(file))
    if suffix == ".csv" and _PASS.match(_beginning(file)):
        raise InputError(
            "content",
            "is PyTorch's file of a schedule, an order without times",
            "give it as PLAN, after the schedule problem whose passes it orders (plan generate interleaved-pipeline, "
            "or v-pipeline)",
            file,
        )


def refuse_model_configuration(data: object, path: str | os.PathLike[str]) -> None:
    """Raise where this is the content of a `config.json`."""
    if isinstance(data, dict) and "schema" not in data and any(key in data for key in _CONFIG_KEYS):
        what = "is a model's configuration, which names no times"
        raise _refusal(os.fspath(path), what, f"plan import hf {os.fspath(path)} --hardware h100-80gb")


def _refusal(file: str, what: str, command: str) -> InputError:
    profile = f"{Path(file).stem}.profile.json"
    return InputError("content", what, f"run {command} -o {profile}, and give {profile}", file)


def _without_function(text: str) -> str:
    match = _FUNCTION.fullmatch(text)
    return match[1] if match else text


def _beginning(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read(_FIRST_CHARACTERS)
    except OSError:  # the reader of the file says what is wrong
        return ""


# ---- marks ------------------------------------------------------------
# What tells a file with a profile or a table from all others: its name, or its first lines.


PROFILE_SCHEMA = "pipeplan.profile/1"
SUFFIXES = (".csv", ".tsv")
SPREADSHEETS = (".xlsx", ".xls", ".ods")


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
