"""The networks of GraphPipe's evaluation: several branches that a concatenation joins, and a chain to compare with.

Sizes are those of its appendix; numbers have 4 bytes. What it leaves open, and our reading:

- a transformer layer is attention, a dense layer with a fused activation, and a dense layer, without normalisation and
  residual sums; network inputs come from the host and cost nothing; the loss is free;
- MMT has four branches (the text says two in one place); DLRM and CANDLE-Uno seven dense branches (eight in one place);
- DLRM ends in dense layers 4096, 4096 and 1, CANDLE-Uno in one dense layer of 1 output; `top` adds others;
- tables of DLRM have 1,000,000 rows of 64 numbers and 100 look-ups for each sample, and are synchronised as a whole;
- the case study has the layers of MMT, and so little memory that a row of eight stages holds micro-batches of two
  samples, not of four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypedDict, Unpack

from pipeplan.instances.base.checks import MAX_DEVICES, check_amount, check_whole
from pipeplan.instances.base.errors import named
from pipeplan.instances.base.graph import adjacency, heights_of
from pipeplan.instances.base.quantities import GIB, MIB
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import (
    MAX_MINI_BATCH,
    GraphPipelineProblem,
    Link,
    Operator,
    TimeCurve,
)
from pipeplan.instances.graph_pipeline.referee import forced_edges
from pipeplan.instances.physics.hardware import GPUS

# ---- clusters --------------------------------------------------------------------------------------------
# Named clusters, and how long an operator takes on one of their devices.
#
# An operator on q samples takes
#
#     launch + max(operations q / (rate e(q)), moved bytes / memory bandwidth),   e(q) = q / (q + h),
#
# so that h samples run at half the rate: small shares waste a device. Our assumptions (no measurement was
# published): the effective rate of 24e12 operations per second, which reproduces the order of magnitude of the
# throughputs published for a V100 with tensor cores (11.6 to 18.3e12 including all that a pipeline loses); h = 0.6
# samples of a transformer branch with 256 tokens and 64 samples of dense layers on single rows; a launch of 5
# microseconds.

NUMBER_BYTES = 4
# Decimal places of times in seconds: with picoseconds files stay readable, and nothing that matters is rounded.
DIGITS = 12


@dataclass(frozen=True, slots=True)
class ClusterProfile:
    """A device, and the links that join it to others in its node and in other nodes."""

    name: str
    flops_per_s: float
    """The rate that large kernels reach, which is below the peak of the data sheet."""
    memory_bytes_per_s: float
    memory_bytes: float
    link: Link
    node_link: Link
    devices_per_node: int
    launch_s: float = 5e-6

    def seconds(self, flops: float, moved_bytes: float, q: float, half_samples: float) -> float:
        """Time of one operator on q samples: `flops` and `moved_bytes` are of all of them."""
        if not flops and not moved_bytes:
            return 0.0
        efficiency = q / (q + half_samples)
        return self.launch_s + max(flops / (self.flops_per_s * efficiency), moved_bytes / self.memory_bytes_per_s)


_V100 = GPUS["v100-16gb"]
_DEVICE = (_V100.memory_rate, 16.0 * GIB)

CLUSTERS: Mapping[str, ClusterProfile] = {
    cluster.name: cluster
    for cluster in (
        # Summit's nodes as GraphPipe used them: 4 of 6 V100 (16 GB, 900 GB/s), NVLink 50 GB/s each way between two
        # devices, EDR InfiniBand 100 Gb/s on one rail; latencies of 5 and 10 microseconds are ours.
        ClusterProfile("summit-v100", 24e12, *_DEVICE, Link(50e9, 5e-6), Link(12.5e9, 1e-5), 4),
        # Summit without tensor cores: the single-precision peak of the data sheet.
        ClusterProfile("summit-v100-fp32", _V100.single_flops, *_DEVICE, Link(50e9, 5e-6), Link(12.5e9, 1e-5), 4),
        # Summit with a network that takes no time: what is left is computation and the shape of the schedule.
        ClusterProfile("summit-v100-ideal", 24e12, *_DEVICE, Link(), Link(), 4),
    )
}


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """Operations and bytes of an operator for one sample."""

    flops: float
    """Operations of the forward pass; a multiply-add counts as two."""
    parameters: int
    read_elements: float
    """Elements of activations that a forward pass reads."""
    output_elements: int
    stash_elements: int
    """Elements kept for the backward pass, the output included; inputs count with the operator that makes them."""
    parameters_read: bool = True
    """Does a pass read all of its parameters? A look-up in a table reads only rows."""
    backward_factor: float = 2.0
    """Operations and traffic of the backward pass, as a multiple of those of the forward pass."""

    def moved_bytes(self, q: float) -> float:
        """Bytes that a forward pass on q samples reads and writes."""
        parameters = self.parameters if self.parameters_read else 0
        return NUMBER_BYTES * (q * (self.read_elements + self.output_elements) + parameters)


def _operator(
    name: str, cost: OperatorCost, cluster: ClusterProfile, mini_batch: int, half_samples: float
) -> Operator:
    """The operator with its times at 1, 2, 4, ... samples; between them times are nearly linear."""
    samples = tuple(2**e for e in range(mini_batch.bit_length()))

    def curve(factor: float) -> TimeCurve:
        times = (
            cluster.seconds(factor * cost.flops * q, factor * cost.moved_bytes(q), q, half_samples) for q in samples
        )
        return TimeCurve(samples, tuple(round(time, DIGITS) for time in times))

    elements = (cost.parameters, cost.stash_elements, cost.output_elements)
    weights, stash, output = (float(NUMBER_BYTES * count) for count in elements)
    return Operator(name, curve(1.0), curve(cost.backward_factor), weights, stash, output)


# ---- sizes ---------------------------------------------------------------------------------------------

TOKENS, HIDDEN, HEADS, INNER = 256, 1024, 16, 4096
# Width of the dense layers in DLRM and CANDLE-Uno.
WIDTH = 4096
# Tables of DLRM: a sample looks up 100 rows of 64 numbers, concatenated.
ROWS, EMBEDDING, LOOKUPS = 1_000_000, 64, 100

# Numbers of samples that run at half the rate (h above).
TRANSFORMER_HALF, DENSE_HALF = 0.6, 64.0

# Room for 25 samples of a layer besides its weights and gradients: 8 micro-batches of 2 and 5 of 4 fit, 8 of 4 do
# not.
CASE_STUDY_MEMORY = 448.0 * MIB
CASE_STUDY_BATCH = 64

MAX_BRANCHES = 1_000
MAX_LAYERS = 1_000


# ---- operators -------------------------------------------------------------------------------------------


def dense(inputs: int, outputs: int, rows: int = 1) -> OperatorCost:
    """A matrix without bias on so many rows of a sample; an activation is fused."""
    return OperatorCost(
        2.0 * rows * inputs * outputs, inputs * outputs, rows * inputs, rows * outputs, rows * outputs
    )


def attention(tokens: int, hidden: int, heads: int) -> OperatorCost:
    """Attention as one operator: queries, keys, values, scores of each head, context, projection."""
    flops = 8.0 * tokens * hidden**2 + 4.0 * tokens**2 * hidden
    inner = 4 * tokens * hidden + heads * tokens**2
    return OperatorCost(flops, 4 * hidden**2, tokens * hidden + 2 * inner, tokens * hidden, inner + tokens * hidden)


def embedding_bag(rows: int, width: int, lookups: int) -> OperatorCost:
    """An operator that puts rows of a table side by side: it computes nothing, and reads only these rows."""
    elements = lookups * width
    return OperatorCost(0.0, rows * width, elements, elements, elements, parameters_read=False, backward_factor=1.0)


# ---- graphs ----------------------------------------------------------------------------------------------


@dataclass
class _Graph:
    """Operators as they come, and the edges between them."""

    costs: dict[str, OperatorCost] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, cost: OperatorCost, after: Sequence[str] = ()) -> str:
        self.costs[name] = cost
        self.edges += [(source, name) for source in after]
        return name

    def row(self, entries: Sequence[tuple[str, OperatorCost]], after: Sequence[str] = ()) -> str:
        """Add operators one after the other; return the name of the last."""
        for name, cost in entries:
            after = [self.add(name, cost, after)]
        return after[0]

    def join(self, ends: Sequence[str]) -> str:
        """Add the concatenation of all branches, which computes nothing, and copies forward and backward."""
        elements = sum(self.costs[end].output_elements for end in ends)
        cost = OperatorCost(0.0, 0, elements, elements, elements, backward_factor=1.0)
        return self.add("concat", cost, ends)

    def top(self, ends: Sequence[str], widths: Sequence[int]) -> None:
        """Add the concatenation of all branches, and dense layers on it."""
        joined = self.join(ends)
        self.row(_perceptron("top", [self.costs[joined].output_elements, *widths]), [joined])

    def problem(
        self,
        name: str,
        devices: int,
        per_device: int,
        usual_half: float,
        *,
        mini_batch: int | None = None,
        cluster: str = "summit-v100",
        memory_bytes: float | None = None,
        half_samples: float | None = None,
    ) -> GraphPipelineProblem:
        """The problem on a cluster; without a mini-batch the evaluation's number of samples for each device."""
        check_whole("devices", devices, MAX_DEVICES)
        batch = per_device * devices if mini_batch is None else mini_batch
        check_whole("mini_batch", batch, MAX_MINI_BATCH)
        on, half = named(cluster, CLUSTERS, "cluster"), usual_half if half_samples is None else half_samples
        check_amount("half_samples", half)
        operators = tuple(_operator(key, cost, on, batch, half) for key, cost in self.costs.items())
        memory, links = on.memory_bytes if memory_bytes is None else memory_bytes, (on.link, on.node_link)
        facts = (batch, devices, memory, *links, on.devices_per_node)
        return GraphPipelineProblem(operators, tuple(self.edges), *facts, name=name)


