"""torch.distributed.pipelining and torchtitan: the modules of each stage, where to split, the order of all passes.

`split_spec` is what `pipeline()` takes, with `SplitPoint[...]` for its values; `schedule.csv` is for
`_PipelineScheduleRuntime._load_csv(file, format="compute_only")`. torchtitan takes the modules of each part of the
model as fields of its section `parallelism`; its own models have other names than those of Hugging Face, which
`--rename` maps.
"""

from __future__ import annotations

import json
from dataclasses import replace

from ...instances.base.errors import InputError, UsageError, show
from ...instances.base.quantities import several
from ...instances.schedule.csv_file import csv_stages, schedule_to_csv
from ...instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ...instances.timeline.engine import share_devices
from ...instances.timeline.model import Dependency, Pass, Pipeline, Stage, kfkb_order
from .contract import (
    Exported,
    ExportOptions,
    ToExport,
    check_round_robin,
    check_row,
    degrees_of,
    servers_of,
    usual_notes,
)
from .names import NodeNames, around_of

STAGES, SCHEDULE = "stages.json", "schedule.csv"
TIES = "torch adds up no gradients between stages; untie them, or all-reduce them after each step"


def export(job: ToExport) -> Exported:
    """The files for a row of stages, one or several on each rank; other plans are refused."""
    check_row(job)
    degrees_of(job, replicas=False, tensor=False)
    check_one_micro_batch(job)
    stages = modules_by_stage(job)
    split = dict.fromkeys(split_points(stages), "BEGINNING")
    files = {STAGES: json.dumps({"stages": stages, "split_spec": split}) + "\n"}
    notes = usual_notes(job, ties=TIES)
    files |= schedule_of(job, notes)
    if SCHEDULE in files and job.options.micro_batches is not None:
        files[FILE] = TEXT.format(ranks=job.plan.ranks, micro_batches=job.options.micro_batches)
        outside = job.profile is not None and job.profile.source.get("loss") is not None
        loss = " my.py:loss" * outside
        each, servers = servers_of(job, job.plan.ranks) or (job.plan.ranks, 1)
        where = f"--nproc-per-node {each}" + f" --nnodes {servers}" * (servers > 1)
        notes.append(f"torchrun {where} {FILE} my.py:build{loss} trains it, with my.py for the file of your model")
        if outside:
            notes.append("my.py:loss is yours: it makes the loss of (output, *args, **kwargs)")
    return Exported(files, tuple(notes))


def modules_by_stage(job: ToExport) -> list[list[str]]:
    """The modules of each stage in the order of the model; a module with parameters is on one stage alone."""
    names, homes = NodeNames(job), dict[str, int]()
    stages: list[list[str]] = []
    for number, stage in enumerate(job.stages):
        node_of: dict[str, str] = {}
        for node in stage.nodes:
            node_of |= {module: node_of.get(module, node) for module in names.paths(node)}
        for module, node in node_of.items():
            if homes.setdefault(module, number) != number and names.holds_parameters(node, module):
                raise job.refusal(
                    f"the node {show(node)} on stage {number} is the module {show(module)}, which stage "
                    f"{homes[module]} holds too, and a module is on one stage",
                    "keep its calls together, or `plan run`",
                )
        if all(homes[module] != number for module in node_of):
            raise job.refusal(
                f"{job.at(number)}, holds no module by name, and stages begin at one",
                "import the model with another --granularity",
            )
        stages.append([name for name in node_of if not any(around in node_of for around in around_of(name))])
    homes = {name: number for number, held in enumerate(stages) for name in held}
    for name, number in homes.items():
        outer = next((around for around in around_of(name) if homes.get(around, number) != number), None)
        if outer is not None:
            raise job.refusal(
                f"the module {show(name)} is on stage {number} and {show(outer)}, which it is a part of, on stage "
                f"{homes[outer]}, and a module is on one stage",
                "import the model with --granularity block and plan again",
            )
    return stages


def split_points(stages: list[list[str]]) -> list[str]:
    """The first module of each stage but the first that no earlier stage has (a dropout may be on several)."""
    points, seen = [], set(stages[0])
    for names in stages[1:]:
        points.append(next(name for name in names if name not in seen))
        seen |= set(names)
    return points


def schedule_of(job: ToExport, notes: list[str]) -> dict[str, str]:
    """The file with the order of all passes, or a note on why there is none."""
    if job.plan.training is False:
        notes.append(f"no {SCHEDULE}: it is for training")
        return {}
    if job.options.micro_batches is None:
        notes.append(f"no {SCHEDULE}, the order of all passes: say for how many --micro-batches")
        return {}
    # A row for each rank; the cells of torch's runtime: stage, F or B, micro-batch from 0.
    rows = passes_by_rank(job, job.options.micro_batches)
    lines = (",".join(f"{one.stage}{one.kind}{abs(one.micro_batch) - 1}" for one in row) for row in rows)
    return {SCHEDULE: "".join(f"{line}\n" for line in lines)}


TOML = "parallelism.toml"
# torchtitan's names by those that transformers give to modules of language models.
TORCHTITAN_NAMES = {
    "model.embed_tokens": "tok_embeddings",
    "model.layers": "layers",
    "model.norm": "norm",
    "lm_head": "output",
}


