"""What the import, the costs and the runs of real models must keep, measured on this machine, in one table.

    python benchmarks/real_models.py [--only parameters loss saved times import gradients runs] [--steps 10] [--csv F]

Nine families of transformers models, from configurations alone. `runs` takes the longest: five models, the even split
and the plan, each on two processes; plans and predictions rest on profiles that are measured in one go with the runs.
A run on a busy machine is judged by the virtual clock, and the table says so. The exit code is 1 where a row fails.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import real_model_builds as builds
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import pipeplan
from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.models.capture import Captured, capture
from pipeplan.models.grouping import extract, group
from pipeplan.models.torch_profile import WARM_UP, one_thread, trace

FILE = Path(builds.__file__).resolve()
FAMILIES = ("gpt2_tied", "llama", "bert", "t5", "mixtral", "resnet18", "vit", "clip", "whisper")
COSTED = ("gpt2", "llama", "resnet18", "t5", "clip")
RUN = ("gpt2", "llama", "resnet18", "t5", "clip")
GRANULARITY = {"resnet18": "share:0.1"}
"""Its blocks are four groups of layers, so that a plan could hardly differ from the even split."""
MICRO_BATCHES = 8
LLAMA_3_70B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    check: str
    model: str
    expected: str
    measured: str
    holds: bool


def build_of(name: str) -> Callable[[], Any]:
    def build() -> Any:
        torch.manual_seed(0)
        return getattr(builds, name)()

    return build


# ---- the import ----------------------------------------------------------------------------------------


def parameters() -> Iterator[Row]:
    """The bytes of all nodes, less second copies of tied parameters, are the model's."""
    for name in FAMILIES:
        profile = pipeplan.import_torch(build_of(name), hardware="h100-80gb")
        sizes = {key: size for node in profile.nodes for key, size in node.parameters.items()}
        held = sum(sizes.values()) - sum(sizes[second] for _, second in profile.tied)
        model = build_of(name)()[0]
        true = sum(p.numel() * p.element_size() for p in model.parameters())
        yield Row("parameters", name, f"{true} bytes", f"{held:.0f} bytes", held == true)


def loss() -> Iterator[Row]:
    """The captured graph computes what the model computes."""
    for name in FAMILIES:
        captured = capture(build_of(name))
        outputs = _outputs(captured)
        model, args, kwargs = build_of(name)()
        model.train()
        with torch.no_grad():
            eager = float(model(*args, **kwargs).loss)
        off = abs(outputs - eager) / abs(eager)
        yield Row("captured loss = eager loss", name, "1e-6", f"{off:.1e}", off <= 1e-6)


def _outputs(captured: Captured) -> float:
    with torch.no_grad():
        values = captured.graph(*captured.inputs.values())
    return float(next(v for v in values if isinstance(v, torch.Tensor) and v.numel() == 1))


# ---- the costs -----------------------------------------------------------------------------------------


