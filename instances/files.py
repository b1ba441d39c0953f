"""One door for every file: the format is told from the content, and a problem, plan or result is saved by type."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .base.cluster import Cluster
from .base.errors import InputError, UsageError, did_you_mean, errors_in, show, wrong_argument
from .base.fields import as_object
from .base.json_file import MAX_FILE_BYTES, check_path, dump_json, parse_json, read_text, write_text_atomically
from .base.kind import Kind, Lowered
from .base.result import SCHEMA as RESULT_SCHEMA
from .base.result import Result
from .registry import DEFAULT_KIND, KINDS, Plan, Problem, is_plan, is_problem

# Formats that a caller may name when a file is read.
FORMATS = ("own", "published", "pipedream")
_SCHEMAS = [f'"{kind.schema}"' for kind in KINDS.values()]
KNOWN_FORMATS = (
    f'own JSON ("schema": {", ".join(_SCHEMAS[:-1])} or {_SCHEMAS[-1]}), a published JSON ("maxFPGAs" or "maxDevices", '
    '"nodes", "edges"), a PipeDream profile (graph.txt), a profile of ours ("pipeplan.profile/1") or a table of layers '
    "(.csv, .tsv)"
)

# The remedy where a caller saves something else.
SAVED = "give what pipeplan.load(path), pipeplan.load_plan(path) or pipeplan.solve(problem) returns, or result.plan"


def load_on(
    path: str | os.PathLike[str],
    cluster: Cluster,
    *,
    kind: str | None = None,
    format: str | None = None,
    max_bytes: int = MAX_FILE_BYTES,
) -> Lowered:
    """The problem in a file, with notes on how it was made where the file is a profile or a table."""

    asked = kind or (cluster.profile.kind if cluster.profile is not None else None)
    if format is not None and format not in FORMATS:
        guess = did_you_mean(format, FORMATS)
        raise UsageError(f"The format {show(format)} is unknown{guess}; give one of {', '.join(FORMATS)}.")
    check_path(path)
    from .foreign import (
        is_profile,
        looks_like_graph_txt,
        looks_like_table,
        refuse_foreign_file,
        refuse_model_configuration,
    )

    refuse_foreign_file(path)
    if looks_like_table(path):
        return _profiled(path, cluster, asked, format)
    text = read_text(path, max_bytes=max_bytes)
    if format == "pipedream" or (not _starts_as_json(text, format) and looks_like_graph_txt(text)):
        from .lowering import lower_graph_txt

        return lower_graph_txt(text, path, asking(cluster, asked))
    with errors_in(path):
        if not _starts_as_json(text, format):
            raise InputError("content", "is in no known format", f"give {KNOWN_FORMATS}")
        data = parse_json(text, str(path))
        if is_profile(data):
            return _profiled(path, cluster, asked, format)
        refuse_model_configuration(data, path)
        problem = _parse(data, path, format, cluster)
        if asked not in (None, problem.kind):
            raise InputError(
                "content", f"is a problem of the kind {problem.kind}", f"give a problem of the kind {asked}"
            )
        return Lowered(problem)


def _profiled(path: str | os.PathLike[str], cluster: Cluster, kind: str | None, format: str | None) -> Lowered:
    """The problem of a profile, by the module that knows profiles, which is imported only here."""
    from .lowering import lower_file

    if format not in (None, "own"):
        raise UsageError(f"The format {show(format)} is not one of profiles and tables; leave it out.")
    return lower_file(path, asking(cluster, kind))


def asking(cluster: Cluster, kind: str | None) -> Cluster:
    """The cluster with `kind` as the kind of problem that a profile is to become."""
    from .networks.profile.options import ProfileOptions

    return replace(cluster, profile=replace(cluster.profile or ProfileOptions(), kind=kind))


def _starts_as_json(text: str, format: str | None) -> bool:
    return format is not None or text.lstrip()[:1] in ("{", "[")


def _parse(data: object, path: str | os.PathLike[str], name: str | None, cluster: Cluster) -> Problem:
    name = name or _json_format(data)
    top = as_object("", data, KNOWN_FORMATS)
    kind = _kind_in(top)
    read = kind.read_published if name == "published" else kind.read
    if read is None:
        raise InputError("content", f"is no published format of a {kind.name} problem", f"give {KNOWN_FORMATS}")
    # Readers override before they check: that lets the caller's cluster mend what the file lacks.
    problem: Problem = read(top, cluster, Path(path).stem)
    return problem


def problem_from_json(data: object) -> Problem:
    """The problem in our own format that another file holds; messages call it `problem`."""
    try:
        return _parse(data, "problem", "own", Cluster())
    except InputError as error:
        raise InputError(f"problem: {error.field}", error.problem, error.remedy) from None


def _json_format(data: object) -> str:
    if not isinstance(data, dict):
        raise InputError("content", f"is {show(data)}, not an object", f"give {KNOWN_FORMATS}")
    if data.get("schema") == RESULT_SCHEMA:
        raise InputError(
            "schema", f"is {show(RESULT_SCHEMA)}: a result, not a problem", "give the file of the problem"
        )
    if "schema" in data or "accelerators" in data:
        return "own"
    if any(mark in data for kind in KINDS.values() for mark in kind.published):
        return "published"
    raise InputError("content", "is in no known format", f"give {KNOWN_FORMATS}")


def _kind_in(data: Mapping[str, Any]) -> Kind[Any, Any]:
    """The kind that the schema names, in whatever version, or that the keys of published files tell.

    Other files are taken for placements, the first kind: its reader says what is wrong with them.
    """
    schema = data.get("schema")
    for kind in KINDS.values():
        if isinstance(schema, str) and schema.startswith(kind.schema.rpartition("/")[0] + "/"):
            return kind
        if schema is None and any(mark in data for mark in kind.published):
            return kind
    return DEFAULT_KIND


# ---- writing -------------------------------------------------------------------------------------------


def save(value: Problem | Plan | Result, path: str | os.PathLike[str]) -> None:
    """Write a problem, a plan or a result to a file, whole or not at all.

    Parameters
    ----------
    value : Problem, Plan or Result
        What to write.
    path : str or PathLike
        The file; one that exists is replaced.

    Returns
    -------
    None
        The file is there.

    Raises
    ------
    InputError
        The value is no problem, plan or result, or the file cannot be written.
    """
    write_text_atomically(path, dump_json(_to_json(value)))


def problem_to_text(problem: Problem) -> str:
    """The problem as the text of a file, for another process."""
    return dump_json(_to_json(problem))


def problem_from_text(text: str) -> Problem:
    """The problem that `problem_to_text` wrote."""
    return _parse(parse_json(text, "the message"), "the message", "own", Cluster())


def _to_json(value: Problem | Plan | Result) -> Any:
    if is_problem(value):
        return KINDS[value.kind].write(value)
    if not isinstance(value, Result) and not is_plan(value):
        raise wrong_argument("value", value, "a problem, plan or result", SAVED)
    return value.to_json()
