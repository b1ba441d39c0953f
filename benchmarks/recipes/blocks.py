"""Layers of a network merged to blocks: what a planner moves as a whole (a transformer layer, a residual block)."""

from __future__ import annotations

from dataclasses import dataclass

from .network import Layer, Network

# Split by outputs: every device reads the whole input, and the gradients of the inputs are summed.
SPLIT_COLUMNS = "columns"
# Split by inputs: the outputs of the devices are summed.
SPLIT_ROWS = "rows"
# Two matrices, the first split by columns and the second by rows: an all-reduce forward and one backward.
SPLIT_BOTH = "both"
# Between columns and rows: every device works on its own part and exchanges nothing.
SPLIT_INSIDE = "inside"
# Split by outputs, which all devices collect at once.
SPLIT_GATHERED = "gathered"

# How a layer inside a transformer layer is split, by the last part of its name.
_TRANSFORMER_SPLITS = {
    "attention": SPLIT_BOTH,
    "query": SPLIT_COLUMNS,
    "key": SPLIT_COLUMNS,
    "value": SPLIT_COLUMNS,
    "scores": SPLIT_INSIDE,
    "softmax": SPLIT_INSIDE,
    "context": SPLIT_INSIDE,
    "projection": SPLIT_ROWS,
    "up": SPLIT_COLUMNS,
    "gelu": SPLIT_INSIDE,
    "down": SPLIT_ROWS,
}

# By kind: vocabularies are split by words, other weights by outputs. What is not named runs whole on every device.
_OTHER_SPLITS = {
    "embedding": SPLIT_ROWS,
    "conv": SPLIT_GATHERED,
    "linear": SPLIT_GATHERED,
    "lstm": SPLIT_GATHERED,
    "matmul": SPLIT_GATHERED,
}


@dataclass(frozen=True, slots=True)
class Block:
    """Layers that are planned as one; `inputs`: the layers outside whose outputs it reads."""

    name: str
    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]

    @property
    def is_transformer(self) -> bool:
        """Does the block hold the feed-forward part of a transformer layer?"""
        return {"up", "gelu", "down"} <= {last_part(layer) for layer in self.layers}


def last_part(layer: Layer) -> str:
    return layer.name.rpartition(".")[2]


def block_name(layer: str) -> str:
    """The first part of a dotted name, with the second where that is a number: `layer3.1` of `layer3.1.2.conv`."""
    first, *rest = layer.split(".")
    return f"{first}.{rest[0]}" if rest and rest[0].isdigit() else first


def blocks(network: Network, merge: bool = True) -> tuple[Block, ...]:
    """The network's blocks in order, or one for each layer; network inputs belong to none: they come from the host."""
    members: dict[str, list[Layer]] = {}
    for layer in network.layers:
        if layer.kind != "input":
            members.setdefault(block_name(layer.name) if merge else layer.name, []).append(layer)
    return tuple(Block(name, tuple(layers), _inputs(layers)) for name, layers in members.items())


def _inputs(layers: list[Layer]) -> tuple[str, ...]:
    inside = {layer.name for layer in layers}
    return tuple(dict.fromkeys(source for layer in layers for source in layer.inputs if source not in inside))


def split_of(block: Block, layer: Layer) -> str | None:
    """How tensor parallelism divides a layer of a block; None: every device runs all of it."""
    if block.is_transformer:
        return _TRANSFORMER_SPLITS.get(last_part(layer))
    if layer.name == "logits":
        # The output matrix is the token table, split by words: the loss is computed on the parts.
        return SPLIT_COLUMNS
    return _OTHER_SPLITS.get(layer.kind)
