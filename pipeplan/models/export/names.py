"""Which modules of the model a node stands for, in the words of the framework."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...instances.base.errors import InputError, UsageError, did_you_mean, errors_in, show
from ...instances.base.fields import as_object, shorten
from ...instances.base.json_file import read_json
from ...instances.networks.profile.profile import Profile, number_in
from .contract import (
    CONTIGUOUS,
    ToExport,
    check_accelerators,
    check_neighbours,
    check_one_stage_per_rank,
    check_ordered,
    check_round_robin,
)

# What follows the name of a module that is called several times, as `@1`.
_CALL = re.compile(r"@\d+$")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


class NodeNames:
    """The modules of the model that each node stands for; its id where no profile says which.

    A profile lists every module in which an operation of the node runs. A node that has the name of one, or of what
    several of them lie in, is that module; of the others only those count that hold no other node's modules: what a
    model computes in a container, between two parts of it, has no name.
    """

    def __init__(self, job: ToExport) -> None:
        self.job = job
        profile = job.profile
        self.by_node = None if profile is None or not any(n.modules for n in profile.nodes) else _by_node(profile)
        self.with_parameters = {
            around
            for n in ([] if profile is None else profile.nodes)
            for p in n.parameters
            for around in around_of(p)
        }
        names = [name for stage in job.stages for n in stage.nodes for name in self._own(n)]
        for old in job.options.rename:
            if not any(name == old or name.startswith(old + ".") for name in names):
                raise UsageError(
                    f"--rename names the module {show(old)}{did_you_mean(old, names)}, which the plan does not have; "
                    "name one that it has."
                )

    def holds_parameters(self, node: str, module: str) -> bool:
        """Does the module of this node hold parameters? True where the profile lists no parameters at all."""
        return not self.with_parameters or any(
            renamed(name, self.job.options.rename) == module and name in self.with_parameters
            for name in self._own(node)
        )

    def modules(self, node: str) -> tuple[str, ...]:
        """The modules that a node stands for, renamed; none for what a model computes between its modules."""
        return tuple(renamed(name, self.job.options.rename) for name in self._own(node))

    def paths(self, node: str) -> tuple[str, ...]:
        """The modules that a node stands for, by names like 'model.layers.7'; other names are refused.

        This is for frameworks that look modules up by their names.
        """
        for name in self.modules(node):
            if not _MODULE.fullmatch(name):
                raise self.job.refusal(
                    f"the node {show(node)} has the name {show(name)}, and modules have names like 'model.layers.7'",
                    "give the profile that `plan import torch` made, or --rename",
                )
        return self.modules(node)

    def _own(self, node: str) -> tuple[str, ...]:
        return (node,) if self.by_node is None else self.by_node[node]


def _by_node(profile: Profile) -> dict[str, tuple[str, ...]]:
    """The modules that each node stands for, by the rule that `NodeNames` states."""
    users: dict[str, set[str]] = {}
    for node in profile.nodes:
        for module in node.modules:
            for name in (module, *around_of(module)):
                users.setdefault(name, set()).add(node.id)
    # Modules in no part of which another node runs; one that several nodes run in is called several times.
    leaves = users.keys() - {around for module in users for around in around_of(module)}
    modules_of = {}
    for node in profile.nodes:
        plain, listed = _CALL.sub("", node.id), set(node.modules)
        names = [plain] if plain in listed or any(plain in around_of(module) for module in listed) else []
        names += [module for module in node.modules if module not in names and users[module] == {node.id}]
        names += [module for module in node.modules if module not in names and module in leaves]
        modules_of[node.id] = tuple(
            name for name in names if not any(around in names for around in around_of(name))
        )
    return modules_of


def renamed(name: str, rules: Mapping[str, str]) -> str:
    """The name after the rule for the innermost module that it is, or that it lies in; unchanged without a rule."""
    fitting = [old for old in rules if name == old or name.startswith(old + ".")]
    if not fitting:
        return name
    old = max(fitting, key=len)
    return rules[old] + name[len(old) :]


def around_of(name: str) -> Iterator[str]:
    """The modules that a module lies in, the innermost first."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def read_rules(texts: list[str]) -> dict[str, str]:
    """Read the values of --rename: each is `old=new`, or the name of a JSON file {"old": "new"}."""
    rules: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if equals and not (old and new):
            raise InputError("--rename", f"is {show(text)}", "give old=new, both modules")
        if equals:
            rules[old] = new
            continue
        with errors_in(text):
            content = as_object("", read_json(text), '{"old": "new"}')
            for key, value in content.items():
                if not isinstance(value, str) or not key or not value:
                    raise InputError(shorten(key), f"is {show(value)}, not a module", 'give {"old": "new"}')
        rules |= content
    return rules


