"""A plan of any kind as stages of a model: what each holds, on which rank, and what it reads of the others.

This is what frameworks and the runtime have in common. A stage is what runs as a whole; a device whose nodes do not
follow each other holds several, so that one stage never waits for a later one. Costs are left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..instances.base.errors import InputError, UsageError, show
from ..instances.base.graph import adjacency, topological_order
from ..instances.base.quantities import several
from ..instances.networks.profile.profile import runs_backward, whole_layers
from ..instances.placement.from_profile import BACKWARD_SUFFIX

if TYPE_CHECKING:
    from ..instances.chain.plan import PatternPlan
    from ..instances.graph_pipeline.plan import StageGraphPlan
    from ..instances.networks.profile.profile import Profile, WholeLayers
    from ..instances.placement.plan import PlacementPlan
    from ..instances.registry import Plan
    from ..instances.staging.plan import LeveledStage, PlannedStage

# The configuration of a staging that computes nothing again, as lowering a profile names it.
VANILLA = "vanilla"


@dataclass(frozen=True, slots=True)
class ModelStage:
    """Nodes that run as a whole, in the order of the model."""

    nodes: tuple[str, ...]
    rank: int
    """Devices are numbered in the order of their first stages."""
    device: str
    """Name of the device in the plan."""
    in_flight: int
    """Micro-batches that a replica has run forward and not yet backward, at most."""
    k: int = 1
    """The k of the schedule kFkB."""
    replicas: int = 1
    tensor_parallel: int = 1
    on_cpu: bool = False
    samples: int | None = None
    """Samples of one of its micro-batches; None: the plan does not say, and all stages have the same number."""
    configurations: Mapping[str, str] | None = None
    """How nodes run (recomputation and the like) where that is not the usual way."""
    gpu: str | None = None
    """The type of its devices, where the plan names one."""


@dataclass(frozen=True)
class PlanStages:
    """The stages in an order in which none reads from a later one."""

    stages: tuple[ModelStage, ...]
    reads: tuple[tuple[str, str], ...] | None
    """(node, reader) on different stages; None: unknown, since there is no profile."""
    training: bool | None
    """Is the plan one for training? None: the plan does not tell."""

    @property
    def ranks(self) -> int:
        return len({stage.rank for stage in self.stages})

    @cached_property
    def stage_of(self) -> dict[str, int]:
        return {node: number for number, stage in enumerate(self.stages) for node in stage.nodes}

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """(stage, stage that reads from it), each once; without a profile the stages are taken as a row."""
        if self.reads is None:
            return tuple((number, number + 1) for number in range(len(self.stages) - 1))
        return tuple(sorted({(self.stage_of[node], self.stage_of[reader]) for node, reader in self.reads}))


def stages_of(plan: Plan, profile: Profile | None = None) -> PlanStages:
    """The stages of a plan; with the profile that it was made from, also what they read of each other."""
    readers: dict[str, Callable[[Any, Profile | None], PlanStages]] = {
        "placement": _of_placement,
        "pattern": _of_pattern,
        "stages": lambda plan, profile: _of_stages([(each, each.data_parallel) for each in plan.stages], profile),
        "leveled-stages": lambda plan, profile: _of_stages(
            [leaf for stage in plan.stages for leaf in _with_copies(stage, 1)], profile
        ),
        "stage-graph": _of_stage_graph,
    }
    if plan.kind not in readers:
        raise UsageError(f"A plan of the kind {plan.kind} has no stages that could be exported or run.")
    stages = _read(readers[plan.kind], plan, profile)
    if not stages.stages:
        raise InputError("plan", "holds no node", "give a plan that runs something")
    return stages


def _read(reader: Callable[[Any, Profile | None], PlanStages], plan: Plan, profile: Profile | None) -> PlanStages:
    """The stages of a plan of the profile's nodes, or else of its whole layers (`--option whole-layers`)."""
    try:
        return reader(plan, profile)
    except InputError:
        if profile is not None:
            with suppress(InputError):
                layers = whole_layers(profile)
                return _in_nodes(reader(plan, layers.profile), layers, profile)
        raise


