"""Models of transformers with a few layers of little width, from configurations alone."""

from __future__ import annotations

from typing import Any

import torch
import transformers

SAMPLES, WORDS = 2, 60
Made = tuple[Any, tuple[Any, ...], dict[str, Any]]
transformers.logging.set_verbosity_error()


def _words(length: int, most: int = WORDS) -> torch.Tensor:
    return torch.randint(4, most, (SAMPLES, length))


def gpt2() -> Made:
    config = transformers.GPT2Config(
        n_layer=4, n_embd=16, n_head=2, vocab_size=WORDS, n_positions=32, use_cache=False
    )
    words = _words(8)
    return transformers.GPT2LMHeadModel(config), (), {"input_ids": words, "labels": words}


def t5() -> Made:
    """Every layer of the decoder reads what the encoder made."""
    config = transformers.T5Config(
        d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=WORDS, use_cache=False,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    return model, (), {"input_ids": _words(8), "labels": _words(6)}


def whisper() -> Made:
    """The same, and labels are shifted by writes in place."""
    config = transformers.WhisperConfig(
        d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, vocab_size=WORDS, max_source_positions=20, max_target_positions=16,
        num_mel_bins=8, use_cache=False, decoder_start_token_id=3, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config)
    return model, (), {"input_features": torch.randn(SAMPLES, 8, 40), "labels": _words(6)}


def clip() -> Made:
    """Two towers, and a loss that reads both."""
    text = {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "vocab_size": WORDS, "max_position_embeddings": 8, "eos_token_id": WORDS - 1,
    }  # fmt: skip
    vision = {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "image_size": 16, "patch_size": 8,
    }  # fmt: skip
    model = transformers.CLIPModel(
        transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
    )
    words = _words(8, WORDS - 1)
    words[:, -1] = WORDS - 1
    return model, (), {"input_ids": words, "pixel_values": torch.randn(SAMPLES, 3, 16, 16), "return_loss": True}