def _transformer(prefix: str, layers: int) -> list[tuple[str, OperatorCost]]:
    """Three operators for each layer."""
    return [
        entry
        for layer in range(layers)
        for entry in (
            (f"{prefix}.{layer}.attention", attention(TOKENS, HIDDEN, HEADS)),
            (f"{prefix}.{layer}.up", dense(HIDDEN, INNER, TOKENS)),
            (f"{prefix}.{layer}.down", dense(INNER, HIDDEN, TOKENS)),
        )
    ]


def _perceptron(prefix: str, widths: Sequence[int]) -> list[tuple[str, OperatorCost]]:
    return [(f"{prefix}.{i}", dense(inputs, outputs)) for i, (inputs, outputs) in enumerate(pairwise(widths))]


def _check_size(branches: int, layers: int) -> None:
    check_whole("branches", branches, MAX_BRANCHES)
    check_whole("layers", layers, MAX_LAYERS)


# ---- models ----------------------------------------------------------------------------------------------


class Setting(TypedDict, total=False):
    """Arguments of every model; a mini-batch, a memory and a number of samples at half the rate that are left out are
    the model's own."""

    mini_batch: int | None
    cluster: str
    memory_bytes: float | None
    half_samples: float


def mmt(devices: int = 8, branches: int = 4, layers: int = 8, **setting: Unpack[Setting]) -> GraphPipelineProblem:
    """Multi-modal transformer: branches of transformer layers, concatenated at the end."""
    _check_size(branches, layers)
    graph = _Graph()
    graph.join([graph.row(_transformer(f"branch{i}", layers)) for i in range(branches)])
    return graph.problem(f"mmt-{devices}", devices, 16, TRANSFORMER_HALF, **setting)


