"""PyTorch models as profiles. Importing this module needs no optional package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..instances.base.checks import check_whole
from ..instances.base.errors import InputError, UsageError, named, wrong_argument
from ..instances.networks.profile.profile import MAX_SAMPLES, Profile
from ..instances.physics.hardware import DEVICES, Hardware
from .extras import require
from .function_file import for_samples, function_of

_BUILD = "give a function that returns (model, args, kwargs), or 'my.py:build'"


def import_torch(
    build: Callable[..., Any] | str,
    *,
    hardware: Hardware | str | None = None,
    measure: bool = False,
    repeats: int = 10,
    training: bool = True,
    granularity: str = "block",
    micro_batch: int | Sequence[int] | None = None,
    efficiency: float | None = None,
    kernel_start_s: float | None = None,
    attention: str = "fused",
    loss: str | None = None,
    allow_uncounted: bool = False,
    name: str | None = None,
) -> Profile:
    """A profile of a PyTorch model: what its parts cost, before any cluster is known.

    Parameters
    ----------
    build : callable or str
        Takes nothing and returns (model, args, kwargs): the inputs of one micro-batch. In training the first scalar
        output that can be differentiated is the loss. A text names a file and a function in it: "my.py:build".
    hardware : Hardware or str, optional
        The device whose times are calculated, on tensors without memory. None: times are measured.
    measure : bool
        Run real passes on this machine instead.
    repeats : int
        How many passes are measured; their median counts.
    training : bool
        Count backward passes and what is kept for them, too.
    granularity : str
        What a node is: block, the outermost numbered module; module; op; or share:0.1, modules divided while they hold
        more than this share of the operations.
    micro_batch : int or sequence of int, optional
        Samples of a micro-batch, which `build` takes as its argument micro_batch; with several, times are curves, and
        all other amounts are of the first. None: as many as the first input has.
    efficiency : float, optional
        Share of its peak that the device reaches. None: the device's own figure.
    kernel_start_s : float, optional
        Seconds that the start of a kernel takes. None: the device's own figure.
    attention : str
        "fused", one kernel, or "math", step by step with its matrix of scores.
    loss : str, optional
        "sum" takes the sum of the first output. None: the model returns its loss.
    allow_uncounted : bool
        Let operations that read weights count nothing where they have no formula.
    name : str, optional
        Name of the profile. None: that of the model's class.

    Returns
    -------
    Profile
        The costs of one micro-batch; `source` says where they come from, and holds warnings if there are any.

    Raises
    ------
    InputError
        The model cannot be captured, or its operations cannot be counted; torch is not installed.
    UsageError
        Neither hardware nor measuring is asked for, or both.
    """
    require("torch")
    if not isinstance(build, str) and not callable(build):
        raise wrong_argument("build", build, "a function", _BUILD)
    sizes = _sizes(micro_batch)
    device = device_of(hardware, efficiency, kernel_start_s, measure=measure)
    function = function_of(build) if isinstance(build, str) else build
    from .torch_profile import Costing, torch_profile

    how = Costing(device, repeats, training, granularity, attention, loss, allow_uncounted)
    source: Mapping[str, Any] = {"function": build} if isinstance(build, str) else {}
    return torch_profile(lambda samples: for_samples(function, samples), sizes, how, name=name, source=source)


def _sizes(micro_batch: int | Sequence[int] | None) -> tuple[int, ...]:
    if micro_batch is None:
        return ()
    sizes = (micro_batch,) if isinstance(micro_batch, int) else tuple(micro_batch)
    for size in sizes:
        check_whole("--micro-batch", size, MAX_SAMPLES)
    if len(set(sizes)) < len(sizes) or not sizes:
        raise InputError("--micro-batch", "names a size twice" if sizes else "is empty", "give sizes such as 1,2,4")
    return sizes


def device_of(
    hardware: Hardware | str | None,
    efficiency: float | None,
    kernel_start_s: float | None,
    *,
    measure: bool = False,
) -> Hardware | None:
    """The device with the caller's figures; None where times are measured."""
    if measure and hardware is not None:
        raise UsageError("Give --hardware for calculated times or --measure for measured ones, not both.")
    if measure and (efficiency is not None or kernel_start_s is not None):
        raise UsageError(
            "--efficiency and --kernel-start belong to calculated times; leave them out with --measure."
        )
    if measure:
        return None
    return calculated_on(hardware, efficiency, kernel_start_s, ", or --measure for this machine's")


def calculated_on(
    hardware: Hardware | str | None, efficiency: float | None, kernel_start_s: float | None, other: str = ""
) -> Hardware:
    """The device that times are calculated for; `other` is what the error offers in place of it."""
    if hardware is None:
        raise UsageError(f"Give --hardware, one of {', '.join(DEVICES)}, for calculated times{other}.")
    device = hardware if isinstance(hardware, Hardware) else named(hardware, DEVICES, "hardware")
    return with_figures(device, efficiency, kernel_start_s)


def with_figures(hardware: Hardware, efficiency: float | None, kernel_start_s: float | None) -> Hardware:
    """The device with the caller's own figures."""
    if efficiency is not None and not 0 < efficiency <= 1:
        raise InputError("--efficiency", f"is {efficiency:g}", "give a share of the peak above 0, such as 0.5")
    if kernel_start_s is not None and not 0 <= kernel_start_s < 1:
        raise InputError("--kernel-start", f"is {kernel_start_s:g} s", "give a short time, such as 5us")
    if efficiency is not None:
        hardware = replace(hardware, grouped_products=None, attention=None)
    return replace(
        hardware,
        efficiency=hardware.efficiency if efficiency is None else efficiency,
        launch_s=hardware.launch_s if kernel_start_s is None else kernel_start_s,
    )
