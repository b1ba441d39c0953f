"""What `plan calibrate` measures, for real and tiny, on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pipeplan.instances.base.errors import InputError, UsageError  # noqa: E402
from pipeplan.models import calibration  # noqa: E402
from pipeplan.models.calibration import Training, Transformer, calibrate, collectives, kernel, train  # noqa: E402
from pipeplan.studies.calibrate import COLLECTIVES, SHAPES, Small  # noqa: E402

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")
SMALL = Small("tiny", 2, 64, 2, 128, 32, 2, 2)
SIZES = {
    "products": (32, 16, 8), "attention": (1, 2, 16, 8), "norm": (4, 8), "loss": (8, 16), "optimizer": (1024,),
    "copy": (1024,), "layers": (1, 32, 2, 16, 1),
}  # fmt: skip


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same kinds of kernels and trainings, of the least size."""
    kernels = [
        ("layers", (1, 32, 2, 16, 1)),
        *SIZES.items(),
        ("products", (512, 512, 512)),
        ("products", (256, 512, 512)),
    ]
    monkeypatch.setattr(calibration, "to_measure", lambda kind, sequence: (kernels, [SMALL]))


def test_there_is_a_kernel_for_every_shape() -> None:
    assert {*SIZES, *COLLECTIVES} == {*SHAPES}
    for what, shape in SIZES.items():
        run = kernel(what, shape, CPU)
        run()
        run()


def test_gradients_of_micro_batches_are_added_up_in_32_bits_before_the_update() -> None:
    training = Training(Transformer(SMALL).to(CPU, torch.bfloat16))
    tokens = torch.randint(128, (2, 32))
    training.model(tokens).backward()
    once = [master.grad.clone() for master in training.masters]
    training.model(tokens).backward()
    assert all(torch.equal(m.grad, 2 * g) for m, g in zip(training.masters, once, strict=True))
    assert all(weight.grad is None for weight in training.weights)
    before = training.masters[-1].clone()
    training.update()
    assert not torch.equal(before, training.masters[-1])
    assert torch.equal(training.weights[-1], training.masters[-1].bfloat16())
    assert not any(master.grad.any() for master in training.masters)


def test_a_training_has_ten_steps_and_a_peak_above_its_18_bytes_a_parameter() -> None:
    trained = train(SMALL, CPU)
    parameters = sum(weight.numel() for weight in Transformer(SMALL).parameters())
    assert len(trained.seconds) == 10
    assert min(trained.seconds) > 0
    assert 18 * parameters < trained.peak_bytes < 18 * parameters + 2**24


def test_everything_is_measured_and_judged(tiny: None) -> None:
    said: list[str] = []
    own = calibrate("cpu", 1, 16, 0.0, said.append)
    assert own.finished
    assert {point.what for point in own.points} == {*SIZES}
    assert [one.name for one in own.judged] == ["tiny"]
    assert (own.card.type, own.card.torch) == ("cpu", torch.__version__)
    assert {"products", "memory", "attention", "elementwise_traffic"} <= {*own.fit.measured}
    assert own.to_json()["gpu"] == own.fit.gpu.name
    assert said == ["10 kernels in turn", "10 steps of the training tiny"]


@pytest.mark.parametrize(
    ("after", "kept"), [(25, {"layers", "products", "attention", "norm", "loss"}), (60, {*SIZES})]
)
def test_ctrl_c_keeps_what_was_measured(
    tiny: None, monkeypatch: pytest.MonkeyPatch, after: int, kept: set[str]
) -> None:
    count = 0

    def timed(*_: Any) -> float:
        nonlocal count
        count += 1
        if count > after:
            raise KeyboardInterrupt
        return 0.5

    monkeypatch.setattr(calibration, "timed", timed)
    own = calibrate("cpu", 1, 16, 0.0, str)
    assert not own.finished
    assert {point.what for point in own.points} == kept
    assert not own.trainings


def test_ctrl_c_before_anything_was_measured_ends_the_command(tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(calibration, "timed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        calibrate("cpu", 1, 16, 0.0, str)


def test_two_processes_measure_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    points = collectives(2, "cpu")
    assert [point.what for point in points] == [what for what in COLLECTIVES for _ in calibration.SIZES]
    assert all(point.seconds > 0 and point.shape[0] == 2 for point in points)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="PyTorch sees no CUDA device here; give --on cpu"):
        calibrate("cuda", None, None, 0.0, str)


@pytest.mark.parametrize(
    ("devices", "sequence", "sentence"),
    [(0, None, "--devices is 0"), (17, None, "--devices is 17"), (1, 0, "--sequence is 0")],
)
def test_numbers_that_make_no_sense_are_refused(devices: int, sequence: int | None, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        calibrate("cpu", devices, sequence, 0.0, str)
