"""Suites in TOML: those that are packaged, and those of the user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from ...instances.base.cluster import STAGING_OPTIONS
from ...instances.base.errors import InputError, PipeplanError, UsageError, did_you_mean, show
from ...instances.base.fields import as_list, as_object, join, refuse_unknown, require
from ...instances.base.json_file import read_text
from ...instances.base.quantities import duration, levels, rate, size, size_or_none
from ...instances.networks.profile.options import PROFILE_FIELDS
from ...instances.physics.hardware import devices_given
from ...planners.options import SolveOptions
from .suite import Competitor, Instance, Published, Setting, Suite, of_name

T = TypeVar("T")
# Python's reader of TOML takes a time that is quadratic in the length of a dotted key.
MAX_SUITE_BYTES = 128 * 2**10
# Fields of a suite: limits, those of a cluster, and those of the whole.
LIMITS = ("time_limit", "memory_limit", "gap", "abs_gap", "threads")
CLUSTER = (
    *("devices", "cpus", "memory", "bandwidth", "cpu_slowdown", "inference", "batch"),
    *STAGING_OPTIONS,
    *PROFILE_FIELDS,
)
TOP = ("name", "title", "about", "seeds", "limits", "instances", "settings", "methods", "published", "quick")


def packaged_suites() -> dict[str, str]:
    """Titles of the packaged suites, by their names."""
    return {name: str(tomllib.loads(text).get("title", "")) for name, text in sorted(_packaged().items())}


def load_suite(name: str, quick: bool = False) -> Suite:
    """A packaged suite by its name, or one from a TOML file."""
    packaged = _packaged()
    if name in packaged:
        return _parse(packaged[name], name, quick, None)
    if not Path(name).is_file():
        guess = did_you_mean(name, packaged)
        raise UsageError(
            f"There is no suite and no file {name!r}{guess}; packaged are {', '.join(sorted(packaged))}."
        )
    return _parse(read_text(name, max_bytes=MAX_SUITE_BYTES), name, quick, Path(name).parent)


def _packaged() -> dict[str, str]:
    folder = files(__package__).joinpath("suites")
    return {
        e.name.removesuffix(".toml"): e.read_text("utf-8") for e in folder.iterdir() if e.name.endswith(".toml")
    }


def _parse(text: str, name: str, quick: bool, folder: Path | None) -> Suite:
    try:
        data = tomllib.loads(text)
    except ValueError as error:  # also for a whole number of thousands of digits
        raise InputError("content", f"is no TOML ({error})", "mend it", name) from None
    except RecursionError:
        raise InputError("content", "is nested too deeply", "give a suite with tables in one level", name) from None
    try:
        suite = _suite(data, folder, Path(name).stem)
        return _quick(suite, as_object("quick", data.get("quick", {}), "a table")) if quick else suite
    except InputError as error:
        raise error.in_file(name) from None


def _suite(data: Mapping[str, Any], folder: Path | None, name: str) -> Suite:
    refuse_unknown("", dict(data), TOP)
    return Suite(
        name=str(data.get("name", name)),
        title=str(data.get("title", "")),
        about=" ".join(str(data.get("about", "")).split()),
        instances=tuple(_instance(where, entry, folder) for where, entry in _tables(data, "instances")),
        methods=tuple(_method(where, entry, folder) for where, entry in _tables(data, "methods")),
        settings=tuple(_setting(where, entry) for where, entry in _tables(data, "settings")) or (Setting(),),
        seeds=_seeds("seeds", data.get("seeds", [0])),
        limits=_limits("limits", data.get("limits", {})),
        published=tuple(_published(where, entry) for where, entry in _tables(data, "published")),
    )


def _tables(data: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
    entries = as_list(key, data.get(key, []))
    return [(f"{key}[{i}]", as_object(f"{key}[{i}]", entry, "a table")) for i, entry in enumerate(entries)]


def _instance(where: str, entry: Mapping[str, Any], folder: Path | None) -> Instance:
    refuse_unknown(where, entry, ("label", "source", "published", *CLUSTER))
    source, published = entry.get("source"), entry.get("published")
    if source is None and published is None:
        raise InputError(
            where, "has neither source nor published", "give a file or the name of a packaged instance"
        )
    if source is not None and folder is not None and (folder / source).is_file():
        source = str(folder / source)  # a path may be relative to the suite's file
    label = entry.get("label") or Path(str(source or published)).stem
    return Instance(str(label), source, published, cluster_of(where, entry))


def _setting(where: str, entry: Mapping[str, Any]) -> Setting:
    refuse_unknown(where, entry, ("label", *CLUSTER))
    return Setting(str(require(where, entry, "label")), cluster_of(where, entry))


def _method(where: str, entry: Mapping[str, Any], folder: Path | None) -> Competitor:
    refuse_unknown(where, entry, ("label", "method", "solver", "options", "seeds", *LIMITS))
    name = str(require(where, entry, "method"))
    options = dict(as_object(join(where, "options"), entry.get("options", {}), "a table"))
    allocation = options.get("allocation")
    if folder is not None and isinstance(allocation, str) and (folder / allocation).is_file():
        options["allocation"] = str(folder / allocation)
    method = Competitor(
        label=str(entry.get("label", name)),
        solver=str(entry.get("solver", "auto")),
        options=options,
        limits=_limits(where, {key: entry[key] for key in LIMITS if key in entry}),
        seeds=_seeds(join(where, "seeds"), entry["seeds"]) if "seeds" in entry else None,
    )
    try:
        method = of_name(name, method)
    except PipeplanError as error:
        raise InputError(where, f"cannot be used: {str(error).rstrip('.')}", "mend the method") from None
    paths = {spec.name for spec in method.entry.options if spec.type == "path"} & set(options)
    beside = {name: str(folder / options[name]) for name in paths if folder is not None}
    return replace(method, options={**method.options, **beside})


def _published(where: str, entry: Mapping[str, Any]) -> Published:
    """A published value, the seconds of a published search, or both."""
    refuse_unknown(where, entry, ("instance", "setting", "method", "value", "seconds", "source"))
    if "seconds" not in entry:
        require(where, entry, "value")
    value, seconds = (_number(join(where, key), entry.get(key)) for key in ("value", "seconds"))
    instance, method, source = (str(require(where, entry, key)) for key in ("instance", "method", "source"))
    return Published(instance, method, value, source, str(entry.get("setting", "")), seconds)


def _number(where: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(where, f"is {show(value)}", "give a number")
    return float(value)


def _seeds(where: str, value: object) -> tuple[int, ...]:
    seeds = as_list(where, value)
    if not seeds or any(isinstance(seed, bool) or not isinstance(seed, int) or seed < 0 for seed in seeds):
        raise InputError(where, f"is {show(value)}", "give a list of whole numbers >= 0")
    return tuple(dict.fromkeys(seeds))


def _limits(where: str, value: object) -> dict[str, Any]:
    """Limits of a table as arguments of `SolveOptions`, which checks them."""
    table = as_object(where, value, "a table")
    refuse_unknown(where, table, LIMITS)
    limits: dict[str, Any] = {}
    if "time_limit" in table:
        limits["time_limit_s"] = quantity(join(where, "time_limit"), table["time_limit"], duration)
    if "memory_limit" in table:
        limits["memory_limit_bytes"] = int(quantity(join(where, "memory_limit"), table["memory_limit"], size))
    names = {"gap": "rel_gap", "abs_gap": "abs_gap", "threads": "threads"}
    limits |= {theirs: table[ours] for ours, theirs in names.items() if ours in table}
    SolveOptions(**limits)
    return limits


def cluster_of(where: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster in a table of the suite, with amounts in base units; infinite memory: no limit."""
    given = {key: entry[key] for key in CLUSTER if key in entry}
    if "memory" in given:
        given["memory_bytes"] = quantity(join(where, "memory"), given.pop("memory"), size_or_none)
    if "bandwidth" in given:
        given["bandwidth"] = quantity(join(where, "bandwidth"), given["bandwidth"], rate)
    if isinstance(given.get("devices"), str):
        try:
            given |= devices_given(given["devices"])
        except InputError as error:
            raise InputError(join(where, error.field), error.problem, error.remedy) from None
    for key in ("devices", "cpus", "batch"):
        if key in given and (isinstance(given[key], bool) or not isinstance(given[key], int)):
            raise InputError(join(where, key), f"is {show(given[key])}", "give a whole number")
    if "levels" in given:
        given["levels"] = _read(join(where, "levels"), given["levels"], levels)
    return given


