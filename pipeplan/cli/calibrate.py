"""`plan calibrate`: what kernels reach on this machine, as a file for `plan configure`, as text and as a page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from ..instances.base.json_file import write_json, write_text_atomically
from ..instances.base.quantities import MIB
from ..show.console import print_json, put, say_note
from .arguments import Json
from .exits import INTERRUPTED, OK, graceful
from .signatures import described

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from ..studies.calibrate import Calibration

COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "point-to-point")
OUTPUT = "Output"


@described(
    f"""
    measured input FILE: A file that this command wrote: show and judge it again, and measure nothing.
    on choice cpu|cuda: What to measure; default: the GPU, where PyTorch sees one.
    devices int: Measure links among so many devices as well, on CPUs among processes; default: all GPUs, one CPU.
    sequence int: Tokens of a sequence, for which the share of attention counts; default: 512 on CPUs, 4096 on GPUs.
    time_limit_s duration --time-limit TIME: About how long it may take.
    [{OUTPUT}]
    output output --output -o: Write the file for --efficiencies of plan configure, which describes the device as well.
    report output: Write the curves and the judgement as an HTML page.
    """
)
def command(
    *,
    measured: str | None = None,
    on: str | None = None,
    devices: int | None = None,
    sequence: int | None = None,
    time_limit_s: float = 120.0,
    output: str | None = None,
    report: str | None = None,
    json: Json = False,
) -> None:
    """Measure what kernels of PyTorch reach here, write it as efficiencies, and judge these by three small trainings.

    Kernels are those of eager PyTorch in bf16: plan with --framework pytorch. On a CPU one thread is measured. Ctrl-C
    keeps what was measured. Needs PyTorch, which the extra torch brings; GPUs were not tried.
    """
    if measured is None:
        own = _measured(on, devices, sequence, time_limit_s)
    else:
        from ..studies.calibrate import read_calibration

        own = read_calibration(measured)
    if output is not None:
        write_json(output, own.to_json())
    if report is not None:
        write_text_atomically(report, page_of(own))
    if json:
        print_json(own.to_json())
    else:
        _draw(own)
    raise typer.Exit(OK if own.finished else INTERRUPTED)


def _measured(on: str | None, devices: int | None, sequence: int | None, seconds: float) -> Calibration:
    from ..instances.base.checks import check_whole
    from ..models.calibration import calibrate, device_named, devices_of

    device = device_named(on)
    if sequence is not None:
        check_whole("--sequence", sequence, 2**17, 64)
    ranks = devices_of(device, devices)
    with graceful():
        return calibrate(device, ranks, sequence, seconds, lambda what: say_note(f"measuring {what}"))


# ---- in the terminal -----------------------------------------------------------------------------------


def _draw(own: Calibration) -> None:
    put(*_sentences(own))
    put("", *(f"{name:20} {value:<10.4g} {words}" for name, value, words in _numbers(own)))
    put("", *_judgement(own))


def _sentences(own: Calibration) -> Iterator[str]:
    card, gpu = own.card, own.fit.gpu
    versions = [
        f"torch {card.torch}",
        *(f"{name} {value}" for name in ("cuda", "driver") if (value := getattr(card, name))),
    ]
    yield f"{card.name} ({', '.join(versions)}), in files {gpu.name}"
    peak = f"{gpu.flops['bf16'] / 1e12:.4g} TFLOP/s in bf16, {gpu.memory_rate / 1e9:.4g} GB/s of memory"
    yield f"{peak}, {'as measured' if own.fit.known is None else 'by its data sheet'}"
    if not own.finished:
        yield "interrupted: " + (
            f"{', '.join(own.unmeasured)} stay as usual" if own.unmeasured else "not all trainings ran"
        )
    if own.unsteady:
        yield f"varied by more than 10 %: {'; '.join(own.unsteady)}"


def _numbers(own: Calibration) -> Iterator[tuple[str, float, str]]:
    from ..instances.physics.efficiencies import ABOUT

    for name, value in own.fit.measured.items():
        about = ABOUT[name]
        yield name, value, about.words if about.unit in ("share", "factor") else f"{about.unit}, {about.words}"


def _mib(size: float) -> str:
    return f"{size / MIB:.4g} MiB"


def _judgement(own: Calibration) -> Iterator[str]:
    """A sentence for each training."""
    for one in own.judged:
        yield (
            f"{one.trained.small.name}: predicted {one.seconds:.4g} s, measured {one.measured_seconds:.4g} s "
            f"({one.error:+.1%}, steps vary by {one.spread:.1%}); predicted {_mib(one.bytes)}, measured "
            f"{_mib(one.trained.peak_bytes)} ({one.memory_error:+.1%})"
        )


# ---- the page ------------------------------------------------------------------------------------------


# Curves by title, with the kernels that they show, and what is upwards.
CURVES = (
    ("Products", ("products",), "GFLOP/s"),
    ("Attention", ("attention",), "GFLOP/s"),
    ("Memory", ("copy", "optimizer"), "GB/s"),
    ("Links", COLLECTIVES, "GB/s"),
)


def page_of(own: Calibration) -> str:
    """Everything on one page, with a chart for each curve that was measured."""
    from ..show import page as html

    judged = [
        (
            one.trained.small.name, f"{one.seconds:.4g}", f"{one.measured_seconds:.4g}", f"{one.error:+.1%}",
            f"{one.spread:.1%}", _mib(one.bytes), _mib(one.trained.peak_bytes),
            f"{one.memory_error:+.1%}",
        )
        for one in own.judged
    ]  # fmt: skip
    head = ("training", "predicted s", "measured s", "error", "steps vary by", "predicted", "measured", "error ")
    numbers = [(name, f"{value:.4g}", words) for name, value, words in _numbers(own)]
    points = [(point.words, f"{1e3 * point.seconds:.4g}", f"{point.spread:.0%}") for point in own.points]
    title = f"Calibration of {own.card.name}"
    return html.page(
        title,
        [
            html.header(title, *map(html.paragraph, _sentences(own)), html.published()),
            html.section("Predicted and measured", html.table(head, judged)),
            html.section("Efficiencies", html.table(("name", "value", "meaning"), numbers)),
            *(html.section(curve[0], chart) for curve in CURVES if (chart := _chart(own, *curve)) is not None),
            html.section("Kernels", html.table(("kernel and size", "ms", "varies by"), points)),
        ],
    )


def _chart(own: Calibration, title: str, kernels: tuple[str, ...], upwards: str) -> Element | None:
    """Rates by amount of work, which doubles from one unit across to the next; None: nothing was measured."""
    from ..show.page import Line, Spot, line_chart
    from ..studies.calibrate import amount

    lines = []
    for what in kernels:
        rates = sorted(
            (math.log2(amount(point)), amount(point) / point.seconds / 1e9, point.words)
            for point in own.points
            if point.what == what
        )
        if rates:
            lines.append(Line(what, tuple(Spot(*rate) for rate in rates), is_straight=True))
    across = "log2 of operations" if upwards == "GFLOP/s" else "log2 of bytes"
    return line_chart(lines, title, across, upwards, low=0.0) if lines else None
