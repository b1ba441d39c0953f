"""Times of published runs beside the model's: what is fitted on which rows, and how far off the others are.

`time_rows(files, fit)` is the part of training_measured.py that knows times; by itself:
`python benchmarks/training_time.py FILE... [--fit CASE,CASE,...]`.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeplan.instances.base.errors import PipeplanError
from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.frameworks import even_layout
from pipeplan.instances.training.iteration import timing_of
from pipeplan.instances.training.model import MeasuredTime, Model, OwnLayer
from pipeplan.instances.training.plan import NOTHING, Configuration, Degrees, Recompute
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.planners.training.runs import Run, fit

MODELS = {
    "llama38b": "llama-3-8b",
    "llama370b": "llama-3-70b",
    "llama3405b": "llama-3-405b",
    "deepseekv2": "deepseek-v2",
    "deepseekv3": "deepseek-v3",
    "mixtral8x7b": "mixtral-8x7b",
    "mixtral8x22b": "mixtral-8x22b",
    "gptoss120b": "gpt-oss-120b",
    "qwen330ba3b": "qwen3-30b-a3b",
    "qwen3235ba22b": "qwen3-235b-a22b",
}
"""Packaged names by how publishers write them, in small letters and digits alone."""


def packaged_name(model: str) -> str | None:
    """The packaged model of that name; 3.1 has the shapes of 3."""
    key = "".join(letter for letter in model.lower() if letter.isalnum()).replace("llama31", "llama3")
    return MODELS.get(key)


@dataclass(frozen=True)
class Row:
    """One measured run."""

    file: str
    case: str
    problem: TrainingProblem
    plan: Configuration
    seconds: float
    group: str
    """Rows that are told together."""


@dataclass(frozen=True)
class Judged:
    """A row with what the model says."""

    file: str
    case: str
    group: str
    predicted: float
    measured: float
    fitted: bool
    """Did it take part in the fit?"""

    @property
    def error(self) -> float:
        """Of the predicted time."""
        return self.predicted / self.measured - 1

    @property
    def throughput_error(self) -> float:
        return self.measured / self.predicted - 1


@dataclass(frozen=True)
class Report:
    """What `time_rows` finds."""

    rows: tuple[Judged, ...]
    refused: tuple[tuple[str, str], ...]
    """Rows that cannot be judged, each with its reason."""
    efficiencies: Mapping[str, Efficiencies]
    """By group, where some were fitted."""


# ---- rows of each format -------------------------------------------------------------------------------


def layers_spread(model: Model, chunks: int) -> tuple[int, ...]:
    """As many layers in each chunk, or one more in the first ones; embedding and head beside them."""
    layers = sum(unit not in ("embedding", "head") for unit in model.units)
    counts = [layers // chunks + (j < layers % chunks) for j in range(chunks)]
    counts[0] += 1
    counts[-1] += 1
    return tuple(counts)


def configuration(
    problem: TrainingProblem,
    *,
    micro_batch: int,
    zero: int,
    recompute: Recompute = NOTHING,
    layout: Sequence[int] | None = None,
    **degrees: int,
) -> Configuration:
    """Of those degrees; data follows. A framework that divides models itself does so."""
    given = {name: value or 1 for name, value in degrees.items()}
    model_ranks = given.get("tensor", 1) * given.get("context", 1) * given.get("pipeline", 1)
    own = Degrees(**{**given, "data": problem.devices // model_ranks})
    schedule = "interleaved-1f1b" if own.virtual > 1 else "1f1b"
    if layout is None and problem.rules.layouts == "even":
        layout = even_layout(problem, own.chunks)
    counts = layers_spread(problem.model, own.chunks) if layout is None else tuple(layout)
    return Configuration(own, micro_batch, zero, schedule, counts, (recompute,) * own.chunks)


def a100_rows(path: Path) -> Iterable[Row | tuple[str, str]]:
    """arXiv 2205.05198: full recomputation without sequence parallelism, and selective with it."""
    for row in json.loads(path.read_text())["rows"]:
        model = Model(
            f"gpt-{row['model'].lower()}",
            hidden=row["hidden"],
            layers=row["layers"],
            vocabulary=51200,
            attention=_attention(row["heads"], row["hidden"]),
            mlp=_mlp(4 * row["hidden"]),
            tied=True,
            norm="layer",
            positions=2048,
        )
        for mode, recompute in (("full", Recompute(("full",))), ("selective", Recompute(("core_attn",)))):
            problem = problem_of(
                model,
                f"{row['gpus']}xa100-80gb",
                batch=row["global_batch"],
                sequence=2048,
                precision="fp16",
                flash_attention=False,
                dropout=True,
                sequence_parallel=mode == "selective",
            )
            degrees = {name: row[name] for name in ("tensor", "pipeline", "virtual")}
            plan = configuration(problem, micro_batch=row["micro_batch"], zero=0, recompute=recompute, **degrees)
            yield Row(path.name, f"{row['model']}-{mode}", problem, plan, row[f"seconds_{mode}"], "a100")


def _attention(heads: int, hidden: int) -> Any:
    from pipeplan.instances.training.model import Attention

    return Attention(heads, hidden // heads, heads, bias=True, output_bias=True)


def _mlp(hidden: int) -> Any:
    from pipeplan.instances.training.model import Mlp

    return Mlp(hidden, gated=False, bias=True)


GPUS = {
    "A100": "a100-80gb",
    "H100": "h100-80gb",
    "H200": "h200-141gb",
    "B200": "b200-180gb",
    "GB200": "gb200-186gb",
    "B300": "b300",
    "GB300": "gb300",
}


def b200_rows(path: Path) -> Iterable[Row | tuple[str, str]]:
    for row in json.loads(path.read_text())["rows"]:
        case = row["case"]
        name = packaged_name(row["model"])
        if name is None or row["gpu"] not in GPUS:
            yield case, f"no model {row['model']} or GPU {row['gpu']} is known"
            continue
        if not row.get("measured_ms"):
            yield case, "its time is not published"
            continue
        try:
            problem = problem_of(
                name,
                f"{row['gpus']}x{GPUS[row['gpu']]}",
                batch=row["data"] * row["micro_batch"] * row["micro_batches"],
                sequence=row["sequence"],
                precision=row.get("precision") or "bf16",
                layers=row.get("layers"),
                dense_layers=row.get("dense_layers"),
            )
            keys = ("tensor", "context", "pipeline", "virtual", "expert")
            degrees = {key: row.get(key) or 1 for key in keys}
            plan = configuration(problem, micro_batch=row["micro_batch"], zero=1, **degrees)
        except PipeplanError as error:
            yield case, str(error)
            continue
        yield Row(path.name, case, problem, plan, row["measured_ms"] / 1000, f"{row['gpu']} {row['model']}")


def gh200_rows(path: Path) -> Iterable[Row | tuple[str, str]]:
    """Layers with their measured times; the profile has them by micro-batch and tensor degree.

    The network between nodes is as fast as the file's own times of summing gradients say, in the median over its rows.
    DeepSpeed's pipelines sum gradients after all backward passes, so that nothing of it is hidden.
    """
    data = json.loads(path.read_text())
    model = _profiled(data)
    network = _network_rate(data, model)
    for row in data["rows"]:
        if row["gpus"] is not None or "clariden" not in row["case"]:
            yield row["case"], "its GPUs are not GH200, of which alone there is a profile"
            continue
        if row["gradient_reduction_s"] > 0.8 * row["measured_s"]:
            yield row["case"], "the published time of its reduction is nearly the whole"
            continue
        if len(set(row["tensor"])) > 1:
            yield row["case"], "its stages have different tensor degrees"
            continue
        degrees = {"tensor": row["tensor"][0], "pipeline": len(row["stages"])}
        devices = row["data"] * degrees["tensor"] * degrees["pipeline"]
        problem = problem_of(
            model,
            f"{devices}xgh200-96gb",
            batch=row["global_batch"],
            sequence=data["sequence"],
            precision="fp16",
            framework="deepspeed",
            efficiencies={"data_hidden": 0, "links": 1},
            levels=[(4, NVLINK), (devices // 4, network)] if devices > 4 else None,
        )
        layout = [last - first + 1 for first, last in row["stages"]]
        plan = configuration(problem, micro_batch=row["micro_batch"], zero=0, layout=layout, **degrees)
        yield Row(path.name, row["case"], problem, plan, row["measured_s"], "gh200")


NVLINK = 150e9
"""Between any two of a node's four GH200 (Fusco et al., arXiv 2408.11556)."""


