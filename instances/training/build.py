"""A training problem from words: a model's name or file, and GPUs as in "64xh100-80gb"."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import InputError, UsageError, did_you_mean, errors_in, show
from ..base.fields import require
from ..base.json_file import parse_json, read_text
from ..base.quantities import levels as levels_of_text
from ..physics.efficiencies import Efficiencies, check_name
from ..physics.hardware import KnownGpu, devices_and_gpu, usual_of
from ..physics.optimizers import USUAL_OPTIMIZER
from .known_models import MODELS, known_model, with_layers
from .model import Model
from .problem import USUAL_RESERVE, Gpu, Level, TrainingProblem, check_hardware

if TYPE_CHECKING:
    from ..networks.profile.profile import Profile

CONFIG = "config.json"
# Ends of the names of files that hold a model.
FILES = (".json", ".csv", ".tsv", ".xlsx", ".parquet")

GivenLevels = str | Sequence[Level | tuple[int, float]] | None


def problem_of(
    model: str | os.PathLike[str] | Model,
    devices: str,
    *,
    batch: int,
    sequence: int,
    levels: GivenLevels = None,
    memory_bytes: float | None = None,
    precision: str = "bf16",
    framework: str = "megatron",
    optimizer: str = USUAL_OPTIMIZER,
    layers: int | None = None,
    dense_layers: int | None = None,
    reserve_bytes: float | None = None,
    efficiencies: Efficiencies | Mapping[str, float] | None = None,
    name: str | None = None,
    **flags: bool,
) -> TrainingProblem:
    """The problem of training a model on GPUs, which `devices` counts and names as in "64xh100-80gb".

    `model` is a packaged name, a `config.json` or the folder that holds one, a training problem's file, a profile or a
    table of layers, or a model. `levels` is text such as "8x450GB/s,8x50GB/s", or levels; None: the usual node of that
    GPU. `flags` are the problem's own: flash_attention, sequence_parallel, dropout, fused_loss, fp8_weight_copy.
    """
    number, gpu = devices_and_gpu(devices)
    shapes = with_layers(model_of(model), layers, dense_layers)
    memory = gpu.memory_bytes if memory_bytes is None else memory_bytes
    card = Gpu(gpu.name, memory, gpu.flops, gpu.memory_rate)
    problem = TrainingProblem(
        model=shapes,
        gpu=card,
        devices=number,
        levels=_levels(levels, number, gpu),
        batch=batch,
        sequence=sequence,
        precision=precision,
        framework=framework,
        optimizer=optimizer,
        reserve_bytes=USUAL_RESERVE if reserve_bytes is None else reserve_bytes,
        efficiencies=_efficiencies(efficiencies, gpu.name),
        name=f"{shapes.name}-{number}x{gpu.name}" if name is None else name,
        **flags,
    )
    return check_hardware(problem)


def _efficiencies(given: Efficiencies | Mapping[str, float] | None, gpu: str) -> Efficiencies:
    if isinstance(given, Efficiencies):
        return given
    return replace(usual_of(gpu), **{check_name(name): value for name, value in (given or {}).items()})


def _levels(given: GivenLevels, devices: int, gpu: KnownGpu) -> tuple[Level, ...]:
    """The levels of links; where one is given without a latency, it has the usual one of that GPU."""
    if given is None:
        return tuple(Level(*level) for level in gpu.levels(devices))
    try:
        entries = levels_of_text(given) if isinstance(given, str) else given
    except ValueError as error:
        raise UsageError(f"--levels: {error}") from None
    if not entries:
        raise InputError("levels", "name no link", 'give at least one level, as in "8x450GB/s"')
    seconds = (gpu.inside_seconds, *(gpu.between_seconds for _ in entries[1:]))
    return tuple(
        entry if isinstance(entry, Level) else Level(*entry, latency_seconds=latency)
        for entry, latency in zip(entries, seconds, strict=True)
    )


# ---- models ----------------------------------------------------------------------------------------------


def model_of(given: str | os.PathLike[str] | Model) -> Model:
    """The model of that name, in that file or folder, or the model itself."""
    if isinstance(given, Model):
        return given
    if isinstance(given, str) and not _is_path(given):
        return known_model(given)
    return _read(Path(given))


def _is_path(text: str) -> bool:
    """Is this a path, not a packaged name? Text that is neither a name nor looks like a path is refused."""
    if text.strip().lower().replace("_", "-") in MODELS:
        return False
    if os.path.exists(text) or text.endswith(FILES) or text.startswith((".", "/", "~")):
        return True
    if "/" in text:
        raise UsageError(
            f"There is no file or folder {show(text)}; save the model's config.json and name it, "
            f"or choose one of {', '.join(MODELS)}."
        )
    raise UsageError(
        f"There is no model named {show(text)}{did_you_mean(text, MODELS)}; "
        f"choose one of {', '.join(MODELS)}, or give the path of a config.json."
    )


def _read(path: Path) -> Model:
    """The model in a table, a profile, a training problem or a `config.json`; errors name the file."""
    # Rules of every family, and readers of tables, which packaged names do without.
    from ..foreign import is_profile, looks_like_table, refuse_foreign_file
    from ..networks.profile.profile import profile_from_json
    from ..networks.profile.table import read_table
    from .config_json import model_from_config
    from .files import SCHEMA, read_model

    path = path.expanduser()
    if path.is_dir():
        path = path / CONFIG
    refuse_foreign_file(path)
    if looks_like_table(path):
        return _of_profile(read_table(path), path)
    data: Any = parse_json(read_text(path), str(path))
    with errors_in(path):
        if is_profile(data):
            return _of_profile(profile_from_json(data), path)
        if isinstance(data, dict) and data.get("schema") == SCHEMA:
            model: Model = read_model("model", require("", data, "model"))
            return model
        return model_from_config(data, _name(path))


def _of_profile(profile: Profile, path: Path) -> Model:
    from .from_profile import model_of_profile

    with errors_in(path):
        return model_of_profile(profile)


def _name(path: Path) -> str:
    """The model's name: that of the file, or of its folder where the file has the name that all such files have."""
    name = path.stem if path.name != CONFIG else path.resolve().parent.name
    return name[:100] or "model"
