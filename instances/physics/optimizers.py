"""Bytes of a parameter: what frameworks keep of it, what each optimizer adds, and how ZeRO stages divide both.

To add an optimizer, add a record to `_OPTIMIZERS`: profiles, training problems, flags and exports read it. To add a
framework's way of keeping weights and gradients, add one to `KEPT`.

ZeRO stage 1 divides the optimizer's states among data-parallel ranks, stage 2 the gradients as well, stage 3 also the
weights. In stages 0 and 1 replicas scatter their gradients and gather weights once for all micro-batches between two
updates; from stage 2 on gradients are scattered in every backward pass, and in stage 3 weights are gathered in every
pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache

from ..base.amounts import Amount, as_written
from ..base.errors import InputError, named, show
from .efficiencies import HALF, SINGLE

STAGES = (0, 1, 2, 3)
# Units of the network whose parameters a device holds whole in stage 3: the weights of the unit that runs and of the
# next one, and a gradient.
GATHERED_UNITS = 3
WITHOUT_REPLICAS = (
    "--zero divides what data-parallel replicas hold alike, and there are none here; add --data-parallel (stagings) or "
    "--replicas 8 (chains)."
)


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of one parameter: `whole` on every data-parallel rank, and `shared` divided among these ranks."""

    whole: float = 0
    shared: float = 0

    def on(self, shards: int) -> float:
        return self.whole + self.shared / shards


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes that a parameter takes all the time."""

    weights: Bytes
    gradients: Bytes
    optimizer: Bytes
    gathered: float = 0
    """Bytes of a parameter while its layer runs, where weights are divided among data-parallel ranks."""


# ---- optimizers ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Optimizer:
    """What an optimizer keeps of a parameter beside its weight, its gradient and a master copy of the weight."""

    name: str
    states: float
    """Bytes of a parameter; of a plain one, copies of the weight."""
    source: str
    mixed: bool = True
    """Are weights of 16 bits trained with a master copy in 32? Otherwise all is as wide as the weights."""
    megatron: str | None = None
    """How Megatron is told, also by exports; None: it does not have it."""
    gradients: float | None = None
    """Bytes of a gradient; None: as the framework keeps it."""
    master: float | None = None
    """Bytes of the master copy of a weight; None: as the framework keeps it."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """By parts to which a name may give a number format, Megatron's flag for it."""


# fmt: off
_OPTIMIZERS = (
    Optimizer("sgd", 0, "torch.optim.SGD without momentum", mixed=False, megatron="--optimizer sgd"),
    Optimizer("adam", 2, "torch.optim.Adam: two moments", mixed=False, megatron="--optimizer adam"),
    Optimizer("adam-mixed", 2 * SINGLE, "ZeRO (arXiv 1910.02054, section 3.1): a master copy and two moments in 32 "
              "bits; AdamW holds as much", megatron="--optimizer adam"),
    Optimizer("sgd-mixed", 0, "torch.optim.SGD without momentum", megatron="--optimizer sgd --sgd-momentum 0"),
    Optimizer("momentum-mixed", SINGLE, "torch.optim.SGD with momentum", megatron="--optimizer sgd"),
    # Its rows and columns are left out: a matrix of r x c has r + c of these numbers.
    Optimizer("adafactor", 0, "Shazeer and Stern (arXiv 1804.04235): sums of rows and columns, no first moment"),
    Optimizer("adam-8bit", 2 * (1 + SINGLE / 256),
              "Dettmers et al. (arXiv 2110.02861), bitsandbytes: two moments in 8 bits, a scale for each 256 numbers"),
    # Embeddings, head and vectors have Adam's moments in most recipes; they are counted as matrices here.
    Optimizer("muon", SINGLE, "Liu et al. (arXiv 2502.16982): one momentum for a matrix, half of what Adam keeps",
              megatron="--optimizer muon"),
    Optimizer("adam-precision-aware", 2 * HALF, "DeepSeek-V3 (arXiv 2412.19437, section 3.3.3): both moments in bf16; "
              "Megatron with Transformer Engine from 2.1 on keeps of a master copy the 16 bits that the weight lacks",
              megatron="--optimizer adam --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
              master=HALF, formats={"gradients": "main-grads-dtype", "master": "main-params-dtype",
                                    "first": "exp-avg-dtype", "second": "exp-avg-sq-dtype"}),
)
# fmt: on
OPTIMIZERS: Mapping[str, Optimizer] = {own.name: own for own in _OPTIMIZERS}
# Optimizers of training frameworks, which train in mixed precision, and the usual one.
MIXED = tuple(own.name for own in OPTIMIZERS.values() if own.mixed)
USUAL_OPTIMIZER = "adam-mixed"
# Number formats of a training's products of matrices.
PRECISIONS = ("bf16", "fp16", "fp8")
# Number formats of an optimizer's parts, with their bytes.
FORMATS: Mapping[str, float] = {"fp32": SINGLE, "bf16": HALF, "fp16": HALF, "fp8": 1}


