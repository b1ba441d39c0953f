"""PyTorch models as profiles: functions that make a model, and configurations of transformers.

Importing this module must need no optional package: torch and transformers are imported when a model is traced, and
where one of them is missing `require` says what to install. What a model costs is calculated in `torch_profile`.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..instances.base.checks import check_whole
from ..instances.base.errors import (
    InputError,
    UsageError,
    did_you_mean,
    errors_in,
    named,
    show,
    unknown_choice,
    wrong_argument,
)
from ..instances.base.json_file import read_json
from ..instances.networks.profile.profile import MAX_SAMPLES, Profile
from ..instances.physics.hardware import DEVICES, Hardware
from ..instances.training.to_profile import (
    ACTIVATIONS,
    EAGER,
    FUSED,
    has_known_shapes,
    profile_of_shapes,
    with_fused_activations,
)

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
    sizes = () if micro_batch is None else (micro_batch,) if isinstance(micro_batch, int) else tuple(micro_batch)
    for size in sizes:
        check_whole("--micro-batch", size, MAX_SAMPLES)
    if len(set(sizes)) < len(sizes) or (micro_batch is not None and not sizes):
        raise InputError("--micro-batch", "names a size twice" if sizes else "is empty", "give sizes such as 1,2,4")
    device = None
    if not measure:
        device = calculated_on(hardware, efficiency, kernel_start_s)
    elif hardware is not None:
        raise UsageError("Give --hardware for calculated times or --measure for measured ones, not both.")
    elif efficiency is not None or kernel_start_s is not None:
        raise UsageError(
            "--efficiency and --kernel-start belong to calculated times; leave them out with --measure."
        )
    function = function_of(build) if isinstance(build, str) else build
    from .torch_profile import Costing, torch_profile

    how = Costing(device, repeats, training, granularity, attention, loss, allow_uncounted)
    source: Mapping[str, Any] = {"function": build} if isinstance(build, str) else {}
    return torch_profile(lambda samples: for_samples(function, samples), sizes, how, name=name, source=source)


def calculated_on(
    hardware: Hardware | str | None, efficiency: float | None, kernel_start_s: float | None
) -> Hardware:
    """The device that times are calculated for, with the caller's figures."""
    if hardware is None:
        raise UsageError(
            f"Give --hardware, one of {', '.join(DEVICES)}, for calculated times, or --measure for this machine's."
        )
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


def takes_samples(function: Callable[..., Any]) -> bool:
    """Does the function take the samples of a micro-batch?"""
    with suppress(TypeError, ValueError):  # of a function that does not tell its arguments
        return "micro_batch" in inspect.signature(function).parameters
    return False


def for_samples(function: Callable[..., Any], samples: int | None) -> Callable[[], Any]:
    """The function with `samples` as its argument micro_batch; None: the function as it is."""
    if samples is None:
        return function
    if not takes_samples(function):
        raise InputError(
            "--micro-batch",
            "is given, but the function takes no argument micro_batch",
            "let it be def build(micro_batch=4) and make inputs of that many samples",
        )
    return partial(function, micro_batch=samples)


# ---- extras ------------------------------------------------------------
# Optional packages: one sentence on what to install where one is missing.


# The extra that brings each package, by the name under which it is imported.
EXTRA_OF = {"torch": "torch", "transformers": "hf"}


def is_installed(*packages: str) -> bool:
    """Are all of these packages installed?"""
    return all(find_spec(package) is not None for package in packages)


def require(*packages: str) -> None:
    """Raise an error if one of these packages is missing; its remedy installs the extra of the last one."""
    for package in packages:
        if find_spec(package) is None:
            raise InputError(package, "is not installed", f"run pip install 'pipeplan[{EXTRA_OF[packages[-1]]}]'")


# ---- from hf ------------------------------------------------------------
# Hugging Face models as profiles, from a local configuration. Importing this module needs no optional package.


DTYPES = ("bfloat16", "float16", "float32")
# Most tokens of a sample; a larger number is taken for a mistake.
MAX_SEQUENCE = 10_000_000


