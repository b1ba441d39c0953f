"""Thousands of training runs of others beside the model: how accurate the numbers are, where, and what that decides.

    python benchmarks/measured.py FOLDER [--draws 20] [--page docs/accuracy.md] [--peer CHECKOUT]
    python benchmarks/measured.py FOLDER --residuals SET
    python benchmarks/measured.py FOLDER --left-out [--page docs/accuracy.md]

FOLDER has the tables that docs/accuracy.md names. Every run is judged by the defaults of its framework, kernel of
attention and GPU, as `plan configure --judge` does; nothing is fitted to it. With `--draws` each group of runs (one
model on one number of GPUs with one kernel) is also judged after a fit on four of its runs, drawn that often. With
`--peer` a checkout of Calculon is asked for the same runs (peer.py); without it a page keeps the column that it has.
`--left-out` judges each source by what the other ones say (left_out.py).
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from peer import Answer, ask
from training_time import configuration

from pipeplan.instances.base.errors import PipeplanError
from pipeplan.instances.base.quantities import GIB
from pipeplan.instances.physics.efficiencies import OVERLAPPED_TENSOR
from pipeplan.instances.physics.hardware import family_of
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.iteration import model_operations, timing_of
from pipeplan.instances.training.model import Attention, Mlp, Model
from pipeplan.instances.training.plan import NOTHING, Configuration, Recompute
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.referee import memory_of_ranks
from pipeplan.instances.training.scope import fit_of, usual_errors
from pipeplan.planners.training.runs import Run as FittedRun
from pipeplan.planners.training.runs import fit

Cells = Mapping[str, str]
GB = 1e9
# NVIDIA's recipes overlap tensor-parallel communication.
OF_RECIPES = {"tensor_hidden": OVERLAPPED_TENSOR}
# What somebody would try instead: a flat share of the peak, by family of GPUs.
FLAT = {"a100": 0.5, "h100": 0.4, "v100": 0.4}
# Below this share of the peak runs of the playbook are told apart.
LEAST_MFU_PERCENT = 10


@dataclass(frozen=True)
class Run:
    """A measured run: seconds and peak where they were measured; `failed` where it ran out of memory."""

    group: tuple[str, ...]
    problem: TrainingProblem
    plan: Configuration
    seconds: float | None
    peak_bytes: float | None = None
    failed: bool = False
    of_first: bool = False
    """Is the peak that of the first rank, and not of the fullest one?"""


@dataclass(frozen=True)
class Table:
    """A table of runs, by the name that the page has for it, and what it must be within."""

    name: str
    file: str
    read: Callable[[Cells], Run | None]
    wanted: float
    judged: Callable[[Cells], bool] = lambda row: True


def number(row: Cells, name: str, default: int = 1) -> int:
    return int(row[name]) if row.get(name) else default


def model_of_row(row: Cells, **more: Any) -> Model:
    """Gated models are of the Llama type, others of the GPT type."""
    hidden, heads, gated = number(row, "hidden"), number(row, "heads"), row["gated"] == "1"
    bias = more.pop("bias", not gated)
    attention = Attention(heads, hidden // heads, number(row, "kv_heads", heads), bias=bias, output_bias=bias)
    mlp = Mlp(number(row, "ffn"), gated=gated, bias=bias)
    norm = "rms" if gated else "layer"
    return Model(
        row["model"], hidden, number(row, "layers"), number(row, "vocab"), attention, mlp, norm=norm, **more
    )


def run_of(row: Cells, problem: TrainingProblem, zero: int, seconds: float | None, *group: str, **more: Any) -> Run:
    names = ("tensor", "context", "pipeline", "virtual", "expert")
    recompute = Recompute(("full",)) if row.get("recompute") == "full" else NOTHING
    degrees = {name: number(row, name) for name in names}
    plan = configuration(problem, micro_batch=number(row, "micro_batch"), zero=zero, recompute=recompute, **degrees)
    return Run((row["model"], row["gpus"], *group), problem, plan, seconds, **more)


def problem_of_row(row: Cells, model: Model, gpu: str, **more: Any) -> TrainingProblem:
    return problem_of(
        model, f"{row['gpus']}x{gpu}", batch=number(row, "global_batch"), sequence=number(row, "sequence"), **more
    )


def seconds_of(row: Cells) -> float | None:
    return float(row["seconds"]) if row.get("seconds") else None


# ---- one reader for each table -----------------------------------------------------------------------------

KERNELS = {
    "flash_attention2": "flash-2",
    "flash_attentionv1.0.8": "flash-1",
    "fused": "fused-softmax",
    "torch": "torch",
}


def layout_run(row: Cells) -> Run | None:
    """Aleph Alpha's framework, with the kernels that each row names."""
    kernel, _, norms = row["kernel"].partition(" + ")
    problem = problem_of_row(
        row,
        model_of_row(row),
        row["gpu"],
        framework="scaling",
        attention_kernel=KERNELS[kernel],
        sequence_parallel=row["sequence_parallel"] == "1",
        efficiencies={"norm_traffic": 1} if norms else {},
    )
    more = {"failed": row["outcome"] == "OOM Error"}
    return run_of(
        row, problem, 1, seconds_of(row), row["sequence"], row["kernel"], row["sequence_parallel"], **more
    )


