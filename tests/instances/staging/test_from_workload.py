"""What becomes of the networks as staging problems: blocks, their ways to run, and a graph with many downsets."""

from __future__ import annotations

import pytest

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.networks.analytic import DEVICES, LINKS, build
from pipeplan.instances.networks.analytic.blocks import blocks
from pipeplan.instances.staging.from_workload import RECOMPUTE, TRANSFORMER, VANILLA, to_staging
from pipeplan.instances.staging.problem import Configuration, StagingProblem

A100, NVLINK, PCIE = DEVICES["a100-40gb"], LINKS["nvlink3"], LINKS["pcie4-x16"]


def lowered(name: str, **options: object) -> StagingProblem:
    settings = {"devices": 8, "micro_batches": 32, **options}
    return to_staging(build(name, 2), A100, NVLINK, **settings)  # type: ignore[arg-type]


def ways(problem: StagingProblem, layer: str, t: int) -> dict[str, Configuration]:
    return {way.id: way for way in problem.layers[problem.index[layer]].configurations[t]}


GPT = lowered("gpt2-xl-operators")
ACTIVATION = 2 * 1024 * 1600 * 2
"""Samples, tokens, width, bytes."""


def test_transformer_layers_are_blocks_and_bear_the_published_name() -> None:
    assert [layer.id for layer in GPT.layers] == ["embedding", *(f"layer{i}" for i in range(48)), "norm", "logits"]
    assert {layer.id for layer in GPT.layers if layer.name == TRANSFORMER} == {f"layer{i}" for i in range(48)}


@pytest.mark.parametrize(
    ("name", "count"), [("bert-large-operators", 26), ("bert-large", 26), ("resnet50", 19), ("vgg16", 34)]
)
def test_how_many_blocks(name: str, count: int) -> None:
    """24 transformer layers, embedding, pooler; 16 residual blocks, stem, pool, classifier; VGG has none to merge."""
    assert len(lowered(name).layers) == count


def test_a_tensor_with_several_readers_in_a_block_crosses_once() -> None:
    """A transformer layer reads its input in the normalisation and in the residual sum."""
    assert {edge.bytes for edge in GPT.edges} == {ACTIVATION}
    assert len(GPT.edges) == len(GPT.layers) - 1


def test_network_inputs_are_no_layers() -> None:
    assert not lowered("bert-base").predecessors[0]
    assert all(layer.kind != "input" for block in blocks(build("gnmt")) for layer in block.layers)


@pytest.mark.parametrize("t", [1, 2, 4, 8])
def test_matrices_are_divided_and_normalisations_are_not(t: int) -> None:
    """12 width^2 weights and their biases in a layer of GPT-2, and two normalisations of 2 width."""
    norms = 4 * 1600
    parameters = (12 * 1600**2 + 9 * 1600) / t + norms
    way = ways(GPT, "layer7", t)[VANILLA]
    assert way.weight_bytes == pytest.approx(2 * parameters)
    # Two versions and the gradient in 2 bytes, two moments and the master copy in 4.
    assert way.memory_fixed == pytest.approx((3 * 2 + 3 * 4) * parameters)


@pytest.mark.parametrize("t", [1, 2, 4, 8])
def test_two_all_reduces_forward_and_two_backward(t: int) -> None:
    """A slower tensor link costs their volume more, 2 (t-1)/t activations each; recomputing repeats the forward two."""
    slow = lowered("gpt2-xl-operators", tensor_link=PCIE)
    per_byte = 1 / PCIE.bytes_per_s - 1 / NVLINK.bytes_per_s
    for name, reduces in ((VANILLA, 4), (RECOMPUTE, 6)):
        more = ways(slow, "layer7", t)[name].time - ways(GPT, "layer7", t)[name].time
        assert more == pytest.approx(reduces * 2 * (t - 1) / t * ACTIVATION * per_byte, abs=1e-11)


def test_layers_whole_or_by_operators_speak_equally_much() -> None:
    coarse, slow = lowered("gpt2-xl"), lowered("gpt2-xl", tensor_link=PCIE)
    more = ways(slow, "layer7", 4)[VANILLA].time - ways(coarse, "layer7", 4)[VANILLA].time
    per_byte = 1 / PCIE.bytes_per_s - 1 / NVLINK.bytes_per_s
    assert more == pytest.approx(4 * 2 * 3 / 4 * ACTIVATION * per_byte, abs=1e-11)


