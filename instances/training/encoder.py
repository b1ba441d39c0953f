"""Vision encoders by name, by their sizes, and as the `vision_config` of a model's `config.json` states them.

To add a packaged encoder, add its shapes and their source to `ENCODERS`. To read another family of models, add the
`model_type` of its files to `_FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..base.checks import check_whole
from ..base.errors import InputError, named, show
from ..base.fields import join
from ..base.quantities import whole_number
from .model import MOST, Encoder

if TYPE_CHECKING:
    from .config_json import Config

# Encoders by name, each as published. Positions, the class token and norms before and after the layers are `vectors`.
ENCODERS: Mapping[str, Encoder] = {
    # Radford et al., arXiv 2103.00020, and config.json of openai/clip-vit-large-patch14-336
    "clip-vit-l-336": Encoder(24, 1_024, 16, 4_096, 576, vectors=577 + 1 + 4),
    # Zhai et al., arXiv 2303.15343, and config.json of google/siglip-so400m-patch14-384
    "siglip-so400m-384": Encoder(27, 1_152, 16, 4_304, 729, vectors=729 + 1 + 2),
    # Chen et al., arXiv 2312.14238, and config.json of OpenGVLab/InternViT-300M-448px and InternViT-6B-448px-V1-5
    "internvit-300m": Encoder(24, 1_024, 16, 4_096, 1_024, merged=4, vectors=1_027 + 8, layer_vectors=2),
    "internvit-6b": Encoder(45, 3_200, 25, 12_800, 1_024, merged=4, vectors=1_027 + 8, layer_vectors=1, norm="rms"),
}
# Sizes that the option can give; the first five describe an encoder, the others have usual values.
NEEDED = ("layers", "hidden", "heads", "ffn", "tokens")
SIZES = (*NEEDED, "images", "merged", "projector")
# Patches of an image whose model takes pictures of any size.
USUAL_TOKENS = 1_024


def keeps_own(text: str | None) -> bool:
    """Does the option leave the model's own encoder as it is, but for some sizes?"""
    return text is None or ("=" in text.split(",")[0] and "layers" not in _given(text))


def read_encoder(text: str, own: Encoder | None) -> Encoder | None:
    """The encoder of that name or of these sizes, or the model's own one with these; None for the word none."""
    if text.strip().lower() == "none":
        return None
    first, sizes = text.split(",")[0].strip().lower(), _given(text)
    if "=" not in first:
        own = named(first, ENCODERS, "encoder")
    lacking = [name for name in NEEDED if name not in sizes]
    if own is None and lacking:
        raise InputError("encoder", f"lacks {', '.join(lacking)}", f"give them, or one of {', '.join(ENCODERS)}")
    return Encoder(**sizes) if own is None else replace(own, **sizes)


def _given(text: str) -> dict[str, Any]:
    """The sizes in layers=24,hidden=1024; a first word without a value is a name."""
    sizes: dict[str, Any] = {}
    for i, part in enumerate(text.split(",")):
        key, equals, value = (word.strip() for word in part.partition("="))
        number = whole_number(value)
        if (not equals and i == 0) or (key in SIZES and number is not None):
            sizes |= {key: number} if equals and number is not None else {}
        else:
            remedy = f"give a name or whole numbers, as in layers=24,hidden=1024; sizes are {', '.join(SIZES)}"
            raise InputError("encoder", f"holds {show(part)}", remedy)
    return sizes


# ---- config.json -----------------------------------------------------------------------------------------


def encoder_from_config(top: Config, own: Config) -> Encoder:
    """The encoder of a file; `own` are the fields of its `vision_config`."""
    kind = top.value("model_type")
    read = _FAMILIES.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise InputError(
            "vision_config",
            f"is that of {show(kind)}, whose encoder is not read here",
            "leave it out with --encoder none, or give its sizes, as in "
            "--encoder layers=24,hidden=1024,heads=16,ffn=4096,tokens=576",
        )
    return read(top, own)


def _side(own: Config, key: str) -> int:
    """The pixels of a side, which some files give for both sides."""
    value = own.value(key)
    if not isinstance(value, list):
        return own.whole(key)
    check_whole(join(own.where, key), value[0] if value else None, MOST)
    return int(value[0])


