"""Operations, bytes and times: calculated, against hand counts and what autograd keeps, and measured."""

from __future__ import annotations

import time
from functools import reduce
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from problems.models import FAMILIES, cut_evenly, seeded  # noqa: E402
from problems.nets import Net  # noqa: E402
from torch import nn  # noqa: E402

import pipeplan  # noqa: E402
from pipeplan import InputError  # noqa: E402
from pipeplan.instances.physics.hardware import DEVICES, Hardware  # noqa: E402
from pipeplan.models.capture import capture  # noqa: E402
from pipeplan.models.grouping import ModelInput, extract, group  # noqa: E402
from pipeplan.models.torch_profile import WARM_UP, CpuClock, Moment, NodeCost, costs, measure, one_thread, trace  # noqa: E402

pytestmark = pytest.mark.torch

DEVICE = Hardware("even", 1e12, 2e12, 1e9, 1e9, efficiency=1.0, launch_s=0.0)


def costed(build: Any, hardware: Hardware | None = None, **options: Any) -> dict[str, NodeCost]:
    captured = capture(build, fake=True)
    return costs(trace(captured, **options), captured, group(captured), hardware)


def of(model: nn.Module, *args: Any, **options: Any) -> dict[str, NodeCost]:
    return costed(lambda: (model, args, {}), **options)


def row(*layers: nn.Module) -> nn.Module:
    return Net(lambda net, x: reduce(lambda y, layer: layer(y), net.layers, x).sum(), layers=nn.ModuleList(layers))


# ---- counts by hand ------------------------------------------------------------------------------------


def test_a_row_of_linear_layers() -> None:
    """2 m n k forward; twice that backward, but once where nobody needs the gradient of the input."""
    found = of(row(nn.Linear(8, 16), nn.Linear(16, 4)), torch.randn(32, 8))
    first, second = found["layers.0"], found["layers.1"]
    assert (first.work.flops("forward"), first.work.flops("backward")) == (2 * 32 * 8 * 16, 2 * 32 * 8 * 16)
    assert (second.work.flops("forward"), second.work.flops("backward")) == (2 * 32 * 16 * 4, 4 * 32 * 16 * 4)
    assert first.saved_bytes == 32 * 8 * 4
    assert second.saved_bytes == 32 * 16 * 4


def test_recurrent_layers() -> None:
    """Two layers, eight steps of two samples: four gates, each with a matrix for the input and one for the state."""
    model = Net(lambda net, x: net.layer(x)[0].sum(), layer=nn.LSTM(16, 32, 2, batch_first=True))
    found = of(model, torch.randn(2, 8, 16))["layer"]
    assert found.work.flops("forward") == 2 * 2 * 8 * 4 * 32 * ((16 + 32) + (32 + 32))
    assert found.work.flops("backward") == 2 * found.work.flops("forward")


def test_times_follow_the_roofline() -> None:
    """Forward: x, weight and bias are read, y is written; a billion bytes a second are the limit here."""
    found = of(row(nn.Linear(8, 16), nn.Linear(16, 4)), torch.randn(32, 8), hardware=DEVICE)
    moved = 4 * (32 * 8 + 8 * 16 + 16 + 32 * 16)
    assert found["layers.0"].forward_s == pytest.approx(moved / 1e9)
    slow = Hardware("slow", 1e6, 1e6, 1e15, 1e9, efficiency=0.5, launch_s=3.0)
    found = of(row(nn.Linear(8, 16), nn.Linear(16, 4)), torch.randn(32, 8), hardware=slow)
    assert found["layers.0"].forward_s == pytest.approx(2 * 32 * 8 * 16 / 5e5 + 3.0)


def test_gradients_are_added_to_those_of_earlier_micro_batches() -> None:
    """The weight's gradient is written once, and then read with the sum, which is written: four more times its size."""
    wide = of(row(nn.Linear(8, 4096, bias=False)), torch.randn(1, 8), hardware=DEVICE)["layers.0"]
    weight = 4 * 8 * 4096
    assert wide.backward_s * 1e9 >= 4 * weight


