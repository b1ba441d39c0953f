"""Problems by the name of their generator: random ones by seed, chains of the theory, networks on named hardware."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..instances.base.errors import UsageError, did_you_mean, one_of, unknown_name, wrong_argument
from ..instances.base.generator import Generator, Parameter
from ..instances.base.quantities import size_or_none
from ..instances.chain.generators import CHAIN_GENERATORS
from ..instances.chain.known_answers import KnownChain
from ..instances.graph_pipeline.models import GRAPH_MODELS, GraphModel
from ..instances.networks.profile.packaged import packaged_profile_names
from ..instances.networks.profile.profile import Profile
from ..instances.registry import DEFAULT_KIND, KINDS

if TYPE_CHECKING:
    from ..instances.base.kind import Kind
    from ..instances.registry import Problem


def generate(name: str, **parameters: Any) -> Problem | Profile:
    """Make a problem: a random one by seed, a chain from the theory, or a known network on named hardware.

    Parameters
    ----------
    name : str
        A generator, a network or a packaged profile, as `plan generate` lists them.
    parameters : int, float, str or bool
        Parameters of this generator, by the names of its options: `seed=1`, `devices=4`, `memory="16GiB"`.

    Returns
    -------
    Problem or Profile
        A profile, a model without a cluster, where `profile=True` asks for one.

    Raises
    ------
    InputError
        A parameter has a value that the generator does not take.
    UsageError
        There is no such generator, or it has no such parameter; the message lists the existing ones.
    """
    if not isinstance(name, str):
        raise wrong_argument("name", name, "a name", "give one that `plan generate` lists")
    option_names = {option.removeprefix("--").replace("-", "_"): own for own, option in OPTION_OF.items()}
    given = {option_names.get(key, key): value for key, value in parameters.items()}
    if isinstance(given.get("memory_bytes"), str):
        given["memory_bytes"] = size_or_none(given["memory_bytes"])
    try:
        return made(name, given, logging.getLogger("pipeplan").info)[0]
    except UsageError as error:
        raise UsageError(_FLAG.sub(lambda flag: flag[1].replace("-", "_"), str(error))) from None


# Messages name options as the command line does.
_FLAG = re.compile(r"--([a-z][a-z-]*)")


# Only chains of the benchmark have this parameter: planners are needed to find the two amounts.
TIGHTNESS = Parameter(
    "tightness",
    "float",
    None,
    "memory between that of an eager contiguous pipeline with one batch in flight (0) and with two batches more than "
    "GPUs (1); not with --memory",
)


def parameters_of(name: str) -> tuple[Parameter, ...]:
    own = CHAIN_GENERATORS[name].parameters
    return (*own, TIGHTNESS) if name == "resnet-like" else own


def build_chain(name: str, given: Mapping[str, Any]) -> KnownChain:
    """A chain with its known answers; `given` holds parameters of this generator alone."""
    arguments = dict(given)
    share = arguments.pop("tightness", None)
    if arguments.get("memory_bytes") == math.inf:
        arguments["memory_bytes"] = None
    if share is not None and "memory_bytes" in given:
        raise UsageError("--tightness and --memory both say how much memory there is; drop one of them.")
    chain = CHAIN_GENERATORS[name](**arguments)
    return chain if share is None else _tightened(chain, share)


def _tightened(known: KnownChain, share: float) -> KnownChain:
    """The chain with memory at this share of the way between the two amounts of `TIGHTNESS`."""
    from ..instances.chain.random_chains import tightness
    from ..planners.chain.baselines import memory_levels

    problem = tightness(known.problem, *memory_levels(known.problem), share)
    return KnownChain(problem.replace(name=f"{problem.name}-tight{share:g}"), known.answers, known.source)


# The entries that stand for all networks, and for all packaged profiles, in lists of generators.
NETWORK, PROFILE = "NETWORK", "PROFILE"
NETWORK_PARAMETERS = (
    Parameter(
        "kind",
        "text",
        "placement",
        "kind of problem: placement, graph-pipeline or staging (both always training)",
    ),
    Parameter("mini_batch", "int", None, "for graph pipelines: samples between two updates of the weights"),
    Parameter("micro_batches", "int", None, "for stagings: micro-batches in a batch; default: 8 for each device"),
    Parameter(
        "merge", "flag", True, "for stagings: one layer for each block of the network, else for each operator"
    ),
    Parameter("zero", "int", None, "for stagings: the ZeRO stage by which replicas divide their states"),
    Parameter("batch", "int", None, "samples in a (micro-)batch; default: the usual number of the network"),
    Parameter("hardware", "text", "v100-pcie-16gb", "the accelerator: v100-pcie-16gb, a100-40gb, ..."),
    Parameter("link", "text", "pcie3-x16", "the link to the host: pcie3-x16, pcie4-x16, ..."),
    Parameter("accelerators", "int", 4, "number of accelerators"),
    Parameter("cpus", "int", 0, "number of CPUs"),
    Parameter("memory_bytes", "size", None, "memory of an accelerator; default: that of the hardware"),
    Parameter("training", "flag", False, "add the backward pass"),
    Parameter("profile", "flag", False, "write the profile, a model without a cluster, not a problem"),
)
PROFILE_PARAMETERS = (
    Parameter("kind", "text", None, "kind of problem; default: one that fits"),
    Parameter("hardware", "text", "h100-80gb", "the accelerator, whose times are calculated"),
    Parameter("link", "text", "nvlink4", "what joins the accelerators"),
    Parameter("accelerators", "int", 4, "number of devices"),
    Parameter("memory_bytes", "size", None, "memory of a device; default: that of the hardware"),
    Parameter("mini_batch", "int", None, "for graph pipelines: samples between two updates"),
    Parameter("micro_batches", "int", None, "for stagings: micro-batches in a batch"),
    Parameter("optimizer", "text", None, "for networks of published configurations: sgd, adam, adam-mixed, ..."),
    Parameter("profile", "flag", False, "write the profile, not a problem"),
)
GRAPH_PARAMETERS = (
    Parameter("accelerators", "int", 8, "number of devices"),
    Parameter("branches", "int", None, "number of branches; default: the usual number of the model"),
    Parameter("layers", "int", None, "layers of a branch; default: the usual number of the model"),
    Parameter("mini_batch", "int", None, "samples between two updates; default: as many as usual for the devices"),
    Parameter("cluster", "text", "summit-v100", "the cluster: summit-v100, summit-v100-fp32, summit-v100-ideal"),
    Parameter("memory_bytes", "size", None, "memory of a device; default: that of the cluster"),
    Parameter(
        "half_samples", "float", None, "samples at which a device runs at half its rate; default: the model's own"
    ),
    Parameter("join", "flag", True, "for the case study: with the concatenation at the end"),
)
# Parameters whose option has another name on the command line, as in other commands.
OPTION_OF = {"accelerators": "--devices", "memory_bytes": "--memory"}


def option_of(name: str) -> str:
    return OPTION_OF.get(name, "--" + name.replace("_", "-"))


def families() -> dict[str, tuple[str, tuple[Parameter, ...]]]:
    """Title and parameters of every generator, of the networks together, and of every model of a graph pipeline."""
    simple = {name: (generator.title, generator.parameters) for name, generator in generators().items()}
    chains = {name: (generator.title, parameters_of(name)) for name, generator in CHAIN_GENERATORS.items()}
    networks = {
        NETWORK: ("one of those below, on hardware", NETWORK_PARAMETERS),
        PROFILE: ("a network of a published configuration, on hardware", PROFILE_PARAMETERS),
    }
    models = {model.name: (model.title, graph_parameters(model)) for model in GRAPH_MODELS.values()}
    return {**simple, **chains, **networks, **models}


@cache
def generators() -> dict[str, Generator[Any]]:
    """The generators of all kinds, by their names."""
    tables = (kind.generators.load() for kind in KINDS.values() if kind.generators is not None)
    return {name: generator for generators in tables for name, generator in generators.items()}


def graph_parameters(model: GraphModel) -> tuple[Parameter, ...]:
    """The parameters of one model of a graph pipeline; its argument `devices` is called as in other commands."""
    own = {"accelerators" if name == "devices" else name for name in model.parameters}
    return tuple(parameter for parameter in GRAPH_PARAMETERS if parameter.name in own)


def made(
    name: str, given: Mapping[str, Any], say: Callable[[str], None]
) -> tuple[Problem | Profile, KnownChain | None]:
    """Make the problem or profile of this name; with a chain come its known answers."""
    from ..instances.networks.analytic import WORKLOADS

    entries, profiles = families(), packaged_profile_names()
    if name not in (entries.keys() - {NETWORK, PROFILE}) | WORKLOADS.keys() | set(profiles):
        choices = [*generators(), *CHAIN_GENERATORS, *WORKLOADS, *profiles, *GRAPH_MODELS]
        raise unknown_name("generator and no network named", name, choices)
    family = PROFILE if name in profiles else name if name in entries else NETWORK
    _check_own(name, given, entries[family][1])
    if family == PROFILE:
        return _profiled(name, given, say), None
    if given.get("profile"):
        return _profile_of_network(name, given), None
    if name in CHAIN_GENERATORS:
        chain = build_chain(name, given)
        return chain.problem, chain
    if given.get("memory_bytes") != math.inf:
        return _problem(name, given), None
    usual = _problem(name, {key: value for key, value in given.items() if key != "memory_bytes"})
    return usual.replace(memory_bytes=None), None


def _check_own(name: str, given: Mapping[str, Any], parameters: Iterable[Parameter]) -> None:
    """Refuse a parameter that this generator does not have, and any number but memory that is not finite."""
    own = [parameter.name for parameter in parameters]
    foreign = next((key for key in given if key not in own), None)
    if foreign is not None:
        has, flag = list(map(option_of, own)), option_of(foreign)
        guess = did_you_mean(flag, has)
        raise UsageError(f"{name!r} has no parameter {flag}{guess}; it has {', '.join(has) or 'none'}.")
    for key, value in given.items():
        if isinstance(value, float) and not math.isfinite(value) and key != "memory_bytes":
            raise UsageError(f"{option_of(key)} is {value}; give a finite number.")


def _problem(name: str, given: Mapping[str, Any]) -> Problem:
    if name in generators():
        problem: Problem = generators()[name](**given)
        return problem
    if name in GRAPH_MODELS:
        named = {"devices" if key == "accelerators" else key: value for key, value in given.items()}
        return GRAPH_MODELS[name].build(**named)
    return _network(name, given)


def _profiled(name: str, given: Mapping[str, Any], say: Callable[[str], None]) -> Problem | Profile:
    """A problem from a packaged profile and a cluster of the given hardware; with --profile, the profile alone."""
    from ..instances.lowering import lower
    from ..instances.networks.analytic import DEVICES, LINKS
    from ..instances.networks.profile.packaged import load_packaged_profile
    from ..instances.networks.profile.work import on_hardware

    values = {**{parameter.name: parameter.default for parameter in PROFILE_PARAMETERS}, **given}
    device = DEVICES[one_of("--hardware", values["hardware"], DEVICES)]
    profile = on_hardware(load_packaged_profile(name), device)
    if values["profile"]:
        _refuse_beside_profile(given, ("hardware",))
        return profile
    if None not in (values["mini_batch"], values["micro_batches"]):
        raise UsageError("--mini-batch is for graph pipelines and --micro-batches for stagings; give one of them.")
    memory = device.memory_bytes if values["memory_bytes"] is None else values["memory_bytes"]
    lowered = lower(
        profile,
        kind=values["kind"],
        devices=values["accelerators"],
        memory_bytes=memory,
        bandwidth=LINKS[one_of("--link", values["link"], LINKS)].bytes_per_s,
        batch=values["micro_batches"] if values["mini_batch"] is None else values["mini_batch"],
        optimizer=values["optimizer"],
    )
    for note in lowered.notes:
        say(note)
    problem: Problem = lowered.problem
    return problem


def _profile_of_network(name: str, given: Mapping[str, Any]) -> Profile:
    from ..instances.networks.analytic import DEVICES, build
    from ..instances.networks.analytic.profile import to_profile

    _refuse_beside_profile(given, ("hardware", "batch", "merge"))
    device = DEVICES[one_of("--hardware", given.get("hardware", "v100-pcie-16gb"), DEVICES)]
    return to_profile(build(name, given.get("batch")), device, merge=given.get("merge", True))


def _refuse_beside_profile(given: Mapping[str, Any], own: Collection[str]) -> None:
    foreign = next((key for key in given if key not in (*own, "profile")), None)
    if foreign is not None:
        option = option_of(foreign)
        raise UsageError(
            f"{option} says nothing about a profile, which has no cluster; drop {option} or --profile."
        )


def _network(name: str, given: Mapping[str, Any]) -> Problem:
    from ..instances.networks.analytic import DEVICES, LINKS, build

    values = {**{parameter.name: parameter.default for parameter in NETWORK_PARAMETERS}, **given}
    if values["batch"] is not None and values["batch"] < 1:
        raise UsageError(f"--batch is {values['batch']}; give a whole number >= 1.")
    for key, table in (("hardware", DEVICES), ("link", LINKS)):
        one_of(f"--{key}", values[key], table)
    kinds = {kind.name: kind for kind in sorted(KINDS.values(), key=_usual_first) if kind.network is not None}
    kind = kinds[one_of("--kind", values["kind"], kinds)]
    _refuse_of_other_kinds(kind, kinds, given)
    devices = values["accelerators"]
    arguments = {kind.cluster["devices"]: devices, "memory_bytes": values["memory_bytes"]}
    for key, for_each_device in kind.network_arguments.items():
        usual = None if for_each_device is None else for_each_device * devices
        arguments[key] = usual if values[key] is None else values[key]
    workload = build(name, arguments.pop("batch", None))
    assert kind.network is not None, kind.name  # others are not in the table
    problem: Problem = kind.network(workload, DEVICES[values["hardware"]], LINKS[values["link"]], **arguments)
    return problem


def _usual_first(kind: Kind[Any, Any]) -> tuple[bool, str]:
    return kind is not DEFAULT_KIND, kind.name


def _refuse_of_other_kinds(
    kind: Kind[Any, Any], kinds: Mapping[str, Kind[Any, Any]], given: Mapping[str, Any]
) -> None:
    """Refuse an argument that other kinds take and this one does not; suggest another kind, but never the usual one."""
    for key in (parameter.name for parameter in NETWORK_PARAMETERS if parameter.name in given):
        takers = [name for name, other in kinds.items() if key in other.network_arguments]
        if not takers or kind.name in takers:
            continue
        if DEFAULT_KIND.name in takers:
            raise UsageError(
                f"{option_of(key)} says nothing about a {kind.name.replace('-', ' ')}; drop {option_of(key)}."
            )
        plural = takers[0].replace("-", " ") + "s"
        raise UsageError(f"{option_of(key)} is for {plural}; give --kind {takers[0]} as well, or drop it.")
