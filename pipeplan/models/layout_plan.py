"""A Megatron layout that people run today as a plan of ours, which the referee judges as it judges the optimum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ..instances.base.cluster import Cluster
from ..instances.base.errors import InputError, UsageError
from ..instances.base.kind import Lowered
from ..instances.base.quantities import several
from ..instances.base.result import Found, Result, Stop
from ..instances.lowering import on_cluster
from ..instances.networks.megatron_layout import Layout, read_layout
from ..instances.networks.profile.options import ProfileOptions
from ..instances.registry import Plan
from .export.contract import ToExport
from .export.names import NodeNames, Parts, parts_of
from .stages import VANILLA, PlanStages

if TYPE_CHECKING:
    from ..instances.chain.plan import PatternPlan
    from ..instances.chain.problem import ChainProblem
    from ..instances.graph_pipeline.plan import StageGraphPlan
    from ..instances.graph_pipeline.problem import GraphPipelineProblem
    from ..instances.networks.profile.profile import Profile
    from ..instances.placement.plan import PlacementPlan
    from ..instances.placement.problem import PlacementProblem
    from ..instances.staging.plan import StagedPlan
    from ..instances.staging.problem import StagingProblem


def plan_of_layout(text: str, profile: Profile, cluster: Cluster) -> tuple[Lowered, Plan]:
    """The problem of the profile on that cluster, with notes, and the plan that the layout describes."""
    parts = _parts(profile)
    layout = read_layout(text, len(parts.layers), len(parts.predictors))
    ranks = layout.ranks or cluster.devices
    if ranks is None:
        raise InputError("cluster", "is missing, and the layout states no number of ranks", "give --devices")
    if len(layout.stages) % ranks:
        raise InputError(
            "layout",
            f"has {several(len(layout.stages), 'stage')} for {several(ranks, 'rank')}",
            "give as many --devices as it has ranks",
        )
    options = cluster.profile or ProfileOptions()
    if len(layout.stages) > ranks and options.kind is None:  # ranks with several stages make a placement
        cluster = replace(cluster, profile=replace(options, kind="placement"))
    lowered = on_cluster(profile, cluster)
    nodes_by_rank = [(number % ranks, nodes) for number, nodes in enumerate(stages_in(layout, parts)) if nodes]
    plan: Plan = _MAKERS[lowered.problem.kind](profile, lowered.problem, nodes_by_rank)
    return lowered, plan


def result_of_layout(problem: Any, plan: Plan, text: str) -> Result:
    """The referee's ruling on the plan, as a result that every command reads."""
    from ..planners.referee import rule, rules_of
    from ..planners.run.judge import settle
    from ..planners.run.solve import describe

    rules = rules_of(problem, {"contiguity": "none"})
    claim = Result(describe(problem), Stop.COMPLETED, Found.NOTHING, options=rules.to_options())
    shown = " ".join(text.split())
    read = f"read from the layout {shown if len(shown) <= 100 else shown[:97] + '...'}"
    return replace(settle(claim, rule(problem, plan, rules)), messages=(read,))


def stages_in(layout: Layout, parts: Parts) -> list[tuple[str, ...]]:
    """The nodes of each stage; what comes before the first layer is E, what comes after the last one L."""
    layers, predictors = iter(parts.layers), iter(parts.predictors)
    stages = []
    for letters in layout.stages:
        nodes: list[str] = []
        for letter in letters:
            if letter == "E":
                nodes += parts.before
            elif letter == "L":
                nodes += parts.after
            else:
                nodes += next(layers if letter == "t" else predictors)
        stages.append(tuple(nodes))
    return stages


def _parts(profile: Profile) -> Parts:
    job = ToExport("megatron", PlanStages((), None, None), profile)
    return parts_of(NodeNames(job), [profile.nodes[i].id for i in profile.model_order], profile, "a layout")


# ---- plans of each kind --------------------------------------------------------------------------------

# The rank and the nodes of each stage that holds any.
Held = Sequence[tuple[int, tuple[str, ...]]]


def _placement(profile: Profile, problem: PlacementProblem, held: Held) -> PlacementPlan:
    from ..instances.placement.from_profile import BACKWARD_SUFFIX
    from ..instances.placement.plan import PlacementPlan

    rank_of = {node: rank for rank, nodes in held for node in nodes}
    if max(rank_of.values()) >= problem.accelerators:
        raise InputError(
            "layout",
            f"has {several(max(rank_of.values()) + 1, 'rank')} for {several(problem.accelerators, 'device')}",
            "give as many --devices as it has ranks",
        )
    homes = {
        node.id: rank_of[node.id if node.id in rank_of else str(node.id).removesuffix(BACKWARD_SUFFIX)]
        for node in problem.nodes
    }
    return PlacementPlan.from_assignment(problem, homes)


def _staging(profile: Profile, problem: StagingProblem, held: Held) -> StagedPlan:
    from ..instances.staging.plan import PlannedStage, StagedPlan

    _refuse_several(held, "staging")
    if problem.levels:
        raise UsageError("A layout says nothing of devices within devices; give --bandwidth in place of --levels.")
    return StagedPlan(tuple(PlannedStage(nodes, 1, 1, dict.fromkeys(nodes, VANILLA)) for _, nodes in held))


def _chain(profile: Profile, problem: ChainProblem, held: Held) -> PatternPlan:
    """The best pattern for these stages, since a layout states none."""
    from ..instances.base.graph import by_depth, cut_into_groups
    from ..planners.chain.baselines import best_contiguous

    _refuse_several(held, "chain")
    order = by_depth(profile.topological_order, profile.successors)
    sizes = [len(group.members) for group in cut_into_groups(order, profile.successors)]
    layer_of = dict(zip((0, *accumulate(sizes)), range(len(sizes) + 1), strict=True))
    ends = [0, *accumulate(len(nodes) for _, nodes in held)]
    if any(end not in layer_of for end in ends):
        raise UsageError("The layout divides what is one layer of the chain; give --kind placement.")
    plan = best_contiguous(problem, tuple(layer_of[end] for end in ends))
    if plan is None:
        raise UsageError(
            "No pattern of these stages fits into the memory; give --kind staging, which says by how much."
        )
    return plan


def _graph_pipeline(profile: Profile, problem: GraphPipelineProblem, held: Held) -> StageGraphPlan:
    """1F1B with the profile's micro-batch."""
    from ..instances.graph_pipeline.plan import GraphStage, StageGraphPlan

    _refuse_several(held, "graph-pipeline")
    size = profile.micro_batch
    stages = tuple(
        GraphStage(nodes, 1, size, 1, min(size * (len(held) - number), problem.mini_batch))
        for number, (_, nodes) in enumerate(held)
    )
    return StageGraphPlan(stages, tuple((number, number + 1) for number in range(len(held) - 1)))


def _refuse_several(held: Held, kind: str) -> None:
    if len({rank for rank, _ in held}) < len(held):
        raise UsageError(f"The layout has ranks with several stages, which no {kind} has; give --kind placement.")


_MAKERS: dict[str, Callable[[Any, Any, Held], Any]] = {
    "placement": _placement,
    "staging": _staging,
    "chain": _chain,
    "graph-pipeline": _graph_pipeline,
}
