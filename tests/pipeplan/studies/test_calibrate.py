"""`plan calibrate` without torch: recorded measurements become efficiencies, a device, a judgement and a page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Plan, refused

from pipeplan import InputError
from pipeplan.cli.calibrate import _judgement
from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.physics.hardware import GPUS
from pipeplan.instances.training.problem import Gpu
from pipeplan.studies.calibrate import (
    BYTES,
    COLLECTIVES,
    Calibration,
    Card,
    Fit,
    Point,
    _seconds_of_layers,
    read_calibration,
    spread_of,
    to_measure,
)

RECORDED = Path(__file__).with_name("recorded_calibration.json")
CPU = Card("Some CPU @ 2 GHz", "cpu", 2.0**34, "2.13.0", None, None, "0.1.0")
H100 = replace(CPU, name="NVIDIA H100 80GB HBM3", type="cuda", cuda="12.8", driver="570.1")


def made_of(card: Card, gpu: Gpu, own: Efficiencies) -> list[Point]:
    """What would be measured if the training model were right."""
    peak, rate, launch = gpu.flops["bf16"], own.memory * gpu.memory_rate, own.launch_seconds

    def seconds(point: Point) -> float:
        if point.what == "layers":
            return _seconds_of_layers(point, gpu, own)
        if point.what == "products":
            sides = 1 + own.half_side * sum(1 / side for side in point.shape)
            return point.amount * sides / (own.products * peak) + 3 * launch
        if point.what == "attention":
            return point.amount / (own.attention * peak) + 3 * launch
        if point.what in COLLECTIVES:
            return point.amount / 3e11 + own.collective_seconds
        factor = {"norm": own.norm_traffic, "loss": own.loss_traffic}.get(point.what)
        return point.amount / rate if factor is None else factor * point.amount / rate + 2 * launch

    shapes = to_measure(card.type, 512)[0] + [(what, (4, size)) for what in COLLECTIVES for size in (2**14, 2**25)]
    points = [Point(what, shape, 1.0, 0.0) for what, shape in shapes]
    return [replace(point, seconds=seconds(point)) for point in points]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def recorded() -> Calibration:
    return read_calibration(RECORDED)


# ---- the fit -------------------------------------------------------------------------------------------


def test_a_device_of_which_nothing_is_known_is_described_by_what_was_measured() -> None:
    gpu = Gpu("made", None, {"bf16": 4e11}, 4e10)
    own = Efficiencies(
        products=1, half_side=40, memory=0.8, attention=0.1, launch_seconds=5e-5, norm_traffic=4, loss_traffic=5,
        elementwise_traffic=3, links=1, collective_seconds=1e-4,
    )  # fmt: skip
    points = [replace(p, seconds=p.amount / 4e10) if p.what == "copy" else p for p in made_of(CPU, gpu, own)]
    fit = Fit(CPU, points, 512)
    assert fit.gpu.name == "some-cpu-2-ghz"
    assert fit.gpu.flops["bf16"] == pytest.approx(4e11, rel=0.01)
    assert fit.gpu.memory_rate == pytest.approx(4e10)
    assert fit.link_rate == pytest.approx(3e11)
    # A layer of width 32 is not quite nothing, so that launches take up some of it.
    assert fit.measured["launch_seconds"] == pytest.approx(own.launch_seconds, rel=0.02)
    for name in fit.measured:
        assert getattr(fit.own, name) == pytest.approx(getattr(own, name), rel=0.05), name


def test_a_gpu_that_is_known_keeps_its_data_sheet_and_has_shares_of_it() -> None:
    known = GPUS["h100-80gb"]
    own = replace(known.usual, products=0.6, host_seconds=6e-5, norm_traffic=9.0, memory=0.7)
    fit = Fit(H100, made_of(H100, Gpu("h100-80gb", None, known.flops, known.memory_rate), own), 512)
    assert (fit.gpu.name, fit.gpu.flops, fit.gpu.memory_rate) == ("h100-80gb", known.flops, known.memory_rate)
    assert fit.own.products == pytest.approx(0.6, rel=0.01)
    assert fit.own.memory == pytest.approx(0.7, rel=0.01)
    assert fit.own.norm_traffic == pytest.approx(9, rel=0.01)
    assert fit.own.host_seconds == pytest.approx(6e-5, rel=0.02)
    assert fit.own.launch_seconds == known.usual.launch_seconds, "events see no launch behind a slow host"
    assert fit.own.links == pytest.approx(3e11 / known.inside, rel=0.01)


def test_what_was_not_measured_stays_as_usual(recorded: Calibration) -> None:
    few = [point for point in recorded.points if point.what == "products"]
    fit = Fit(recorded.card, few, 512)
    assert set(fit.measured) == {"products", "half_side"}
    assert fit.own.norm_traffic == Efficiencies().norm_traffic
    nothing = Fit(recorded.card, few[:2], 512)
    assert not nothing.measured
    assert nothing.own == Efficiencies()


def test_a_share_above_the_peak_is_all_of_it() -> None:
    known = GPUS["h100-80gb"]
    twice = Gpu("h100-80gb", None, {"bf16": 2 * known.flops["bf16"]}, known.memory_rate)
    assert Fit(H100, made_of(H100, twice, replace(known.usual, products=0.9)), 512).own.products == 1


def test_amounts_are_those_of_the_training_model() -> None:
    assert Point("products", (2, 3, 5), 1, 0).amount == 6 * 30
    assert Point("attention", (2, 4, 8, 16), 1, 0).amount == 3.5 * 2 * (2 * 4 * 8 * 8 * 16)
    assert BYTES["optimizer"] == 38
    assert [Point(what, (4, 100), 1, 0).amount for what in COLLECTIVES] == [150, 75, 75, 100]


# ---- the judgement -------------------------------------------------------------------------------------


def test_recorded_trainings_are_predicted_within_ten_per_cent_or_twice_their_spread(recorded: Calibration) -> None:
    assert len(recorded.judged) == 3
    for own in recorded.judged:
        assert abs(own.error) <= max(0.1, 2 * own.spread), own
        assert abs(own.memory_error) <= 0.05, own


def test_trainings_have_layers_that_were_not_measured(recorded: Calibration) -> None:
    measured = {point.shape[1:] for point in recorded.points if point.what == "layers"}
    trained = {(s.hidden, s.heads, s.sequence, s.micro_batch) for s in (own.small for own in recorded.trainings)}
    assert not trained & measured


def test_steps_that_vary_by_more_than_ten_per_cent_are_named(recorded: Calibration) -> None:
    assert spread_of([1.0] * 9 + [2.0]) == pytest.approx(0.1)
    assert spread_of([1.0]) == 0
    first = recorded.trainings[0]
    restless = replace(first, seconds=tuple(second * (1 + i / 20) for i, second in enumerate(first.seconds)))
    assert f"steps of {first.small.name}" not in recorded.unsteady
    assert f"steps of {first.small.name}" in replace(recorded, trainings=(restless,)).unsteady
    assert "all-reduce 2x16384" in recorded.unsteady


# ---- the file ------------------------------------------------------------------------------------------


def test_the_file_plans_on_the_device_that_it_describes_and_is_refused_for_another(plan: Plan) -> None:
    said = plan("calibrate", str(RECORDED), "-o", "card.json")
    assert said.code == 0, said.err
    assert "AMD EPYC (torch 2.13.0+cpu, pipeplan 0.1.0): amd-epyc" in said.out
    words = ("configure", "llama-3-8b", "--layers", 1, "--sequence", 512, "--batch", 2, "--framework", "pytorch")
    judged = (*words, "--efficiencies", "card.json", "--judge", "micro-batch=1")
    told = plan(*judged, "--devices", "1xcard.json", "--json").json["judged"][0]
    alone = plan(*words, "--judge", "micro-batch=1", "--devices", 1, "--gpu", "card.json", "--json")
    assert alone.json["judged"][0]["seconds"] == told["seconds"], "the file has the efficiencies of its device"
    assert 3 < told["seconds"] < 30, "a third of a second for each TFLOP, on one thread"
    refused(plan(*judged, "--devices", "1xh100-80gb"), "card.json: gpu is amd-epyc, and the problem has h100-80gb")
    again = plan("calibrate", "card.json", "--json").json
    assert again == json.loads((Path.cwd() / "card.json").read_text()), "a file says what it was made of"


def test_devices_whose_links_were_not_measured_cannot_be_several(plan: Plan, recorded: Calibration) -> None:
    alone = replace(recorded, points=tuple(p for p in recorded.points if p.what not in COLLECTIVES))
    Path("alone.json").write_text(json.dumps(alone.to_json()))
    words = ("configure", "llama-3-8b", "--layers", 1, "--sequence", 512, "--batch", 2, "--judge", "data=2")
    said = "alone.json: device.inside is missing, and there are 2 devices; give the rate of their links"
    refused(plan(*words, "--devices", "2xalone.json"), said)
    refused(plan(*words, "--devices", "2", "--gpu", "alone.json"), said)
    refused(plan(*words, "--devices", "2xnone.json"), "none.json")


@pytest.mark.parametrize(("change", "sentence"), [
    ({"what": "sums"}, "calibration.points[0] is sums 512x512"),
    ({"what": "norm"}, "calibration.points[0] is norm 5x5x5"),
    ({"seconds": 0}, "calibration.points[0].seconds is 0"),
])  # fmt: skip
def test_files_that_hold_no_calibration(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    data = json.loads(RECORDED.read_text())
    shape = [512, 512] if change.get("what") == "sums" else [5, 5, 5]
    data["calibration"]["points"][0] |= {"what": "products", "shape": shape, **change}
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError) as found:
        read_calibration(path)
    assert sentence in str(found.value)


def test_the_page_on_calibration_shows_what_was_recorded(recorded: Calibration) -> None:
    page = (Path(__file__).parents[3] / "docs" / "accuracy.md").read_text()
    for row in _judgement(recorded):
        assert f"| {' | '.join(row)} |" in page


def test_without_torch_a_sentence_says_what_to_install(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeplan.models.from_torch.find_spec", lambda name: None)
    refused(plan("calibrate"), "torch is not installed; run pip install 'pipeplan[torch]'")
