"""Measured training runs of others beside the model: memory of every rank, and the time of an iteration.

    python benchmarks/training_measured.py FILE... [--fit CASE,CASE,...] [--table FILE]

Reads files in the formats of b200_measured.json, a100_2205_05198.json, gh200_opt350_measured.json and
published_recipes.csv. Every row that can be judged is; the others are named with the reason. Efficiencies are fitted on
the rows that `--fit` names, and of GH200 one constant of its framework's memory; nothing else is fitted.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training_time import Row, read_rows, table, time_rows

from pipeplan.instances.training.cases import ParallelismChoice
from pipeplan.instances.training.plan import NOTHING, read_recompute
from pipeplan.instances.training.referee import Ranks, memory_of_ranks, stash_bytes
from pipeplan.instances.training.unit_costs import Keys, unit_parameters

GIB = 2**30
OWN_BYTES = 4
"""Of a number in the sizes of the GH200 file, whose memory grows by that much for each of them."""


@dataclass(frozen=True)
class MemoryRow:
    """Bytes of one thing that somebody measured or published."""

    group: str
    case: str
    predicted: float
    measured: float
    fitted: bool = False

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def memory_rows(files: Sequence[Path], fitted: Sequence[str] = ()) -> list[MemoryRow]:
    """All rows of the files that say something of memory."""
    found: list[MemoryRow] = []
    for path in files:
        if path.suffix != ".json":
            continue
        data = json.loads(path.read_text())
        rows = {row.case: row for row in read_rows(path) if isinstance(row, Row)}
        if "sizes" in data:
            found += _profiled_rows(data, rows, fitted)
        elif "seconds_selective" in data["rows"][0]:
            found += _published_rows(data, rows)
        else:
            found += _measured_rows(data, rows)
    return found


# ---- peaks of ranks ------------------------------------------------------------------------------------------


def _measured_rows(data: Mapping[str, Any], rows: Mapping[str, Row]) -> Iterator[MemoryRow]:
    """The fullest rank of each stage where ranks are published; rows that differ in their batch alone count once."""
    seen = set()
    for entry in data["rows"]:
        row = rows.get(entry["case"])
        if row is None:
            continue
        known = (
            row.problem.model,
            row.problem.sequence,
            row.plan.degrees,
            row.plan.micro_batch,
            row.plan.recompute,
        )
        in_flight = min(row.plan.micro_batches(row.problem.batch), row.plan.degrees.pipeline)
        if (known, in_flight) in seen:
            continue
        seen.add((known, in_flight))
        ranks = [own.bytes - own.parts["reserve"] for own in memory_of_ranks(row.problem, row.plan)]
        by_rank = entry.get("measured_peak_gib_by_rank")
        if by_rank and len(by_rank) == row.problem.devices:
            each = row.plan.degrees.stage_ranks
            for stage, held in enumerate(ranks):
                peak = max(by_rank[stage * each : (stage + 1) * each])
                yield MemoryRow(row.group, f"{row.case} stage {stage}", held, peak * GIB)
        else:
            yield MemoryRow(row.group, row.case, max(ranks), entry["measured_peak_gib"] * GIB)


# ---- arXiv 2205.05198: layers alone ----------------------------------------------------------------------------


def _published_rows(data: Mapping[str, Any], rows: Mapping[str, Row]) -> Iterator[MemoryRow]:
    for entry in data["rows"]:
        row = rows.get(f"{entry['model']}-selective")
        if row is None:
            continue
        bytes_each = (
            sum(own.on(1) for own in (states.weights, states.gradients, states.optimizer))
            if (states := row.problem.states[0])
            else 0
        )
        yield MemoryRow(
            "2205.05198 parameters and optimizer",
            entry["model"],
            bytes_each * _layer_numbers(row),
            entry["parameters_optimizer_gib"] * GIB,
        )
        for mode, parallel, word in (("none", False, "none"), ("selective", True, "core_attn")):
            problem = row.problem.replace(sequence_parallel=parallel)
            recompute = read_recompute("recompute", word)
            plan = replace(row.plan, recompute=(recompute,) * len(row.plan.layout))
            activations = Ranks(problem, plan).most_kept(0)
            # The published figure is of layers alone: without what the first chunk keeps of the embedding for each
            # micro-batch in flight, and without the head.
            in_flight = plan.degrees.pipeline * min(plan.degrees.virtual, 2)
            activations -= in_flight * stash_bytes(problem, plan, 0, NOTHING)
            if plan.degrees.pipeline == 1:
                activations -= stash_bytes(problem, plan, len(problem.model.units) - 1, NOTHING)
            measured = entry[f"activations_gib_{mode}"] * GIB
            yield MemoryRow("2205.05198 activations", f"{entry['model']} {mode}", activations, measured)


def _layer_numbers(row: Row) -> float:
    """Parameters of the layers of one rank, without embedding and head."""
    layers = row.problem.model.layers / row.plan.degrees.pipeline
    key = ParallelismChoice.of(row.plan).key
    return layers * float(unit_parameters(row.problem.model, Keys.of([key]), "dense").usual[0])


# ---- GH200: layers of their own, and one constant --------------------------------------------------------------


def _profiled_rows(data: Mapping[str, Any], rows: Mapping[str, Row], fitted: Sequence[str]) -> list[MemoryRow]:
    """What the framework holds besides is one number, the mean of what is missing on the named rows."""
    pairs = [(row, entry) for entry in data["rows"] if (row := rows.get(entry["case"])) is not None]
    held = {row.case: _profiled(data, row) for row, _ in pairs}
    missing = [entry["measured_peak_bytes"] - held[row.case] for row, entry in pairs if row.case in fitted]
    constant = statistics.fmean(missing) if missing else 0.0
    return [
        MemoryRow("gh200", row.case, held[row.case] + constant, entry["measured_peak_bytes"], row.case in fitted)
        for row, entry in pairs
    ]


def _profiled(data: Mapping[str, Any], row: Row) -> float:
    """With the sizes that the file has for the row's own tensor degree."""
    tensor = row.plan.degrees.tensor
    sizes = data["sizes"][str(tensor)]
    layers = tuple(
        replace(
            layer,
            parameters=tensor * size["params_floats"],
            stash_bytes=tensor * OWN_BYTES * size["act_mem_floats"],
        )
        for layer, size in zip(row.problem.model.own, sizes, strict=True)
    )
    problem = row.problem.replace(model=replace(row.problem.model, own=layers))
    return max(own.bytes - own.parts["reserve"] for own in memory_of_ranks(problem, row.plan))


