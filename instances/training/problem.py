"""A training configuration's problem: a model, a cluster, a batch, and the framework that is to run it.

What the efficiencies mean stands in `efficiencies`; which configurations a framework can run stands in `frameworks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar

from ..base.amounts import digest
from ..base.checks import MAX_DEVICES, check_labels, check_limit, check_positive, check_text
from ..base.cluster import FLOPS, LATENCY, MEMORY, MEMORY_RATE, check_figure, check_links
from ..base.errors import InputError, UsageError, show
from ..base.fields import check_members, check_numbers, plain
from ..base.kind import AnyProblem
from ..base.quantities import GIB, several
from ..physics.efficiencies import Efficiencies
from ..physics.optimizers import MIXED, PRECISIONS, USUAL_OPTIMIZER, StateBytes, optimizer_of, states_of
from .frameworks import FRAMEWORKS, Framework
from .lengths import Length, check_lengths
from .model import Model, UnitType

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


@dataclass(frozen=True, slots=True)
class Pool:
    """GPUs of a second sort, on which whole pipeline stages run, while the others run on the problem's own."""

    gpu: Gpu
    devices: int
    levels: tuple[Level, ...]
    bandwidth: float
    """Bytes a second of the link between the pools, for each GPU and direction; the slower network of the two."""
    latency_seconds: float = 5e-6
    efficiencies: Efficiencies = field(default_factory=Efficiencies)


