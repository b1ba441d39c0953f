"""One rank of torch's own pipeline, told nothing but what `plan export --to torch` wrote: run with RANK and FOLDER.

Prints how far the gradients of its stages are from those of one process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

RANKS, MICRO_BATCHES = 2, 4


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


def main(rank: int, folder: Path) -> None:
    from torch.distributed.pipelining import SplitPoint, pipeline
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    torch.distributed.init_process_group("gloo", f"file://{folder / 'store'}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    model = Model(4)
    tokens, target = torch.arange(8).reshape(4, 2) % 7, torch.arange(8).reshape(4, 2) % 5
    for one, other in zip(tokens.chunk(MICRO_BATCHES), target.chunk(MICRO_BATCHES), strict=True):
        (loss_of(model(one), other) / MICRO_BATCHES).backward()
    wanted = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    told = json.loads((folder / "stages.json").read_text("utf-8"))
    split = {name: SplitPoint[where] for name, where in told["split_spec"].items()}
    pipe = pipeline(model, mb_args=(tokens[:1],), split_spec=split)
    mine = [stage for stage in range(len(told["stages"])) if stage % RANKS == rank]
    stages = [pipe.build_stage(stage, torch.device("cpu")) for stage in mine]
    schedule = _PipelineScheduleRuntime(stages, MICRO_BATCHES, loss_fn=loss_of, scale_grads=True)
    schedule._load_csv(str(folder / "schedule.csv"), format="compute_only")
    schedule.step(*((tokens,) if rank == 0 else ()), target=target)
    held = [entry for stage in stages for entry in stage.submod.named_parameters()]
    worst = max(float((parameter.grad - wanted[name]).abs().max()) for name, parameter in held)
    sys.stdout.write(json.dumps({"parameters": len(held), "worst": worst}) + "\n")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
