"""The stages that `ablation.py` weighs, and the rows on which it does: data alone.

What is off is said by addresses (`module:name` or `module:Class.name`, below the package pipeplan), each with a
function from what stands there to what stands there instead. Machine code is made from the source of its module, so
that nothing inside a compiled loop can be exchanged here.
"""

from __future__ import annotations

import math
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import sleep
from typing import Any

import pipeplan
from pipeplan.instances.chain.generators import resnet_like, tightness
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Link, Operator, TimeCurve
from pipeplan.instances.physics.efficiencies import USUAL_MEMORY_ERROR
from pipeplan.instances.physics.schedules import LOOP, V_SHAPE
from pipeplan.instances.schedule.generators import random_pipeline, random_schedule, shape
from pipeplan.instances.schedule.pipelines import divided_pipeline, equal_stages
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.staging.problem import DeviceType, StagingLevel
from pipeplan.instances.training.build import problem_of
from pipeplan.planners.chain.baselines import memory_levels

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = Path(os.environ.get("PIPEPLAN_WORKLOADS", ROOT.parent / "shared" / "workloads"))


@dataclass(frozen=True)
class Method:
    name: str
    title: str
    words: str


@dataclass(frozen=True, eq=False)
class Row:
    """A problem, and how it is planned."""

    method: str
    name: str
    words: str
    problem: Callable[[], Any]
    how: Mapping[str, Any]
    limit_s: float = 10.0
    threads: int = 1
    further: bool = False
    """Planned only without stages that no other row misses."""
    counts: Mapping[str, str] = field(default_factory=dict)
    """Functions whose calls are counted as work, by the name of the counter."""
    named: bool = False
    """Planned only without stages that name it."""
    unit: str | None = None
    path: Path | None = None
    """Of a published input."""

    def is_there(self) -> bool:
        return self.path is None or self.path.exists()


@dataclass(frozen=True, eq=False)
class Stage:
    method: str
    name: str
    off: str
    """What stands in its place, in words."""
    swaps: Mapping[str, Callable[[Any], Any]]
    instead: Mapping[str, Any] = field(default_factory=dict)
    """Another way to plan the row, for stages that are methods of their own."""
    rows: Sequence[str] = ()
    """Those that it is made for; empty: all of its method."""
    kept: str = ""
    """Why it stays though no row misses it."""


@dataclass(frozen=True)
class Gone:
    """A stage that was removed because no row missed it."""

    method: str
    name: str
    """Its name in what is kept of the runs."""
    what: str
    lines: int


# ---- what stands in the place of a stage -----------------------------------------------------------------


def always(value: Any) -> Callable[[Any], Any]:
    """A function that returns this and does nothing."""
    return lambda original: lambda *arguments, **options: value


def nothing(original: Any) -> Any:
    """A function that yields nothing."""
    return lambda *arguments, **options: iter(())


def is_now(value: Any) -> Callable[[Any], Any]:
    """A constant."""
    return lambda original: value


def first_argument(original: Any) -> Any:
    """A function that hands back what it is given."""
    return lambda given, *arguments, **options: given


def lacking(*left_out: str) -> Callable[[Any], Any]:
    """A constant tuple without members of these names."""
    return lambda original: tuple(each for each in original if each.name not in left_out)


def starts_without(*left_out: str) -> dict[str, Callable[[Any], Any]]:
    """Starts from all planners but these."""

    def fewer(original: Any) -> Any:
        return lambda *arguments: [entry for entry in original(*arguments) if entry.name not in left_out]

    return {"planners.run.warm_start:quick_planners": fewer}


def portfolio_without(unwanted: Callable[[Any], bool]) -> dict[str, Callable[[Any], Any]]:
    """Stages of the portfolio of throughput."""

    def shorter(original: Any) -> Any:
        def portfolio(*arguments: Any, **options: Any) -> Any:
            return tuple(stage for stage in original(*arguments, **options) if not unwanted(stage))

        return portfolio

    return {"formulations.tarnawski.formulation:TarnawskiThroughput.portfolio": shorter}


def _waits(original: Any) -> Any:
    """For workers that would ask in vain."""
    return lambda *arguments: sleep(0.05)


def _every_state(original: Any) -> Any:
    import numpy as np

    def uses(lattice: Any, limit: float, way_count: Any, absorbed: Any) -> tuple[Any, Any]:
        size = (lattice.count, len(way_count))
        return np.zeros(size, np.int32), np.full(size, lattice.model.kinds[0].count, np.int32)

    return uses


def _known_alone(original: Any) -> Any:
    return lambda bound, known: iter((known,))


def _on_one_gpu(original: Any) -> Any:
    return lambda self, allocation, period, gpus: original(self, allocation, period, gpus) if gpus == 1 else []


def _on_several_gpus(original: Any) -> Any:
    return lambda self, allocation, period, gpus: [] if gpus == 1 else original(self, allocation, period, gpus)


def _kinds_of_runs(*kinds: int) -> Callable[[Any], Any]:
    """Cycles of large neighbourhoods of these kinds alone."""

    def fewer(original: Any) -> Any:
        def run(self: Any, cycle: int, *arguments: Any) -> Any:
            round_, place = divmod(cycle, len(kinds))
            return original(self, 3 * round_ + kinds[place], *arguments)

        return run

    return fewer


def _no_coarser(original: Any) -> Any:
    from pipeplan.planners.placement.heuristics.lns import Level

    return lambda groups, *arguments: [Level(groups, None)]


def _the_listed_one(original: Any) -> Any:
    return lambda groups, tick: sorted(range(groups.count), key=lambda g: min(groups.members[g]))


def _first_alone(original: Any) -> Any:
    def first(*arguments: Any) -> Iterator[Any]:
        yield next(original(*arguments))

    return first


def _unlike_all_others(original: Any) -> Any:
    return lambda *arguments: object()


def _simple_bound(original: Any) -> Any:
    return lambda self, steady, enough: self.simple(steady)


def _its_row(original: Any) -> Any:
    return lambda problem, row: row


def _counted(original: Any) -> Any:
    return lambda self: self._counted()


def _cutoff_as_it_is(original: Any) -> Any:
    return lambda self, problem, options, bound, cutoff, out_of_time: cutoff


def _work_alone(original: Any) -> Any:
    from pipeplan.formulations.piper.formulation import work_bound

    return work_bound


def _second_argument(original: Any) -> Any:
    return lambda first, second: second


def _least_given(original: Any) -> Any:
    return lambda problem, least=0: least


def _nothing_together(original: Any) -> Any:
    from pipeplan.formulations.zero_bubble.standstills import Standstill

    return lambda problem: Standstill(problem, problem, ())


def _first_answer(original: Any) -> Any:
    def solve(*arguments: Any, most_nodes: int, **options: Any) -> Any:
        return original(*arguments, most_nodes=min(most_nodes, 0), **options)

    return solve


def _straight_to_layouts(original: Any) -> Any:
    from pipeplan.planners.training.search import MEMORY

    def with_memory(self: Any, word: Any, bound: float) -> None:
        self.entries[word.gamma].fits = True
        self._push(bound, MEMORY, word)

    return with_memory


def _every_front(original: Any) -> Any:
    return lambda fronts, new: fronts.append(new)


