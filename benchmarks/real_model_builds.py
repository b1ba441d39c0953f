"""Nine families of models at sizes that a CPU core trains in under a second: one function for each, as `plan` takes it.

Random weights from configurations; dropout is off, so that every pass of one micro-batch is the same.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

transformers.logging.set_verbosity_error()
Made = tuple[Any, tuple[Any, ...], dict[str, Any]]
WORDS = 8000


def _words(samples: int, length: int, most: int = WORDS) -> torch.Tensor:
    return torch.randint(4, most, (samples, length))


def gpt2() -> Made:
    """Six layers and a head that weighs as much as four of them."""
    config = transformers.GPT2Config(
        n_layer=6, n_embd=256, n_head=4, vocab_size=WORDS, use_cache=False, tie_word_embeddings=False,
        attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0,
    )  # fmt: skip
    return _trained_on_words(transformers.GPT2LMHeadModel(config))


def gpt2_tied() -> Made:
    config = transformers.GPT2Config(
        n_layer=6, n_embd=256, n_head=4, vocab_size=WORDS, use_cache=False,
        attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0,
    )  # fmt: skip
    return _trained_on_words(transformers.GPT2LMHeadModel(config))


def llama() -> Made:
    config = transformers.LlamaConfig(
        hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=WORDS, use_cache=False,
    )  # fmt: skip
    return _trained_on_words(transformers.LlamaForCausalLM(config))


def bert() -> Made:
    config = transformers.BertConfig(
        hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024, vocab_size=WORDS,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return _trained_on_words(transformers.BertForMaskedLM(config))


def mixtral() -> Made:
    config = transformers.MixtralConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        num_local_experts=4, vocab_size=WORDS, use_cache=False,
    )  # fmt: skip
    return _trained_on_words(transformers.MixtralForCausalLM(config))


def t5() -> Made:
    config = transformers.T5Config(
        d_model=256, d_ff=1024, d_kv=64, num_heads=4, num_layers=3, vocab_size=WORDS, dropout_rate=0.0, use_cache=False,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    return model, (), {"input_ids": _words(4, 128), "labels": _words(4, 64)}


def whisper() -> Made:
    config = transformers.WhisperConfig(
        d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=1024, decoder_ffn_dim=1024, vocab_size=WORDS, max_source_positions=300, dropout=0.0,
        use_cache=False, decoder_start_token_id=3, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config)
    return model, (), {"input_features": torch.randn(2, 80, 600), "labels": _words(2, 64)}


def clip() -> Made:
    text = {
        "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4,
        "vocab_size": WORDS, "eos_token_id": WORDS - 1,
    }  # fmt: skip
    vision = {
        "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4,
        "patch_size": 32,
    }  # fmt: skip
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision))
    words = _words(4, 77, WORDS - 1)
    words[:, -1] = WORDS - 1
    return model, (), {"input_ids": words, "pixel_values": torch.randn(4, 3, 224, 224), "return_loss": True}


def vit() -> Made:
    config = transformers.ViTConfig(
        hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=4, patch_size=32,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    return model, (), {"pixel_values": torch.randn(4, 3, 224, 224), "labels": torch.randint(0, 2, (4,))}


def resnet18() -> Made:
    config = transformers.ResNetConfig(
        hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", embedding_size=64
    )
    model = transformers.ResNetForImageClassification(config)
    return model, (), {"pixel_values": torch.randn(4, 3, 128, 128), "labels": torch.randint(0, 2, (4,))}


def _trained_on_words(model: Any) -> Made:
    words = _words(4, 128)
    return model, (), {"input_ids": words, "labels": words}
