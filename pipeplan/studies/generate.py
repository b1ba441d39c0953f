"""Schedule problems by the name of their generator: pipelines of a few numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..instances.base.errors import UsageError, did_you_mean, unknown_name, wrong_argument
from ..instances.networks.profile import packaged_profile_names
from ..instances.schedule.generators import GENERATORS

if TYPE_CHECKING:
    from ..instances.registry import Problem

# Type and meaning of every parameter of a generator.
PARAMETERS: Mapping[str, tuple[type, str]] = {
    "stages": (int, "how many stages, each on a device of its own"),
    "devices": (int, "number of devices, with several stages on each"),
    "virtual": (int, "stages on each device"),
    "micro_batches": (int, "micro-batches in an iteration"),
    "forward": (float, "time of a forward pass"),
    "inputs": (float, "time of a backward pass for inputs"),
    "weights": (float, "time of a backward pass for weights"),
    "undivided": (bool, "the backward pass is one block"),
    "lag": (float, "from the end of a pass to the next stage"),
    "limit": (float, "memory of a device, in halves of a stage's activations"),
}


def generate(name: str, **parameters: Any) -> Problem:
    """Make a schedule problem: a pipeline of equal stages.

    Parameters
    ----------
    name : str
        A generator, as `plan generate` lists them.
    parameters : int, float or bool
        Parameters of this generator, by the names of its options: `stages=4`, `lag=0.5`.

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
    try:
        return made(name, parameters)
    except UsageError as error:
        raise UsageError(_FLAG.sub(lambda flag: flag[1].replace("-", "_"), str(error))) from None


# Messages name options as the command line does.
_FLAG = re.compile(r"--([a-z][a-z-]*)")


def option_of(name: str) -> str:
    """The option of a parameter on the command line."""
    return "--" + name.replace("_", "-")


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
    return generator.build(**given)  # type: ignore[no-any-return]


def _check_own(name: str, given: Mapping[str, Any], own: tuple[str, ...]) -> None:
    """Refuse a parameter that this generator does not have, and any number that is not finite."""
    foreign = next((key for key in given if key not in own), None)
    if foreign is not None:
        has, flag = list(map(option_of, own)), option_of(foreign)
        raise UsageError(f"{name!r} has no parameter {flag}{did_you_mean(flag, has)}; it has {', '.join(has)}.")
    for key, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{option_of(key)} is {value}; give a finite number.")