# ---- rows ------------------------------------------------------------------------------------------------


def _packaged(name: str, **changes: Any) -> Callable[[], Any]:
    def load() -> Any:
        problem = pipeplan.load_packaged(name)
        return problem.replace(**changes) if changes else problem

    return load


def _chain(layers: int, gpus: int, seed: int) -> Callable[[], Any]:
    def make() -> Any:
        problem = resnet_like(layers, gpus, seed)
        return tightness(problem, *memory_levels(problem), 0.3)

    return make


def _held_buffers() -> Any:
    return _chain(8, 4, 1)().replace(exclusive_buffers=True)


def _tight(name: str, share: float, accelerators: int) -> Callable[[], Any]:
    """On accelerators that hold this multiple of the network together, with 8 CPUs."""

    def make() -> Any:
        problem = pipeplan.load_packaged(name)
        whole = sum(node.size_bytes for node in problem.nodes)
        return problem.replace(accelerators=accelerators, cpus=8, memory_bytes=whole * share / accelerators)

    return make


def _bert_of_piper() -> Any:
    cluster = {"devices": 64, "memory_bytes": 8 * 2.0**30, "batch": 1920, "bandwidth": 26843545600.0}
    return pipeplan.load(WORKLOADS / "piper" / "bert32a100.json", **cluster)


def _published(path: str) -> Callable[[], Any]:
    return lambda: pipeplan.load(WORKLOADS / path)


def _graph(seed: int, operators: int, devices: int, **more: Any) -> Callable[[], Any]:
    """By the generator of the tests."""

    def make() -> Any:
        sys.path.append(str(ROOT / "tests"))
        from problems.graph_pipelines import random_graph_pipeline

        rng, found = random.Random(seed), None
        while found is None or len(found.operators) < operators:
            found = random_graph_pipeline(rng, most_operators=operators, most_devices=devices, **more)
        return found.replace(devices=devices)

    return make


def _random_graph(seed: int) -> Callable[[], Any]:
    """The same with a share of memory that is drawn."""

    def make() -> Any:
        sys.path.append(str(ROOT / "tests"))
        from problems.graph_pipelines import random_graph_pipeline

        rng = random.Random(seed)
        tight = rng.choice((None, 0.2, 0.3, 0.4))
        return random_graph_pipeline(rng, most_operators=10, most_devices=5, mini_batch=16, tight=tight)

    return make


def _row_of(operators: int, devices: int, batch: int, bandwidth: float) -> Callable[[], Any]:
    """Operators in a row that take about as long, with a slow link."""

    def make() -> Any:
        rng = random.Random(operators * devices + batch)

        def forward() -> TimeCurve:
            return TimeCurve((1.0, 8.0), (1.0 + 0.5 * rng.random(), 8.0 + 0.5 * rng.random()))

        names, backward = [f"o{i}" for i in range(operators)], TimeCurve((1.0, 8.0), (2.0, 16.0))
        made = tuple(Operator(name, forward(), backward, 10.0, 5.0, 1.0) for name in names)
        link = Link(bandwidth, 0.0)
        return GraphPipelineProblem(made, tuple(pairwise(names)), mini_batch=batch, devices=devices, link=link)

    return make


def _leveled(name: str, sizes: tuple[int, ...]) -> Callable[[], Any]:
    def make() -> Any:
        levels = tuple(StagingLevel(*pair) for pair in zip(sizes, (300e9, 25e9, 12.5e9), strict=False))
        devices = math.prod(sizes)
        return pipeplan.load_packaged(name).replace(devices=devices, levels=levels, micro_batches=devices)

    return make


def _typed(name: str, devices: int) -> Callable[[], Any]:
    def make() -> Any:
        problem, half = pipeplan.load_packaged(name), devices // 2
        memory = problem.memory_bytes
        kinds = (DeviceType("fast", half, 2.0, memory), DeviceType("large", devices - half, 1.0, 2 * memory))
        return problem.replace(devices=devices, memory_bytes=None, device_types=kinds)

    return make


CHAINS, PLACEMENTS, DP, SETS, LNS, LATENCY = "chains", "placements", "dp", "device-sets", "lns", "latency"
TRAININGS = "trainings"
GRAPHS, SHORT, STAGING, MIP, SCHEDULES, PERIODS, LISTS = (
    "graphpipe",
    "shortest-iteration",
    "dp-piper",
    "mip-piper",
    "schedules",
    "periods",
    "lists",
)
FREE = {"non_contiguous": True}
SPAN = {"objective": "span"}

METHODS = (
    Method(CHAINS, "Chains: exact-beaumont", "Periodic patterns of chains within a memory limit."),
    Method(
        PLACEMENTS,
        "Placements: ip-tarnawski",
        "Throughput, mostly without contiguity, by a portfolio of solvers and searches.",
    ),
    Method(DP, "Placements: dp", "Contiguous placements by the dynamic program over ideals."),
    Method(SETS, "Placements: device-sets", "Bounds and plans from what one accelerator can hold."),
    Method(LNS, "Placements: lns", "Annealing over groups, from coarse to fine."),
    Method(LATENCY, "Latency: ip-tarnawski-latency", "The time of one sample, with a start by annealing."),
    Method(GRAPHS, "Graph pipelines: graphpipe", "Stage graphs, their iterations, and a bound for all plans."),
    Method(SHORT, "Graph pipelines: shortest-iteration", "The program for short iterations, with its bound."),
    Method(STAGING, "Stages: dp-piper", "The dynamic program over downsets, also on levels and with flushes."),
    Method(MIP, "Stages: mip-piper", "The same question as a mixed-integer program."),
    Method(SCHEDULES, "Schedules: exact-schedule", "Schedules of given micro-batches, mostly for the least span."),
    Method(PERIODS, "Schedules: periods", "Schedules of the steady state by cp-periodic."),
    Method(TRAININGS, "Trainings: exact-configuration", "Degrees, layouts and recomputation of a training run."),
    Method(LISTS, "Schedules: list-schedule", "Quick schedules, of the steady state and of given micro-batches."),
)

_IP, _SETS, _LNS = ({"formulation": "ip-tarnawski"}, {"planner": "device-sets"}, {"planner": "lns"})
_LATE = {"formulation": "ip-tarnawski-latency"}
_GNMT, _BERT_3 = (f"tarnawski/latency/{name}_inference.json" for name in ("gnmt", "bert_l-3"))
_PIPE, _SHORTEST = {"planner": "graphpipe"}, {"planner": "shortest-iteration"}
_PIPER, _MIP, _SCHEDULE = {"planner": "dp-piper"}, {"formulation": "mip-piper"}, {"planner": "exact-schedule"}


def _chain_row(layers: int, gpus: int, seed: int, **more: Any) -> Row:
    name = f"chain {layers}x{gpus}-{seed}"
    words = f"random, {layers} layers on {gpus} GPUs, seed {seed}"
    return Row(CHAINS, name, words, _chain(layers, gpus, seed), {"planner": "exact-beaumont"}, **more)


def _free_row(method: str, name: str, how: Mapping[str, Any], words: str = "packaged", **more: Any) -> Row:
    return Row(method, f"{method}: {name}", words, _packaged(name), {**how, "options": FREE}, unit="ms", **more)


