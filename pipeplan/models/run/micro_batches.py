"""The micro-batches of a run: the one that the user's function returns, and others made of it.

Each further one has the same values in other places, so that a check notices where two were mixed up, and whatever was
a legal value (a token, a label, a mask) still is one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map


def varied(inputs: Any, number: int) -> Any:
    """Micro-batch `number` (from 0) in a structure like that of the inputs; number 0 is what they are."""
    return tree_map(lambda value: _rolled(value, number) if isinstance(value, torch.Tensor) else value, inputs)


def _rolled(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """Along the first dimension, and along the next ones once that has come round."""
    for dimension, size in enumerate(tensor.shape):
        if size > 1 and number:
            tensor = tensor.roll(number % size, dimension)
            number //= size
    return tensor
