"""A small transformer, trained on CPU processes by data and pipeline parallelism: `python train.py --help`.

Flags have Megatron's names, the log has Megatron's lines, and memory is out where the tensors of a process take more
bytes than `--memory-limit` says: that is what `plan tune` needs. It is to be read in this order: the model and its
stages, the memory that is counted, the optimizer, the order of passes, one process, the flags.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter, deque
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

MIB = 2**20
say = partial(print, flush=True)

# ---- the model, of which a process has one stage -----------------------------------------------------------


class Product(torch.autograd.Function):
    """x W + b in 32 bits of tensors that are kept in their own format: few CPUs multiply 16 bits as fast."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return functional.linear(x.float(), weight.float(), None if bias is None else bias.float()).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows, wide = gradient.flatten(0, -2).float(), x.flatten(0, -2).float()
        of_bias = rows.sum(0).to(x.dtype) if ctx.has_bias else None
        return (rows @ weight.float()).view_as(x).to(x.dtype), (rows.t() @ wide).to(x.dtype), of_bias


class Attention(torch.autograd.Function):
    """Causal attention, in 32 bits as well; the backward pass computes it again."""

    @staticmethod
    def forward(ctx: Any, *parts: Tensor) -> Tensor:
        ctx.save_for_backward(*parts)
        mixed = functional.scaled_dot_product_attention(*(part.float() for part in parts), is_causal=True)
        return mixed.to(parts[0].dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        wide = [part.float().requires_grad_() for part in ctx.saved_tensors]
        with torch.enable_grad():
            mixed = functional.scaled_dot_product_attention(*wide, is_causal=True)
        return tuple(own.to(gradient.dtype) for own in torch.autograd.grad(mixed, wide, gradient.float()))


class Linear(nn.Linear):
    """Computes as `Product` does."""

    def forward(self, x: Tensor) -> Tensor:
        return Product.apply(x, self.weight, self.bias)


class Layer(nn.Module):
    """A layer of GPT: attention, then an MLP of four times the width."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(hidden)
        self.attention, self.output = Linear(hidden, 3 * hidden), Linear(hidden, hidden)
        wide = Linear(hidden, 4 * hidden), nn.GELU(), Linear(4 * hidden, hidden)
        self.mlp = nn.Sequential(nn.LayerNorm(hidden), *wide)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.attention(self.norm(x)).chunk(3, -1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = Attention.apply(query, key, value)
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class Embedding(nn.Module):
    """Words and their places, as vectors."""

    def __init__(self, words: int, places: int, hidden: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, hidden), nn.Embedding(places, hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.words(tokens) + self.places(torch.arange(tokens.shape[1]))


def units_of_stages(args: argparse.Namespace) -> list[range]:
    """The units of each stage: 0 is the embedding, then come the layers, and the last one is the head."""
    layers, stages, layout = args.num_layers, args.pipeline_model_parallel_size, args.pipeline_model_parallel_layout
    if layout is None:
        ends = [1 + layers * stage // stages + (stage == stages) for stage in range(1, stages + 1)]
    else:  # Megatron's letters, as in Et*3|t*5,L
        counts = [sum(int(n or 1) for n in re.findall(r"[EtL](?:\*(\d+))?", text)) for text in layout.split("|")]
        ends = [sum(counts[:stage]) for stage in range(1, len(counts) + 1)]
    return [range(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]


class Stage(nn.Module):
    """Some units in a row, in blocks that keep what their backward passes need, or compute it again."""

    def __init__(self, args: argparse.Namespace, units: range) -> None:
        super().__init__()
        hidden, last = args.hidden_size, args.num_layers + 1
        made: dict[int, nn.Module] = {}
        for unit in units:
            torch.manual_seed(unit)  # a unit has the same weights, however the model is cut
            if unit == 0:
                made[unit] = Embedding(args.vocab_size, args.seq_length, hidden)
            elif unit == last:
                head = Linear(hidden, args.vocab_size, bias=False)
                made[unit] = nn.Sequential(nn.LayerNorm(hidden), head)
            else:
                made[unit] = Layer(hidden, args.num_attention_heads)
        layers = [made[unit] for unit in units if 0 < unit < last]
        size, whole = args.recompute_num_layers, args.recompute_method == "uniform"
        if args.recompute_granularity and whole:  # of so many layers at a time the first input alone is kept
            blocks = [(nn.Sequential(*layers[i : i + size]), True) for i in range(0, len(layers), size)]
        else:  # of the first layers of the stage each keeps its input
            again = size if args.recompute_granularity else 0
            blocks = [(layer, number < again) for number, layer in enumerate(layers)]
        first, head = ([(made[unit], False)] if unit in made else [] for unit in (0, last))
        self.blocks = [*first, *blocks, *head]
        self.units = nn.ModuleList(made.values())

    def forward(self, x: Tensor) -> Tensor:
        for block, again in self.blocks:
            x = checkpoint(block, x, use_reentrant=True) if again else block(x)
        return x


# ---- the memory that is counted ----------------------------------------------------------------------------


class Memory:
    """Bytes of the tensors that are held: weights, gradients, the optimizer's, and what backward passes need.

    They are counted, not measured, so that a configuration runs out of memory on every machine or on none.
    """

    def __init__(self, limit_bytes: float) -> None:
        self.limit, self.held, self.peak = limit_bytes, 0, 0
        self.times: Counter[int] = Counter()  # how often each storage is held, by its address

    def hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.times[storage.data_ptr()] += 1
        if self.times[storage.data_ptr()] == 1:
            self.held += storage.nbytes()
            self.peak = max(self.peak, self.held)
        if self.held > self.limit:
            asked, limit = storage.nbytes() / MIB, self.limit / MIB
            raise torch.OutOfMemoryError(
                f"CPU out of memory. Tried to allocate {asked:.2f} MiB. The limit is {limit:.2f} MiB."
            )

    def release(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.times[storage.data_ptr()] -= 1
        if not self.times[storage.data_ptr()]:
            self.held -= storage.nbytes()


class Held:
    """A tensor that counts for as long as this object lives."""

    def __init__(self, memory: Memory, tensor: Tensor) -> None:
        self.memory, self.tensor = memory, tensor
        memory.hold(tensor)

    def __del__(self) -> None:
        self.memory.release(self.tensor)


# ---- the optimizer -----------------------------------------------------------------------------------------


class Optimizer:
    """Adam on a row of all weights of a stage; gradients, master weights and moments have 32 bits.

    Replicas of the stage add up their gradients, and each updates all weights, or its part of them if `sharded`.
    """

    def __init__(self, stage: Stage, replicas: dist.ProcessGroup, sharded: bool) -> None:
        weights = list(stage.parameters())
        self.replicas, self.count, self.sharded = replicas, replicas.size(), sharded and replicas.size() > 1
        length = -(-sum(weight.numel() for weight in weights) // self.count)
        self.weights = torch.zeros(length * self.count, dtype=weights[0].dtype)
        self.gradients = torch.zeros(length * self.count)
        begin = 0
        for weight in weights:  # each becomes a view of the row, and so does its gradient
            end, shape = begin + weight.numel(), weight.shape
            self.weights[begin:end] = weight.detach().flatten()
            weight.data = self.weights[begin:end].view(shape)
            weight.register_post_accumulate_grad_hook(partial(add_gradient, self.gradients[begin:end].view(shape)))
            begin = end
        first = replicas.rank() * length
        self.own = slice(first, first + length) if self.sharded else slice(None)
        self.master = nn.Parameter(self.weights[self.own].float())
        self.master.grad = self.gradients[self.own]
        self.adam = torch.optim.AdamW([self.master], lr=1e-3, fused=True)

    def tensors(self) -> list[Tensor]:
        """All that is kept from one iteration to the next."""
        moments = [value for state in self.adam.state.values() for value in state.values()]
        return [self.weights, self.gradients, self.master, *moments]

    def step(self) -> None:
        self.gradients /= self.count
        if self.sharded:
            dist.reduce_scatter_single(self.master.grad, self.gradients, group=self.replicas)
        else:
            dist.all_reduce(self.gradients, group=self.replicas)
        self.adam.step()
        self.weights[self.own] = self.master.detach()
        if self.sharded:
            dist.all_gather_single(self.weights, self.weights[self.own].clone(), group=self.replicas)
        self.gradients.zero_()


def add_gradient(total: Tensor, weight: Tensor) -> None:
    total += weight.grad
    weight.grad = None


# ---- the order of passes: 1F1B -----------------------------------------------------------------------------


class Pipeline:
    """A stage between its neighbours: activations go forth, and their gradients come back."""

    def __init__(self, stage: Stage, memory: Memory, args: argparse.Namespace, rank: int, replicas: int) -> None:
        self.stage, self.memory, self.before, self.after = stage, memory, rank - replicas, rank + replicas
        self.is_first, self.is_last = self.before < 0, self.after >= args.world_size
        self.behind = (args.world_size - 1 - rank) // replicas  # stages that come after this one
        shape = args.micro_batch_size, args.seq_length, args.hidden_size
        self.new_message = partial(torch.empty, shape, dtype=args.params_dtype)
        self.flying: deque[tuple[Held, Held]] = deque()  # inputs and outputs whose backward passes are to come
        self.sent: list[dist.Work] = []

    def iteration(self, micro_batches: list[Tensor]) -> float:
        """All passes; the loss if this is the last stage, else 0."""
        loss, count = 0.0, len(micro_batches)
        ahead = min(self.behind, count)  # after so many forward passes they take turns with backward passes
        for number in range(count + ahead):
            if number < count:
                loss += self.forward(number, micro_batches[number], count)
            if number >= ahead:
                self.backward(number - ahead)
        for work in self.sent:
            work.wait()
        self.sent.clear()
        return loss

    def forward(self, number: int, tokens: Tensor, count: int) -> float:
        x = tokens[:, :-1] if self.is_first else self.new_message()
        if not self.is_first:
            dist.recv(x, self.before, tag=number)
            x.requires_grad_()
        y = self.stage(x)
        if self.is_last:
            y = functional.cross_entropy(y.float().flatten(0, 1), tokens[:, 1:].flatten()) / count
        else:
            self.sent.append(dist.isend(y.detach(), self.after, tag=number))
        self.flying.append((Held(self.memory, x), Held(self.memory, y)))
        return float(y.detach()) if self.is_last else 0.0

    def backward(self, number: int) -> None:
        x, y = (held.tensor for held in self.flying.popleft())
        gradient = None if self.is_last else self.new_message()
        if gradient is not None:
            dist.recv(gradient, self.after, tag=number)
        y.backward(gradient)
        if not self.is_first:
            self.sent.append(dist.isend(x.grad, self.before, tag=number))


# ---- one process -------------------------------------------------------------------------------------------


def micro_batches_of(args: argparse.Namespace, iteration: int, replica: int, replicas: int) -> list[Tensor]:
    """The sequences of a replica: words that count up from a random one."""
    torch.manual_seed(iteration)
    starts = torch.randint(args.vocab_size, (args.global_batch_size, 1))
    batch = (starts + torch.arange(args.seq_length + 1)) % args.vocab_size
    return list(batch.chunk(replicas)[replica].split(args.micro_batch_size))


def train(rank: int, args: argparse.Namespace, meeting: str) -> None:
    """The process of that number: replicas of the first stage come first, and the last one prints the log."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{meeting}/store", rank=rank, world_size=args.world_size)
    replicas = args.world_size // args.pipeline_model_parallel_size
    groups = [dist.new_group([*range(first, first + replicas)]) for first in range(0, args.world_size, replicas)]
    number, replica = divmod(rank, replicas)
    stage = Stage(args, units_of_stages(args)[number]).to(args.params_dtype)
    optimizer, memory = (
        Optimizer(stage, groups[number], args.use_distributed_optimizer),
        Memory(args.memory_limit * MIB),
    )
    pipeline = Pipeline(stage, memory, args, rank, replicas)
    try:
        with saved_tensors_hooks(partial(Held, memory), lambda held: held.tensor):
            kept = [Held(memory, tensor) for tensor in optimizer.tensors()]
            for iteration in range(1, args.train_iters + 1):
                micro_batches = micro_batches_of(args, iteration, replica, replicas)
                dist.barrier()
                begin = time.perf_counter()
                loss = torch.tensor(pipeline.iteration(micro_batches)) / replicas
                optimizer.step()
                dist.all_reduce(loss, group=groups[number])
                dist.barrier()
                milliseconds = 1000 * (time.perf_counter() - begin)
                kept[:] = [
                    Held(memory, tensor) for tensor in optimizer.tensors()
                ]  # moments come with the first step
                if rank == args.world_size - 1:
                    took = f"elapsed time per iteration (ms): {milliseconds:.1f}"
                    say(f" iteration {iteration:8d}/{args.train_iters:8d} | {took} | lm loss: {float(loss):.6E} |")
                if replica == 0 and iteration == min(2, args.train_iters):
                    sizes = f"allocated: {memory.held / MIB:.4f} | max allocated: {memory.peak / MIB:.4f}"
                    say(f"[Rank {rank}] (after {iteration} iterations) memory (MB) | {sizes}")
    except torch.OutOfMemoryError as error:
        say(f"[rank{rank}]: torch.OutOfMemoryError: {error}")
        sys.exit(1)
    dist.destroy_process_group()