@cache
def optimizer_of(name: str) -> Optimizer:
    """The optimizer of that name. Behind a colon are number formats of its parts, as in "muon:gradients=bf16": every
    optimizer has gradients, and adam-precision-aware also master (the copy of the weights), first and second (its
    moments)."""
    base, _, text = name.partition(":")
    own = named(base, OPTIMIZERS, "optimizer")
    flags = {"gradients": "grad-reduce-in-bf16", **own.formats}
    for part, given in dict(word.partition("=")[::2] for word in text.split(",") if text).items():
        known = [name for name in FORMATS if (part, name) != ("gradients", "fp8")]
        if part not in flags or given not in known or not own.mixed:
            remedy = f"give {' or '.join(flags)}, with {' or '.join(known)}"
            raise InputError("optimizer", f"is {show(name)}", remedy if own.mixed else f"give {base} alone")
        size = FORMATS[given]
        if part in ("first", "second"):  # of which the record has both in HALF
            own = replace(own, states=own.states - HALF + size)
        else:
            own = replace(own, gradients=size) if part == "gradients" else replace(own, master=size)
        flag = f" --{flags[part]} {given}" if part in own.formats else f" --{flags[part]}" * (size == HALF)
        own = replace(own, megatron=own.megatron and own.megatron + flag)
    return replace(own, name=name)


# ---- frameworks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """How a framework keeps weights and gradients, in bytes of a parameter, and the ZeRO stages that it can run."""

    weights: float
    gradients: float
    master: float
    """Of a copy of the weights that the optimizer updates; 0: it updates the weights themselves."""
    stages: tuple[int, ...]
    source: str


KEPT: Mapping[str, Kept] = {
    "megatron": Kept(
        HALF, SINGLE, SINGLE, (0, 1), "Megatron-LM, docs of the distributed optimizer: 2 + 4 + 12 bytes"
    ),
    "deepspeed": Kept(HALF, HALF, SINGLE, STAGES, "ZeRO (arXiv 1910.02054, section 3.1): 2 + 2 + 12 bytes"),
    # Layers multiply a copy of the weights in 16 bits, which stage 2 keeps from the forward to the backward pass.
    "torchtitan": Kept(SINGLE, SINGLE, 0, (0, 2, 3), "PyTorch FSDP2: everything in 32 bits, gathered in 16"),
    "megatron-deepspeed": Kept(
        HALF,
        HALF,
        SINGLE,
        (0, 1),
        "Megatron-DeepSpeed of 2022: ZeRO's 2 + 2 + 12 bytes; stage 1 at most with pipelines",
    ),
    "fsdp": Kept(SINGLE, SINGLE, 0, (0, 2, 3), "PyTorch FSDP with mixed precision: 32 bits, gathered in 16"),
    # A backward pass leaves all gradients in 16 bits, beside the weights, before it adds them up in 32.
    "nanotron": Kept(2 * HALF, SINGLE, SINGLE, (0, 1), "nanotron's gradient accumulator in fp32: 4 + 4 + 12 bytes"),
    "pytorch": Kept(HALF, SINGLE, SINGLE, (0, 1), "as Megatron keeps them: 2 + 4 + 12 bytes"),
    "scaling": Kept(HALF, HALF, SINGLE, (0, 1), "gradients as autograd makes them: 2 + 2 + 12 bytes"),
}
_PLAIN = Kept(1, 1, 0, STAGES, "weights and gradients as wide as each other, counted in copies of the weights")


@cache
def states_of(framework: str, optimizer: str) -> Mapping[int, StateBytes]:
    """Bytes of a parameter by ZeRO stage, for the stages that the framework can run."""
    kept = KEPT[framework]
    return {zero: _states(kept, optimizer_of(optimizer), zero) for zero in kept.stages}


def _kept(kept: Kept, own: Optimizer) -> Kept:
    """What a framework keeps with an optimizer that has formats of its own; without a master copy none of it."""
    gradients = kept.gradients if own.gradients is None else own.gradients
    return replace(kept, gradients=gradients, master=min(kept.master, own.master or kept.master))


def _states(kept: Kept, optimizer: Optimizer, zero: int) -> StateBytes:
    kept, is_copied = _kept(kept, optimizer), kept.weights == SINGLE
    from_stage = 2 if is_copied else 3
    weights = _divided(kept.weights, zero, from_stage)
    if is_copied and zero == 2:
        weights = Bytes(HALF, weights.shared)
    return StateBytes(
        weights,
        _divided(kept.gradients, zero, 2),
        _divided(kept.master + optimizer.states, zero, 1),
        gathered=HALF if zero == 3 or (is_copied and zero != 2) else 0,
    )


def _divided(size: float, zero: int, from_stage: int) -> Bytes:
    return Bytes(shared=size) if zero >= from_stage else Bytes(size)


def update_bytes(optimizer: str) -> float:
    """Bytes that the update of a parameter moves: its gradient read twice, its states and master copy read and written,
    its weight written in 16 bits."""
    own = optimizer_of(optimizer)
    return 2 * (own.gradients or SINGLE) + 2 * ((own.master or SINGLE) + own.states) + HALF


def copies_by(zero: int, optimizer: str) -> Bytes:
    """Copies of a parameter that a profile's device holds, of weights in 16 bits where precision is mixed: as Megatron
    keeps them, divided by that ZeRO stage."""
    own = OPTIMIZERS[optimizer]
    kept, each = (KEPT["megatron"], HALF) if own.mixed else (_PLAIN, 1)
    states = _states(kept, own, zero)
    parts = (states.weights, states.gradients, states.optimizer)
    return Bytes(sum(part.whole for part in parts) / each, sum(part.shared for part in parts) / each)


def share_of(amount: Amount, shards: int) -> Fraction:
    """One of `shards` equal parts, filled up to whole bytes, as frameworks pad it, and never more than all."""
    exact = as_written(amount)
    return exact if shards == 1 else min(exact, Fraction(math.ceil(exact / shards)))


def check_zero(field: str, value: object) -> None:
    if isinstance(value, bool) or value not in STAGES:
        raise InputError(field, f"is {show(value)}", "give a ZeRO stage: 0, 1, 2 or 3")
