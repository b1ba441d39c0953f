"""What a caller may say of how a profile becomes a problem."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING

from ...base.amounts import as_written, exact_sum
from ...base.checks import check_positive, check_whole
from ...base.cluster import spelled
from ...base.errors import InputError, UsageError, show
from ...base.kind import Samples
from ...physics.optimizers import OPTIMIZERS, WITHOUT_REPLICAS, Bytes, check_zero, copies_by

if TYPE_CHECKING:
    from ...base.cluster import Cluster
    from .profile import Profile, ProfileNode

# Larger numbers are refused as slips of the pen.
MAX_DEGREE = 65_536
MAX_IN_FLIGHT = 10_000_000
MAX_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """How a profile becomes a problem. What is None or empty was not given, and nothing is guessed then."""

    kind: str | None = None
    optimizer: str | None = None
    in_flight: int | None = None
    """Micro-batches whose activations a device holds, for kinds that do not count them by place."""
    recompute: bool = False
    """Backward passes may compute activations again: then only what a layer reads is kept."""
    data_parallel: bool = False
    """Stages may have replicas."""
    tensor_parallel: tuple[int, ...] = ()
    """Numbers of devices that may share a layer; empty: a layer is on one device."""
    efficiency: float | str | None = None
    """What is left of the ideal speed where several devices share a layer, or for each number of them: 2:0.97,4:0.93.
    None: what they exchange takes the time that links need."""
    bytes_per_parameter: float | None = None
    """Size of one parameter, for tables that count parameters."""
    zero: int | None = None
    """The ZeRO stage by which replicas divide what they hold alike; None: they do not."""
    replicas: int | None = None
    """Pipelines side by side that train the same weights, for kinds without replicas of stages; None: one."""
    sequence: int | None = None
    """Tokens of a sample, for models that are known by their shapes; None, here and below: as the profile was made."""
    micro_batch: int | None = None
    """Samples of a micro-batch, for models that are known by their shapes."""
    whole_layers: bool = False
    """Nodes are whole layers, the embedding with the first and the head with the last."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensor_parallel", tuple(sorted(set(self.tensor_parallel))))
        _check(self)

    def efficiency_at(self, degree: int) -> float | None:
        """The efficiency where so many devices share a layer; None: it was not given."""
        if isinstance(self.efficiency, str):
            return efficiencies_of(self.efficiency).get(degree)
        return self.efficiency

    def given(self) -> tuple[str, ...]:
        """Names of the fields that differ from their defaults, in order."""
        return tuple(entry.name for entry in fields(self) if getattr(self, entry.name) != entry.default)


PROFILE_FIELDS = tuple(entry.name for entry in fields(ProfileOptions))


def _check(options: ProfileOptions) -> None:
    if options.optimizer is not None and options.optimizer not in OPTIMIZERS:
        raise InputError("--optimizer", f"is {show(options.optimizer)}", f"give one of {', '.join(OPTIMIZERS)}")
    if options.in_flight is not None:
        check_whole("--option in-flight", options.in_flight, MAX_IN_FLIGHT)
    for degree in options.tensor_parallel:
        check_whole("--tensor-parallel", degree, MAX_DEGREE)
    if isinstance(options.efficiency, str):
        for share in efficiencies_of(options.efficiency).values():
            _check_share(share)
        free = [t for t in options.tensor_parallel if t > 1 and options.efficiency_at(t) is None]
        if free:
            raise InputError("--option efficiency", f"says nothing of {free[0]} devices", f"add {free[0]}:0.9")
    elif options.efficiency is not None:
        _check_share(options.efficiency)
    if options.bytes_per_parameter is not None:
        check_positive("--bytes-per-parameter", options.bytes_per_parameter, "give a size, such as 2")
    if options.zero is not None:
        check_zero("--zero", options.zero)
    for name, most in (("replicas", MAX_DEGREE), ("sequence", MAX_TOKENS), ("micro_batch", MAX_IN_FLIGHT)):
        if getattr(options, name) is not None:
            check_whole(spelled(name), getattr(options, name), most)


