"""Problems by the name of their generator: pipelines of a few numbers, and graph pipelines of GraphPipe."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..instances.base.errors import UsageError, did_you_mean, unknown_name, wrong_argument
from ..instances.base.kind import Generator
from ..instances.base.quantities import size_or_none
from ..instances.graph_pipeline.models import GENERATORS as GRAPH_PIPELINES
from ..instances.networks.profile import packaged_profile_names
from ..instances.schedule.generators import GENERATORS as SCHEDULES

if TYPE_CHECKING:
    from ..instances.registry import Problem

GENERATORS: Mapping[str, Generator] = {**SCHEDULES, **GRAPH_PIPELINES}

# Type and meaning of every parameter of a generator.
PARAMETERS: Mapping[str, tuple[type, str]] = {
    "stages": (int, "for pipelines: how many stages, each on a device of its own"),
    "micro_batches": (int, "for pipelines and shapes: micro-batches in an iteration"),
    "forward": (float, "for pipelines: time of a forward pass"),
    "inputs": (float, "for pipelines: time of a backward pass for inputs"),
    "weights": (float, "for pipelines: time of a backward pass for weights"),
    "lag": (float, "for pipelines: from the end of a pass to the next stage"),
    "limit": (float, "memory of a device, in halves of a stage's activations; for shapes: in activations"),
    "devices": (int, "number of devices"),
    "virtual": (int, "for pipelines: stages on each device"),
    "undivided": (bool, "for pipelines: the backward pass is one block"),
    "seed": (int, "seed of all random numbers"),
    "layers": (int, "layers of a branch; default: the usual number of the model"),
    "mini_batch": (int, "samples between two updates; default: as many as usual for the devices"),
    "cluster": (str, "the cluster: summit-v100, summit-v100-fp32, summit-v100-ideal"),
    "memory_bytes": (float, "memory of a device; none: no limit; default: that of the cluster"),
    "half_samples": (float, "samples at which a device runs at half its rate; default: the model's own"),
    "branches": (int, "number of branches; default: the usual number of the model"),
    "join": (bool, "for the case study: with the concatenation at the end"),
}


def generate(name: str, **parameters: Any) -> Problem:
    """Make a problem: a pipeline or a shape of one, or a model of the GraphPipe paper.

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
    given = {"memory_bytes" if key == "memory" else key: value for key, value in parameters.items()}
    if isinstance(given.get("memory_bytes"), str):
        given["memory_bytes"] = size_or_none(given["memory_bytes"])
    try:
        return made(name, given)
    except UsageError as error:
        raise UsageError(_FLAG.sub(lambda flag: flag[1].replace("-", "_"), str(error))) from None


# Messages name options as the command line does.
_FLAG = re.compile(r"--([a-z][a-z-]*)")


def option_of(name: str) -> str:
    """The option of a parameter on the command line."""
    return "--memory" if name == "memory_bytes" else "--" + name.replace("_", "-")


def made(name: str, given: Mapping[str, Any]) -> Problem:
    """Make the problem of this name."""
    if name in packaged_profile_names():
        raise UsageError(
            f"{name!r} is a packaged profile, which every command reads by its name; "
            f"`plan convert {name} --devices 4xh100-80gb -o FILE` writes it as a problem."
        )
    if name not in GENERATORS:
        raise unknown_name("generator named", name, GENERATORS)
    generator = GENERATORS[name]
    _check_own(name, given, generator.parameters)
    if given.get("memory_bytes") != math.inf:
        return generator.build(**given)  # type: ignore[no-any-return]
    usual = generator.build(**{key: value for key, value in given.items() if key != "memory_bytes"})
    return usual.replace(memory_bytes=None)  # type: ignore[no-any-return]


def _check_own(name: str, given: Mapping[str, Any], own: tuple[str, ...]) -> None:
    """Refuse a parameter that this generator does not have, and any number but memory that is not finite."""
    foreign = next((key for key in given if key not in own), None)
    if foreign is not None:
        has, flag = list(map(option_of, own)), option_of(foreign)
        raise UsageError(f"{name!r} has no parameter {flag}{did_you_mean(flag, has)}; it has {', '.join(has)}.")
    for key, value in given.items():
        if isinstance(value, float) and not math.isfinite(value) and key != "memory_bytes":
            raise UsageError(f"{option_of(key)} is {value}; give a finite number.")