def test_views_are_free_and_look_ups_move_what_they_return() -> None:
    model = Net(lambda net, x: net.layer(x).view(-1).unsqueeze(0).sum(), layer=nn.Embedding(1000, 16))
    found = of(model, torch.zeros(10, dtype=torch.long), hardware=DEVICE)["layer"]
    assert found.forward_s * 1e9 == pytest.approx(10 * 16 * 4 + (10 * 16 * 4 + 4))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_layer_of_mixtral_by_hand(dtype: str) -> None:
    """Its experts are grouped products, which torch's own table does not know."""
    transformers = pytest.importorskip("transformers")
    config = transformers.MixtralConfig(
        use_cache=False, num_hidden_layers=1, hidden_size=512, intermediate_size=1024, vocab_size=100,
        num_attention_heads=8, num_key_value_heads=2,
    )  # fmt: skip

    def build() -> Any:
        model = transformers.MixtralForCausalLM._from_config(config, dtype=getattr(torch, dtype))
        ids = torch.zeros(1, 128, dtype=torch.long)
        return model, (), {"input_ids": ids, "labels": ids}

    tokens, width, inner, experts, chosen = 128, 512, 1024, 8, 2
    attention = 2 * tokens * (2 * width * width + 2 * width * width // 4) + 4 * tokens * tokens * width
    mixture = 2 * tokens * width * experts + 2 * chosen * tokens * 3 * width * inner
    assert costed(build)["model.layers.0"].work.flops("forward") == attention + mixture


def test_attention_step_by_step_keeps_its_scores() -> None:
    def attend(net: Any, x: Any) -> Any:
        q, k, v = net.layer(x).view(2, 64, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1).sum()

    def kept(attention: str) -> NodeCost:
        return of(Net(attend, layer=nn.Linear(16, 48)), torch.randn(2, 64, 16), attention=attention)["layer"]

    fused, math = kept("fused"), kept("math")
    scores = 4 * 2 * 2 * 64 * 64
    assert fused.saved_bytes < math.saved_bytes - scores
    assert fused.work.flops("forward") == math.work.flops("forward") == 2 * 128 * 16 * 48 + 4 * 2 * 2 * 64 * 64 * 8
    with pytest.raises(InputError, match=r"--attention is 'flash'; give fused or math"):
        kept("flash")


# ---- operations without a formula ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def multiply() -> Any:
    library = torch.library.Library("pipeplan_tests", "FRAGMENT")
    library.define("multiply(Tensor x, Tensor weight) -> Tensor")
    library.impl("multiply", lambda x, weight: x @ weight, "CompositeExplicitAutograd")
    torch.library.register_fake("pipeplan_tests::multiply", lambda x, weight: x @ weight, lib=library)

    def backward(context: Any, gradient: Any) -> Any:
        x, weight = context.saved_tensors
        return gradient @ weight.t(), x.t() @ gradient

    torch.library.register_autograd(
        "pipeplan_tests::multiply",
        backward,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        lib=library,
    )
    yield torch.ops.pipeplan_tests.multiply
    library._destroy()


@pytest.fixture
def unknown(multiply: Any) -> Any:
    """Reads a weight in another type and through a view."""
    as_read = lambda weight: weight.to(torch.float64).t().to(torch.float32)  # noqa: E731
    net: Any = Net(lambda net, x: multiply(net.inner(x), as_read(net.weight)).sum(), inner=nn.Linear(4, 4))
    net.weight = nn.Parameter(torch.randn(4, 4))
    return net


def test_an_operation_without_a_formula_is_named_and_not_a_zero(unknown: Any) -> None:
    """Also where it reads a weight in another type and through a view."""
    message = (
        r"^the model has the operation pipeplan_tests\.multiply\.default, which reads the parameter weight "
        r".*register_flop_formula, or give --allow-uncounted"
    )
    with pytest.raises(InputError, match=message):
        of(unknown, torch.randn(3, 4))
    assert of(unknown, torch.randn(3, 4), allow_uncounted=True)


def test_light_operations_on_weights_need_no_formula() -> None:
    def run(net: Any, x: Any) -> Any:
        x = torch.cat([net.token.expand(x.shape[0], -1, -1), x], 1) + net.positions[:, : x.shape[1] + 1]
        return net.layer(nn.functional.dropout(x, 0.5)).sum()

    light: Any = Net(run, layer=nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)))
    light.positions, light.token = nn.Parameter(torch.randn(1, 8, 4)), nn.Parameter(torch.randn(1, 1, 4))
    assert of(light, torch.randn(2, 6, 4))