def _in_nodes(stages: PlanStages, layers: WholeLayers, profile: Profile) -> PlanStages:
    """Stages of whole layers, by the nodes that these consist of."""
    divided = [
        replace(
            stage,
            nodes=tuple(node for layer in stage.nodes for node in layers.members[layer]),
            configurations=stage.configurations
            and {
                node: way
                for layer, way in stage.configurations.items()
                for node in layers.members[layer]
                if node not in layers.joined
            },
        )
        for stage in stages.stages
    ]
    return _linked(divided, profile, stages.training)


def _linked(stages: Sequence[ModelStage], profile: Profile | None, training: bool | None) -> PlanStages:
    """The stages with what they read of each other."""
    stage_of = {node: number for number, stage in enumerate(stages) for node in stage.nodes}
    return PlanStages(tuple(stages), _reads(stage_of, profile), training)


# ---- a node in one stage -------------------------------------------------------------------------------


def _owners(lists: Sequence[Sequence[Any]], profile: Profile | None) -> dict[str, int]:
    """For each node the number of the list that it is in; backward nodes go with their forward nodes."""
    owner: dict[str, int] = {}
    known = {str(node) for nodes in lists for node in nodes} if profile is None else set(profile.ids)
    for number, nodes in enumerate(lists):
        for node in map(str, nodes):
            forward = node.removesuffix(BACKWARD_SUFFIX)
            if node != forward and forward in known and (profile is None or node not in known):
                continue
            if node not in known:
                raise _another_model(f"holds the node {show(node)}", profile)
            if node in owner:
                raise InputError(
                    "plan", f"holds the node {show(node)} twice", "give a plan that the referee accepts"
                )
            owner[node] = number
    missing = None if profile is None else next((node for node in profile.ids if node not in owner), None)
    if missing is not None:
        raise _another_model(f"lacks the node {show(missing)}", profile)
    return owner


def _another_model(what: str, profile: Profile | None) -> InputError:
    name = "the model" if profile is None else f"the profile {show(profile.name)}"
    return InputError("plan", f"{what}, so it is no plan of {name}", "give the profile that the plan was made from")


def _reads(stage_of: Mapping[str, int], profile: Profile | None) -> tuple[tuple[str, str], ...] | None:
    if profile is None:
        return None
    ids = profile.ids
    reads = []
    for u, v in profile.arcs:
        x, y = stage_of[ids[u]], stage_of[ids[v]]
        if x > y:
            raise InputError(
                "plan",
                f"has the node {show(ids[v])} on stage {y}, and it reads from {show(ids[u])} on stage {x}, a later one",
                "give a plan that the referee accepts",
            )
        if x != y:
            reads.append((ids[u], ids[v]))
    return tuple(reads)


def _checked(lists: Sequence[Sequence[Any]], profile: Profile | None) -> list[tuple[str, ...]]:
    """The nodes of each stage in the order of the model, each in one stage.

    Without a profile that is the plan's order, or its reverse where numbers in names fall more often than they rise.
    """
    _owners(lists, profile)
    names = [tuple(map(str, nodes)) for nodes in lists]
    if profile is None:
        return [nodes[::-1] for nodes in names] if runs_backward(names) else names
    place = {profile.nodes[i].id: number for number, i in enumerate(profile.model_order)}
    return [tuple(sorted(nodes, key=place.__getitem__)) for nodes in names]


# ---- kinds that list their stages ----------------------------------------------------------------------


