"""Models from the `config.json` that Hugging Face's repositories hold, without torch or transformers.

A file leaves out what is usual for its architecture, so each reader knows the usual values. What only changes numbers
(activations, scales of positions, drop-out, quantisation) is passed over; what changes shapes in a way that a row of
units cannot say is refused, and so is what changes them in other architectures and was not read for this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..base.checks import check_flag, check_text, check_whole
from ..base.errors import InputError, did_you_mean, show
from ..base.fields import as_list, as_object, join
from ..base.quantities import several
from .encoder import encoder_from_config
from .model import MOST, MOST_LAYERS, Attention, Experts, Mlp, Model

MAX_ENTRIES = 10_000
# The largest values of fields, where they are not those of a model's parts.
_LARGEST = {"num_hidden_layers": MOST_LAYERS, "n_layer": MOST_LAYERS, "num_nextn_predict_layers": 100}
# Fields that change shapes wherever they are read. They belong to few architectures each.
_SHAPES = (
    *("n_routed_experts", "num_experts", "num_local_experts", "n_shared_experts", "first_k_dense_replace"),
    *("moe_intermediate_size", "shared_expert_intermediate_size", "mlp_only_layers", "num_nextn_predict_layers"),
    *("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    *("qk_layernorm", "use_qk_norm", "multi_query", "word_embed_proj_dim", "n_inner", "ffn_dim"),
)
# Sizes that say nothing in some architectures, and are none below 1 in any.
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
)
# What layers can attend to.
_KINDS = ("full_attention", "sliding_attention")
# What files of several models call the one of text, and types of it that are those of another architecture.
_TEXT = ("text_config", "llm_config")
_SAME = {**dict.fromkeys(("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), "qwen2")}
# What nested files leave out of models of text: transformers' own values.
_NESTED: Mapping[str, Mapping[str, int]] = {
    name: {
        **{"hidden_size": 4_096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32_000},
        "intermediate_size": inner,
    }
    for name, inner in (("llama", 11_008), ("mistral", 14_336))
}
# What models of types that people try have, and the units here have not.
_MISSING = {
    **dict.fromkeys(("llama4", "llama4_text"), "attention in chunks beside layers without positions"),
    "qwen3_next": "layers with linear attention",
    **dict.fromkeys(("mllama", "mllama_text_model"), "layers that attend to images"),
    **dict.fromkeys(("t5", "mt5", "bart", "whisper"), "an encoder beside the decoder"),
    **dict.fromkeys(("bert", "roberta", "deberta-v2", "vit"), "an encoder alone, without a head for each token"),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "jamba", "bamba"), "layers with a state space"),
}
# Fields that an error about an unknown architecture shows.
_TOLD = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


@dataclass(frozen=True, slots=True)
class Config:
    """The fields of one model in a file; every value is checked where it is asked for."""

    data: Mapping[str, Any]
    where: str = ""
    outer: Mapping[str, Any] | None = None
    """The file around a nested text model."""
    asked: set[str] = field(default_factory=set)
    """Names of the fields that a reader has asked for."""

    def value(self, key: str) -> Any:
        """The value of that name; None where it is null or absent."""
        self.asked.add(key)
        return self.data.get(key)

    def whole(self, key: str, usual: int | None = None, least: int = 1) -> int:
        """The whole number of that name; null says as little as an absent key."""
        value = self.value(key)
        if value is None:
            if usual is None:
                problem = "is null" if key in self.data else "is missing"
                raise InputError(join(self.where, key), problem, "give a whole number")
            return usual
        check_whole(join(self.where, key), value, _LARGEST.get(key, MOST), least)
        return int(value)

    def maybe(self, key: str, usual: int | None = None, least: int = 1) -> int | None:
        """The whole number of that name; None where it is null, or absent without a usual value."""
        if self.value(key) is None and (key in self.data or usual is None):
            return None
        return self.whole(key, usual, least)

    def flag(self, key: str, usual: bool) -> bool:
        value = self.value(key)
        if value is None:
            return usual
        check_flag(join(self.where, key), value)
        return bool(value)

    def entries(self, key: str) -> list[Any]:
        """The list of that name; where it is absent, an empty one."""
        value = self.value(key)
        entries = [] if value is None else as_list(join(self.where, key), value)
        if len(entries) > MAX_ENTRIES:
            raise self.wrong(key, f"has {several(len(entries), 'entry')}", f"give at most {MAX_ENTRIES}")
        return entries

    def tied(self, usual: bool) -> bool:
        """Is the head's weight that of the embedding? Nested models may leave that to the file around them."""
        key = "tie_word_embeddings"
        if self.data.get(key) is None and self.outer is not None:
            return Config(self.outer).flag(key, usual)
        return self.flag(key, usual)

    def wrong(self, key: str, problem: str, remedy: str) -> InputError:
        return InputError(join(self.where, key), problem, remedy)


