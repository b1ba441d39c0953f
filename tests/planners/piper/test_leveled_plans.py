"""The best tree of stages on devices within devices: against brute force, against the flat problem, and its limits."""

from __future__ import annotations

import math
import random

import pytest
from leveled_brute_force import best_leveled
from random_stagings import random_staging
from staging_brute_force import best_stages

from pipeplan.instances.errors import InputError
from pipeplan.instances.referee.staged_levels import VARIANTS, evaluate_leveled, verify_leveled
from pipeplan.instances.staging import Configuration, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.planners.piper.hierarchy import MAX_DOWNSETS, downsets, plan_levels

CLUSTERS = ((2, 2), (1, 3), (3, 1), (2, 1, 2), (4,), (2, 2))


def leveled(seed: int, layers: tuple[int, int] = (2, 4)) -> StagingProblem:
    """A random problem on one of a few small clusters, the links of higher levels mostly slower."""
    rng = random.Random(1000 + seed)
    shape = CLUSTERS[seed % len(CLUSTERS)]
    flat = random_staging(seed, layers=layers, exact_batches=False)
    bandwidth = flat.bandwidth
    levels = []
    for devices in shape:
        levels.append(StagingLevel(devices, bandwidth))
        bandwidth *= rng.choice((0.1, 0.4, 1.0))
    return flat.replace(devices=math.prod(shape), levels=tuple(levels), micro_batches=rng.choice((2, 3, 4, 9)))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(24))
def test_no_tree_is_better(seed: int, variant: str) -> None:
    problem = leveled(seed, (2, 3) if len(CLUSTERS[seed % len(CLUSTERS)]) > 2 else (2, 4))
    found, expected = plan_levels(problem, variant), best_leveled(problem, variant)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.time_per_micro_batch == pytest.approx(expected[0], rel=1e-9)
        assert not verify_leveled(problem, found.plan, variant)
        value = evaluate_leveled(problem, found.plan, variant).time_per_micro_batch
        assert value == pytest.approx(found.time_per_micro_batch, rel=1e-9)