def vtrain_run(row: Cells) -> Run | None:
    """The size of the GPUs is not stated, so only times are judged; nodes have 800 Gbit/s."""
    devices = number(row, "gpus")
    problem = problem_of_row(
        row,
        model_of_row(row, tied=True, positions=number(row, "sequence")),
        "a100-80gb",
        precision="fp16",
        framework="megatron-deepspeed",
        attention_kernel="fused-softmax",
        sequence_parallel=False,
        dropout=True,
        levels=None if devices <= 8 else [(8, 300e9), (devices // 8, 12.5e9)],
    )
    return run_of(row, problem, 0, seconds_of(row), row["layers"], row["hidden"])


def dgxc_run(row: Cells) -> Run | None:
    if row["task"] != "pretrain":
        return None
    problem = problem_of_row(
        row, model_of_row(row, bias=False), row["gpu"], precision=row["precision"], efficiencies=OF_RECIPES
    )
    return run_of(row, problem, 1, seconds_of(row))


def mosaic_run(row: Cells) -> Run | None:
    """A100 have 1,600 Gbit/s between nodes."""
    devices, is_a100 = number(row, "gpus"), row["gpu"].startswith("a100")
    problem = problem_of_row(
        row,
        model_of_row(row, tied=True, bias=False),
        row["gpu"],
        precision="fp8" if "fp8" in row["precision"] else "bf16",
        framework="fsdp",
        levels=[(8, 300e9), (devices // 8, 25e9)] if is_a100 and devices > 8 else None,
    )
    return run_of(row, problem, number(row, "zero"), seconds_of(row), row["gpu"])


def playbook_run(row: Cells) -> Run | None:
    """More stages than layers crash, which is no matter of memory. Their nodes are joined by Ethernet."""
    if number(row, "pipeline") > number(row, "layers"):
        return None
    problem = problem_of_row(
        row,
        model_of_row(row, tied=row["tied"] == "1"),
        row["gpu"],
        framework="nanotron",
        efficiencies={"network": 0.62},
    )
    # The first rank of nanotron prints GiB and calls them GB.
    peak = float(row["peak_gb"]) * GIB if row["peak_gb"] else None
    more = {"peak_bytes": peak, "failed": row["outcome"] != "ok", "of_first": True}
    return run_of(row, problem, number(row, "zero", 0), seconds_of(row), **more)


def bigscience_run(row: Cells) -> Run | None:
    problem = problem_of_row(
        row,
        model_of_row(row, tied=True, positions=2048),
        row["gpu"],
        precision="fp16",
        framework="megatron-deepspeed",
        attention_kernel="fused-softmax",
        sequence_parallel=False,
        dropout=True,
        fused_loss=False,
    )
    peak = float(row["peak_gb"]) * GB if row["peak_gb"] else None
    return run_of(row, problem, 1, seconds_of(row), row["gpu"], peak_bytes=peak, failed=row["outcome"] == "OOM")


# Layers, hidden size, heads, key-value heads, hidden size of the MLP, is it gated, vocabulary: as published.
NEMO_MODELS = {
    "GPT3-5B": (24, 4096, 32, 32, 16384, 0, 51200),
    "GPT3-20B": (44, 6144, 48, 48, 24576, 0, 51200),
    "GPT3-175B": (96, 12288, 96, 96, 49152, 0, 51200),
    "LLAMA2-7B": (32, 4096, 32, 32, 11008, 1, 32000),
    "LLAMA2-13B": (40, 5120, 40, 40, 13824, 1, 32000),
    "LLAMA2-70B": (80, 8192, 64, 8, 28672, 1, 32000),
    "Nemotron-8B": (32, 4096, 32, 32, 16384, 0, 256000),
    "Nemotron-22B": (40, 6144, 48, 48, 24576, 0, 256000),
    "Nemotron-340B": (96, 18432, 96, 8, 73728, 0, 256000),
    "LLAMA3-8B": (32, 4096, 32, 8, 14336, 1, 128256),
    "LLAMA3-70B": (80, 8192, 64, 8, 28672, 1, 128256),
}


def nemo_run(row: Cells) -> Run | None:
    if row["task"] != "pretrain":
        return None
    names = ("layers", "hidden", "heads", "kv_heads", "ffn", "gated", "vocab")
    whole = {**row, **dict(zip(names, map(str, NEMO_MODELS[row["model"]]), strict=True))}
    problem = problem_of_row(
        whole, model_of_row(whole, bias=False), row["gpu"], precision=row["precision"], efficiencies=OF_RECIPES
    )
    tokens = problem.batch * problem.sequence
    return run_of(whole, problem, 1, tokens / (float(row["tokens_per_s_per_gpu"]) * problem.devices))


def above_least(row: Cells) -> bool:
    return not row["mfu_percent"] or float(row["mfu_percent"]) > LEAST_MFU_PERCENT


TABLES = (
    Table("A100, PyTorch, layouts", "aleph_alpha_a100_layouts.csv", layout_run, 0.10),
    Table(
        "A100, Megatron-DeepSpeed, up to 8 GPUs",
        "vtrain_a100.csv",
        vtrain_run,
        0.20,
        lambda row: int(row["gpus"]) <= 8,
    ),
    Table(
        "A100, Megatron-DeepSpeed, more GPUs", "vtrain_a100.csv", vtrain_run, 0.10, lambda row: int(row["gpus"]) > 8
    ),
    Table("H100, Megatron, bf16", "dgxc_benchmarking.csv", dgxc_run, 0.10, lambda row: row["precision"] == "bf16"),
    Table("H100, Megatron, fp8", "dgxc_benchmarking.csv", dgxc_run, 0.12, lambda row: row["precision"] == "fp8"),
    Table("H100, NeMo 24.07, fp8", "nemo_2407_h100.csv", nemo_run, 0.12),
    Table("A100 and H100, FSDP", "mosaicml_fsdp.csv", mosaic_run, 0.10),
    Table("H100, nanotron", "ultrascale_playbook_h100.csv", playbook_run, 0.20, above_least),
    Table("V100, Megatron-DeepSpeed", "bigscience_megatron_deepspeed.csv", bigscience_run, 0.20),
)


def runs_of(folder: Path, table: Table) -> list[Run]:
    with (folder / table.file).open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    found = (table.read(row) for row in rows if table.judged(row))
    return [run for run in found if run is not None]


# ---- judged ----------------------------------------------------------------------------------------------------


def mean(errors: Iterable[float]) -> float:
    return statistics.fmean(abs(error) for error in errors)


def ninetieth(errors: Sequence[float]) -> float:
    return sorted(map(abs, errors))[int(0.9 * len(errors))]


def predicted(run: Run) -> float:
    return timing_of(run.problem, run.plan).seconds


def flat(run: Run) -> float:
    """Seconds by a flat share of the peak."""
    family = run.problem.gpu.name.partition("-")[0]
    operations = model_operations(run.problem)
    assert operations is not None, "models of shapes have operations"
    return operations / (FLAT[family] * run.problem.peak * run.problem.devices)


def time_errors(runs: Sequence[Run], model: Callable[[Run], float] = predicted) -> list[float]:
    return [model(run) / run.seconds - 1 for run in runs if run.seconds is not None]


def peak_bytes(run: Run) -> float:
    """With the reserve: these peaks are what the driver or PyTorch's allocator had reserved."""
    ranks = memory_of_ranks(run.problem, run.plan)
    return max(rank.bytes for rank in ranks[: 1 if run.of_first else None])


def memory_errors(runs: Sequence[Run]) -> list[float]:
    return [peak_bytes(run) / run.peak_bytes - 1 for run in runs if run.peak_bytes is not None and not run.failed]


def by_group(runs: Iterable[Run]) -> dict[tuple[str, ...], list[Run]]:
    groups = defaultdict(list)
    for run in runs:
        if run.seconds is not None:
            groups[run.group].append(run)
    return groups


def lost(runs: Sequence[Run], first: int, surely: bool = False) -> list[float]:
    """For each group of eight or more: by how much the best of the first so many by prediction is slower than the
    fastest; `surely`: of those that fit for sure, if there are any."""
    shares = []
    for group in by_group(runs).values():
        if len(group) >= 8:
            asked = [run for run in group if surely and fits(run) == "for sure"] or group
            measured = [run.seconds or 0.0 for run in sorted(asked, key=predicted)]
            shares.append(min(measured[:first]) / min(run.seconds or 0.0 for run in group) - 1)
    return shares


def fits(run: Run) -> str:
    limit, held = run.problem.memory_bytes, max(rank.bytes for rank in memory_of_ranks(run.problem, run.plan))
    words = {"yes": "for sure", "maybe": "maybe", "no": "cannot"}
    return words[fit_of(held, limit, usual_errors(run.problem).memory)]


def errors_by_default(folder: Path) -> dict[tuple[str, str, bool], tuple[int, float]]:
    """Runs by family of GPUs, framework and whether they are in fp8: how many, and what nine in ten are within."""
    errors: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for table in TABLES:
        for run in runs_of(folder, table):
            own = run.problem
            errors[family_of(own.gpu.name), own.framework, own.precision == "fp8"] += time_errors([run])
    return {key: (len(own), ninetieth(own)) for key, own in errors.items()}


def fitted_errors(runs: Sequence[Run], draws: int) -> tuple[list[float], list[float]]:
    """Errors of the runs that fits on four of their group leave out: before the fit, and after it."""
    before: list[float] = []
    after: list[float] = []
    for name, group in by_group(runs).items():
        if len(group) < 8:
            continue
        seconds = [predicted(run) for run in group]
        near = [run for run, own in zip(group, seconds, strict=True) if own <= 1.5 * min(seconds)]
        for draw in range(draws):
            chosen = random.Random(f"{name} {draw}").sample(near, min(4, len(near)))
            four = [FittedRun(run.problem, run.plan, run.seconds or 0.0) for run in chosen]
            rates = fit(four).efficiencies
            rest = [run for run in group if run not in chosen]
            before += time_errors(rest)
            after += time_errors([replace(run, problem=run.problem.replace(efficiencies=rates)) for run in rest])
    return before, after


# ---- what is printed -------------------------------------------------------------------------------------------

BEGIN, END = "<!-- made by benchmarks/measured.py -->\n", "<!-- end -->"
BEGIN_LEFT_OUT = "<!-- made by benchmarks/measured.py --left-out -->\n"
PEER = "Calculon"


def peer_cell(runs: Sequence[Run], answers: Sequence[Answer]) -> str:
    """The peer's mean error; where it refuses some of the runs, how many it judges, and ours on these."""
    pairs = [(run, own) for run, own in zip(runs, answers, strict=True) if not isinstance(own, str)]
    if not pairs:
        return "refuses all"
    own = mean(seconds / run.seconds - 1 for run, seconds in pairs if run.seconds is not None)
    if len(pairs) == len(runs):
        return f"{own:.1%}"
    return f"{own:.1%} on {len(pairs):,}, where ours is {mean(time_errors([run for run, _ in pairs])):.1%}"


def peer_cells(folder: Path, checkout: Path) -> dict[str, str]:
    """By table, what the peer's column says."""
    timed = {table.name: [run for run in runs_of(folder, table) if run.seconds is not None] for table in TABLES}
    return {name: peer_cell(runs, ask(checkout, runs)) for name, runs in timed.items()}


def peer_cells_on(page: str) -> dict[str, str]:
    """By table, what the peer's column of a page says, which stands there until a checkout is asked again."""
    rows = [line.split(" | ") for line in page.partition(BEGIN)[2].partition("\n\n")[0].splitlines()]
    head, *rest = [[cell.strip("| ") for cell in row] for row in rows] or [[]]
    place = head.index(PEER) if PEER in head else None
    return {} if place is None else {row[0]: row[place] for row in rest[1:]}


def lines(folder: Path, draws: int, peers: Mapping[str, str]) -> Iterator[str]:
    head = [
        "runs",
        "rows",
        "error",
        "90 %",
        "median",
        "at most",
        "flat share",
        *([PEER] if peers else []),
        *(["before and after a fit"] if draws else []),
    ]
    yield "| " + " | ".join(head) + " |"
    yield "| --- |" + " ---: |" * (len(head) - 1)
    all_runs = {table.name: runs_of(folder, table) for table in TABLES}
    for table in TABLES:
        runs = all_runs[table.name]
        errors, flats = time_errors(runs), time_errors(runs, flat)
        cells = [table.name, f"{len(errors):,}", f"{mean(errors):.1%}", f"{ninetieth(errors):.0%}"]
        cells += [f"{statistics.median(errors):+.1%}", f"{table.wanted:.0%}", f"{mean(flats):.1%}"]
        if peers:
            cells.append(peers[table.name])
        if draws:
            before, after = fitted_errors(runs, draws)
            cells.append(f"{mean(before):.1%} / {mean(after):.1%}" if before else "")
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield "| sweep | groups | the predicted best is slower by | the best of five by | the best that fits for sure by |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for table in TABLES:
        if shares := lost(all_runs[table.name], 1):
            five, sure = lost(all_runs[table.name], 5), lost(all_runs[table.name], 1, surely=True)
            yield f"| {table.name} | {len(shares)} | {mean(shares):.1%} | {mean(five):.1%} | {mean(sure):.1%} |"
    yield ""
    yield "| runs | rows | error of the peak | ran, and fits for sure / maybe / cannot | failed, the same |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for table in TABLES:
        runs = all_runs[table.name]
        if any(run.failed or run.peak_bytes for run in runs):
            memory = memory_errors(runs)
            cells = [table.name, f"{len(memory):,}", f"{mean(memory):.1%}" if memory else ""]
            for failed in (False, True):
                said = [fits(run) for run in runs if run.failed == failed]
                cells.append(" / ".join(f"{said.count(word):,}" for word in ("for sure", "maybe", "cannot")))
            yield "| " + " | ".join(cells) + " |"


def residuals(folder: Path, name: str) -> Iterator[str]:
    """The mean error of one table's runs by degree, micro-batch and size of the cluster."""
    runs = [
        run for table in TABLES if table.name == name for run in runs_of(folder, table) if run.seconds is not None
    ]
    errors = time_errors(runs)
    for what in ("tensor", "pipeline", "data", "micro_batch", "devices", "sequence"):
        by: dict[int, list[float]] = defaultdict(list)
        for run, error in zip(runs, errors, strict=True):
            places = (run.plan.degrees, run.plan, run.problem)
            by[next(getattr(place, what) for place in places if hasattr(place, what))].append(error)
        for value, own in sorted(by.items()):
            yield f"{what:12} {value:7,} {statistics.fmean(own):+8.1%} of {len(own):,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=0, help="fits of each group on four of its runs")
    parser.add_argument("--page", type=Path, help="write the tables into this page, between its marks")
    parser.add_argument("--residuals", metavar="SET", help="errors of one table by degree instead")
    parser.add_argument("--peer", type=Path, metavar="CHECKOUT", help="ask this checkout of Calculon as well")
    parser.add_argument("--left-out", action="store_true", help="what each source's own numbers are worth instead")
    given = parser.parse_args()
    begin = BEGIN
    try:
        if given.left_out:
            from left_out import lines_of_sources

            begin, found = BEGIN_LEFT_OUT, list(lines_of_sources(given.folder))
        elif given.residuals:
            found = list(residuals(given.folder, given.residuals))
        else:
            peers = peer_cells_on(given.page.read_text("utf-8")) if given.page else {}
            peers = peer_cells(given.folder, given.peer) if given.peer else peers
            found = list(lines(given.folder, given.draws, peers))
    except (OSError, PipeplanError) as error:
        parser.error(str(error))
    print(*found, sep="\n")
    if given.page is not None:
        before, _, rest = given.page.read_text("utf-8").partition(begin)
        given.page.write_text(before + begin + "\n".join(found) + "\n" + END + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main()
