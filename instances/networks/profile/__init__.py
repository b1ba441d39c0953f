"""Profiles: models with their costs and without a cluster, from which problems of every kind are made.

The packaged ones, which stand here by name, are published networks at one setting each, made by
`benchmarks/packaged_profiles.py`. Importing this package must stay light: lists of names need no more of it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ...base.errors import named
from ...base.json_file import parse_json

if TYPE_CHECKING:
    from .profile import Profile


@cache
def _found() -> dict[str, Any]:
    folder = files("pipeplan.instances.packaged").joinpath("profiles")
    entries = {
        entry.name.removesuffix(".json"): entry for entry in folder.iterdir() if entry.name.endswith(".json")
    }
    return {name: entries[name] for name in sorted(entries)}


def packaged_profile_names() -> tuple[str, ...]:
    """Names of the packaged profiles, sorted."""
    return tuple(_found())


@cache
def load_packaged_profile(name: str) -> Profile:
    """The packaged profile of that name; every call returns the same one."""
    from .profile import profile_from_json  # not needed for the list of names

    text = named(name, _found(), "packaged profile").read_text("utf-8")
    return profile_from_json(parse_json(text, f"{name}.json"))


def setting_of(profile: Profile) -> str:
    """What a profile was made of, in one line, from the words of its source."""
    source = profile.source
    sequence = f"sequence {source['sequence']}" if "sequence" in source else None
    parts = (f"micro-batch {profile.micro_batch}", sequence, source.get("dtype"), source.get("times"))
    return f"{source.get('config', source.get('how', 'unknown'))}; {', '.join(filter(None, parts))}"
