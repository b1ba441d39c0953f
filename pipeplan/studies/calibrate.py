"""`plan calibrate`: measured kernels become efficiencies, and these are judged by small trainings that were measured.

Nothing here needs torch: `models/calibration.py` measures, and a file keeps what it measured. Each number of the
training model (`instances/training/unit_costs.py`) is fitted to the kernels that isolate it, in this order, by least
squares of relative errors:

    launch_seconds, host_seconds   a layer so small that nothing else counts: on CPUs launches, on GPUs the host
    products, half_side            products by shape, with gradients added up in 32 bits
    attention                      attention with a causal mask, at the sequence of the calibration
    memory                         the optimizer's step, to which no factor applies
    norm_traffic, loss_traffic     norms and losses
    elementwise_traffic            what whole layers take beside their products, attention and norms
    links, collective_seconds      collectives by size

A GPU that `hardware.py` knows keeps the peaks of its data sheet, and shares are of these. Any other device has the
peaks that were measured, so that the file describes it: `--devices 1xFILE`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from statistics import median, quantiles
from typing import Any

from ..instances.base.checks import check_positive
from ..instances.base.errors import InputError, UsageError, errors_in
from ..instances.base.fields import as_object, as_tuple, each, plain_fields, read_record, require
from ..instances.base.json_file import read_json
from ..instances.physics.efficiencies import (
    ABOUT,
    ATTENTION_BACKWARD,
    SINGLE,
    WORKSPACE_BYTES,
    Efficiencies,
)
from ..instances.physics.hardware import KnownGpu, known_gpu
from ..instances.physics.optimizers import USUAL_OPTIMIZER, update_bytes
from ..instances.training.iteration import timing_of
from ..instances.training.model import Attention, Mlp, Model
from ..instances.training.plan import Configuration, Degrees, Recompute
from ..instances.training.problem import Gpu, Level, TrainingProblem
from ..instances.training.referee import memory_of_ranks
from ..instances.training.scope import Margin
from ..instances.training.unit_costs import Keys, SecondsOfUnits

# What varies by a larger share is named.
UNSTEADY = 0.1
STEPS = 10


def spread_of(seconds: Sequence[float]) -> float:
    """The distance between the first and the last tenth, over the median."""
    if len(seconds) < 2:
        return 0.0
    tenths = quantiles(seconds, n=10, method="inclusive")
    return (tenths[-1] - tenths[0]) / median(seconds)


# ---- what is measured ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel at one size, forward and backward, or a collective; `SHAPES` says what the numbers of its shape are."""

    what: str
    shape: tuple[int, ...]
    seconds: float
    """The median of the repeats."""
    spread: float

    @classmethod
    def of(cls, what: str, shape: Iterable[int], seconds: Sequence[float]) -> Point:
        return cls(what, tuple(shape), median(seconds), spread_of(seconds))

    @property
    def words(self) -> str:
        return f"{self.what} {'x'.join(map(str, self.shape))}"


COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "point-to-point")
SHAPES: Mapping[str, str] = {
    "products": "rows, columns, inner",
    "attention": "sequences, heads, tokens, head size",
    "norm": "tokens, hidden",
    "loss": "tokens, words",
    "optimizer": "parameters",
    "copy": "bytes read and written",
    "layer": "hidden, heads, tokens of a sequence, sequences",
    **dict.fromkeys(COLLECTIVES, "ranks, bytes of a rank"),
}


def amount(point: Point) -> float:
    """Operations of products and attention, bytes of all others, forward and backward; 0 for a layer, which has
    both."""
    what, shape = point.what, point.shape
    if what == "products":
        return 6.0 * math.prod(shape)
    if what == "attention":
        return (1 + ATTENTION_BACKWARD) * 2 * math.prod(shape) * shape[2]
    if what in COLLECTIVES:
        ranks, size = shape
        return {"all-reduce": 2 * (ranks - 1) / ranks, "point-to-point": 1}.get(what, (ranks - 1) / ranks) * size
    # The training model's bytes: of a norm and of the loss, forward and backward, and of Adam with a gradient added up.
    each = {"norm": 10, "loss": 12, "optimizer": update_bytes(USUAL_OPTIMIZER) + SINGLE, "copy": 1, "layer": 0}
    return float(each[what] * math.prod(shape))