# ---- what is printed -------------------------------------------------------------------------------------------


def summary(rows: Sequence[MemoryRow]) -> str:
    errors = [abs(row.error) for row in rows]
    return f"mean {statistics.fmean(errors):.3%}, worst {max(errors):.3%}, {len(errors)} rows" if errors else "none"


def lines_of(rows: Sequence[MemoryRow]) -> Iterator[str]:
    for row in rows:
        mark = " (fitted)" if row.fitted else ""
        yield f"{row.predicted / GIB:9.3f} GiB {row.measured / GIB:9.3f} GiB {row.error:+8.3%}  {row.case}{mark}"
    for group in dict.fromkeys(row.group for row in rows):
        yield f"memory, {group}: {summary([row for row in rows if row.group == group and not row.fitted])}"


def page(rows: Sequence[MemoryRow]) -> str:
    """The measured table of the documentation."""
    head = "| run | measured | computed | error |\n| --- | ---: | ---: | ---: |\n"
    return head + "".join(
        f"| {row.case} | {row.measured / GIB:.2f} GiB | {row.predicted / GIB:.2f} GiB | {row.error:+.2%} |\n"
        for row in rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--fit", default="", help="cases to fit on, with commas between them")
    parser.add_argument("--table", type=Path, help="write the table of memory to this file")
    given = parser.parse_args()
    cases = [case for case in given.fit.split(",") if case]
    rows = memory_rows(given.files, cases)
    print(*lines_of(rows), sep="\n")
    if given.table is not None:
        given.table.write_text(page(rows), "utf-8")
    print(table(time_rows(given.files, cases)))


if __name__ == "__main__":
    main()
