"""The groups of stages that `ablation.py` weighs, and the rows on which it does: data alone.

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
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import recipes  # noqa: F401  finds the modules of notebooks
from known_pipelines import random_pipeline, shape
from recipes.chain import memory_levels, resnet_like, tightness

import pipeplan
from pipeplan.instances.physics.efficiencies import USUAL_MEMORY_ERROR
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.problem import BlockEdge
from pipeplan.instances.staging.problem import DeviceType, StagingLevel
from pipeplan.instances.training.build import problem_of

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = Path(os.environ.get("PIPEPLAN_WORKLOADS", ROOT.parent / "shared" / "workloads"))


@dataclass(frozen=True, eq=False)
class Row:
    """A problem, and how it is planned."""

    name: str
    words: str
    problem: Callable[[], Any]
    how: Mapping[str, Any]
    limit_s: float = 10.0
    threads: int = 1
    unit: str | None = None
    path: Path | None = None
    """Of a published input."""

    def is_there(self) -> bool:
        return self.path is None or self.path.exists()

    @property
    def is_known(self) -> bool:
        """Is its network published or packaged?"""
        return self.words.startswith(("published", "packaged"))


@dataclass(frozen=True, eq=False)
class Group:
    """All stages of one idea."""

    of: str
    """The method that they belong to."""
    name: str
    off: str
    """What is off without them, in words."""
    swaps: Mapping[str, Callable[[Any], Any]]
    rows: Sequence[str]
    """Short ones first; after two that miss the group no more are planned."""
    lines: int
    was: Sequence[str] = ()
    """Names of its single stages: a row that missed one of them misses the group."""
    instead: Mapping[str, Any] = field(default_factory=dict)
    """Another way to plan the row, for groups that are methods of their own."""
    kept: str = ""
    """Why it stays though fewer inputs miss it than the rule asks for."""


@dataclass(frozen=True)
class Gone:
    """A group, or stages of one, that the rule took out."""

    of: str
    what: str
    lines: int
    was: Sequence[str]
    """Names in what is kept of the runs."""


# ---- what stands in the place of a group -----------------------------------------------------------------


def always(value: Any) -> Callable[[Any], Any]:
    """A function that returns this and does nothing."""
    return lambda original: lambda *arguments, **options: value


def nothing(original: Any) -> Any:
    """A function that yields nothing."""
    return lambda *arguments, **options: iter(())


def is_now(value: Any) -> Callable[[Any], Any]:
    """A constant."""
    return lambda original: value


def starts_without(*left_out: str) -> dict[str, Callable[[Any], Any]]:
    """Starts from all planners but these."""

    def fewer(original: Any) -> Any:
        return lambda *arguments: [entry for entry in original(*arguments) if entry.name not in left_out]

    return {"planners.run.choose:quick_planners": fewer}


def portfolio_without(planner: str) -> dict[str, Callable[[Any], Any]]:
    """The portfolio of throughput without the turns of this planner."""

    def shorter(original: Any) -> Any:
        def portfolio(*arguments: Any, **options: Any) -> Any:
            return tuple(stage for stage in original(*arguments, **options) if stage.planner != planner)

        return portfolio

    return {"formulations.tarnawski.formulation:TarnawskiThroughput.portfolio": shorter}


def _waits(original: Any) -> Any:
    """For workers that would ask in vain."""
    return lambda *arguments: sleep(0.05)


def _first_alone(original: Any) -> Any:
    def first(*arguments: Any) -> Iterator[Any]:
        yield next(original(*arguments))

    return first


def _simple_bound(original: Any) -> Any:
    return lambda self, steady, enough: self.simple(steady)


def _nothing_together(original: Any) -> Any:
    from pipeplan.formulations.zero_bubble.period_bounds import Standstill

    return lambda problem: Standstill(problem, problem, ())


# ---- rows ------------------------------------------------------------------------------------------------


def _packaged(name: str, **changes: Any) -> Callable[[], Any]:
    def load() -> Any:
        problem = pipeplan.load_packaged(name)
        return problem.replace(**changes) if changes else problem

    return load


def _chain(layers: int, gpus: int, seed: int, **more: Any) -> Row:
    def make() -> Any:
        problem = resnet_like(layers, gpus, seed)
        return tightness(problem, *memory_levels(problem), 0.3)

    words = f"random, {layers} layers on {gpus} GPUs, seed {seed}"
    return Row(f"chain {layers}x{gpus}-{seed}", words, make, {"planner": "exact-beaumont"}, **more)


def _tight(name: str) -> Row:
    """On six accelerators that hold 1.6 times the network together, with 8 CPUs."""

    def make() -> Any:
        problem = pipeplan.load_packaged(name)
        memory = sum(node.size_bytes for node in problem.nodes) * 1.6 / 6
        return problem.replace(accelerators=6, cpus=8, memory_bytes=memory)

    words = "packaged, on six accelerators that hold 1.6 networks"
    return Row(f"latency: {name}, tight", words, make, _LATE, threads=2)


def _published(method: str, path: str, how: Mapping[str, Any], tag: str = "", **more: Any) -> Row:
    title = f"{method}: {Path(path).stem}" + (f", {tag}" if tag else "")
    words = f"published, {tag}" if tag else "published"
    return Row(title, words, lambda: pipeplan.load(WORKLOADS / path), how, threads=2, path=WORKLOADS / path, **more)


def _row(method: str, name: str, how: Mapping[str, Any], tag: str = "", **more: Any) -> Row:
    """A packaged instance."""
    title = f"{method}: {name}" + (f", {tag}" if tag else "")
    return Row(title, f"packaged, {tag}" if tag else "packaged", _packaged(name), how, **more)


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


def _leveled(name: str, sizes: tuple[int, ...]) -> Callable[[], Any]:
    levels = tuple(StagingLevel(*pair) for pair in zip(sizes, (300e9, 25e9), strict=True))
    return _packaged(name, devices=math.prod(sizes), levels=levels, micro_batches=math.prod(sizes))


def _typed(name: str, devices: int) -> Callable[[], Any]:
    def make() -> Any:
        problem, half = pipeplan.load_packaged(name), devices // 2
        memory = problem.memory_bytes
        kinds = (DeviceType("fast", half, 2.0, memory), DeviceType("large", devices - half, 1.0, 2 * memory))
        return problem.replace(devices=devices, memory_bytes=None, device_types=kinds)

    return make


def _training(model: str, devices: str, sequence: int, batch: int, limit_s: float = 10.0, tag: str = "") -> Row:
    how = {"planner": "exact-configuration", "options": {"memory_error": USUAL_MEMORY_ERROR}}
    words = f"published model, {batch:,} sequences of {sequence:,} on {devices}"

    def problem() -> Any:
        return problem_of(model, devices, batch=batch, sequence=sequence)

    return Row(f"training: {model}{tag}", words, problem, how, limit_s)


def _in_a_ring() -> Any:
    problem = shape("v", 16, 32)
    first, last = (problem.blocks[problem.order[place]].id for place in (0, -1))
    return problem.replace(edges=(*problem.edges, BlockEdge(last, first, 0, 8)))


def _span(name: str, words: str, problem: Callable[[], Any]) -> Row:
    how = {"planner": "exact-schedule", "options": {"objective": "span"}}
    return Row(f"span: {name}", words, problem, how, 30.0, threads=2)


def _shape(name: str, devices: int, memory: int, method: str = "period") -> Row:
    words = f"published shape {name.upper()} on {devices} devices, memory {memory}"
    planner = {"period": "exact-schedule", "list": "list-schedule"}[method]
    title = f"{method}: {name}-{devices}-{memory}"
    return Row(title, words, lambda: shape(name, devices, memory), {"planner": planner}, threads=2)


_IP = {"formulation": "ip-tarnawski"}
_FREE = {**_IP, "options": {"non_contiguous": True}}
_LATE = {"formulation": "ip-tarnawski-latency"}
_PIPE, _SHORTEST, _PIPER = {"planner": "graphpipe"}, {"planner": "shortest-iteration"}, {"planner": "dp-piper"}
_MORE = {**_PIPE, "options": {"samples_held": "more"}}
_MIXED = {**_PIPE, "options": {"mixed_micro_batches": True, "k": 2}}
_OPERATORS = "tarnawski/throughput/operator"

ROWS = (
    _chain(8, 4, 1, limit_s=30.0),
    _chain(12, 4, 1, limit_s=30.0),
    _chain(24, 4, 1, limit_s=60.0),
    Row("lemma-2", "packaged, no run of layers fits", _packaged("lemma-2"), {"planner": "exact-beaumont"}),
    *(_row("placements", name, _FREE, threads=2, limit_s=limit_s) for name, limit_s in (
        ("vgg16-training", 30.0), ("gnmt-training", 10.0), ("memory-tight", 20.0), ("resnet50-inference", 20.0),
        ("inception-inference", 20.0), ("gpt2-xl-training", 20.0))),
    _published("placements", f"{_OPERATORS}/bert_l-3_inference.json", _IP, "contiguous"),
    _published("placements", f"{_OPERATORS}/resnet50_inference.json", _FREE, limit_s=30.0),
    _row("dp", "inception-inference", {"planner": "dp"}, limit_s=60.0),
    _row("dp", "resnet50-training", {"planner": "dp"}),
    _tight("inception-inference"),
    _tight("resnet50-inference"),
    _tight("densenet121-inference"),
    _published("latency", "tarnawski/latency/gnmt_inference.json", _LATE),
    _published("latency", "tarnawski/latency/bert_l-3_inference.json", _LATE),
    _row("graphpipe", "case-study", _PIPE),
    _row("graphpipe", "dlrm-8", _MORE, "more held"),
    _row("graphpipe", "case-study", _MIXED, "mixed", limit_s=20.0),
    _row("graphpipe", "candle-uno-8", _PIPE),
    Row("graphpipe: random 14", "random, 14 operators with little memory, seed 3", _graph(3, 14, 6, tight=0.3), _MORE),
    _row("shortest-iteration", "case-study", _SHORTEST),
    _row("shortest-iteration", "dlrm-8", _SHORTEST),
    _row("dp-piper", "bert-large-stages", _PIPER),
    _row("dp-piper", "gpt2-medium-stages", _PIPER),
    _row("dp-piper", "bert-large-stages", {**_PIPER, "options": {"objective": "flush"}}, "flush"),
    Row("dp-piper: types", "packaged, on two types of devices", _typed("resnet50-stages", 8), _PIPER),
    Row("dp-piper: levels 8x8", "packaged, on 8 servers of 8 devices", _leveled("bert-large-stages", (8, 8)), _PIPER,
        unit="s"),
    _row("mip-piper", "bert-large-stages", {"formulation": "mip-piper"}, threads=2),
    _row("mip-piper", "gpt2-medium-stages", {"formulation": "mip-piper"}, threads=2),
    *(_span(name, "packaged", _packaged(name)) for name in ("zero-bubble-32x16", "zero-bubble-4x12",
        "measured-even-8x32")),
    _span("uneven 8-0", "random, 4 stages, 8 micro-batches, memory 8, seed 0", lambda: random_pipeline(4, 8, 8, 1, 0)),
    _span("4x12 without divided passes", "random, 4 equal stages, 12 micro-batches, backward passes whole",
        lambda: divided_pipeline(equal_stages(4, 5, 10, None), 12, 8, 0, "plain")),
    _span("16x64, memory 48", "random, 16 equal stages, 64 micro-batches, memory between that of ZB-H1 and of ZB-H2",
        lambda: divided_pipeline(equal_stages(16, 10, 11, 9), 64, 48, 1, "equal")),
    _shape("nn", 4, 4),
    _shape("nn", 8, 8),
    Row("period: v-16 in a ring", "random, shape V on 16 devices; a micro-batch waits for the eighth before it",
        _in_a_ring, {"planner": "exact-schedule"}, threads=2),
    *(Row(f"list: {name}-{devices}-{memory}", f"published shape {name.upper()} on {devices} devices",
        partial(shape, name, devices, memory), {"planner": "list-schedule"}) for name, devices, memory in (
        ("m", 8, 8), ("nn", 8, 8), ("x", 8, 6))),
    _training("llama-3-8b", "8xh100-80gb", 8192, 128),
    _row("trainings", "tiny-experts-training", {"planner": "exact-configuration"}),
    _training("llama-3-70b", "64xh100-80gb", 8192, 256, 20.0),
    _training("qwen3-30b-a3b", "16xh100-80gb", 4096, 256, 20.0),
    _training("mixtral-8x7b", "64xa100-80gb", 4096, 256, 20.0),
    _training("llama-3-8b", "8xh100-80gb", 8192, 16, 10.0, ", 16 sequences"),
)  # fmt: skip

# ---- groups ----------------------------------------------------------------------------------------------

_C, _G, _S, _R = "planners.chain", "planners.graph_pipeline", "planners.staging", "planners.training"
_E, _Z, _L = "planners.schedule", "formulations.zero_bubble", "formulations.tarnawski_latency"
_T, _D = "formulations.tarnawski", "planners.placement.dp"

CHAINS_PAGE = "[Proofs on chains](chains.md) shows proofs up to 24 layers on 8 GPUs"

GROUPS = (
    Group("exact-beaumont", "relaxation", "no allocations and no first bound from the relaxation",
        {f"{_C}.exact:Search._relax": _waits, f"{_C}.exact:Search._bound": always(None)},
        ("lemma-2", "chain 12x4-1"), 235, ("relaxation", "first bound")),
    Group("exact-beaumont", "sets of layers", "no branch and bound on sets of layers and partitions into them",
        {f"{_C}.exact:Search._walk": always(False)},
        ("chain 8x4-1", "chain 12x4-1"), 840,
        ("covers", "windows", "windows of several GPUs"),
        kept=CHAINS_PAGE),
    Group("exact-beaumont", "cores", "what is refuted of an allocation is not cut down to few facts",
        {f"{_C}.schedule:Refuter.cores": always([])}, ("chain 8x4-1", "chain 12x4-1"), 60,
        ("cores of one GPU", "cores of pairs", "cores with other cuts"),
        kept=CHAINS_PAGE),
    Group("exact-beaumont", "annealing", "no patterns from annealing",
        {f"{_C}.exact:Search._may_anneal": always(False)}, ("chain 24x4-1",), 361, ("annealing",), kept=CHAINS_PAGE),
    Group("ip-tarnawski", "reductions", "groups are neither fused nor told apart before the solver sees them",
        {f"{_T}.reductions:_forced_partners": always([]), f"{_T}.reductions:_conflicts": always(set())},
        ("placements: bert_l-3_inference, contiguous", "placements: resnet50_inference"), 190,
        ("forced partners", "conflicts")),
    Group("ip-tarnawski", "sets of one device", "no turn of `device-sets`", portfolio_without("device-sets"),
        ("placements: vgg16-training", "placements: resnet50-inference", "placements: gpt2-xl-training"), 684,
        ("devices",),
        kept="[throughput](throughput.md) shows gaps of 1 %, where the integer program alone has 17 to 27 %"),
    Group("ip-tarnawski", "annealing of groups", "no turn of `lns`", portfolio_without("lns"),
        ("placements: memory-tight", "placements: vgg16-training", "placements: gnmt-training"), 420, ("searches",),
        kept="a method of its own, with the best known values of five published inputs in two seconds"),
    Group("dp", "large and small lattices", "no first plan from few ideals, and one program for all lattices",
        {f"{_D}:FAMILIES": is_now(()), f"{_D}:_Run._is_small": always(False)},
        ("dp: inception-inference", "dp: resnet50-training"), 260, ("families", "dense program", "live states")),
    Group("ip-tarnawski-latency", "rows of cells", "neither a bound nor a start from rows of cells",
        {f"{_L}.formulation:cell_bound": always(0.0), "planners.placement.latency_lns:cell_places": nothing},
        ("latency: inception-inference, tight", "latency: resnet50-inference, tight",
         "latency: densenet121-inference, tight"), 715, ("cells", "cells as a start")),
    Group("ip-tarnawski-latency", "divided paths", "no bound from divided paths, and no arcs that they join",
        {f"{_L}.formulation:path_bound": always(0.0), f"{_L}.cp:joined_arcs": always([])},
        ("latency: gnmt_inference", "latency: bert_l-3_inference"), 240, ("paths", "joined arcs"),
        kept="[latency](latency.md) shows that it is the bound of the published inputs"),
    Group("ip-tarnawski-latency", "annealing of pieces", "no start by `latency-lns`", starts_without("latency-lns"),
        ("latency: inception-inference, tight", "latency: resnet50-inference, tight"), 518, ("large neighbourhoods",),
        kept="a method of its own, with the optimum of all published inputs"),
    Group("graphpipe", "short iterations", "no program for short iterations",
        {f"{_G}.planner:_Choice.consider_short": always(None)},
        ("graphpipe: case-study", "graphpipe: dlrm-8, more held", "graphpipe: random 14",
         "shortest-iteration: dlrm-8"), 490,
        ("short iterations", "growing iterations", "alike branches of iterations", "better fronts")),
    Group("graphpipe", "bound", "the bound looks at work and the longest path alone",
        {f"{_G}.bounds:Argument.by_paths": _simple_bound, f"{_G}.bounds:Argument._packs": always(True)},
        ("graphpipe: case-study", "graphpipe: dlrm-8, more held", "graphpipe: candle-uno-8"), 252,
        ("bound by paths", "bound by packing", "levels of the bound")),
    Group("graphpipe", "cuts across branches", "no search over the row of all operators, and none for more in flight",
        {f"{_G}.planner:_searches": _first_alone, f"{_G}.planner:_Choice.put_more_in_flight": always(None)},
        ("graphpipe: case-study, mixed", "graphpipe: random 14"), 40, ("cuts across branches", "more in flight"),
        kept="the options `cuts` and `samples-held` name what they add"),
    Group("graphpipe", "other plans", "no plans with fewer samples in flight, no even split, near plans or second look",
        {f"{_G}.planner:_Choice.consider_shallower": always(None), f"{_G}.planner:_Choice.consider_even": always(None),
         f"{_G}.planner:MOST_NEAR": is_now(1), f"{_G}.iterations:Iterations.within": nothing},
        ("graphpipe: case-study, mixed", "graphpipe: random 14"), 50,
        ("shallower", "even", "near plans", "a second look"),
        kept="without them `spp-pipedream` plans mmt-8 6.9 % worse, `graphpipe-parallel` case-study 0.3 %"),
    Group("dp-piper", "decisions", "bisection goes on where value and bound are near, from the worst load on",
        {f"{_S}.search:NEAR": is_now(0.0), f"{_S}.search:FIRST_TRY": is_now(1e9)},
        ("dp-piper: bert-large-stages", "dp-piper: gpt2-medium-stages"), 20, ("the value itself", "low limits first")),
    Group("dp-piper", "flushes and types", "`mip-piper` plans flushes and types instead",
        {}, ("dp-piper: bert-large-stages, flush", "dp-piper: types"), 120, ("counted",),
        {"planner": None, "formulation": "mip-piper"}),
    Group("mip-piper", "start", "no plan of `dp-piper` to begin with", starts_without("dp-piper"),
        ("mip-piper: bert-large-stages", "mip-piper: gpt2-medium-stages"), 5, ("start of the model",)),
    Group("exact-schedule", "idle times", "no bound from idle times",
        {f"{_Z}.finite_problem:idle_bound": always(0)},
        ("span: zero-bubble-32x16", "span: zero-bubble-4x12", "span: 4x12 without divided passes"), 55,
        ("bound by idle time",),
        kept="alone it proves eleven of the schedules in [schedules](schedules.md), three of them with 3,072 blocks"),
    Group("exact-schedule", "turns of the model", "no model is asked, and few schedules before it",
        {f"{_E}.exact:_Run._ask": always(False)}, ("span: uneven 8-0", "span: 16x64, memory 48"), 150,
        ("model", "first question", "few before a gradient"),
        kept="without a model nothing is proven beyond the bounds ([schedules](schedules.md))"),
    Group("exact-schedule", "annealing of orders", "no annealing", {f"{_E}.exact:Annealer.of": always(None)},
        ("span: zero-bubble-4x12", "span: measured-even-8x32"), 316, ("annealing of orders",),
        kept="[schedules](schedules.md) shows the gap of measured-even-8x32, which is four times as large without it"),
    Group("cp-periodic", "facts of periods", "no standstills, and no least distances around the period",
        {f"{_Z}.period_bounds:standstill_of": _nothing_together,
         f"{_Z}.periodic_facts:standstill_of": _nothing_together, f"{_Z}.periodic_facts:distances": always([])},
        ("period: nn-4-4", "period: nn-8-8", "period: v-16 in a ring"), 160,
        ("standstills", "distances around the period", "bound by cycles", "bound by devices of periods")),
    Group("list-schedule", "places of blocks", "blocks of several devices with the others, and none from the beginning",
        {f"{_E}.list_schedule:earliest": always(None), f"{_E}.list_schedule:wide_first": always(None)},
        ("list: m-8-8", "list: nn-8-8", "list: x-8-6"), 40, ("earliest places", "wide blocks first")),
    Group("exact-configuration", "layouts", "few layouts are judged, and no unit is moved to another chunk",
        {f"{_R}.search:Search._looks": always(0), f"{_R}.search:FEW_LOOKS": is_now(0),
         f"{_R}.search:ALL_LAYOUTS": is_now(0)},
        ("trainings: tiny-experts-training", "training: llama-3-70b", "training: qwen3-30b-a3b"), 640,
        ("all layouts", "local moves", "search for rows", "layouts of the bound")),
    Group("exact-configuration", "paths of schedules", "no bound from paths through the passes of a schedule",
        {f"{_R}.bounds:PathBound.takes": always(False)},
        ("training: llama-3-8b, 16 sequences", "training: mixtral-8x7b", "training: llama-3-8b",
         "training: llama-3-70b", "training: qwen3-30b-a3b"), 360, ("bound by paths of a schedule",)),
    Group("graphpipe", "alike branches", "branches that are alike are told apart",
        {f"{_G}.costs:NodeBuilder._signature": lambda original: lambda *arguments: object()},
        ("graphpipe: dlrm-8, more held", "graphpipe: case-study, mixed"), 50, ("alike branches",),
        kept="without it more branches than ten have too many choices to list"),
)  # fmt: skip

GONE = (
    Gone("ip-tarnawski", "groups that cost nothing join a neighbour", 46, ("free groups",)),
    Gone("ip-tarnawski-latency", "covers of paths, and rows of whole paths for HiGHS", 113,
        ("covers of paths", "whole paths of the MIP")),
    Gone("exact-schedule", "bounds from devices as machines of their own, paths and memory", 143,
        ("bound by paths through batches", "bound by devices", "memory in releases")),
    Gone("exact-schedule", "a bound from the warm-up of all devices", 62, ("bound by warm-up",)),
    Gone("exact-beaumont", "smaller cores, loads before the solver is asked, and areas of partitions", 75,
        ("smaller cores", "loads before the solver", "areas of covers")),
    Gone("exact-beaumont", "a look at whole allocations before a schedule is sought", 9, ("windows of allocations",)),
    Gone("dp-piper", "a faster program first where batches are flushed", 16, ("fast program for flushes",)),
    Gone("graphpipe", "the least time of the work alone", 5, ("least time",)),
    Gone("graphpipe", "combinations of needs that others beat are left out", 11, ("undominated combinations",)),
    Gone("lns", "a ladder of coarser problems", 107, ("coarser problems",)),
)  # fmt: skip

NOT_WEIGHED = (
    "The integer programs of Beaumont et al., Tarnawski et al. and Piper, the layer below them that asks solvers, the "
    "second opinions and margins of solvers, the dynamic programs, and the referee.",
    "What runs inside compiled loops: machine code is made from whole modules.",
    "Methods with which papers compare theirs (greedy, PipeDream, GPipe, 1F1B and others): users ask for them by name.",
    "Bounds that say how many choices of a training cannot fit, which the answer tells.",
)