@contextmanager
def _saving(fixed: set[int]) -> Iterator[dict[int, int]]:
    """Bytes of the storages that autograd keeps, parameters and buffers left out."""
    held: dict[int, int] = {}
    alive: list[Any] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in fixed:
            alive.append(storage)
            held[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield held


class _Living(TorchDispatchMode):
    """Sees all memory that operations make."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                self.made[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        return made

    def living(self, fixed: set[int]) -> int:
        """Bytes that are still held."""
        return sum(size for key, (storage, size) in self.made.items() if key not in fixed and not storage.expired())


def _storages(module: torch.nn.Module) -> set[int]:
    return {t.untyped_storage()._cdata for t in (*module.parameters(), *module.buffers())}


def saved() -> Iterator[Row]:
    """What a profile says that a stage keeps, divided by what it keeps.

    And of the whole model, each tensor once, divided by the memory that an eager forward pass leaves behind.
    """
    for name in COSTED:
        profile = pipeplan.import_torch(build_of(name), measure=True, repeats=1)
        by_node = {node.id: node.saved_bytes for node in profile.nodes}
        captured = capture(build_of(name))
        for count in (2, 4):
            ratios = [planned / true for planned, true in _stages(captured, by_node, count) if true]
            worst = f"{min(ratios):.3f} to {max(ratios):.3f}"
            holds = min(ratios) >= 1 - 1e-9 and max(ratios) <= 1.08
            yield Row(f"saved bytes of {count} stages / hooks", name, "1.00 to 1.08", worst, holds)
        model, args, kwargs = build_of(name)()
        model.train()
        with _Living() as seen, _saving(_storages(model)) as held:
            loss = model(*args, **kwargs).loss
        once = {key: size for kept in trace(captured, attention=None).saved.values() for key, size in kept.items()}
        inputs = sum(size for key, size in held.items() if key not in seen.made)
        ratio = sum(once.values()) / (inputs + seen.living(_storages(model)))
        del loss
        yield Row("saved bytes of the model / eager", name, "0.94 to 1.06", f"{ratio:.3f}", abs(ratio - 1) <= 0.06)


def _stages(captured: Captured, by_node: dict[str, float], count: int) -> Iterator[tuple[float, float]]:
    """Of each stage of an even split what the nodes say, and what hooks see."""
    grouped = group(captured)
    names = list(grouped.nodes)
    place = {name: min(i * count // len(names), count - 1) for i, name in enumerate(names)}
    made: dict[str, torch.Tensor] = {}
    for x in range(count):
        piece = extract(captured, grouped, place, x)
        arguments = []
        for entry in piece.inputs:
            value = made[entry.value].detach() if hasattr(entry, "value") else captured.inputs[entry.name]
            if hasattr(entry, "value") and value.is_floating_point():
                value.requires_grad_()
            arguments.append(value)
        with _saving(_storages(captured.graph)) as held:
            outputs, finals = piece.module(*arguments)
        made.update(zip(piece.outputs, outputs, strict=True))
        yield math.fsum(by_node[n] for n in names if place[n] == x), float(sum(held.values()))
        del finals


def times(repeats: int = 10) -> Iterator[Row]:
    """The measured times of all nodes together, divided by a step of the model as it was written.

    Steps are timed before and after the nodes, because load of others shifts times of this thread as well.
    """
    for name in COSTED:
        eager = _eager_steps(name, repeats)
        profile = pipeplan.import_torch(build_of(name), measure=True, repeats=repeats)
        eager += _eager_steps(name, repeats)
        nodes = math.fsum(profile.time(n.forward) + profile.time(n.backward) for n in profile.nodes)
        ratio = nodes / median(eager)
        yield Row("sum of measured nodes / eager step", name, "0.95 to 1.05", f"{ratio:.3f}", 0.95 <= ratio <= 1.05)


def _eager_steps(name: str, repeats: int) -> list[float]:
    """Seconds of this thread; the first steps warm up, as many as of the nodes."""
    model, args, kwargs = build_of(name)()
    model.train()
    steps = []
    with one_thread():
        for _ in range(repeats + WARM_UP):
            start = time.thread_time()
            model(*args, **kwargs).loss.backward()
            steps.append(time.thread_time() - start)
    return steps[WARM_UP:]


def large_import() -> Iterator[Row]:
    """Llama-3-70B in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(LLAMA_3_70B))
        command = (
            "from pathlib import Path; from pipeplan.cli import main; "
            f"code = main(['import', 'hf', {str(config)!r}, '--batch', '1', '--sequence', '4096', "
            f"'--dtype', 'bfloat16', '--hardware', 'h100-80gb', '-o', {str(Path(folder) / 'p.json')!r}]); "
            # The largest memory of this program alone: `ru_maxrss` begins with that of the process that started it.
            "peak = dict(line.split(':', 1) for line in Path('/proc/self/status').read_text().splitlines())['VmHWM']; "
            "print(code, int(peak.split()[0]) * 1024)"
        )
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)
        seconds = time.monotonic() - start
        cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        code, peak = done.stdout.split()[-2:] if done.stdout.split() else ("1", "0")
    measured = f"{seconds:.0f} s ({cpu:.0f} s of CPU time), {int(peak) / 1e9:.2f} GB"
    holds = code == "0" and seconds < 60 and int(peak) < 2e9
    yield Row("import of Llama-3-70B", "llama-3-70b", "60 s, 2 GB", measured, holds)


# ---- runs ----------------------------------------------------------------------------------------------


def placed(profile: pipeplan.Profile, devices: Sequence[int]) -> PlacementPlan:
    """Node i on device `devices[i]`."""
    held: dict[int, list[str]] = {}
    for node, device in zip(profile.nodes, devices, strict=True):
        held.setdefault(device, []).append(node.id)
    return PlacementPlan(tuple(Device(f"acc{d}", "accelerator", tuple(held[d])) for d in sorted(held)))


