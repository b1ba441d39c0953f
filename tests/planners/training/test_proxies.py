"""A proxy is cheap, and its forms hold wherever the whole cluster lies, whatever its own links are."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.referee import memory_of_ranks
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.planners.training.forms import believed, plausible, values_of
from pipeplan.planners.training.proxies import CHEAP, OF_LINKS, Proxy, in_terms, is_proxy, proxy_of, smaller

from .test_forms import CLOSE, point

WHOLE = problem_of("llama-3-8b", "16xh100-80gb", batch=128, sequence=4096)
PLANS = {
    "data": ("data=16 micro-batch=2 zero=1 recompute=full", (8, 8, 32)),
    "tensor": ("tensor=8 data=2 micro-batch=4", (8, 8, 8)),
    "pipeline on two nodes": ("tensor=4 pipeline=4 data=1 micro-batch=2", (8, 16, 16)),
    "chunks": ("pipeline=4 virtual=8 data=4 micro-batch=1 recompute=full", (32, 8, 16)),
}


@pytest.mark.parametrize("case", PLANS)
def test_the_cheapest_run_with_the_same_degrees_is_proposed(case: str) -> None:
    words, (layers, devices, batch) = PLANS[case]
    plan = configuration_from_words(WHOLE, words)
    proxy = proxy_of(WHOLE, plan)
    assert proxy is not None
    own, at = proxy.problem, believed(WHOLE.efficiencies)
    assert (own.model.layers, own.devices, own.batch) == (layers, devices, batch)
    assert replace(proxy.plan.degrees, data=plan.degrees.data) == plan.degrees
    assert max(rank.bytes for rank in memory_of_ranks(own, proxy.plan)) <= (own.memory_bytes or 0)
    whole = Proxy(WHOLE, WHOLE, plan).timed.seconds(at)
    assert proxy.timed.seconds(at) * devices <= CHEAP * whole * WHOLE.devices
    assert is_proxy(WHOLE, own)
    assert not is_proxy(WHOLE, WHOLE)
    assert not is_proxy(WHOLE, own.replace(sequence=2048)), "other sequences are another problem"


def test_none_is_proposed_where_none_is_cheap() -> None:
    small = problem_of("llama-3-8b", "8xh100-80gb", batch=8, sequence=4096, layers=8)
    assert proxy_of(small, configuration_from_words(small, "tensor=8 micro-batch=8")) is None


@pytest.mark.parametrize("case", PLANS)
def test_its_forms_hold_whatever_its_own_links_are(case: str) -> None:
    """On one node the links are others than those between nodes: what a proxy takes there bounds nothing of them."""
    proxy = proxy_of(WHOLE, configuration_from_words(WHOLE, PLANS[case][0]))
    assert proxy is not None
    assert bool(proxy.lost) == (proxy.problem.devices == 8)
    box, draw = plausible(WHOLE), random.Random(1)
    few = [0, 1, 4]
    below, above = proxy.forms
    for _ in range(20):
        at, elsewhere = point(box, draw), point(box, draw)
        seconds = proxy.timed.seconds({**at, **{name: elsewhere[name] for name in proxy.lost}})
        values = values_of(at)
        assert below @ values * (1 - CLOSE) <= seconds <= above @ values * (1 + CLOSE)
        less, more = (in_terms(own, box, few, side) for side, own in enumerate(proxy.forms))
        assert less @ values[few] * (1 - CLOSE) <= seconds <= more @ values[few] * (1 + CLOSE)
    assert {*proxy.lost} <= {*OF_LINKS}


def test_fewer_layers_gpus_and_sequences_make_a_proxy() -> None:
    own = smaller(WHOLE, 4, 8, 16)
    assert (own.model.layers, own.devices, own.batch) == (4, 8, 16)
    assert own.efficiencies == WHOLE.efficiencies
    assert smaller(WHOLE) == WHOLE
