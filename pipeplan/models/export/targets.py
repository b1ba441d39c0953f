"""The frameworks that plans can be exported to, by name: a table that imports nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One framework."""

    address: str
    """Module of this package and function in it."""
    about: str
    """What is written, in a phrase."""
    options: tuple[str, ...] = ()
    """Fields of `ExportOptions` that it knows."""


TARGETS: Mapping[str, Target] = {
    "torch": Target(
        "torch_pipelining:export",
        "modules of each stage, split_spec and schedule for torch.distributed.pipelining",
        ("rename", "micro_batches"),
    ),
    "torchtitan": Target(
        "torchtitan:export",
        "module_fqns_per_model_part and schedule",
        ("rename", "micro_batches", "legacy"),
    ),
    "megatron": Target("megatron:export", "--pipeline-model-parallel-layout", ("legacy",)),
    "deepspeed": Target("deepspeed:export", "a PipelineModule with the planned parts"),
    "vllm": Target("serving:vllm", "VLLM_PP_LAYER_PARTITION"),
    "sglang": Target("serving:sglang", "SGLANG_PP_LAYER_PARTITION"),
    "trtllm": Target("serving:trtllm", "pp_partition"),
    "accelerate": Target("accelerate:export", "a device_map, one device at a time", ("rename",)),
    "llamacpp": Target("serving:llamacpp", "--tensor-split, in proportions"),
}