def dlrm(
    devices: int = 8,
    branches: int = 7,
    layers: int = 4,
    top: Sequence[int] = (WIDTH, WIDTH, 1),
    **setting: Unpack[Setting],
) -> GraphPipelineProblem:
    """Recommendation model: as many dense branches as tables, concatenated, and dense layers on top."""
    _check_size(branches, layers)
    graph = _Graph()
    ends = [graph.row(_perceptron(f"dense{i}", [WIDTH] * (layers + 1))) for i in range(branches)]
    ends += [graph.add(f"table{i}", embedding_bag(ROWS, EMBEDDING, LOOKUPS)) for i in range(branches)]
    graph.top(ends, top)
    return graph.problem(f"dlrm-{devices}", devices, 64, DENSE_HALF, **setting)


def candle_uno(
    devices: int = 8, branches: int = 7, layers: int = 4, top: Sequence[int] = (1,), **setting: Unpack[Setting]
) -> GraphPipelineProblem:
    """Drug response model: dense branches, concatenated, and dense layers on top."""
    _check_size(branches, layers)
    graph = _Graph()
    graph.top([graph.row(_perceptron(f"branch{i}", [WIDTH] * (layers + 1))) for i in range(branches)], top)
    return graph.problem(f"candle-uno-{devices}", devices, 1024, DENSE_HALF, **setting)


