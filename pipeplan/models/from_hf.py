"""Hugging Face models as profiles, from a local configuration. Importing this module needs no optional package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..instances.base.checks import check_whole
from ..instances.base.errors import InputError, UsageError, errors_in, show, unknown_choice, wrong_argument
from ..instances.base.json_file import read_json
from ..instances.networks.profile.profile import MAX_SAMPLES, Profile
from ..instances.physics.hardware import Hardware
from ..instances.training.to_profile import (
    ACTIVATIONS,
    EAGER,
    FUSED,
    has_known_shapes,
    profile_of_shapes,
    with_fused_activations,
)
from .from_torch import calculated_on, is_installed, require

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
    device = calculated_on(hardware, efficiency, kernel_start_s, ", or --measure for this machine's")
    content, file = _content(config)
    enough = _shapes_are_enough(content, granularity, attention)
    kept = _activations(activations, enough, trace)
    if trace is None:
        trace = kept == EAGER or is_installed("torch", "transformers")
    sizes: dict[str, Any] = {"batch": batch, "sequence": sequence, "dtype": dtype, "training": training}
    told = errors_in(file) if file else nullcontext()
    if not trace:
        _check_shapes_are_enough(granularity, attention)
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


def _check_shapes_are_enough(granularity: str, attention: str) -> None:
    for option, value, only in (("--granularity", granularity, "block"), ("--attention", attention, "fused")):
        if value != only:
            raise UsageError(f"{option} {value} needs a traced model; give --trace, or {option} {only}.")


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
