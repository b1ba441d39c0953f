"""A backward pass in two parts: first the gradients that other stages wait for, later those of the stage's weights.

The first part runs backward from what the stage made to what it read. On this way lie the operations that also lead to
weights: what arrives at each of them is kept. The second part runs each of these once more, from what arrived there to
its own weights alone; other ones that it would pass on the way are given zeros, for they have their own turn. Whatever
leads to no input, and on a stage that reads none that is everything, is left to the second part as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

# A tensor that a stage made, and its gradient.
Pair = tuple[torch.Tensor, torch.Tensor]
Gradients = tuple[torch.Tensor | None, ...]


class DividedBackward:
    """Both parts for one micro-batch; the graph is kept until the second one has run."""

    def __init__(self, pairs: Sequence[Pair], leaves: Sequence[torch.Tensor]) -> None:
        self._pairs = pairs
        self._leaves = [leaf for leaf in leaves if leaf.requires_grad]
        roots = [get_gradient_edge(tensor).node for tensor, _ in pairs]
        self._graph = _Graph(roots, [get_gradient_edge(leaf).node for leaf in self._leaves])
        self._roots = roots
        self._arrived: dict[Node, Gradients] = {}

    def inputs(self) -> None:
        """Compute the gradients of what was read, as `grad` of the leaves."""
        pairs = [pair for pair, root in zip(self._pairs, self._roots, strict=True) if root in self._graph.to_inputs]
        if not pairs:
            return
        handles = [node.register_prehook(self._keeper(node)) for node in self._graph.forks]
        try:
            gradients = _gradients(
                [tensor for tensor, _ in pairs], self._leaves, [gradient for _, gradient in pairs]
            )
        finally:
            for handle in handles:
                handle.remove()
        for leaf, gradient in zip(self._leaves, gradients, strict=True):
            leaf.grad = gradient

    def _keeper(self, node: Node) -> Any:
        def keep(gradients: Gradients) -> None:
            self._arrived[node] = gradients

        return keep

    def weights(self) -> None:
        """Compute the gradients of the weights, and add them to their `grad`."""
        for node, arrived in self._arrived.items():
            outputs = [(GradientEdge(node, i), g) for i, g in enumerate(arrived) if g is not None]
            self._add(outputs, self._graph.forks[node], self._zeros_beside(node))
        rest = [
            (tensor, gradient)
            for (tensor, gradient), root in zip(self._pairs, self._roots, strict=True)
            if root not in self._graph.to_inputs
        ]
        self._add(rest, _below([root for root in self._roots if root not in self._graph.to_inputs]), [])

    def _zeros_beside(self, node: Node) -> list[Any]:
        """Let the other operations that lead to weights of this one get zeros."""
        weights = self._graph.forks[node]
        others = [other for other in self._arrived if other is not node and self._graph.forks[other] & weights]
        return [other.register_prehook(_zeros) for other in others]

    def _add(self, outputs: Sequence[tuple[Any, torch.Tensor]], weights: set[Node], handles: Sequence[Any]) -> None:
        targets = list(weights)
        try:
            if outputs and targets:
                edges = [GradientEdge(target, 0) for target in targets]
                totals = _gradients([output for output, _ in outputs], edges, [gradient for _, gradient in outputs])
                for target, gradient in zip(targets, totals, strict=True):
                    _add_to(target.variable, gradient)
        finally:
            for handle in handles:
                handle.remove()


class _Graph:
    """The operations of one micro-batch on a stage."""

    def __init__(self, roots: Sequence[Node], leaves: Sequence[Node]) -> None:
        before: dict[Node, list[Node]] = {}
        for node in _all(roots):
            for target in _next(node):
                before.setdefault(target, []).append(node)
        # The operations from which a path leads to an input, and the inputs.
        self.to_inputs = set(leaves)
        waiting = list(leaves)
        while waiting:
            for node in before.get(waiting.pop(), ()):
                if node not in self.to_inputs:
                    self.to_inputs.add(node)
                    waiting.append(node)
        # The operations from which paths lead to inputs and, apart from them, to weights; each with these weights.
        self.forks: dict[Node, set[Node]] = {}
        for node in self.to_inputs - set(leaves):
            weights = _below([target for target in _next(node) if target not in self.to_inputs])
            if weights:
                self.forks[node] = weights


def _next(node: Node) -> Iterator[Node]:
    return (target for target, _ in node.next_functions if target is not None)


def _all(roots: Sequence[Node]) -> set[Node]:
    nodes, waiting = set(roots), list(roots)
    while waiting:
        for target in _next(waiting.pop()):
            if target not in nodes:
                nodes.add(target)
                waiting.append(target)
    return nodes


def _below(roots: Sequence[Node]) -> set[Node]:
    """The weights to which these operations lead: nodes that hold a tensor of the caller's."""
    return {node for node in _all(roots) if hasattr(node, "variable")}


def _gradients(outputs: Sequence[Any], targets: Sequence[Any], gradients: Sequence[torch.Tensor]) -> Gradients:
    result: Gradients = torch.autograd.grad(outputs, targets, gradients, retain_graph=True, allow_unused=True)
    return result


def _zeros(gradients: Gradients) -> Gradients:
    return tuple(None if gradient is None else torch.zeros_like(gradient) for gradient in gradients)


def _add_to(weight: torch.Tensor, gradient: torch.Tensor | None) -> None:
    if gradient is not None:
        weight.grad = gradient if weight.grad is None else weight.grad + gradient
