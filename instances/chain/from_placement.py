"""Placement problem or PipeDream profile -> chain, by cutting the graph into groups of nodes.

Forward nodes, in order of depth, are cut wherever few tensors pass (`passing`, 1 unless given). A backward node goes
with the forward nodes of its colour, whose groups become one, or else with the node before or after it: so F_l and
B_l share a GPU.

What is lost: the nodes of a group cannot be divided; CPUs, and that nodes may run on them; for placement problems
also what memory is used for: the size of a node is its weights, counted once (all the time), and what passes
between groups has a time but no size unless a bandwidth is given. Tensors that pass by groups that do not read
them are charged to every border that they cross, and so are backward edges, in whichever direction they point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..checks import check_amount, check_count
from ..errors import InputError, show
from ..placement.pipedream import Profile, ProfileCluster, lower_profile
from ..placement.problem import PlacementProblem
from .linear import Group, by_depth, cut_into_groups, with_runs_joined
from .problem import ChainProblem

MS_PER_S = 1e3


def placement_to_chain(
    problem: PlacementProblem, *, gpus: int | None = None, bandwidth: float | None = None, passing: int = 1
) -> ChainProblem:
    """The chain of a placement problem, on its accelerators unless `gpus` says otherwise.

    `bandwidth`, in bytes per time unit, turns transfer times into the sizes of activations.
    """
    _check_supported(problem)
    groups = placement_groups(problem, passing)
    group_of = {node: g for g, group in enumerate(groups) for node in group.members}
    borders = len(groups) - 1
    forward_times = [math.fsum(problem.nodes[u].transfer_time for u in group.sends) for group in groups[:-1]]
    backward_times = [math.fsum(_crossing(problem, group_of, border)) for border in range(borders)]
    times = (*forward_times, 0.0, *reversed(backward_times))
    sizes = [0.0] * len(times) if bandwidth is None else [time * bandwidth for time in times]
    return ChainProblem(
        forward=_sums(problem, groups, backward=False),
        backward=_sums(problem, groups, backward=True),
        activations=(0.0, *sizes, 0.0),
        weights=tuple(math.fsum(problem.nodes[i].size_bytes for i in group.members) for group in groups),
        gpus=problem.accelerators if gpus is None else gpus,
        memory_bytes=problem.memory_bytes,
        transfer_times=times,
        weight_copies=1.0,
        name=problem.name,
        time_unit=problem.time_unit,
    )


def placement_groups(problem: PlacementProblem, passing: int = 1) -> list[Group]:
    """Positions of the nodes, forward and backward, that make up each layer of the chain."""
    check_count("passing", passing)
    forward = [i for i in problem.topological_order if not problem.nodes[i].backward]
    if not forward:
        raise InputError("nodes", "has no forward node", "give the forward pass, too")
    readers = [[v for v in out if not problem.nodes[v].backward] for out in problem.successors]
    groups = cut_into_groups(by_depth(forward, readers), readers, max(1, passing))
    groups = with_runs_joined(groups, _tied(problem, groups))
    group_of = {node: g for g, group in enumerate(groups) for node in group.members}
    _pair_backward_nodes(problem, group_of)
    members: list[list[int]] = [[] for _ in groups]
    for i in problem.topological_order:
        members[group_of[i]].append(i)
    return [Group(tuple(mine), group.sends) for mine, group in zip(members, groups, strict=True)]


def _tied(problem: PlacementProblem, groups: Sequence[Group]) -> list[tuple[int, int]]:
    """Runs of groups that forward nodes of one colour hold together."""
    group_of = {node: g for g, group in enumerate(groups) for node in group.members}
    homes = [[group_of[i] for i in members if i in group_of] for members in problem.color_classes]
    return [(min(home), max(home)) for home in homes if home]


def _pair_backward_nodes(problem: PlacementProblem, group_of: dict[int, int]) -> None:
    """By colour; then with the backward node that comes before, else after; else with the last forward node."""
    for members in problem.color_classes:
        homes = {group_of[i] for i in members if i in group_of}
        group_of.update((i, home) for home in homes for i in members)
    last = max(group_of.values())
    for neighbours, order in (
        (problem.predecessors, problem.topological_order),
        (problem.successors, tuple(reversed(problem.topological_order))),
    ):
        for i in order:
            homes = {group_of[j] for j in neighbours[i] if j in group_of and problem.nodes[j].backward}
            if i not in group_of and homes:
                group_of[i] = min(homes)
    for i in range(len(problem.nodes)):
        group_of.setdefault(i, last)


def _crossing(problem: PlacementProblem, group_of: dict[int, int], border: int) -> list[float]:
    """Transfer times of the backward nodes whose outputs cross the border after group `border`, each once."""
    return [
        problem.nodes[u].transfer_time
        for u, readers in enumerate(problem.successors)
        if problem.nodes[u].backward and any((group_of[u] <= border) != (group_of[v] <= border) for v in readers)
    ]


def _sums(problem: PlacementProblem, groups: Sequence[Group], backward: bool) -> tuple[float, ...]:
    return tuple(
        math.fsum(problem.nodes[i].accelerator_time for i in group.members if problem.nodes[i].backward == backward)
        for group in groups
    )


def _check_supported(problem: PlacementProblem) -> None:
    for i, node in enumerate(problem.nodes):
        if not node.supported:
            raise InputError(
                f"nodes[{i}].supported",
                f"is false for node {show(node.id)}: a chain runs on accelerators alone",
                "mark the node as supported, with its time on an accelerator",
            )


# ---- profiles ------------------------------------------------------------------------------------------


def profile_to_chain(
    profile: Profile,
    *,
    gpus: int,
    bandwidth: float | None = None,
    memory_bytes: float | None = None,
    passing: int = 1,
    name: str = "profile",
) -> ChainProblem:
    """The chain of a PipeDream profile: times in ms, true sizes of activations and weights; bytes per second.

    Nodes without time and parameters at the start are the network's input.
    """
    if bandwidth is not None:
        check_amount("bandwidth", bandwidth)
    # Without a cluster's numbers, for the graph and its checks alone.
    graph = lower_profile(profile, ProfileCluster(1, None, 1.0), training=False, name=name)
    order = by_depth(graph.topological_order, graph.successors)
    groups = cut_into_groups(order, graph.successors, max(1, passing))
    inputs = 0.0
    if len(groups) > 1 and all(_is_input(profile, i) for i in groups[0].members):
        inputs = _bytes(profile, groups[0])
        groups = groups[1:]
    return ChainProblem(
        forward=tuple(math.fsum(profile.nodes[i].forward_ms for i in group.members) for group in groups),
        backward=tuple(math.fsum(profile.nodes[i].backward_ms for i in group.members) for group in groups),
        activations=(inputs, *(_bytes(profile, group) for group in groups)),
        weights=tuple(math.fsum(profile.nodes[i].parameter_bytes for i in group.members) for group in groups),
        gpus=gpus,
        memory_bytes=memory_bytes,
        bandwidth=None if bandwidth is None else bandwidth / MS_PER_S,
        name=name,
        time_unit="ms",
    )


def _is_input(profile: Profile, i: int) -> bool:
    node = profile.nodes[i]
    return not (node.forward_ms or node.backward_ms or node.parameter_bytes)


def _bytes(profile: Profile, group: Group) -> float:
    """What passes to the next group; for the last group, the outputs that nobody reads."""
    read = {edge.source for edge in profile.edges}
    outputs = group.sends or [i for i in group.members if profile.nodes[i].id not in read]
    return math.fsum(profile.nodes[i].activation_bytes for i in outputs)
