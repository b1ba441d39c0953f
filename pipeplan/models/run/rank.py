"""A rank: a process that captures the model, takes its own stages of it, and runs them as the job says.

`python -m pipeplan.models.run.rank FOLDER NUMBER`; it ends when its standard input does, and with it the launcher.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import fx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from ...instances.base.clock import true_seconds
from ...instances.base.errors import InputError, PipeplanError, UsageError
from ...instances.base.json_file import write_json, write_text_atomically
from ..capture import Build, capture, module_path
from ..from_torch import for_samples, function_of, takes_samples
from ..grouping import Piece, extract, group, is_random
from ..torch_profile import CpuClock
from .engine import Engine, Links, SharedParameter, Step, values_of
from .launch import STORE, Case, Job, answer_file, error_file
from .orders import Layout

# ---- check -----------------------------------------------------------------------------------------------
# One process runs what all ranks ran, with the model as it was written: loss and every gradient must be the same.
#
# Dropout is off on both sides, because the ranks draw other random numbers; everything else is as in the run.


def varied(inputs: Any, number: int) -> Any:
    """Micro-batch `number`, from 0, made by rolling the tensors in the inputs; number 0 is the inputs themselves."""
    return tree_map(lambda value: _rolled(value, number) if isinstance(value, torch.Tensor) else value, inputs)


def _rolled(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """The tensor rolled along its first dimension, and along the next ones once that has come round."""
    for dimension, size in enumerate(tensor.shape):
        if size > 1 and number:
            tensor = tensor.roll(number % size, dimension)
            number //= size
    return tensor


# The place of the probability among the arguments of functions that drop values.
PROBABILITY = {
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), 1),
    **dict.fromkeys(("feature_dropout", "alpha_dropout", "feature_alpha_dropout"), 1),
    "scaled_dot_product_attention": 4,
    "multi_head_attention_forward": 10,
}


def _place(target: Any) -> int | None:
    """Place of the probability among the arguments of an operation or a function of torch; None: it drops nothing."""
    packet = getattr(target, "overloadpacket", target)
    return PROBABILITY.get(str(getattr(packet, "__name__", packet)).rstrip("_"))


def refuse_random(graphs: Sequence[fx.GraphModule]) -> None:
    """Refuse graphs that draw random numbers other than for dropout, which is off in a check."""
    for node in (node for graph in graphs for node in graph.graph.nodes if node.op == "call_function"):
        if _place(node.target) is None and is_random(node):
            raise UsageError(
                f"The model draws random numbers ({node.target} in {module_path(node) or 'the model'}), of which "
                "ranks and one process get others; drop --check."
            )


class NoDropout(TorchFunctionMode):
    """Sets probabilities to 0, for stages as well as for a model that runs as it was written."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, place = dict(kwargs or {}), _place(func)
        if place is not None:
            # Where no probability is given, it is 0 or the function is told not to train.
            kwargs = {key: 0.0 if key in ("p", "dropout_p") else value for key, value in kwargs.items()}
            args = (*args[:place], *([0.0] if len(args) > place else []), *args[place + 1 :])
        return func(*args, **kwargs)


# ---- one process ---------------------------------------------------------------------------------------


def reference(build: Build, seed: int, micro_batches: int, summed: bool) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients, by every name of a parameter; `summed`: the loss is the sum of the first output."""
    torch.manual_seed(seed)
    model, args, kwargs = build()
    model.train()
    total = 0.0
    for number in range(micro_batches):
        own_args, own_kwargs = varied((tuple(args), dict(kwargs)), number)
        with NoDropout():
            loss = _loss(model(*own_args, **own_kwargs), summed)
        (loss / micro_batches).backward()
        total += float(loss.detach()) / micro_batches
    named = model.named_parameters(remove_duplicate=False)
    return total, {name: p.grad for name, p in named if p.grad is not None}


def _loss(output: Any, summed: bool) -> torch.Tensor:
    leaves = torch.utils._pytree.tree_leaves(output)
    candidates = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if summed:
        return candidates[0].sum()
    return next(leaf for leaf in candidates if leaf.numel() == 1).reshape(())


def largest_difference(
    parameters: Mapping[str, torch.nn.Parameter], expected: Mapping[str, torch.Tensor] | None
) -> tuple[float | None, float, int]:
    """The largest difference between the gradients on this rank and those of rank 0, the largest finite gradient of
    all, and the number of gradients on this rank. None: one of them is not finite, so they cannot be compared.

    `expected` is known on rank 0, which sends one after the other. Gradients that are small as a whole, such as
    those of biases that a softmax cancels, are noise: only the largest of all is a measure.
    """
    message: list[Any] = [None]
    if expected is not None:
        largest = max(filter(math.isfinite, (float(g.abs().max()) for g in expected.values())), default=0.0)
        message = [(largest, [(name, tuple(g.shape), g.dtype) for name, g in expected.items()])]
    dist.broadcast_object_list(message, src=0)
    largest, entries = message[0]
    differences = []
    for name, shape, dtype in entries:
        gradient = expected[name].contiguous() if expected is not None else torch.empty(shape, dtype=dtype)
        dist.broadcast(gradient, src=0)
        if name in parameters:
            own_gradient = parameters[name].grad
            difference = gradient if own_gradient is None else own_gradient - gradient
            differences.append(float(difference.abs().max()))
    finite = all(map(math.isfinite, differences))
    return max(differences, default=0.0) if finite else None, largest, len(differences)


# ---- rank ------------------------------------------------------------


def main() -> int:
    """Run a rank; the exit code is 2 for an error that the user can mend, 1 for others, and a file has its sentence."""
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_end_with_the_launcher, daemon=True).start()
    try:
        write_json(answer_file(folder, rank), _Rank(Job.read(folder), folder, rank).answer())
    except PipeplanError as error:
        write_text_atomically(error_file(folder, rank), str(error))
        return 2
    except Exception as error:
        traceback.print_exc()
        text = " ".join(str(error).split())[:300]
        write_text_atomically(error_file(folder, rank), f"{type(error).__name__}: {text}")
        return 1
    return 0


def _end_with_the_launcher() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


@dataclass(frozen=True)
class _Prepared:
    """A case that is ready to run, with the pieces of this rank's own stages."""

    case: Case
    engine: Engine
    pieces: Mapping[int, Piece]


