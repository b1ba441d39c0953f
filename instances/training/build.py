"""A training problem from words: a model's name or file, and GPUs as in "64xh100-80gb".

To add a packaged model, add its shapes and their source to `_published`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.checks import check_whole
from ..base.errors import InputError, UsageError, did_you_mean, errors_in, named, show
from ..base.fields import require
from ..base.json_file import parse_json, read_text
from ..base.quantities import levels as levels_of_text
from ..base.quantities import several
from ..physics.device_file import devices_of_file
from ..physics.efficiencies import ATTENTION_KERNELS, AttentionKernel, Efficiencies, check_name
from ..physics.hardware import KnownGpu, devices_and_gpu, devices_by_gpu
from ..physics.optimizers import USUAL_OPTIMIZER
from .encoder import keeps_own, read_encoder
from .frameworks import FRAMEWORKS, Framework
from .lengths import read_lengths
from .model import MOST_LAYERS, MOST_PREDICTION_LAYERS, Attention, Experts, Mlp, Model
from .problem import USUAL_RESERVE, Gpu, Level, Pool, TrainingProblem, check_hardware

if TYPE_CHECKING:
    from ..networks.profile.profile import Profile


# ---- models by name -----------------------------------------------------------------------------------
#
# Models by name: their shapes as published, each with its source, and how they are cut or lengthened.


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model with the place where its shapes are published."""

    model: Model
    source: str


