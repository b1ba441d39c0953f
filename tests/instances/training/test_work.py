"""What one pass of one unit takes: known numbers by hand, and what must grow with what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from problems.timed_trainings import GPU, PLAIN, configuration, model, problem

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.physics.hardware import usual_of
from pipeplan.instances.training.model import Attention, Experts, MeasuredTime, Model, OwnLayer
from pipeplan.instances.training.problem import Level, TrainingProblem
from pipeplan.instances.training.referee.work import (
    Attend,
    Clock,
    Collective,
    Links,
    PassTimes,
    Product,
    Shapes,
    exposed,
)


def layer(own: TrainingProblem, again: tuple[str, ...] = (), unit: Any = "dense", **degrees: int) -> PassTimes:
    return Clock(own, configuration(own, **degrees)).unit(unit, 1, again)


def items(own: TrainingProblem, unit: Any, kind: type, **degrees: int) -> list[Any]:
    modules = Shapes(own, configuration(own, **degrees)).of(unit)
    return [item for module in modules for item in module.items if isinstance(item, kind)]


# ---- amounts ------------------------------------------------------------------------------------------


def test_products_of_a_dense_layer_by_hand() -> None:
    products = items(problem(), "dense", Product, tensor=2)
    assert [(one.rows, one.columns, one.inner) for one in products] == [
        (2048, 4 * 128 + 1 * 256, 1024),  # four heads of queries, one of keys and one of values
        (2048, 1024, 512),
        (2048, 4096, 1024),  # both halves of a gated MLP
        (2048, 1024, 2048),
    ]


def test_one_product_takes_its_operations_over_the_peak() -> None:
    head = Clock(problem(), configuration(problem())).unit("head", 5, ())
    assert head.forward.products == pytest.approx(2 * 2048 * 32000 * 1024 / 1e15)
    assert head.inputs.products == head.forward.products
    assert head.weights.products == head.forward.products


def test_a_product_that_is_small_beside_its_bytes_takes_those() -> None:
    slow = problem().replace(gpu=replace(GPU, memory_rate=1e9))
    m, n, k = 2048, 32000, 1024
    head = Clock(slow, configuration(slow)).unit("head", 5, ())
    assert head.forward.products == pytest.approx(2 * (m * n + n * k + m * k) / 1e9)
    # Gradients of weights are read and written in four bytes.
    assert head.weights.products == pytest.approx((2 * (m * n + m * k) + 8 * n * k) / 1e9)


def test_sides_of_a_product_that_are_small_make_it_slow() -> None:
    own = problem(efficiencies=replace(PLAIN, half_side=256))
    head = Clock(own, configuration(own)).unit("head", 5, ())
    slower = 1 + 256 * (1 / 2048 + 1 / 32000 + 1 / 1024)
    assert head.forward.products == pytest.approx(slower * 2 * 2048 * 32000 * 1024 / 1e15)


def test_causal_attention_is_half_of_its_matrix_and_two_and_a_half_times_backward() -> None:
    own = layer(problem())
    assert own.forward.attention == pytest.approx(2 * 2048 * 1024 * 8 * 256 / 1e15)
    assert own.inputs.attention == pytest.approx(2.5 * own.forward.attention)


def test_a_window_bounds_the_keys_of_a_token() -> None:
    some = Attention(8, 128, 2, window=256, windowed_share=0.5)
    keys = (1024 + 256 - 256 * 256 / (2 * 2048)) / 2
    (found,) = items(problem(own=model(attention=some)), "dense", Attend)
    assert found.operations == pytest.approx(2 * 2048 * keys * 8 * 256)


def test_experts_take_the_tokens_of_all_their_ranks() -> None:
    some = Experts(count=16, per_token=2, hidden=512)
    own = problem(own=model(experts=some, mlp=None))
    grouped = [one for one in items(own, "experts", Product, data=8, expert=4) if one.grouped]
    assert [(one.count, one.rows, one.columns, one.inner) for one in grouped] == [
        (4, 2048 * 2 / 4, 1024, 1024),
        (4, 2048 * 2 / 4, 1024, 512),
    ]


def test_latent_attention_sends_its_latents() -> None:
    some = Attention(8, 128, 8, value_size=128, query_rank=256, key_value_rank=64, rope_size=32)
    own = problem(own=model(attention=some))
    sizes = [one.size_bytes for one in items(own, "dense", Collective, tensor=2)]
    assert sizes[:2] == [2 * (256 + 64 + 32) * 2048, 2 * 1024 * 2048]


# ---- links --------------------------------------------------------------------------------------------


def test_a_ring_over_nodes_uses_all_their_links() -> None:
    links = Links(problem(16, levels=(Level(8, 4e11, 0), Level(2, 5e10, 0))))
    # Inside a node, over two nodes with one rank in each, and over two nodes with eight ranks in each.
    assert links.gather(8e9, 1, 8) == pytest.approx(7 / 8 * 8e9 / 4e11)
    assert links.gather(8e9, 8, 2) == pytest.approx(1 / 2 * 8e9 / 5e10)
    assert links.gather(8e9, 1, 16) == pytest.approx(15 / 16 * 8e9 / 4e11)
    assert links.gather(8e9, 2, 8) == pytest.approx(7 / 8 * 8e9 / 2e11)


def test_an_exchange_is_as_slow_as_its_slowest_level() -> None:
    links = Links(problem(16, levels=(Level(8, 4e11, 0), Level(2, 5e10, 0))))
    assert links.exchange(1e9, 1, 8) == pytest.approx(7 / 8 * 1e9 / 4e11)
    assert links.exchange(1e9, 1, 16) == pytest.approx(1 / 2 * 1e9 / 5e10)


def test_every_step_of_a_ring_has_the_latency_of_its_level() -> None:
    links = Links(problem(16, levels=(Level(8, 4e11, 1e-6), Level(2, 5e10, 1e-5))))
    assert links.latency(1, 8) == pytest.approx(7e-6)
    assert links.latency(1, 16) == pytest.approx(7e-6 + 1e-5)


def test_nothing_is_hidden_where_there_is_nothing_to_hide_it_behind() -> None:
    assert exposed(4, 0.5, 10) == 2
    assert exposed(4, 0.5, 1) == 3


# ---- a layer ------------------------------------------------------------------------------------------


def test_tensor_parallelism_gathers_twice_forward_and_three_times_backward() -> None:
    own = layer(problem(), tensor=4)
    gather = 3 / 4 * 2 * 1024 * 2048 / 1e11
    assert own.forward.tensor == pytest.approx(4 * gather)
    assert own.inputs.tensor == pytest.approx(6 * gather)


def test_without_sequence_parallelism_it_adds_up_twice_each_way() -> None:
    own = layer(problem(sequence_parallel=False), tensor=4)
    both = 2 * 3 / 4 * 2 * 1024 * 2048 / 1e11
    assert own.forward.tensor == pytest.approx(2 * both)
    assert own.inputs.tensor == pytest.approx(2 * both)
    assert own.forward.memory > layer(problem(), tensor=4).forward.memory


def test_whole_layers_recomputed_are_their_forward_pass_again() -> None:
    own = layer(problem(), ("full",), tensor=2)
    assert own.again == own.forward


@pytest.mark.parametrize("module", ["core_attn", "mlp"])
def test_a_module_recomputed_is_a_part_of_it(module: str) -> None:
    own = layer(problem(), (module,))
    assert 0 < own.again.total < own.forward.total


def test_recomputing_experts_includes_their_activation_and_shared_experts() -> None:
    some = Experts(count=16, per_token=2, hidden=512, shared_hidden=256)
    own = problem(own=model(experts=some, mlp=None))
    whole, activation = (layer(own, (name,), "experts", data=8, expert=4).again for name in ("moe", "moe_act"))
    assert 0 < activation.memory < whole.memory
    assert activation.products == 0
    assert whole.expert > 0


def test_fp8_halves_products_and_adds_conversions() -> None:
    half, eighth = layer(problem()), layer(problem(precision="fp8"))
    assert eighth.forward.products == pytest.approx(half.forward.products / 2)
    assert eighth.forward.attention == half.forward.attention
    assert eighth.forward.memory > half.forward.memory


@pytest.mark.parametrize("name", ["products", "attention", "memory", "links"])
def test_better_hardware_is_never_slower(name: str) -> None:
    slow, fast = (problem(efficiencies=replace(PLAIN, **{name: value})) for value in (0.3, 0.9))
    assert layer(fast, tensor=2, context=2).forward.total < layer(slow, tensor=2, context=2).forward.total


# ---- layers that were measured --------------------------------------------------------------------------


def measured(*times: MeasuredTime) -> TrainingProblem:
    return problem(own=Model("measured", own=(OwnLayer("a", 10, 0, 0, times), OwnLayer("b", 10, 0, 0, times))))


def test_a_measured_layer_takes_what_was_measured() -> None:
    own = measured(MeasuredTime(2, 1, 0.1, 0.3), MeasuredTime(2, 4, 0.2, 0.6))
    clock = Clock(own, configuration(own, micro_batch=4, tensor=2))
    found = clock.unit("own", 0, ())
    assert found.forward.measured == pytest.approx(0.2)
    assert found.backward_seconds == pytest.approx(0.6)


def test_another_micro_batch_is_in_proportion_to_the_nearest() -> None:
    own = measured(MeasuredTime(2, 4, 0.2, 0.6))
    assert Clock(own, configuration(own, micro_batch=8, tensor=2)).unit("own", 0, ()).forward.measured == 0.4


def test_a_tensor_degree_that_was_not_measured_is_refused() -> None:
    own = measured(MeasuredTime(2, 4, 0.2, 0.6))
    with pytest.raises(InputError, match="is 4, for which a was not measured"):
        Clock(own, configuration(own, tensor=4)).unit("own", 0, ())


# ---- what is usual --------------------------------------------------------------------------------------


def test_gpus_differ_in_what_is_usual() -> None:
    assert usual_of("a100-80gb") == Efficiencies()
    assert usual_of("b200-180gb").products < usual_of("h100-80gb").products < Efficiencies().products
