"""`plan instances | formulations | planners | solvers`: the commands that list what there is; and `plan warm-up`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.base import clock
from ..instances.base.errors import unknown_name
from ..instances.base.kind import Listing
from ..instances.networks.profile import load_packaged_profile, packaged_profile_names, setting_of
from ..show.console import out, print_json, print_table, put, room, say_note, styled, styled_lines
from ..show.words import amount, size
from .arguments import Json
from .signatures import flag_of

if TYPE_CHECKING:
    from ..formulations.contract import OptionSpec
    from ..formulations.registry import Entry

_Name = Annotated[str | None, typer.Argument(metavar="NAME", help="Show only this one, with its options.")]


def formulations(name: _Name = None, json: Json = False) -> None:
    """List the formulations (mathematical models), or show one with its options."""
    from ..formulations import registry

    _show_entries("formulation", registry.FORMULATIONS, registry.GROUP, registry.find_formulation, name, json)


def planners(name: _Name = None, json: Json = False) -> None:
    """List the planners (ways to find a plan), or show one with its options."""
    from ..planners import registry

    _show_entries("planner", registry.PLANNERS, registry.GROUP, registry.find_planner, name, json)


def instances(json: Json = False) -> None:
    """List the packaged instances and the packaged profiles (models without a cluster)."""
    from ..instances.catalogue import packaged_info, packaged_kinds

    rows = {kind: packaged_info(kind) for kind in packaged_kinds()}
    profiles = [_profile_row(name) for name in packaged_profile_names()]
    if json:
        print_json([*(row for of_kind in rows.values() for row in of_kind), *profiles])
        return
    put("Times on named hardware are calculated; --json gives all details.")
    for kind, listing in packaged_kinds().items():
        put(listing.note, style="bold")
        _print_instances([_instance_row(row, listing) for row in rows[kind]])
    parts = profiles[0]["made of"].split(", ")
    end = ", " + ", ".join(part for part in parts if all(part in row["made of"] for row in profiles))
    put("profiles: models without a cluster; use them with --devices, --memory and --bandwidth", style="bold")
    put(f"all of them: {end[2:]}", style="bold")
    for row in profiles:
        row |= {"weights": row["parameters"], "made of": row["made of"].removesuffix(end)}
    _print_instances([{key: row[key] for key in ("name", "nodes", "weights", "made of")} for row in profiles])


def _profile_row(name: str) -> dict[str, Any]:
    profile = load_packaged_profile(name)
    parameter_bytes = sum(node.parameter_bytes for node in profile.nodes) - profile.tied_bytes
    return {
        "kind": "profile",
        "name": name,
        "nodes": len(profile.nodes),
        "parameters": size(parameter_bytes),
        "made of": setting_of(profile),
    }


# Columns of a terminal in which a sentence fits beside the numbers; in narrower ones it goes below them.
WIDE = 120


def _print_instances(rows: Sequence[Mapping[str, Any]]) -> None:
    """Numbers in columns, and what each instance is made of."""
    if room(out()) >= WIDE:
        print_table(rows)
        return
    print_table([{key: value for key, value in row.items() if key != "made of"} for row in rows])
    out().print(styled_lines([f"{row['name']}: {row['made of']}" for row in rows], "dim"))


def _instance_row(row: Mapping[str, Any], listing: Listing) -> dict[str, Any]:
    return {
        "name": row["name"],
        **{heading: text.format_map(row) for heading, text in listing.columns.items()},
        **{heading: _time(row, variant.replace("-", "_")) for variant, heading in listing.variants.items()},
        "made of": row["source"].removesuffix(" (analytic costs)"),
    }


def _time(row: Mapping[str, Any], key: str) -> str | None:
    return None if row[key] is None else amount(row[key], row["time_unit"], 5)


def solvers(json: Json = False) -> None:
    """List the solvers, which of them are installed, and what they can do."""
    from ..planners.backends import describe

    rows = describe()
    if json:
        print_json(list(rows))
    else:
        print_table([_solver_row(row) for row in rows])


# Words for what a solver lacks without a capability.
WITHOUT: Mapping[str, str] = {
    "warm_start": "start from a plan",
    "takes_solutions": "new starting plans during the search",
    "progress": "bounds during the search",
    "incumbents": "plans during the search",
    "interrupt": "an answer when interrupted",
    "unbounded": "unbounded models",
    "continuous": "continuous variables",
    "native": "CP-SAT models",
    "exact": "exact arithmetic",
    "threads": "multiple threads",
    "seed": "seed",
    "absolute_gap": "absolute gap",
}


def _solver_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A solver with what it cannot do, which is shorter and more to the point than what it can."""
    lacks = [WITHOUT.get(name, name) for name, able in row["capabilities"].items() if not able]
    version = (row["version"] or "unknown") if row["available"] else "not installed"
    return {"name": row["name"], "title": row["title"], "version": version, "lacks": lacks, "remedy": row["remedy"]}


