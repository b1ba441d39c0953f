"""`plan generate`: random problems by seed, chains of the theory, and known networks on named hardware."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer

from ..instances.chains.generators import CHAIN_GENERATORS
from ..instances.errors import UsageError
from ..instances.generators import GENERATORS, Parameter
from ..instances.placement import PlacementProblem
from . import quantities
from .arguments import Json, check_output
from .console import out, print_json, styled
from .generate_chains import build_chain, known_facts, parameters_of, remarks
from .lists import print_table
from .signatures import option, with_options

PANEL = "Parameters (`plan generate` alone tells whose they are)"

NETWORK_PARAMETERS = (
    Parameter("batch", "int", None, "samples in a batch; default: the network's usual number"),
    Parameter("hardware", "text", "v100-16gb", "the accelerator: v100-16gb, a100-40gb, ..."),
    Parameter("link", "text", "pcie3-x16", "how it is joined to the host: pcie3-x16, pcie4-x16, ..."),
    Parameter("accelerators", "int", 4, "how many accelerators"),
    Parameter("cpus", "int", 0, "how many CPUs"),
    Parameter("memory_bytes", "size", None, "memory of an accelerator; default: the hardware's"),
    Parameter("training", "flag", False, "add the backward pass"),
)
OPTION_OF = {"accelerators": "--devices", "memory_bytes": "--memory"}
"""Where the command line has a word of its own, the same as in other commands."""
_TYPES: dict[str, type] = {"flag": bool, "int": int, "float": float, "text": str, "size": float}


def _option(name: str) -> str:
    return OPTION_OF.get(name, "--" + name.replace("_", "-"))


def _with_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option per parameter of any generator; those that were given arrive as `given`."""
    known: dict[str, Parameter] = {}
    for parameters in _parameters().values():
        for parameter in parameters:
            known.setdefault(parameter.name, parameter)
    return with_options(command, "given", map(_typer_parameter, known.values()))


def _typer_parameter(parameter: Parameter) -> inspect.Parameter:
    kind = "size" if parameter.name == "memory_bytes" else parameter.type
    flag = _option(parameter.name)
    return option(
        parameter.name,
        _TYPES[kind],
        f"{flag}/--no-{flag[2:]}" if kind == "flag" else flag,
        parser=quantities.size_or_none if kind == "size" else None,
        metavar="SIZE" if kind == "size" else None,
        help=parameter.help,
        rich_help_panel=PANEL,
    )


def _parameters() -> Mapping[str, tuple[Parameter, ...]]:
    """Of every generator, and of the networks together."""
    placements = {name: generator.parameters for name, generator in GENERATORS.items()}
    chains = {name: parameters_of(name) for name in CHAIN_GENERATORS}
    return {**placements, **chains, "a network": NETWORK_PARAMETERS}


@_with_parameters
def command(
    given: dict[str, Any],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A generator or a network; without it both are listed.", show_default=False
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it there; else to stdout.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Make a problem: random by seed, a chain of the theory, or a known network on named hardware."""
    if name is None:
        _list(given, output, json)
        return
    check_output("--output", output)
    if name in CHAIN_GENERATORS:
        _make_chain(name, given, output, json)
        return
    problem = _build(name, given)
    if output is None:
        _print(problem)
        return
    from ..instances.io import save

    save(problem, output)
    if json:
        print_json({"file": output, "problem": {"name": problem.name, "hash": problem.hash}})
    else:
        out().print(styled(f"wrote {output} ({len(problem.nodes)} nodes, {len(problem.edges)} edges)"))


def _make_chain(name: str, given: Mapping[str, Any], output: str | None, json: bool) -> None:
    """Besides the file: what is known of the chain."""
    from ..instances.io import chain_to_json, dump_json, save

    known = build_chain(name, _own(name, given, parameters_of(name)))
    problem = known.problem
    if output is None:
        sys.stdout.write(dump_json(chain_to_json(problem)))
        return
    save(problem, output)
    if json:
        facts = {"name": problem.name, "hash": problem.hash, **known_facts(known)}
        print_json({"file": output, "problem": facts})
        return
    for line in (f"wrote {output} ({problem.layers} layers, {problem.gpus} GPUs)", *remarks(known)):
        out().print(styled(line), soft_wrap=True)


def _build(name: str, given: Mapping[str, Any]) -> PlacementProblem:
    from ..instances.workloads import WORKLOADS

    if name in GENERATORS:
        arguments = _own(name, given, GENERATORS[name].parameters)
        if arguments.get("memory_bytes") == math.inf:
            arguments["memory_bytes"] = None
        return GENERATORS[name](**arguments)
    if name in WORKLOADS:
        return _network(name, _own(name, given, NETWORK_PARAMETERS))
    choices = ", ".join([*GENERATORS, *CHAIN_GENERATORS, *WORKLOADS])
    raise UsageError(f"There is no generator and no network named {name!r}; choose one of {choices}.")


def _own(name: str, given: Mapping[str, Any], parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The arguments, where all of them belong to this generator."""
    own = [parameter.name for parameter in parameters]
    foreign = next((key for key in given if key not in own), None)
    if foreign is not None:
        has = ", ".join(map(_option, own)) or "none"
        raise UsageError(f"{name!r} has no parameter {_option(foreign)}; it has {has}.")
    for key, value in given.items():
        if isinstance(value, float) and not math.isfinite(value) and key != "memory_bytes":
            raise UsageError(f"{_option(key)} is {value}; give a finite number.")
    return dict(given)


def _network(name: str, given: dict[str, Any]) -> PlacementProblem:
    from ..instances.workloads import DEVICES, LINKS, build, to_placement

    defaults = {parameter.name: parameter.default for parameter in NETWORK_PARAMETERS}
    values = {**defaults, **given}
    hardware, link = values.pop("hardware"), values.pop("link")
    batch = values.pop("batch")
    if batch is not None and batch < 1:
        raise UsageError(f"--batch is {batch}; give a whole number >= 1.")
    for flag, chosen, table in (("--hardware", hardware, DEVICES), ("--link", link, LINKS)):
        if chosen not in table:
            raise UsageError(f"{flag} is {chosen!r}; give one of {', '.join(table)}.")
    no_limit = values["memory_bytes"] == math.inf
    if no_limit:
        values["memory_bytes"] = None
    problem = to_placement(build(name, batch), DEVICES[hardware], LINKS[link], **values)
    return problem.replace(memory_bytes=None) if no_limit else problem


def _print(problem: PlacementProblem) -> None:
    from ..instances.io import dump_json, placement_to_json

    sys.stdout.write(dump_json(placement_to_json(problem)))


def _list(given: Mapping[str, Any], output: str | None, json: bool) -> None:
    from ..instances.workloads import WORKLOADS

    if given or output is not None:
        raise UsageError("Name what to generate; `plan generate` alone lists what there is.")
    rows: list[dict[str, Any]] = [
        {"name": name, "title": generator.title, "parameters": [_option(p.name) for p in generator.parameters]}
        for name, generator in GENERATORS.items()
    ]
    rows += [
        {"name": name, "title": generator.title, "parameters": [_option(p.name) for p in parameters_of(name)]}
        for name, generator in CHAIN_GENERATORS.items()
    ]
    network = [_option(parameter.name) for parameter in NETWORK_PARAMETERS]
    if json:
        print_json(rows + [{"name": name, "title": "a network", "parameters": network} for name in WORKLOADS])
        return
    print_table([*rows, {"name": "NETWORK", "title": "one of those below, on hardware", "parameters": network}])
    out().print(styled("networks: " + ", ".join(WORKLOADS)))
