"""`plan calibrate`: measured kernels become efficiencies, and these are judged by small trainings that were measured.

Nothing here needs torch: `models/calibration.py` measures, and a file keeps what it measured. Each number of the
training model (`instances/training/unit_costs.py`) is fitted to the kernels that isolate it, in this order, by least
squares of relative errors:

    launch_seconds, host_seconds   a layer so small that nothing else counts: on CPUs launches, on GPUs the host
    products, half_side            products by shape, with gradients added up in 32 bits
    memory                         the optimizer's step, to which no factor applies
    attention                      attention with a causal mask, at the sequence of the calibration
    norm_traffic, loss_traffic     norms and losses
    elementwise_traffic            what whole layers take beside their products, attention and norms
    links, collective_seconds      collectives by size

A GPU that `hardware.py` knows keeps the peaks of its data sheet, and shares are of these. Any other device has the
peaks that were measured, so that the file describes it: `--gpu FILE`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import median, quantiles
from typing import Any

from ..instances.base.checks import check_positive
from ..instances.base.errors import InputError, UsageError, errors_in
from ..instances.base.fields import as_object, as_tuple, each, plain_fields, read_record, require
from ..instances.base.json_file import read_json
from ..instances.physics.efficiencies import ABOUT, ATTENTION_BACKWARD, SINGLE, WORKSPACE_BYTES, Efficiencies
from ..instances.physics.hardware import KnownGpu, known_gpu
from ..instances.physics.optimizers import USUAL_OPTIMIZER, update_bytes
from ..instances.training.iteration import timing_of
from ..instances.training.model import Attention, Mlp, Model
from ..instances.training.plan import Configuration, Degrees, Recompute
from ..instances.training.problem import Gpu, Level, TrainingProblem
from ..instances.training.referee import memory_of_ranks
from ..instances.training.unit_costs import Keys, SecondsOfUnits

# What varies by a larger share is named.
UNSTEADY = 0.1
# The usual sequence by type of device.
SEQUENCES = {"cpu": 512, "cuda": 4096}
COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "point-to-point")
# What the numbers of a shape are; bytes of a copy are read or written.
SHAPES: Mapping[str, tuple[str, ...]] = {
    "products": ("rows", "columns", "inner"),
    "attention": ("sequences", "heads", "tokens", "head size"),
    "norm": ("tokens", "hidden"),
    "loss": ("tokens", "words"),
    "optimizer": ("parameters",),
    "copy": ("bytes",),
    "layers": ("layers", "hidden", "heads", "tokens", "sequences"),
    **dict.fromkeys(COLLECTIVES, ("ranks", "bytes of a rank")),
}
# Bytes forward and backward by the training model; Adam's with a gradient that is added up.
BYTES = {"norm": 10, "loss": 12, "optimizer": update_bytes(USUAL_OPTIMIZER) + SINGLE, "copy": 1}


# ---- what is measured ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel at one size, forward and backward, or a collective."""

    what: str
    shape: tuple[int, ...]
    seconds: float
    """The median of the repeats."""
    spread: float

    @classmethod
    def of(cls, what: str, shape: Sequence[int], seconds: Sequence[float]) -> Point:
        return cls(what, tuple(shape), median(seconds), spread_of(seconds))

    @property
    def words(self) -> str:
        return f"{self.what} {'x'.join(map(str, self.shape))}"

    @property
    def amount(self) -> float:
        """Operations of products and of attention, bytes of all others; layers have both."""
        if self.what in COLLECTIVES:
            ranks, size = self.shape
            passed = {"all-reduce": 2 * (ranks - 1) / ranks, "point-to-point": 1.0}
            return passed.get(self.what, (ranks - 1) / ranks) * size
        factor = {"products": 6.0, "attention": 2 * (1 + ATTENTION_BACKWARD) * self.shape[-2:][0], **BYTES}
        return factor[self.what] * math.prod(self.shape)


def spread_of(seconds: Sequence[float]) -> float:
    """The distance between the first and the last tenth, over the median."""
    if len(seconds) < 2:
        return 0.0
    tenths = quantiles(seconds, n=10, method="inclusive")
    return (tenths[-1] - tenths[0]) / median(seconds)