@dataclass(frozen=True, slots=True)
class Small:
    """A model of the Llama type with its batch."""

    name: str
    layers: int
    hidden: int
    heads: int
    words: int
    sequence: int
    micro_batch: int
    micro_batches: int = 1

    @property
    def model(self) -> Model:
        attention, mlp = Attention(self.heads, self.hidden // self.heads, self.heads), Mlp(self.hidden * 11 // 4)
        return Model(self.name, self.hidden, self.layers, self.words, attention, mlp)


@dataclass(frozen=True, slots=True)
class Trained:
    """A training with the seconds of its steps and the bytes of its fullest moment."""

    small: Small
    seconds: tuple[float, ...]
    peak_bytes: float


@dataclass(frozen=True, slots=True)
class Card:
    """What was measured on; the name is that of its driver or system."""

    name: str
    type: str
    """cuda or cpu."""
    memory_bytes: float
    torch: str
    cuda: str | None
    driver: str | None
    pipeplan: str


def kernels_for(device: str, sequence: int) -> list[tuple[str, tuple[int, ...]]]:
    """Kernels that take a GPU, or one thread of a CPU, milliseconds; the first layer is so small that only launches
    count."""
    k = 4 if device == "cuda" else 1  # sides are so many times as long on a GPU
    size = 128 if device == "cuda" else 64
    products = (
        (512, 512, 512), (1024, 256, 256), (512, 1536, 512), (512, 512, 1408), (1024, 2816, 512), (1024, 768, 768),
        (256, 2048, 512), (1024, 512, 1408), (512, 4096, 256),
    )  # fmt: skip
    kernels = [("products", tuple(k * side for side in shape)) for shape in products]
    for part, batch in ((4, 4), (2, 4), (1, 2), (1, 1), (0.5, 1)):
        kernels.append(("attention", (batch, 8, int(sequence / part), size)))
    kernels += [("norm", (k * tokens, k * hidden)) for tokens, hidden in ((512, 384), (1024, 512), (1024, 768))]
    kernels += [("loss", (k * tokens, k * words)) for tokens, words in ((512, 2048), (1024, 2048), (512, 4096))]
    kernels += [("optimizer", (k * k * count,)) for count in (2**21, 2**22, 2**23)]
    kernels += [("copy", (k * k * count,)) for count in (2**20, 2**22, 2**24, 2**26)]
    layers = ((256, 4), (512, 2), (640, 1))
    kernels += [("layer", (k * hidden, k * hidden // size, sequence, batch)) for hidden, batch in layers]
    return [("layer", (2 * 16, 2, 16, 1)), *kernels]


def trainings_for(device: str, sequence: int) -> list[Small]:
    """Shapes that no measured layer has."""
    k, size = (4, 128) if device == "cuda" else (1, 64)
    return [
        Small("narrow", 6, 384 * k, 384 * k // size, 4096 * k, sequence, 2, 2),
        Small("short", 3, 512 * k, 512 * k // size, 2048 * k, sequence, 1, 3),
        Small("wide", 3, 768 * k, 768 * k // size, 4096 * k, sequence, 2),
    ]


USUAL_SEQUENCE = {"cpu": 512, "cuda": 4096}


# ---- predictions ---------------------------------------------------------------------------------------


def problem_of(small: Small, gpu: Gpu, efficiencies: Efficiencies) -> TrainingProblem:
    """The training as a problem of one device, on which nothing is reserved."""
    return TrainingProblem(
        model=small.model,
        gpu=gpu,
        devices=1,
        levels=(Level(1, 1.0),),
        batch=small.micro_batch * small.micro_batches,
        sequence=small.sequence,
        framework="pytorch",
        reserve_bytes=0,
        fused_loss=False,
        efficiencies=efficiencies,
        name=small.name,
    )


def predicted(small: Small, gpu: Gpu, efficiencies: Efficiencies, on_cpu: bool) -> tuple[float, float]:
    """Seconds of a step, and bytes at its fullest moment; on a CPU products have no workspace."""
    problem = problem_of(small, gpu, efficiencies)
    plan = Configuration(Degrees(), small.micro_batch, 1, "1f1b", (len(problem.model.units),), (Recompute(),))
    workspace = WORKSPACE_BYTES if on_cpu else 0
    return timing_of(problem, plan).seconds, memory_of_ranks(problem, plan)[0].bytes - workspace


def _layer_of(point: Point) -> Small:
    hidden, heads, sequence, batch = point.shape
    return Small("layer", 1, hidden, heads, 64, sequence, batch)


def _layer_seconds(small: Small, gpu: Gpu, efficiencies: Efficiencies) -> float:
    """Predicted seconds of a layer, forward and backward."""
    problem = problem_of(small, gpu, efficiencies)
    unit = SecondsOfUnits(problem, Keys.of([(1, 1, 1, 1, small.micro_batch)]), SINGLE).unit("dense")
    return float((unit.forward + unit.inputs).sum() + unit.weights[0])


# ---- from kernels to efficiencies ----------------------------------------------------------------------


class Fit:
    """The device and its efficiencies, as far as kernels were measured; others stay as usual."""

    def __init__(self, card: Card, points: Sequence[Point], sequence: int) -> None:
        self.points, self.sequence, self.on_cpu = points, sequence, card.type == "cpu"
        self.known = _known(card.name)
        self.measured: dict[str, float] = {}
        known = self.known
        self.own = Efficiencies() if known is None else known.usual
        if known is not None:
            self.gpu = Gpu(known.name, known.memory_bytes, known.flops, known.memory_rate)
        else:
            self.gpu = Gpu(_short(card.name), card.memory_bytes, {"bf16": 1e12}, 1e11)
        self.link: float | None = None
        """Bytes a second among the devices; None: not measured."""
        self.ranks = 1
        for fit in (self._launches, self._products, self._memory, self._attention, self._rest, self._links):
            fit()

    def _of(self, what: str) -> list[Point]:
        return [point for point in self.points if point.what == what]

    def _say(self, name: str, value: float) -> None:
        """Keep a number, within the bounds that it has by its meaning."""
        about = ABOUT[name]
        self.measured[name] = float(max(about.least, min(value, math.inf if about.most is None else about.most)))
        self.own = replace(self.own, **{name: self.measured[name]})

    def _each(self, points: Sequence[Point], launches: int) -> float | None:
        """Seconds of one operation or byte beside so many launches; None: there are no points."""
        if not points:
            return None
        shares = [
            (amount(point) / point.seconds, 1 - launches * self.own.launch_seconds / point.seconds)
            for point in points
        ]
        return max(1e-30, sum(a * left for a, left in shares)) / sum(a * a for a, _ in shares)

    def _launches(self) -> None:
        for tiny in self._of("layer")[:1]:
            name, other = ("launch_seconds", "host_seconds")[:: 1 if self.on_cpu else -1]
            nothing = replace(self.own, launch_seconds=0, host_seconds=0)
            unlimited = replace(self.gpu, flops={"bf16": 1e30}, memory_rate=1e30)
            self._say(
                name, tiny.seconds / _layer_seconds(_layer_of(tiny), unlimited, replace(nothing, **{name: 1.0}))
            )
            if self.on_cpu:
                self._say(other, 0.0)

    def _products(self) -> None:
        import numpy as np
        from scipy.optimize import nnls

        points = self._of("products")
        if len(points) < 3:
            return
        seconds = np.array([point.seconds for point in points])
        m, n, k = np.array([point.shape for point in points], float).T
        work = np.stack([6 * m * n * k, 6 * (m * n + n * k + m * k)], axis=1)
        (each, side), _ = nnls(work / seconds[:, None], 1 - 3 * self.own.launch_seconds / seconds)
        if self.known is None:
            self.gpu = replace(self.gpu, flops={"bf16": float(1 / each)})
        self._say("products", 1 / each / self.gpu.flops["bf16"])
        self._say("half_side", side / each)

    def _memory(self) -> None:
        each = self._each(self._of("optimizer"), 0)
        rates = [amount(point) / point.seconds for point in self._of("copy")]
        rates += [] if each is None else [1 / each]
        if self.known is None and rates:
            self.gpu = replace(self.gpu, memory_rate=max(rates))
        if each is not None:
            self._say("memory", 1 / each / self.gpu.memory_rate)

    def _attention(self) -> None:
        each = self._each([point for point in self._of("attention") if point.shape[2] == self.sequence], 3)
        if each is not None:
            self._say("attention", 1 / each / self.gpu.flops["bf16"])

    def _rest(self) -> None:
        for what in ("norm", "loss"):
            each = self._each(self._of(what), 2)
            if each is not None:
                self._say(f"{what}_traffic", each * self.own.memory * self.gpu.memory_rate)
        # The time of a layer is linear in the factor: what is left of it beside all others, over that of factor 1.
        layers = []
        for point in self._of("layer")[1:]:
            one, two = (
                _layer_seconds(_layer_of(point), self.gpu, replace(self.own, elementwise_traffic=x)) for x in (1, 2)
            )
            layers.append(((two - one) / point.seconds, 1 - (2 * one - two) / point.seconds))
        if layers:
            left = sum(each * share for each, share in layers) / sum(each**2 for each, _ in layers)
            self._say("elementwise_traffic", left)

    def _links(self) -> None:
        import numpy as np
        from scipy.optimize import nnls

        rows = [(amount(point), point) for point in self.points if point.what in COLLECTIVES]
        if len(rows) < 2:
            return
        seconds = np.array([point.seconds for _, point in rows])
        table = np.array([[sent, 1.0] for sent, _ in rows]) / seconds[:, None]
        (each, once), _ = nnls(table, np.ones(len(rows)))
        self.link, self.ranks = float(1 / each), rows[0][1].shape[0]
        self._say("links", 1.0 if self.known is None else self.link / self.known.inside)
        steps = 0.0 if self.known is None else (self.ranks - 1) * self.known.inside_seconds
        self._say("collective_seconds", max(0.0, float(once) - steps))


def _known(name: str) -> KnownGpu | None:
    try:
        return known_gpu(name)
    except UsageError:
        return None


def _short(name: str) -> str:
    """The name of a device in lower case, with hyphens between its words."""
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())[:60] or "device"


# ---- the judgement -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """A training beside its prediction."""

    trained: Trained
    seconds: float
    bytes: float

    @property
    def measured_seconds(self) -> float:
        return median(self.trained.seconds)

    @property
    def error(self) -> float:
        return self.seconds / self.measured_seconds - 1

    @property
    def spread(self) -> float:
        return spread_of(self.trained.seconds)

    @property
    def memory_error(self) -> float:
        return self.bytes / self.trained.peak_bytes - 1

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.trained.small.name,
            "seconds": self.measured_seconds,
            "predicted_seconds": self.seconds,
            "spread": self.spread,
            "peak_bytes": self.trained.peak_bytes,
            "predicted_bytes": self.bytes,
        }


@dataclass(frozen=True)
class Calibration:
    """Everything that was measured on one card."""

    card: Card
    sequence: int
    """Tokens for which the share of attention counts."""
    points: tuple[Point, ...]
    trainings: tuple[Trained, ...] = ()
    finished: bool = True

    @cached_property
    def fit(self) -> Fit:
        return Fit(self.card, self.points, self.sequence)

    @cached_property
    def judged(self) -> tuple[Judged, ...]:
        fit = self.fit
        return tuple(Judged(own, *predicted(own.small, fit.gpu, fit.own, fit.on_cpu)) for own in self.trainings)

    @property
    def unsteady(self) -> list[str]:
        """What varied by more than `UNSTEADY`, in words."""
        spreads = [(f"the steps of {own.trained.small.name}", own.spread) for own in self.judged]
        spreads += [(point.words, point.spread) for point in self.points]
        return [f"{name} by {spread:.0%}" for name, spread in spreads if spread > UNSTEADY]

    @property
    def unmeasured(self) -> list[str]:
        """Efficiencies of one device that nothing says, because the run ended early."""
        wanted = (
            "products",
            "half_side",
            "attention",
            "memory",
            "norm_traffic",
            "loss_traffic",
            "elementwise_traffic",
        )
        return [name for name in wanted if name not in self.fit.measured]

    def to_json(self) -> dict[str, Any]:
        """The file for `--efficiencies`, which describes the device as well."""
        from ..planners.training.measured import SCHEMA

        fit, ratios = self.fit, [own.trained.peak_bytes / own.bytes - 1 for own in self.judged]
        margin = Margin(max(0.0, *ratios), max(0.0, *(-ratio for ratio in ratios))) if ratios else None
        return {
            "schema": SCHEMA,
            "gpu": fit.gpu.name,
            "efficiencies": {entry.name: getattr(fit.own, entry.name) for entry in fields(Efficiencies)},
            "error": max((abs(own.error) for own in self.judged), default=None),
            "runs_left_out": 0,
            "memory_error": None if margin is None else max(margin.more, margin.less),
            "memory_margin": None if margin is None else plain_fields(margin),
            "device": {
                "memory_bytes": fit.gpu.memory_bytes,
                "flops": dict(fit.gpu.flops),
                "memory_rate": fit.gpu.memory_rate,
                "link_rate": fit.link,
                "linked": fit.ranks,
            },
            "measured": {
                "efficiencies": fit.measured,
                "finished": self.finished,
                "unsteady": self.unsteady,
                "trainings": [own.to_json() for own in self.judged],
            },
            "calibration": plain_fields(self),
        }


def read_calibration(path: str | os.PathLike[str]) -> Calibration:
    """What a file holds that was measured; everything else is computed anew."""
    top = as_object("", read_json(path))
    with errors_in(path):
        return read_record(
            Calibration,
            "calibration",
            require("", top, "calibration"),
            card=partial(read_record, Card),
            points=each(_read_point),
            trainings=each(partial(read_record, Trained, small=partial(read_record, Small), seconds=as_tuple)),
        )


def _read_point(where: str, value: object) -> Point:
    point = read_record(Point, where, value, shape=as_tuple)
    check_positive(f"{where}.seconds", point.seconds)
    numbers = SHAPES.get(point.what)
    if numbers is None or len(numbers.split(",")) != len(point.shape):
        raise InputError(
            where, f"is {point.words}", f"give one of {', '.join(SHAPES)} with all numbers of its shape"
        )
    return point