def _sizes(own: Config, hidden: str = "hidden_size") -> dict[str, Any]:
    """Layers, hidden size, heads, MLP and numbers of a patch, under the names that either family of files has."""
    qwen = "depth" in own.data
    size, side = own.whole(hidden), _side(own, "patch_size")
    inner = own.maybe("intermediate_size")
    colours = own.whole("in_chans" if qwen else "num_channels", 3)
    return {
        "layers": own.whole("depth" if qwen else "num_hidden_layers"),
        "hidden": size,
        "heads": own.whole("num_heads" if qwen else "num_attention_heads"),
        "ffn": own.whole("mlp_ratio") * size if inner is None else inner,
        "patch": side * side * colours * (own.whole("temporal_patch_size", 2) if qwen else 1),
    }


def _tokens(own: Config) -> int:
    return (_side(own, "image_size") // _side(own, "patch_size")) ** 2


def _around(own: Config, tokens: int) -> int:
    """Vectors beside the layers: positions, and of CLIP a class token and norms before and behind, of SigLIP biases of
    patches and the norm behind."""
    kind = own.value("model_type")
    if kind not in ("clip_vision_model", "siglip_vision_model"):
        problem, remedy = f"is {show(kind)}", "give clip_vision_model or siglip_vision_model, or use --encoder"
        raise own.wrong("model_type", problem, remedy)
    return tokens + (6 if kind == "clip_vision_model" else 3)


def _llava(top: Config, own: Config) -> Encoder:
    tokens = _tokens(own)
    return Encoder(**_sizes(own), tokens=tokens, vectors=_around(own, tokens))


def _gemma3(top: Config, own: Config) -> Encoder:
    """Tokens are means of patches, behind which stand a norm and one product."""
    tokens, vectors = _tokens(own), _around(own, _tokens(own)) + 1
    merged = max(1, tokens // top.whole("mm_tokens_per_image", 256))
    return Encoder(**_sizes(own), tokens=tokens, merged=merged, projector=0, pooled=True, vectors=vectors)


def _qwen2_vl(top: Config, own: Config) -> Encoder:
    return _of_any_size(own, "embed_dim", vectors=2)


def _qwen25_vl(top: Config, own: Config) -> Encoder:
    side = own.whole("window_size", 112) // _side(own, "patch_size")
    share = 1 - len(own.entries("fullatt_block_indexes")) / own.whole("depth")
    windows: dict[str, Any] = {"window": side * side, "windowed_share": share}
    return _of_any_size(own, "hidden_size", vectors=1, gated=True, norm="rms", **windows)


def _of_any_size(own: Config, hidden: str, **more: Any) -> Encoder:
    """Qwen's encoders, which read pictures of any size, and join neighbours into one token behind a norm."""
    sizes, merged = _sizes(own, hidden), own.whole("spatial_merge_size", 2) ** 2
    return Encoder(**sizes, tokens=USUAL_TOKENS, merged=merged, projector=merged * sizes["hidden"], **more)


def _internvl(top: Config, own: Config) -> Encoder:
    """Layers scale what they add, and some have norms of queries and keys; before the projector stands a norm."""
    share = top.value("downsample_ratio")
    merged = round(1 / share) ** 2 if isinstance(share, float) and 0.1 <= share <= 1 else 4
    normed = own.flag("qk_normalization", False) or own.flag("use_qk_norm", False)
    biased = own.flag("qkv_bias", True) and own.flag("attention_bias", True)
    tokens = _tokens(own)
    return Encoder(
        **_sizes(own),
        tokens=tokens,
        merged=merged,
        vectors=tokens + 3 + 2 * merged,
        # All products have a bias here; where those of queries, keys and values have none, three are too many.
        layer_vectors=2 + 2 * normed - 3 * (not biased) * normed,
        norm="rms" if own.value("norm_type") == "rms_norm" else "layer",
    )


_FAMILIES: Mapping[str, Callable[[Config, Config], Encoder]] = {
    "llava": _llava,
    "llava_next": _llava,
    "gemma3": _gemma3,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen25_vl,
    "internvl": _internvl,
    "internvl_chat": _internvl,
}
