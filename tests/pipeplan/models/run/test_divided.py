"""A backward pass in two parts gives the gradients of a whole one, whatever leads to inputs, to weights or to both."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from pipeplan.models.run.engine import DividedBackward  # noqa: E402


def shared_twice(x: Any, w: Any, b: Any) -> list[Any]:
    """A weight that an operation and one behind it use."""
    return [torch.tanh(torch.tanh(x @ w + b) @ w.t() + b)]


def two_outputs(x: Any, w: Any, b: Any) -> list[Any]:
    """One leads to the input and one to weights alone."""
    return [torch.relu(x @ w), (w * w).sum() + b.sum()]


def without_input(x: Any, w: Any, b: Any) -> list[Any]:
    return [torch.tanh(w) @ w + b]


def without_weights(x: Any, w: Any, b: Any) -> list[Any]:
    return [torch.sin(x) * x]


def branches(x: Any, w: Any, b: Any) -> list[Any]:
    """That meet again, one of them through a view and a part of the weight."""
    left, right = x @ w, x.t() @ w[: x.shape[0]]
    return [torch.softmax(left, -1) + right.sum(), left * b]


def an_input_as_output(x: Any, w: Any, b: Any) -> list[Any]:
    return [x * 1.0, w]


@pytest.mark.parametrize(
    "stage", [shared_twice, two_outputs, without_input, without_weights, branches, an_input_as_output]
)
def test_both_parts_together_are_the_whole(stage: Any) -> None:
    torch.manual_seed(1)
    tensors = [torch.randn(4, 4, dtype=torch.float64) for _ in range(3)]
    found: list[list[Any]] = []
    for divided in (False, True):
        x, w, b = (tensor.clone().requires_grad_() for tensor in tensors)
        made = stage(x, w, b)
        pairs = [(tensor, torch.full_like(tensor, 0.5)) for tensor in made]
        if divided:
            both = DividedBackward(pairs, [x])
            both.inputs()
            assert w.grad is None
            assert b.grad is None
            both.weights()
        else:
            torch.autograd.backward([tensor for tensor, _ in pairs], [gradient for _, gradient in pairs])
        found.append([tensor.grad for tensor in (x, w, b)])
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, rtol=1e-12, atol=1e-14)


def test_gradients_of_weights_are_added_up_over_micro_batches() -> None:
    x, w = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2, requires_grad=True)
    for _ in range(3):
        y = x @ w
        both = DividedBackward([(y, torch.ones_like(y))], [x])
        both.inputs()
        both.weights()
    assert torch.equal(w.grad, torch.full((2, 2), 6.0))


def test_the_second_part_runs_only_what_leads_to_weights() -> None:
    """Each operation beside a weight once; the way to the input is not run again."""
    runs: list[str] = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, tensor: Any) -> Any:
            return tensor.sin()

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            runs.append("input")
            return gradient

    x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    y = Counted.apply(Counted.apply(x) @ w) @ w.t()
    both = DividedBackward([(y, torch.ones_like(y))], [x])
    both.inputs()
    assert len(runs) == 2
    both.weights()
    assert len(runs) <= 3, "the one between the two uses of the weight alone"