# ---- what is kept --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("family", ["gpt2", "llama", "t5", "resnet", "whisper"])
def test_a_stage_keeps_what_its_nodes_say(family: str, stages: int) -> None:
    """1.00 to 1.08 of what autograd keeps of the stage: nodes that share a tensor both count it."""
    pytest.importorskip("transformers")
    captured = capture(seeded(FAMILIES[family]))
    grouped = group(captured)
    found = costs(trace(captured), captured, grouped, None)
    stage_of = cut_evenly(list(grouped.nodes), stages)
    values: dict[str, Any] = {}
    for stage in range(stages):
        piece = extract(captured, grouped, stage_of, stage)
        args = [
            captured.inputs[given.name]
            if isinstance(given, ModelInput)
            else values[given.value].detach().requires_grad_(values[given.value].requires_grad)
            for given in piece.inputs
        ]
        size, outputs = _kept_by(piece.module, args, captured.model)
        values |= dict(zip(piece.outputs, outputs, strict=True))
        said = sum(found[name].saved_bytes for name in grouped.nodes if stage_of[name] == stage)
        assert size <= said <= 1.08 * size + 64


def _kept_by(module: Any, args: list[Any], model: nn.Module) -> tuple[float, Any]:
    """Bytes that autograd keeps in a real pass, parameters and buffers left out, and the outputs."""
    fixed = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    held: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs, _ = module(*args)
    return sum(storage.nbytes() for at, storage in held.items() if at not in fixed), outputs


def test_every_floating_point_operation_belongs_to_a_node() -> None:
    pytest.importorskip("transformers")
    captured = capture(seeded(FAMILIES["clip"]), fake=True)
    seen = trace(captured)
    found = costs(seen, captured, group(captured), DEVICES["h100-80gb"])
    total = sum(kernel.work.flops for kernel in seen.kernels)
    assert total == sum(cost.work.flops("forward") + cost.work.flops("backward") for cost in found.values())
    assert total > 0


# ---- times of real passes: each node where it stands in a step, gradients accumulating -------------------


def build(micro_batch: int = 64) -> Any:
    """Two blocks in the proportion 1 to 8, behind each other."""
    made = (nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, 256)) for width in (256, 2048))
    model = Net(lambda net, x: net.blocks[1](net.blocks[0](x)).square().mean(), blocks=nn.ModuleList(made))
    return model, (torch.randn(micro_batch, 256),), {}


def test_the_sum_of_the_nodes_is_an_eager_step() -> None:
    """Within a few percent on a quiet machine; within a factor on any."""
    captured = capture(build)
    grouped = group(captured)
    forward, backward = measure(captured, grouped, 5)
    assert list(forward) == list(grouped.nodes) == ["blocks.0", "blocks.1"]
    model, args, _ = build()
    steps = []
    with one_thread():
        for _ in range(6):
            start = time.thread_time()
            model(*args).backward()
            steps.append(time.thread_time() - start)
    total = sum(forward.values()) + sum(backward.values())
    assert 0.5 < total / sorted(steps[1:])[2] < 2
    assert 4 < forward["blocks.1"] / forward["blocks.0"] < 16
    assert all(backward[name] > forward[name] / 2 for name in grouped.nodes)


def test_gradients_accumulate_and_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = capture(build)
    seen = []

    def mark(self: CpuClock) -> Moment:
        seen.append(next(captured.model.parameters()).grad is not None)
        return Moment(time.perf_counter(), time.thread_time())

    monkeypatch.setattr(CpuClock, "mark", mark)
    given = torch.ones(256, 256)
    captured.model.blocks[0][0].weight.grad = given
    measure(captured, group(captured), 2)
    marks = 2 * (
        1 + 1 + 2 * 2
    )  # a start and an end of a round, of auxiliary operations, of two passes of two nodes
    assert len(seen) == (WARM_UP + 2) * marks
    assert not any(seen[: marks // 2])
    assert all(seen[marks:])
    assert captured.model.blocks[0][0].weight.grad is given
    assert torch.equal(given, torch.ones(256, 256))


def test_a_profile_is_measured() -> None:
    profile = pipeplan.import_torch(build, measure=True, repeats=2)
    assert profile.source["times"] == "measured: cpu, 1 thread, thread time, median of 2"
    assert profile.micro_batch == 64
    assert all(profile.time(node.forward) > 0 and profile.time(node.backward) > 0 for node in profile.nodes)
    assert profile.nodes[0].saved_bytes == 4 * 64 * (256 + 256)
