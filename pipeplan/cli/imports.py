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

WRITE_PROFILE = "Choose where to write the profile: give -o my.profile.json, or --json."


# The options of all commands that make profiles, under the names of arguments of the functions that do it.
OPTIONS = declared(
    """
    batch int SAMPLES =1: Samples per micro-batch.
    sequence tokens TOKENS: Tokens per sample, for language models.
    dtype text bfloat16|float16|float32 =bfloat16: Type of the weights.
    bytes_per_parameter float: For tables with a column parameters_count: bytes per parameter.
    hardware text NAME: Calculate the times for this device, e.g. h100-80gb.
    measure flag =false: Measure real passes on this machine instead.
    repeats int =10: Number of measured passes, of which the median counts.
    inference flag =false: Leave out the backward passes.
    granularity text block|module|op|share:X =block: What a node is: the outermost numbered module, the innermost
        module, or an operation; share:0.1 divides modules until none has more than this share of the floating-point
        operations.
    micro_batch any SAMPLES: Samples per micro-batch, passed to the function as its argument micro_batch. With 4,1,2,8
        the times become curves; all other amounts are those for the first size.
    efficiency float: Share of its peak that the device reaches; default: known for each device.
    kernel_start_s short-time --kernel-start TIME: Time to start a kernel, e.g. 5us; default: known for each device.
    attention text fused|math =fused: Attention as one kernel, or step by step, which stores the scores.
    loss text sum: Use the sum of the first output as the loss.
    allow_uncounted flag =false: Count operations that read weights as free if there is no formula for their cost.
    trace flag --trace/--no-trace: Trace every operation with torch (a minute for a large model), or calculate at once
        from the shapes in the configuration, with fused kernels; default: trace if torch is installed.
    activations text fused|eager: What layers keep for the backward pass. fused: as in training frameworks, with fused
        kernels and FlashAttention; eager: as in PyTorch, operation by operation; default: fused where the shapes are
        known.
    """,
    micro_batch={"parser": list_of("sizes")},
)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    if given.pop("inference", False):
        given["training"] = False
    return given


with_arguments = shared("arguments", OPTIONS, _arguments)
# Samples of a micro-batch, for files that do not state them; and where the profile goes.
MICRO_BATCH = "micro_batch int SAMPLES: Number of samples that the amounts in the file are for."
OUTPUT = "output output --output -o: The file to write, e.g. my.profile.json."


@with_arguments("inference", "bytes_per_parameter")
@described(
    f"""
    file argument FILE: A layer table (.csv or .tsv).
    template flag: Print an example, a transformer, as CSV.
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
    """Make a profile from a layer table: one row per layer, units in the header.

    The columns are layer, forward, backward, parameters, activation (saved for the backward pass) and output (sent
    on), with their units, and optionally depends_on and count; see --template. Commands that take an INSTANCE also
    accept the table itself.
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
    file input FILE: A graph of layers with measured times, e.g. graph.txt.
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
    """Make a profile from a graph.txt written by PipeDream's profiler.

    Commands that take an INSTANCE also accept the file itself, with --kind and options for the cluster.
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
    function argument FILE:FUNCTION: A function in a Python file, as in my.py:build. It is run, and must return (model,
        args, kwargs).
    {OUTPUT}
    """
)
def torch(*, function: str, output: str | None = None, arguments: dict[str, Any], json: Json = False) -> None:
    """Make a profile of a PyTorch model, with costs calculated for a device or measured on this machine.

    To calculate costs, the model is built without memory for its weights, so it may be too large for this machine. The
    first scalar output that can be differentiated is the loss. Needs PyTorch (the extra `torch`).
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
    config argument CONFIG: A config.json on this machine; nothing is downloaded.
    {OUTPUT}
    """
)
def hf(*, config: str, output: str | None = None, arguments: dict[str, Any], json: Json = False) -> None:
    """Make a profile of a Hugging Face model from its configuration only, without weights or network access.

    Times are calculated for the device that --hardware names. For models whose costs cannot be calculated from their
    shapes, it needs transformers (the extra `hf`).
    """
    from ..models.from_torch import import_hf, traces_what_is_known

    check_output(output, json)
    if traces_what_is_known(config, **arguments):
        say_note(
            "tracing every operation with torch; --no-trace calculates at once from the shapes, with different nodes "
            "and times"
        )
    profile = import_hf(config, **arguments)
    if arguments.get("trace") is None and profile.source.get("how") != "torch-export":
        say_note(
            "calculated from the shapes in the configuration, since torch or transformers is not installed; --trace "
            "uses them to trace every operation, and gives different nodes and times"
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
            "layers keep activations as with fused kernels and FlashAttention, as in training frameworks; "
            "--activations eager counts what PyTorch keeps operation by operation"
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
        f"a profile of {several(len(profile.nodes), 'node')} with {in_bytes(size)} of weights, {passes}, "
        f"{profile.source.get('times', 'times of unknown origin')}"
    )


# ---- what people run today, judged like a plan -----------------------------------------------------------------


@with_cluster()
@described(
    """
    text argument TEXT|FILE: A layout, such as "Et*8|t*9|t*9|t*6,L"; layer counts, such as 8,9,9,6; or Megatron options.
    profile input PROFILE: The profile or layer table of the model.
    output output --output -o: Write the result to FILE as JSON.
    """
)
def megatron_layout(*, text: str, profile: str, output: str | None = None, json: Json = False, on: Cluster) -> None:
    """Make a plan from a Megatron layout or from layer counts (as in vLLM), and let the referee check it.

    `plan verify`, `plan simulate` and `plan show` read the result with the same cluster options, so you can compare
    what you run today with the optimum.
    """
    from ..instances.lowering import load_profile
    from ..models.export.training import plan_of_layout, result_of_layout

    check_output(output, json, "Choose where to write the plan: give -o today.json, or --json.")
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
