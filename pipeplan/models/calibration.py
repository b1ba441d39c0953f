"""What `plan calibrate` runs: kernels of eager PyTorch by size, collectives among processes, and small trainings.

Everything is in 16 bits, on CPUs as well: weights in bf16 with gradients, master copies and moments in 32 bits, as the
training model counts them. A kernel is timed forward and backward together, and kernels of all sizes run in turn, so
that caches are as cold as in a training step. GPUs and NCCL were not tried.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
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
from ..studies.calibrate import COLLECTIVES, SEQUENCES, Calibration, Card, Point, Small, Trained, to_measure
from .torch_profile import WARM_UP, CpuClock, CudaClock, Moment, one_thread

STEPS = 10
# Rounds over all kernels at least, and the share of the time for them; the rest is for trainings and collectives.
ROUNDS, KERNELS = 3, 0.5
# Tokens of a sequence.
SHORTEST, LONGEST = 16, 2**17
# Bytes of a rank in collectives, and processes of one CPU at most.
SIZES, MOST_PROCESSES = (2**14, 2**18, 2**22, 2**25), 16
BF16 = torch.bfloat16
Run = Callable[[], Any]


def calibrate(
    on: str | None, devices: int | None, sequence: int | None, seconds: float, say: Callable[[str], None]
) -> Calibration:
    """Measure everything in about so many seconds; Ctrl-C keeps what there is.

    `on` is cpu or cuda, None for CUDA where there is one; `devices` None: all GPUs, or one CPU.
    """
    if on == "cuda" and not torch.cuda.is_available():
        raise UsageError("PyTorch sees no CUDA device here; give --on cpu.")
    device = torch.device(on or ("cuda" if torch.cuda.is_available() else "cpu"))
    is_cpu = device.type == "cpu"
    most = MOST_PROCESSES if is_cpu else torch.cuda.device_count()
    ranks = (1 if is_cpu else most) if devices is None else devices
    length = SEQUENCES[device.type] if sequence is None else sequence
    check_whole("--devices", ranks, most)
    check_whole("--sequence", length, LONGEST, SHORTEST)
    kernels, trainings = to_measure(device.type, length)
    samples: dict[int, list[float]] = defaultdict(list)
    links: list[Point] = []
    trained: list[Trained] = []
    finished = False
    try:
        if ranks > 1:
            say(f"collectives among {ranks} processes")
            links = collectives(ranks, device.type)
        with one_thread() if is_cpu else nullcontext():
            say(f"{len(kernels)} kernels in turn")
            runs, until, rounds = [kernel(*own, device) for own in kernels], now() + KERNELS * seconds, 0
            while rounds < WARM_UP + ROUNDS or now() < until:
                for number, run in enumerate(runs):
                    took = timed(device.type, run)
                    if rounds >= WARM_UP:
                        samples[number].append(took)
                rounds += 1
            runs.clear()
            for small in trainings:
                say(f"{STEPS} steps of the training {small.name}")
                trained.append(train(small, device))
        finished = True
    except KeyboardInterrupt:
        if not samples:
            raise
    points = [Point.of(*kernels[number], own) for number, own in samples.items()]
    return Calibration(card_of(device), length, (*points, *links), tuple(trained), finished)


def card_of(device: torch.device) -> Card:
    """Name, memory and versions of what is measured."""
    from .. import __version__

    versions = {"torch": str(torch.__version__), "cuda": torch.version.cuda, "pipeplan": __version__}
    if device.type == "cuda":
        facts, driver = torch.cuda.get_device_properties(device), _text("/sys/module/nvidia/version").strip()
        return Card(facts.name, "cuda", float(facts.total_memory), driver=driver or None, **versions)
    names = [
        line.partition(":")[2] for line in _text("/proc/cpuinfo").splitlines() if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Card(names[0].strip() if names else "cpu", "cpu", float(memory), driver=None, **versions)


def _text(path: str) -> str:
    return Path(path).read_text("utf-8") if Path(path).exists() else ""


def timed(kind: str, run: Run, clock: CpuClock | None = None) -> float:
    """Seconds of a run: processor time of this thread, or time between events of a GPU."""
    clock = clock or (CudaClock() if kind == "cuda" else CpuClock())
    clock.begin()
    start = clock.mark()
    run()
    end = clock.mark()
    return clock.read(start).until(clock.read(end))


# ---- a transformer that is trained ---------------------------------------------------------------------


class Layers(nn.Module):
    """Layers of PyTorch with a causal mask."""

    mask: torch.Tensor

    def __init__(self, small: Small, norm: nn.Module | None = None) -> None:
        super().__init__()
        sizes = (small.hidden, small.heads, 4 * small.hidden, 0.0, functional.gelu)
        layer = nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=True, bias=False)
        self.layers = nn.TransformerEncoder(layer, small.layers, norm, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(small.sequence))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x, self.mask, is_causal=True)


class Transformer(nn.Module):
    """The whole model, with its loss."""

    def __init__(self, small: Small) -> None:
        super().__init__()
        self.words = nn.Embedding(small.words, small.hidden)
        self.layers = Layers(small, nn.LayerNorm(small.hidden, bias=False))
        self.head = nn.Linear(small.hidden, small.words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return _loss(self.head(self.layers(self.words(tokens))), tokens)


def _loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, -2).float(), tokens.flatten())


class Training:
    """Weights in 16 bits; gradients, which are added up, master copies and Adam's moments in 32."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.weights = model, list(model.parameters())
        self.masters = [weight.detach().float() for weight in self.weights]
        for weight, master in zip(self.weights, self.masters, strict=True):
            master.grad = torch.zeros_like(master)
            weight.register_post_accumulate_grad_hook(partial(_add_gradient, master.grad))
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


