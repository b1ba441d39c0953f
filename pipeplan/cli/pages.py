"""`plan report` and `plan explore`: a result or a comparison as one HTML page, and a page on which to try pipelines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from ..instances.base.errors import UsageError
from ..instances.lookup import Cluster
from ..instances.registry import kind_of
from ..show.console import tell
from .arguments import Json, input_file, load_for, load_lowered_for, output_file, with_cluster
from .verify import read_case

_Explored = Annotated[
    str | None,
    input_file("[INSTANCE]", "A file, - for standard input, or the name of a packaged instance; PLAN follows."),
]
_Plan = Annotated[
    str | None,
    input_file("[PLAN]", "A plan or a result, whose stages the page begins with; default: equal stages to be set."),
]
_Page = Annotated[str, output_file("The HTML file to write.", "--output", "-o")]


@with_cluster()
def explore(
    *,
    instance: _Explored = None,
    plan: _Plan = None,
    output: _Page = "explore.html",
    json: Json = False,
    on: Cluster,
) -> None:
    """Write an interactive page: sliders for a pipeline; its time, timeline and memory change at once.

    The file needs no network and no installation. The page's address holds what is set, so that it can be shared.
    """
    from ..instances.base.json_file import write_text_atomically
    from ..show.report import explore_page

    if instance is None:
        if on != Cluster():
            raise UsageError(
                "There is no plan whose cluster could change; name INSTANCE and PLAN, or drop the options."
            )
        text = explore_page()
    else:
        text = _of_plan(instance, plan, on)
    write_text_atomically(output, text)
    tell(json, {"page": output, "bytes": len(text.encode())}, f"page: {output}; open it in a browser")


def _of_plan(instance: str, plan: str | None, on: Cluster) -> str:
    from ..instances.simulate import pipeline_of
    from ..show.report import BATCHES, plan_explorer

    if plan is None:
        raise UsageError(f"There is no plan to explore; name its file after {instance}, or name neither.")
    problem = load_for(plan, instance, on)
    case = read_case(problem, plan, {})
    count = None if kind_of(problem).batch else int(BATCHES.value)
    pipeline = pipeline_of(problem, case.plan, micro_batches=count, schedule="1f1b")
    # The page has one limit; devices of several types have one each.
    alike = "types" not in problem.extensions
    return plan_explorer(pipeline, problem.memory_bytes if alike else None)


_Source = Annotated[
    str, input_file("RESULT|FOLDER", "A result file, - for standard input, or the folder of `plan compare`.")
]
_Instance = Annotated[
    str | None,
    input_file(
        "[INSTANCE]", "The problem that was solved; default: the file or packaged instance that the result names."
    ),
]
_Output = Annotated[str, output_file("The HTML file to write.", "--output", "-o")]


@with_cluster()
def report(
    *, source: _Source, instance: _Instance = None, output: _Output = "report.html", json: Json = False, on: Cluster
) -> None:
    """Write a self-contained page: summary, tables, Gantt, memory, graph, search, comparison charts."""
    if Path(source).is_dir():
        if instance is not None:
            raise UsageError("A comparison itself names its instances; drop INSTANCE.")
        from ..show.comparison import comparison_page
        from ..studies.compare.comparison import load_comparison

        text = comparison_page(load_comparison(Path(source)))
    else:
        from ..instances.files import problem_from_json
        from ..instances.lookup import packaged_by_hash
        from ..instances.stored_results import load_result
        from ..show.report import result_page

        result = load_result(source)
        if instance is None and on == Cluster() and result.asked is not None:
            instance = result.asked.instance
        if instance is None and "whole" in result.problem:  # results of `plan configure` bring their problem along
            text = result_page(problem_from_json(result.problem["whole"]), result)
        elif instance in (None, "-"):
            text = result_page(packaged_by_hash(result.problem), result)
        else:
            lowered, asked = load_lowered_for(source, str(instance), on)
            text = result_page(lowered.problem, replace(result, asked=result.asked or asked), lowered.samples)
    from ..instances.base.json_file import write_text_atomically

    write_text_atomically(output, text)
    tell(json, {"report": output, "bytes": len(text.encode())}, f"report: {output}")
