"""A training configuration: degrees, micro-batch, sharding, schedule, layout, and what each chunk recomputes.

Chunk j of `pipeline` x `virtual` chunks is the j-th interval of the model's units. Rank r holds the chunks
r, r + pipeline, ... in the order of the loop; in a V it holds r and 2 pipeline - 1 - r.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any

from ..base.checks import check_text, check_whole
from ..base.errors import InputError, nearest, show
from ..base.fields import as_list, check_members, check_numbers, read_plan, read_record
from ..base.kind import AnyPlan
from ..base.quantities import whole_number
from ..physics.schedules import SCHEDULES, V_SHAPE, ScheduleRule
from .model import MODULES

EXAMPLE = '{"kind": "configuration", "degrees": {"tensor": 4, "pipeline": 2, "data": 8}, "layout": [41, 41], ...}'
# The largest degree, micro-batch and number of units of a chunk; larger ones are mistakes.
LARGEST = 100_000
MAX_CHUNKS = 10_000

NONE, FULL = "none", "full"

# Keys in which users write degrees, with the fields of `Degrees`.
DEGREE_KEYS = {name: name for name in ("tensor", "context", "pipeline", "virtual", "expert", "data")} | {
    "expert-tensor": "expert_tensor"
}
# Other names that engineers write for keys.
SHORT_KEYS = {"tp": "tensor", "cp": "context", "pp": "pipeline", "vp": "virtual", "vpp": "virtual", "ep": "expert"}
SHORT_KEYS |= {"etp": "expert-tensor", "dp": "data", "mbs": "micro-batch"}
# A word such as TP8PP4, with or without dashes between its parts.
_SHORT_WORD = re.compile(rf"(?:-?({'|'.join(sorted(SHORT_KEYS, key=len, reverse=True))})-?[0-9]+)+", re.IGNORECASE)


def keys_and_values(where: str, word: str) -> list[tuple[str, str]]:
    """The keys that a word gives values: one in tensor=4 or tp=4, several in TP4PP2."""
    key, equals, value = word.partition("=")
    if equals:
        key = key.strip().replace("_", "-")
        return [(SHORT_KEYS.get(key.lower(), key), value.strip())]
    if not _SHORT_WORD.fullmatch(word):
        raise InputError(where, f"holds {show(word)}", "write KEY=VALUE, as in tensor=4")
    return [(SHORT_KEYS[key.lower()], value) for key, value in re.findall(r"([A-Za-z]+)-?([0-9]+)", word)]


def layout_counts(where: str, text: str) -> tuple[int, ...]:
    """The units of each chunk from numbers, as in 9/8/8/9."""
    counts = [whole_number(part or "0") for part in text.split("/")]
    if None in counts:
        raise InputError(where, f"is {show(text)}", "give the units of each chunk, as in 9/8/8/9")
    if 0 in counts:
        raise InputError(where, "has an empty chunk", "give each chunk at least one unit")
    return tuple(count for count in counts if count)


def layout_word(layout: Sequence[int]) -> str:
    """The word for a layout: units of the chunks, with a slash between them."""
    return "/".join(map(str, layout))


@dataclass(frozen=True, slots=True)
class Degrees:
    """Among how many ranks each thing is divided; experts divide the ranks of a stage anew."""

    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    virtual: int = 1
    """Chunks of each pipeline rank."""
    data: int = 1
    expert: int = 1
    expert_tensor: int = 1

    @property
    def stage_ranks(self) -> int:
        """Ranks of one pipeline stage."""
        return self.tensor * self.context * self.data

    @property
    def chunks(self) -> int:
        return self.pipeline * self.virtual


@dataclass(frozen=True, slots=True)
class Recompute:
    """What one chunk computes again in its backward passes: whole layers or modules, in all its layers or the first."""

    modules: tuple[str, ...] = ()
    """`("full",)`: whole layers; empty: nothing."""
    layers: int | None = None
    """Number of layers, from the first one on, that compute them again; None: all layers."""

    def __post_init__(self) -> None:
        """One set of modules has one word, in whatever order it was given."""
        check_members(self, "recompute")
        for name in self.modules:
            check_text("recompute", name)
        if not {*self.modules} - {*MODULES}:
            object.__setattr__(self, "modules", tuple(name for name in MODULES if name in self.modules))

    @property
    def word(self) -> str:
        """The word in which users write it."""
        if not self.modules:
            return NONE
        return ",".join(self.modules) + ("" if self.layers is None else f":{self.layers}")

    def of_layer(self, number: int) -> tuple[str, ...]:
        """What the layer of that number in its chunk, from 0, computes again."""
        return self.modules if self.layers is None or number < self.layers else ()


NOTHING = Recompute()


def read_recompute(where: str, value: object) -> Recompute:
    """What is computed again, from a word: `none`, `full`, `full:3`, or names of modules with commas between them."""
    check_text(where, value, 200)
    mode, colon, count = str(value).partition(":")
    layers = None
    if colon:
        layers = whole_number(count)
        if layers is None or not 0 < layers <= MAX_CHUNKS:
            raise InputError(where, f"is {show(value)}", 'give a number of layers after the colon, as in "full:2"')
    if mode == NONE and not colon:
        return NOTHING
    if mode == FULL:
        return Recompute((FULL,), layers)
    names = [name.strip().replace("-", "_") for name in mode.split(",")]
    for name in names:
        if name not in MODULES:
            close = nearest(name, (*MODULES, FULL, NONE))
            remedy = f'write "{close}"' if close else f"give none, full, or some of {', '.join(MODULES)}"
            raise InputError(where, f"is {show(value)}", remedy)
    return Recompute(tuple(names), layers)


def chunks_of_ranks(schedule: str, p: int, v: int) -> tuple[tuple[int, ...], ...]:
    """The chunks of each of p pipeline ranks, which have v of them."""
    if SCHEDULES[schedule].shape == V_SHAPE:
        return tuple((r, 2 * p - 1 - r) for r in range(p))
    return tuple(tuple(range(r, p * v, p)) for r in range(p))


@dataclass(frozen=True, repr=False)
class Configuration(AnyPlan):
    """Everything that a launcher has to be told."""

    degrees: Degrees
    micro_batch: int
    """Sequences of one pass."""
    zero: int
    """What is divided among data-parallel ranks: 1 the optimizer, 2 gradients as well, 3 weights as well."""
    schedule: str
    layout: tuple[int, ...]
    """Units of every chunk."""
    recompute: tuple[Recompute, ...]
    """What each chunk computes again in its backward pass."""
    first_pool: int = 1
    """Which of two sorts of GPUs, in the order of the problem, runs the first stages."""

    kind = "configuration"

    def __post_init__(self) -> None:
        check_members(self)
        check_numbers(self.degrees, "degrees", LARGEST)
        check_numbers(self, "", LARGEST, {"zero": (0, 3), "first_pool": (1, 2)})
        if not isinstance(self.schedule, str) or self.schedule not in SCHEDULES:
            close = nearest(str(self.schedule), SCHEDULES)
            remedy = f'write "{close}"' if close else "give one of " + ", ".join(SCHEDULES)
            raise InputError("schedule", f"is {show(self.schedule)}", remedy)

    def micro_batches(self, batch: int) -> int:
        """Micro-batches of one pipeline for so many sequences."""
        return batch // (self.degrees.data * self.micro_batch)

    @property
    def rule(self) -> ScheduleRule:
        """What is known of the schedule."""
        return SCHEDULES[self.schedule]

    @property
    def chunks_of_ranks(self) -> tuple[tuple[int, ...], ...]:
        """The chunks of each pipeline rank, in the order in which it numbers them."""
        return chunks_of_ranks(self.schedule, self.degrees.pipeline, self.degrees.virtual)

    @property
    def intervals(self) -> tuple[range, ...]:
        """The units of each chunk, by their positions in the model's row."""
        return _intervals(self.layout)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "degrees": {entry.name: getattr(self.degrees, entry.name) for entry in fields(Degrees)},
            "micro_batch": self.micro_batch,
            "zero": self.zero,
            "schedule": self.schedule,
            "layout": list(self.layout),
            "recompute": [entry.word for entry in self.recompute],
            **({} if self.first_pool == 1 else {"first_pool": self.first_pool}),
        }

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> Configuration:
        """Read a plan object; shape and types are checked, merits are not."""
        return read_plan(
            cls,
            cls.kind,
            where,
            data,
            EXAMPLE,
            degrees=partial(read_record, Degrees),
            layout=_layout,
            recompute=_recomputes,
        )


# Its name among the public ones, where a staging's configurations have the shorter one.
TrainingConfiguration = Configuration


@lru_cache(maxsize=1000)  # a plan is asked for each of its chunks
def _intervals(layout: tuple[int, ...]) -> tuple[range, ...]:
    return tuple(range(start, end) for start, end in pairwise(accumulate(layout, initial=0)))


def _layout(where: str, value: object) -> tuple[int, ...]:
    counts = as_list(where, value)
    if len(counts) > MAX_CHUNKS:
        raise InputError(where, f"has {len(counts)} chunks", f"give at most {MAX_CHUNKS}")
    for i, count in enumerate(counts):
        check_whole(f"{where}[{i}]", count, LARGEST)
    return tuple(counts)


def _recomputes(where: str, value: object) -> tuple[Recompute, ...]:
    return tuple(read_recompute(f"{where}[{i}]", word) for i, word in enumerate(as_list(where, value)))


def divisors(number: int) -> list[int]:
    """All degrees and sizes that divide a number, in pairs: there are batches of millions."""
    small = [i for i in range(1, math.isqrt(number) + 1) if number % i == 0]
    return small + [number // i for i in reversed(small) if i * i < number]