def case_study(
    devices: int = 8, branches: int = 2, layers: int = 4, join: bool = True, **setting: Unpack[Setting]
) -> GraphPipelineProblem:
    """Two branches of four transformer layers, one layer for each of eight devices; `join` adds the concatenation.

    Without it the two branches are independent, as if the concatenation were executed outside of all stages.
    """
    _check_size(branches, layers)
    graph = _Graph()
    ends = [graph.row(_transformer(f"branch{i}", layers)) for i in range(branches)]
    if join:
        graph.join(ends)
    if setting.get("mini_batch") is None:
        setting["mini_batch"] = CASE_STUDY_BATCH
    if setting.get("memory_bytes") is None:
        setting["memory_bytes"] = CASE_STUDY_MEMORY
    return graph.problem("case-study", devices, 1, TRANSFORMER_HALF, **setting)


def sequential(devices: int = 8, layers: int = 32, **setting: Unpack[Setting]) -> GraphPipelineProblem:
    """The transformer layers of MMT in one row, without branches."""
    _check_size(1, layers)
    graph = _Graph()
    graph.row(_transformer("layer", layers))
    return graph.problem(f"sequential-{devices}", devices, 16, TRANSFORMER_HALF, **setting)


# ---- plans by hand: one device and one stage for each layer, as a graph or in one row -----------------


def layer_stages(problem: GraphPipelineProblem, micro_batch: int, in_a_row: bool = False) -> StageGraphPlan:
    """A plan with a stage for each layer: operators whose names differ in the last part alone are a layer, and one
    without parts joins the layer before it.

    `in_a_row` orders the stages one after the other, branch after branch, as a sequential pipeline does. Each stage
    holds as many micro-batches as there are stages on the longest path from it to the end.
    """
    layers: dict[str, list[str]] = {}
    for name in (str(entry.id) for entry in problem.operators):
        layers.setdefault(name.rpartition(".")[0] or next(reversed(layers), ""), []).append(name)
    stages = tuple(GraphStage(tuple(nodes), 1, micro_batch) for nodes in layers.values())
    edges = set(forced_edges(problem, StageGraphPlan(stages, ())))
    if in_a_row:
        edges |= set(pairwise(range(len(stages))))
    heights = heights_of(adjacency(len(stages), sorted(edges)))
    assert heights is not None, "layers of a branch follow each other"
    in_flight = [min(height * micro_batch, problem.mini_batch) for height in heights]
    return StageGraphPlan(
        tuple(replace(stage, in_flight=samples) for stage, samples in zip(stages, in_flight, strict=True)),
        tuple(sorted(edges)),
    )