# ---- parts ------------------------------------------------------------
# Which nodes are a model's embedding, its layers and its head; and how many layers each stage holds.
#
# Layers are the modules that are numbered: `model.layers.7`, and all that lies below. A model with several lists of
# them has no single count of layers, and is refused.


@dataclass(frozen=True, slots=True)
class Parts:
    """Nodes in the order of the model."""

    before: tuple[str, ...]
    """The embedding: all that comes before the first layer."""
    layers: tuple[tuple[str, ...], ...]
    predictors: tuple[tuple[str, ...], ...]
    """Layers that predict several tokens at once (MTP), behind the others."""
    after: tuple[str, ...]
    """The head: all that comes after the last layer."""


@dataclass(frozen=True, slots=True)
class StageOfLayers:
    """How many layers a stage holds, and whether it holds the embedding and the head."""

    embedding: bool
    layers: int
    predictors: int
    head: bool


def parts_of(names: NodeNames, order: Sequence[str], profile: Profile | None, who: str) -> Parts:
    """The parts of a model; errors say that `who` needs them."""
    homes = {node: _home(names, node, who) for node in order}
    lists = list(dict.fromkeys(home[0] for home in homes.values() if home is not None))
    predicting = [name for name in lists if "mtp" in name.lower().split(".")]
    usual = [name for name in lists if name not in predicting]
    if not usual:
        raise UsageError(
            f"{who} counts layers, and no node has the name of a numbered module like 'layers.7', "
            f"such as {show(order[0])}; give the profile whose nodes name their modules."
        )
    if len(usual) > 1:
        node = next(node for node in order if (homes[node] or ("",))[0] == usual[1])
        raise UsageError(
            f"{who} counts the layers of one list, and the node {show(node)} is in the list {show(usual[1])}, others "
            f"in {show(usual[0])}; `plan run` and --to accelerate or deepspeed take models with several."
        )
    layers, predictors = _layers(homes, order, usual[0], who), []
    for name in predicting:
        predictors += _layers(homes, order, name, who)
    inside = {node for layer in (*layers, *predictors) for node in layer}
    before, after = _around([node for node in order if node not in inside], inside, order, profile, who)
    return Parts(before, tuple(layers), tuple(predictors), after)


def _home(names: NodeNames, node: str, who: str) -> tuple[str, int] | None:
    """The list and the number of the layer that a node is in; None: it is in no layer."""
    homes = {home for name in names.modules(node) or (node,) if (home := number_in(name)) is not None}
    if len(homes) > 1:
        raise UsageError(
            f"{who} moves whole layers, and the node {show(node)} is part of several; import the model with "
            "--granularity block."
        )
    return next(iter(homes), None)


def _layers(
    homes: dict[str, tuple[str, int] | None], order: Sequence[str], name: str, who: str
) -> list[tuple[str, ...]]:
    """The nodes of each layer of the list with this name."""
    by_layer: dict[int, list[str]] = {}
    for node in order:
        home = homes[node]
        if home is not None and home[0] == name:
            if _CALL.search(node):
                raise UsageError(f"{who} counts layers, and the layer of the node {show(node)} runs several times.")
            by_layer.setdefault(home[1], []).append(node)
    numbers = list(by_layer)
    for one, next_one in pairwise(numbers):
        if next_one < one:
            raise UsageError(
                f"{who} takes layers in the order of their numbers, and the node {show(by_layer[next_one][0])} runs "
                f"after {show(by_layer[one][0])}."
            )
    return [tuple(nodes) for nodes in by_layer.values()]