def _gpt(name: str, layers: int, hidden: int, heads: int, **more: Any) -> Model:
    """A model of the GPT type: biases everywhere, learned positions, one table of words; as Megatron trains it."""
    attention = Attention(heads, hidden // heads, heads, bias=True, output_bias=True)
    usual = {"vocabulary": 51_200, "positions": 2_048, "mlp": Mlp(4 * hidden, gated=False, bias=True)}
    return Model(name, hidden, layers, attention=attention, tied=True, norm="layer", **{**usual, **more})


def _llama(name: str, layers: int, hidden: int, heads: int, mlp: int) -> Model:
    return Model(name, hidden, layers, 128_256, Attention(heads, hidden // heads, 8), Mlp(mlp))


def _mixtral(name: str, layers: int, hidden: int, heads: int, expert: int, vocabulary: int) -> Model:
    attention, experts = Attention(heads, hidden // heads, 8), Experts(count=8, per_token=2, hidden=expert)
    return Model(name, hidden, layers, vocabulary, attention, experts=experts)


def _qwen3(name: str, layers: int, hidden: int, heads: int, expert: int) -> Model:
    attention = Attention(heads, 128, key_value_heads=4, query_key_norm=True)
    return Model(name, hidden, layers, 151_936, attention, experts=Experts(128, 8, expert))


def _published() -> Iterator[tuple[Model, str]]:
    """All packaged models, each with its source."""
    paper, herd = "Korthikanti et al., arXiv 2205.05198, table 3", "Llama Team, arXiv 2407.21783, table 3"
    yield _gpt("gpt-3-175b", 96, 12_288, 96), paper
    yield _gpt("megatron-22b", 48, 6_144, 64), paper
    yield _gpt("turing-530b", 105, 20_480, 128), paper
    yield _gpt("megatron-1t", 128, 25_600, 160), paper
    yield _llama("llama-3-8b", 32, 4_096, 32, 14_336), herd
    yield _llama("llama-3-70b", 80, 8_192, 64, 28_672), herd
    yield _llama("llama-3-405b", 126, 16_384, 128, 53_248), herd
    config = "config.json of {} at huggingface.co"
    small = _mixtral("mixtral-8x7b", 32, 4_096, 32, 14_336, 32_000)
    yield small, "Jiang et al., arXiv 2401.04088, table 1"
    yield _mixtral("mixtral-8x22b", 56, 6_144, 48, 16_384, 32_000), config.format("mistralai/Mixtral-8x22B-v0.1")
    for name, shape in (("30B-A3B", (48, 2_048, 32, 768)), ("235B-A22B", (94, 4_096, 64, 1_536))):
        source = f"Qwen Team, arXiv 2505.09388, table 2, and {config.format(f'Qwen/Qwen3-{name}')}"
        yield _qwen3(f"qwen3-{name.lower()}", *shape), source
    attention = Attention(64, 64, 8, bias=True, output_bias=True, sinks=True, window=128, windowed_share=0.5)
    experts = Experts(128, 4, 2_880, bias=True, router_bias=True)
    oss = Model("gpt-oss-120b", 2_880, 36, 201_088, attention, experts=experts)
    yield oss, "OpenAI, arXiv 2508.10925, section 2, and config.json of openai/gpt-oss-120b"
    latent = Attention(128, 128, 128, value_size=128, query_rank=1_536, key_value_rank=512, rope_size=64)
    experts = Experts(160, 6, 1_536, shared_hidden=2 * 1_536, dense_layers=1)
    v2 = Model("deepseek-v2", 5_120, 60, 102_400, latent, Mlp(12_288), experts)
    yield v2, "DeepSeek-AI, arXiv 2405.04434, section 3.1.2"
    experts = Experts(256, 8, 2_048, shared_hidden=2_048, dense_layers=3, router_bias=True)
    v3 = Model("deepseek-v3", 7_168, 61, 129_280, latent, Mlp(18_432), experts, prediction_layers=1)
    yield v3, "DeepSeek-AI, arXiv 2412.19437, section 4.2"
    sizes = {"vocabulary": 50_272, "positions": 2_050, "embedding_size": 512}
    yield _gpt("opt-350m", 24, 1_024, 16, final_norm=False, **sizes), config.format("facebook/opt-350m")


MODELS: Mapping[str, KnownModel] = {model.name: KnownModel(model, source) for model, source in _published()}


def known_model(name: str) -> Model:
    """The packaged model of that name; capitals and underscores do not matter."""
    word = name.strip().lower().replace("_", "-").replace(" ", "-")
    return named(word, MODELS, "model").model


def with_layers(
    model: Model, layers: int | None = None, dense_layers: int | None = None, prediction_layers: int | None = None
) -> Model:
    """The model cut or lengthened to `layers` layers, of which `dense_layers` have no experts, with
    `prediction_layers` for multi-token prediction.

    None keeps the model's own number, but never more dense layers than layers.
    """
    if layers is dense_layers is prediction_layers is None:
        return model
    if model.own:
        raise UsageError(
            f"{model.name} has measured layers of its own, which cannot be cut; drop --layers, --dense-layers and "
            "--prediction-layers."
        )
    predicting = model.prediction_layers if prediction_layers is None else prediction_layers
    check_whole("--prediction-layers", predicting, MOST_PREDICTION_LAYERS, 0)
    count = model.layers if layers is None else layers
    check_whole("--layers", count, MOST_LAYERS)
    if model.experts is None:
        if dense_layers not in (None, count):
            raise UsageError(f"No layer of {model.name} has experts; drop --dense-layers.")
        return replace(model, layers=count, prediction_layers=predicting)
    dense = min(model.experts.dense_layers, count) if dense_layers is None else dense_layers
    check_whole("--dense-layers", dense, MOST_LAYERS, 0)
    if dense > count:
        raise InputError("--dense-layers", f"is {dense} of {several(count, 'layer')}", "give fewer of them")
    if dense and model.mlp is None:
        raise UsageError(f"Every layer of {model.name} has experts; drop --dense-layers.")
    experts = replace(model.experts, dense_layers=dense)
    return replace(model, layers=count, prediction_layers=predicting, experts=experts)


# ---- problems -----------------------------------------------------------------------------------------
#
# A training problem from words: a model's name or file, and GPUs as in "64xh100-80gb".


CONFIG = "config.json"
# Ends of the names of files that hold a model.
FILES = (".json", ".csv", ".tsv")

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
    prediction_layers: int | None = None,
    reserve_bytes: float | None = None,
    efficiencies: Efficiencies | Mapping[str, float] | None = None,
    attention_kernel: str | None = None,
    name: str | None = None,
    gpu: str | os.PathLike[str] | None = None,
    adapter_rank: int | None = None,
    lengths: str | None = None,
    encoder: str | None = None,
    frozen: str | None = None,
    **flags: bool,
) -> TrainingProblem:
    """The problem of training a model on GPUs, which `devices` counts and names as in "64xh100-80gb".

    "8xa100-80gb,8xh100-80gb" are GPUs of two sorts, on each of which whole pipeline stages run.
    Where `gpu` is a file that describes a device, in TOML or as `plan calibrate` writes it, `devices` counts alone.

    `model` is a packaged name, a `config.json` or the folder that holds one, a training problem's file, a profile or a
    table of layers, or a model. `levels` is text such as "8x450GB/s,8x50GB/s", or levels; None: the usual node of that
    GPU. `attention_kernel` is one of `ATTENTION_KERNELS`; None: the framework's own. `adapter_rank` is that of LoRA.
    `encoder` is a packaged vision encoder, its sizes, as in "layers=24,hidden=1024,heads=16,ffn=4096,tokens=576", or
    "none"; None: that of the model's file. `frozen` is "encoder" where that is not trained.
    `lengths` are those of documents, which are packed into sequences: "4096x0.9,32768x0.1", or a file.
    `flags` are the problem's own: flash_attention, sequence_parallel, dropout, fused_loss, fp8_weight_copy.
    """
    pools = _pools(devices, gpu, levels)
    number, known = pools[0]
    rules = _rules(framework)
    kernel = _kernel(attention_kernel, rules, flags)
    shapes = with_layers(model_of(model, sees=keeps_own(encoder)), layers, dense_layers, prediction_layers)
    if encoder is not None:
        shapes = replace(shapes, encoder=read_encoder(encoder, shapes.encoder))
    rates = [_efficiencies(efficiencies, own, rules, kernel, attention_kernel) for _, own in pools]
    gpus = ",".join(f"{count}x{own.name}" for count, own in pools)
    problem = TrainingProblem(
        model=shapes,
        gpu=_card(known, memory_bytes),
        devices=sum(count for count, _ in pools),
        levels=_levels(levels, number, known),
        reserve_bytes=USUAL_RESERVE if reserve_bytes is None else reserve_bytes,
        efficiencies=rates[0],
        name=f"{shapes.name}-{gpus}" if name is None else name,
        second=None if len(pools) == 1 else _pool(pools, memory_bytes, rates[1]),
        lengths=() if lengths is None else read_lengths(lengths),
        batch=batch, sequence=sequence, precision=precision, framework=framework, optimizer=optimizer,
        adapter_rank=adapter_rank, frozen=frozen, **flags,
    )  # fmt: skip
    return check_hardware(problem)


def _rules(framework: str) -> Framework:
    if framework not in FRAMEWORKS:
        raise InputError("framework", f"is {show(framework)}", "give " + " or ".join(FRAMEWORKS))
    return FRAMEWORKS[framework]


def _pools(devices: str, gpu: str | os.PathLike[str] | None, levels: GivenLevels) -> Sequence[tuple[int, KnownGpu]]:
    """Numbers and sorts of GPUs, one or two; `gpu` is the file of a device."""
    if gpu is not None:
        return (devices_and_gpu(devices_of_file(devices, gpu)),)
    pools = devices_by_gpu(devices)
    if len(pools) > 1:
        _check_two(pools, levels)
    return pools


def _card(known: KnownGpu, memory_bytes: float | None) -> Gpu:
    return Gpu(
        known.name, known.memory_bytes if memory_bytes is None else memory_bytes, known.flops, known.memory_rate
    )


def _check_two(pools: Sequence[tuple[int, KnownGpu]], levels: GivenLevels) -> None:
    if len(pools) > 2:
        raise InputError("devices", f"are of {len(pools)} sorts", "give two at most")
    if levels is not None:
        raise InputError("levels", "are given for GPUs of two sorts", "drop them: links are those of usual nodes")


def _pool(pools: Sequence[tuple[int, KnownGpu]], memory_bytes: float | None, own: Efficiencies) -> Pool:
    """The GPUs of the second sort; both pools are linked by the slower of their networks."""
    number, known = pools[1]
    memory = known.memory_bytes if memory_bytes is None else memory_bytes
    card = Gpu(known.name, memory, known.flops, known.memory_rate)
    rate, latency = min(gpu.between for _, gpu in pools), max(gpu.between_seconds for _, gpu in pools)
    return Pool(card, number, _levels(None, number, known), rate, latency, own)


def _kernel(given: str | None, rules: Framework, flags: dict[str, bool]) -> AttentionKernel | None:
    """The kernel of attention, by its name or the framework's own; it says whether the matrix is kept, as a flag."""
    if given is None:
        keeps = flags.get("flash_attention") is False
        return None if keeps or rules.attention is None else ATTENTION_KERNELS[rules.attention]
    named(given, ATTENTION_KERNELS, "attention kernel")
    kernel = ATTENTION_KERNELS[given]
    if flags.setdefault("flash_attention", kernel.shares is not None) != (kernel.shares is not None):
        raise InputError("attention_kernel", f"is {given}, and flash_attention says otherwise", "give one of them")
    return kernel


def _efficiencies(
    given: Efficiencies | Mapping[str, float] | None,
    gpu: KnownGpu,
    rules: Framework,
    kernel: AttentionKernel | None,
    chosen: str | None,
) -> Efficiencies:
    """The usual ones of the GPU, of the framework and of the kernel of attention, and those that were given."""
    if isinstance(given, Efficiencies):
        return given
    usual = dict(rules.usual)
    if kernel is not None and kernel.shares is None:
        usual["softmax_traffic"] = kernel.softmax_traffic
    elif kernel is not None and kernel.shares is not None and (gpu.measured_as or "") in kernel.shares:
        usual["attention"] = kernel.shares[gpu.measured_as or ""]
    elif kernel is not None and chosen is not None and "attention" not in {**gpu.stated, **(given or {})}:
        raise InputError(
            "attention_kernel",
            f"is {chosen}, whose share of the peak nobody measured on {gpu.name}",
            "add --efficiency attention=SHARE, or leave the kernel to the framework",
        )
    told = {check_name(name): value for name, value in (given or {}).items()}
    return replace(gpu.usual, **{**usual, **gpu.stated, **told})


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


def model_of(given: str | os.PathLike[str] | Model, *, sees: bool = True) -> Model:
    """The model of that name, in that file or folder, or the model itself; `sees`: with the file's vision encoder."""
    if isinstance(given, Model):
        return given
    if isinstance(given, str) and not _is_path(given):
        return known_model(given)
    return _read(Path(given), sees)


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


def _read(path: Path, sees: bool) -> Model:
    """The model in a table, a profile, a training problem or a `config.json`; errors name the file."""
    # Rules of every family, and readers of tables, which packaged names do without.
    from ..foreign import is_profile, looks_like_table, refuse_foreign_file
    from ..networks.profile.profile import profile_from_json
    from ..networks.profile.table import read_table
    from .config_json import model_from_config
    from .kind_functions import SCHEMA, read_model

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
        return model_from_config(data, _name(path), sees=sees)


def _of_profile(profile: Profile, path: Path) -> Model:
    from .from_profile import model_of_profile

    with errors_in(path):
        return model_of_profile(profile)


def _name(path: Path) -> str:
    """The model's name: that of the file, or of its folder where the file has the name that all such files have."""
    name = path.stem if path.name != CONFIG else path.resolve().parent.name
    return name[:100] or "model"
