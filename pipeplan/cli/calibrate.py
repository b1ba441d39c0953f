"""`plan calibrate`: what kernels reach on this machine, as a file for `plan configure` and as text."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from ..instances.base.json_file import write_json
from ..instances.base.quantities import MIB
from ..instances.physics.efficiencies import ABOUT
from ..show.console import draw_rows, print_json, put, say_note
from ..studies.calibrate import Calibration, read_calibration
from .arguments import Json
from .exits import INTERRUPTED, OK, graceful
from .signatures import described

OUTPUT = "Output"


# What the page on calibration promises.
USUAL_LIMIT_S = 120.0


@described(
    f"""
    measured input FILE: A file written by this command, to be shown and checked again without measuring.
    on choice cpu|cuda: What to measure; default: the GPU, if PyTorch sees one.
    devices int: Also measure the links between this many devices (on CPUs: processes); default: all GPUs, or one CPU.
    sequence tokens TOKENS: Tokens per sequence, which decide how much attention counts; default: 512 on CPUs, 4k on
        GPUs.
    time_limit_s duration --time-limit TIME: Approximate time limit; default: 2min.
    [{OUTPUT}]
    output output --output -o: Write the file for --efficiencies of `plan configure`; it also describes the device.
    """
)
def command(
    *,
    measured: str | None = None,
    on: str | None = None,
    devices: int | None = None,
    sequence: int | None = None,
    time_limit_s: float | None = None,
    output: str | None = None,
    json: Json = False,
) -> None:
    """Measure the efficiency of PyTorch kernels on this machine, and check it on three small training runs.

    The kernels are those of eager PyTorch in bf16, so plan with --framework pytorch. On a CPU, one thread is measured.
    Ctrl-C keeps the measurements so far. Needs PyTorch (the extra `torch`); not yet tried on GPUs.
    """
    if measured is None:
        from ..models.from_torch import require

        require("torch")
        from ..models.calibration import calibrate

        with graceful():
            own = calibrate(
                on, devices, sequence, time_limit_s or USUAL_LIMIT_S, lambda what: say_note(f"measuring {what}")
            )
    else:
        own = read_calibration(measured)
    if output is not None:
        write_json(output, own.to_json())
    if json:
        print_json(own.to_json())
    else:
        put(*_sentences(own))
        for head, rows in ((("efficiency", "value", "meaning"), _numbers(own)), (HEAD, _judgement(own))):
            if rows:
                draw_rows(head, rows, left="efficiency,meaning,training")
    raise typer.Exit(OK if own.finished else INTERRUPTED)


# ---- as text -------------------------------------------------------------------------------------------


def _sentences(own: Calibration) -> Iterator[str]:
    """What was measured, whether all of it, and what varied."""
    card, gpu = own.card, own.fit.gpu
    versions = {"torch": card.torch, "CUDA": card.cuda, "driver": card.driver, "pipeplan": card.pipeplan}
    yield f"{card.name} ({', '.join(f'{name} {value}' for name, value in versions.items() if value)}): {gpu.name}"
    by = "as measured" if own.fit.known is None else "by its data sheet"
    yield f"{gpu.flops['bf16'] / 1e12:.4g} TFLOP/s in bf16 and {gpu.memory_rate / 1e9:.4g} GB/s of memory, {by}"
    if not own.finished:
        yield "The run was interrupted; efficiencies that are not listed below keep their usual values."
    if own.unsteady:
        varied = "; ".join(f"{name} by {spread:.0%}" for name, spread in own.unsteady.items())
        yield f"Varied by more than 10 %: {varied}."


def _numbers(own: Calibration) -> list[tuple[str, str, str]]:
    """Name, value, and unit with meaning of what was fitted."""
    return [(name, f"{x:.4g}", f"{ABOUT[name].unit}: {ABOUT[name].words}") for name, x in own.fit.measured.items()]


HEAD = ("training", "seconds", "predicted", "error", "varies by", "peak", "predicted ", "error ")


def _judgement(own: Calibration) -> list[tuple[str, ...]]:
    """A row for each training, for the headings above."""
    return [
        (
            one.name, f"{one.seconds:.4g}", f"{one.predicted_seconds:.4g}", f"{one.error:+.1%}", f"{one.spread:.1%}",
            f"{one.peak_bytes / MIB:.4g} MiB", f"{one.predicted_bytes / MIB:.4g} MiB", f"{one.memory_error:+.1%}",
        )
        for one in own.judged
    ]  # fmt: skip
