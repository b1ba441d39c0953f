"""Problems by the name of their generator: random ones by seed, and profiles on named hardware."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..instances.base.checks import check_whole
from ..instances.base.errors import UsageError, did_you_mean, one_of, unknown_name, wrong_argument
from ..instances.base.kind import Generator, Parameter
from ..instances.base.quantities import size_or_none
from ..instances.graph_pipeline.models import GRAPH_MODELS, GraphModel
from ..instances.graph_pipeline.problem import MAX_MINI_BATCH
from ..instances.networks.profile import packaged_profile_names
from ..instances.networks.profile.profile import Profile
from ..instances.registry import KINDS

if TYPE_CHECKING:
    from ..instances.registry import Problem


def generate(name: str, **parameters: Any) -> Problem | Profile:
    """Make a problem: a random one by seed, or a known network on named hardware.

    Parameters
    ----------
    name : str
        A generator or a packaged profile, as `plan generate` lists them.
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
        return made(name, given, logging.getLogger("pipeplan").info)
    except UsageError as error:
        raise UsageError(_FLAG.sub(lambda flag: flag[1].replace("-", "_"), str(error))) from None


# Messages name options as the command line does.
_FLAG = re.compile(r"--([a-z][a-z-]*)")


# The entry that stands for all packaged profiles in lists of generators.
PROFILE = "PROFILE"
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
    """Title and parameters of every generator, of the profiles together, and of every model of a graph pipeline."""
    simple = {name: (generator.title, generator.parameters) for name, generator in generators().items()}
    profiles = {PROFILE: ("a network of a published configuration, on hardware", PROFILE_PARAMETERS)}
    models = {model.name: (model.title, graph_parameters(model)) for model in GRAPH_MODELS.values()}
    return {**simple, **profiles, **models}


@cache
def generators() -> dict[str, Generator[Any]]:
    """The generators of all kinds, by their names."""
    tables = (kind.generators.load() for kind in KINDS.values() if kind.generators is not None)
    return {name: generator for generators in tables for name, generator in generators.items()}


def graph_parameters(model: GraphModel) -> tuple[Parameter, ...]:
    """The parameters of one model of a graph pipeline; its argument `devices` is called as in other commands."""
    own = {"accelerators" if name == "devices" else name for name in model.parameters}
    return tuple(parameter for parameter in GRAPH_PARAMETERS if parameter.name in own)


def made(name: str, given: Mapping[str, Any], say: Callable[[str], None]) -> Problem | Profile:
    """Make the problem or profile of this name."""
    entries, profiles = families(), packaged_profile_names()
    if name not in (entries.keys() - {PROFILE}) | set(profiles):
        choices = [*generators(), *profiles, *GRAPH_MODELS]
        raise unknown_name("generator and no profile named", name, choices)
    _check_own(name, given, entries[PROFILE if name in profiles else name][1])
    if name in profiles:
        return _profiled(name, given, say)
    if given.get("memory_bytes") != math.inf:
        return _problem(name, given)
    usual = _problem(name, {key: value for key, value in given.items() if key != "memory_bytes"})
    return usual.replace(memory_bytes=None)


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
    named = {"devices" if key == "accelerators" else key: value for key, value in given.items()}
    return GRAPH_MODELS[name].build(**named)


def _profiled(name: str, given: Mapping[str, Any], say: Callable[[str], None]) -> Problem | Profile:
    """A problem from a packaged profile and a cluster of the given hardware; with --profile, the profile alone."""
    from ..instances.lowering import lower
    from ..instances.networks.profile import load_packaged_profile
    from ..instances.networks.profile.work import on_hardware
    from ..instances.physics.hardware import DEVICES, LINKS

    values = {**{parameter.name: parameter.default for parameter in PROFILE_PARAMETERS}, **given}
    device = DEVICES[one_of("--hardware", values["hardware"], DEVICES)]
    profile = on_hardware(load_packaged_profile(name), device)
    if values["profile"]:
        for foreign in (option_of(key) for key in given if key not in ("hardware", "profile")):
            raise UsageError(
                f"{foreign} says nothing about a profile, which has no cluster; drop {foreign} or --profile."
            )
        return profile
    if None not in (values["mini_batch"], values["micro_batches"]):
        raise UsageError("--mini-batch is for graph pipelines and --micro-batches for stagings; give one of them.")
    for key in ("mini_batch", "micro_batches"):
        if values[key] is not None:
            check_whole(option_of(key), values[key], MAX_MINI_BATCH)
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
