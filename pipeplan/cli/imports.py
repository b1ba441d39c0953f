"""The commands of `plan import`: they make profiles of what others wrote, and plans of layouts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import typer

from ..instances.base.errors import UsageError
from ..instances.base.json_file import read_text, write_json
from ..instances.base.quantities import several
from ..instances.lookup import Cluster
from ..show.console import print_json, put, say_note
from .arguments import Json, with_cluster
from .exits import exit_code
from .signatures import declared, described, in_bytes, list_of, shared

if TYPE_CHECKING:
    from ..instances.networks.profile.profile import Profile

WRITE_PROFILE = "Say where the profile goes: give -o my.profile.json, or --json."


# The options of all commands that make profiles, under the names of arguments of the functions that do it.
OPTIONS = declared(
    """
    batch int SAMPLES =1: Samples of a micro-batch.
    sequence tokens TOKENS: Tokens of a sample, for models that read text.
    dtype text bfloat16|float16|float32 =bfloat16: Type of the weights.
    bytes_per_parameter float: For tables with a column parameters_count: bytes of one.
    hardware text NAME: Calculate times for this device: h100-80gb.
    measure flag =false: Measure real passes on this machine instead.
    repeats int =10: Passes that are measured; their median counts.
    inference flag =false: Leave the backward passes out.
    granularity text block|module|op|share:X =block: What a node is: the outermost numbered module, the
        innermost module, or an operation; share:0.1 divides modules while they hold more than this share of the
        floating-point operations.
    micro_batch any SAMPLES: Samples of a micro-batch, which the function takes as its argument micro_batch;
        4,1,2,8 makes curves of times, and all other amounts are those of the first.
    efficiency float: Share of its peak that the device reaches; default: the device's own.
    kernel_start_s short-time --kernel-start TIME: Time that the start of a kernel takes: 5us; default: the
        device's own.
    attention text fused|math =fused: Attention as one kernel, or step by step with its scores.
    loss text sum: Take the sum of the first output as the loss.
    allow_uncounted flag =false: Let operations that read weights count nothing where they have no formula.
    trace flag --trace/--no-trace: Look at every operation with torch, a minute for a large model; or calculate
        from the shapes in the configuration, in moments, with fused kernels; default: trace where torch is
        installed.
    activations text fused|eager: What layers keep for backward passes: as training frameworks keep it, with
        fused kernels and flash attention; or as PyTorch does, operation by operation; default: fused where the
        shapes are known.
    """,
    micro_batch={"parser": list_of("sizes")},
)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    if given.pop("inference", False):
        given["training"] = False
    return given


with_arguments = shared("arguments", OPTIONS, _arguments)
# Samples of a micro-batch, for files that do not state them; and where the profile goes.
MICRO_BATCH = "micro_batch int SAMPLES: Samples for which the file states its amounts."
OUTPUT = "output output --output -o: The file to write: my.profile.json."


@with_arguments("inference", "bytes_per_parameter")
@described(
    f"""
    file argument FILE: A table: .csv or .tsv.
    template flag: Print a filled example as CSV: a transformer.
    {OUTPUT}
    {MICRO_BATCH}
    """
)
def table(
    *,
    file: str | None = None,
    output: str | None = None,
    template: bool = False,
    micro_batch: int | None = None,
    arguments: dict[str, Any],
    json: Json = False,
) -> None:
    """Make a profile of a table of layers: a row for each layer, units in the header.

    The columns are layer, forward, backward, parameters, activation (saved for the backward pass) and output (sent on),
    with their units, and depends_on and count if wanted: see --template. Commands that take an INSTANCE take the table,
    too.
    """
    from ..instances.networks.profile.table import read_table, table_template

    if template:
        if file is not None or output is not None:
            raise UsageError("--template prints an example and reads nothing; write it with > my.csv.")
        typer.echo(table_template(), nl=False)
        return
    if file is None:
        raise UsageError("Name the table, or give --template for an example.")
    check_output(output, json)
    profile = read_table(file, micro_batch=micro_batch, **arguments)
    hand_over(profile, output, json, f"a profile of {several(len(profile.nodes), 'layer')}")


@with_arguments("inference")
@described(
    f"""
    file input FILE: A graph of layers with measured times: graph.txt.
    {OUTPUT}
    {MICRO_BATCH}
    """
)
def pipedream(
    *,
    file: str,
    output: str | None = None,
    micro_batch: int | None = None,
    arguments: dict[str, Any],
    json: Json = False,
) -> None:
    """Make a profile of a graph.txt, which PipeDream's profiler writes.

    Commands that take an INSTANCE take the file itself, too, with the cluster and --kind beside.
    """
    from ..instances.lowering import load_graph_txt
    from ..instances.networks.profile.options import SAMPLES

    check_output(output, json)
    profile = load_graph_txt(file, **{"training": True, **arguments})
    if micro_batch is not None:
        profile = profile.replace(micro_batch=micro_batch, source={**profile.source, SAMPLES: micro_batch})
    hand_over(profile, output, json)


@with_arguments(
    "hardware measure repeats inference granularity micro_batch efficiency kernel_start_s attention",
    "loss allow_uncounted",
)
@described(
    f"""
    function argument FILE:FUNCTION: A function in a Python file, which is run: my.py:build; it returns (model, args,
        kwargs).
    {OUTPUT}
    """
)
def torch(
    *,
    function: str,
    output: str | None = None,
    arguments: dict[str, Any],
    json: Json = False,
) -> None:
    """Make a profile of a PyTorch model: what its blocks cost, calculated for a device or measured on this machine.

    Calculated, the model is built without memory for its weights, so it may be larger than this machine. The first
    scalar output that can be differentiated is the loss. Needs PyTorch, which the extra torch brings.
    """
    from ..models.from_torch import import_torch

    check_output(output, json)
    hand_over(import_torch(function, **arguments), output, json)


@with_arguments(
    "batch sequence dtype hardware inference granularity efficiency kernel_start_s attention",
    "allow_uncounted trace activations",
)
@described(
    f"""
    config argument CONFIG: A config.json on this machine; nothing is fetched.
    {OUTPUT}
    """
)
def hf(
    *,
    config: str,
    output: str | None = None,
    arguments: dict[str, Any],
    json: Json = False,
) -> None:
    """Make a profile of a Hugging Face model from its configuration alone: no weights, no hub.

    Times are calculated for the device that --hardware names. Needs transformers, which the extra hf brings, for models
    whose shapes alone do not say enough.
    """
    from ..models.from_torch import import_hf, traces_what_is_known

    check_output(output, json)
    if traces_what_is_known(config, **arguments):
        say_note(
            "looking at every operation with torch; --no-trace calculates from the shapes, in moments, with other "
            "nodes and times"
        )
    profile = import_hf(config, **arguments)
    if arguments.get("trace") is None and profile.source.get("how") != "torch-export":
        say_note(
            "calculated from the shapes in the configuration, since torch or transformers is not installed; --trace "
            "looks at every operation with them, and gives other nodes and times"
        )
    hand_over(profile, output, json)


def check_output(output: str | None, json: bool, remedy: str = WRITE_PROFILE) -> None:
    """Refuse before the work, not after it, where the answer has no place to go."""
    if output is None and not json:
        raise UsageError(remedy)


def hand_over(profile: Profile, output: str | None, json: bool, summary: str | None = None) -> None:
    """Write the profile, or print it, and say what it is."""
    from ..instances.networks.profile.profile import profile_to_json

    for warning in profile.source.get("warnings", ()):
        say_note(warning)
    if profile.training and profile.source.get("activations") == "fused":
        say_note(
            "layers keep what fused kernels and flash attention leave, as training frameworks do; --activations eager "
            "counts what PyTorch keeps operation by operation"
        )
    if output is not None:
        write_json(output, profile_to_json(profile))
    if json:
        print_json(profile_to_json(profile))
    else:
        put(summary or _summary(profile))


def _summary(profile: Profile) -> str:
    copies = {name for _, name in profile.tied}
    size = sum(size for node in profile.nodes for name, size in node.parameters.items() if name not in copies)
    passes = "forward and backward passes" if profile.training else "inference"
    return (
        f"a profile of {several(len(profile.nodes), 'node')} with {in_bytes(size)} of parameters, {passes}, "
        f"{profile.source.get('times', 'times of unknown origin')}"
    )


# ---- what people run today, judged like a plan -----------------------------------------------------------------


@with_cluster()
@described(
    """
    text argument TEXT|FILE: A layout, as "Et*8|t*9|t*9|t*6,L"; layer counts, as 8,9,9,6; or options of Megatron.
    profile input PROFILE: The profile or table of the model.
    output output --output -o: Write the result as JSON.
    """
)
def megatron_layout(
    *,
    text: str,
    profile: str,
    output: str | None = None,
    json: Json = False,
    on: Cluster,
) -> None:
    """Make a plan of a Megatron layout, or of layer counts as vLLM has them, and let the referee judge it.

    `plan verify`, `plan simulate` and `plan show` read the result with the same options of the cluster: what is run
    today stands beside the optimum.
    """
    from ..instances.lowering import load_profile
    from ..models.export.training import plan_of_layout, result_of_layout

    check_output(output, json, "Say where the plan goes: give -o today.json, or --json.")
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
        from ..show.terminal import draw_result
        from ..show.views import view_of_result

        draw_result(lowered.problem, result, view_of_result(lowered.problem, result), False)
    raise typer.Exit(exit_code(result))


def _is_path(text: str) -> bool:
    """Is the text a file, or does it look like one? No layout has a slash or an ending."""
    looks_like_one = "--" not in text and (os.sep in text or os.path.splitext(text)[1][1:].isalpha())
    return looks_like_one or os.path.isfile(text)
