"""`plan explore`: a page with sliders on which a reader tries pipelines, or the stages of a plan."""

from __future__ import annotations

from typing import Annotated

from ..instances.base.errors import UsageError
from ..instances.registry import kind_of
from ..show.console import tell
from .arguments import Cluster, Json, input_file, load_for, output_file, with_cluster
from .referee_options import read_case

_Instance = Annotated[
    str | None,
    input_file("[INSTANCE]", "A file, - for standard input, or the name of a packaged instance; PLAN follows."),
]
_Plan = Annotated[
    str | None,
    input_file("[PLAN]", "A plan or a result, whose stages the page begins with; default: equal stages to be set."),
]
_Output = Annotated[str, output_file("The HTML file to write.", "--output", "-o")]


@with_cluster()
def command(
    *,
    instance: _Instance = None,
    plan: _Plan = None,
    output: _Output = "explore.html",
    json: Json = False,
    on: Cluster,
) -> None:
    """Write an interactive page: sliders for a pipeline; its time, timeline and memory change at once.

    The file needs no network and no installation. The page's address holds what is set, so that it can be shared.
    """
    from ..instances.base.json_file import write_text_atomically
    from ..show.explore import explore_page

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
    from ..show.explore import BATCHES, plan_explorer

    if plan is None:
        raise UsageError(f"There is no plan to explore; name its file after {instance}, or name neither.")
    problem = load_for(plan, instance, on)
    case = read_case(problem, plan, {})
    count = None if kind_of(problem).batch else int(BATCHES.value)
    pipeline = pipeline_of(problem, case.plan, micro_batches=count, schedule="1f1b")
    # The page has one limit; devices of several types have one each.
    alike = "types" not in problem.extensions
    return plan_explorer(pipeline, problem.memory_bytes if alike else None)