def _of_stages(
    replicated: Sequence[tuple[PlannedStage | LeveledStage, int]], profile: Profile | None
) -> PlanStages:
    """Stages in a row, each with its number of replicas; in flight they hold what the referee counts for 1F1B."""
    nodes = _checked([stage.nodes for stage, _ in replicated], profile)
    in_flight = _in_flight([copies for _, copies in replicated])
    stages = [
        ModelStage(
            nodes[number],
            number,
            f"stage {number}",
            in_flight[number],
            replicas=copies,
            tensor_parallel=stage.tensor_parallel,
            configurations={str(n): way for n, way in stage.configurations.items() if way != VANILLA} or None,
            gpu=getattr(stage, "device_type", None),
        )
        for number, (stage, copies) in enumerate(replicated)
    ]
    return _linked(stages, profile, None if profile is None or profile.training else False)


def _with_copies(stage: LeveledStage, above: int) -> list[tuple[LeveledStage, int]]:
    """The innermost stages of a stage, with their replicas on all levels; `above` are those of the levels above."""
    copies = above * stage.data_parallel
    if not stage.children:
        return [(stage, copies)]
    return [leaf for child in stage.children for leaf in _with_copies(child, copies)]


def _in_flight(replicas: Sequence[int]) -> list[int]:
    """Micro-batches that a replica of each stage holds in 1F1B.

    That is one for each replica of this stage and of all later ones, shared among the replicas of this stage.
    """
    return [-(-sum(replicas[number:]) // max(copies, 1)) for number, copies in enumerate(replicas)]


def _of_stage_graph(plan: StageGraphPlan, profile: Profile | None) -> PlanStages:
    """The stages in an order in which none reads from a later one; a plan may list them in any order."""
    nodes = _checked([stage.nodes for stage in plan.stages], profile)
    last = max((number for edge in plan.edges for number in edge), default=0)
    if last >= len(plan.stages):
        raise InputError("plan.edges", f"name the stage {last}", "name stages that there are")
    if topological_order(adjacency(len(plan.stages), plan.edges)) is None:
        raise InputError("plan.edges", "lead around in a circle", "give a plan that the referee accepts")
    order = _earliest_first(plan.edges, range(len(plan.stages)))
    if profile is None and {*pairwise(order)} != {*plan.edges}:
        raise UsageError(
            "The stages of the plan form a graph; give the profile after the plan, which says what they read."
        )
    stages = []
    for rank, number in enumerate(order):
        stage = plan.stages[number]
        in_flight = max(1, stage.in_flight // max(stage.micro_batch, 1))
        stages.append(
            ModelStage(
                nodes[number],
                rank,
                f"stage {number}",
                in_flight,
                k=stage.k,
                replicas=stage.devices,
                samples=stage.micro_batch,
            )
        )
    return _linked(stages, profile, True)


# ---- kinds that say which device holds a node ----------------------------------------------------------


def _of_pattern(plan: PatternPlan, profile: Profile | None) -> PlanStages:
    """Layers of a chain are runs of the profile's nodes, as lowering divides them."""
    from ..instances.base.graph import by_depth, cut_into_groups

    if profile is None:
        raise UsageError(
            "The plan of a chain numbers its layers and names no node; give the profile after the plan."
        )
    order = by_depth(profile.topological_order, profile.successors)
    layers = cut_into_groups(order, profile.successors)
    if len(layers) != len(plan.allocation):
        raise _another_model(
            f"has {several(len(plan.allocation), 'layer')} where the profile makes {len(layers)}", profile
        )
    owner = [0] * len(profile.nodes)
    for layer, gpu in zip(layers, plan.allocation, strict=True):
        for i in layer.members:
            owner[i] = gpu
    holders = {gpu: ModelStage((), 0, f"gpu {gpu}", 1) for gpu in set(plan.allocation)}
    return _by_device(profile, owner, holders, training=True)


def _of_placement(plan: PlacementPlan, profile: Profile | None) -> PlanStages:
    owner = _owners([device.nodes for device in plan.devices], profile)
    holders = {
        d: ModelStage((), 0, e.name, 1, on_cpu=e.type == "cpu", gpu=e.accelerator_type)
        for d, e in enumerate(plan.devices)
    }
    training = any(str(node) not in owner for device in plan.devices for node in device.nodes)
    if profile is not None:
        return _by_device(profile, [owner[node] for node in profile.ids], holders, training)
    held = {d: tuple(node for node in owner if owner[node] == d) for d in sorted(set(owner.values()))}
    stages = [replace(holders[d], nodes=nodes, rank=rank) for rank, (d, nodes) in enumerate(held.items())]
    return PlanStages(tuple(stages), None, training)


def _by_device(
    profile: Profile, owner: Sequence[int], holders: Mapping[int, ModelStage], training: bool
) -> PlanStages:
    """The stages of a plan that gives each node to a device, its owner: one for each piece of a device's nodes.

    `holders`: for each device a stage without nodes.
    """
    piece_of = pieces(profile, owner)
    place = {i: number for number, i in enumerate(profile.model_order)}
    nodes_of: dict[int, list[int]] = {}
    for i in profile.model_order:
        nodes_of.setdefault(piece_of[i], []).append(i)
    members = list(nodes_of.values())
    number_of = {i: number for number, nodes in enumerate(members) for i in nodes}
    arcs = {(number_of[u], number_of[v]) for u, v in profile.arcs if piece_of[u] != piece_of[v]}
    order = _earliest_first(arcs, [place[nodes[0]] for nodes in members])
    devices = [owner[members[number][0]] for number in order]
    ranks = {device: rank for rank, device in enumerate(dict.fromkeys(devices))}
    copies = [1 if len(order) > len(ranks) else holders[device].replicas for device in devices]
    stages = []
    for number, device, in_flight in zip(order, devices, _in_flight(copies), strict=True):
        nodes = tuple(profile.nodes[i].id for i in members[number])
        stages.append(replace(holders[device], nodes=nodes, rank=ranks[device], in_flight=in_flight))
    return _linked(stages, profile, training)


def pieces(profile: Profile, owner: Sequence[int]) -> list[int]:
    """For each node the number of its piece: nodes of one owner that run as a whole, so that none waits for itself.

    Where devices wait for each other in a circle, the nodes of a device are divided by how often a path to them changes
    devices, at most. That number never falls along an arc and rises between devices, so these pieces cannot wait in a
    circle. Then neighbouring pieces of one device are merged in turn, where that closes no circle.
    """
    arcs = profile.arcs
    if _acyclic(list(owner), arcs):
        return list(owner)
    level = [0] * len(owner)
    for v in profile.topological_order:
        for u in profile.predecessors[v]:
            level[v] = max(level[v], level[u] + (owner[u] != owner[v]))
    keys = sorted(set(zip(owner, level, strict=True)))
    numbers = {key: number for number, key in enumerate(keys)}
    piece = [numbers[key] for key in zip(owner, level, strict=True)]
    merged = list(range(len(keys)))
    for number in range(1, len(keys)):
        if keys[number][0] != keys[number - 1][0]:
            continue
        joined = [merged[number - 1] if other == number else home for other, home in enumerate(merged)]
        if _acyclic([joined[p] for p in piece], arcs):
            merged = joined
    return [merged[p] for p in piece]


def _acyclic(part: Sequence[int], arcs: Sequence[tuple[int, int]]) -> bool:
    numbers = {p: number for number, p in enumerate(dict.fromkeys(part))}
    pairs = {(numbers[part[u]], numbers[part[v]]) for u, v in arcs if part[u] != part[v]}
    return topological_order(adjacency(len(numbers), pairs)) is not None


def _earliest_first(arcs: Iterable[tuple[int, int]], places: Sequence[int]) -> list[int]:
    """A topological order; of those that may come next the one with the earliest place."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(places)))
    graph.add_edges_from(arcs)
    return list(nx.lexicographical_topological_sort(graph, key=places.__getitem__))