class _Rank:
    def __init__(self, job: Job, folder: Path, rank: int) -> None:
        self.job, self.folder, self.rank = job, folder, rank
        torch.set_num_threads(1)
        _pin(rank, job.ranks)
        function = function_of(job.model)
        self.build: Build = for_samples(function, job.samples if takes_samples(function) else None)
        torch.manual_seed(job.seed)
        self.captured = capture(self.build, training=job.training, loss=job.loss)
        if self.captured.sha256 != job.graph_sha256:
            raise InputError(
                job.model,
                f"is another model than the profile's (graph {self.captured.sha256[:12]}, not {job.graph_sha256[:12]})",
                "give the function that was imported, or import it again",
            )
        self.grouped = group(self.captured, job.granularity)
        self.inputs = [varied(dict(self.captured.inputs), number) for number in range(job.micro_batches)]
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder / STORE}",
            rank=rank,
            world_size=job.ranks,
            timeout=timedelta(seconds=true_seconds(job.deadline_s)),
        )

    def answer(self) -> dict[str, Any]:
        """The rank's answer for the launcher: what was measured, and what the check found."""
        prepared = [self._prepare(case) for case in self.job.cases]
        answer: dict[str, Any] = {"checks": {}, "cases": {entry.case.name: [] for entry in prepared}}
        if self.job.check:
            answer["checks"] = self._checks(prepared)
        for number in range(self.job.warm_up + self.job.steps):
            for entry in prepared:
                step = self._step(entry)
                if number >= self.job.warm_up:
                    answer["cases"][entry.case.name].append(asdict(step))
        dist.barrier()
        answer["torch"] = torch.__version__
        dist.destroy_process_group()
        return answer

    # ---- a case --------------------------------------------------------------------------------------

    def _prepare(self, case: Case) -> _Prepared:
        stage_of = {node: x for x, stage in enumerate(case.stages) for node in stage.nodes}
        pieces = [extract(self.captured, self.grouped, stage_of, x) for x in range(len(case.stages))]
        layout = Layout(case.stages, tuple(values_of(self.captured, pieces)), self.job.micro_batches)
        own_pieces = {x: pieces[x] for x, stage in enumerate(case.stages) if self.rank in stage.ranks}
        shared = self._shared(case, pieces)
        order = case.orders[self.rank] if self.rank < len(case.orders) else ()
        links, clock = Links(layout), CpuClock()
        engine = Engine(self.rank, own_pieces, layout, order, links, clock, self.job.training, shared)
        return _Prepared(case, engine, own_pieces)

    def _shared(self, case: Case, pieces: Sequence[Piece]) -> list[SharedParameter]:
        """Parameters of this rank that others hold, too, as replicas or tied.

        Every rank makes the groups of all, in one order, as torch demands.
        """
        ranks: dict[int, set[int]] = {}
        parameters: dict[int, torch.nn.Parameter] = {}
        for stage, piece in zip(case.stages, pieces, strict=True):
            for parameter in piece.module.parameters():
                parameters[id(parameter)] = parameter
                ranks.setdefault(id(parameter), set()).update(stage.ranks)
        sets = sorted({tuple(sorted(members)) for members in ranks.values() if len(members) > 1})
        groups = {members: dist.new_group(list(members)) for members in sets}
        return [
            SharedParameter(parameters[key], groups[tuple(sorted(members))])
            for key, members in ranks.items()
            if len(members) > 1 and self.rank in members and parameters[key].requires_grad
        ]

    def _step(self, entry: _Prepared) -> Step:
        for parameter in self.captured.graph.parameters():
            parameter.grad = None
        dist.barrier()
        step = entry.engine.step(self.inputs)
        if step.loss is not None and not math.isfinite(step.loss):
            raise InputError(
                self.job.model, f"has the loss {step.loss}", "give a model and inputs with a finite loss"
            )
        return step

    # ---- the check -----------------------------------------------------------------------------------

    def _checks(self, prepared: Sequence[_Prepared]) -> dict[str, Any]:
        """What the check found in each case; rank 0 also runs the whole model alone."""
        expected, loss = None, None
        if self.rank == 0:
            summed = self.job.loss == "sum"
            loss, expected = reference(self.build, self.job.seed, self.job.micro_batches, summed)
        names = dict(self.captured.graph.named_parameters(remove_duplicate=False))
        checks = {}
        for entry in prepared:
            refuse_random([piece.module for piece in entry.pieces.values()])
            with NoDropout():
                step = self._step(entry)
            ids = {id(p) for piece in entry.pieces.values() for p in piece.module.parameters()}
            parameters = {name: parameter for name, parameter in names.items() if id(parameter) in ids}
            difference, largest, compared = largest_difference(parameters, expected)
            checks[entry.case.name] = {
                "difference": difference,
                "largest": largest,
                "compared": compared,
                "loss": step.loss,
                "expected": loss,
            }
        return checks


def _pin(rank: int, ranks: int) -> None:
    """Keep the rank on a core of its own where there are enough, so that ranks do not chase each other."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= ranks:
        os.sched_setaffinity(0, {cores[rank]})


if __name__ == "__main__":
    sys.exit(main())
