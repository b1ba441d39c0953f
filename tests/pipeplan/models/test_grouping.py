"""Operations become nodes: every parameter in one, ties listed, hidden dependences kept, no circle."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from problems.models import FAMILIES, cut_evenly, seeded, step_in_pieces  # noqa: E402
from problems.nets import Net  # noqa: E402
from torch import nn  # noqa: E402

from pipeplan import InputError  # noqa: E402
from pipeplan.models.capture import Captured, capture  # noqa: E402
from pipeplan.models.grouping import Grouped, group  # noqa: E402
from pipeplan.models.torch_profile import costs, trace  # noqa: E402

pytestmark = pytest.mark.torch


@cache
def captured(family: str) -> Captured:
    pytest.importorskip("transformers")
    return capture(seeded(FAMILIES[family]))


def of(model: nn.Module, *args: Any, loss: str | None = None) -> Captured:
    return capture(lambda: (model, args, {}), loss=loss)


def held_once(grouped: Grouped) -> float:
    second = {name for _, name in grouped.tied}
    return sum(size for held in grouped.parameters.values() for name, size in held.items() if name not in second)


# ---- nine families -------------------------------------------------------------------------------------


@pytest.mark.parametrize("granularity", ["block", "module", "op", "share:0.1"])
@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_are_exact(family: str, granularity: str) -> None:
    """The nodes' parameters without second copies are the model's, to the byte."""
    grouped = group(captured(family), granularity)
    expected = sum(p.numel() * p.element_size() for p in captured(family).model.parameters())
    assert held_once(grouped) == expected
    names = [name for held in grouped.parameters.values() for name in held]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_in_pieces_gives_the_models_loss_and_gradients(family: str) -> None:
    """T5 and Whisper write shifted labels through views; without these writes the loss is another."""
    whole = captured(family)
    grouped = group(whole)
    model, args, kwargs = seeded(FAMILIES[family])()
    expected = model.train()(*args, **kwargs).loss
    expected.backward()
    whole.model.zero_grad()
    loss = step_in_pieces(whole, grouped, cut_evenly(list(grouped.nodes), 3))
    assert loss == pytest.approx(expected.item(), rel=1e-6)
    pairs = [
        (p.grad, q.grad)
        for p, q in zip(whole.model.parameters(), model.parameters(), strict=True)
        if q.grad is not None
    ]
    largest = max(float(q.abs().max()) for _, q in pairs)
    assert len(pairs) > 10
    assert max(float((p - q).abs().max()) for p, q in pairs) / largest < 1e-5


def test_the_blocks_of_a_transformer() -> None:
    grouped = group(captured("gpt2"))
    assert list(grouped.nodes) == [
        "transformer.wte", "transformer.wpe", "transformer/add_1", "transformer.h.0", "transformer.h.1",
        "transformer.ln_f", "lm_head",
    ]  # fmt: skip
    assert grouped.tied == (("transformer.wte.weight", "lm_head.weight"),)
    # Masks and positions belong to nobody.
    assert {"arange", "cumsum"} <= {str(node.name) for node in grouped.auxiliary}
    assert not grouped.auxiliary & set(grouped.owner)
    # A table that three modules share.
    first = "encoder.embed_tokens.weight"
    assert group(captured("t5")).tied == ((first, "decoder.embed_tokens.weight"), (first, "lm_head.weight"))


# ---- granularities -------------------------------------------------------------------------------------


def blocks(*made: nn.Module) -> nn.ModuleList:
    """These blocks, or three small ones."""
    return nn.ModuleList(made or [nn.Linear(4, 4) for _ in range(3)])


def small() -> nn.Module:
    def run(net: Any, x: Any) -> Any:
        for block in net.blocks:
            x = x + block["b"](torch.relu(block["a"](x)))
        return net.head(x).sum()

    made = (nn.ModuleDict({"a": nn.Linear(8, width), "b": nn.Linear(width, 8)}) for width in (8, 8, 512))
    return Net(run, blocks=blocks(*made), head=nn.Linear(8, 1))


@pytest.mark.parametrize(("granularity", "expected"), [
    ("block", ["blocks.0", "blocks.1", "blocks.2", "head"]),
    ("share:0.99", ["blocks.0", "blocks.1", "blocks.2", "head"]),
    ("share:0.5", ["blocks.0", "blocks.1", "blocks.2.a", "blocks.2.b", "head"]),
])  # fmt: skip
def test_modules_are_divided_while_they_hold_much_of_the_work(granularity: str, expected: list[str]) -> None:
    whole = of(small(), torch.randn(4, 8))
    nodes = [name for name in group(whole, granularity).nodes if "/" not in name]
    assert [name for name in nodes if name in expected] == expected
    assert len(group(whole, "op").nodes) == len(whole.operations)


@pytest.mark.parametrize("text", ["blocks", "share", "share:", "share:0", "share:2", "share:x", ""])
def test_a_granularity_that_is_none(text: str) -> None:
    with pytest.raises(InputError, match=r"--granularity is .*; give .*share:0\.1"):
        group(of(small(), torch.randn(4, 8)), text)


# ---- structure -----------------------------------------------------------------------------------------


def twice() -> nn.Module:
    """One module that is called two times."""
    modules = {"inner": nn.Linear(4, 4), "layer": nn.Linear(4, 4), "unused": nn.Linear(3, 5)}
    return Net(lambda net, x: net.layer(net.inner(net.layer(x))).sum(), **modules)


def test_a_second_call_is_a_second_node_and_its_parameters_are_tied() -> None:
    model = twice()
    grouped = group(of(model, torch.randn(2, 4)))
    assert list(grouped.nodes) == ["layer", "inner", "layer@1"]
    assert grouped.tied == (("layer.weight", "layer.weight@1"), ("layer.bias", "layer.bias@1"))
    assert held_once(grouped) == sum(4 * p.numel() for p in model.parameters())


def circle() -> nn.Module:
    """Two blocks, each of which reads from the other."""
    made = (nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]) for _ in range(2))
    order = ((0, 0), (1, 0), (0, 1), (1, 1))
    return Net(
        lambda net, x: reduce(lambda y, at: net.blocks[at[0]][at[1]](y), order, x).sum(), blocks=blocks(*made)
    )


def test_blocks_that_read_from_each_other_become_one() -> None:
    grouped = group(of(circle(), torch.randn(2, 4)))
    assert list(grouped.nodes) == ["blocks.0"]
    assert len(grouped.parameters["blocks.0"]) == 8


def own_code() -> nn.Module:
    """A container with parameters of its own before and behind its children."""

    def run(net: Any, x: Any) -> Any:
        x = x @ net.start
        for block in net.blocks:
            x = block(x)
        return (x @ net.end.t()).sum()

    net = Net(run, blocks=blocks())
    net.start, net.end = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4, 4))
    return net


def test_the_code_of_a_container_closes_no_circle() -> None:
    nodes = group(of(own_code(), torch.randn(2, 4))).nodes
    assert list(nodes) == ["(root)", "blocks.0", "blocks.1", "blocks.2", "(root)/1"]


def writes() -> nn.Module:
    """The second block writes into what the first one made, through a view."""

    def run(net: Any, x: Any) -> Any:
        made = net.blocks[0](x) * 1
        made[0].mul_(net.blocks[1](made)[0].detach())
        return net.blocks[2](made).sum()

    return Net(run, blocks=blocks())


def test_a_write_into_anothers_memory_merges_the_two() -> None:
    model = writes()
    grouped = group(of(model, torch.randn(2, 4)))
    assert list(grouped.nodes) == ["blocks.0", "blocks.2"]
    assert "blocks.1.weight" in grouped.parameters["blocks.0"]
    assert "(root)/mul_" not in group(of(model, torch.randn(2, 4)), "module").nodes


def filled() -> nn.Module:
    """A tensor of zeros that one block fills and the next one reads."""

    def run(net: Any, x: Any) -> Any:
        kept = torch.zeros_like(x)
        kept[:, :] = net.blocks[0](x)
        return net.blocks[1](kept).sum()

    return Net(run, blocks=blocks())


@pytest.mark.parametrize("model", [twice, own_code, writes, filled, small])
def test_pieces_of_odd_models_calculate_the_same(model: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    made, x = model(), torch.randn(2, 8 if model is small else 4)
    expected = made(x)
    expected.backward()
    gradients = [p.grad.clone() for p in made.parameters() if p.grad is not None]
    made.zero_grad()
    whole = of(made, x)
    grouped = group(whole)
    assert len(grouped.nodes) > 1
    loss = step_in_pieces(whole, grouped, cut_evenly(list(grouped.nodes), len(grouped.nodes)))
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    found = [p.grad for p in made.parameters() if p.grad is not None]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, gradients, strict=True))


def normed() -> nn.Module:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten())
    return Net(lambda net, x: net.layers(x).sum(), layers=layers)


def test_updates_of_buffers_stay_with_their_module() -> None:
    grouped = group(of(normed(), torch.randn(2, 3, 8, 8)))
    assert list(grouped.nodes) == ["layers.0", "layers.1"]
    assert grouped.buffer_bytes["layers.1"] == 4 * 4 * 2 + 8


def averages() -> Any:
    """Updates a buffer where no gradients are kept, by code that nobody reads."""

    def run(net: Any, x: Any) -> Any:
        x = net.blocks[0](x)
        with torch.no_grad():
            net.average.mul_(0.5)
            net.average.view(2, 2).add_(x.mean(0).view(2, 2))
        return net.blocks[1](x + net.average).sum()

    net = Net(run, blocks=blocks())
    net.register_buffer("average", torch.zeros(4))
    return net


def test_buffers_are_updated_where_no_gradients_are_kept() -> None:
    torch.manual_seed(0)
    model, x = averages(), torch.randn(2, 4)
    expected, average = model(x).item(), model.average.clone()
    model.average.zero_()
    whole = of(model, x)
    grouped = group(whole)
    loss = step_in_pieces(whole, grouped, cut_evenly(list(grouped.nodes), len(grouped.nodes)))
    assert loss == pytest.approx(expected)
    assert torch.equal(model.average, average)


def heavy() -> nn.Module:
    """Most of the work depends on the input alone."""
    return Net(lambda net, x: net.layer(x @ x @ x).sum(), layer=nn.Linear(64, 64))


def casts() -> nn.Module:
    def run(net: Any, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net.layer(x).sum()

    return Net(run, layer=nn.Linear(64, 64))


@pytest.mark.parametrize(("model", "message"), [
    (heavy, r"the model calculates \d\d% .*from the inputs alone.*; give their results"),
    (casts, r"inside torch\.autocast.*; give the model in bfloat16"),
])  # fmt: skip
def test_work_that_a_profile_would_hide_is_refused(model: Callable[[], nn.Module], message: str) -> None:
    whole = of(model(), torch.randn(64, 64))
    with pytest.raises(InputError, match=message):
        costs(trace(whole), whole, group(whole), None)


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(InputError, match="differentiated"):
        of(nn.ReLU(), torch.randn(2, 4))
    with pytest.raises(InputError, match=r"no operation that reads a parameter; give a model with parameters"):
        group(capture(lambda: (nn.ReLU(), (torch.randn(2, 4),), {}), training=False))