def efficiencies_of(text: str) -> dict[int, float]:
    """What is left of the ideal speed, by the number of devices that share a layer, from a text: 2:0.97,4:0.93."""
    pairs = _BY_DEGREE.findall(text.replace(" ", ""))
    if not pairs or ",".join(":".join(pair) for pair in pairs) != text.replace(" ", ""):
        remedy = "give a share such as 0.9, or degrees: 2:0.97,4:0.93"
        raise InputError("--option efficiency", f"is {show(text)}", remedy)
    return {int(degree): float(share) for degree, share in pairs}


_BY_DEGREE = re.compile(r"([0-9]{1,5}):([0-9]*\.?[0-9]+)")


def _check_share(share: float) -> None:
    check_positive("--option efficiency", share, "give a share of the ideal speed, such as 0.9")
    if share > 1:
        raise InputError("--option efficiency", f"is {show(share)}", "give a share of at most 1, such as 0.9")


# Sources of profiles that do not say how many samples a micro-batch has, unless the source has this field.
SILENT, SAMPLES = ("table", "pipedream"), "samples"


def samples_of(profile: Profile) -> Samples:
    """What a micro-batch of the profile is, as far as the profile and its source tell it."""
    silent = profile.source.get("how") in SILENT and SAMPLES not in profile.source
    tokens = profile.source.get("sequence")
    return Samples(
        None if silent else profile.micro_batch, profile.training, tokens if isinstance(tokens, int) else None
    )


# ---- what several lowerings need -----------------------------------------------------------------------


# Examples of how missing options are typed.
EXAMPLES = {"--devices": "4", "--memory": "40GB", "--bandwidth": "300GB/s"}


def require_cluster(cluster: Cluster) -> tuple[int, float]:
    """Number of devices and bandwidth; a profile names no cluster, so what is missing is asked for, all at once."""
    levels = cluster.levels or ()
    if cluster.devices == 0:
        raise InputError("--devices", "is 0", "give at least 1")
    # With levels nothing goes by the bandwidth of a flat network.
    bandwidth = levels[0][1] if levels else cluster.bandwidth
    devices = cluster.devices or (math.prod(count for count, _ in levels) if levels else None)
    needed = {"--devices": devices, "--memory": cluster.memory_bytes, "--bandwidth": bandwidth}
    missing = [option for option, value in needed.items() if value is None]
    if devices is None or bandwidth is None or missing:
        example = " ".join(f"{option} {EXAMPLES[option]}" for option in missing)
        raise InputError("cluster", "is missing: a model or a table of layers names none", f"add {example}")
    return devices, bandwidth


def copies_of(profile: Profile, options: ProfileOptions) -> float:
    """Copies of the parameters in memory; one where nothing is trained."""
    return copies_by(0, options.optimizer or "sgd").whole if profile.training else 1.0


def divided_copies(profile: Profile, options: ProfileOptions, *, replicas: bool) -> Bytes:
    """Copies of the parameters that every replica holds, and those that they divide among them."""
    if options.zero is None:
        return Bytes(copies_of(profile, options))
    if not profile.training:
        raise UsageError("--zero is for training, and nothing is trained here; drop --zero.")
    if not replicas:
        raise UsageError(WITHOUT_REPLICAS)
    return copies_by(options.zero, options.optimizer or "sgd")


def about_copies(profile: Profile, options: ProfileOptions) -> tuple[str, ...]:
    """A note on what memory counts where something is trained and no optimizer was named."""
    if options.optimizer is not None or not profile.training:
        return ()
    return (
        "memory counts weights and gradients; --optimizer adam or adam-mixed also counts the optimizer's states",
    )


def held_bytes(node: ProfileNode, copies: float) -> Fraction:
    """Bytes that a node holds whatever is in flight: all copies of its parameters, and its buffers."""
    return exact_sum(node.parameters.values()) * as_written(copies) + as_written(node.buffer_bytes)


def without_limit(value: float | None) -> float | None:
    """The amount, or None where it is infinite: problems say "no limit" with None."""
    return None if value == float("inf") else value