Reader = Callable[[Config, str], Model]


def model_from_config(data: object, name: str = "model", *, sees: bool = True) -> Model:
    """The model in a parsed `config.json`, or an `InputError` that names the field; `sees`: with its vision encoder."""
    top = as_object("", data, 'the "config.json" of a model')
    config, architecture = _text_model(top)
    reader = READERS.get(architecture)
    if reader is None:
        raise _unknown(config, architecture)
    model = reader(config, name)
    _check_layers(config, model.layers)
    _check_unread(config, architecture)
    vision = top.get("vision_config") if sees else None
    if vision is None:
        return model
    own = Config(as_object("vision_config", vision), "vision_config", top)
    return replace(model, encoder=encoder_from_config(Config(top), own))


def _check_layers(config: Config, layers: int) -> None:
    """Refuse windows that no model has, whether or not the architecture uses them."""
    config.maybe("sliding_window")
    kinds = config.entries("layer_types")
    for i, kind in enumerate(kinds):
        if kind not in _KINDS:
            raise config.wrong(f"layer_types[{i}]", f"is {show(kind)}", "give " + " or ".join(_KINDS))
    if kinds and len(kinds) != layers:
        raise config.wrong(
            "layer_types", f"has {several(len(kinds), 'entry')} for {several(layers, 'layer')}", "give one for each"
        )


def _check_unread(config: Config, architecture: str) -> None:
    """Refuse fields that say another shape than the one that was read, and sizes that no model has."""
    for key in _SIZES:
        config.maybe(key)
    for key in _SHAPES:
        value = config.data.get(key)
        if value and key not in config.asked:
            raise config.wrong(
                key,
                f"is {show(value)}, which models of the type {architecture} do not have",
                "give the model_type that the model has, or drop the field",
            )


def _text_model(top: Mapping[str, Any]) -> tuple[Config, str]:
    """The fields of the language model, and its architecture; files of several models nest it."""
    where = next((name for name in _TEXT if top.get(name) is not None), None)
    if where is None:
        return Config(top), _architecture("", top)
    inner = as_object(where, top[where])
    own = _architecture(where, inner)
    outer = _architecture("", top)
    own = own if own in READERS or not outer else own or outer
    return Config({**_NESTED.get(own, {}), **inner}, where, top), own


def _architecture(where: str, data: Mapping[str, Any]) -> str:
    """The architecture by `model_type`, or by the class where that is all that the file says."""
    kind = data.get("model_type")
    if kind is not None:
        check_text(join(where, "model_type"), kind, 200)
        kind = _SAME.get(kind, kind)
        if kind in READERS:
            return str(kind)
    classes = data.get("architectures")
    named = classes[0] if isinstance(classes, list) and classes and isinstance(classes[0], str) else ""
    return _CLASSES.get(named.removesuffix("ForCausalLM"), str(kind or named))


