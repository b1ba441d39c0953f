"""Small models of nine families of transformers, and a step of a model in pieces: what the tests on models share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Built = tuple[Any, tuple[Any, ...], dict[str, Any]]


def _tokens(batch: int, length: int, below: int) -> Any:
    import torch

    return torch.randint(0, below, (batch, length))


def _text(model: Any, batch: int = 2, length: int = 16, below: int = 100) -> Built:
    ids = _tokens(batch, length, below)
    return model, (), {"input_ids": ids, "labels": ids}


def gpt2() -> Built:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=2, n_embd=32, n_head=2, vocab_size=100, n_positions=32, use_cache=False,
        attn_pdrop=0, resid_pdrop=0, embd_pdrop=0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return _text(GPT2LMHeadModel(config))


def llama() -> Built:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, use_cache=False,
    )  # fmt: skip
    return _text(LlamaForCausalLM(config))


def bert() -> Built:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=100,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    return _text(BertForMaskedLM(config))


def t5() -> Built:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        use_cache=False, num_layers=2, d_model=32, d_kv=16, num_heads=2, d_ff=64, vocab_size=100, dropout_rate=0.0,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    return model, (), {"input_ids": _tokens(2, 16, 100), "labels": _tokens(2, 8, 100)}


def mixtral() -> Built:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, use_cache=False,
    )  # fmt: skip
    return _text(MixtralForCausalLM(config))


def resnet() -> Built:
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(hidden_sizes=[8, 16], depths=[2, 2], layer_type="basic", embedding_size=8)
    images = torch.randn(2, 3, 32, 32)
    return ResNetForImageClassification(config), (), {"pixel_values": images, "labels": _tokens(2, 1, 2)[:, 0]}


def vit() -> Built:
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    images = torch.randn(2, 3, 32, 32)
    return ViTForImageClassification(config), (), {"pixel_values": images, "labels": _tokens(2, 1, 2)[:, 0]}


def clip() -> Built:
    import torch
    from transformers import CLIPConfig, CLIPModel

    config = CLIPConfig()
    for tower in (config.text_config, config.vision_config):
        tower.num_hidden_layers, tower.hidden_size, tower.intermediate_size = 2, 32, 64
        tower.num_attention_heads = 2
    config.text_config.vocab_size, config.text_config.eos_token_id = 100, 99
    config.vision_config.image_size, config.vision_config.patch_size = 32, 8
    ids = _tokens(3, 16, 99)
    ids[:, -1] = 99
    images = torch.randn(3, 3, 32, 32)
    return CLIPModel(config), (), {"input_ids": ids, "pixel_values": images, "return_loss": True}


def whisper() -> Built:
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        use_cache=False, dropout=0, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=100, max_source_positions=30,
        decoder_start_token_id=3, pad_token_id=0, bos_token_id=1, eos_token_id=2, begin_suppress_tokens=None,
    )  # fmt: skip
    sound = torch.randn(2, 80, 60)
    return WhisperForConditionalGeneration(config), (), {"input_features": sound, "labels": _tokens(2, 8, 100)}


FAMILIES: Mapping[str, Callable[[], Built]] = {
    function.__name__: function for function in (gpt2, llama, bert, t5, mixtral, resnet, vit, clip, whisper)
}


def seeded(build: Callable[[], Built]) -> Callable[[], Built]:
    """The same weights and inputs at every call."""

    def again() -> Built:
        import torch

        torch.manual_seed(0)
        return build()

    return again


def cut_evenly(names: list[str], stages: int) -> dict[str, int]:
    """Nodes in their order on so many stages."""
    return {name: i * stages // len(names) for i, name in enumerate(names)}


def step_in_pieces(captured: Any, grouped: Any, stage_of: Mapping[str, int]) -> float:
    """One training step, stage after stage, each cut off from the others; gradients lie at the parameters."""
    import torch

    from pipeplan.models.grouping import Foreign, extract

    values: dict[str, Any] = {}
    kept = []
    loss = None
    for stage in range(max(stage_of.values()) + 1):
        piece = extract(captured, grouped, stage_of, stage)
        args, leaves = [], {}
        for given in piece.inputs:
            value = values[given.value] if isinstance(given, Foreign) else captured.inputs[given.name]
            if isinstance(given, Foreign):
                value = leaves[given.value] = value.detach().requires_grad_(value.requires_grad)
            args.append(value)
        outputs, finals = piece.module(*args)
        made = dict(zip(piece.outputs, outputs, strict=True))
        values |= made
        kept.append((leaves, made))
        if piece.loss is not None:
            loss = dict(zip(piece.finals, finals, strict=True))[piece.loss]
    assert loss is not None
    loss.backward()
    gradients: dict[str, Any] = {}
    for leaves, made in reversed(kept):
        for name, value in made.items():
            if name in gradients and value.requires_grad:
                torch.autograd.backward(value, gradients[name], retain_graph=True)
        for name, leaf in leaves.items():
            if leaf.grad is not None:
                gradients[name] = leaf.grad + gradients.get(name, 0)
    return float(loss.detach())
