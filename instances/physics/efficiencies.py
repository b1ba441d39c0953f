"""How well hardware is used: named numbers with units, defaults and the source of each default.

Training configurations use all of them. Profiles use those of kernels on one GPU: a profile made from shapes runs the
kernels of a configuration and takes the same seconds. In a traced model nobody knows which operations are attention or
experts, how short the sides of a product are, and that kernels could be fused: all of it reaches the share `products`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..base.checks import check_amount
from ..base.errors import InputError, named


@dataclass(frozen=True, slots=True)
class About:
    """What a number means, and where its default comes from."""

    unit: str
    words: str
    source: str
    most: float | None = 1.0
    """The physical bound; None: there is none."""
    least: float = 0.0


def _number(
    default: float, unit: str, words: str, source: str, most: float | None = 1.0, least: float = 0.0
) -> Any:
    return field(default=default, metadata={"about": About(unit, words, source, most, least)})


# Shares by which seconds and bytes may be misjudged, where no runs say more.
USUAL_ERROR = 0.05
USUAL_MEMORY_ERROR = 0.03
# The share by which the form of the model may be wrong for one configuration, where no groups of runs say more.
USUAL_FORM_ERROR = 0.1

_SHARE = "share"
_RUNS = "one number for the eight runs of arXiv 2205.05198 on A100"
_BALANCE = "of the order of peak over memory rate: 153 operations a byte on A100, 295 on H100"
_FLASH = "FlashAttention-2 (arXiv 2307.08691): 50 to 73 % of the peak on A100"
_COPIES = "usual of bandwidth tests: 80 to 90 % of the data sheet's rate"
_RINGS = "usual of NCCL tests: bus bandwidth of large messages over the data sheet's rate"
_KERNELS = "usual of a kernel's start and end on a GPU"
_FUSED = "kernels that do all of a step at once, as Transformer Engine has them; frameworks in eager PyTorch differ"
_COLLECTIVES = "usual of NCCL tests: 15 to 30 us for small messages inside a node"
_NOT_OVERLAPPED = "frameworks do not overlap it unless they are told to"
_IF_TOLD = (
    "torchtitan overlaps it by default, Megatron with --overlap-grad-reduce and --overlap-param-gather, which exports "
    "write; what is left was not measured"
)
_OVERLAPPED = "frameworks overlap it by default; what is left was not measured"


@dataclass(frozen=True, slots=True)
class Efficiencies:
    """How well a problem's hardware is used; `--efficiency NAME=VALUE` changes one, `hardware.usual_of` knows GPUs."""

    # fmt: off
    products: float = _number(0.85, _SHARE, "of the peak that a very large matrix product reaches", _RUNS,
        least=0.01)
    half_side: float = _number(200, "elements",
        "in the side of a matrix product at which it takes twice its ideal time", _BALANCE, None)
    grouped_products: float = _number(0.6, _SHARE, "of the peak that very large matrix products of experts reach",
        "two thirds of products", least=0.01)
    products_fp8: float = _number(0.65, _SHARE, "of the fp8 peak that a very large matrix product reaches",
        "three quarters of products", least=0.01)
    attention: float = _number(0.6, _SHARE, "of the 16-bit peak that attention reaches", _FLASH, least=0.01)
    memory: float = _number(0.8, _SHARE, "of the memory bandwidth that norms and activations reach", _COPIES,
        least=0.01)
    launch_seconds: float = _number(4e-6, "s", "to start and end one kernel, whatever it computes", _KERNELS, None)
    host_seconds: float = _number(0.0, "s",
        "of host time per kernel; a pass takes at least the host time of its kernels", _FUSED, None)
    norm_traffic: float = _number(1, "factor", "bytes that a norm moves, relative to a fused one", _FUSED, None, 0.1)
    elementwise_traffic: float = _number(1, "factor",
        "bytes that activations, residuals and positions move, relative to one fused kernel each", _FUSED, None, 0.1)
    softmax_traffic: float = _number(1, "factor",
        "bytes that a stored attention matrix moves, relative to one fused kernel", _FUSED, None, 0.1)
    loss_traffic: float = _number(1, "factor", "bytes that the loss moves, relative to a fused one", _FUSED, None, 0.1)
    links: float = _number(0.8, _SHARE, "of a link's bandwidth that collectives reach", _RINGS, least=0.01)
    network: float = _number(1, _SHARE, "of that bandwidth that collectives reach above the lowest level",
        "nothing in general: networks differ", least=0.01)
    collective_seconds: float = _number(2e-5, "s",
        "for one collective, in addition to its bytes and the latencies of the links", _COLLECTIVES, None)
    tensor_hidden: float = _number(0, _SHARE, "of tensor-parallel communication that computation hides",
        _NOT_OVERLAPPED)
    context_hidden: float = _number(0.5, _SHARE, "of context-parallel communication that attention hides", _OVERLAPPED)
    expert_hidden: float = _number(0, _SHARE, "of expert-parallel communication that computation hides",
        _NOT_OVERLAPPED)
    data_hidden: float = _number(0.8, _SHARE, "of data-parallel communication that passes hide", _IF_TOLD)
    pipeline_hidden: float = _number(0, _SHARE, "of communication between stages that computation hides",
        _NOT_OVERLAPPED)
    step_seconds: float = _number(0.0, "s", "per iteration, in addition to passes, gradient sums and the update",
        "nothing is known of it", None)
    expert_imbalance: float = _number(1, "factor",
        "tokens of the fullest expert rank, relative to the average", "balanced routing", None, 1)
    # fmt: on

    def to_json(self) -> dict[str, float]:
        """All numbers; of `NEUTRAL` those that are not neutral, since older files and names of problems lack them."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if name not in NEUTRAL or not self.is_neutral(name)}

    def is_neutral(self, name: str) -> bool:
        """Is this number its default?"""
        return bool(getattr(self, name) == Efficiencies.__dataclass_fields__[name].default)

    def __post_init__(self) -> None:
        for name, about in ABOUT.items():
            value = getattr(self, name)
            check_amount(f"efficiencies.{name}", value)
            if value < about.least or (about.most is not None and value > about.most):
                most = "" if about.most is None else f" to {about.most:g}"
                raise InputError(
                    f"efficiencies.{name}", f"is {value:g}", f"give {about.least:g}{most or ' or more'}"
                )


# Numbers of one framework or network, whose defaults change nothing. To add one, add it here as well, so that the names
# of stored problems stay.
NEUTRAL = ("host_seconds", "norm_traffic", "elementwise_traffic", "softmax_traffic", "loss_traffic", "network")

# What each efficiency means, by its name.
ABOUT: Mapping[str, About] = {entry.name: entry.metadata["about"] for entry in fields(Efficiencies)}


def check_name(name: str) -> str:
    """The name, if there is an efficiency of that name; else it is refused."""
    named(name, ABOUT, "efficiency")
    return name


# ---- kernels of attention --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttentionKernel:
    """How attention is computed. To add a kernel, add a record to `ATTENTION_KERNELS`."""

    words: str
    shares: Mapping[str, float] | None
    """Of the peak, by family of GPUs (the keys of `MEASURED`); None: the matrix of attention is kept."""
    softmax_traffic: float = 1
    """Where it is kept: the bytes that it moves over those of one kernel."""


# Shares are those of published runs: 263 layouts on A100 (arXiv 2311.05610) for flash-1, flash-2 and torch, 126 runs of
# llm-foundry under FSDP for triton, 466 of the ultra-scale playbook for flash-2 on H100. A causal matrix counts half.
# fmt: off
ATTENTION_KERNELS: Mapping[str, AttentionKernel] = {
    "flash-1": AttentionKernel("FlashAttention 1", {"a100": 0.3, "h100": 0.18}),
    "flash-2": AttentionKernel("FlashAttention 2", {"a100": 0.6, "h100": 0.25}),
    "triton": AttentionKernel("FlashAttention 1 in Triton, with the bias of ALiBi", {"a100": 0.32, "h100": 0.18}),
    "fused-softmax": AttentionKernel("two products and one kernel for scale, mask and softmax", None),
    "torch": AttentionKernel("two products and a kernel for each step between them, in 32 bits", None, 5),
}
# fmt: on


# The share of tensor-parallel communication that Megatron's --tp-comm-overlap hides, which NVIDIA's recipes use: 46 of
# their runs in bf16 on H100 (dgxc-benchmarking 25.02 to 25.05) are off by 1.3 % with it, and by 5.8 % without.
OVERLAPPED_TENSOR = 0.5


# ---- GPUs apart ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """What published runs of one family of GPUs reached, where that is another number than in general."""

    changes: Mapping[str, float]
    source: str


# Families of GPUs by the one whose runs were published; `KnownGpu.measured_as` names one of them.
# fmt: off
MEASURED: Mapping[str, Measured] = {
    "a100": Measured({}, _RUNS),
    "h100": Measured(
        {"products": 0.7, "products_fp8": 0.65, "grouped_products": 0.45, "attention": 0.5},
        "Llama 3 (arXiv 2407.21783, table 4): 38 to 43 % MFU of 405B on 8,192 and 16,384 H100; Megatron-Bridge's "
        "performance summary: 719 to 736 TFLOP/s of 70B in fp8 on 64 H100; 44 runs of dgxc-benchmarking in fp8. Power "
        "keeps it below its data sheet's peak"),
    "b200": Measured(
        {"products": 0.5, "products_fp8": 0.55, "grouped_products": 0.35, "attention": 0.4, "memory": 0.6,
         "links": 0.5},
        "SimuMax, docs/b200: Llama-3-70B of 12 layers on 8 B200 at 39 to 45 % MFU without tensor parallelism; "
        "Megatron-Bridge's performance summary: 1,576 to 1,956 TFLOP/s of 8B and 70B in fp8 on B200 and GB200"),
    "b300": Measured(
        {"products": 0.55, "products_fp8": 0.65, "grouped_products": 0.35, "attention": 0.45, "memory": 0.6,
         "links": 0.5},
        "Megatron-Bridge's performance summary: 1,933 to 2,355 TFLOP/s of 8B and 70B in fp8 on GB300"),
}
# fmt: on


# Shares of GPUs without published runs whose peak is above that of an A100: the least of any family with runs.
CAUTIOUS: Mapping[str, float] = {
    **{"products": 0.5, "products_fp8": 0.5},
    **{"grouped_products": 0.35, "attention": 0.4},
}


# ---- errors that were measured -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MeasuredErrors:
    """By which shares nine in ten published runs were off, as `docs/accuracy.md` has them."""

    runs: int
    time: float
    peaks: int = 0
    """Runs whose memory is known, those that ran out of it among them."""
    memory: float | None = None
    """The share by which a rank may hold more than predicted; None: no peak is known."""
    groups: int = 0
    """Models on one cluster of which eight configurations or more were run."""
    form: float | None = None
    """What a fit on four runs leaves in nine of ten such groups, among what is predicted within 25 % of the best: the
    share by which the form of the model is wrong. None: there is no such group."""


# By family of GPUs (the keys of `MEASURED`) or GPU, framework, and whether products are in fp8. To add one, judge runs
# with `benchmarks/measured.py`, whose sweep among the tests holds these numbers.
MEASURED_ERRORS: Mapping[tuple[str, str, bool], MeasuredErrors] = {
    ("a100", "megatron", False): MeasuredErrors(8, 0.033, 8, 0.001),
    ("h100", "megatron", False): MeasuredErrors(46, 0.037),
    ("h100", "megatron", True): MeasuredErrors(56, 0.114),
    ("b200", "megatron", False): MeasuredErrors(22, 0.12, 12, 0.001),
    ("a100", "megatron-deepspeed", False): MeasuredErrors(1_481, 0.171, groups=90, form=0.148),
    ("a100", "fsdp", False): MeasuredErrors(82, 0.073),
    ("h100", "fsdp", False): MeasuredErrors(41, 0.096),
    # Of 340 layouts that ran out of memory 6 fit by this share.
    ("a100", "scaling", False): MeasuredErrors(263, 0.105, 603, 0.185, 17, 0.083),
    # Of eight groups on many nodes whole configurations took several times as long as their neighbours.
    ("h100", "nanotron", False): MeasuredErrors(466, 0.226, 466, 0.21, 14, 0.99),
    ("v100-32gb", "megatron-deepspeed", False): MeasuredErrors(15, 0.42, 17, 0.6),
    ("v100-16gb", "megatron-deepspeed", False): MeasuredErrors(8, 0.057, 11, 0.6),
}


def measured_errors(family: str, framework: str, precision: str) -> MeasuredErrors | None:
    """What runs of others say of such predictions; None: nobody's runs were compared."""
    return MEASURED_ERRORS.get((family, framework, precision == "fp8"))


# ---- kernels ------------------------------------------------------------------------------------------
#
# What kernels of training compute and hold, where it does not follow from shapes.


# Bytes of a number of sixteen bits and of one of thirty-two.
HALF, SINGLE = 2, 4
# Operations of attention's backward pass, as a multiple of the forward pass's: a fused kernel multiplies five times
# instead of twice, because it computes the scores again.
ATTENTION_BACKWARD = 2.5
# Bytes for the libraries that multiply matrices: 32 MiB for cuBLAS and 32 MiB for the layers that call it.
WORKSPACE_BYTES = 64 * 2**20
# Copies of all routed tokens while the experts of a layer run backward: their gradients before and after sorting and
# on both sides of the exchange; measured on three stages of DeepSeek-V2.
TOKEN_COPIES = 5
# What the backward pass of a measured layer holds for a moment, as a multiple of the bytes that the layer keeps:
# gradients, and what is made on the way. Published runs of one, two and four stages with 1 to 8 sequences hold as much.
OWN_MOMENT = 2