def _around(
    others: Sequence[str], inside: set[str], order: Sequence[str], profile: Profile | None, who: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nodes before the layers and those behind, by what reads from what; without a profile, by the order."""
    place = {node: number for number, node in enumerate(order)}
    first, last = min(place[node] for node in inside), max(place[node] for node in inside)
    reached = {node for node in order if place[node] > first}
    reaching = {node for node in order if place[node] < last}
    if profile is not None:
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_edges_from(profile.ends)
        graph.add_edges_from(edge for node in inside for edge in (("", node), (node, "\0")))
        reached, reaching = nx.descendants(graph, ""), nx.ancestors(graph, "\0")
    before: list[str] = []
    after: list[str] = []
    for node in others:
        if node in reached and node in reaching:
            raise UsageError(
                f"{who} knows nothing between the layers, and the node {show(node)} is there; import the model with "
                "--granularity block."
            )
        (after if node in reached else before).append(node)
    return tuple(before), tuple(after)


# ---- how many layers a stage holds ---------------------------------------------------------------------


def layers_by_stage(job: ToExport, *, interleaved: bool = False) -> list[StageOfLayers]:
    """How many layers each stage holds; plans are refused that break the rules of targets that move whole layers."""
    check_accelerators(job)
    check_ordered(job)
    (check_round_robin if interleaved else check_one_stage_per_rank)(job)
    order = [node for stage in job.stages for node in stage.nodes]
    if job.profile is not None:
        order = [job.profile.nodes[i].id for i in job.profile.model_order]
    parts = parts_of(NodeNames(job), order, job.profile, job.target)
    stage_of = job.plan.stage_of
    for layer in (*parts.layers, *parts.predictors):
        apart = next((node for node in layer if stage_of[node] != stage_of[layer[0]]), None)
        if apart is not None:
            raise job.refusal(
                f"the node {show(layer[0])} is on stage {stage_of[layer[0]]} and {show(apart)}, a part of the same "
                f"layer, on stage {stage_of[apart]}, and layers are moved whole",
                RETRY,
            )
    _check_ends(job, parts)
    check_neighbours(job)
    counted: Counter[int] = Counter()
    predicting: Counter[int] = Counter()
    for counts, layers in ((counted, parts.layers), (predicting, parts.predictors)):
        at = 0
        for layer in layers:
            number = stage_of[layer[0]]
            if number < at:
                raise job.refusal(
                    f"the layer of the node {show(layer[0])} is on stage {number} and an earlier layer on stage {at}, "
                    "and layers follow each other along the stages",
                    CONTIGUOUS,
                )
            at = number
            counts[number] += 1
    head = stage_of[parts.after[-1]] if parts.after else len(job.stages) - 1
    return [
        StageOfLayers(number == 0, counted[number], predicting[number], number == head)
        for number in range(len(job.stages))
    ]


def _check_ends(job: ToExport, parts: Parts) -> None:
    """The embedding on the first stage, the head on the last; what ends the last layer may stay with it."""
    stage_of, last = job.plan.stage_of, len(job.stages) - 1
    for node in parts.before:
        if stage_of[node]:
            raise job.refusal(
                f"the node {show(node)} comes before the layers and is on stage {stage_of[node]}, and the embedding "
                "must be on the first stage",
                RETRY,
            )
    final = stage_of[(parts.predictors or parts.layers)[-1][0]]
    for node in parts.after:
        if stage_of[node] != last and (node == parts.after[-1] or stage_of[node] != final):
            raise job.refusal(
                f"the node {show(node)} comes after the layers and is on stage {stage_of[node]} of {last + 1}, and "
                "the head must be on the last stage",
                RETRY,
            )


# The remedy for a layer in parts, and for an embedding or a head on the wrong stage.
RETRY = "plan with --option whole-layers"