def _unknown(config: Config, architecture: str) -> InputError:
    """The error about an unknown architecture, with the sizes that the file states."""
    key = "model_type" if "model_type" in config.data or not architecture else "architectures"
    fields = [f"{name} {show(config.data[name])}" for name in _TOLD if name in config.data]
    what = f"is {show(architecture)}{did_you_mean(architecture, READERS)}" if architecture else "is missing"
    told = f", beside {', '.join(fields)}" if fields else ""
    known = ", ".join(sorted(READERS))
    if architecture in _MISSING:
        what, told = (
            f"is {show(architecture)}, whose models have {_MISSING[architecture]}, which no unit here is",
            "",
        )
    return config.wrong(key, f"{what}{told}", f"give a model of one of these architectures: {known}")


# ---- parts that most families share ------------------------------------------------------------------------


def _attention(
    config: Config, hidden: int, *, heads: int | None = None, key_value: int | None = None, **own: Any
) -> Attention:
    """Grouped-query attention; `heads`, `key_value` and `head_size` stand for what a file leaves out."""
    count = config.whole("num_attention_heads", heads)
    groups = config.whole("num_key_value_heads", key_value or count)
    size = config.maybe("head_dim", own.pop("head_size", None)) or _share(config, hidden, count)
    if count % groups:
        raise config.wrong("num_key_value_heads", f"is {groups} for {count} heads", "give a divisor of the heads")
    return Attention(count, size, groups, **own)


def _share(config: Config, hidden: int, heads: int, key: str = "num_attention_heads") -> int:
    """The hidden size divided among the heads."""
    if hidden % heads:
        raise config.wrong(key, f"is {heads} for a hidden size of {hidden}", "give a divisor of it, or head_dim")
    return hidden // heads


def _window(config: Config, layers: int, usual: int | None, share: float) -> dict[str, Any]:
    """A sliding window in a share of the layers, which follows from `layer_types` where the file has it."""
    window = config.maybe("sliding_window", usual)
    _check_layers(config, layers)
    kinds = config.entries("layer_types")
    if kinds:
        share = kinds.count("sliding_attention") / layers
    return {} if window is None or not share else {"window": window, "windowed_share": share}


def _top_of(config: Config, experts: int, key: str = "num_experts_per_tok", usual: int | None = None) -> int:
    """Number of experts to which a token is sent."""
    count = config.whole(key, usual)
    if count > experts:
        raise config.wrong(key, f"is {count} of {several(experts, 'expert')}", "give at most their count")
    return count


@dataclass(frozen=True, slots=True)
class _Usual:
    """Values for what files of a family of Llama's kind leave out, and what all models of the family have."""

    vocabulary: int | None = None
    heads: int | None = None
    key_value: int | None = None
    head_size: int | None = None
    hidden: int | None = None
    inner: int | None = None
    layers: int | None = None
    tied: bool = False
    norms: int = 2
    query_key_norm: bool = False
    bias: bool = False
    """Have all products of the attention a bias, where the file does not say?"""
    query_bias: bool | str = False
    """Have queries, keys and values a bias, whatever the file says? A text: as this field says, true if absent."""
    sinks: bool = False


def _no_window(config: Config, layers: int) -> dict[str, Any]:
    return {}


def _no_experts(config: Config, layers: int) -> Experts | None:
    return None


def _read_llama(
    usual: _Usual,
    window: Callable[[Config, int], dict[str, Any]],
    config: Config,
    name: str,
    experts: Callable[[Config, int], Experts | None] = _no_experts,
) -> Model:
    """A model with norms without a shift and a gated MLP or experts, as Llama and its kin have them."""
    hidden = config.whole("hidden_size", usual.hidden)
    layers = config.whole("num_hidden_layers", usual.layers)
    of_experts = experts(config, layers)
    bias, query_bias = config.flag("attention_bias", usual.bias), usual.query_bias
    attention = _attention(
        config,
        hidden,
        heads=usual.heads,
        key_value=usual.key_value,
        head_size=usual.head_size,
        bias=bias or (config.flag(query_bias, True) if isinstance(query_bias, str) else query_bias),
        output_bias=bias,
        query_key_norm=usual.query_key_norm,
        sinks=usual.sinks,
        **window(config, layers),
    )
    mlp = None
    if of_experts is None:
        mlp = Mlp(config.whole("intermediate_size", usual.inner), bias=config.flag("mlp_bias", False))
    elif of_experts.dense_layers:
        mlp = Mlp(config.whole("intermediate_size"))
    vocabulary, tied = config.whole("vocab_size", usual.vocabulary), config.tied(usual.tied)
    return Model(name, hidden, layers, vocabulary, attention, mlp, of_experts, tied=tied, norms=usual.norms)