def _blocks_row(method: str, seed: int, how: Mapping[str, Any], **more: Any) -> Row:
    """A graph of `throughput.py --family`: equal transformer blocks, operator by operator, with dear transfers."""

    def make() -> Any:
        from throughput import member

        return member(seed)

    title, words = f"{method}: blocks {seed}", f"equal transformer blocks with dear transfers, seed {seed}"
    return Row(method, title, words, make, {**how, "options": FREE}, further=True, **more)


def _packaged_row(method: str, name: str, how: Mapping[str, Any], tag: str = "", **more: Any) -> Row:
    words = "packaged" if not tag else f"packaged, {tag}"
    title = f"{method}: {name}" + (f", {tag}" if tag else "")
    return Row(method, title, words, _packaged(name), how, **more)


def _published_row(method: str, path: str, how: Mapping[str, Any], tag: str = "", **more: Any) -> Row:
    words = "published" if not tag else f"published, {tag}"
    title = f"{method}: {Path(path).stem}" + (f", {tag}" if tag else "")
    return Row(method, title, words, _published(path), how, path=WORKLOADS / path, **more)


def _there_and_back(
    devices: int, forward: float, inputs: float, weights: float, batches: int, memory: float, lag: float
) -> Callable[[], Any]:
    stages = equal_stages(2 * devices, forward, inputs, weights)
    return lambda: divided_pipeline(stages, batches, memory, lag, "v", virtual=2, layout=V_SHAPE)


def _equal(
    stages: int, batches: int, inputs: float, weights: float | None, memory: float, lag: float, forward: float = 5
) -> Callable[[], Any]:
    return lambda: divided_pipeline(equal_stages(stages, forward, inputs, weights), batches, memory, lag, "equal")


def _rule_row(name: str, words: str, problem: Callable[[], Any]) -> Row:
    how = {"planner": "list-schedule", "options": SPAN}
    return Row(SCHEDULES, f"lists: {name}", f"{words}, by list-schedule", problem, how, 60.0, named=True)


def _list_row(name: str, words: str, problem: Callable[[], Any], **more: Any) -> Row:
    return Row(LISTS, f"list: {name}", words, problem, {"planner": "list-schedule", **more})


def _training_row(model: str, devices: str, sequence: int, batch: int, **more: Any) -> Row:
    how = {"planner": "exact-configuration", "options": {"memory_error": USUAL_MEMORY_ERROR}}
    words = f"{batch:,} sequences of {sequence:,} on {devices}"

    def problem() -> Any:
        return problem_of(model, devices, batch=batch, sequence=sequence)

    return Row(TRAININGS, f"training: {model}", words, problem, how, **more)


def _in_a_ring() -> Any:
    problem = shape("v", 16, 32)
    first, last = (problem.blocks[problem.order[place]].id for place in (0, -1))
    return problem.replace(edges=(*problem.edges, BlockEdge(last, first, 0, 8)))


def _two_towers() -> Any:
    """A short branch that takes memory where it joins a long one, on devices of its own."""
    names, devices = range(6), [ScheduleDevice("join", 1), *(ScheduleDevice(f"d{i}", 100) for i in range(6))]
    short = [
        Block("short", "F", ("join",), 1, memory={"join": 1}),
        Block("its", "B", ("join",), 1, memory={"join": -1}),
    ]
    long = [Block(f"F{i}", "F", (f"d{i}",), 2, memory={f"d{i}": 1}) for i in names]
    back = [Block(f"B{i}", "B", (f"d{i}",), 2, memory={f"d{i}": -1}) for i in reversed(names)]
    row = [*long, Block("join", "F", ("join",), 1), *back]
    edges = [BlockEdge(u.id, v.id) for u, v in pairwise(row)]
    edges += [BlockEdge("short", "join"), BlockEdge("join", "its")]
    return ScheduleProblem(tuple(devices), (*short, *row), tuple(edges), None, name="two-towers")


def _random_steady(seed: int) -> Callable[[], Any]:
    return lambda: random_schedule(3, 14, None, seed)


def _schedule_row(
    name: str, words: str, problem: Callable[[], Any], options: Mapping[str, Any], **more: Any
) -> Row:
    return Row(
        SCHEDULES,
        f"span: {name}",
        words,
        problem,
        {**_SCHEDULE, "options": options},
        **{"threads": 2, "limit_s": 30.0, **more},
    )


def _shape_row(name: str, devices: int, memory: int, **more: Any) -> Row:
    words = f"shape {name.upper()} on {devices} devices, memory {memory}"
    title = f"period: {name}-{devices}-{memory}"
    return Row(PERIODS, title, words, lambda: shape(name, devices, memory), _SCHEDULE, threads=2, **more)


_SMALL = equal_stages(4, 5, 6, 4)
_OPERATORS = "tarnawski/throughput/operator"

