"""What each source of measured runs is worth: `benchmarks/measured.py FOLDER --left-out`.

A source is judged by the numbers of today, and by those that we would have without it: numbers that it alone argues for
are set to what the other sources say of the same thing, or to the general default where they say nothing.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from measured import TABLES, Run, mean, runs_of, time_errors

from pipeplan.instances.physics.efficiencies import (
    ABOUT,
    ATTENTION_KERNELS,
    MEASURED,
    OVERLAPPED_TENSOR,
    Efficiencies,
)
from pipeplan.instances.training.frameworks import EAGER, FSDP, NANOTRON, SCALING

GENERAL, HOPPER = Efficiencies(), MEASURED["h100"].changes
Number = tuple[str, float]
"""An efficiency, and a value that runs have."""
Said = tuple[float, str]
"""The value that other sources have, and which ones."""


def share(kernel: str, family: str) -> float:
    shares = ATTENTION_KERNELS[kernel].shares
    if shares is None:
        raise ValueError(f"{kernel} keeps the matrix of attention")
    return shares[family]


@dataclass(frozen=True)
class Source:
    """A source with its tables, and for the numbers that it alone argues for what the others say."""

    name: str
    tables: Sequence[str]
    others: Mapping[Number, Said] = field(default_factory=dict)
    searched: Mapping[Number, Sequence[float]] = field(default_factory=dict)
    """Numbers that another source's runs use as well: of these values the one that predicts them best."""
    judge: str = ""
    """The table of that other source."""


# Kernels that a pass of a layer starts, a mean over the passes of its runs, counted in the code of Megatron-DeepSpeed
# (17 forward, again where it is computed again, and 44 backward) and of nanotron (33 and 41, tensor ranks' included).
# Both are counted as 13 here, so that the seconds of each contain the others.
STARTED = {"megatron-deepspeed": 26, "nanotron": 37}
# Bytes that the kernels of a norm of Scaling read and write for each number: 26 forward and 54 backward, in place of 4
# and 6 (`RMSNorm._standard_forward` in 16 bits, and what autograd runs for it).
COUNTED_NORM = (26 + 54) / (4 + 6)
# What kernels of eager PyTorch cost in each framework.
OF_SCALING, OF_FSDP, OF_NANOTRON = SCALING.usual, FSDP.usual, NANOTRON.usual
SOURCES = (
    Source(
        "Hagemann et al.",
        ["A100, PyTorch, layouts"],
        {
            ("elementwise_traffic", OF_SCALING["elementwise_traffic"]): (OF_FSDP["elementwise_traffic"], "FSDP"),
            ("norm_traffic", OF_SCALING["norm_traffic"]): (COUNTED_NORM, "counted in the code of Scaling"),
            ("attention", share("flash-1", "a100")): (share("triton", "a100"), "the kernel in Triton"),
            ("softmax_traffic", ATTENTION_KERNELS["torch"].softmax_traffic): (
                GENERAL.softmax_traffic,
                "one kernel",
            ),
        },
    ),
    Source(
        "vTrain",
        ["A100, Megatron-DeepSpeed, up to 8 GPUs", "A100, Megatron-DeepSpeed, more GPUs"],
        {
            ("host_seconds", EAGER): (
                OF_NANOTRON["host_seconds"] * STARTED["megatron-deepspeed"] / STARTED["nanotron"],
                "nanotron, by kernels that layers start",
            )
        },
    ),
    Source(
        "dgxc-benchmarking",
        ["H100, Megatron, bf16", "H100, Megatron, fp8"],
        searched={
            ("tensor_hidden", OVERLAPPED_TENSOR): [0.1 * step for step in range(11)],
            ("products_fp8", HOPPER["products_fp8"]): [0.5 + 0.05 * step for step in range(9)],
        },
        judge="H100, NeMo 24.07, fp8",
    ),
    Source("NeMo 24.07", ["H100, NeMo 24.07, fp8"]),
    Source(
        "llm-foundry",
        ["A100 and H100, FSDP"],
        {
            ("elementwise_traffic", OF_FSDP["elementwise_traffic"]): (
                OF_NANOTRON["elementwise_traffic"],
                "nanotron",
            ),
            ("norm_traffic", OF_FSDP["norm_traffic"]): (GENERAL.norm_traffic, "one kernel"),
            ("attention", share("triton", "a100")): (share("flash-1", "a100"), "FlashAttention 1"),
            ("attention", share("triton", "h100")): (HOPPER["attention"] / 2, "half of Llama 3's, as on A100"),
        },
    ),
    Source(
        "the ultra-scale playbook",
        ["H100, nanotron"],
        {
            ("host_seconds", OF_NANOTRON["host_seconds"]): (
                EAGER * STARTED["nanotron"] / STARTED["megatron-deepspeed"],
                "Megatron-DeepSpeed, by kernels that layers start",
            ),
            ("elementwise_traffic", OF_NANOTRON["elementwise_traffic"]): (OF_FSDP["elementwise_traffic"], "FSDP"),
            ("attention", share("flash-2", "h100")): (HOPPER["attention"], "Llama 3"),
            ("network", 0.62): (GENERAL.network, "in general"),
        },
    ),
    Source("BigScience", ["V100, Megatron-DeepSpeed"]),
)


