"""PyTorch models as profiles. Importing this module needs no optional package."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..instances.base.checks import check_whole
from ..instances.base.errors import InputError, UsageError, did_you_mean, named, show, wrong_argument
from ..instances.networks.profile.profile import MAX_SAMPLES, Profile
from ..instances.physics.hardware import DEVICES, Hardware

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
    if not measure:
        return calculated_on(hardware, efficiency, kernel_start_s, ", or --measure for this machine's")
    if efficiency is not None or kernel_start_s is not None:
        raise UsageError(
            "--efficiency and --kernel-start belong to calculated times; leave them out with --measure."
        )
    return None


def calculated_on(
    hardware: Hardware | str | None, efficiency: float | None, kernel_start_s: float | None, other: str = ""
) -> Hardware:
    """The device that times are calculated for, with the caller's figures; `other` is offered where none is given."""
    if hardware is None:
        raise UsageError(f"Give --hardware, one of {', '.join(DEVICES)}, for calculated times{other}.")
    device = hardware if isinstance(hardware, Hardware) else named(hardware, DEVICES, "hardware")
    if efficiency is not None and not 0 < efficiency <= 1:
        raise InputError("--efficiency", f"is {efficiency:g}", "give a share of the peak above 0, such as 0.5")
    if kernel_start_s is not None and not 0 <= kernel_start_s < 1:
        raise InputError("--kernel-start", f"is {kernel_start_s:g} s", "give a short time, such as 5us")
    if efficiency is not None:
        device = replace(device, efficiency=efficiency, grouped_products=None, attention=None)
    return device if kernel_start_s is None else replace(device, launch_s=kernel_start_s)


# ---- function file ------------------------------------------------------------
# FILE:FUNCTION, the only input that is ever executed: a function that makes a model and its inputs.


def place_of(text: str, argument: str = "FILE:FUNCTION") -> tuple[str, str]:
    """The file, which exists, and the name of a function in it."""
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name.isidentifier():
        raise InputError(argument, f"is {show(text)}", "give a file and a function in it, such as my.py:build")
    if not os.path.isfile(file):
        raise InputError("file", "does not exist", "check the path", file)
    return file, name


def function_of(text: str, argument: str = "FILE:FUNCTION") -> Callable[..., Any]:
    """The function that the text names; its file is run for that, and its folder can be imported from."""
    file, name = place_of(text, argument)
    names = vars(_run(os.path.abspath(file), file))
    if name not in names:
        guess = did_you_mean(name, [key for key, value in names.items() if inspect.isfunction(value)])
        raise InputError("file", f"has no function {show(name)}{guess}", "name one that it defines", file)
    if not callable(names[name]):
        raise InputError("file", f"has {show(name)}, but that is no function", "name a function", file)
    function: Callable[..., Any] = names[name]
    return function


def _run(path: str, file: str) -> Any:
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InputError("file", "is no Python file", "name one that ends in .py", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise InputError("file", f"cannot be run ({type(error).__name__}: {text})", "correct it", file) from error
    return module


def for_samples(function: Callable[..., Any], samples: int | None) -> Callable[[], Any]:
    """The function with `samples` as its argument micro_batch; None: the function as it is."""
    if samples is None:
        return function
    known: Container[str] = ()
    with suppress(TypeError, ValueError):  # of a function that does not tell its arguments
        known = inspect.signature(function).parameters
    if "micro_batch" not in known:
        raise InputError(
            "--micro-batch",
            "is given, but the function takes no argument micro_batch",
            "let it be def build(micro_batch=4) and make inputs of that many samples",
        )
    return partial(function, micro_batch=samples)


# ---- extras ------------------------------------------------------------
# Optional packages: one sentence on what to install where one is missing.


# The extra that brings each package, by the name under which it is imported.
EXTRA_OF = {"torch": "torch", "transformers": "hf", "onnx": "onnx"}


def is_installed(*packages: str) -> bool:
    """Are all of these packages installed?"""
    return all(find_spec(package) is not None for package in packages)


def require(*packages: str) -> None:
    """Raise an error if one of these packages is missing; its remedy installs the extra of the last one."""
    for package in packages:
        if find_spec(package) is None:
            raise InputError(package, "is not installed", f"run pip install 'pipeplan[{EXTRA_OF[packages[-1]]}]'")