ROWS = (
    _chain_row(8, 4, 1, limit_s=30.0),
    _chain_row(12, 4, 1, limit_s=30.0),
    _chain_row(18, 4, 1, limit_s=20.0, further=True),
    _chain_row(24, 4, 1, limit_s=60.0, named=True),
    _chain_row(24, 8, 1, limit_s=60.0, named=True),
    Row(CHAINS, "resnet18-training-chain", "packaged", _packaged("resnet18-training-chain"),
        {"planner": "exact-beaumont"}, 20.0, named=True, unit="us"),
    _chain_row(10, 4, 1, limit_s=40.0, further=True),
    Row(CHAINS, "lemma-2", "packaged, no run of layers fits", _packaged("lemma-2"), {"planner": "exact-beaumont"},
        named=True),
    Row(CHAINS, "chain 8x4-1, buffers", "random, 8 layers on 4 GPUs, seed 1, exclusive buffers", _held_buffers,
        {"planner": "exact-beaumont"}, 30.0, named=True),
    _free_row(PLACEMENTS, "vgg16-training", _IP, threads=2, limit_s=30.0),
    _free_row(PLACEMENTS, "cpu-offload", _IP, threads=2, limit_s=30.0),
    _free_row(PLACEMENTS, "gnmt-training", _IP, threads=2, limit_s=10.0),
    _free_row(PLACEMENTS, "memory-tight", _IP, threads=2, limit_s=20.0, further=True),
    _free_row(PLACEMENTS, "resnet50-inference", _IP, threads=2, limit_s=20.0, further=True),
    *(_free_row(PLACEMENTS, name, _IP, threads=2, limit_s=20.0, further=True)
        for name in ("inception-inference", "densenet121-inference", "gpt2-xl-training", "bert-base-operators")),
    _packaged_row(PLACEMENTS, "inception-inference", _IP, "contiguous", threads=2, limit_s=60.0, named=True, unit="ms"),
    _published_row(PLACEMENTS, f"{_OPERATORS}/bert_l-3_inference.json", _IP, "contiguous", threads=2, named=True),
    _published_row(PLACEMENTS, f"{_OPERATORS}/bert_l-6_inference.json", {**_IP, "options": FREE}, threads=2,
        limit_s=30.0, named=True),
    _published_row(PLACEMENTS, f"{_OPERATORS}/resnet50_inference.json", {**_IP, "options": FREE}, threads=2,
        limit_s=30.0, named=True),
    _packaged_row(DP, "inception-inference", {"planner": "dp"}, unit="ms", limit_s=60.0),
    _packaged_row(DP, "resnet50-training", {"planner": "dp"}, unit="ms"),
    _packaged_row(DP, "gnmt-training", {"planner": "dp"}, unit="ms", further=True),
    _packaged_row(DP, "cpu-offload", {"planner": "dp"}, unit="ms", further=True),
    _free_row(SETS, "resnet50-inference", _SETS, limit_s=6.0),
    _free_row(SETS, "gnmt-training", _SETS, limit_s=6.0),
    _free_row(SETS, "vgg16-training", _SETS, further=True),
    _free_row(SETS, "inception-inference", _SETS, further=True),
    *(_blocks_row(SETS, seed, _SETS, limit_s=20.0) for seed in (2, 5, 8)),
    _free_row(LNS, "resnet50-inference", _LNS, limit_s=4.0),
    _free_row(LNS, "densenet121-inference", _LNS, limit_s=4.0),
    _free_row(LNS, "inception-inference", _LNS, limit_s=4.0, further=True),
    _free_row(LNS, "gpt2-xl-training", _LNS, limit_s=4.0, further=True),
    *(_blocks_row(LNS, seed, _LNS, limit_s=8.0) for seed in (2, 5, 8)),
    _packaged_row(LATENCY, "cpu-offload", _LATE, threads=2, unit="ms", limit_s=40.0),
    Row(LATENCY, "latency: inception-inference, tight", "packaged, on six accelerators that hold 1.6 networks",
        _tight("inception-inference", 1.6, 6), _LATE, threads=2, unit="ms"),
    Row(LATENCY, "latency: bert-base-operators, two pieces", "packaged, on four accelerators, two pieces each",
        _tight("bert-base-operators", 1.6, 4), {**_LATE, "options": {"subgraphs_per_device": 2}}, threads=2, unit="ms"),
    Row(LATENCY, "latency: resnet50-inference, tight", "packaged, on six accelerators that hold 1.6 networks",
        _tight("resnet50-inference", 1.6, 6), _LATE, threads=2, unit="ms", named=True),
    Row(LATENCY, "latency: densenet121-inference, tight", "packaged, on six accelerators that hold 1.6 networks",
        _tight("densenet121-inference", 1.6, 6), _LATE, threads=2, unit="ms", named=True),
    _published_row(LATENCY, _BERT_3, _LATE, threads=2, further=True),
    _published_row(LATENCY, _GNMT, _LATE, threads=2, further=True),
    Row(LATENCY, "latency: gnmt_inference, two pieces", "published, two pieces on each accelerator",
        _published(_GNMT), {**_LATE, "options": {"subgraphs_per_device": 2}}, 60.0, threads=2, further=True,
        path=WORKLOADS / _GNMT),
    Row(LATENCY, "latency: gnmt_inference, highs", "published, by HiGHS",
        _published(_GNMT), {**_LATE, "solver": "highs"}, 60.0, threads=2, named=True, path=WORKLOADS / _GNMT),
    Row(LATENCY, "latency: bert_l-3_inference, highs", "published, by HiGHS", _published(_BERT_3),
        {**_LATE, "solver": "highs"}, 90.0, threads=2, named=True, path=WORKLOADS / _BERT_3),
    _packaged_row(LATENCY, "densenet121-inference", _LATE, threads=2, unit="ms", limit_s=20.0, further=True),
    _packaged_row(LATENCY, "resnet50-inference", _LATE, threads=2, unit="ms", limit_s=20.0, further=True),
    _packaged_row(GRAPHS, "case-study", _PIPE, unit="s"),
    _packaged_row(GRAPHS, "dlrm-8", {**_PIPE, "options": {"samples_held": "more"}}, "more held", unit="s"),
    _packaged_row(GRAPHS, "case-study", {**_PIPE, "options": {"mixed_micro_batches": True, "k": 2}}, "mixed",
        unit="s", limit_s=20.0),
    Row(GRAPHS, "graphpipe: random 14", "random, 14 operators with little memory, seed 3",
        _graph(3, 14, 6, tight=0.3), {**_PIPE, "options": {"samples_held": "more"}}),
    _packaged_row(GRAPHS, "mmt-8", {**_PIPE, "options": {"samples_held": "more"}}, "more held", unit="s", further=True),
    _packaged_row(GRAPHS, "candle-uno-8", _PIPE, unit="s", further=True),
    Row(GRAPHS, "graphpipe: random 14 without limit", "random, 14 operators, seed 8", _graph(8, 14, 6), _PIPE,
        further=True),
    _packaged_row(GRAPHS, "mmt-8", {**_PIPE, "options": {"objective": "time-per-sample"}}, "per sample", unit="s",
        counts={"probes": "planners.graph_pipeline.search:Search._possible"}, further=True),
    *(Row(GRAPHS, f"graphpipe: random {seed}, mixed", f"random, up to 10 operators, several sizes, seed {seed}",
        _random_graph(seed), {**_PIPE, "options": {"mixed_micro_batches": True}}, further=True) for seed in (0, 5)),
    Row(GRAPHS, "graphpipe: random 0, in a tree", "random, up to 10 operators, joins in a tree, more held, seed 0",
        _random_graph(0), {**_PIPE, "options": {"join": "tree", "samples_held": "more"}}, further=True),
    Row(GRAPHS, "graphpipe: row of 8, mixed", "8 operators in a row on 6 devices, slow link, several sizes",
        _row_of(8, 6, 8, 2.0), {**_PIPE, "options": {"mixed_micro_batches": True}}, further=True),
    Row(GRAPHS, "graphpipe: row of 11, in a tree", "11 operators in a row on 4 devices, slow link, more held",
        _row_of(11, 4, 16, 2.0), {**_PIPE, "options": {"join": "tree", "samples_held": "more"}}, further=True),
    Row(SHORT, "shortest-iteration: row of 11", "11 operators in a row on 6 devices, slow link",
        _row_of(11, 6, 16, 2.0), _SHORTEST, further=True),
    Row(GRAPHS, "graphpipe: random 12, mixed", "random, 12 operators with little memory, several sizes, seed 5",
        _graph(5, 12, 6, tight=0.4), {**_PIPE, "options": {"mixed_micro_batches": True, "k": 2}}, further=True),
    _packaged_row(SHORT, "case-study", _SHORTEST, unit="s"),
    _packaged_row(SHORT, "dlrm-8", _SHORTEST, unit="s"),
    _packaged_row(SHORT, "mmt-8", _SHORTEST, unit="s", further=True),
    Row(SHORT, "shortest-iteration: random 12", "random, 12 operators with little memory, seed 3",
        _graph(3, 12, 6, tight=0.3), _SHORTEST, further=True),
    _packaged_row(STAGING, "bert-large-stages", _PIPER, unit="s"),
    _packaged_row(STAGING, "gpt2-medium-stages", _PIPER, unit="s"),
    Row(STAGING, "dp-piper: levels 8x8", "bert-large-stages on 8 servers of 8 devices",
        _leveled("bert-large-stages", (8, 8)), _PIPER, unit="s", named=True),
    Row(STAGING, "dp-piper: levels 8x128", "bert-large-stages on 128 servers of 8 devices",
        _leveled("bert-large-stages", (8, 128)), _PIPER, unit="s", further=True, named=True),
    _packaged_row(STAGING, "bert-large-stages", {**_PIPER, "options": {"objective": "flush"}}, "flush", unit="s",
        named=True),
    _packaged_row(STAGING, "resnet50-stages", _PIPER, unit="s", further=True),
    _packaged_row(STAGING, "bert-large-stages", {**_PIPER, "options": {"knapsack": "greedy"}}, "greedy knapsacks",
        unit="s", further=True),
    Row(STAGING, "dp-piper: bert32a100", "published, 64 devices of 8 GiB", _bert_of_piper, _PIPER, 30.0, unit="s",
        further=True, path=WORKLOADS / "piper" / "bert32a100.json"),
    Row(STAGING, "dp-piper: types", "resnet50-stages on two types of devices", _typed("resnet50-stages", 8), _PIPER,
        unit="s", named=True),
    Row(STAGING, "equi: levels 8x128", "bert-large-stages on 128 servers of 8 devices, by the even split",
        _leveled("bert-large-stages", (8, 128)), {"planner": "equi"}, 3.0, unit="s", named=True),
    _packaged_row(MIP, "bert-large-stages", _MIP, threads=2, unit="s"),
    _packaged_row(MIP, "gpt2-medium-stages", _MIP, threads=2, unit="s"),
    _packaged_row(MIP, "resnet50-stages", _MIP, threads=2, unit="s", further=True),
    _schedule_row("zero-bubble-4x12", "packaged", _packaged("zero-bubble-4x12"), SPAN),
    _schedule_row("zero-bubble-32x16", "packaged", _packaged("zero-bubble-32x16"), SPAN),
    _schedule_row("uneven 8-0", "random, 4 stages, 8 micro-batches, memory 8, seed 0",
        lambda: random_pipeline(4, 8, 8, 1, 0), SPAN),
    _schedule_row("V 4x2x12", "two stages on each of 4 devices, there and back", _there_and_back(4, 3, 3, 2, 12, 14, 1),
        SPAN, limit_s=20.0, further=True),
    _schedule_row("loop 4x2x12", "two stages on each of 4 devices in a loop, backward passes whole",
        lambda: divided_pipeline(equal_stages(8, 3, 4, None), 12, 30, 1, "loop", virtual=2, layout=LOOP), SPAN),
    _schedule_row("4x12 without divided passes", "4 equal stages, 12 micro-batches, backward passes whole",
        lambda: divided_pipeline(equal_stages(4, 5, 10, None), 12, 8, 0, "plain"), SPAN),
    _schedule_row("measured-uneven-8x32", "packaged", _packaged("measured-uneven-8x32"), SPAN),
    _schedule_row("zero-bubble-4x12-lag", "packaged", _packaged("zero-bubble-4x12-lag"), SPAN, further=True),
    _schedule_row("measured-even-8x32", "packaged", _packaged("measured-even-8x32"), SPAN, further=True),
    _schedule_row("uneven 10-4", "random, 4 stages, 8 micro-batches, memory 10, seed 4",
        lambda: random_pipeline(4, 8, 10, 1, 4), SPAN, further=True),
    _schedule_row("makespan 4x12", "zero-bubble-4x12 for the least makespan", _packaged("zero-bubble-4x12"),
        {"objective": "makespan"}, further=True),
    _schedule_row("V 8x2x16, much memory", "two stages on each of 8 devices, there and back",
        _there_and_back(8, 1, 1, 1, 16, 34, 0), SPAN, further=True),
    _schedule_row("8x24, memory 32", "8 equal stages, 24 micro-batches, memory for zero bubbles",
        lambda: divided_pipeline(equal_stages(8, 3, 3, 3), 24, 32, 0, "h2"), SPAN, further=True),
    _schedule_row("16x64, memory 48", "16 equal stages, 64 micro-batches, memory between that of ZB-H1 and of ZB-H2",
        _equal(16, 64, 11, 9, 48, 1, forward=10), SPAN, named=True),
    _rule_row("V 4x2x8", "two stages on each of 4 devices, there and back", _there_and_back(4, 3, 3, 2, 8, 18, 1)),
    _rule_row("loop 8x4x64", "four stages on each of 8 devices in a loop",
        lambda: divided_pipeline(equal_stages(32, 3, 4, None), 64, 80, 0, "loop", virtual=4, layout=LOOP)),
    _rule_row("16x64, divided", "16 equal stages, 64 micro-batches", _equal(16, 64, 6, 4, 32, 1)),
    _rule_row("16x64", "16 equal stages, 64 micro-batches, backward passes whole", _equal(16, 64, 10, None, 32, 1)),
    _rule_row("16x64, lag 4", "the same with all memory and slow links", _equal(16, 64, 10, None, 200, 4)),
    _rule_row("16x64, lag 20", "the same with slower links", _equal(16, 64, 10, None, 200, 20)),
    _rule_row("uneven 4x8", "random, 4 stages, 8 micro-batches, much memory", lambda: random_pipeline(4, 8, 40, 9, 1)),
    _shape_row("nn", 4, 4),
    _shape_row("nn", 8, 8),
    _shape_row("m", 8, 8),
    _shape_row("k", 8, 6, further=True),
    _shape_row("x", 8, 6, further=True),
    _shape_row("m", 8, 6, further=True),
    Row(PERIODS, "period: v-16 in a ring", "shape V on 16 devices; a micro-batch waits for the eighth before it",
        _in_a_ring, _SCHEDULE, threads=2, further=True),
    _training_row("llama-3-8b", "8xh100-80gb", 8192, 128, unit="s"),
    _packaged_row(TRAININGS, "tiny-experts-training", {"planner": "exact-configuration"}, unit="s"),
    _training_row("llama-3-70b", "64xh100-80gb", 8192, 256, unit="s", limit_s=20.0),
    _training_row("qwen3-30b-a3b", "16xh100-80gb", 4096, 256, unit="s", limit_s=20.0, further=True),
    _training_row("deepseek-v2", "128xh100-80gb", 4096, 1024, unit="s", limit_s=30.0, further=True),
    _training_row("llama-3-405b", "1024xh100-80gb", 8192, 1024, unit="s", limit_s=40.0, further=True),
    _list_row("m-8-8", "shape M on 8 devices", lambda: shape("m", 8, 8)),
    _list_row("x-8-6", "shape X on 8 devices with little memory", lambda: shape("x", 8, 6)),
    _list_row("nn-8-8", "shape NN on 8 devices", lambda: shape("nn", 8, 8)),
    *(_list_row(f"random {seed}", f"random, 14 blocks, seed {seed}", _random_steady(seed)) for seed in (4, 12, 15)),
    _list_row("two towers", "a short branch beside a long one, little memory where they join", _two_towers),
    _list_row("uneven 8-0", "random, 4 stages, 8 micro-batches, memory 8, seed 0",
        lambda: random_pipeline(4, 8, 8, 1, 0), options=SPAN),
    _list_row("uneven 10-4", "random, 4 stages, 8 micro-batches, memory 10, seed 4",
        lambda: random_pipeline(4, 8, 10, 1, 4), options=SPAN),
    _list_row("4x12", "packaged zero-bubble-4x12 for the least makespan", _packaged("zero-bubble-4x12")),
)  # fmt: skip