# ---- flags -------------------------------------------------------------------------------------------------


NUMBERS = {
    **{"world-size": 1, "train-iters": 10, "seq-length": 128, "global-batch-size": 8, "micro-batch-size": 1},
    **{"num-layers": 4, "hidden-size": 256, "num-attention-heads": 4, "vocab-size": 2048},
    **{"pipeline-model-parallel-size": 1, "recompute-num-layers": 1},
}
SWITCHES = ("bf16", "use-distributed-optimizer", "cross-entropy-loss-fusion")
# What this program cannot do is refused.
ONLY = {
    "tensor-model-parallel-size": 1,
    "context-parallel-size": 1,
    "attention-dropout": 0.0,
    "hidden-dropout": 0.0,
}


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    for name, usual in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    for name in SWITCHES:
        parser.add_argument(f"--{name}", action="store_true")
    for name, only in ONLY.items():
        parser.add_argument(f"--{name}", type=type(only), choices=[only], default=only)
    parser.add_argument("--memory-limit", type=float, default=float("inf"), help="MiB of each process")
    parser.add_argument("--pipeline-model-parallel-layout", help="units of each stage, as in Et*2|t*2,L")
    parser.add_argument("--recompute-granularity", choices=["full"])
    parser.add_argument("--recompute-method", choices=["uniform", "block"], default="uniform")
    args = parser.parse_args()
    stages, layout = args.pipeline_model_parallel_size, args.pipeline_model_parallel_layout
    if args.world_size % stages or args.global_batch_size * stages % (args.micro_batch_size * args.world_size):
        parser.error("the pipeline's stages must divide the processes, and replicas times micro-batch the batch")
    if layout is None and args.num_layers % stages:
        parser.error("the pipeline's stages must divide the layers, unless a layout says what each has")
    if layout is not None and [unit.stop for unit in units_of_stages(args)][stages - 1 :] != [args.num_layers + 2]:
        parser.error("the layout must have one text for each stage, with all units")
    args.params_dtype = torch.bfloat16 if args.bf16 else torch.float32
    args.untie_embeddings_and_output_weights = True
    return args


def main() -> None:
    args = read_flags()
    for name, value in sorted(vars(args).items()):
        say(f"  {name} {'.' * (48 - len(name))} {value}")
    with tempfile.TemporaryDirectory() as meeting:
        try:
            processes.spawn(train, (args, meeting), nprocs=args.world_size)
        except processes.ProcessExitedException:  # it has said why
            sys.exit(1)


if __name__ == "__main__":
    main()
