"""The larger inputs of `latency.py --larger`: layer graphs of convolutional networks, and transformers with more
subgraphs per device; each with the gap that is wanted of it, measured over several seeds.

All clusters are like those of the published latency inputs: 8 CPUs, and accelerators with so little memory that
together they hold `SHARE` of the network.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from recipes.placement import random_placements

import pipeplan
from pipeplan.instances.placement.plan import PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.referee.latency import evaluate_latency
from pipeplan.instances.placement.referee.verify import verify_latency

EXACT = "ip-tarnawski-latency"

SHARE = 1.6
"""Of the whole network: 1.53 to 1.72 in the published latency inputs."""

SCARCE = 0.5

BRANCHED = 1.2
"""For `inception_like`."""

CONVOLUTIONS, TRANSFORMERS = 0.05, 0.001
"""Wanted gaps."""

BEGIN, END = "<!-- larger inputs: begin -->", "<!-- larger inputs: end -->"

COLUMNS = (
    "input",
    "nodes",
    "subgraphs",
    "value",
    "bound",
    "gap",
    "target",
    "seconds",
    "processor seconds",
    "bound holds",
    "verified",
)


@dataclass(frozen=True)
class Case:
    name: str
    problem: PlacementProblem
    pieces: int
    wanted: float


@dataclass
class Row:
    """What all runs of one case came to."""

    case: Case
    values: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)
    verified: bool = True

    @property
    def gap(self) -> float:
        """The median over the seeds."""
        return statistics.median(max(0.0, v / b - 1) for v, b in zip(self.values, self.bounds, strict=True))

    @property
    def sound(self) -> bool:
        """Is no bound above any value?"""
        return max(self.bounds) <= min(self.values) * (1 + 1e-9)

    def cells(self) -> tuple[str, ...]:
        median = statistics.median
        return (
            self.case.name,
            str(len(self.case.problem.nodes)),
            str(self.case.pieces),
            f"{median(self.values):.4f}",
            f"{median(self.bounds):.4f}",
            f"{self.gap:.3%}".replace("%", " %"),
            f"{self.case.wanted:.1%}".replace("%", " %") + ("" if self.gap <= self.case.wanted else " (missed)"),
            f"{median(self.seconds):.1f}",
            f"{median(self.processor_seconds):.1f}",
            "yes" if self.sound else "NO",
            "yes" if self.verified else "NO",
        )


def measure(folder: Path, *, limit: float, threads: int, seeds: Sequence[int], only: str) -> Iterator[Row]:
    """`folder` holds the published latency inputs; those for throughput are looked for beside it."""
    for case in cases(folder):
        if only in case.name:
            row = Row(case)
            for seed in seeds:
                _run(row, pipeplan.SolveOptions(time_limit_s=limit, threads=threads, seed=seed))
            yield row


def _run(row: Row, limits: pipeplan.SolveOptions) -> None:
    """The exact method with its own start, which is by annealing."""
    problem, options = row.case.problem, {"subgraphs_per_device": row.case.pieces}
    began, processor = time.perf_counter(), time.process_time()
    result = pipeplan.solve(problem, formulation=EXACT, options=options, limits=limits)
    row.seconds.append(time.perf_counter() - began)
    row.processor_seconds.append(time.process_time() - processor)
    assert result.objective is not None, f"{row.case.name}: no plan"
    assert result.bound is not None, f"{row.case.name}: no bound"
    row.values.append(result.objective)
    row.bounds.append(result.bound)
    assert isinstance(result.plan, PlacementPlan)
    faults = verify_latency(problem, result.plan, row.case.pieces)
    row.verified = (
        row.verified and not faults and evaluate_latency(problem, result.plan).latency == result.objective
    )


def cases(folder: Path) -> Iterator[Case]:
    for name in ("inceptionv3_inference", "resnet50_inference"):
        path = folder.parent / "throughput" / "layer" / f"{name}.json"
        if path.exists():
            for share in (SHARE, SCARCE):
                yield Case(f"{name}, memory {share:g}", _tight(pipeplan.load(path), share, 6), 1, CONVOLUTIONS)
    for seed in (1, 2, 3):
        nodes = 135 + 65 * seed
        made = random_placements.series_parallel(nodes=nodes, branches=4, seed=seed)
        yield Case(f"series-parallel, seed {seed}", _tight(made, SHARE, 6), 1, CONVOLUTIONS)
    for branches, length, seed in ((4, 9, 1), (5, 4, 2)):
        made = random_placements.blocks(nodes=260, branches=branches, length=length, seed=seed)
        yield Case(f"blocks {branches} x {length}, seed {seed}", _tight(made, SHARE, 6), 1, CONVOLUTIONS)
    for seed in (1, 2, 3):
        yield Case(f"inception-like, seed {seed}", _tight(inception_like(seed), BRANCHED, 6), 1, CONVOLUTIONS)
    for name in ("inception-inference", "resnet50-inference", "densenet121-inference"):
        yield Case(name, _tight(pipeplan.load_packaged(name), SHARE, 6), 1, CONVOLUTIONS)
    for pieces in (2, 3):
        for name in ("bert24_inference", "gnmt_inference", "bert_l-3_inference"):
            path = folder / f"{name}.json"
            if path.exists():
                yield Case(name, pipeplan.load(path), pieces, TRANSFORMERS)
        for name in ("bert-base-operators", "bert-large-inference", "gpt3-6.7b-inference"):
            yield Case(name, _tight(pipeplan.load_packaged(name), SHARE, 4), pieces, TRANSFORMERS)


def inception_like(seed: int) -> PlacementProblem:
    """6 to 10 blocks of 4 to 6 branches of 2 to 4 nodes, between nodes that all paths pass; the branches of a block are
    equal, or differ by up to 5 %."""
    rng = random.Random(seed)
    nodes: list[Node] = []
    edges: list[tuple[int, int]] = []

    def add(work: float, slow: float, size: float, moved: float) -> int:
        nodes.append(Node(len(nodes), round(work, 3), round(work * slow, 3), float(round(size)), round(moved, 3)))
        return len(nodes) - 1

    last = add(rng.uniform(2, 4), 10.0, rng.uniform(5, 10), rng.uniform(1, 2))
    for _ in range(rng.randint(6, 10)):
        branches, length = rng.randint(4, 6), rng.randint(2, 4)
        ranges = (2, 10), (8, 12), (5, 50), (0.5, 2)
        parts = [[rng.uniform(*ends) for ends in ranges] for _ in range(length)]
        noise = rng.choice((0.0, 0.05))
        ends = []
        for _ in range(branches):
            end = last
            for part in parts:
                v = add(*(amount * (1 + rng.uniform(-noise, noise)) for amount in part))
                edges.append((end, v))
                end = v
            ends.append(end)
        last = add(rng.uniform(1, 2), 10.0, rng.uniform(1, 5), rng.uniform(0.5, 2))
        edges += [(end, last) for end in ends]
    nodes[-1] = replace(nodes[-1], transfer_time=0.0)
    return PlacementProblem(tuple(nodes), tuple(edges), 6, 8, None, f"inception-like-{seed}", "ms")


def _tight(problem: PlacementProblem, share: float, accelerators: int) -> PlacementProblem:
    whole = sum(node.size_bytes for node in problem.nodes)
    return problem.replace(accelerators=accelerators, cpus=8, memory_bytes=whole * share / accelerators)


def write(page: Path, row: Row, *, limit: float, threads: int, seeds: Sequence[int]) -> None:
    """Between the page's two marks: the row replaces the one of its case, so a run may be interrupted or go on."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    measured, _, after = rest.partition(END)
    cells = [line.strip("| ").split(" | ") for line in measured.splitlines() if line.startswith("| ")]
    rows = {(old[0], old[2]): old for old in cells if old[0] != COLUMNS[0]}
    new = row.cells()
    rows[new[0], new[2]] = list(new)
    lines = [
        f"{threads} threads, at most {limit:g} s for each run, medians over {len(seeds)} seeds. Made by",
        "`python benchmarks/latency.py --workloads DIR --larger benchmarks/results/latency.md"
        f" --limit {limit:g} --seeds {' '.join(map(str, seeds))}`.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
        *("| " + " | ".join(old) + " |" for old in rows.values()),
        "",
        END,
    ]
    page.write_text("\n".join([before + BEGIN, "", *lines]) + after, encoding="utf-8")
