"""`plan import megatron-layout`: what people run today, judged like a plan."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ..instances.base.errors import UsageError
from ..show.console import print_json, say_note
from .arguments import Cluster, Json, input_file, output_file, with_cluster
from .exits import exit_code

_Text = Annotated[
    str,
    typer.Argument(
        metavar="TEXT|FILE",
        help='A layout, as "Et*8|t*9|t*9|t*6,L"; layer counts, as 8,9,9,6; or options of Megatron.',
    ),
]
_Profile = Annotated[str, input_file("PROFILE", "The profile or table of the model.")]
_Output = Annotated[str | None, output_file("Write the result as JSON.", "--output", "-o")]


@with_cluster()
def command(
    *,
    text: _Text,
    profile: _Profile,
    output: _Output = None,
    json: Json = False,
    on: Cluster,
) -> None:
    """Make a plan of a Megatron layout, or of layer counts as vLLM has them, and let the referee judge it.

    `plan verify`, `plan simulate` and `plan show` read the result with the same options of the cluster: what is run
    today stands beside the optimum.
    """
    from ..instances.base.json_file import read_text
    from ..instances.lowering import load_profile
    from ..models.layout_plan import plan_of_layout, result_of_layout

    if output is None and not json:
        raise UsageError("Say where the plan goes: give -o today.json, or --json.")
    size = None if on.profile is None else on.profile.bytes_per_parameter
    loaded = load_profile(profile, training=on.training is not False, bytes_per_parameter=size)
    layout = read_text(text) if _is_path(text) else text
    lowered, plan = plan_of_layout(layout, loaded, on)
    for note in lowered.notes:
        say_note(note)
    result = result_of_layout(lowered.problem, plan, layout)
    if output is not None:
        from ..instances.files import save

        save(result, output)
    if json:
        print_json(result.to_json())
    else:
        from ..show.terminal.drawing import draw_result
        from ..show.view import view_of

        view = None
        if result.verified:
            from ..planners.referee import rules_of

            view = view_of(lowered.problem, plan, rules_of(lowered.problem, result.options))
        draw_result(lowered.problem, result, view, False)
    raise typer.Exit(exit_code(result))


def _is_path(text: str) -> bool:
    """A file, or what looks like one: no layout has a slash or an ending."""
    looks_like_one = "--" not in text and (os.sep in text or os.path.splitext(text)[1][1:].isalpha())
    return looks_like_one or os.path.isfile(text)