@dataclass(frozen=True, slots=True)
class Small:
    """A model of the GPT type with its batch."""

    name: str
    layers: int
    hidden: int
    heads: int
    words: int
    sequence: int
    micro_batch: int
    micro_batches: int = 1

    def problem(self, gpu: Gpu, efficiencies: Efficiencies) -> TrainingProblem:
        """The training on one device, of which nothing is reserved."""
        attention = Attention(self.heads, self.hidden // self.heads, self.heads)
        mlp = Mlp(4 * self.hidden, gated=False)
        return TrainingProblem(
            Model(self.name, self.hidden, self.layers, self.words, attention, mlp, norm="layer"),
            gpu, 1, (Level(1, 1.0),), self.micro_batch * self.micro_batches, self.sequence, framework="pytorch",
            reserve_bytes=0, fused_loss=False, efficiencies=efficiencies, name=self.name,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trained:
    """A training with the seconds of its steps and the bytes of its fullest moment."""

    small: Small
    seconds: tuple[float, ...]
    peak_bytes: float


@dataclass(frozen=True, slots=True)
class Card:
    """What was measured, under the name that its driver or system gives it; the type is cuda or cpu."""

    name: str
    type: str
    memory_bytes: float
    torch: str
    cuda: str | None
    driver: str | None
    pipeplan: str


def to_measure(kind: str, sequence: int) -> tuple[list[tuple[str, tuple[int, ...]]], list[Small]]:
    """Kernels, each for milliseconds on a GPU or on one thread of a CPU, and trainings whose layers are not among them.

    The first layer is so small that only launches count. Of others there are four in a row: what one keeps for its
    backward pass would still be in a cache.
    """
    k, size = (4, 128) if kind == "cuda" else (1, 64)  # sides are so many times as long on a GPU
    sides = {
        "products": ((512, 512, 512), (1024, 256, 256), (512, 1536, 512), (512, 512, 2048), (1024, 2304, 768),
                     (1024, 768, 768), (256, 2048, 512), (1024, 640, 2560), (512, 4096, 256)),
        "norm": ((512, 384), (1024, 512), (1024, 768)),
        "loss": ((512, 2048), (1024, 2048), (512, 4096)),
        "optimizer": ((2**21 * k,), (2**22 * k,), (2**23 * k,)),
        "copy": ((2**20 * k,), (2**22 * k,), (2**24 * k,), (2**26 * k,)),
    }  # fmt: skip
    kernels: list[tuple[str, tuple[int, ...]]] = [("layers", (1, 32, 2, 16, 1))]
    kernels += [(what, tuple(k * side for side in shape)) for what, shapes in sides.items() for shape in shapes]
    lengths = (sequence // 4, sequence // 2, sequence, 2 * sequence)
    kernels += [("attention", (max(1, 2 * sequence // length), 8, length, size)) for length in lengths]
    layers = ((256, 4), (512, 2), (640, 1))
    kernels += [("layers", (4, k * hidden, k * hidden // size, sequence, batch)) for hidden, batch in layers]
    shapes = (("narrow", 6, 384, 4096, 2, 2), ("short", 3, 512, 2048, 1, 3), ("wide", 3, 768, 4096, 2, 1))
    return kernels, [
        Small(name, count, k * hidden, k * hidden // size, k * words, sequence, *batch)
        for name, count, hidden, words, *batch in shapes
    ]


# ---- from kernels to efficiencies ----------------------------------------------------------------------


class Fit:
    """The device and its efficiencies, as far as kernels were measured; others stay as usual."""

    def __init__(self, card: Card, points: Sequence[Point], sequence: int) -> None:
        self.points, self.sequence, self.is_cpu = points, sequence, card.type == "cpu"
        self.known, self.measured = _known(card.name), dict[str, float]()
        self.own = Efficiencies() if self.known is None else self.known.usual
        words = "".join(letter if letter.isalnum() else " " for letter in card.name.lower()).split()
        self.gpu = Gpu("-".join(words)[:60] or "device", card.memory_bytes, {"bf16": 1e12}, 1e11)
        if self.known is not None:
            self.gpu = Gpu(self.known.name, self.known.memory_bytes, self.known.flops, self.known.memory_rate)
        self.link_rate: float | None = None
        """Bytes a second that each device sends; None: not measured."""
        for fit in (self._launches, self._products, self._single, self._layers, self._links):
            fit()

    def _of(self, *names: str) -> list[Point]:
        return [point for point in self.points if point.what in names]

    def _say(self, name: str, value: float) -> None:
        """Keep a number, within the bounds that it has by its meaning."""
        about = ABOUT[name]
        self.measured[name] = float(max(about.least, min(value, math.inf if about.most is None else about.most)))
        self.own = replace(self.own, **{name: self.measured[name]})

    def _launches(self) -> None:
        for tiny in self._of("layers")[:1]:
            names = ("launch_seconds", "host_seconds") if self.is_cpu else ("host_seconds", "launch_seconds")
            one = replace(self.own, **dict(zip(names, (1.0, 0.0), strict=True)))
            unlimited = replace(self.gpu, flops={"bf16": 1e30}, memory_rate=1e30)
            self._say(names[0], tiny.seconds / _seconds_of_layers(tiny, unlimited, one))
            if self.is_cpu:
                self._say("host_seconds", 0.0)

    def _products(self) -> None:
        points = self._of("products")
        if len(points) < 3:
            return
        sides = [point.amount * sum(1 / side for side in point.shape) for point in points]
        once = [3 * self.own.launch_seconds for _ in points]
        each, side = _least_squares(points, [point.amount for point in points], sides, once=once)
        if each == 0:  # so small that launches explain them all
            return
        if self.known is None:
            self.gpu = replace(self.gpu, flops={"bf16": 1 / each})
        self._say("products", 1 / each / self.gpu.flops["bf16"])
        self._say("half_side", side / each)

    def _single(self) -> None:
        """What one kernel says of one number."""
        rates = [point.amount / point.seconds for point in self._of("copy", "optimizer")]
        if self.known is None and rates:
            self.gpu = replace(self.gpu, memory_rate=max(rates))
        attention = [point for point in self._of("attention") if point.shape[2] == self.sequence]
        for name, points, launches in (
            ("memory", self._of("optimizer"), 0), ("attention", attention, 3),
            ("norm_traffic", self._of("norm"), 2), ("loss_traffic", self._of("loss"), 2),
        ):  # fmt: skip
            if points:
                once = [launches * self.own.launch_seconds for _ in points]
                each = max(1e-30, _least_squares(points, [point.amount for point in points], once=once)[0])
                rate = self.own.memory * self.gpu.memory_rate
                peaks = {"memory": 1 / each / self.gpu.memory_rate, "attention": 1 / each / self.gpu.flops["bf16"]}
                self._say(name, peaks.get(name, each * rate))

    def _layers(self) -> None:
        """The time of a layer is linear in the factor; others are as they are by now."""
        points = self._of("layers")[1:]
        if not points:
            return
        one, two = (
            [_seconds_of_layers(point, self.gpu, replace(self.own, elementwise_traffic=x)) for point in points]
            for x in (1, 2)
        )
        slopes = [b - a for a, b in zip(one, two, strict=True)]
        self._say(
            "elementwise_traffic",
            _least_squares(points, slopes, once=[2 * a - b for a, b in zip(one, two, strict=True)])[0],
        )

    def _links(self) -> None:
        points = self._of(*COLLECTIVES)
        if len(points) < 2:
            return
        each, once = _least_squares(points, [point.amount for point in points], [1.0 for _ in points])
        if each == 0:
            return
        known, steps = self.known, points[0].shape[0] - 1
        self.link_rate = 1 / each
        self._say("links", 1.0 if known is None else self.link_rate / known.inside)
        self._say("collective_seconds", max(0.0, once - (0.0 if known is None else steps * known.inside_seconds)))


def _least_squares(points: Sequence[Point], *columns: Sequence[float], once: Sequence[float] = ()) -> list[float]:
    """Seconds of one of each column, none below 0, that explain the points with the least squares of relative errors;
    `once`: seconds of each point that are known."""
    import numpy as np
    from scipy.optimize import nnls

    seconds = np.array([point.seconds for point in points])
    table = np.array(columns).T / seconds[:, None]
    scale = table.max(axis=0)  # columns are of very different sizes
    left = 1 - (np.array(once) / seconds if len(once) else 0.0)
    return [float(value) for value in nnls(table / scale, left * np.ones(len(points)))[0] / scale]


def _seconds_of_layers(point: Point, gpu: Gpu, efficiencies: Efficiencies) -> float:
    """Predicted seconds of layers, forward and backward."""
    layers, hidden, heads, sequence, batch = point.shape
    problem = Small("layers", layers, hidden, heads, 1, sequence, batch).problem(gpu, efficiencies)
    unit = SecondsOfUnits(problem, Keys.of([(1, 1, 1, 1, batch)]), SINGLE).unit("dense")
    return layers * float((unit.forward + unit.inputs).sum() + unit.weights[0])


def _known(name: str) -> KnownGpu | None:
    try:
        return known_gpu(name)
    except UsageError:
        return None


# ---- the judgement -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """A training beside its prediction; its seconds are the median of its steps."""

    name: str
    seconds: float
    predicted_seconds: float
    spread: float
    peak_bytes: float
    predicted_bytes: float

    @property
    def error(self) -> float:
        return self.predicted_seconds / self.seconds - 1

    @property
    def memory_error(self) -> float:
        return self.predicted_bytes / self.peak_bytes - 1


@dataclass(frozen=True)
class Calibration:
    """Everything that was measured on one card; attention counts at `sequence` tokens."""

    card: Card
    sequence: int
    points: tuple[Point, ...]
    trainings: tuple[Trained, ...] = ()
    finished: bool = True

    @cached_property
    def fit(self) -> Fit:
        return Fit(self.card, self.points, self.sequence)

    @cached_property
    def judged(self) -> tuple[Judged, ...]:
        return tuple(map(self._judge, self.trainings))

    def _judge(self, own: Trained) -> Judged:
        """The prediction of `plan configure`; on a CPU products have no workspace."""
        problem = own.small.problem(self.fit.gpu, self.fit.own)
        plan = Configuration(
            Degrees(), own.small.micro_batch, 1, "1f1b", (len(problem.model.units),), (Recompute(),)
        )
        size = memory_of_ranks(problem, plan)[0].bytes - (WORKSPACE_BYTES if self.fit.is_cpu else 0)
        seconds, took = timing_of(problem, plan).seconds, median(own.seconds)
        return Judged(own.small.name, took, seconds, spread_of(own.seconds), own.peak_bytes, size)

    @property
    def unsteady(self) -> dict[str, float]:
        """What varied by more than `UNSTEADY`: steps of trainings, then kernels by their words."""
        spreads = {f"steps of {own.name}": own.spread for own in self.judged}
        spreads |= {point.words: point.spread for point in self.points}
        return {name: spread for name, spread in spreads.items() if spread > UNSTEADY}

    def to_json(self) -> dict[str, Any]:
        """The file for `--efficiencies`, which describes the device as well.

        Three readers: `saved_fit` (schema, gpu, efficiencies, error, memory_margin), `device_in_file` (`device`, in
        which a new field is refused until it knows it) and `read_calibration`. The rest is for people.
        """
        from ..planners.training.measured import SCHEMA

        fit, above = self.fit, [own.peak_bytes / own.predicted_bytes - 1 for own in self.judged]
        margin = {"more": max(0.0, *above), "less": max(0.0, *(-share for share in above))} if above else None
        return {
            "schema": SCHEMA,
            "gpu": fit.gpu.name,
            "efficiencies": plain_fields(fit.own),
            "error": max((abs(own.error) for own in self.judged), default=None),
            "memory_margin": margin,
            "device": {**plain_fields(fit.gpu), "link_rate": fit.link_rate},
            "fitted": list(fit.measured),
            "judged": [plain_fields(own) for own in self.judged],
            "unsteady": self.unsteady,
            "calibration": plain_fields(self),
        }


def read_calibration(path: str | os.PathLike[str]) -> Calibration:
    """What was measured, by a file; everything else in it is computed anew."""
    with errors_in(path):
        small = partial(read_record, Small)
        return read_record(
            Calibration,
            "calibration",
            require("", as_object("", read_json(path)), "calibration"),
            card=partial(read_record, Card),
            points=each(_read_point),
            trainings=each(partial(read_record, Trained, small=small, seconds=as_tuple)),
        )


def _read_point(where: str, value: object) -> Point:
    point = read_record(Point, where, value, shape=as_tuple)
    check_positive(f"{where}.seconds", point.seconds)
    if len(SHAPES.get(point.what, ())) != len(point.shape):
        raise InputError(where, f"is {point.words}", f"give all numbers of the shape of {' or '.join(SHAPES)}")
    return point