def _shapes(name: str, profile: pipeplan.Profile) -> dict[str, list[int]]:
    """Devices of the nodes: two and three stages, rank 0 with both ends, and the graph of two towers."""
    count = len(profile.nodes)
    halves = [2 * i // count for i in range(count)]
    shapes = {
        "2 stages": halves,
        "3 stages": [3 * i // count for i in range(count)],
        "both ends on rank 0": [0 if i in (0, count - 1) else 1 for i in range(count)],
    }
    if name == "clip":
        shapes["towers"] = [0 if "text" in node.id else 1 if "vis" in node.id else 0 for node in profile.nodes]
    return shapes


def gradients() -> Iterator[Row]:
    """Of every parameter, against one process."""
    for name in ("gpt2_tied", "resnet18", "t5", "whisper", "clip"):
        profile = pipeplan.import_torch(f"{FILE}:{name}", hardware="h100-80gb")
        for shape, devices in _shapes(name, profile).items():
            report = pipeplan.run(
                *(placed(profile, devices), profile, f"{FILE}:{name}"),
                micro_batches=4,
                steps=1,
                check=True,
                time_limit_s=3600,
            )
            check = report.plan.check
            assert check is not None
            words = f"{check.difference:.1e} of {check.compared}"
            yield Row(f"gradients, {shape}", name, "1e-5", words, check.agrees)


def runs(steps: int, models: Sequence[str]) -> Iterator[Row]:
    """The even split and the plan on two processes: the prediction, and which one is faster."""
    best = (0.0, 0.0)
    for name in models:
        report = _run(name, steps)
        for case in report.cases:
            how = "clean" if case.clean else f"busy ({case.ratio:.2f}), virtual clock"
            words = f"{case.predicted * 1e3:.0f} ms, {case.judged * 1e3:.0f} ms ({case.error:+.1%}), {how}"
            yield Row(f"predicted, measured: {case.name}", name, "within 10 %", words, abs(case.error) <= 0.1)
        if report.even is None:
            yield Row("gain of the plan: predicted, measured", name, "not slower", report.notes[0], True)
            continue
        gains = (report.gain_predicted or 0.0, report.gain_measured or 0.0)
        words = f"{gains[0]:.3f}, {gains[1]:.3f}"
        yield Row("gain of the plan: predicted, measured", name, "not slower", words, gains[1] >= 0.99)
        best = max(best, gains, key=min)
    if len(models) == len(RUN):
        yield Row("a model that gains 10 %", "", "1.10, 1.10", f"{best[0]:.3f}, {best[1]:.3f}", min(best) >= 1.1)


def _run(name: str, steps: int) -> pipeplan.RunReport:
    """Planned with a profile that is measured now, and run at once."""
    model = f"{FILE}:{name}"
    profile = _measured(model, GRANULARITY.get(name, "block"))
    problem = profile.to_placement(devices=2, memory_bytes=1e12, bandwidth=2e9)
    plan = pipeplan.solve(problem).plan
    assert plan is not None
    return pipeplan.run(
        *(plan, profile, model), micro_batches=MICRO_BATCHES, steps=steps, compare="even", time_limit_s=3600
    )


def _measured(model: str, granularity: str) -> pipeplan.Profile:
    """In a process of its own, as ranks are: what was freed before makes memory, and so passes, cheaper."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "profile.json")
        command = [sys.executable, "-m", "pipeplan", "import", "torch", model, "--measure", "--repeats", "20"]
        subprocess.run([*command, "--granularity", granularity, "-o", path], check=True, capture_output=True)
        return pipeplan.load_profile(path)


PARTS = ("parameters", "loss", "saved", "times", "import", "gradients", "runs")


def rows(parts: Sequence[str], steps: int, models: Sequence[str]) -> Iterator[Row]:
    known: dict[str, Callable[[], Iterator[Row]]] = {
        "parameters": parameters,
        "loss": loss,
        "saved": saved,
        "times": times,
        "import": large_import,
        "gradients": gradients,
        "runs": lambda: runs(steps, models),
    }
    for part in parts:
        yield from known[part]()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--models", nargs="+", choices=RUN, default=RUN, help="of the part runs")
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    found = []
    for row in rows(arguments.only, arguments.steps, arguments.models):
        found.append(row)
        mark = "ok  " if row.holds else "FAIL"
        print(f"{mark} {row.check:42} {row.model:12} expected {row.expected:16} {row.measured}", flush=True)
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(vars(found[0])))
            writer.writeheader()
            writer.writerows(vars(row) for row in found)
    return 0 if all(row.holds for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