def _add_gradient(total: torch.Tensor, weight: torch.Tensor) -> None:
    total.add_(weight.grad)
    weight.grad = None


def train(small: Small, device: torch.device) -> Trained:
    """The seconds of each step behind those that warm up, and the bytes at the fullest moment of a further one."""
    torch.manual_seed(0)
    training = Training(Transformer(small).to(device, BF16))
    size = (small.micro_batch, small.sequence)
    batch = [torch.randint(small.words, size, device=device) for _ in range(small.micro_batches)]
    run = partial(training.step, batch)
    seconds = [timed(device.type, run) for _ in range(WARM_UP + STEPS)][WARM_UP:]
    return Trained(small, tuple(seconds), _peak_bytes(run, training, device.type))


def _peak_bytes(run: Run, training: Training, kind: str) -> float:
    """Bytes that tensors hold at the fullest moment of a step, by the allocator of the device."""
    gc.collect()
    if kind == "cuda":
        torch.cuda.reset_peak_memory_stats()
        run()
        return float(torch.cuda.max_memory_allocated())
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler says on stderr when it starts and stops
    states = [value for own in training.optimizer.state.values() for value in own.values()]
    gradients = [master.grad for master in training.masters if master.grad is not None]
    there = [*training.weights, *training.masters, *gradients, *states, *training.model.buffers()]
    held = peak = sum(one.untyped_storage().nbytes() for one in there)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True) as profile:
        run()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return float(peak)


# ---- kernels by size -----------------------------------------------------------------------------------


def kernel(what: str, shape: Sequence[int], device: torch.device) -> Run:
    """A kernel, forward and backward, at this size, as `SHAPES` says what its numbers mean."""
    new = partial(torch.randn, device=device, dtype=BF16)
    leaf = partial(new, requires_grad=True)
    if what == "products":
        rows, columns, inner = shape
        return _both_ways(nn.Linear(inner, columns, bias=False), leaf(rows, inner))
    if what == "attention":
        attend = partial(functional.scaled_dot_product_attention, is_causal=True)
        return _both_ways(attend, *(leaf(*shape) for _ in range(3)))
    if what == "norm":
        return _both_ways(nn.LayerNorm(shape[1], bias=False), leaf(*shape))
    if what == "loss":
        return _both_ways(_loss, leaf(*shape), torch.zeros(shape[0], dtype=torch.long, device=device))
    if what == "layers":
        layers, hidden, heads, sequence, batch = shape
        small = Small(what, layers, hidden, heads, 1, sequence, batch)
        return _both_ways(Layers(small), leaf(batch, sequence, hidden))
    if what == "optimizer":
        return Training(nn.Linear(256, shape[0] // 256, bias=False).to(device, BF16)).update
    return partial(new(shape[0] // 4).copy_, new(shape[0] // 4))  # numbers of 2 bytes are read and written


def _both_ways(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Run:
    """A forward and a backward pass; gradients of weights are added up in 32 bits."""
    if isinstance(function, nn.Module):
        function = Training(function.to(inputs[0].device, BF16)).model
    gradient = torch.ones_like(function(*inputs))

    def run() -> None:
        for one in inputs:
            one.grad = None
        function(*inputs).backward(gradient)

    return run


# ---- collectives ---------------------------------------------------------------------------------------


def collectives(ranks: int, kind: str) -> list[Point]:
    """Collectives of every size among so many processes, each with a device of its own; on CPUs with gloo."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (ranks, kind, folder), nprocs=ranks)
        return [Point.of(*own) for own in json.loads(_text(f"{folder}/points"))]


def _rank(rank: int, ranks: int, kind: str, folder: str) -> None:
    """One process; the first one writes what it measured."""
    torch.set_num_threads(1)
    device = torch.device(kind, rank)
    if kind == "cuda":
        torch.cuda.set_device(device)
    backend, meeting = {"cuda": "nccl", "cpu": "gloo"}[kind], f"file://{folder}/meeting"
    distributed.init_process_group(backend, meeting, rank=rank, world_size=ranks)
    clock, done = CudaClock() if kind == "cuda" else WallClock(), []
    for what in COLLECTIVES:
        for size in SIZES:
            run, seconds = _collective(what, size // 2 // ranks, rank, ranks, device), []
            for _ in range(WARM_UP + STEPS):
                distributed.barrier()
                seconds.append(timed(kind, run, clock))
            done.append((what, (ranks, size), seconds[WARM_UP:]))
    if rank == 0:
        Path(folder, "points").write_text(json.dumps(done), "ascii")
    distributed.destroy_process_group()


class WallClock(CpuClock):
    """Seconds of the wall clock: a process that waits for another one uses no processor."""

    def mark(self) -> Moment:
        return Moment(super().mark().wall, None)


def _collective(what: str, count: int, rank: int, ranks: int, device: torch.device) -> Run:
    """A collective, in which each rank has, or has in the end, `count` numbers of 16 bits for each rank."""
    whole, part = (torch.zeros(size, device=device, dtype=BF16) for size in (count * ranks, count))
    if what == "all-reduce":
        return partial(distributed.all_reduce, whole)
    if what == "all-gather":
        return partial(distributed.all_gather_single, whole, part)
    if what == "all-to-all":
        return partial(distributed.all_to_all_single, torch.empty_like(whole), whole)
    calls: dict[int, Run] = {0: partial(distributed.send, whole, 1), 1: partial(distributed.recv, whole, 0)}
    return calls.get(rank, bool)
