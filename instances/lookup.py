"""An instance by name or file, on the cluster that the caller describes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .cluster import Cluster as Cluster
from .errors import InputError, UsageError, did_you_mean, show

if TYPE_CHECKING:
    from .kinds import Problem
    from .profile.options import Lowered


def load_instance(text: str, on: Cluster) -> Problem:
    """The problem in a file, or the packaged one of that name, on the cluster of the command line."""
    return load_with_notes(text, on).problem  # type: ignore[no-any-return]


def load_with_notes(text: str, on: Cluster) -> Lowered:
    """The same, with what is to be said of a profile or a table that became a problem."""
    from .files import load_on
    from .profile.options import Lowered

    if os.path.exists(text) or _looks_like_a_path(text):
        return load_on(text, on)
    from .catalogue import load_packaged, packaged_names
    from .kinds import kind_of

    if text not in packaged_names():
        raise UsageError(
            f"There is no file and no packaged instance {show(text)}{did_you_mean(text, packaged_names())}; "
            "`plan instances` lists those, in Python pipeplan.packaged_names()."
        )
    problem = load_packaged(text)
    return Lowered(kind_of(problem).on_cluster(problem, on))


def holds_profile(text: str) -> bool:
    """Is this a table of layers, or a file with a profile of ours?"""
    from .json_file import read_json
    from .profile.files import is_profile
    from .profile.sheet import looks_like_table

    if looks_like_table(text):
        return True
    try:
        return text.endswith(".json") and is_profile(read_json(text))
    except InputError:  # whoever reads it says what is wrong
        return False


def names_no_cluster(text: str) -> bool:
    """Is this a profile or a table, ours or PipeDream's, which says nothing of the machine?"""
    from .json_file import read_text
    from .placement.pipedream import looks_like_profile

    if holds_profile(text):
        return True
    try:
        return text.endswith(".txt") and looks_like_profile(read_text(text))
    except InputError:  # likewise
        return False


def _looks_like_a_path(text: str) -> bool:
    return os.sep in text or text.endswith((".json", ".txt", ".csv", ".tsv", ".xlsx", ".parquet"))


def packaged_by_hash(problem: Mapping[str, Any]) -> Problem:
    """The packaged instance that a result is about, told by its hash."""
    from .catalogue import load_packaged, packaged_names

    name = problem.get("name")
    if name in packaged_names():
        found = load_packaged(str(name))
        if found.hash == problem.get("hash"):
            return found
    raise UsageError(
        "The result is about no packaged instance as it is; name the instance, and the cluster if the run changed it."
    )