def _show_entries(
    what: str,
    ours: Mapping[str, Entry],
    group: str,
    find: Callable[[str], Entry | None],
    name: str | None,
    json: bool,
) -> None:
    """The method of this name, or all, plug-ins last; a plug-in that cannot be loaded is left out with a note."""
    from ..formulations.plugins import PluginError, installed

    theirs = [own for own in installed(group) if own not in ours]
    entries: list[Entry] = [] if name is not None else [*ours.values()]
    for own in theirs if name is None else [name]:
        try:
            entry = find(own)
        except PluginError as error:
            if name is not None:
                raise
            say_note(str(error))
            continue
        if entry is None:
            raise unknown_name(f"{what} named", own, [*ours, *theirs])
        entries.append(entry)
    chosen = [entry for one in entries for entry in one.all_kinds]
    if json:
        rows = [entry.to_json() for entry in entries]
        print_json(rows[0] if name is not None else rows)
    elif name is not None:
        for entry in chosen:
            _show_entry(entry)
    else:
        print_table([{"name": e.name, "kind": e.problem_kind, "exact": e.exact, "title": e.title} for e in chosen])


def _show_entry(entry: Entry) -> None:
    from ..planners.registry import second_methods

    console = out()
    console.print(styled(entry.name, "bold"), styled(f"- {entry.title}"))
    put(f"kind of problem: {entry.problem_kind}; {'exact' if entry.exact else 'heuristic'}")
    extensions, seconds = ", ".join(sorted(entry.extensions)), ", ".join(e.name for e in second_methods(entry))
    put(extensions and f"supported extensions: {extensions}")
    put(seconds and f"methods that can check its proofs independently: {seconds}")
    put(entry.paper_words, style="dim")
    equations, code = ", ".join(entry.explained_in), entry.module.removeprefix("pipeplan.").replace(".", "/")
    put(equations and f"its equations: {equations}", f"its code: {code}", style="dim", soft=True)
    if entry.options:
        print_table([_option_row(spec) for spec in entry.options])
    else:
        console.print("no options of its own")


def _option_row(spec: OptionSpec) -> dict[str, Any]:
    from ..planners.registry import USUAL_OPTIONS

    kind = "|".join(spec.choices) if spec.choices else spec.type
    name = flag_of(spec.name) if spec.name in USUAL_OPTIONS else f"--option {spec.name.replace('_', '-')}"
    return {"option": name, "value": kind, "default": spec.default, "meaning": spec.help}


# ---- `plan warm-up` -------------------------------------------------------------------------------------------


def warm_up() -> None:
    """Compile the inner loops of all methods in advance (once per machine; takes a minute or two)."""
    from ..planners.run.solve import warm_up

    clock.when_compiling(lambda: None)
    warm_up(lambda name: say_note(f"compiling the code for {name}"))
    say_note(f"done: compiling took {clock.seconds_compiling():.0f} s; it is needed again only after an update.")