def _network_rate(data: Mapping[str, Any], model: Model) -> float:
    """Bytes a second of one GPU: what an all-reduce of the fullest stage's gradients sends, over its time."""
    rates = []
    for row in data["rows"]:
        n, seconds = row["data"], row["gradient_reduction_s"]
        if n > 1 and seconds < 0.8 * row["measured_s"] and len(set(row["tensor"])) == 1:
            stages = [model.own[first : last + 1] for first, last in row["stages"]]
            size = max(sum(layer.parameters for layer in stage) for stage in stages) / row["tensor"][0]
            rates.append(2 * 2 * (n - 1) / n * size / seconds)
    return statistics.median(rates)


def _profiled(data: Mapping[str, Any]) -> Model:
    layers = []
    for i, size in enumerate(data["sizes"]["1"]):
        times = tuple(
            MeasuredTime(int(degree), int(micro_batch), *layers_of[i])
            for micro_batch, by_degree in data["profile_gh200"].items()
            for degree, layers_of in by_degree.items()
        )
        stash, sent = 2 * size["act_mem_floats"], 2 * size["act_output_floats"]
        layers.append(OwnLayer(f"layer {i}", size["params_floats"], stash, sent, times))
    return Model(data["model"], own=tuple(layers))


FORMATS = {"bf16": "bf16", "fp8": "fp8", "mxfp8": "fp8", "fp8-cs": "fp8", "fp8-mx": "fp8"}


