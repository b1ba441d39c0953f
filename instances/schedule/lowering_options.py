"""How the passes of a plan's stages become blocks of a schedule problem, as a caller says it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..base.amounts import as_written
from ..base.checks import check_flag, check_whole
from ..base.errors import InputError, UsageError, show
from ..base.quantities import several
from ..physics.schedules import LOOP, V_SHAPE
from .pipelines import device_of
from .problem import MAX_MICRO_BATCHES

SHAPES = (V_SHAPE,)
MAX_CHUNKS = 64


@dataclass(frozen=True)
class ScheduleOptions:
    """How the passes of a plan's stages become blocks; None: not given."""

    micro_batches: int | None = None
    """The number of micro-batches; None: the steady state alone."""
    split_backward: float | tuple[float, ...] | None = None
    """The share of each backward pass that is for its inputs, of all stages or of each; None: one block."""
    weight_stash: float | None = None
    """The share of its activations that a stage keeps until its backward pass for weights ends; a half if not given."""
    virtual: int | None = None
    """Chunks on each device; None: one, or two in a V."""
    shape: str | None = None
    """`v`: two chunks on each device, down the devices and back up; None: chunk by chunk down the devices."""
    recompute: bool = False
    """Forward passes keep their inputs alone, and backward passes run the forward pass again."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def chunks(self) -> int:
        """Number of chunks on each device."""
        return self.virtual or (2 if self.shape == V_SHAPE else 1)

    def device_of(self, chunk: int, devices: int) -> int:
        """The device that runs a chunk, by the chunk's place in the network."""
        return device_of(chunk, devices, self.shape or LOOP)

    def share_of(self, stage: int, stages: int) -> Fraction | None:
        """The share of a stage's backward pass that is for its inputs; None: the pass is one block."""
        if not isinstance(self.split_backward, tuple):
            return None if self.split_backward is None else as_written(self.split_backward)
        if len(self.split_backward) != stages:
            count = len(self.split_backward)
            raise InputError(
                "split_backward", f"has {count} shares for {several(stages, 'stage')}", "give one, or one for each"
            )
        return as_written(self.split_backward[stage])


def _check(options: ScheduleOptions) -> None:
    if options.micro_batches is not None:
        check_whole("micro_batches", options.micro_batches, MAX_MICRO_BATCHES)
    shares = options.split_backward
    for share in shares if isinstance(shares, tuple) else (shares,):
        _check_share("split_backward", share)
    _check_share("weight_stash", options.weight_stash)
    check_flag("recompute", options.recompute)
    if options.weight_stash is not None and shares is None:
        raise UsageError("weight_stash says what a backward pass for weights keeps; give split_backward as well.")
    if options.virtual is not None:
        check_whole("virtual", options.virtual, MAX_CHUNKS)
    if options.shape is not None and options.shape not in SHAPES:
        raise InputError("shape", f"is {show(options.shape)}", f"give one of {', '.join(SHAPES)}, or none")
    if options.shape == V_SHAPE and options.virtual not in (None, 2):
        raise UsageError(f"The shape v has two chunks on each device, not {options.virtual}; drop virtual.")


def _check_share(field: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InputError(field, f"is {show(value)}", "give a share from 0 to 1, such as 0.5")
