"""The script beside a plan for torch: it trains a model as the plan says, whether the model returns its loss or not.

Stages take the inputs of the model that they read themselves, such as labels, from their own rank's batch: torch's
runtime sends nothing but what stages make, and has no place for such inputs behind the first stage.
"""

from __future__ import annotations

FILE = "train.py"

TEXT = r'''"""Train as planned: torchrun --nproc-per-node {ranks} train.py my.py:build [my.py:loss], beside stages.json.

`build()` returns (model, args, kwargs) for one micro-batch, as for `plan import torch`. Where the model returns its
loss, it is taken; where it does not, `loss(output, *args, **kwargs)` makes it of the output and the same inputs.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import SplitPoint, pipeline
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

HERE = Path(__file__).resolve().parent
RANKS, MICRO_BATCHES, STEPS = {ranks}, {micro_batches}, 3


def named(text):
    """The function in a file: my.py:build."""
    file, _, name = text.partition(":")
    sys.path.insert(0, str(Path(file).resolve().parent))  # what the file imports may stand beside it
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


class Whole(torch.nn.Module):
    """The model with all its inputs by position, so that any stage may read any of them."""

    def __init__(self, model, names):
        super().__init__()
        self.whole, self.names = model, names

    def forward(self, *inputs):
        cut = len(inputs) - len(self.names)
        return self.whole(*inputs[:cut], **dict(zip(self.names, inputs[cut:])))


def places(pipe, stage):
    """Which inputs of the model a stage reads itself, by their places; None for what other stages send."""
    inputs = [node for node in pipe.split_gm.graph.nodes if node.op == "placeholder"]
    call = next(node for node in pipe.split_gm.graph.nodes if node.target == f"submod_pp_{{stage}}")
    return [inputs.index(node) if node in inputs else None for node in call.args]


def feed(stage, read, batches):
    """A stage behind the first takes the inputs that it reads itself, such as labels, from its own rank's batch."""
    if None in read[sum(place is None for place in read) :]:
        raise SystemExit("a stage reads an input of the model before what other stages send")
    received, forward = stage._retrieve_recv_activations, stage.forward_one_chunk

    def retrieve(number):
        infos = stage.args_recv_info[number]
        stage.args_recv_info[number] = tuple(info for info in infos if not info.is_root_arg)
        sent = received(number)
        if stage.has_backward and stage.grad_send_info is None:
            stage.grad_send_info = stage._create_grad_send_info(stage.args_recv_info[number])
        stage.args_recv_info[number] = infos
        return sent

    def run(number, args, kwargs=None, *rest, **more):
        own = {{f"inputs_{{place}}": batches[number][place] for place in read if place is not None}}
        return forward(number, args, own, *rest, **more)

    stage._retrieve_recv_activations, stage.forward_one_chunk = retrieve, run


def scalar(output):
    """The loss in what a model returns."""
    found = output
    if not isinstance(output, torch.Tensor):
        found = next(iter(output.values() if hasattr(output, "values") else output))
    if found.dim():
        raise SystemExit("the model returns no loss: name a function, my.py:loss, behind my.py:build")
    return found


def main(build, loss):
    rank, cuda = int(os.environ["RANK"]), torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    torch.manual_seed(0)
    model, args, kwargs = build()
    names = list(kwargs)
    told = json.loads((HERE / "stages.json").read_text("utf-8"))
    split = {{f"whole.{{name}}": SplitPoint[where] for name, where in told["split_spec"].items()}}
    pipe = pipeline(Whole(model, names), mb_args=(*args, *kwargs.values()), split_spec=split)
    cells = (HERE / "schedule.csv").read_text("utf-8").splitlines()[rank].split(",")
    mine = sorted({{int(cell.partition("F")[0]) for cell in cells if "F" in cell}})
    stages = [pipe.build_stage(stage, device) for stage in mine]

    # Your data goes here: all ranks read the same micro-batches, each as (args, kwargs).
    data = [build()[1:] for _ in range(MICRO_BATCHES)]
    batches = [
        [value.to(device) if isinstance(value, torch.Tensor) else value for value in (*one, *named.values())]
        for one, named in data
    ]
    for number, stage in zip(mine, stages):
        if number:
            feed(stage, places(pipe, number), batches)

    def loss_of(output, number):
        if loss is None:
            return scalar(output)
        inputs = batches[int(number)]
        cut = len(inputs) - len(names)
        return loss(output, *inputs[:cut], **dict(zip(names, inputs[cut:])))

    schedule = _PipelineScheduleRuntime(stages, MICRO_BATCHES, loss_fn=loss_of, scale_grads=True)
    schedule._load_csv(str(HERE / "schedule.csv"), format="compute_only")
    optimizer = torch.optim.AdamW([weight for stage in stages for weight in stage.submod.parameters()])
    first = [torch.cat([batch[place] for batch in batches]) for place in places(pipe, 0)] if 0 in mine else []
    for step in range(STEPS):
        losses = []
        schedule.step(*first, target=torch.arange(MICRO_BATCHES), losses=losses, return_outputs=False)
        optimizer.step()
        optimizer.zero_grad()
        if losses:
            print(f"step {{step}}: loss {{sum(float(loss.detach()) for loss in losses) / len(losses):.6f}}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(named(sys.argv[1]), named(sys.argv[2]) if len(sys.argv) > 2 else None)
'''


def script(ranks: int, micro_batches: int) -> str:
    """The script for these numbers of ranks and micro-batches; it reads stages.json and schedule.csv in its folder."""
    return TEXT.format(ranks=ranks, micro_batches=micro_batches)