def torchtitan(job: ToExport) -> Exported:
    """The parallelism settings of torchtitan for a row of stages; stage i is on rank i mod the number of ranks."""
    check_row(job, check_round_robin)
    replicas, tensor = degrees_of(job)
    check_one_micro_batch(job)
    stages = modules_by_stage(job)
    notes = usual_notes(job, ties=TIES)
    if not job.options.rename and any(name.startswith("model.") for names in stages for name in names):
        job = replace(job, options=replace(job.options, rename=TORCHTITAN_NAMES))
        stages = modules_by_stage(job)
        told = ", ".join(f"{theirs} for {name}" for name, theirs in TORCHTITAN_NAMES.items())
        notes.append(f"modules have torchtitan's names ({told}); --rename gives others")
    schedule = schedule_of(job, notes)
    lines = ["[parallelism]", f"pipeline_parallel_degree = {job.plan.ranks}"]
    lines += [f"tensor_parallel_degree = {tensor}"] * (tensor > 1)
    lines += [f"data_parallel_replicate_degree = {replicas}"] * (replicas > 1)
    lines.append(f"module_fqns_per_model_part = {_value(stages)}")
    interleaved = len(stages) > job.plan.ranks
    lines.append(f'pipeline_parallel_schedule = "{"Interleaved1F1B" if interleaved else "1F1B"}"')
    lines += [f'pipeline_parallel_schedule_csv = "{SCHEDULE}"'] * bool(schedule)
    return Exported({TOML: "\n".join(lines) + "\n", **schedule}, tuple(notes))


def _value(value: object) -> str:
    """A list of texts is written alike in TOML, Python and JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def passes_by_rank(job: ToExport, micro_batches: int) -> list[list[Pass]]:
    """All passes of one iteration, for each rank in their order.

    A rank with one stage works in the simulator's order, kFkB with the plan's micro-batches in flight; where ranks hold
    several stages, in that of its list scheduler.
    """
    if job.plan.ranks < len(job.stages):
        return _listed(job, micro_batches)
    passes: list[list[Pass]] = [[] for _ in job.stages]
    for number, stage in enumerate(job.stages):
        order = kfkb_order(range(1, micro_batches + 1), stage.in_flight, stage.k)
        passes[stage.rank] = [Pass(number, j) for j in order]
    return passes


def check_one_micro_batch(job: ToExport) -> None:
    """All stages run micro-batches of one size: those of torch are numbered alike on all stages."""
    first = job.stages[0].samples
    for number, stage in enumerate(job.stages):
        if stage.samples != first:
            raise job.refusal(
                f"{job.at(number)}, has micro-batches of {stage.samples} samples and stage 0 of {first}, and all "
                "stages must have the same",
                "`plan run` runs it as it is",
            )


def _listed(job: ToExport, micro_batches: int) -> list[list[Pass]]:
    """The passes of each rank where ranks hold several stages, in the order of the list scheduler.

    Without a profile a stage takes the time of its number of nodes, backward twice as long as forward.
    """
    stages = []
    for stage in job.stages:
        times = (float(len(stage.nodes)), 2.0 * len(stage.nodes))
        if job.profile is not None:
            nodes = [job.profile.nodes[job.profile.index[node]] for node in stage.nodes]
            forward, backward = (
                map(job.profile.time, (getattr(n, s) for n in nodes)) for s in ("forward", "backward")
            )
            times = (sum(forward), sum(backward))
        stages.append(Stage(stage.device, 1, *times, orders=((),)))
    pipeline = Pipeline(tuple(stages), tuple(Dependency(x, y) for x, y in job.plan.edges), micro_batches)
    ranks, in_flight = ([stage.rank for stage in job.stages], [stage.in_flight for stage in job.stages])
    return [list(order) for order in share_devices(pipeline, ranks, in_flight).shared]


# ---- torch script ------------------------------------------------------------
# The script beside a plan for torch: it trains a model as the plan says, whether the model returns its loss or not.
#
# Stages take the inputs of the model that they read themselves, such as labels, from their own rank's batch: torch's
# runtime sends nothing but what stages make, and has no place for such inputs behind the first stage.


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


# ---- schedules: when every block of work runs ----------------------------------------------------------


def schedule(problem: ScheduleProblem, plan: AnySchedule, options: ExportOptions) -> Exported:
    """A row for each rank with a cell for each pass, as torch's `_PipelineScheduleRuntime._load_csv` reads them."""
    if options.micro_batches is not None:
        problem = problem.replace(micro_batches=options.micro_batches)
    text = schedule_to_csv(problem, _finite(problem, plan))
    names = [problem.devices[device].name for device in csv_stages(problem).ranks]
    ranks = ", ".join(f"{rank} = {name}" for rank, name in enumerate(names))
    return Exported({SCHEDULE: text}, (f"ranks are {ranks}", "the file has an order and no times"))


def _finite(problem: ScheduleProblem, plan: AnySchedule) -> SchedulePlan:
    """The schedule of all micro-batches: a steady state is repeated for as many as the problem has."""
    if isinstance(plan, PeriodicSchedulePlan):
        if problem.micro_batches is None:
            raise UsageError("A steady state has no end; say how many --micro-batches the file is to run.")
        numbers = range(problem.micro_batches)
        return SchedulePlan(
            {b: tuple(start + n * plan.period for n in numbers) for b, start in plan.starts.items()}
        )
    count = max(map(len, plan.starts.values()), default=0)
    if problem.micro_batches not in (None, count):
        raise InputError(
            "plan", f"runs {several(count, 'micro-batch')}, not {problem.micro_batches}", "schedule that many"
        )
    return plan
