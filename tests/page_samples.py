"""Pages of every kind, as text by name, and small plans for whoever shows one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from pipeplan import ChainProblem, PatternPlan, Result, TrainingProblem, load_packaged, solve
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.stored_results import result_from_json
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.model import Attention, Mlp, Model
from pipeplan.show.comparison import comparison_page
from pipeplan.show.report import result_page
from pipeplan.studies.compare.comparison import compare_suite, load_comparison
from pipeplan.studies.compare.suite import Instance, Suite, competitor
from pipeplan.studies.configure.answer import Answer, Asked
from pipeplan.studies.configure.judge import judge
from pipeplan.studies.configure.result import result_of
from pipeplan.studies.configure.search import search_configurations

PLANNED = {
    "tiny-chain": "dp", "tiny-chain latency": "latency-greedy", "cpu-offload latency": "latency-greedy",
    "resnet50-training": "greedy", "bert-large-training": "greedy", "golden-4": "exact-beaumont",
    "resnet34-chain": "contiguous", "tiny-stages": "dp-piper", "tiny-levels": "dp-piper",
    "resnet50-stages": "equi", "tiny-graph": "graphpipe", "case-study": "graphpipe",
    "zero-bubble-4x12": "list-schedule", "nn-shape-4": "list-schedule", "tiny-chain without a plan": "one-device",
}  # fmt: skip
"""Results by the packaged instance and what tells them apart, with their planners."""
# Of each kind, and of levels and latency, an instance with a planner that takes a moment.
QUICK = {
    "placement": ("bert-large-training", "greedy"), "chain": ("golden-4", "contiguous"),
    "staging": ("tiny-stages", None), "graph-pipeline": ("tiny-graph", "graphpipe"),
    "schedule": ("zero-bubble-4x12", "1f1b"), "training": ("tiny-training", "guide"),
    "levels": ("tiny-levels", "dp-piper"), "latency": ("tiny-chain", "latency-greedy"),
}  # fmt: skip
CHAIN = ChainProblem(
    (1, 1), (1, 1), (1, 1, 1), (1, 1), gpus=2, memory_bytes=20, transfer_times=(1, 0, 1), name="two", time_unit="ms"
)
# F1 0-1, sent 1-2, F2 2-3, B2 3-4, sent 4-5, B1 5-6.
PATTERN = PatternPlan(4, (0, 1), ((0, 2, 3, 5),), ({1: 1, 3: 4},))
FORK = PlacementProblem(
    tuple(Node(name, 1.0, 2.0, 0.0, 0.5 * (name in "ax")) for name in "axybz"), (("a", "b"), ("x", "b")), 1, 1,
    name="fork $x$",
)  # fmt: skip
COMPARISON = "comparison"
LONG_NAMES = "long names"
TRAINING = "configurations of a training"
EVERY = (*PLANNED, LONG_NAMES, COMPARISON, TRAINING)


def page_text(name: str, folder: Path) -> str:
    """`folder` is for what a comparison writes."""
    if name in PLANNED:
        problem = load_packaged(name.partition(" ")[0])
        return result_page(problem, solve(problem, planner=PLANNED[name]))
    others = {LONG_NAMES: _long_names, TRAINING: lambda: result_page(small_training(), configured(JUDGED))}
    return _comparison(folder) if name == COMPARISON else others[name]()


JUDGED = ("pipeline=2", "tensor=4 recompute=full", "data=4 micro-batch=4 zero=0")
"""The last one does not fit."""


def small_training(memory_bytes: float = 4 * 2**30) -> TrainingProblem:
    """Of which the search knows everything in a moment."""
    model = Model("tiny", 1_024, 8, 32_000, Attention(8, 128, 2), Mlp(4_096))
    return problem_of(model, "4xrtx-3090", batch=16, sequence=1_024, memory_bytes=memory_bytes)


def configured(judged: Iterable[str] = (), memory_bytes: float = 4 * 2**30) -> Result:
    """What `plan configure -o` writes, read again."""
    problem, asked = small_training(memory_bytes), Asked(error=0.08, memory_error=0.03)
    report = search_configurations(problem, asked, None, lambda progress: None)
    own = tuple(judge(problem, text, asked.memory_error) for text in judged)
    return result_from_json(result_of(Answer(problem, asked, own, report), 1.0).to_json())


def _comparison(folder: Path) -> str:
    methods = tuple(map(competitor, ("greedy", "dp", "local-search")))
    compare_suite(Suite("s", (Instance("offload", "cpu-offload"),), methods), folder)
    return comparison_page(load_comparison(folder))


def _long_names() -> str:
    """Names without any place to break, as of machines, and memory of many digits."""
    word = "AnOverlyDescriptiveModuleNameWithoutAnyBreaks"
    nodes = tuple(
        Node(
            id=f"{word}{i}" * 3,
            accelerator_time=1.0 + i / 7,
            cpu_time=9.0,
            size_bytes=1e9 / 7,
            transfer_time=0.123 * (i < 11),
        )
        for i in range(12)
    )
    edges = tuple((a.id, b.id) for a, b in pairwise(nodes))
    problem = PlacementProblem(name=word * 3, nodes=nodes, edges=edges, accelerators=4, cpus=0, memory_bytes=1e9)
    return result_page(problem, solve(problem, planner="dp"))
