"""What `plan calibrate` runs: kernels of eager PyTorch by size, collectives among processes, and small trainings.

Everything is in 16 bits, on CPUs as well: weights in bf16 with gradients, master copies and moments in 32 bits, as the
training model counts them. A kernel is timed forward and backward together, and kernels of all sizes run in turn, so
that caches are as cold as in a training step. GPUs and NCCL were not tried.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn import functional

from ..instances.base.checks import check_whole
from ..instances.base.clock import now
from ..instances.base.errors import UsageError
from ..instances.training.model import Model
from ..studies.calibrate import (
    COLLECTIVES,
    STEPS,
    USUAL_SEQUENCE,
    Calibration,
    Card,
    Point,
    Small,
    Trained,
    kernels_for,
    trainings_for,
)
from .torch_profile import WARM_UP, CpuClock, CudaClock, one_thread

# Processes of one CPU whose links are measured, at most.
MOST_PROCESSES = 16
# Share of the time for kernels; the rest is for trainings and collectives.
KERNELS = 0.5
Run = Callable[[], Any]
BF16 = torch.bfloat16


# ---- the device ----------------------------------------------------------------------------------------


def device_named(name: str | None) -> torch.device:
    """The device of that type; None: CUDA where there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("PyTorch sees no CUDA device here; give --on cpu.")
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def devices_of(device: torch.device, number: int | None) -> int:
    """Devices whose links are measured; None: all GPUs, and one CPU."""
    most = torch.cuda.device_count() if device.type == "cuda" else MOST_PROCESSES
    if number is None:
        return most if device.type == "cuda" else 1
    check_whole("--devices", number, most)
    return number


def card_of(device: torch.device) -> Card:
    """Name, memory and versions of what is measured."""
    from .. import __version__

    versions = {"torch": str(torch.__version__), "cuda": torch.version.cuda, "pipeplan": __version__}
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        return Card(facts.name, "cuda", float(facts.total_memory), driver=_driver(), **versions)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Card(_processor(), "cpu", float(memory), driver=None, **versions)