def import_hf(
    config: str | os.PathLike[str] | Mapping[str, Any],
    *,
    batch: int = 1,
    sequence: int | None = None,
    dtype: str = "bfloat16",
    hardware: Hardware | str | None = None,
    training: bool = True,
    granularity: str = "block",
    efficiency: float | None = None,
    kernel_start_s: float | None = None,
    attention: str = "fused",
    allow_uncounted: bool = False,
    trace: bool | None = None,
    activations: str | None = None,
    name: str | None = None,
) -> Profile:
    """A profile of a model of transformers, from its configuration alone: no weights, and nothing from a hub.

    Parameters
    ----------
    config : str, PathLike or mapping
        A local config.json, or what it holds; it names its model_type and its class, under architectures.
    batch : int
        Samples of a micro-batch.
    sequence : int, optional
        Tokens of a sample. None: the model reads no text.
    dtype : str
        Type of the weights: bfloat16, float16 or float32.
    hardware : Hardware or str, optional
        The device whose times are calculated. None: an error lists the devices.
    training : bool
        Count backward passes and what is kept for them, too.
    granularity : str
        What a node is: block, module, op or share:0.1.
    efficiency : float, optional
        Share of its peak that the device reaches. None: the device's own figure.
    kernel_start_s : float, optional
        Seconds that the start of a kernel takes. None: the device's own figure.
    attention : str
        "fused", one kernel, or "math", step by step with its matrix of scores.
    allow_uncounted : bool
        Let operations that read weights count nothing where they have no formula.
    trace : bool, optional
        Build the model with torch and look at each of its operations, which takes a minute for a large one. False: the
        shapes in the configuration are enough, for architectures that are known. None: it is traced where torch is
        installed, and calculated from its shapes otherwise.
    activations : str, optional
        What layers keep for their backward passes: "fused", as training frameworks with fused kernels and flash
        attention keep it, or "eager", as PyTorch does operation by operation, which only a trace knows. None: fused for
        language models whose shapes are known, where nodes are blocks and attention is fused; eager otherwise.
    name : str, optional
        Name of the profile. None: that of the file or its folder, else that of the model's class.

    Returns
    -------
    Profile
        The costs of one micro-batch; `source` says where they come from.

    Raises
    ------
    InputError
        The configuration is of no model that transformers has, or its inputs are unknown.
    UsageError
        No hardware is named.
    """
    check_whole("--batch", batch, MAX_SAMPLES)
    if sequence is not None:
        check_whole("--sequence", sequence, MAX_SEQUENCE)
    if dtype not in DTYPES:
        raise unknown_choice("--dtype", dtype, DTYPES)
    device = calculated_on(hardware, efficiency, kernel_start_s)
    content, file = _content(config)
    enough = _shapes_are_enough(content, granularity, attention)
    kept = _activations(activations, enough, trace)
    if trace is None:
        trace = kept == EAGER or is_installed("torch", "transformers")
    sizes: dict[str, Any] = {"batch": batch, "sequence": sequence, "dtype": dtype, "training": training}
    told = errors_in(file) if file else nullcontext()
    if not trace:
        for option, value, only in (("granularity", granularity, "block"), ("attention", attention, "fused")):
            if value != only:
                raise UsageError(f"--{option} {value} needs a traced model; give --trace, or --{option} {only}.")
        with told:
            return profile_of_shapes(content, device, **sizes, name=name or _name(file))
    require("torch", "transformers")
    from .hf_model import HfModel
    from .torch_profile import Costing, torch_profile

    with told:
        model = HfModel(content, **sizes)
        how = Costing(device, 1, training, granularity, attention, None, allow_uncounted)
        source = {**model.source, "activations": EAGER}
        traced = torch_profile(lambda _: model.build, (batch,), how, name=name or _name(file), source=source)
        if kept == EAGER or not training:
            return traced
        return with_fused_activations(traced, profile_of_shapes(content, device, **sizes, name=traced.name))


def traces_what_is_known(
    config: str, *, trace: bool | None = None, activations: str | None = None, granularity: str = "block",
    attention: str = "fused", **_: object,
) -> bool:  # fmt: skip
    """Would `import_hf` trace the model, though the shapes in its configuration are enough?"""
    if trace is not None or activations == EAGER or not is_installed("torch", "transformers"):
        return False
    return _shapes_are_enough(_content(config)[0], granularity, attention)


def _activations(asked: str | None, enough: bool, trace: bool | None) -> str:
    """Either "fused" or "eager": what is asked for, else fused where shapes are enough or must be."""
    if asked is not None and asked not in ACTIVATIONS:
        raise unknown_choice("--activations", asked, ACTIVATIONS)
    if asked == FUSED and not enough:
        raise UsageError(
            "--activations fused is for language models of known shapes, their layers whole and attention fused; give "
            "--activations eager."
        )
    if asked == EAGER and trace is False:
        raise UsageError("--activations eager needs a traced model; drop --no-trace, or give --activations fused.")
    return asked or (FUSED if enough or trace is False else EAGER)


def _shapes_are_enough(content: Mapping[str, Any], granularity: str, attention: str) -> bool:
    return (granularity, attention) == ("block", "fused") and has_known_shapes(content)


def _content(config: object) -> tuple[dict[str, Any], str | None]:
    if isinstance(config, Mapping):
        return dict(config), None
    if not isinstance(config, (str, os.PathLike)):
        raise wrong_argument("config", config, "a file", "name a local config.json, or give its content as a dict")
    file = os.fspath(config)
    if not os.path.exists(file) and not file.endswith(".json") and file.count("/") <= 1:
        raise UsageError(
            f"{show(file)} is no file, and nothing is fetched from a hub; give a config.json that is on this machine."
        )
    if os.path.isdir(file):
        file = os.path.join(file, "config.json")
    content = read_json(file)
    if not isinstance(content, dict):
        raise InputError("the file", "holds no object", "give a model's config.json", file)
    return content, file


def _name(file: str | None) -> str | None:
    """The file's name; of a config.json that of its folder, which is called like the model."""
    if file is None:
        return None
    path = Path(file).absolute()
    return path.parent.name if path.name == "config.json" and path.parent.name else path.stem
