"""A model and one micro-batch become a graph that calculates the same; what cannot is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from problems.models import FAMILIES, seeded  # noqa: E402

from pipeplan import InputError  # noqa: E402
from pipeplan.models.capture import capture, outputs_of  # noqa: E402

pytestmark = pytest.mark.torch


class Net(torch.nn.Module):
    """One layer, whose code behind it is given."""

    def __init__(self, code: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner = Inner(code)

    def forward(self, x: Any) -> Any:
        return self.inner(x)


class Inner(torch.nn.Module):
    def __init__(self, code: Callable[[Any], Any]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.code = code

    def forward(self, x: Any) -> Any:
        return self.code(self.layer(x))


def built(code: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: (Net(code), (torch.randn(3, 4),), {})


@pytest.mark.parametrize("family", FAMILIES)
def test_the_graph_calculates_the_loss_of_the_model(family: str) -> None:
    pytest.importorskip("transformers")
    build = seeded(FAMILIES[family])
    captured = capture(build)
    made = captured.graph(*captured.inputs.values())
    names = [value.name for value in outputs_of(captured.graph)]
    loss = dict(zip(names, [v for v in made if isinstance(v, torch.Tensor)], strict=True))[captured.loss]
    model, args, kwargs = build()
    assert loss.item() == pytest.approx(model.train()(*args, **kwargs).loss.item(), rel=1e-6)
    assert captured.warnings == ()
    # Vision transformers draw until all numbers fit, which tensors without values cannot.
    assert capture(build, fake=True).sha256 == captured.sha256


def test_the_digest_knows_sizes_and_operations() -> None:
    def one(size: int, code: Callable[[Any], Any]) -> str:
        return capture(lambda: (Net(code), (torch.randn(size, 4),), {})).sha256

    assert one(3, torch.sum) == one(3, torch.sum)
    assert len({one(3, torch.sum), one(5, torch.sum), one(3, torch.mean)}) == 3


def test_parameters_and_their_ties_stay_the_models_own() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x)).sum()

    for fake in (False, True):
        captured = capture(lambda: (Tied(), (torch.randn(2, 4),), {}), fake=fake)
        read = {id(p) for p in captured.graph.parameters()}
        assert read == {id(p) for p in captured.model.parameters()}
        assert len(read) == 3


# ---- the loss ------------------------------------------------------------------------------------------


def test_the_loss_is_the_first_scalar_with_a_gradient() -> None:
    captured = capture(built(lambda y: (y, y.detach().sum(), y.mean(), y.sum())))
    assert captured.loss == "mean"
    assert capture(built(lambda y: (y, y.mean())), training=False).loss is None


def test_the_sum_of_the_first_output_may_be_the_loss() -> None:
    captured = capture(built(lambda y: y * 2), loss="sum")
    made = captured.graph(*captured.inputs.values())
    assert torch.equal(made[0], made[1].sum())


def test_a_model_without_a_loss_is_refused() -> None:
    with pytest.raises(InputError, match=r"returns no scalar that could be the loss; give --loss sum, or wrap"):
        capture(built(lambda y: y))
    with pytest.raises(InputError, match=r"returns nothing that can be differentiated; give --loss sum"):
        capture(built(lambda y: y.argmax()))
    with pytest.raises(InputError, match=r"--loss is 'mean'; give sum"):
        capture(built(torch.sum), loss="mean")


# ---- what cannot be captured ---------------------------------------------------------------------------


def _branching(y: Any) -> Any:
    return y.sum() if y.sum() > 0 else y.mean()


UNCAPTURED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "control flow": (_branching, r"test_capture\.py line \d+, branches on or takes sizes .*; make it static, or"),
    "slice by value": (lambda y: y[: int(y.argmax())].sum(), r"takes .*values of .*tensor.*; "),
    "mask": (lambda y: y[y[:, 0] > 0].sum(), r"takes a number or a size from the values of a tensor"),
    "item": (lambda y: y.sum() * y.max().item(), r"takes a number or a size from the values"),
    "numpy": (lambda y: torch.from_numpy(y.detach().numpy()).sum(), r"leaves torch with \.numpy\(\); write"),
    "mismatch": (lambda y: (y @ y).sum(), r"cannot be captured by torch\.export .*; change this part"),
}


@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize("name", UNCAPTURED)
def test_what_cannot_be_captured_names_module_and_line(name: str, fake: bool) -> None:
    code, message = UNCAPTURED[name]
    with pytest.raises(InputError, match=f"^module inner.*{message}") as told:
        capture(built(code), fake=fake)
    assert "\n" not in str(told.value)


def _raises() -> Any:
    raise KeyError("weights.pt")


@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize(("build", "message"), [
    (_raises, r"^_raises raised KeyError: 'weights\.pt'; let it return \(model, args, kwargs\)"),
    (lambda: None, r"returns an object of type NoneType; let it return"),
    (lambda: (1, 2), r"returns 2 values; let it"),
    (lambda: (torch.zeros(2), (), {}), r"returns a tensor, not a torch\.nn\.Module"),
    (lambda: (torch.nn.Linear(2, 2), torch.zeros(2), {}), r"returns a tensor as args; return a tuple"),
    (lambda: (torch.nn.Linear(2, 2), (), [1]), r"returns an object of type list, not a dict"),
], ids=["raises", "nothing", "two values", "no model", "args", "kwargs"])  # fmt: skip
def test_a_function_that_makes_something_else(build: Callable[[], Any], message: str, fake: bool) -> None:
    with pytest.raises(InputError, match=message):
        capture(build, fake=fake)


# ---- what the export changes ---------------------------------------------------------------------------


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 3


def test_checkpoints_and_backwards_by_hand_are_said() -> None:
    from torch.utils.checkpoint import checkpoint

    captured = capture(built(lambda y: checkpoint(torch.sigmoid, y, use_reentrant=False).sum()))
    assert [warning for warning in captured.warnings if "torch.utils.checkpoint" in warning]
    with pytest.raises(InputError, match="use_reentrant=True; call it with use_reentrant=False"):
        capture(built(lambda y: checkpoint(torch.sigmoid, y, use_reentrant=True).sum()))
    (said,) = capture(built(lambda y: Double.apply(y).sum())).warnings
    assert "the backward pass of Double" in said
    assert Double.apply(torch.ones(1)) == 2  # nothing of it is left behind
