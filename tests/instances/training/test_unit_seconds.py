"""What one pass of one unit takes: known numbers by hand, and what must grow with what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from oracles.training_costs import Definitions
from problems.timed_trainings import GPU, PLAIN, configuration, model, problem

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.physics.hardware import usual_of
from pipeplan.instances.training.cases import NONE, CaseMaker, ParallelismChoice
from pipeplan.instances.training.iteration import Iteration
from pipeplan.instances.training.model import Attention, Experts, MeasuredTime, Model, OwnLayer, UnitType
from pipeplan.instances.training.problem import Level, TrainingProblem
from pipeplan.instances.training.unit_costs import PARTS, Cluster, Keys, Product, SecondsOfUnits, exposed

from ...problems.trainings import random_configuration, random_training


@dataclass(frozen=True)
class Passes:
    """Seconds of one unit under one choice; of passes by part."""

    forward: dict[str, float]
    inputs: dict[str, float]
    weights: float
    again: float

    @property
    def total(self) -> float:
        return sum(self.forward.values())


def layer(own: TrainingProblem, again: tuple[str, ...] = (), unit: UnitType = "dense", **degrees: int) -> Passes:
    keys = Keys.of([ParallelismChoice.of(configuration(own, **degrees)).key])
    found = SecondsOfUnits(own, keys, 4.0, [again]).unit(unit)
    by_part = [dict(zip(PARTS, map(float, way[:, 0]), strict=True)) for way in (found.forward, found.inputs)]
    return Passes(*by_part, float(found.weights[0]), float(found.again[again][0]))


def products(own: TrainingProblem, unit: str, **degrees: int) -> list[tuple[Any, ...]]:
    """Rows, columns, inner sizes, numbers and sorts, as the oracle reads the text."""
    modules = Definitions(own, configuration(own, **degrees)).modules(unit)
    return [item[1:] for _, items in modules for item in items if item[0] == "product"]


# ---- the oracle ---------------------------------------------------------------------------------------


def check_unit_costs(seed: int) -> None:
    """Every type of unit of a random problem under a random choice, with every word of it."""
    own = random_training(seed)
    plan = random_configuration(own, seed)
    words = sorted(
        {NONE, ("full",), *((name,) for name in own.model.modules), *(w.modules for w in plan.recompute)}
    )
    gamma, text = ParallelismChoice.of(plan), Definitions(own, plan)
    costs = CaseMaker(own, [gamma.key], words)
    case, (numbers, sent) = costs.case(gamma), costs.numbers_of(gamma)
    for name in costs.names:
        at, unit = own.model.units.index(name), costs.names.index(name)
        usual = case.by_word[NONE]
        more = text.in_passes(name)
        found = (usual.forward[at], usual.inputs[at], usual.weights[at], case.update[at], case.standing[at])
        passes = (text.seconds(name, "forward") + more[0], text.seconds(name, "inputs") + more[1])
        rest = (text.seconds(name, "weights"), text.update(name), text.standing(text.parameters(name)))
        assert found == pytest.approx((*passes, *rest), rel=1e-11), name
        assert (*numbers[unit], *sent[unit]) == pytest.approx((*text.parameters(name), *text.sent(name)), rel=1e-12)
        gathered = [
            sum((case.tail[k, way] * case.sent[at, k] + case.tail[k, 2]) * (case.sent[at, k] > 0) for k in (0, 1))
            for way in (0, 1)
        ]
        assert gathered == pytest.approx([text.gather(text.sent(name), g) for g in (text.gradient, 2)], rel=1e-11)
        for word, own_costs in case.by_word.items():
            kept = (own_costs.stash[at], own_costs.for_weights[at], own_costs.moment[at])
            assert kept == pytest.approx(text.kept(name, word), rel=1e-11), (name, word)
            assert own_costs.again[at] == pytest.approx(text.seconds(name, "forward", word), rel=1e-11), (
                name,
                word,
            )
    for mask in range(1, 1 << len(costs.names)):
        types = [name for i, name in enumerate(costs.names) if mask >> i & 1]
        beside, table = text.beside({*types})
        largest = max(case.gathered[own.model.units.index(name)] for name in types)
        held = case.beside_bytes - own.reserve_bytes + largest + case.masks[mask]
        assert held == pytest.approx(beside + text.standing((table, 0.0)), rel=1e-11)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("start", range(0, 400, 40))
def test_units_cost_and_hold_what_the_definitions_say(start: int) -> None:
    for seed in range(start, start + 40):
        check_unit_costs(seed)


# ---- amounts ------------------------------------------------------------------------------------------


def test_products_of_a_dense_layer_by_hand() -> None:
    sizes = [
        (2048, 1024, 512),
        (2048, 4 * 128 + 1 * 256, 1024),  # four heads of queries, one of keys and one of values
        (2048, 4096, 1024),  # both halves of a gated MLP
        (2048, 1024, 2048),
    ]
    assert [one[:3] for one in products(problem(), "dense", tensor=2)] == sizes
    operations = sum(2 * m * n * k for m, n, k in sizes)
    assert layer(problem(), tensor=2).forward["products"] == pytest.approx(operations / 1e15)


def test_one_product_takes_its_operations_over_the_peak() -> None:
    head = layer(problem(), unit="head")
    assert head.forward["products"] == pytest.approx(2 * 2048 * 32000 * 1024 / 1e15)
    assert head.inputs["products"] == head.forward["products"] == head.weights


def test_a_product_that_is_small_beside_its_bytes_takes_those() -> None:
    slow = problem().replace(gpu=replace(GPU, memory_rate=1e9))
    m, n, k = 2048, 32000, 1024
    head = layer(slow, unit="head")
    assert head.forward["products"] == pytest.approx(2 * (m * n + n * k + m * k) / 1e9)
    # Gradients of weights are read and written in four bytes.
    assert head.weights == pytest.approx((2 * (m * n + m * k) + 8 * n * k) / 1e9)


def test_sides_of_a_product_that_are_small_make_it_slow() -> None:
    own = problem(efficiencies=replace(PLAIN, half_side=256))
    head = layer(own, unit="head")
    slower = 1 + 256 * (1 / 2048 + 1 / 32000 + 1 / 1024)
    assert head.forward["products"] == pytest.approx(slower * 2 * 2048 * 32000 * 1024 / 1e15)


def test_causal_attention_is_half_of_its_matrix_and_two_and_a_half_times_backward() -> None:
    own = layer(problem())
    assert own.forward["attention"] == pytest.approx(2 * 2048 * 1024 * 8 * 256 / 1e15)
    assert own.inputs["attention"] == pytest.approx(2.5 * own.forward["attention"])


def test_a_window_bounds_the_keys_of_a_token() -> None:
    some = Attention(8, 128, 2, window=256, windowed_share=0.5)
    keys = (1024 + 256 - 256 * 256 / (2 * 2048)) / 2
    found = layer(problem(own=model(attention=some)))
    assert found.forward["attention"] == pytest.approx(2 * 2048 * keys * 8 * 256 / 1e15)


def test_experts_take_the_tokens_of_all_their_ranks() -> None:
    some = Experts(count=16, per_token=2, hidden=512)
    own = problem(own=model(experts=some, mlp=None))
    by_hand = [(2048 * 2 / 4, 1024, 1024, 4), (2048 * 2 / 4, 1024, 512, 4)]
    assert [one[:4] for one in products(own, "experts", data=8, expert=4) if one[4] == "grouped"] == by_hand
    keys = Keys.of([ParallelismChoice.of(configuration(own, data=8, expert=4)).key])
    items = [item for module in SecondsOfUnits(own, keys, 4.0).modules("experts") for item in module.items]
    ours = [item for item in items if isinstance(item, Product) and item.grouped]
    assert [tuple(float(np.ravel(amount)[0]) for amount in item[:4]) for item in ours] == by_hand


def test_latent_attention_sends_its_latents() -> None:
    some = Attention(8, 128, 8, value_size=128, query_rank=256, key_value_rank=64, rope_size=32)
    own = problem(own=model(attention=some))
    sent = 2 * (256 + 64 + 32) * 2048 + 2 * 1024 * 2048 + 2 * 2 * 1024 * 2048
    assert layer(own, tensor=2).forward["tensor"] == pytest.approx(sent / 2 / 1e11)


# ---- links --------------------------------------------------------------------------------------------


def groups(stride: int, count: int, *latencies: float) -> tuple[float, float, float]:
    """Of 16 GPUs in two nodes: seconds of a gathered byte, of an exchanged one, and once."""
    first, second = latencies or (0.0, 0.0)
    own = Cluster((Level(8, 4e11, first), Level(2, 5e10, second)), 1.0).groups(stride, count)
    return float(own.ring), float(own.exchange), float(own.latency)


def test_a_ring_over_nodes_uses_all_their_links() -> None:
    # Inside a node, over two nodes with one rank in each, and over two nodes with eight ranks in each.
    assert groups(1, 8)[0] == pytest.approx(7 / 8 / 4e11)
    assert groups(8, 2)[0] == pytest.approx(1 / 2 / 5e10)
    assert groups(1, 16)[0] == pytest.approx(15 / 16 / 4e11)
    assert groups(2, 8)[0] == pytest.approx(7 / 8 / 2e11)


def test_an_exchange_is_as_slow_as_its_slowest_level() -> None:
    assert groups(1, 8)[1] == pytest.approx(7 / 8 / 4e11)
    assert groups(1, 16)[1] == pytest.approx(1 / 2 / 5e10)


def test_every_step_of_a_ring_has_the_latency_of_its_level() -> None:
    assert groups(1, 8, 1e-6, 1e-5)[2] == pytest.approx(7e-6)
    assert groups(1, 16, 1e-6, 1e-5)[2] == pytest.approx(7e-6 + 1e-5)


def test_nothing_is_hidden_where_there_is_nothing_to_hide_it_behind() -> None:
    assert exposed(4, 0.5, 10) == 2
    assert exposed(4, 0.5, 1) == 3


# ---- a layer ------------------------------------------------------------------------------------------


def test_tensor_parallelism_gathers_twice_forward_and_three_times_backward() -> None:
    own = layer(problem(), tensor=4)
    gather = 3 / 4 * 2 * 1024 * 2048 / 1e11
    assert own.forward["tensor"] == pytest.approx(4 * gather)
    assert own.inputs["tensor"] == pytest.approx(6 * gather)


def test_without_sequence_parallelism_it_adds_up_twice_each_way() -> None:
    own = layer(problem(sequence_parallel=False), tensor=4)
    both = 2 * 3 / 4 * 2 * 1024 * 2048 / 1e11
    assert own.forward["tensor"] == pytest.approx(2 * both)
    assert own.inputs["tensor"] == pytest.approx(2 * both)
    assert own.forward["memory"] > layer(problem(), tensor=4).forward["memory"]


def test_whole_layers_recomputed_are_their_forward_pass_again() -> None:
    own = layer(problem(), ("full",), tensor=2)
    assert own.again == pytest.approx(own.total)


@pytest.mark.parametrize("module", ["core_attn", "mlp"])
def test_a_module_recomputed_is_a_part_of_it(module: str) -> None:
    own = layer(problem(), (module,))
    assert 0 < own.again < own.total


def test_recomputing_experts_includes_their_activation_and_shared_experts() -> None:
    some = Experts(count=16, per_token=2, hidden=512, shared_hidden=256)
    own = problem(own=model(experts=some, mlp=None))
    parts = ("moe", "moe_act", "shared_experts")
    whole, activation, shared = (layer(own, (name,), "experts", data=8, expert=4).again for name in parts)
    assert 0 < activation < shared
    assert activation + shared < whole < layer(own, ("full",), "experts", data=8, expert=4).again


def test_fp8_halves_products_and_adds_conversions() -> None:
    half, eighth = layer(problem()), layer(problem(precision="fp8"))
    assert eighth.forward["products"] == pytest.approx(half.forward["products"] / 2)
    assert eighth.forward["attention"] == half.forward["attention"]
    assert eighth.forward["memory"] > half.forward["memory"]


@pytest.mark.parametrize("name", ["products", "attention", "memory", "links"])
def test_better_hardware_is_never_slower(name: str) -> None:
    slow, fast = (problem(efficiencies=replace(PLAIN, **{name: value})) for value in (0.3, 0.9))
    assert layer(fast, tensor=2, context=2).total < layer(slow, tensor=2, context=2).total


# ---- layers that were measured --------------------------------------------------------------------------


def measured(*times: MeasuredTime) -> TrainingProblem:
    return problem(own=Model("measured", own=(OwnLayer("a", 10, 0, 0, times), OwnLayer("b", 10, 0, 0, times))))


def test_a_measured_layer_takes_what_was_measured() -> None:
    own = measured(MeasuredTime(2, 1, 0.1, 0.3), MeasuredTime(2, 4, 0.2, 0.6))
    (found,) = Iteration(own, configuration(own, micro_batch=4, tensor=2)).chunks
    assert found.forward == pytest.approx(2 * 0.2)
    assert found.backward == pytest.approx(2 * 0.6)


def test_another_micro_batch_is_in_proportion_to_the_nearest() -> None:
    own = measured(MeasuredTime(2, 4, 0.2, 0.6))
    (found,) = Iteration(own, configuration(own, micro_batch=8, tensor=2)).chunks
    assert found.forward == pytest.approx(2 * 0.4)


def test_a_tensor_degree_that_was_not_measured_is_refused() -> None:
    own = measured(MeasuredTime(2, 4, 0.2, 0.6))
    with pytest.raises(InputError, match="is 4, for which a was not measured"):
        Iteration(own, configuration(own, tensor=4))


# ---- what is usual --------------------------------------------------------------------------------------


def test_gpus_differ_in_what_is_usual() -> None:
    assert usual_of("a100-80gb") == Efficiencies()
    assert usual_of("b200-180gb").products < usual_of("h100-80gb").products < Efficiencies().products
