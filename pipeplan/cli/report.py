"""`plan report`: a result or a comparison as one HTML page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from ..instances.base.errors import UsageError
from ..show.console import tell
from .arguments import Cluster, Json, input_file, load_lowered_for, output_file, with_cluster

_Source = Annotated[
    str,
    input_file("RESULT|FOLDER", "A result file, - for standard input, or the folder of `plan compare`."),
]
_Instance = Annotated[
    str | None,
    input_file(
        "[INSTANCE]", "The problem that was solved; default: the file or packaged instance that the result names."
    ),
]
_Output = Annotated[str, output_file("The HTML file to write.", "--output", "-o")]


@with_cluster()
def command(
    *,
    source: _Source,
    instance: _Instance = None,
    output: _Output = "report.html",
    json: Json = False,
    on: Cluster,
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
