"""`plan generate`: random problems by seed, chains of the theory, and known networks on named hardware."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.chain.generators import CHAIN_GENERATORS
from ..instances.errors import UsageError
from ..instances.graph_pipeline.models import GRAPH_MODELS, GraphModel
from ..instances.graph_pipeline.problem import GraphPipelineProblem
from ..instances.kinds import kind_of
from ..instances.placement.generators import GENERATORS, Parameter
from ..instances.placement.problem import PlacementProblem
from ..instances.staging.problem import StagingProblem
from ..show.console import out, print_json, styled
from . import quantities
from .arguments import Json, check_output
from .generate_chains import build_chain, known_facts, parameters_of, remarks
from .lists import print_table
from .referee_options import one_of
from .signatures import option, with_options

if TYPE_CHECKING:
    from ..instances.workloads import Hardware, Link

Made = PlacementProblem | GraphPipelineProblem | StagingProblem

PANEL = "Parameters (`plan generate` alone tells whose they are)"

KINDS = ("placement", "graph-pipeline", "staging")
NETWORK_PARAMETERS = (
    Parameter("kind", "text", "placement", "of problem: placement, graph-pipeline or staging (both always training)"),
    Parameter("mini_batch", "int", None, "graph pipelines: samples between two updates of the weights"),
    Parameter("micro_batches", "int", None, "stagings: micro-batches in a batch; default: 8 for each device"),
    Parameter("merge", "flag", True, "stagings: one layer for each block of the network, else for each operator"),
    Parameter("batch", "int", None, "samples in a (micro-)batch; default: the network's usual number"),
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
KIND_OF = {"mini_batch": "graph-pipeline", "micro_batches": "staging", "merge": "staging"}
"""Parameters of networks that are for one kind of problem alone."""
TRAINED = {"graph-pipeline": ("batch", "cpus", "training"), "staging": ("cpus", "training")}
"""What says nothing about kinds that always train on devices alone; a graph pipeline has times for all batches."""
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
    placements = {name: generator.parameters for name, generator in GENERATORS.items()}
    chains = {name: parameters_of(name) for name in CHAIN_GENERATORS}
    models = {model.name: graph_parameters(model) for model in GRAPH_MODELS.values()}
    return {**placements, **chains, "a network": NETWORK_PARAMETERS, **models}


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
    """Make a problem: random by seed, a chain of the theory, or a known network on named hardware."""
    if name is None:
        _list(given, output, json)
        return
    check_output("--output", output)
    if name in CHAIN_GENERATORS:
        _make_chain(name, given, output, json)
        return
    problem = _build(name, given)
    from ..instances.files import problem_to_text, save

    if output is None:
        sys.stdout.write(problem_to_text(problem))
        return
    save(problem, output)
    if json:
        print_json({"file": output, "problem": {"name": problem.name, "hash": problem.hash}})
    else:
        size = kind_of(problem).get("size")(problem)
        out().print(styled(f"wrote {output} ({size})"))


def _make_chain(name: str, given: Mapping[str, Any], output: str | None, json: bool) -> None:
    """Besides the file: what is known of the chain."""
    from ..instances.chain.files import chain_to_json
    from ..instances.files import save
    from ..instances.json_file import dump_json

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


def _build(name: str, given: Mapping[str, Any]) -> Made:
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
    choices = ", ".join([*GENERATORS, *CHAIN_GENERATORS, *WORKLOADS, *GRAPH_MODELS])
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


def _graph_model(model: GraphModel, given: dict[str, Any]) -> GraphPipelineProblem:
    if "accelerators" in given:
        given["devices"] = given.pop("accelerators")
    no_limit = given.get("memory_bytes") == math.inf
    if no_limit:
        del given["memory_bytes"]
    problem = model.build(**given)
    return problem.replace(memory_bytes=None) if no_limit else problem


def _network(name: str, given: dict[str, Any]) -> Made:
    from ..instances.workloads import DEVICES, LINKS

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
    kind = one_of("--kind", values.pop("kind"), KINDS)
    _refuse_of_other_kinds(kind, given)
    problem = _lowered(kind, name, batch, DEVICES[hardware], LINKS[link], values)
    return problem.replace(memory_bytes=None) if no_limit else problem


def _refuse_of_other_kinds(kind: str, given: Mapping[str, Any]) -> None:
    for key, only in KIND_OF.items():
        if key in given and kind != only:
            plural = only.replace("-", " ") + "s"
            raise UsageError(f"{_option(key)} is for {plural}; give --kind {only} as well, or drop it.")
    for key in TRAINED.get(kind, ()):
        if given.get(key) is not None:
            raise UsageError(f"{_option(key)} says nothing about a {kind.replace('-', ' ')}; drop {_option(key)}.")


def _lowered(kind: str, name: str, batch: int | None, device: Hardware, link: Link, values: Mapping[str, Any]) -> Made:
    from ..instances.graph_pipeline.from_workload import to_graph_pipeline
    from ..instances.placement.from_workload import to_placement
    from ..instances.staging.from_workload import to_staging
    from ..instances.workloads import build

    workload, devices, memory = build(name, batch), values["accelerators"], values["memory_bytes"]
    if kind == "graph-pipeline":
        samples = 32 * devices if values["mini_batch"] is None else values["mini_batch"]
        return to_graph_pipeline(workload, device, link, devices=devices, mini_batch=samples, memory_bytes=memory)
    if kind == "staging":
        batches = 8 * devices if values["micro_batches"] is None else values["micro_batches"]
        return to_staging(
            workload,
            device,
            link,
            devices=devices,
            micro_batches=batches,
            memory_bytes=memory,
            merge=values["merge"],
        )
    own = {key: value for key, value in values.items() if key not in KIND_OF}
    return to_placement(workload, device, link, **own)


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
