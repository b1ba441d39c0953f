"""GraphPipe's case study, simulated: the same eight stages in a row and as a graph, with and without the join.

    python benchmarks/case_study.py [--output docs]

Writes case-study.md and its two pictures. All constants are those of `pipeplan.instances.graph_pipeline.models` and
the two below, fixed before anything was run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from pipeplan.instances.graph_pipeline.layer_stages import layer_stages
from pipeplan.instances.graph_pipeline.models import case_study
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.instances.graph_pipeline.referee.evaluate import evaluate_stage_graph, verify_stage_graph
from pipeplan.instances.simulate import simulate
from pipeplan.planners.referee import rules_of
from pipeplan.show.pictures.plans import draw_plan

HALF_SAMPLES = (0.44, 0.6, 0.82)
"""From the published gain of larger micro-batches alone, our default, from the published total gain."""

CLUSTERS = ("summit-v100-ideal", "summit-v100")
SIZES = (1, 2, 4, 8)
MIB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs"))
    folder = parser.parse_args().output
    text = "\n".join([*_head(), *_gains(), *_sizes()])
    folder.joinpath("case-study.md").write_text(text + "\n", "utf-8")
    problem = case_study(half_samples=0.82)
    _picture(problem, 2, True, folder / "case-study-row.svg")
    _picture(problem, 4, False, folder / "case-study-graph.svg")


def _head() -> Iterator[str]:
    yield "# The case study of GraphPipe, simulated"
    yield ""
    yield "Made by `python benchmarks/case_study.py`. Two branches of four transformer layers on 8 devices, 64 samples,"
    yield "one layer for each stage and device; nothing is measured: times are those of"
    yield "`pipeplan.instances.graph_pipeline.models`, iterations those of the event simulator."
    yield ""
    yield "A row of eight stages has the memory for micro-batches of 2 samples, the graph for 4. The paper says depth"
    yield "4; the edge into the concatenation makes it 5, unless that runs outside of the stages. Both are shown."
    yield ""


def _gains() -> Iterator[str]:
    yield "## Gain of the graph over the row (published: 1.10 by the warm-up, 1.20 in all); times in ms"
    yield ""
    yield "| network | half rate at | depth | row, b = 2 | graph, b = 2 | graph, b = 4 | warm-up | in all |"
    yield "|---|---|---|---|---|---|---|---|"
    for cluster in CLUSTERS:
        for half in HALF_SAMPLES:
            for join in (False, True):
                problem = case_study(cluster=cluster, half_samples=half, join=join)
                row, same, larger = (_iteration(problem, *shape) for shape in ((2, True), (2, False), (4, False)))
                depth = evaluate_stage_graph(problem, layer_stages(problem, 4)).depth
                times = " | ".join(f"{1e3 * time:.2f}" for time in (row, same, larger))
                yield f"| {cluster} | {half} | {depth} | {times} | {row / same:.3f} | {row / larger:.3f} |"
    yield ""


def _sizes() -> Iterator[str]:
    yield "## Every micro-batch (half rate at 0.82 samples, with the join)"
    yield ""
    yield "| network | stages | b | most memory [MiB] | fits in 448 MiB | iteration [ms] | idle |"
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
    yield "![the row](case-study-row.svg)"
    yield ""
    yield "![the graph](case-study-graph.svg)"


def _iteration(problem: GraphPipelineProblem, micro_batch: int, in_a_row: bool) -> float:
    return simulate(problem, layer_stages(problem, micro_batch, in_a_row)).iteration


def _picture(problem: GraphPipelineProblem, micro_batch: int, in_a_row: bool, path: Path) -> None:
    draw_plan(
        problem, layer_stages(problem, micro_batch, in_a_row), path, rules_of(problem, {"objective": "iteration"})
    )


if __name__ == "__main__":
    main()
