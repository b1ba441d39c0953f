"""A training configuration's problem: a model, a cluster, a batch, and the framework that is to run it.

What the efficiencies mean stands in `efficiencies`; which configurations a framework can run stands in `frameworks`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import ClassVar

from ..base.amounts import digest
from ..base.checks import MAX_DEVICES, check_labels, check_limit, check_positive, check_text
from ..base.cluster import FLOPS, LATENCY, MEMORY, MEMORY_RATE, check_figure, check_links
from ..base.errors import InputError, show
from ..base.fields import check_members, check_numbers, plain
from ..base.kind import AnyProblem
from ..base.quantities import GIB, several
from ..physics.efficiencies import Efficiencies
from ..physics.optimizers import MIXED, PRECISIONS, USUAL_OPTIMIZER, StateBytes, optimizer_of, states_of
from .frameworks import FRAMEWORKS, Framework
from .lengths import Length, check_lengths
from .model import Model

# Memory of each GPU that is not there for the model, unless the user says otherwise.
USUAL_RESERVE = 1.5 * GIB


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device, as its maker describes it."""

    name: str
    memory_bytes: float | None
    """Usable bytes, as the driver reports them; None: no limit."""
    flops: Mapping[str, float]
    """Dense operations a second, by number format."""
    memory_rate: float
    """Bytes that the GPU reads or writes in a second."""


@dataclass(frozen=True, slots=True)
class Level:
    """A level of links, which joins `count` groups of the level below it."""

    count: int
    bandwidth: float
    """Bytes a second, for each GPU and direction."""
    latency_seconds: float = 5e-6


@dataclass(frozen=True, repr=False)
class TrainingProblem(AnyProblem):
    """What is trained, on what and by which framework; checked at construction, and `replace()` makes variants."""

    model: Model
    gpu: Gpu
    devices: int
    levels: tuple[Level, ...]
    """Levels of links, the innermost first; their counts multiply to the devices."""
    batch: int
    """Sequences between two updates."""
    sequence: int
    """Tokens of a sequence."""
    precision: str = "bf16"
    framework: str = "megatron"
    optimizer: str = USUAL_OPTIMIZER
    reserve_bytes: float = USUAL_RESERVE
    """Bytes for the context of the driver and for buffers of communication."""
    flash_attention: bool = True
    """Is the matrix of attention never kept?"""
    sequence_parallel: bool = True
    """Are the tokens between tensor-parallel products divided among their ranks?"""
    dropout: bool = False
    fused_loss: bool = True
    """Does the loss write the gradient of the logits in their place?"""
    fp8_weight_copy: bool = False
    """Is a second copy of the weights in fp8 kept beside the first one?"""
    adapter_rank: int | None = None
    """The rank of adapters (LoRA) beside the products of layers, which alone are trained; None: all weights are."""
    lengths: tuple[Length, ...] = ()
    """Documents that are packed into sequences, by their lengths; none: each sequence is one document."""
    efficiencies: Efficiencies = field(default_factory=Efficiencies)
    name: str = "training"

    kind = "training"
    time_unit: ClassVar[str] = "s"

    def __post_init__(self) -> None:
        check_members(self)
        _check(self)

    @property
    def memory_bytes(self) -> float | None:
        """What a GPU has for everything, the reserve included; None: no limit."""
        return self.gpu.memory_bytes

    @property
    def rules(self) -> Framework:
        """The framework's own rules."""
        return FRAMEWORKS[self.framework]

    @property
    def states(self) -> Mapping[int, StateBytes]:
        """Bytes of a parameter, for each ZeRO stage that the framework can run."""
        return states_of(self.framework, self.optimizer)

    @property
    def peak(self) -> float:
        """The GPU's dense operations a second in the problem's number format."""
        return self.gpu.flops[self.precision]

    @cached_property
    def hash(self) -> str:
        """A digest of every field that can change a plan's value, so of no name of problem, model or GPU."""
        facts = {entry.name: plain(getattr(self, entry.name)) for entry in fields(self) if entry.name != "name"}
        if self.optimizer == USUAL_OPTIMIZER:  # problems had no optimizer once, and keep their names
            del facts["optimizer"]
        if self.adapter_rank is None:  # nor adapters
            del facts["adapter_rank"]
        if not self.lengths:  # nor lengths
            del facts["lengths"]
        facts["model"] = {key: value for key, value in facts["model"].items() if key != "name"}
        facts["gpu"] = {key: value for key, value in facts["gpu"].items() if key != "name"}
        return digest(facts)


def check_hardware(problem: TrainingProblem) -> TrainingProblem:
    """The problem, if its figures are such as hardware has; GPUs of unknown names may be anything."""
    from ..physics.hardware import GPUS  # the table of GPUs is read where a problem comes in

    gpu = problem.gpu
    if gpu.name not in GPUS:
        return problem
    check_figure("memory_bytes", gpu.memory_bytes, MEMORY)
    check_figure("reserve_bytes", problem.reserve_bytes, MEMORY)
    check_figure("memory_rate", gpu.memory_rate, MEMORY_RATE)
    for name, rate in gpu.flops.items():
        check_figure(f"flops.{name}", rate, FLOPS)
    check_links("levels", (level.bandwidth for level in problem.levels))
    for level in problem.levels:
        check_figure("latency_seconds", level.latency_seconds, LATENCY)
    for name in ("launch_seconds", "collective_seconds"):
        check_figure(f"efficiencies.{name}", getattr(problem.efficiencies, name), LATENCY)
    return problem


def _check(problem: TrainingProblem) -> None:
    check_labels(problem.name, "s")
    _check_gpu(problem)
    check_numbers(problem, "", MAX_DEVICES, {"batch": (1, 10**7), "sequence": (1, 10**8)})
    if problem.adapter_rank is not None and problem.model.own:
        raise InputError("adapter_rank", "is given, and layers with measured times have no adapters", "drop it")
    check_lengths(problem.lengths, problem.sequence)
    _check_levels(problem)
    _check_choice("framework", problem.framework, FRAMEWORKS)
    base = problem.optimizer.partition(":")[0] if isinstance(problem.optimizer, str) else problem.optimizer
    _check_choice("optimizer", base, MIXED)
    optimizer_of(problem.optimizer)


def _check_choice(field: str, value: object, known: Collection[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise InputError(field, f"is {show(value)}", "give " + " or ".join(known))


def _check_gpu(problem: TrainingProblem) -> None:
    gpu = problem.gpu
    check_text("gpu.name", gpu.name, 100)
    check_limit("gpu.memory_bytes", gpu.memory_bytes)
    check_positive("gpu.memory_rate", gpu.memory_rate)
    _check_choice("precision", problem.precision, PRECISIONS)
    for name, rate in gpu.flops.items():
        _check_choice("gpu.flops", name, PRECISIONS)
        check_positive(f"gpu.flops.{name}", rate)
    if problem.precision not in gpu.flops:
        able = " or ".join(gpu.flops)
        raise InputError("precision", f"is {problem.precision}, which {gpu.name} does not have", f"give {able}")


def _check_levels(problem: TrainingProblem) -> None:
    if not problem.levels:
        raise InputError("levels", "is empty", "give at least one level")
    for i, level in enumerate(problem.levels):
        check_numbers(level, f"levels[{i}]", MAX_DEVICES)
        check_positive(f"levels[{i}].bandwidth", level.bandwidth)
    product = math.prod(level.count for level in problem.levels)
    if product != problem.devices:
        raise InputError(
            "levels",
            f"multiply to {several(product, 'GPU')}, not to {problem.devices}",
            "give counts whose product is the number of GPUs",
        )
