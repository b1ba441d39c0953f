"""A run as one HTML page: predicted and measured times, ranks, stages, and both timelines over each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from ..view import PlanView
from ..views import run as view_of_run
from .gantt import gantt
from .markup import tag
from .page import details, facts, page, section, table

if TYPE_CHECKING:
    from ...models.run.report import CaseReport, RunReport


def run_page(report: RunReport) -> str:
    """The whole page as text."""
    first, *rest = view_of_run.sentences(report)
    answer = "yes" if report.agrees is not False else "no"
    head = tag(
        "header",
        None,
        tag("h1", None, report.name),
        tag("p", {"class": "answer"}, view_of_run.headline(report)),
        tag("p", {"class": f"verdict {answer}"}, first),
        tag("ul", None, *(tag("li", None, sentence) for sentence in rest)),
    )
    parts = [part for case in report.cases for part in _case(case)]
    data = details("The run as JSON", tag("pre", None, json.dumps(report.to_json(), indent=1)))
    return page(f"{report.name}: run", [head, *parts, _how(report), section("Data", data)])


def _case(case: CaseReport) -> Iterator[Element]:
    name = "Even split" if case.name == "even" else "Plan"
    line = view_of_run.timeline(case)
    view = PlanView(case.name, "", "", (), view_of_run.UNIT, line.end, (), time_unit=view_of_run.UNIT)
    ranks = table(view_of_run.RANK_COLUMNS, view_of_run.rank_rows(case), "Medians over the iterations")
    stages = table(view_of_run.STAGE_COLUMNS, view_of_run.stage_rows(case), "Medians over the passes")
    yield section(f"{name}: predicted over measured", gantt(line, view), name=f"{case.name}-gantt")
    yield section(f"{name}: ranks", ranks, name=f"{case.name}-ranks")
    yield section(f"{name}: stages", stages, name=f"{case.name}-stages")


def _how(report: RunReport) -> Element:
    return section(
        "How it was run",
        facts(
            [
                ("engine", report.engine),
                ("device", report.device),
                ("torch", report.torch),
                ("bandwidth in the prediction", f"{report.bandwidth / 1e9:g} GB/s"),
                ("micro-batches", report.micro_batches),
                ("iterations", len(report.plan.iterations)),
            ]
        ),
    )