def test_recomputation_keeps_the_input_and_runs_forward_twice() -> None:
    for t in (1, 2, 4, 8):
        pair = ways(GPT, "layer7", t)
        assert pair[RECOMPUTE].memory_per_batch == ACTIVATION < pair[VANILLA].memory_per_batch
        assert 1.3 < pair[RECOMPUTE].time / pair[VANILLA].time < 1.5
        assert pair[RECOMPUTE].memory_fixed == pair[VANILLA].memory_fixed


def test_inner_activations_by_hand() -> None:
    """Kept in a layer of GPT-2: what its operators read, each tensor once; parts between columns and rows are split.

    Whole: input, two norms' outputs, the first sum, both branches into the sums. Split: query, key, value, scores,
    softmax, context, and twice the four-fold width of the feed-forward part.
    """
    scores = 2 * 25 * 1024 * 1024 * 2
    for t in (1, 4):
        whole, inside = (1 + 2 + 1 + 2) * ACTIVATION, (3 + 1 + 2 * 4) * ACTIVATION + 2 * scores
        assert ways(GPT, "layer7", t)[VANILLA].memory_per_batch == pytest.approx(whole + inside / t)


def test_recomputation_is_offered_only_where_it_saves_memory() -> None:
    assert set(ways(GPT, "logits", 1)) == {VANILLA}
    assert set(ways(lowered("gpt2-xl-operators", recomputation=False), "layer7", 2)) == {VANILLA}


def test_more_devices_are_faster_for_matrices_and_useless_for_what_is_not_split() -> None:
    times = [ways(GPT, "layer7", t)[VANILLA].time for t in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    assert len({ways(GPT, "norm", t)[VANILLA].time for t in (1, 2, 4, 8)}) == 1


def test_received_tensors_are_shared_among_the_devices() -> None:
    """Counted forward and backward by the cost model, gathered once."""
    way = ways(GPT, "layer7", 4)[VANILLA]
    assert way.gather_in == {"layer6": 3 / 4 / 2 * ACTIVATION}
    assert way.gather_out == {"layer8": 3 / 4 / 2 * ACTIVATION}
    assert not ways(GPT, "layer7", 1)[VANILLA].gather_in


def test_convolutions_are_split_by_outputs() -> None:
    net, slow = lowered("resnet50"), lowered("resnet50", tensor_link=PCIE)
    way = ways(net, "layer2.1", 2)[VANILLA]
    convolutions, norms = 512 * 128 + 9 * 128 * 128 + 128 * 512, 2 * (128 + 128 + 512)
    assert way.weight_bytes == 4 * (convolutions / 2 + norms)
    outputs = 2 * 28 * 28 * (128 + 128 + 512) * 4
    inputs = 2 * 28 * 28 * (512 + 128 + 128) * 4
    per_byte = 1 / PCIE.bytes_per_s - 1 / NVLINK.bytes_per_s
    assert ways(slow, "layer2.1", 2)[VANILLA].time - way.time == pytest.approx(
        (outputs + 2 * inputs) / 2 * per_byte, abs=1e-11
    )


def test_degrees_beyond_the_cluster_are_left_out() -> None:
    assert lowered("gpt2-small", devices=3).degrees == (1, 2)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tensor_degrees": (1, 0)}, "tensor_degrees"),
        ({"tensor_degrees": (2, 4)}, "tensor_degrees"),
        ({"weight_versions": 0}, "weight_versions"),
        ({"devices": 0}, "devices"),
        ({"micro_batches": 0}, "micro_batches"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        lowered("gpt2-small", **options)
    assert caught.value.field == field


# ---- many downsets -------------------------------------------------------------------------------------


def downsets(problem: StagingProblem) -> int:
    """Sets of layers that hold all successors of their members, counted by growing them layer by layer."""
    after = [sum(1 << v for v in near) for near in problem.successors]
    known, new = {0}, [0]
    while new:
        held = new.pop()
        for v, needed in enumerate(after):
            if not held >> v & 1 and not needed & ~held and held | 1 << v not in known:
                known.add(held | 1 << v)
                new.append(held | 1 << v)
    return len(known)


def test_gnmt_by_operators_has_more_than_17000_downsets() -> None:
    problem = lowered("gnmt-operators", merge=False)
    assert (len(problem.layers), len(problem.edges)) == (129, 149)
    assert downsets(problem) == 17_258


@pytest.mark.parametrize(("name", "count"), [("gpt2-small-operators", 16), ("inception_v3", 21)])
def test_merged_networks_are_chains(name: str, count: int) -> None:
    """One downset more than there are blocks."""
    problem = lowered(name)
    assert downsets(problem) == len(problem.layers) + 1 == count
