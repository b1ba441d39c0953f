"""What ranks answer becomes a report: whose time counts, when the machine was busy, what the next plan is made of."""

from __future__ import annotations

import pytest
from problems.profiles import ROW
from run_reports import MICRO_BATCHES, PLAN, answers, report_of, schedule, whole_report

from pipeplan.models.run.orders import schedule_of
from pipeplan.models.run.report import Check, case_report, in_context
from pipeplan.show.terminal import sentences


def test_what_went_as_predicted_has_no_error() -> None:
    report = report_of()
    assert report.clean
    assert report.measured == pytest.approx(report.predicted)
    assert report.virtual == pytest.approx(report.predicted)
    assert report.error == pytest.approx(0.0)
    assert [rank.sent_bytes for rank in report.ranks] == [100, 101]
    assert report.ranks[0].busy == pytest.approx(MICRO_BATCHES * 6e-3)
    assert report.ranks[0].busy + report.ranks[0].waiting == pytest.approx(report.measured)
    assert report.loss == 1.5


def test_on_a_clean_machine_the_wall_clock_is_judged() -> None:
    report = report_of(slowdown=1.25)
    assert report.clean
    assert report.judged == report.measured
    assert report.error == pytest.approx(1 / 1.25 - 1, abs=1e-3)


def test_on_a_busy_machine_the_virtual_clock_is_judged() -> None:
    report = report_of(wall_per_cpu=2.0)
    assert report.clean is False
    assert report.ratio == pytest.approx(2.0)
    assert report.measured == pytest.approx(2 * report.predicted, rel=0.01)
    assert report.judged == report.virtual == pytest.approx(report.predicted)


def test_a_profile_of_the_run_has_its_times() -> None:
    profile, factor = in_context(ROW, schedule(), report_of(slowdown=1.5))
    assert factor == pytest.approx(1.5)
    assert [profile.time(node.forward) for node in profile.nodes] == pytest.approx([1.5] * 4)
    assert [profile.time(node.backward) for node in profile.nodes] == pytest.approx([3.0] * 4)
    again = schedule_of(PLAN, profile, MICRO_BATCHES, bandwidth=1e9).predicted
    assert again.iteration == pytest.approx(1.5 * schedule().predicted.iteration, rel=0.01)


def test_a_profile_without_times_gets_those_of_its_stages_in_equal_shares() -> None:
    from dataclasses import replace

    empty = ROW.replace(nodes=tuple(replace(node, forward=0.0, backward=0.0) for node in ROW.nodes))
    blank = schedule_of(PLAN, empty, MICRO_BATCHES, bandwidth=1e9)
    profile, _ = in_context(empty, blank, case_report("plan", blank, answers()))
    assert [profile.time(node.forward) for node in profile.nodes] == pytest.approx([1.0] * 4)


@pytest.mark.parametrize(("check", "agrees"), [
    (Check(2.0, 2.0 + 1e-7, 1e-7, 12), True),
    (Check(2.0, 2.1, 1e-7, 12), False),
    (Check(2.0, 2.0, 1e-4, 12), False),
    (Check(None, 2.0, 0.0, 12), False),
    (Check(2.0, 2.0, None, 12), False),
    (Check(0.0, 0.0, 0.0, 12, empty=True), False),
    (Check(2.0, 2.0, 0.0, 0), False),
])  # fmt: skip
def test_when_a_check_agrees(check: Check, agrees: bool) -> None:
    assert check.agrees is agrees


def test_gains_are_of_one_clock() -> None:
    assert whole_report().gain_measured == pytest.approx(2.0, rel=0.01)
    assert whole_report(3.0).gain_measured == pytest.approx(2.0, rel=0.01)
    assert whole_report().gain_predicted == 1.0


def test_a_report_in_words() -> None:
    words = " ".join(sentences(whole_report(3.0)))
    assert "the machine was busy (3.00 s of wall time per second of CPU time)" in words
    assert "gain over the even split: predicted 1.000, measured 2.0" in words
    assert "passes took 2 % more time than in the profile" in words
