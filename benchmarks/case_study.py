"""GraphPipe's case study, simulated: the same eight stages in a row and as a graph, with and without the join.

    python benchmarks/case_study.py [--output benchmarks/results]

Writes case-study.md and its two pictures. All constants are those of `notebooks/graphpipe_networks.py` and
the two below, fixed before anything was run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import recipes  # noqa: F401  finds the modules of notebooks
from graphpipe_networks import case_study, layer_stages

from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph, verify_stage_graph
from pipeplan.instances.simulate import simulate
from pipeplan.planners.referee import rules_of
from pipeplan.show.pictures import draw_plan

HALF_SAMPLES = (0.44, 0.6, 0.82)
"""From the published gain of larger micro-batches alone, our default, from the published total gain."""

CLUSTERS = ("summit-v100-ideal", "summit-v100")
SIZES = (1, 2, 4, 8)
MIB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    folder = parser.parse_args().output
    gains = list(_gains())
    text = _head([gain for _, gain in gains]) + "\n".join([*(line for line, _ in gains), "", *_sizes()])
    folder.joinpath("case-study.md").write_text(text + "\n", "utf-8")
    problem = case_study(half_samples=0.82)
    _picture(problem, 2, True, folder / "case-study-row.svg")
    _picture(problem, 4, False, folder / "case-study-graph.svg")


def _head(gains: list[float]) -> str:
    return f"""# The case study of GraphPipe, simulated

With its stages in a graph, an iteration is {min(gains):.2f} to {max(gains):.2f} times as fast as with the same stages
in a row; how much depends on what is assumed of the devices. The paper reports 1.20, of which a shorter warm-up alone
gives 1.10.

The network has two branches of four transformer layers. Each layer is a stage on a device of its own, so there are 8
devices. An iteration trains on 64 samples. Nothing is measured: `notebooks/graphpipe_networks.py` computes
the times of the layers, and the event simulator those of the iterations. `python benchmarks/case_study.py` makes this
page and its pictures.

The memory takes micro-batches of 2 samples with eight stages in a row, and of 4 samples with the graph. The *depth* is
the number of stages on the longest path. The paper says 4 for the graph. The edge into the concatenation makes it 5,
unless the concatenation runs outside of the stages; the first table shows both.

## Gain of the graph over the row

*Row* and *graph* are the times of an iteration in ms, with micro-batches of b samples. *Warm-up* is the gain with equal
micro-batches (b = 2), *in all* the gain with the larger ones for which the graph has the memory (b = 4). At *half rate*
samples a device reaches half of its peak rate.

| cluster | half rate | depth | row, b = 2 | graph, b = 2 | graph, b = 4 | warm-up | in all |
|---|---|---|---|---|---|---|---|
"""


def _gains() -> Iterator[tuple[str, float]]:
    """The lines of the first table, each with the gain in all."""
    for cluster in CLUSTERS:
        for half in HALF_SAMPLES:
            for join in (False, True):
                problem = case_study(cluster=cluster, half_samples=half, join=join)
                row, same, larger = (_iteration(problem, *shape) for shape in ((2, True), (2, False), (4, False)))
                depth = evaluate_stage_graph(problem, layer_stages(problem, 4)).depth
                times = " | ".join(f"{1e3 * time:.2f}" for time in (row, same, larger))
                yield (
                    f"| {cluster} | {half} | {depth} | {times} | {row / same:.3f} | {row / larger:.3f} |",
                    row / larger,
                )


def _sizes() -> Iterator[str]:
    yield "## Each size of micro-batches"
    yield ""
    yield "Devices reach half of their rate at 0.82 samples, and the concatenation is a part of the stages (depth 5)."
    yield ""
    yield "| cluster | stages | b | most memory [MiB] | fits in 448 MiB | iteration [ms] | idle |"
    yield "|---|---|---|---|---|---|---|"
    for cluster in CLUSTERS:
        problem = case_study(cluster=cluster, half_samples=0.82)
        for in_a_row in (True, False):
            for b in SIZES:
                plan = layer_stages(problem, b, in_a_row)
                broken = {violation.rule for violation in verify_stage_graph(problem, plan)}
                assert broken <= {"memory"}, broken
                run = simulate(problem, plan)
                yield (
                    f"| {cluster} | {'row' if in_a_row else 'graph'} | {b} | {run.peak_memory_bytes / MIB:.0f} "
                    f"| {'no' if broken else 'yes'} | {1e3 * run.iteration:.2f} | {100 * run.bubble:.1f} % |"
                )
    yield ""
    yield "![One iteration with the stages in a row and 2 samples in a micro-batch](case-study-row.svg)"
    yield ""
    yield "![One iteration with the stages in a graph and 4 samples in a micro-batch](case-study-graph.svg)"


def _iteration(problem: GraphPipelineProblem, micro_batch: int, in_a_row: bool) -> float:
    return simulate(problem, layer_stages(problem, micro_batch, in_a_row)).iteration


def _picture(problem: GraphPipelineProblem, micro_batch: int, in_a_row: bool, path: Path) -> None:
    draw_plan(
        problem, layer_stages(problem, micro_batch, in_a_row), path, rules_of(problem, {"objective": "iteration"})
    )


if __name__ == "__main__":
    main()
