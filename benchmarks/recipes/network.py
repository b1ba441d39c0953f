"""A network as a graph of layers with operations, parameters and activation sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer or operator. Counts are for one sample."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    flops: float
    """Forward floating-point operations; a multiply-add counts as two."""
    parameters: int
    output_elements: int


@dataclass(frozen=True)
class Network:
    """A network for one batch of `batch` samples with numbers of `element_bytes` bytes.

    Backward costs follow the usual rule: a layer with parameters needs the forward operations twice (gradients by
    inputs and by parameters), one without parameters needs them once.
    """

    name: str
    layers: tuple[Layer, ...]
    batch: int = 1
    element_bytes: int = 4

    def __post_init__(self) -> None:
        names: set[str] = set()
        for layer in self.layers:
            if layer.name in names:
                raise ValueError(f"two layers of {self.name} are called {layer.name!r}")
            missing = [name for name in layer.inputs if name not in names]
            if missing:
                raise ValueError(f"layer {layer.name!r} reads {missing[0]!r}, which does not come before it")
            names.add(layer.name)

    @cached_property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @cached_property
    def flops(self) -> float:
        """Forward operations for one sample."""
        return math.fsum(layer.flops for layer in self.layers)

    def layer(self, name: str) -> Layer:
        """The layer of that name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in self.layers}

    def activation_bytes(self, layer: Layer) -> int:
        return self.batch * layer.output_elements * self.element_bytes

    def parameter_bytes(self, layer: Layer) -> int:
        return layer.parameters * self.element_bytes

    def forward_flops(self, layer: Layer) -> float:
        return self.batch * layer.flops

    def backward_flops(self, layer: Layer) -> float:
        return self.forward_flops(layer) * (2 if layer.parameters else 1)

    def moved_bytes(self, layer: Layer) -> int:
        """What the forward pass reads and writes: inputs, parameters, output."""
        read = sum(self.layer(name).output_elements for name in layer.inputs)
        activations = self.batch * (read + layer.output_elements) * self.element_bytes
        return activations + self.parameter_bytes(layer)