def changed(run: Run, others: Mapping[Number, float]) -> Run:
    """The run with other numbers in place of those that it has."""
    rates = run.problem.efficiencies
    for (name, value), other in others.items():
        if getattr(run.problem.efficiencies, name) == value:
            rates = replace(rates, **{name: other})
    return replace(run, problem=run.problem.replace(efficiencies=rates))


def error(runs: Sequence[Run], others: Mapping[Number, float]) -> float:
    return mean(time_errors([changed(run, others) for run in runs]))


def said_by_others(source: Source, runs: Mapping[str, Sequence[Run]]) -> dict[Number, Said]:
    """Its own numbers as the others have them, searched for one after the other."""
    said = dict(source.others)
    for number, values in source.searched.items():
        others = {own: value for own, (value, _) in said.items()}
        judges = runs[source.judge]
        best = min(values, key=lambda value: error(judges, {**others, number: value}))
        said[number] = best, f"best for {source.judge}"
    return said


def lines_of_sources(folder: Path) -> Iterator[str]:
    head = "source | rows | error | without it | ratio | its own numbers as others have them: the error with each alone"
    yield f"| {head} |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    runs = {table.name: [run for run in runs_of(folder, table) if run.seconds] for table in TABLES}
    for source in SOURCES:
        own = [run for name in source.tables for run in runs[name]]
        said = said_by_others(source, runs)
        today, without = error(own, {}), error(own, {number: value for number, (value, _) in said.items()})
        each = "; ".join(
            f"`{name}` {value:.3g} in place of {now:.3g} ({words}): {error(own, {(name, now): value}):.1%}"
            for (name, now), (value, words) in said.items()
        )
        cells = (source.name, f"{len(own):,}", f"{today:.1%}", f"{without:.1%}", f"{without / today:.2f}")
        yield f"| {' | '.join(cells)} | {each or 'none'} |"
    yield ""
    now, then = constants_now(), constants_then()
    yield f"The model of time and memory has {now} constants of its own; at {THEN} it had {then}."


# ---- how many numbers the model has --------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[1]
THEN = "217596e1"
FILES_THEN = [f"instances/training/{name}.py" for name in ("efficiencies", "frameworks", "problem")]
FILES_THEN += [f"instances/training/referee/{name}.py" for name in ("memory", "seconds", "work")]
FILES_NOW = [f"instances/physics/{name}.py" for name in ("efficiencies", "optimizers")]
FILES_NOW += [f"instances/training/{name}.py" for name in ("frameworks", "problem", "unit_costs", "referee")]
FILES_NOW += ["benchmarks/measured.py"]
# What follows from number formats, shapes and data sheets is no number of the model's own; these names are.
CONSTANTS = ("ATTENTION_BACKWARD", "BACKWARD_ATTENTION", "WORKSPACE_BYTES", "TOKEN_COPIES", "OWN_MOMENT")
CONSTANTS += ("USUAL_RESERVE", "OVERLAPPED_TENSOR", "EAGER", "LOSS_OF_STEPS", "GATHERED_UNITS")
FIELDS = ("kept", "logit_bytes", "norm_bytes", "tensors_per_layer", "added_bytes", "latency_seconds")


def numbers_in(text: str) -> int:
    """Numbers that a module gives: defaults of efficiencies, values by an efficiency's name, numbers of kernels of
    attention, fields of frameworks and links, and constants by name."""
    count = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            count += sum(getattr(key, "value", None) in ABOUT and is_number(value) for key, value in pairs)
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "id", "")
            count += called == "_number"
            count += sum(each.arg in FIELDS and is_number(each.value) for each in node.keywords)
            count += called == "AttentionKernel" and sum(map(is_number, ast.walk(node)))
        elif isinstance(node, ast.Assign):
            count += getattr(node.targets[0], "id", None) in CONSTANTS
    return count


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def constants_now() -> int:
    return sum(numbers_in((ROOT / name).read_text("utf-8")) for name in FILES_NOW)


def constants_then() -> int:
    count = 0
    for name in FILES_THEN:
        command = ["git", "show", f"{THEN}:{name}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"{THEN} is not in this checkout: {done.stderr.strip()}")
        count += numbers_in(done.stdout)
    return count
