"""A small model with the names of a Llama, and torch's own reader of schedules: what tests of exports share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return x + self.mlp(x)


class Model(torch.nn.Module):
    """With the names of a Llama of Hugging Face."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.model = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(7, 4)
        self.model.layers = torch.nn.ModuleList([Block() for _ in range(layers)])
        self.model.norm = torch.nn.LayerNorm(4)
        self.lm_head = torch.nn.Linear(4, 7)

    def forward(self, tokens: Any) -> Any:
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x)
        return self.lm_head(self.model.norm(x))


def loss_of(output: Any, target: Any) -> Any:
    return torch.nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


def loaded(path: Path, stages: int, ranks: int, micro_batches: int) -> Any:
    """What torch's runtime makes of a schedule's file; it needs no process group for that."""
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    runtime = _PipelineScheduleRuntime.__new__(_PipelineScheduleRuntime)
    runtime.pipeline_order, runtime._stages = {}, []
    runtime.pp_group_size, runtime._num_stages, runtime._n_microbatches = ranks, stages, micro_batches
    runtime._defer_pp_recv, runtime._comp_type_to_function_map = False, {}
    runtime._load_csv(str(path), format="compute_only")
    return runtime
