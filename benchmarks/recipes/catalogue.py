"""Every network by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pipeplan.instances.base.errors import named

from . import cnn, sequence
from .network import Network

# Name -> builder; all take `batch`.
NETWORKS: Mapping[str, Callable[..., Network]] = {
    **{f"resnet{depth}": partial(cnn.resnet, depth) for depth in (18, 34, 50)},
    "vgg16": cnn.vgg16,
    "inception_v3": cnn.inception_v3,
    "densenet121": cnn.densenet121,
    **{f"bert-{size}": partial(sequence.bert, size) for size in ("base", "large")},
    **{f"bert-{size}-operators": partial(sequence.bert, size, True) for size in ("base", "large")},
    **{name: partial(sequence.gpt, name) for name in sequence.GPT},
    **{f"{name}-operators": partial(sequence.gpt, name, True) for name in sequence.GPT},
    "gnmt": sequence.gnmt,
    "gnmt-operators": sequence.gnmt_operators,
}


def build(name: str, batch: int | None = None) -> Network:
    """The network of that name, with `batch` samples in a batch; None: its usual number."""
    make = named(name, NETWORKS, "network")
    return make() if batch is None else make(batch=batch)
