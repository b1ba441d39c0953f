"""Problems by the name of their generator: random ones by seed, and graph pipelines of GraphPipe."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..instances.base.errors import UsageError, did_you_mean, unknown_name, wrong_argument
from ..instances.base.kind import Generator, Parameter
from ..instances.base.quantities import size_or_none
from ..instances.graph_pipeline.models import GRAPH_MODELS, GraphModel
from ..instances.networks.profile import packaged_profile_names
from ..instances.registry import KINDS

if TYPE_CHECKING:
    from ..instances.registry import Problem


def generate(name: str, **parameters: Any) -> Problem:
    """Make a problem: a random one by seed, or a model of the GraphPipe paper.

    Parameters
    ----------
    name : str
        A generator, as `plan generate` lists them.
    parameters : int, float, str or bool
        Parameters of this generator, by the names of its options: `seed=1`, `devices=4`, `memory="16GiB"`.

    Returns
    -------
    Problem
        The problem, which `pipeplan.save` writes.

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
        return made(name, given)
    except UsageError as error:
        raise UsageError(_FLAG.sub(lambda flag: flag[1].replace("-", "_"), str(error))) from None


# Messages name options as the command line does.
_FLAG = re.compile(r"--([a-z][a-z-]*)")


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
    """Title and parameters of every generator, and of every model of a graph pipeline."""
    simple = {name: (generator.title, generator.parameters) for name, generator in generators().items()}
    models = {model.name: (model.title, graph_parameters(model)) for model in GRAPH_MODELS.values()}
    return {**simple, **models}


@cache
def generators() -> dict[str, Generator[Any]]:
    """The generators of all kinds, by their names."""
    tables = (kind.generators.load() for kind in KINDS.values() if kind.generators is not None)
    return {name: generator for generators in tables for name, generator in generators.items()}


def graph_parameters(model: GraphModel) -> tuple[Parameter, ...]:
    """The parameters of one model of a graph pipeline; its argument `devices` is called as in other commands."""
    own = {"accelerators" if name == "devices" else name for name in model.parameters}
    return tuple(parameter for parameter in GRAPH_PARAMETERS if parameter.name in own)


def made(name: str, given: Mapping[str, Any]) -> Problem:
    """Make the problem of this name."""
    entries = families()
    if name in packaged_profile_names():
        raise UsageError(
            f"{name!r} is a packaged profile, which every command reads by its name; "
            f"`plan convert {name} --devices 4xh100-80gb -o FILE` writes it as a problem."
        )
    if name not in entries:
        raise unknown_name("generator named", name, entries)
    _check_own(name, given, entries[name][1])
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