# ---- stages ----------------------------------------------------------------------------------------------

_C, _D = "planners.chain", "planners.placement.device_sets"
_G, _S = "planners.graph_pipeline", "planners.staging"
_CHAINS = (
    "chain 8x4-1",
    "chain 12x4-1",
    "chain 18x4-1",
    "chain 10x4-1",
    "resnet18-training-chain",
    "chain 8x4-1, buffers",
)
_E, _Z = "planners.schedule", "formulations.zero_bubble"
_R = "planners.training"
_T, _L = "formulations.tarnawski", "formulations.tarnawski_latency"


def _rule(name: str, words: str, *rows: str) -> Stage:
    swaps = {f"{_E}.named:RULES": lacking(name)}
    return Stage(SCHEDULES, f"rule {name}", f"no schedule by {words}", swaps, rows=rows)


# Of stages of the search for configurations that say how many choices cannot fit.
COUNTED = "by it the answer says how many choices cannot fit"

STAGES = (
    # Chains.
    Stage(CHAINS, "annealing", "no patterns from annealing", {f"{_C}.search:Search._may_anneal": always(False)},
        {}, ("chain 24x4-1", "chain 24x8-1")),
    Stage(CHAINS, "covers", "no walks over partitions into sets of layers",
        {f"{_C}.search:Search._walk": always(False)}),
    Stage(CHAINS, "windows", "no set of layers is refuted by branch and bound on windows",
        {f"{_C}.layer_sets:Facts.refuted": always(False)}),
    Stage(CHAINS, "windows of allocations", "whole allocations go to the solver at once",
        {f"{_C}.search:Search._windows_refute": always(None)}, {}, _CHAINS),
    Stage(CHAINS, "windows of several GPUs", "walks examine sets alone, not pairs and larger parts",
        {f"{_C}.layer_sets:Partitions._fitting": lambda original: lambda self, covering, chosen, before: len(chosen)}),
    Stage(CHAINS, "areas of covers", "partitions may need more memory times time than there is",
        {f"{_C}.layer_sets:Facts.room": always(2**60)}),
    Stage(CHAINS, "relaxation", "no allocations from the relaxation", {f"{_C}.search:Search._relax": _waits}, {},
        ("chain 8x4-1", "chain 12x4-1", "chain 18x4-1", "chain 10x4-1", "lemma-2")),
    Stage(CHAINS, "first bound", "no bisection on the relaxation before the search",
        {f"{_C}.search:Search._bound": always(None)}),
    Stage(CHAINS, "cores of one GPU", "no GPU is examined alone", {f"{_C}.schedule:Refuter.cores": _on_several_gpus}),
    Stage(CHAINS, "cores of pairs", "no pairs of GPUs are examined", {f"{_C}.schedule:Refuter.cores": _on_one_gpu}),
    Stage(CHAINS, "smaller cores", "what is refuted is not cut down",
        {f"{_C}.schedule:Refuter._shrink": lambda original: lambda self, known, period: known}),
    Stage(CHAINS, "cores with other cuts", "cuts between other GPUs are no part of cores",
        {f"{_C}.schedule:Refuter._other_cuts": always(frozenset())}),
    Stage(CHAINS, "loads before the solver", "the solver is asked where a load alone says no",
        {f"{_C}.schedule:overloaded": always(False)}),
    Stage(CHAINS, "linear relaxation of schedules", "CP-SAT at its usual level of linearisation",
        {f"{_C}.schedule:THOROUGH": is_now({})}, {}, _CHAINS),
    Stage(CHAINS, "contiguous start", "no plan of contiguous stages to begin with",
        {f"{_C}.exact:best_contiguous": always(None)}),
    # Placements: the portfolio, and reductions.
    Stage(PLACEMENTS, "sprint", "CP-SAT does not have the first seconds for itself",
        portfolio_without(lambda stage: stage.kind == "decide" and stage.seconds is not None)),
    Stage(PLACEMENTS, "devices", "no column generation over sets of one device",
        portfolio_without(lambda stage: stage.planner == "device-sets")),
    Stage(PLACEMENTS, "searches", "no annealing", portfolio_without(lambda stage: stage.planner == "lns")),
    Stage(PLACEMENTS, "starts", "no plan of the linearised program or the greedy one to begin with",
        starts_without("linear-dp", "greedy")),
    Stage(PLACEMENTS, "free groups", "groups that cost nothing are not fused with others",
        {f"{_T}.reductions:absorb_free_groups": first_argument}),
    Stage(PLACEMENTS, "forced partners", "groups that must be together are not fused",
        {f"{_T}.reductions:_forced_partners": always([])}, {},
        ("placements: bert_l-3_inference, contiguous", "placements: bert_l-6_inference")),
    Stage(PLACEMENTS, "conflicts", "groups that cannot be together are not told to the solver",
        {f"{_T}.reductions:_conflicts": always(set())}, {},
        ("placements: inception-inference, contiguous", "placements: resnet50_inference")),
    # The dynamic program.
    Stage(DP, "families", "no first plan from the ideals that cut little",
        {"planners.placement.dp.planner:FAMILIES": is_now(())}),
    Stage(DP, "growing limits", "the best known value is the only limit",
        {"planners.placement.dp.search:limits_to_try": _known_alone},
        kept="without it the pruned program looks at ten times as many pairs of gnmt-training in regression.py"),
    Stage(DP, "live states", "states that cannot be part of a plan are kept",
        {"planners.placement.dp.limits:_uses": _every_state}),
    Stage(DP, "dense program", "small lattices go through the pruned program as well",
        {"planners.placement.dp.planner:_Run._is_small": always(False)}),
    # Column generation.
    Stage(SETS, "dives", "no plans from sets in part", {f"{_D}.planner:_Search._dives": always(False)}),
    Stage(SETS, "alternatives", "a dive tries one set for each accelerator",
        {f"{_D}.planner:ALTERNATIVES": is_now(1)}),
    Stage(SETS, "linear start", "no plan of the linearised program to begin with",
        {f"{_D}.planner:_Search._start": always(None)}),
    Stage(SETS, "steps in a wide gap", "a wide gap is closed at once", {f"{_D}.planner:STEP": is_now(0.0)}),
    Stage(SETS, "patience", "no cut-off is left before it is decided", {f"{_D}.planner:PATIENCE": is_now(10**9)}),
    Stage(SETS, "steady prices", "prices are those of the linear program alone",
        {f"{_D}.columns:STEADY": is_now(0.0)}),
    Stage(SETS, "coarse steps", "prices are searched on fine steps at once",
        {f"{_D}.pricing:GRAIN": is_now(64_000)}),
    Stage(SETS, "narrow order", "groups are decided as they are listed",
        {f"{_D}.pricing:narrow_order": _the_listed_one}),
    Stage(SETS, "free groups of sets", "groups that cost nothing are not fused with others",
        {f"{_D}.planner:absorb_free_groups": first_argument}),
    # Annealing.
    Stage(LNS, "from scratch", "no runs from a random assignment",
        {"planners.placement.heuristics.lns:_Search.run": _kinds_of_runs(1, 2)}),
    Stage(LNS, "around the best plan", "no runs over clusters inside the devices of the best plan",
        {"planners.placement.heuristics.lns:_Search.run": _kinds_of_runs(0, 2)}),
    Stage(LNS, "polishing", "no runs over single groups from the best plan",
        {"planners.placement.heuristics.lns:_Search.run": _kinds_of_runs(0, 1)}),
    Stage(LNS, "coarser problems", "groups are never clustered",
        {"planners.placement.heuristics.lns:ladder": _no_coarser}),
    Stage(LNS, "linear start of annealing", "no plan of the linearised program to begin with",
        {"planners.placement.heuristics.lns:_Search.take_starts": always(None)}),
    # Latency.
    Stage(LATENCY, "cells", "no bound from rows of cells", {f"{_L}.formulation:cell_bound": always(0.0)}),
    Stage(LATENCY, "paths", "no bound from divided paths", {f"{_L}.formulation:path_bound": always(0.0)}),
    Stage(LATENCY, "joined arcs", "no arcs are known to stay inside a piece", {f"{_L}.cp:joined_arcs": always([])}),
    Stage(LATENCY, "covers of paths", "no rows on how often memory divides a path",
        {f"{_L}.cp:covers": always([])}),
    Stage(LATENCY, "whole paths of the MIP", "no rows on critical paths for HiGHS",
        {f"{_L}.strong:critical_paths": always([])}, {},
        ("latency: gnmt_inference, highs", "latency: bert_l-3_inference, highs")),
    Stage(LATENCY, "large neighbourhoods", "no start by annealing", starts_without("latency-lns")),
    Stage(LATENCY, "cells as a start", "annealing does not begin at the best row of cells",
        {"planners.placement.latency.lns:cell_places": nothing}, {},
        ("latency: resnet50-inference, tight", "latency: densenet121-inference, tight")),
    # Graph pipelines.
    Stage(GRAPHS, "shallower", "no plans with fewer samples in flight",
        {f"{_G}.planner:_Choice.consider_shallower": always(None)}),
    Stage(GRAPHS, "even", "the even split is not looked at", {f"{_G}.planner:_Choice.consider_even": always(None)}),
    Stage(GRAPHS, "short iterations", "no plans of the program for short iterations",
        {f"{_G}.planner:_Choice.consider_short": always(None)}),
    Stage(GRAPHS, "cuts across branches", "no search over the row of all operators",
        {f"{_G}.planner:_searches": _first_alone}),
    Stage(GRAPHS, "more in flight", "stages hold what the rule asks for",
        {f"{_G}.planner:_Choice.put_more_in_flight": always(None)}),
    Stage(GRAPHS, "near plans", "only the best plan is given more in flight", {f"{_G}.planner:MOST_NEAR": is_now(1)}),
    Stage(GRAPHS, "alike branches", "branches that are alike are told apart",
        {f"{_G}.nodes:NodeBuilder._signature": _unlike_all_others}),
    Stage(GRAPHS, "least time", "targets begin at the shortest stage, not at the bound of the work",
        {f"{_G}.costs:Costs.least_time": always(0.0)}),
    Stage(GRAPHS, "undominated combinations", "useless combinations of needs are kept",
        {f"{_G}.combinations:undominated": first_argument}),
    Stage(GRAPHS, "bound by packing", "operators may be divided among devices",
        {f"{_G}.bounds:Argument._packs": always(True)}),
    Stage(GRAPHS, "bound by paths", "the bound looks at work and the longest path alone",
        {f"{_G}.bounds:Argument.by_paths": _simple_bound}),
    Stage(GRAPHS, "levels of the bound", "the bound does not count the stages behind a stage",
        {f"{_G}.bounds:MOST_LEVELS": is_now(1)}),
    Stage(SHORT, "growing iterations", "the best known iteration is the only limit",
        {f"{_G}.iterations:GROWTH": is_now(1e9)}),
    Stage(SHORT, "alike branches of iterations", "branches that are alike are told apart",
        {f"{_G}.iterations:_facts": _its_row}),
    Stage(SHORT, "better fronts", "worse fronts are kept", {f"{_G}.iterations:keep": _every_front}),
    Stage(SHORT, "a second look", "plans within the best iteration are not looked at",
        {f"{_G}.iterations:Iterations.within": nothing}),
    # Stages.
    Stage(STAGING, "low limits first", "the first limit is the worst load", {f"{_S}.search:FIRST_TRY": is_now(1e9)}),
    Stage(STAGING, "the value itself", "bisection goes on where value and bound are near",
        {f"{_S}.search:NEAR": is_now(0.0)}),
    Stage(STAGING, "relaxed knapsacks", "no bound from relaxed knapsacks",
        {f"{_S}.search:Search._relax": always(None)}),
    Stage(STAGING, "counted", "mip-piper plans flushes and types instead",
        {}, {"planner": None, "formulation": "mip-piper"},
        ("dp-piper: bert-large-stages, flush", "dp-piper: types")),
    Stage(STAGING, "fast program for flushes", "stages are counted from the first decision on",
        {f"{_S}.extended:_Run._searched": _counted}, {}, ("dp-piper: bert-large-stages, flush",)),
    Stage(STAGING, "level decisions", "tables of all loads on levels, whatever their size",
        {f"{_S}.hierarchy:MANY_ENTRIES": is_now(10**12)}, {}, ("dp-piper: levels 8x8", "dp-piper: levels 8x128")),
    Stage(STAGING, "low limits first on levels", "the first limit on levels is infinite",
        {f"{_S}.level_decisions:MOST_TRIES": is_now(0)}, {}, ("dp-piper: levels 8x8", "dp-piper: levels 8x128")),
    Stage(STAGING, "least devices on levels", "no stage is left out because the others need its devices",
        {f"{_S}.level_decisions:_Decision._need": always(0)}, {}, ("dp-piper: levels 8x8", "dp-piper: levels 8x128")),
    Stage(STAGING, "equal trees", "dp-piper plans levels instead",
        {}, {"planner": "dp-piper"}, ("equi: levels 8x128",)),
    Stage(MIP, "start of the model", "no plan of dp-piper to begin with", starts_without("dp-piper")),
    Stage(MIP, "bound by columns", "the bound is that of the work alone",
        {"formulations.piper.formulation:column_bound": _work_alone},
        kept="it is within 0.1 % of published optima before a solver is asked"),
    # Schedules.
    _rule("zb-v", "the rule of zero bubbles in a V", "span: V 8x2x16, much memory"),
    _rule("dualpipe-v", "DualPipe's V", "span: V 4x2x12", "lists: V 4x2x8"),
    _rule("interleaved-1f1b", "interleaved 1F1B", "lists: loop 8x4x64"),
    _rule("zb-h2", "zero bubbles with twice the memory", "span: zero-bubble-32x16", "span: 8x24, memory 32"),
    _rule("zb-h1", "zero bubbles within the memory of 1F1B", "span: zero-bubble-4x12", "lists: 16x64, divided"),
    _rule("1f1b", "1F1B", "span: 4x12 without divided passes", "lists: 16x64"),
    _rule("gpipe", "GPipe", "span: 4x12 without divided passes", "lists: 16x64, lag 4", "lists: 16x64, lag 20",
        "lists: uneven 4x8"),
    Stage(SCHEDULES, "all rules", "no schedule by any rule", {f"{_E}.named:RULES": is_now(())}),
    Stage(SCHEDULES, "first list schedule", "no list schedule to begin with",
        {f"{_E}.exact:better_and_better": nothing}),
    Stage(SCHEDULES, "list schedules", "no list schedules beyond the first",
        {f"{_E}.exact:SLOW_RULES": lambda original: original[1:]}),
    Stage(SCHEDULES, "greedy zero bubbles", "no greedy schedules with divided passes",
        {f"{_E}.exact:SLOW_RULES": lambda original: original[:1]}),
    Stage(SCHEDULES, "few before a gradient", "no greedy schedule counts what a stage begins before a gradient",
        {f"{_E}.named:SHORT_PATIENCE": is_now(())}, {}, ("span: 16x64, memory 48",)),
    Stage(SCHEDULES, "annealing of orders", "no annealing", {f"{_E}.annealing:Annealer.of": always(None)}),
    Stage(SCHEDULES, "model", "no model is asked", {f"{_E}.exact:_Run._ask": always(False)}),
    Stage(SCHEDULES, "first question", "the model is first asked after all rules",
        {f"{_E}.exact:FEW_RUNS": is_now(-1)}),
    Stage(SCHEDULES, "plain search", "CP-SAT probes and linearises as usual", {f"{_E}.exact:PLAIN": is_now({})}),
    Stage(SCHEDULES, "bound by paths through batches", "no bound from paths",
        {f"{_Z}.finite_bounds:path_bound": always(0)}),
    Stage(SCHEDULES, "bound by devices", "no bound from a device as a machine of its own",
        {f"{_Z}.finite_bounds:device_bound": always(0)}),
    Stage(SCHEDULES, "bound by idle time", "no bound from filling and draining",
        {f"{_Z}.finite_bounds:idle_bound": always(0)}),
    Stage(SCHEDULES, "bound by warm-up", "no bound from what may run before the first gradient",
        {f"{_Z}.finite_bounds:warm_up_bound": _second_argument}),
    Stage(SCHEDULES, "memory in releases", "bounds do not let runs wait for memory",
        {f"{_Z}.finite_bounds:_wait_for_memory": always(None)}),
    Stage(PERIODS, "bound by devices of periods", "no bound from a device's memory",
        {f"{_Z}.period_bounds:device_bound": always(None)}),
    Stage(PERIODS, "bound by cycles", "no bound from cycles of edges",
        {f"{_Z}.period_bounds:cycle_bound": _least_given}),
    Stage(PERIODS, "standstills", "the clock goes on while all devices run one block",
        {f"{_Z}.period_bounds:standstill_of": _nothing_together,
         f"{_Z}.periodic_facts:standstill_of": _nothing_together}),
    Stage(PERIODS, "periodic list", "no list schedule to begin with",
        {f"{_E}.exact:periodic_list_schedule": always(None)}),
    # Trainings.
    Stage(TRAININGS, "bound by paths of a schedule", "no bound from paths through the passes",
        {f"{_R}.paths:PathBound.takes": always(False)}),
    Stage(TRAININGS, "all layouts", "few layouts are not judged one by one", {f"{_R}.search:ALL_LAYOUTS": is_now(0)}),
    Stage(TRAININGS, "local moves", "no unit is moved to another chunk",
        {f"{_R}.search:Search._looks": always(0), f"{_R}.search:FEW_LOOKS": is_now(0)}),
    Stage(TRAININGS, "search for rows", "layouts of 1F1B are those of its first answer",
        {f"{_R}.search:solve": _first_answer}),
    Stage(TRAININGS, "words that no other beats", "all words for recomputation are opened",
        {f"{_R}.search:Search._useful": lambda original: lambda self, gamma: list(self.space.words)}),
    Stage(TRAININGS, "least layers that fit", "layers are computed again one by one",
        {f"{_R}.search:Search._least_count": always(1)}, kept=COUNTED),
    Stage(TRAININGS, "bound with memory", "a choice and word is bounded by its time alone",
        {f"{_R}.search:Search._with_memory": _straight_to_layouts}, kept=COUNTED),
    Stage(TRAININGS, "layouts of the bound", "local moves begin at the even layout alone",
        {f"{_R}.bounds:LoadBound.layout": always(None), f"{_R}.bounds:LoadBound.balanced": always(None)}),
    Stage(LISTS, "earliest places", "list schedules do not place blocks from the beginning",
        {f"{_E}.periodic_list:earliest": always(None)}),
    Stage(LISTS, "latest places", "list schedules do not place blocks from the end",
        {f"{_E}.periodic_list:latest": always(None)}),
    Stage(LISTS, "wide blocks first", "list schedules place blocks of several devices with the others",
        {f"{_E}.periodic_list:wide_first": always(None)}),
    Stage(LISTS, "late takes", "list schedules do not put off what takes memory",
        {f"{_E}.periodic_list:late_takes": lambda original: lambda whole, period, starts: starts}),
    Stage(LISTS, "back and forth", "list schedules are not made again from their ends",
        {f"{_E}.list_schedule:_Search._again": always(None)}),
    Stage(LISTS, "fewer in flight", "list schedules take as many micro-batches as the memory lets",
        {f"{_E}.listing:_counts": nothing}),
    Stage(PERIODS, "distances around the period", "the model is not told least distances",
        {f"{_Z}.periodic_facts:distances": always([])}),
)  # fmt: skip

