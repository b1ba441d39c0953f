"""`plan configure` from Python: the fastest configuration to train a model with, and memory and time of given ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ...instances.base.clock import now
from ...instances.base.errors import InputError, show
from ...instances.training.build import problem_of
from ...instances.training.model import Model
from ...instances.training.problem import TrainingProblem
from .answer import Answer, Asked
from .judge import judge as judge_one
from .search import search_configurations

# The usual shares by which times and memory may be wrong.
ERROR, MEMORY_ERROR = 0.05, 0.03


def configure(
    model: str | os.PathLike[str] | Model | TrainingProblem,
    devices: str | None = None,
    *,
    sequence: int | None = None,
    batch: int | None = None,
    fix: Sequence[str] = (),
    forbid: Sequence[str] = (),
    judge: Sequence[str] = (),
    error: float = ERROR,
    memory_error: float = MEMORY_ERROR,
    time_limit_s: float | None = None,
    **more: Any,
) -> Answer:
    """Find the fastest configuration of a training framework, as `plan configure` does, and judge given ones.

    Parameters
    ----------
    model : str, PathLike, Model or TrainingProblem
        A packaged model's name, a `config.json`, a profile or a table; or a whole problem, as `load` returns it.
    devices : str, optional
        The GPUs, as in "64xh100-80gb". None, here and below: `model` is a whole problem, which gives them.
    sequence : int, optional
        Tokens of a sequence; None for a whole problem.
    batch : int, optional
        Sequences between two updates; None for a whole problem.
    fix : sequence of str
        Consider only configurations with all of these values: ["tensor=4"].
    forbid : sequence of str
        Consider no configuration with any of these values.
    judge : sequence of str
        Configurations to judge as well: ["tensor=4 pipeline=2"].
    error : float
        The share by which times may be wrong, which the shortlist allows for.
    memory_error : float
        The share by which memory may be wrong.
    time_limit_s : float, optional
        Seconds that the search may take. None: no limit.
    more : str, float or bool
        Further fields of the problem: levels, memory_bytes, reserve_bytes, precision, framework, optimizer, layers,
        dense_layers, efficiencies, attention_kernel, name, flash_attention, sequence_parallel, dropout,
        fp8_weight_copy.

    Returns
    -------
    Answer
        `best`, `shortlist` and `judged` are configurations with the numbers of the referee; `result` is what
        `plan configure -o` writes, and `show()` prints all.

    Raises
    ------
    InputError
        A model, a cluster or a configuration cannot have a value that was given.
    UsageError
        There is no such model or GPU, or a configuration breaks a rule.
    """
    for name, share in (("error", error), ("memory_error", memory_error)):
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
            raise InputError(name, f"is {show(share)}", "give a share from 0 to below 1")
    problem = model if isinstance(model, TrainingProblem) else _problem(model, devices, sequence, batch, more)
    asked, begun = Asked(error, memory_error, tuple(fix), tuple(forbid)), now()
    judged = tuple(judge_one(problem, text, memory_error) for text in judge)
    report = search_configurations(problem, asked, time_limit_s, lambda record: None)
    return Answer(problem, asked, judged, report, seconds=now() - begun)


def _problem(
    model: Any, devices: str | None, sequence: int | None, batch: int | None, more: Any
) -> TrainingProblem:
    for name, value, example in (("devices", devices, '"64xh100-80gb"'), ("sequence", sequence, "8192")):
        if value is None:
            raise InputError(name, "is missing", f"give it, {name}={example} say")
    if batch is None:
        raise InputError("batch", "is missing", "give it, batch=256 say")
    assert devices is not None
    assert sequence is not None
    return problem_of(model, devices, sequence=sequence, batch=batch, **more)
