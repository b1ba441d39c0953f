"""Random chains: the recipe gives the same ones for ever."""

from __future__ import annotations

import hashlib

import pytest
from recipes.chain import resnet_like, tightness

from pipeplan.instances.base.errors import InputError


def test_the_benchmark_s_chains_never_change() -> None:
    sizes = ((6, 2), (6, 4), (8, 4), (10, 4), (12, 4), (15, 4), (18, 4), (18, 8))
    hashes = [resnet_like(*size, seed).hash for size in sizes for seed in range(1, 6)]
    assert len(set(hashes)) == 40
    assert hashlib.sha256("".join(hashes).encode()).hexdigest()[:16] == "b546d5ee46838c77"


def test_tightness_lies_between_two_memories() -> None:
    problem = resnet_like(6, 2)
    assert tightness(problem, 1000, 2005).memory_bytes == 1301
    assert tightness(problem, 1000, 2005, share=1).memory_bytes == 2005
    with pytest.raises(InputError, match="from 0 to 1"):
        tightness(problem, 1000, 2000, share=2)
