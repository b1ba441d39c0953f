"""Solvers that are programs: a model file in, a solution file out, one run in a temporary folder."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...instances.base.result import Stop
from ..options import SolveOptions
from .files import text_of
from .model import Floats, MatrixModel
from .process import die_with_parent
from .session import Session

MODEL = "model.mps"


@dataclass(frozen=True, slots=True)
class Run:
    """How a program ended, and everything that it printed."""

    code: int
    text: str


@contextlib.contextmanager
def folder_with(model: MatrixModel) -> Iterator[Path]:
    """The model in a temporary folder.

    Without names (columns are then x0, x1, ...) and without the constant, whose sign the formats disagree on.
    """
    with tempfile.TemporaryDirectory(prefix="pipeplan-") as name:
        plain = replace(model, column_names=(), row_names=(), grids={}, offset=0.0)
        path = Path(name) / MODEL
        path.write_text(text_of(plain, path.suffix))
        yield Path(name)


def run(command: Sequence[str], folder: Path, options: SolveOptions, session: Session, stop: signal.Signals) -> Run:
    """Run the program; a request to stop becomes one signal. Its output is the log."""
    log = Path(options.log_path) if options.log_path is not None else folder / "log"
    with log.open("w+", encoding="utf-8", errors="replace") as stream:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
        with session.when_stopped(_once(process, stop)):
            code = process.wait()
        stream.seek(0)
        return Run(code, stream.read())


def _once(process: subprocess.Popen[bytes], stop: signal.Signals) -> Callable[[], None]:
    """A second signal would end some programs before they have written their solution."""
    sent: list[bool] = []

    def act() -> None:
        if not sent:
            sent.append(True)
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(stop)

    return act


def proven_bound(model: MatrixModel, stop: Stop, x: Floats | None) -> float | None:
    """The bound that needs no report: the objective of a complete search."""
    return model.objective(x) if stop == Stop.PROVEN and x is not None else None
