"""`plan generate`: random problems by seed, and known networks on named hardware."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer

from ..instances.errors import UsageError
from ..instances.generators import GENERATORS, Parameter
from ..instances.graph_models.models import GRAPH_MODELS, GraphModel
from ..instances.graph_pipeline import GraphPipelineProblem
from ..instances.placement import PlacementProblem
from . import quantities
from .arguments import Json, check_output
from .console import out, print_json, styled
from .lists import print_table
from .referee_options import one_of
from .signatures import option, with_options

PANEL = "Parameters (`plan generate` alone tells whose they are)"

KINDS = ("placement", "graph-pipeline")
NETWORK_PARAMETERS = (
    Parameter("kind", "text", "placement", "of problem: placement or graph-pipeline (always training)"),
    Parameter("mini_batch", "int", None, "graph pipelines: samples between two updates of the weights"),
    Parameter("batch", "int", None, "samples in a batch; default: the network's usual number"),
    Parameter("hardware", "text", "v100-16gb", "the accelerator: v100-16gb, a100-40gb, ..."),
    Parameter("link", "text", "pcie3-x16", "how it is joined to the host: pcie3-x16, pcie4-x16, ..."),
    Parameter("accelerators", "int", 4, "how many accelerators"),
    Parameter("cpus", "int", 0, "how many CPUs"),
    Parameter("memory_bytes", "size", None, "memory of an accelerator; default: the hardware's"),
    Parameter("training", "flag", False, "add the backward pass"),
)
GRAPH_PARAMETERS = (
    Parameter("accelerators", "int", 8, "how many devices"),
    Parameter("branches", "int", None, "how many branches; default: the model's usual number"),
    Parameter("layers", "int", None, "layers of a branch; default: the model's usual number"),
    Parameter("mini_batch", "int", None, "samples between two updates; default: the model's number for the devices"),
    Parameter("cluster", "text", "summit-v100", "what it runs on: summit-v100, summit-v100-fp32, summit-v100-ideal"),
    Parameter("memory_bytes", "size", None, "memory of a device; default: the cluster's"),
    Parameter("half_samples", "float", None, "samples on which a device runs at half its rate; default: the model's"),
    Parameter("join", "flag", True, "case study: with the concatenation at the end"),
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
    """Of every generator, of the networks together, and of every model of a graph pipeline."""
    own = {name: generator.parameters for name, generator in GENERATORS.items()}
    models = {model.name: graph_parameters(model) for model in GRAPH_MODELS.values()}
    return {**own, "a network": NETWORK_PARAMETERS, **models}


def graph_parameters(model: GraphModel) -> tuple[Parameter, ...]:
    """Of one model of a graph pipeline: its argument `devices` has the name that other commands use."""
    own = {"accelerators" if name == "devices" else name for name in model.parameters}
    return tuple(parameter for parameter in GRAPH_PARAMETERS if parameter.name in own)


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
    """Make a problem: random by seed, or a known network on named hardware."""
    if name is None:
        _list(given, output, json)
        return
    check_output("--output", output)
    problem = _build(name, given)
    if output is None:
        _print(problem)
        return
    from ..instances.io import save

    save(problem, output)
    if json:
        print_json({"file": output, "problem": {"name": problem.name, "hash": problem.hash}})
    else:
        out().print(styled(f"wrote {output} ({_size(problem)}, {len(problem.edges)} edges)"))


def _size(problem: PlacementProblem | GraphPipelineProblem) -> str:
    if isinstance(problem, PlacementProblem):
        return f"{len(problem.nodes)} nodes"
    return f"{len(problem.operators)} operators"


def _build(name: str, given: Mapping[str, Any]) -> PlacementProblem | GraphPipelineProblem:
    from ..instances.workloads import WORKLOADS

    if name in GENERATORS:
        arguments = _own(name, given, GENERATORS[name].parameters)
        if arguments.get("memory_bytes") == math.inf:
            arguments["memory_bytes"] = None
        return GENERATORS[name](**arguments)
    if name in WORKLOADS:
        return _network(name, _own(name, given, NETWORK_PARAMETERS))
    if name in GRAPH_MODELS:
        model = GRAPH_MODELS[name]
        return _graph_model(model, _own(name, given, graph_parameters(model)))
    choices = ", ".join([*GENERATORS, *WORKLOADS, *GRAPH_MODELS])
    raise UsageError(f"There is no generator and no network named {name!r}; choose one of {choices}.")


def _own(name: str, given: Mapping[str, Any], parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The arguments, where all of them belong to this generator."""
    own = [parameter.name for parameter in parameters]
    foreign = next((key for key in given if key not in own), None)
    if foreign is not None:
        raise UsageError(f"{name!r} has no parameter {_option(foreign)}; it has {', '.join(map(_option, own))}.")
    for key, value in given.items():
        if isinstance(value, float) and not math.isfinite(value) and key != "memory_bytes":
            raise UsageError(f"{_option(key)} is {value}; give a finite number.")
    return dict(given)


