"""A profile becomes a training problem whose layers bring their own times, parameters and bytes."""

from __future__ import annotations

import math

import pytest
from problems.profiles import DIAMOND, ROW

from pipeplan import InputError, Profile, ProfileNode, ProfileOptions, TimeCurve, UsageError
from pipeplan.instances.base.cluster import Cluster
from pipeplan.instances.training.from_profile import lower, model_of_profile
from pipeplan.instances.training.model import MeasuredTime, OwnLayer

CLUSTER = Cluster(devices=4, memory_bytes=1e9, bandwidth=1e10)


def test_a_row_keeps_its_layers() -> None:
    """Times in milliseconds; weights of 4 bytes are one parameter; 10 bytes kept and 6 sent for each sample."""
    problem = lower(ROW, CLUSTER, ProfileOptions()).problem
    first = OwnLayer("a", 1, 10.0, 6.0, (MeasuredTime(1, 1, 0.001, 0.002),))
    assert problem.model.own[0] == first
    assert [layer.name for layer in problem.model.own] == list("abcd")
    assert (problem.devices, problem.batch, problem.memory_bytes) == (4, 4, 1e9)
    assert [(level.count, level.bandwidth) for level in problem.levels] == [(4, 1e10)]


def test_what_runs_beside_each_other_stays_together() -> None:
    """Two samples in a micro-batch: the stem sends two tensors, and left and right have no cut between them."""
    stem, rest = model_of_profile(DIAMOND).own
    assert (stem.name, rest.name) == ("stem", "left to head")
    assert (stem.stash_bytes, stem.output_bytes) == (15, (12 + 4) / 2)
    assert (rest.stash_bytes, rest.output_bytes) == ((8 + 6 + 5) / 2, 0), "nobody reads what the last one makes"
    assert (stem.parameters, rest.parameters) == (1, round(14 / 4))
    assert rest.times == (MeasuredTime(1, 2, pytest.approx(0.0065), pytest.approx(0.014)),)


def test_all_measured_micro_batches_are_kept() -> None:
    curve = TimeCurve((1, 2, 4), (1.0, 1.5, 2.5))
    nodes = tuple(ProfileNode(name, curve, curve, parameters={name: 8.0}) for name in "ab")
    profile = ROW.replace(nodes=nodes, tensors=ROW.tensors[:1])
    times = model_of_profile(profile).own[0].times
    assert [time.micro_batch for time in times] == [1, 2, 4]
    assert [time.forward_seconds for time in times] == [0.001, 0.0015, 0.0025]


def test_layers_that_take_no_time_go_with_their_neighbours() -> None:
    def names(*forward: float) -> list[str]:
        nodes = tuple(ProfileNode(name, time, 1.0) for name, time in zip("abcd", forward, strict=True))
        return [layer.name for layer in model_of_profile(ROW.replace(nodes=nodes)).own]

    assert names(0, 1, 1, 1) == ["a to b", "c", "d"]
    assert names(1, 0, 1, 0) == ["a", "b to d"]
    with pytest.raises(InputError, match="nodes take no time in forward passes"):
        names(0, 0, 0, 0)


def test_what_is_lost_is_told() -> None:
    notes = lower(DIAMOND, CLUSTER, ProfileOptions()).notes
    for words in (
        "only tensor=1 is possible",
        "as 4 bytes each",
        "--batch",
        "buffers",
        "share are counted in both",
    ):
        assert any(words in note for note in notes), words


@pytest.mark.parametrize(("profile", "cluster", "said"), [
    (ROW.replace(training=False), CLUSTER, "Nothing is trained in this profile"),
    (ROW, Cluster(devices=4, memory_bytes=1e9, bandwidth=math.inf), "--bandwidth is none, but links have a limit"),
    (ROW, Cluster(devices=4), "cluster is missing: a model or a table of layers names none; add --memory 40GB"),
])  # fmt: skip
def test_what_cannot_be_trained_is_refused(profile: Profile, cluster: Cluster, said: str) -> None:
    with pytest.raises((UsageError, InputError)) as caught:
        lower(profile, cluster, ProfileOptions())
    assert str(caught.value).startswith(said)
