"""One stage of a captured graph as a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from .capture import Captured, outputs_of
from .grouping import Grouped
from .memory import attribute


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An argument of the model, which every stage may read."""

    name: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value that another stage makes."""

    value: str
    stage: int


@dataclass(frozen=True)
class Piece:
    """A stage: `module(*inputs)` returns the tuple of `outputs` and the tuple of `finals`."""

    module: fx.GraphModule
    inputs: tuple[ModelInput | Foreign, ...]
    outputs: tuple[str, ...]
    """The values that other stages read."""
    finals: tuple[str, ...]
    """The model's outputs that are made here."""
    loss: str | None
    """The one of `finals` that is the loss; None: another stage makes it, or nothing is trained."""


# The number of the stage of auxiliary operations, where these are a stage of their own.
AUXILIARY = -1


def extract(
    captured: Captured, grouped: Grouped, stage_of: Mapping[str, int], stage: int, *, apart: bool = False
) -> Piece:
    """The stage with its own copies of the auxiliary operations that it needs; parameters are the model's own.

    `apart`: auxiliary operations are a stage of their own, `AUXILIARY`.
    """
    place = {node: stage_of[name] for node, name in grouped.owner.items()}
    if apart:
        place.update(dict.fromkeys(grouped.auxiliary, AUXILIARY))
    return _Builder(captured, grouped, place, stage).piece()


class _Builder:
    """Copies the operations of one stage into a graph."""

    def __init__(self, captured: Captured, grouped: Grouped, place: Mapping[fx.Node, int], stage: int) -> None:
        self.captured, self.grouped, self.stage, self.place = captured, grouped, stage, place
        self.finals = [value for value in outputs_of(captured.graph) if self._makes(value)]
        self.chosen = self._chosen()
        self.graph = fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}

    def _makes(self, value: fx.Node) -> bool:
        """Does this stage make the model's output? The last stage makes those that depend on no parameter."""
        if self._is_copied(value):
            return self.stage == max(self.place.values())
        return self.place.get(value) == self.stage

    def _is_copied(self, node: fx.Node) -> bool:
        return node in self.grouped.auxiliary and node not in self.place

    def _chosen(self) -> set[fx.Node]:
        """The stage's operations, and the auxiliary ones of which it needs copies."""
        mine = {node for node, stage in self.place.items() if stage == self.stage}
        todo = [*mine, *filter(self._is_copied, self.finals)]
        chosen = mine | set(todo)
        while todo:
            for source in self.grouped.inputs_of(todo.pop()):
                if self._is_copied(source) and source not in chosen:
                    chosen.add(source)
                    todo.append(source)
        return chosen

    def piece(self) -> Piece:
        nodes = list(self.captured.graph.graph.nodes)
        read = {source for node in self.chosen for source in node.all_input_nodes}
        inputs = [self._input(node) for node in nodes if node in read and self._is_input(node)]
        for node in nodes:
            if node.op == "get_attr" and node in read:
                self.copies[node] = self.graph.node_copy(node)
        for node in nodes:
            if node in self.chosen:
                self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)
        outputs = [node for node in nodes if self._is_read_elsewhere(node)]
        self.graph.output(tuple(tuple(self.copies[node] for node in part) for part in (outputs, self.finals)))
        self.graph.lint()
        finals = tuple(node.name for node in self.finals)
        loss = self.captured.loss if self.captured.loss in finals else None
        return Piece(self._module(), tuple(inputs), tuple(node.name for node in outputs), finals, loss)

    def _is_input(self, node: fx.Node) -> bool:
        return node.op == "placeholder" or (node in self.place and node not in self.chosen)

    def _input(self, node: fx.Node) -> ModelInput | Foreign:
        copy = self.graph.placeholder(node.name)
        copy.meta.update(node.meta)
        self.copies[node] = copy
        return ModelInput(node.name) if node.op == "placeholder" else Foreign(node.name, self.place[node])

    def _is_read_elsewhere(self, node: fx.Node) -> bool:
        made_here = self.place.get(node) == self.stage
        return made_here and any(self.place.get(user, self.stage) != self.stage for user in node.users)

    def _module(self) -> fx.GraphModule:
        attributes: dict[str, Any] = {
            node.target: attribute(self.captured.graph, node.target)
            for node in self.graph.nodes
            if node.op == "get_attr"
        }
        return fx.GraphModule(attributes, self.graph)