def _graph_model(model: GraphModel, given: dict[str, Any]) -> GraphPipelineProblem:
    if "accelerators" in given:
        given["devices"] = given.pop("accelerators")
    no_limit = given.get("memory_bytes") == math.inf
    if no_limit:
        del given["memory_bytes"]
    problem = model.build(**given)
    return problem.replace(memory_bytes=None) if no_limit else problem


def _network(name: str, given: dict[str, Any]) -> PlacementProblem | GraphPipelineProblem:
    from ..instances.graph_models import to_graph_pipeline
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
    kind, mini_batch = one_of("--kind", values.pop("kind"), KINDS), values.pop("mini_batch")
    problem: PlacementProblem | GraphPipelineProblem
    if kind == "graph-pipeline":
        _refuse_of_placements(given)
        problem = to_graph_pipeline(
            build(name, batch),
            DEVICES[hardware],
            LINKS[link],
            devices=values["accelerators"],
            mini_batch=32 * values["accelerators"] if mini_batch is None else mini_batch,
            memory_bytes=values["memory_bytes"],
        )
    elif mini_batch is not None:
        raise UsageError("--mini-batch is for graph pipelines; give --kind graph-pipeline as well, or drop it.")
    else:
        problem = to_placement(build(name, batch), DEVICES[hardware], LINKS[link], **values)
    return problem.replace(memory_bytes=None) if no_limit else problem


def _refuse_of_placements(given: Mapping[str, Any]) -> None:
    """A graph pipeline has times for every number of samples, runs on devices alone, and always trains."""
    for key in ("batch", "cpus", "training"):
        if given.get(key) is not None:
            raise UsageError(f"{_option(key)} says nothing about a graph pipeline; drop {_option(key)}.")


def _print(problem: PlacementProblem | GraphPipelineProblem) -> None:
    from ..instances.io import dump_json, placement_to_json
    from ..instances.io.graph_pipeline import graph_pipeline_to_json

    if isinstance(problem, PlacementProblem):
        sys.stdout.write(dump_json(placement_to_json(problem)))
    else:
        sys.stdout.write(dump_json(graph_pipeline_to_json(problem)))


def _list(given: Mapping[str, Any], output: str | None, json: bool) -> None:
    from ..instances.workloads import WORKLOADS

    if given or output is not None:
        raise UsageError("Name what to generate; `plan generate` alone lists what there is.")
    rows: list[dict[str, Any]] = [
        {"name": name, "title": generator.title, "parameters": [_option(p.name) for p in generator.parameters]}
        for name, generator in GENERATORS.items()
    ]
    rows += [
        {"name": model.name, "title": model.title, "parameters": [_option(p.name) for p in graph_parameters(model)]}
        for model in GRAPH_MODELS.values()
    ]
    network = [_option(parameter.name) for parameter in NETWORK_PARAMETERS]
    if json:
        print_json(rows + [{"name": name, "title": "a network", "parameters": network} for name in WORKLOADS])
        return
    print_table([*rows, {"name": "NETWORK", "title": "one of those below, on hardware", "parameters": network}])
    out().print(styled("networks: " + ", ".join(WORKLOADS)))
