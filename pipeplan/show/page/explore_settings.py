"""What can be set on the page that explores a pipeline, and situations that are worth seeing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Settings = Mapping[str, float | str]

GIB = 2**30
SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "kfkb": "kFkB"}
USUAL_SCHEDULE = "1f1b"
MOST_STAGES, MOST_MICRO_BATCHES = 16, 64


@dataclass(frozen=True, slots=True)
class Slider:
    """Its steps are multiples of powers of two, so that sums in the browser are exact; None: any number."""

    key: str
    """In addresses too."""
    name: str
    low: float
    high: float
    step: float | None
    value: float
    unit: str = ""
    zero: str = ""
    """What the value 0 is called."""


STAGES = Slider("stages", "stages", 1, MOST_STAGES, 1, 4)
BATCHES = Slider("batches", "micro-batches", 1, MOST_MICRO_BATCHES, 1, 8)
GROUPS = Slider("k", "k of kFkB", 1, 8, 1, 2)
TIMES = (
    Slider("forward", "forward pass", 0.5, 50, 0.5, 10, "ms"),
    Slider("backward", "backward pass", 0.5, 100, 0.5, 20, "ms"),
    Slider("transfer", "transfer between stages", 0, 20, 0.5, 0, "ms"),
)
SLOW = Slider("slow", "slow stage", 0, MOST_STAGES, 1, 0, zero="none")
FACTOR = Slider("factor", "its passes take", 1, 4, 0.25, 2, "× as long")
MEMORY = (
    Slider("weights", "weights of a stage", 0, 64, 0.25, 4, "GiB"),
    Slider("kept", "activations of a micro-batch", 0, 8, 0.125, 1, "GiB"),
)
LIMIT = Slider("limit", "memory of a device", 1, 192, 1, 16, "GiB")
SLIDERS = (STAGES, BATCHES, GROUPS, *TIMES, SLOW, FACTOR, *MEMORY, LIMIT)

USUAL: Settings = {"schedule": USUAL_SCHEDULE, **{slider.key: slider.value for slider in SLIDERS}}
"""What the page shows at first."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Something to see, with the settings that show it."""

    name: str
    settings: Settings
    see: str


SITUATIONS = (
    Situation(
        "GPipe runs out of memory",
        {**USUAL, "batches": 16, "schedule": "gpipe"},
        "GPipe keeps the activations of all 16 micro-batches: every device needs 20 GiB. Choose 1F1B: the iteration "
        "takes the same 570 ms, and the first device needs 8 GiB, the last one 5 GiB.",
    ),
    Situation(
        "More micro-batches, smaller bubble",
        {**USUAL, "stages": 8, "batches": 4},
        "With four micro-batches eight devices are idle 63.6 % of the time. With 32 micro-batches the bubble is "
        "17.9 %, with 64 it is 9.9 %: to fill and to drain the pipeline takes as long, however many there are.",
    ),
    Situation(
        "One slow stage",
        {**USUAL, "batches": 16, "slow": 3},
        "Stage 3 takes twice as long and the others wait for it: they are busy less than half of the time, and the "
        "iteration takes 1030 ms in place of 570 ms. No schedule mends that; a better split of the layers does.",
    ),
    Situation(
        "Devices wait for slow links",
        {**USUAL, "batches": 32, "transfer": 5},
        "With 1F1B every device waits for transfers: 1310 ms. Choose kFkB with k = 2: 1080 ms, for the first device "
        "holds 8 micro-batches in place of 4 and works on another one meanwhile. It needs 4 GiB more.",
    ),
    Situation(
        "The first device holds the most",
        {**USUAL, "stages": 12, "batches": 24},
        "The first of twelve stages holds twelve micro-batches at once, the last one holds one: 16 GiB against 5 GiB, "
        "for equal stages. That is why a planner gives the first stage fewer layers.",
    ),
)