GONE: tuple[Gone, ...] = (
    Gone(PLACEMENTS, "restrict", "contiguous plans are sought first", 8),
    Gone(PLACEMENTS, "improve", "a plan near the bound is improved before it is proven", 3),
    Gone(PLACEMENTS, "near the bound", "another order of stages near the bound", 10),
    Gone(SETS, "sets beside", "more sets at once: those that leave out each other's groups", 10),
    Gone(SETS, "forgotten sets", "of many sets the linear program keeps the best", 10),
    Gone(SETS, "several weights", "paths are bounded by several weights of the load", 7),
    Gone(SETS, "listed order", "groups are decided as they are listed where that needs fewer states", 8),
    Gone(LATENCY, "greedy start", "a start by list scheduling, with which annealing begins in any case", 0),
    Gone(LATENCY, "whole paths", "rows on critical paths in the CP-SAT model", 21),
    Gone(TRAININGS, "a second look at layouts", "more local moves at the end, where the bound leaves room", 20),
)

NOT_WEIGHED = (
    "What runs inside compiled loops (twins of knapsacks, the areas of single sets of layers, the pruning of paths): "
    "machine code is made from whole modules, and a loop with a part exchanged would be another program.",
    "What a method cannot do without: combinations of needs in graph pipelines (plans would be wrong), the second "
    "opinions and margins of solvers, the dynamic programs themselves, and the referee.",
    "Constants that set how much there is of something (steps, seconds, shares) and switch nothing on or off.",
    "Methods with which papers compare theirs (greedy, PipeDream, GPipe and others): users ask for them by name, and "
    "no search of ours contains them.",
)
