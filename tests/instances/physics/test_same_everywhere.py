"""The same model on the same GPUs takes the same seconds and bytes by every command."""

from __future__ import annotations

from itertools import islice

import pytest

from pipeplan import load_profile, simulate
from pipeplan.instances.base.cluster import Cluster
from pipeplan.instances.networks.profile.options import ProfileOptions
from pipeplan.instances.physics.hardware import devices_given
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.plan import NOTHING, Configuration, Degrees
from pipeplan.instances.training.referee.memory import memory_of_ranks, stash_bytes
from pipeplan.instances.training.referee.seconds import timing_of
from pipeplan.models.export.training import plan_of_layout

STAGES, MICRO_BATCHES, SEQUENCE = 4, 8, 8_192


@pytest.mark.parametrize("gpu", ["a100-80gb", "h100-80gb", "b200-180gb", "mi300x"])
@pytest.mark.parametrize("model", ["llama-3-8b", "mixtral-8x7b"])
def test_the_same_configuration_takes_the_same_seconds_and_bytes_by_every_command(model: str, gpu: str) -> None:
    """Four equal stages by 1F1B: as `plan solve` and `plan simulate` see them, and as `plan configure --judge` does.

    What a pass holds for a moment, the reserve and the optimizer's update are of configurations alone.
    """
    devices = f"{STAGES}x{gpu}"
    problem = problem_of(model, devices, batch=MICRO_BATCHES, sequence=SEQUENCE)
    ends = (9, 8, 8, 9)  # the embedding and the head besides eight layers each
    configured = Configuration(Degrees(pipeline=STAGES), 1, 0, "1f1b", ends, (NOTHING,) * STAGES)
    passes, memory = timing_of(problem, configured).chunks, memory_of_ranks(problem, configured)

    options = ProfileOptions(kind="staging", optimizer="adam-mixed", sequence=SEQUENCE)
    cluster = Cluster(**devices_given(devices), memory_bytes=float("inf"), profile=options)
    lowered, plan = plan_of_layout("8,8,8,8", load_profile(model), cluster)
    simulated = simulate(lowered.problem, plan, micro_batches=MICRO_BATCHES).stages

    units = iter(range(sum(ends)))
    for stage, chunk, rank, count in zip(simulated, passes, memory, ends, strict=True):
        assert stage.busy == pytest.approx(MICRO_BATCHES * (chunk.forward + chunk.backward), rel=1e-9)
        standing = sum(rank.parts[name] for name in ("weights", "gradients", "optimizer"))
        assert stage.fixed_bytes == pytest.approx(standing, rel=1e-9)
        kept = sum(stash_bytes(problem, configured, unit, NOTHING) for unit in islice(units, count))
        assert stage.micro_batch_bytes == pytest.approx(kept, rel=1e-9)
        in_flight = STAGES - rank.rank
        assert stage.memory_bytes == pytest.approx(standing + in_flight * kept, rel=1e-9)