def quantity(where: str, value: object, read: Callable[[str], float]) -> float:
    """A number in the base unit, or text with a unit."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputError(where, f"is {show(value)}", "give a number or a text with a unit")
    return _read(where, value, read)


def _read(where: str, value: object, read: Callable[[str], T]) -> T:
    try:
        return read(str(value))
    except ValueError as error:
        raise InputError(where, f"cannot be read ({error})", "write it as in the example") from None


def _quick(suite: Suite, quick: Mapping[str, Any]) -> Suite:
    """The suite with all that its table `quick` replaces, so that it takes a few minutes."""
    refuse_unknown("quick", dict(quick), ("seeds", "instances", "methods", "settings", *LIMITS))
    limits = _limits("quick", {key: quick[key] for key in LIMITS if key in quick})
    methods = [replace(m, limits={**m.limits, **limits}) for m in _chosen("methods", suite.methods, quick)]
    return replace(
        suite,
        instances=tuple(_chosen("instances", suite.instances, quick)),
        methods=tuple(methods),
        settings=tuple(_chosen("settings", suite.settings, quick)),
        seeds=_seeds("quick.seeds", quick["seeds"]) if "seeds" in quick else suite.seeds,
        limits={**suite.limits, **limits},
    )


def _chosen(key: str, entries: Sequence[Any], quick: Mapping[str, Any]) -> list[Any]:
    if key not in quick:
        return list(entries)
    wanted, known = as_list(f"quick.{key}", quick[key]), {entry.label for entry in entries}
    for label in wanted:
        if label not in known:
            raise InputError(
                f"quick.{key}", f"names {show(label)}", f"give labels among {', '.join(sorted(known))}"
            )
    return [entry for entry in entries if entry.label in wanted]
