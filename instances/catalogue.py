"""The packaged instances of every kind: where they lie, what they are, and the best values known for them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from .base.errors import unknown_name
from .base.kind import Listing
from .registry import KINDS, Problem

# The folder of the packaged files, and the file in it that lists facts about each of them.
FOLDER = "packaged"
FACTS = "facts.jsonl"
# The tables of best known values: of packaged instances, and of published ones.
PACKAGED, PUBLISHED = "best_known.csv", "published_best_known.csv"


@dataclass(frozen=True, slots=True)
class BestKnown:
    """One line of `best_known.csv`; value and bound in the instance's time unit, None where no plan fits."""

    instance: str
    variant: str
    """The question that is planned for, in the words of the instance's kind."""
    objective: str
    value: float | None
    bound: float | None
    proven: bool
    source: str
    """The proof or the method that gave the value."""
    date: str
    """Date on which the value was found; empty where nobody noted it."""
    hash: str
    """Hash of the problem that the value belongs to."""


@cache
def packaged_kinds() -> Mapping[str, Listing]:
    """How the packaged instances of each kind that has some are listed, by its name."""
    return {name: kind.listing for name, kind in KINDS.items() if kind.listing is not None}


def packaged_names(kind: str | None = None) -> tuple[str, ...]:
    """Names of the packaged instances, of all or of one kind, sorted."""
    if kind is None:
        entries = (entry.name for entry in _folder().iterdir())
        return tuple(sorted(name.removesuffix(".json") for name in entries if name.endswith(".json")))
    if kind not in list(packaged_kinds()):  # anything may be asked for, also what has no hash
        raise unknown_name("kind", kind, packaged_kinds())
    return tuple(sorted(name for name, facts in read_facts().items() if facts["kind"] == kind))


def load_packaged(name: str) -> Problem:
    """The packaged problem of that name, of whatever kind; every call returns the same one."""
    if name not in packaged_names():
        raise unknown_name("packaged instance", name, packaged_names())
    return _load(name)


@cache
def _load(name: str) -> Problem:
    from .files import problem_from_text  # readers of every format, which lists do without

    return problem_from_text(_folder().joinpath(f"{name}.json").read_text("utf-8"))


def packaged_info(kind: str) -> list[dict[str, Any]]:
    """One row per packaged instance of a kind, with the best value known of each variant that its kind lists."""
    return [_info(name, packaged_kinds()[kind].variants) for name in packaged_names(kind)]


def _info(name: str, variants: Iterable[str]) -> dict[str, Any]:
    """A row of `plan instances`: the keys are those of its JSON and of the kind's `Listing.columns`."""
    facts = dict(read_facts()[name])
    last = {key: facts.pop(key) for key in ("time_unit", "source")}
    best_values = {variant: best_known(name, variant) for variant in variants}
    return {
        "kind": facts.pop("kind"),
        "name": name,
        **facts,
        **{variant.replace("-", "_"): best.value if best else None for variant, best in best_values.items()},
        **last,
    }


@cache
def read_facts() -> Mapping[str, Mapping[str, Any]]:
    """The facts of each packaged problem, by name, from `facts.jsonl`: reading the problems takes far longer."""
    lines = _folder().joinpath(FACTS).read_text("utf-8").splitlines()
    return {row.pop("name"): row for row in map(json.loads, lines)}


@cache
def read_best_known(name: str = PACKAGED) -> tuple[BestKnown, ...]:
    """The rows of one of our tables of best known values."""
    with _folder().joinpath(name).open(encoding="utf-8", newline="") as file:
        return tuple(_best_known(row) for row in csv.DictReader(file))


def _best_known(row: Mapping[str, Any]) -> BestKnown:
    numbers = {key: float(row[key]) if row[key] else None for key in ("value", "bound")}
    return BestKnown(**{**row, **numbers, "proven": row["proven"] == "yes"})


def best_known(name: str, variant: str) -> BestKnown | None:
    """The best value known for a variant of a packaged instance, or None."""
    return next((row for row in read_best_known() if (row.instance, row.variant) == (name, variant)), None)


def _folder() -> Any:
    return files(__package__).joinpath(FOLDER)
