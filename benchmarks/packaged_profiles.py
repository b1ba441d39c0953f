"""The packaged profiles: published networks at one setting each, from their configurations alone.

    python benchmarks/packaged_profiles.py             # all of them, some minutes
    python benchmarks/packaged_profiles.py llama-3-8b  # this one

Figures are those of the config.json files that the repositories named below publish on the Hugging Face Hub, which
need pip install 'pipeplan[hf]', or those of the papers, as `recipes/` has them. No weights are needed, and nothing is
fetched. Times are calculated for one H100; with the kernels that a profile names they are calculated anew for other
devices (`plan solve NAME --devices 8xa100-80gb`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recipes.catalogue import build
from recipes.profile import to_profile
from recipes.recipe import made_on

from pipeplan import Profile, import_hf
from pipeplan.instances.base.json_file import write_text_atomically
from pipeplan.instances.networks.profile.profile import profile_to_json
from pipeplan.instances.networks.profile.work import on_hardware

FOLDER = Path(__file__).resolve().parents[1] / "instances" / "packaged" / "profiles"
HARDWARE = "h100-80gb"
# The stored profiles were made with these peaks; the white paper says 989.4 TFLOP/s.
MADE_ON = replace(made_on(HARDWARE), single_flops_per_s=494.5e12, half_flops_per_s=989.5e12)
DTYPE = "bfloat16"


@dataclass(frozen=True)
class Network:
    """A network and the setting of its profile."""

    repository: str
    """On the hub, whose config.json the figures are of."""
    config: Mapping[str, Any]
    batch: int
    sequence: int | None
    """Tokens of a sample."""
    granularity: str = "block"


def _llama(repository: str, width: int, inner: int, heads: int, layers: int) -> Network:
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": False,
    }
    return Network(repository, config, batch=1, sequence=4096)


NETWORKS: Mapping[str, Network] = {
    "gpt2": Network(
        "openai-community/gpt2",
        {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "n_embd": 768,
            "n_head": 12,
            "n_layer": 12,
            "n_positions": 1024,
            "vocab_size": 50257,
        },
        batch=8,
        sequence=1024,
    ),
    "llama-3-8b": _llama("meta-llama/Meta-Llama-3-8B", 4096, 14336, 32, 32),
    "llama-3-70b": _llama("meta-llama/Meta-Llama-3-70B", 8192, 28672, 64, 80),
    "mixtral-8x7b": Network(
        "mistralai/Mixtral-8x7B-v0.1",
        {
            "model_type": "mixtral",
            "architectures": ["MixtralForCausalLM"],
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "vocab_size": 32000,
            "max_position_embeddings": 32768,
            "tie_word_embeddings": False,
        },
        batch=1,
        sequence=4096,
    ),
    "t5-large": Network(
        "google-t5/t5-large",
        {
            "model_type": "t5",
            "architectures": ["T5ForConditionalGeneration"],
            "d_model": 1024,
            "d_ff": 4096,
            "d_kv": 64,
            "num_heads": 16,
            "num_layers": 24,
            "vocab_size": 32128,
        },
        batch=8,
        sequence=512,
    ),
    "whisper-medium": Network(
        "openai/whisper-medium",
        {
            "model_type": "whisper",
            "architectures": ["WhisperForConditionalGeneration"],
            "d_model": 1024,
            "encoder_layers": 24,
            "decoder_layers": 24,
            "encoder_attention_heads": 16,
            "decoder_attention_heads": 16,
            "encoder_ffn_dim": 4096,
            "decoder_ffn_dim": 4096,
            "num_mel_bins": 80,
            "max_source_positions": 1500,
            "max_target_positions": 448,
            "vocab_size": 51865,
        },
        batch=8,
        sequence=448,
    ),
    "clip-vit-large-patch14": Network(
        "openai/clip-vit-large-patch14",
        {
            "model_type": "clip",
            "architectures": ["CLIPModel"],
            "projection_dim": 768,
            "text_config": {
                "hidden_size": 768,
                "intermediate_size": 3072,
                "num_attention_heads": 12,
                "num_hidden_layers": 12,
                "projection_dim": 768,
                "max_position_embeddings": 77,
                "vocab_size": 49408,
            },
            "vision_config": {
                "hidden_size": 1024,
                "intermediate_size": 4096,
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "patch_size": 14,
                "image_size": 224,
                "projection_dim": 768,
            },
        },
        batch=32,
        sequence=77,
    ),
    "resnet-50": Network(
        "microsoft/resnet-50",
        {
            "model_type": "resnet",
            "architectures": ["ResNetForImageClassification"],
            "depths": [3, 4, 6, 3],
            "hidden_sizes": [256, 512, 1024, 2048],
            "embedding_size": 64,
            "layer_type": "bottleneck",
            "num_labels": 1000,
        },
        batch=64,
        sequence=None,
        # Blocks are whole stages there, four of them.
        granularity="share:0.1",
    ),
}


# Networks as papers and reference implementations have them: whose weights have as many parameters, their name among
# the recipes, the batch and the tokens of a sample.
OF_PAPERS: Mapping[str, tuple[str, str, int, int | None]] = {
    "bert-large": ("google-bert/bert-large-uncased on the Hugging Face Hub", "bert-large-operators", 8, 384),
    "densenet121": ("pytorch/vision densenet121", "densenet121", 32, None),
    "gpt2-xl": ("openai-community/gpt2-xl on the Hugging Face Hub", "gpt2-xl-operators", 4, 1024),
    "inception-v3": ("pytorch/vision inception_v3, without the auxiliary classifier", "inception_v3", 32, None),
    "vgg16": ("pytorch/vision vgg16", "vgg16", 32, None),
}


def made_of_paper(name: str) -> Profile:
    """The profile of a network block by block, from the shapes in its paper."""
    config, recipe, batch, sequence = OF_PAPERS[name]
    source: dict[str, Any] = {"config": config, "how": "shapes of the paper", "batch": batch, "dtype": DTYPE}
    if sequence is not None:
        source["sequence"] = sequence
    return to_profile(replace(build(recipe, batch), element_bytes=2), MADE_ON, name, source)


def made(name: str) -> Profile:
    """The profile of a network, without the names of the modules inside its nodes."""
    if name in OF_PAPERS:
        return made_of_paper(name)
    network = NETWORKS[name]
    profile = import_hf(
        network.config,
        batch=network.batch,
        sequence=network.sequence,
        dtype=DTYPE,
        hardware=HARDWARE,
        granularity=network.granularity,
        activations="eager",
        name=name,
    )
    source = {"config": f"{network.repository} on the Hugging Face Hub", **profile.source}
    del source["activations"]
    nodes = tuple(replace(node, modules=()) for node in profile.nodes)
    return on_hardware(profile.replace(nodes=nodes, source=source), MADE_ON)


def short(data: Any) -> Any:
    """Whole numbers without a fraction, others with nine digits: a third less to read."""
    if isinstance(data, dict):
        return {key: short(value) for key, value in data.items()}
    if isinstance(data, list):
        return [short(value) for value in data]
    if not isinstance(data, float):
        return data
    return int(data) if data.is_integer() else float(f"{data:.9g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*NETWORKS, *OF_PAPERS]
    parser.add_argument("names", nargs="*", choices=[*names, []], help="networks; without any, all of them")
    for name in parser.parse_args().names or names:
        path = FOLDER / f"{name}.json"
        profile = made(name)
        text = json.dumps(short(profile_to_json(profile)), separators=(",", ":"))
        write_text_atomically(path, text + "\n")
        print(f"{name}: {len(profile.nodes)} nodes, {path.stat().st_size / 1000:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