# Which layers have a sliding window.


def _everywhere(config: Config, layers: int) -> dict[str, Any]:
    return _window(config, layers, None, 1)


def _qwen_window(config: Config, layers: int) -> dict[str, Any]:
    """A window only where the file asks for it, and in the layers from `max_window_layers` on."""
    if not config.flag("use_sliding_window", False):
        return {}
    first = min(config.whole("max_window_layers", 28, 0), layers)
    return _window(config, layers, 4_096, (layers - first) / layers)


def _every_other(config: Config, layers: int, usual: int = 4_096) -> dict[str, Any]:
    return _window(config, layers, usual, (layers + 1) // 2 / layers)


def _all_but_every_sixth(config: Config, layers: int) -> dict[str, Any]:
    step = config.whole("sliding_window_pattern", 6)
    return _window(config, layers, 4_096, (layers - layers // step) / layers)


# ---- families with experts -----------------------------------------------------------------------------------


def _mixtral_experts(config: Config, layers: int) -> Experts:
    count = config.whole("num_local_experts", 8)
    return Experts(count, _top_of(config, count, usual=2), config.whole("intermediate_size"))


def _gpt_oss_experts(config: Config, layers: int) -> Experts:
    count = config.whole("num_local_experts", 128)
    key = "num_experts_per_tok" if "num_experts_per_tok" in config.data else "experts_per_token"
    top = _top_of(config, count, key, usual=4)
    return Experts(count, top, config.whole("intermediate_size"), bias=True, router_bias=True)


def _qwen2_experts(config: Config, layers: int) -> Experts:
    shared = config.whole("shared_expert_intermediate_size")
    return replace(_qwen3_experts(config, layers, 60, 4), shared_hidden=shared, shared_gate=True)


def _qwen3_experts(config: Config, layers: int, usual: int = 128, usual_top: int = 8) -> Experts:
    count, dense = config.whole("num_experts", usual), _first_dense(config, layers)
    size, top = config.whole("moe_intermediate_size"), _top_of(config, count, usual=usual_top)
    return Experts(count, top, size, dense_layers=dense)


def _first_dense(config: Config, layers: int) -> int:
    """Number of layers without experts; other layers than the first ones are refused."""
    _every_layer(config, "decoder_sparse_step")
    dense = config.entries("mlp_only_layers")
    for i, layer in enumerate(dense):
        check_whole(join(config.where, f"mlp_only_layers[{i}]"), layer, layers - 1, 0)
    if sorted(set(dense)) != list(range(len(set(dense)))):
        raise config.wrong("mlp_only_layers", "are not the first layers", "give none, or layers from 0 on")
    return len(set(dense))


def _every_layer(config: Config, key: str) -> None:
    """Refuse a model in which layers with and without experts take turns, as a step in this field says."""
    step = config.whole(key, 1)
    if step != 1:
        problem = f"is {step}: layers with and without experts take turns"
        raise config.wrong(key, problem, "give 1, since only the first layers may be without experts")


def _read_deepseek(version: int, config: Config, name: str) -> Model:
    hidden, layers = config.whole("hidden_size"), config.whole("num_hidden_layers")
    experts = _deepseek_experts(config, layers, version)
    bias = config.flag("attention_bias", False)
    heads = config.whole("num_attention_heads")
    attention = Attention(
        heads,
        config.whole("qk_nope_head_dim"),
        heads,
        value_size=config.whole("v_head_dim"),
        query_rank=config.maybe("q_lora_rank"),
        key_value_rank=config.whole("kv_lora_rank"),
        rope_size=config.whole("qk_rope_head_dim"),
        bias=bias,
        output_bias=bias,
    )
    mlp = Mlp(config.whole("intermediate_size")) if experts is None or experts.dense_layers else None
    more: dict[str, Any] = {
        "tied": config.tied(False),
        "prediction_layers": config.whole("num_nextn_predict_layers", 0, 0),
    }
    return Model(name, hidden, layers, config.whole("vocab_size"), attention, mlp, experts, **more)


def _deepseek_experts(config: Config, layers: int, version: int) -> Experts | None:
    count = config.maybe("n_routed_experts")
    if count is None:  # then these say nothing
        config.asked.update(("moe_intermediate_size", "first_k_dense_replace", "n_shared_experts"))
        return None
    _every_layer(config, "moe_layer_freq")
    size = config.whole("moe_intermediate_size")
    dense = config.whole("first_k_dense_replace", 0, 0)
    if dense > layers:
        raise config.wrong(
            "first_k_dense_replace", f"is {dense} of {several(layers, 'layer')}", "give fewer of them"
        )
    return Experts(
        count,
        _top_of(config, count),
        size,
        shared_hidden=size * config.whole("n_shared_experts", 0, 0),
        dense_layers=dense,
        router_bias=version == 3 or config.data.get("topk_method") == "noaux_tc",
    )


def _read_glm(config: Config, name: str) -> Model:
    """Grouped-query attention, with a bias before it alone, and experts as DeepSeek has them."""
    model = _read_llama(_Usual(key_value=8), _no_window, config, name, partial(_deepseek_experts, version=3))
    assert model.attention is not None, "a model of shapes has attention"
    attention = replace(model.attention, output_bias=False, query_key_norm=config.flag("use_qk_norm", False))
    return replace(model, attention=attention, prediction_layers=config.whole("num_nextn_predict_layers", 0, 0))


# ---- families with norms that centre --------------------------------------------------------------------------


def _read_gpt2(config: Config, name: str) -> Model:
    hidden, heads = config.whole("n_embd", 768), config.whole("n_head", 12)
    attention = Attention(heads, _share(config, hidden, heads, "n_head"), heads, bias=True, output_bias=True)
    return Model(
        name,
        hidden,
        config.whole("n_layer", 12),
        config.whole("vocab_size", 50_257),
        attention,
        Mlp(config.maybe("n_inner") or 4 * hidden, gated=False, bias=True),
        tied=config.tied(True),
        norm="layer",
        positions=config.whole("n_positions", 1_024),
    )


def _with_centring_norms(
    config: Config, name: str, inner: str, bias: bool, mlp_bias: bool = True, *, norm: bool = False, **more: Any
) -> Model:
    """A model whose norms have a shift, with an MLP that is not gated; `inner` is the field of the MLP's size."""
    hidden = config.whole("hidden_size")
    attention = _attention(config, hidden, bias=bias, output_bias=bias, query_key_norm=norm)
    mlp = Mlp(config.whole(inner), gated=False, bias=mlp_bias)
    layers, vocabulary = config.whole("num_hidden_layers"), config.whole("vocab_size")
    return Model(name, hidden, layers, vocabulary, attention, mlp, norm="layer", **more)


def _read_gpt_neox(config: Config, name: str) -> Model:
    bias = config.flag("attention_bias", True)
    return _with_centring_norms(config, name, "intermediate_size", bias, tied=config.tied(False))


def _read_opt(config: Config, name: str) -> Model:
    """OPT's table has two more positions than the file says, since the first two stand for padding."""
    hidden = config.whole("hidden_size")
    if not config.flag("layer_norm_elementwise_affine", True):
        raise config.wrong("layer_norm_elementwise_affine", "is false", "give norms with learned numbers")
    size = config.whole("word_embed_proj_dim", hidden)
    bias = config.flag("enable_bias", True)
    more: dict[str, Any] = {
        "final_norm": config.flag("do_layer_norm_before", True)
        and not config.flag("_remove_final_layer_norm", False),
        "positions": config.whole("max_position_embeddings") + 2,
        "embedding_size": None if size == hidden else size,
    }
    return _with_centring_norms(config, name, "ffn_dim", bias, bias, tied=config.tied(True), **more)


def _read_phi(config: Config, name: str) -> Model:
    """Phi's attention and MLP stand side by side, behind one norm."""
    more: dict[str, Any] = {"norms": 1, "head_bias": True, "tied": config.tied(False)}
    norm = config.flag("qk_layernorm", False)
    return _with_centring_norms(config, name, "intermediate_size", True, norm=norm, **more)


_GEMMA3 = _Usual(262_208, 8, 4, 256, 2_304, 9_216, 26, tied=True, norms=4, query_key_norm=True)

_GPT_OSS = _Usual(key_value=8, head_size=64, bias=True, sinks=True)

# Readers of configuration files by their `model_type`.
READERS: Mapping[str, Reader] = {
    "llama": partial(_read_llama, _Usual(), _no_window),
    "mistral": partial(_read_llama, _Usual(key_value=8), _everywhere),
    "qwen2": partial(_read_llama, _Usual(query_bias=True), _qwen_window),
    "qwen3": partial(_read_llama, _Usual(head_size=128, query_key_norm=True), _qwen_window),
    "qwen2_moe": partial(_read_llama, _Usual(query_bias="qkv_bias"), _qwen_window, experts=_qwen2_experts),
    "qwen3_moe": partial(_read_llama, _Usual(query_key_norm=True), _qwen_window, experts=_qwen3_experts),
    "gemma": partial(_read_llama, _Usual(256_000, 16, 16, 256, tied=True), _no_window),
    "gemma2": partial(_read_llama, _Usual(256_000, 8, 4, 256, tied=True, norms=4), _every_other),
    "gemma3_text": partial(_read_llama, _GEMMA3, _all_but_every_sixth),
    "gemma3": partial(_read_llama, _GEMMA3, _all_but_every_sixth),
    "phi": _read_phi,
    "phi3": partial(_read_llama, _Usual(vocabulary=32_064), _everywhere),
    "gpt2": _read_gpt2,
    "gpt_neox": _read_gpt_neox,
    "opt": _read_opt,
    "mixtral": partial(_read_llama, _Usual(key_value=8), _everywhere, experts=_mixtral_experts),
    "gpt_oss": partial(_read_llama, _GPT_OSS, partial(_every_other, usual=128), experts=_gpt_oss_experts),
    "deepseek_v2": partial(_read_deepseek, 2),
    "deepseek_v3": partial(_read_deepseek, 3),
    "kimi_k2": partial(_read_deepseek, 3),
    "glm4_moe": _read_glm,
}

# The `model_type` of classes that files name in `architectures`, without the ending that most of them have.
_CLASSES = {
    **{"Llama": "llama", "Mistral": "mistral", "Mixtral": "mixtral", "GptOss": "gpt_oss", "OPT": "opt"},
    **{"Qwen2": "qwen2", "Qwen3": "qwen3", "Qwen2Moe": "qwen2_moe", "Qwen3Moe": "qwen3_moe"},
    **{"Gemma": "gemma", "Gemma2": "gemma2", "Gemma3": "gemma3_text", "Phi": "phi", "Phi3": "phi3"},
    **{"GPT2LMHeadModel": "gpt2", "GPTNeoX": "gpt_neox", "Gemma3ForConditionalGeneration": "gemma3"},
    **{"DeepseekV2": "deepseek_v2", "DeepseekV3": "deepseek_v3", "Glm4Moe": "glm4_moe"},
}