def recipe_rows(path: Path) -> Iterable[Row | tuple[str, str]]:
    """The newest container's row of each configuration."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    newest: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        key = tuple(
            _named(row, name) for name in row if name not in ("container", "tokens_per_s_per_gpu", "tflops_per_gpu")
        )
        old = newest.get(key)
        if old is None or _version(row) > _version(old):
            newest[key] = row
    for row in newest.values():
        case = f"{row['container']} {row['model']} {row['system']} {row['precision']} " + " ".join(
            f"{short}{row[name]}"
            for short, name in (
                ("tp", "tensor"),
                ("pp", "pipeline"),
                ("cp", "context"),
                ("vp", "virtual"),
                ("ep", "expert"),
            )
            if row[name] not in ("", "1")
        )
        yield _recipe(path, case.strip(), row)


def _named(row: Mapping[str, str], name: str) -> str:
    """An empty cell says nothing, or one."""
    text = row[name].split(" ")[0].lower() if name in ("fsdp", "precision") else row[name]
    if name in ("context", "virtual", "expert", "fsdp") and text in ("", "0", "1"):
        return "1"
    return FORMATS.get(text, text) if name == "precision" else text


def _version(row: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(int(part) for part in row["container"].split("."))


def _recipe(path: Path, case: str, row: Mapping[str, str]) -> Row | tuple[str, str]:
    precision = _named(row, "precision")
    if not precision:
        return case, "its number format is not stated"
    if precision not in FORMATS.values():
        return case, f"{row['precision']} is no number format of a problem"
    name = packaged_name(row["model"])
    if name is None:
        return case, f"no model {row['model']} is known"
    gpu = row["system"].removeprefix("DGX-")
    if gpu not in GPUS:
        return case, f"no GPU {gpu} is known"
    sharded = _named(row, "fsdp") != "1"
    batch, sequence = int(row["global_batch"]), int(row["sequence"])
    try:
        problem = problem_of(
            name,
            f"{row['gpus']}x{GPUS[gpu]}",
            batch=batch,
            sequence=sequence,
            precision=precision,
            framework="torchtitan" if sharded else "megatron",
        )
        keys = ("tensor", "pipeline", "context", "virtual", "expert")
        degrees = {key: int(row[key] or 1) for key in keys}
        plan = configuration(problem, micro_batch=int(row["micro_batch"]), zero=3 if sharded else 1, **degrees)
    except PipeplanError as error:
        return case, str(error)
    seconds = batch * sequence / (float(row["tokens_per_s_per_gpu"]) * problem.devices)
    return Row(path.name, case, problem, plan, seconds, f"{_family(row['model'])} {row['system']} {precision}")


def _family(model: str) -> str:
    """Models of one architecture, of whatever size."""
    return "Llama-3" if (packaged_name(model) or "").startswith("llama-3") else model


def read_rows(path: Path) -> list[Row | tuple[str, str]]:
    """All rows of a file, those that cannot be judged with the reason."""
    if path.suffix == ".csv":
        return list(recipe_rows(path))
    data = json.loads(path.read_text())
    if "profile_gh200" in data:
        return list(gh200_rows(path))
    first = data["rows"][0]
    return list(a100_rows(path) if "seconds_selective" in first else b200_rows(path))


# ---- judged --------------------------------------------------------------------------------------------


def time_rows(files: Iterable[Path], fitted: Sequence[str] = ()) -> Report:
    """Every row of the files; `fitted` names those on which efficiencies are fitted, for all rows of the same file.

    Recipes are fitted by themselves, on the newest row of each GPU, number format and family of models. Layers with
    measured times have nothing to fit.
    """
    judged: list[Judged] = []
    refused: list[tuple[str, str]] = []
    found: dict[str, Efficiencies] = {}
    for path in files:
        entries = read_rows(path)
        refused += [entry for entry in entries if not isinstance(entry, Row)]
        rows = [entry for entry in entries if isinstance(entry, Row)]
        names = calibration(rows) if path.suffix == ".csv" else list(fitted)
        by_group = path.suffix == ".csv"
        groups = {row.group for row in rows} if by_group else {path.name}
        for group in sorted(groups):
            own = [row for row in rows if not by_group or row.group == group]
            used = [row for row in own if row.case in names and not row.problem.model.own]
            efficiencies = None
            if used:
                efficiencies = fit([Run(row.problem, row.plan, row.seconds, row.case) for row in used]).efficiencies
                found[group] = efficiencies
            judged += [_judge(row, efficiencies, row in used) for row in own]
    return Report(tuple(judged), tuple(refused), found)


def calibration(rows: Sequence[Row]) -> list[str]:
    """The newest row of each group."""
    first: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: row.case.split(" ")[0], reverse=True):
        first.setdefault(row.group, row.case)
    return list(first.values())


def _judge(row: Row, efficiencies: Efficiencies | None, fitted: bool) -> Judged:
    problem = row.problem if efficiencies is None else row.problem.replace(efficiencies=efficiencies)
    return Judged(row.file, row.case, row.group, timing_of(problem, row.plan).seconds, row.seconds, fitted)


def summary(rows: Iterable[Judged]) -> str:
    errors = [abs(row.error) for row in rows]
    if not errors:
        return "none"
    mean, median, worst = statistics.fmean(errors), statistics.median(errors), max(errors)
    return f"mean {100 * mean:.2f} %, median {100 * median:.2f} %, worst {100 * worst:.2f} %, {len(errors)} rows"


def table(report: Report) -> str:
    """By row, then by file and group."""
    lines = []
    for row in report.rows:
        mark = " (fitted)" if row.fitted else ""
        lines.append(f"{row.predicted:10.4f} s {row.measured:10.4f} s {100 * row.error:+7.2f} %  {row.case}{mark}")
    lines += [f"not judged: {case}: {reason}" for case, reason in report.refused]
    key: Callable[[Judged], str]
    for key in (lambda row: row.group, lambda row: row.file):
        for name in dict.fromkeys(key(row) for row in report.rows):
            own = [row for row in report.rows if key(row) == name and not row.fitted]
            lines.append(f"time, {name}: {summary(own)}")
    recipes = [abs(row.throughput_error) for row in report.rows if row.file.endswith(".csv") and not row.fitted]
    if recipes:
        lines.append(f"throughput of recipes: median {100 * statistics.median(recipes):.2f} %, {len(recipes)} rows")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument(
        "--fit", default="", help="cases on which efficiencies are fitted, with commas between them"
    )
    given = parser.parse_args()
    report = time_rows(given.files, [case for case in given.fit.split(",") if case])
    print(table(report))
    for name, own in report.efficiencies.items():
        print(name, own)


if __name__ == "__main__":
    main()