@dataclass(frozen=True, repr=False)
class TrainingProblem(AnyProblem):
    """What is trained, on what and by which framework; checked at construction, and `replace()` makes variants."""

    model: Model
    gpu: Gpu
    devices: int
    """All GPUs, those of a second sort included."""
    levels: tuple[Level, ...]
    """Levels of links, the innermost first; their counts multiply to the devices of the first sort."""
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
    frozen: str | None = None
    """The part that is not trained: "encoder"; None: none but for what adapters leave out."""
    lengths: tuple[Length, ...] = ()
    """Documents that are packed into sequences, by their lengths; none: each sequence is one document."""
    efficiencies: Efficiencies = field(default_factory=Efficiencies)
    name: str = "training"
    second: Pool | None = None
    """GPUs of another sort; None: all are alike."""

    kind = "training"
    time_unit: ClassVar[str] = "s"

    def __post_init__(self) -> None:
        check_members(self)
        _check(self)

    @property
    def memory_bytes(self) -> float | None:
        """What a GPU of the first sort has for everything, the reserve included; None: no limit."""
        return self.gpu.memory_bytes

    @cached_property
    def pools(self) -> tuple[TrainingProblem, ...]:
        """The problem on the GPUs of each sort alone; where all are alike, the problem itself."""
        own = self.second
        if own is None:
            return (self,)
        facts = {name: getattr(own, name) for name in ("gpu", "devices", "levels", "efficiencies")}
        return self.replace(devices=self.devices - own.devices, second=None), self.replace(**facts, second=None)

    @cached_property
    def of_encoder(self) -> TrainingProblem:
        """The same for the encoder's layers as a model of its own, which reads a sequence's images one by one."""
        own = self.model.encoder
        assert own is not None, "only models that see images have an encoder"
        length = Length(own.tokens, 1.0)
        return self.replace(
            model=own.model, sequence=own.patches, lengths=(length,), adapter_rank=None, frozen=None
        )

    def only_forward(self, unit: UnitType) -> bool:
        """Has this type of unit no backward pass, since nothing in it or before it is trained?"""
        return unit in ("patches", "encoder") and (self.frozen is not None or self.adapter_rank is not None)

    def sorts(self, stages: int, first_pool: int = 1) -> tuple[int, ...]:
        """For each stage its place in `pools`, where the pool of the number `first_pool` has the first ones."""
        order = (*range(first_pool - 1, len(self.pools)), *range(first_pool - 1))
        return tuple(i for i in order for _ in range(stages * self.pools[i].devices // self.devices))

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
        """Dense operations a second of a GPU in the problem's number format, the mean of two sorts."""
        if self.second is None:
            return self.gpu.flops[self.precision]
        return sum(pool.devices * pool.peak for pool in self.pools) / self.devices

    def with_rates(self, change: Callable[[Efficiencies], Efficiencies]) -> TrainingProblem:
        """The problem with changed efficiencies, of GPUs of both sorts where there are two."""
        second = self.second
        if second is not None:
            second = replace(second, efficiencies=change(second.efficiencies))
        return self.replace(efficiencies=change(self.efficiencies), second=second)

    @property
    def step_seconds(self) -> float:
        """What is added to every iteration, by the slower sort."""
        return max(pool.efficiencies.step_seconds for pool in self.pools)

    @property
    def gpus(self) -> str:
        """Number and name of the GPUs of each sort, as users write them."""
        return ",".join(f"{pool.devices}x{pool.gpu.name}" for pool in self.pools)

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
        if self.model.encoder is None:  # nor encoders
            del facts["frozen"], facts["model"]["encoder"]
        facts["model"] = {key: value for key, value in facts["model"].items() if key != "name"}
        facts["gpu"] = {key: value for key, value in facts["gpu"].items() if key != "name"}
        if self.second is None:
            del facts["second"]
        else:
            facts["second"] = [pool.hash for pool in self.pools] + [
                self.second.bandwidth,
                self.second.latency_seconds,
            ]
        return digest(facts)


def check_hardware(problem: TrainingProblem) -> TrainingProblem:
    """The problem, if its figures are such as hardware has; GPUs of unknown names may be anything."""
    from ..physics.hardware import GPUS  # the table of GPUs is read where a problem comes in

    if problem.second is not None:
        check_links("second.bandwidth", (problem.second.bandwidth,))
        for pool in problem.pools:
            check_hardware(pool)
        return problem
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
    _check_encoder(problem)
    if problem.second is not None:
        _check_second(problem, problem.second)


def _check_encoder(problem: TrainingProblem) -> None:
    """Refuse what is not known of a model that sees images."""
    own = problem.model.encoder
    if own is None:
        if problem.frozen is not None:
            raise InputError(
                "frozen", f"is {show(problem.frozen)}, and the model has no encoder", "give encoder, or drop it"
            )
        return
    _check_choice("frozen", problem.frozen or "encoder", ("encoder",))
    if own.text_tokens > problem.sequence:
        raise InputError(
            "encoder",
            f"makes {own.text_tokens:g} tokens of {several(own.images, 'image')}, more than the {problem.sequence} "
            "of a sequence",
            "give longer sequences or fewer images, as in images=1",
        )
    if problem.second is not None:
        raise InputError("encoder", "is given, and GPUs are of two sorts", "give GPUs of one sort")
    if not problem.flash_attention:
        raise InputError("encoder", "is given, and attention keeps its matrix", "keep FlashAttention")
    if problem.rules.even_by == "weights":
        raise InputError("encoder", f"is given, and {problem.framework} trains none", "give another framework")


def _check_second(problem: TrainingProblem, own: Pool) -> None:
    check_positive("second.bandwidth", own.bandwidth)
    if problem.model.own:
        raise InputError("second", "is given, and the times of layers were measured on one sort of GPU", "drop it")
    if (own.gpu.memory_bytes is None) != (problem.gpu.memory_bytes is None):
        raise InputError(
            "second.gpu.memory_bytes", "is missing for one sort of GPU", "give both a limit, or neither"
        )
    try:
        first, second = problem.pools
    except InputError as error:
        raise InputError(f"second.{error.field}", error.problem, error.remedy) from None
    if first.gpu.name == second.gpu.name:
        raise InputError("second.gpu.name", f"is {show(own.gpu.name)} twice", "give GPUs of one sort together")


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
    devices = problem.devices - (0 if problem.second is None else problem.second.devices)
    if product != devices:
        raise InputError(
            "levels",
            f"multiply to {several(product, 'GPU')}, not to {devices}",
            "give counts whose product is the number of GPUs",
        )


def refuse_two_sorts(problem: TrainingProblem, what: str) -> None:
    """Refuse what is only known for GPUs of one sort."""
    if problem.second is not None:
        raise UsageError(
            f"{problem.name} has GPUs of two sorts, for which there is no {what}; give GPUs of one sort."
        )