def _driver() -> str | None:
    """The version of NVIDIA's kernel module; None: the file that states it is not there."""
    try:
        with open("/sys/module/nvidia/version", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def _processor() -> str:
    """The name that the system gives its processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


# ---- a transformer that is trained ---------------------------------------------------------------------


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Queries or keys with their positions."""
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class Layer(nn.Module):
    """Attention and a gated MLP, each behind a norm and beside a residual."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, shapes: Model, sequence: int) -> None:
        super().__init__()
        own, mlp, h = shapes.attention, shapes.mlp, shapes.hidden
        assert own is not None, "a model of shapes has attention"
        assert mlp is not None, "a dense layer has an MLP"
        self.heads, self.pairs, self.size = own.heads, own.key_value_heads, own.head_size
        self.norms = nn.ModuleList(nn.RMSNorm(h) for _ in range(2))
        self.queries = nn.Linear(h, (self.heads + 2 * self.pairs) * self.size, bias=False)
        self.output = nn.Linear(self.heads * self.size, h, bias=False)
        self.up = nn.Linear(h, 2 * mlp.hidden, bias=False)
        self.down = nn.Linear(mlp.hidden, h, bias=False)
        angles = torch.outer(torch.arange(sequence), 10_000 ** (-torch.arange(0, self.size, 2) / self.size))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, _ = x.shape
        rows = self.queries(self.norms[0](x)).view(batch, sequence, -1, self.size).transpose(1, 2)
        q, k, v = rows.split((self.heads, self.pairs, self.pairs), 1)
        q, k = _turned(q, self.cos, self.sin), _turned(k, self.cos, self.sin)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.output(seen.transpose(1, 2).reshape(batch, sequence, -1))
        gate, up = self.up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class Transformer(nn.Module):
    """Shapes of a dense model with rotary positions, with its loss."""

    def __init__(self, shapes: Model, sequence: int) -> None:
        super().__init__()
        self.words = nn.Embedding(shapes.vocabulary, shapes.hidden)
        self.layers = nn.ModuleList(Layer(shapes, sequence) for _ in range(shapes.layers))
        self.norm = nn.RMSNorm(shapes.hidden)
        self.head = nn.Linear(shapes.hidden, shapes.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return _loss(self.head(self.norm(x)), tokens)


def _loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, -2).float(), tokens.flatten())


class Training:
    """Weights in 16 bits; gradients, which are added up, master copies and Adam's moments in 32."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.weights = model, list(model.parameters())
        self.masters = [weight.detach().float() for weight in self.weights]
        for weight, master in zip(self.weights, self.masters, strict=True):
            master.grad = torch.zeros_like(master)
            weight.register_post_accumulate_grad_hook(partial(_add_gradient, master))
        self.optimizer = torch.optim.AdamW(self.masters, lr=1e-4, fused=True)

    def update(self) -> None:
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(self.weights, self.masters)
            torch._foreach_zero_([master.grad for master in self.masters])

    def step(self, micro_batches: Sequence[torch.Tensor]) -> None:
        for tokens in micro_batches:
            self.model(tokens).backward()
        self.update()


def _add_gradient(master: torch.Tensor, weight: torch.Tensor) -> None:
    assert master.grad is not None, "a training keeps all gradients"
    assert weight.grad is not None, "a hook behind a backward pass"
    master.grad.add_(weight.grad)
    weight.grad = None


# ---- kernels by size -----------------------------------------------------------------------------------


def kernel(what: str, shape: Sequence[int], device: torch.device) -> Run:
    """A kernel, forward and backward, at this size, as `SHAPES` says what its numbers mean."""
    new = partial(torch.randn, device=device, dtype=BF16)
    leaf = partial(new, requires_grad=True)
    if what == "products":
        rows, columns, inner = shape
        product = nn.Linear(inner, columns, bias=False, device=device, dtype=BF16)
        return _both_ways(Training(product).model, leaf(rows, inner))
    if what == "attention":
        batch, heads, sequence, size = shape
        attend = partial(functional.scaled_dot_product_attention, is_causal=True)
        return _both_ways(attend, *(leaf(batch, heads, sequence, size) for _ in range(3)))
    if what == "norm":
        tokens, hidden = shape
        return _both_ways(nn.RMSNorm(hidden, device=device, dtype=BF16), leaf(tokens, hidden))
    if what == "loss":
        tokens, words = shape
        return _both_ways(_loss, leaf(tokens, words), torch.zeros(tokens, dtype=torch.long, device=device))
    if what == "optimizer":
        (parameters,) = shape
        return Training(nn.Embedding(parameters // 256, 256, device=device, dtype=BF16)).update
    if what == "copy":
        source, target = new(shape[0] // 4), new(shape[0] // 4)  # each number is read and written, 2 bytes each
        return partial(target.copy_, source)
    assert what == "layer", what
    hidden, heads, sequence, batch = shape
    layer = Layer(Small(what, 1, hidden, heads, 64, sequence, batch).model, sequence).to(device, BF16)
    return _both_ways(Training(layer).model, leaf(batch, sequence, hidden))


def _both_ways(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Run:
    leaves = [one for one in inputs if one.requires_grad]
    gradient = torch.ones_like(function(*inputs))

    def run() -> None:
        for one in leaves:
            one.grad = None
        function(*inputs).backward(gradient)

    return run


def clock_of(device: torch.device) -> CpuClock:
    return CudaClock() if device.type == "cuda" else CpuClock()


def rounds(runs: Sequence[Run], device: torch.device, until: float, least: int = 3) -> Iterator[tuple[int, float]]:
    """Seconds of each run, by its number, in rounds over all of them, until that moment of the wall clock."""
    clock, done = clock_of(device), 0
    with one_thread() if device.type == "cpu" else nullcontext():
        while done < least + WARM_UP or now() < until:
            for number, run in enumerate(runs):
                seconds = _timed(clock, run)
                if done >= WARM_UP:
                    yield number, seconds
            done += 1


def _timed(clock: CpuClock, run: Run) -> float:
    clock.begin()
    start = clock.mark()
    run()
    end = clock.mark()
    return clock.read(start).until(clock.read(end))


# ---- trainings -----------------------------------------------------------------------------------------


def train(small: Small, device: torch.device) -> tuple[tuple[float, ...], float]:
    """Seconds of each step behind those that warm up, and bytes at the fullest moment of a further one."""
    torch.manual_seed(0)
    training = Training(Transformer(small.model, small.sequence).to(device, BF16))
    size = (small.micro_batch, small.sequence)
    batch = [torch.randint(small.words, size, device=device) for _ in range(small.micro_batches)]
    run, clock = partial(training.step, batch), clock_of(device)
    with one_thread() if device.type == "cpu" else nullcontext():
        seconds = [_timed(clock, run) for _ in range(WARM_UP + STEPS)][WARM_UP:]
        return tuple(seconds), _peak_bytes(run, training, device)


def _peak_bytes(run: Run, training: Training, device: torch.device) -> float:
    """Bytes that tensors hold at the fullest moment of a step, by the allocator of the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        run()
        return float(torch.cuda.max_memory_allocated())
    states = [value for own in training.optimizer.state.values() for value in own.values()]
    gradients = [master.grad for master in training.masters]
    there = [*training.weights, *training.masters, *gradients, *states, *training.model.buffers()]
    held = peak = sum(one.untyped_storage().nbytes() for one in there if one is not None)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler says on stderr when it starts and stops
    kinds = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=kinds, profile_memory=True, acc_events=True) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return float(peak)


# ---- collectives ---------------------------------------------------------------------------------------


SIZES = (2**14, 2**18, 2**22, 2**25)
REPEATS = 10


def collectives(ranks: int, device: torch.device) -> list[Point]:
    """Collectives of every size among so many processes, each with a device of its own; on CPUs with gloo.

    Ctrl-C keeps those that are done.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            torch.multiprocessing.spawn(_rank, (ranks, device.type, folder), nprocs=ranks)
        except KeyboardInterrupt:
            if not (Path(folder) / "points").exists():
                raise
        lines = (Path(folder) / "points").read_text(encoding="ascii").splitlines()
    return [Point.of(what, shape, seconds) for what, shape, seconds in map(json.loads, lines)]


def _rank(rank: int, ranks: int, kind: str, folder: str) -> None:
    """One process: the first one writes what it measured, a line for each size."""
    torch.set_num_threads(1)
    device = torch.device(kind, rank) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(device)
    meeting = f"file://{folder}/meeting"
    distributed.init_process_group("nccl" if kind == "cuda" else "gloo", meeting, rank=rank, world_size=ranks)
    for what in COLLECTIVES:
        for size in SIZES:
            run = _collective(what, size // (2 * ranks) * ranks, rank, ranks, device)
            seconds = []
            for _ in range(WARM_UP + REPEATS):
                distributed.barrier()
                seconds.append(_timed(WallClock() if kind == "cpu" else CudaClock(), run))
            if rank == 0:
                with open(f"{folder}/points", "a", encoding="ascii") as file:
                    file.write(json.dumps([what, [ranks, size], seconds[WARM_UP:]]) + "\n")
    distributed.destroy_process_group()


class WallClock(CpuClock):
    """Seconds of the wall clock: a process that waits for another one uses no processor."""

    def mark(self) -> Any:
        return super().mark()._replace(cpu=None)


def _collective(what: str, count: int, rank: int, ranks: int, device: torch.device) -> Run:
    """A collective of `count` numbers of 16 bits: those that each rank adds up, sends to all others or has at the
    end."""
    whole, part = (torch.zeros(n, device=device, dtype=BF16) for n in (count, count // ranks))
    if what == "all-reduce":
        return partial(distributed.all_reduce, whole)
    if what == "all-gather":
        return partial(distributed.all_gather_single, whole, part)
    if what == "all-to-all":
        return partial(distributed.all_to_all_single, torch.empty_like(whole), whole)
    if rank < 2:
        return partial(distributed.send, whole, 1) if rank == 0 else partial(distributed.recv, whole, 0)
    return bool


# ---- all of it -----------------------------------------------------------------------------------------


def calibrate(
    device: torch.device, ranks: int, sequence: int | None, seconds: float, say: Callable[[str], None]
) -> Calibration:
    """Measure everything in about so many seconds; Ctrl-C keeps what there is."""
    sequence = sequence or USUAL_SEQUENCE[device.type]
    card, kernels = card_of(device), kernels_for(device.type, sequence)
    samples: dict[int, list[float]] = defaultdict(list)
    trainings: list[Trained] = []
    links: list[Point] = []
    finished = False
    try:
        if ranks > 1:
            say(f"collectives among {ranks} processes")
            links = collectives(ranks, device)
        say(f"{len(kernels)} kernels in turn")
        runs = [kernel(what, shape, device) for what, shape in kernels]
        for number, each in rounds(runs, device, now() + KERNELS * seconds):
            samples[number].append(each)
        del runs
        for small in trainings_for(device.type, sequence):
            say(f"{STEPS} steps of the training {small.name}")
            trainings.append(Trained(small, *train(small, device)))
        finished = True
    except KeyboardInterrupt:
        if not samples:
            raise
    points = [Point.of(*kernels[number], own) for number, own in samples.items()]
    return Calibration(card, sequence, (*points, *links), tuple(trainings), finished)
