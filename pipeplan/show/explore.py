"""An interactive page: sliders for a pipeline, which show its iteration, bubble, timeline and memory at once.

The rules are those of the simulator, written once more in `assets/pipeline.js`; tests compare the two."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from xml.etree.ElementTree import Element

from ..instances.base.cluster import SECONDS
from ..instances.base.errors import UsageError
from ..instances.base.quantities import GIB
from ..instances.timeline.engine import run
from ..instances.timeline.model import Pipeline
from .page import chart, legend, line_swatch, page, scrolled, section, svg, swatch, tag, zoom
from .palette import BACKWARD, FORWARD, TERMS, ink_on
from .words import IN_BYTES, several

Settings = Mapping[str, float | str]

SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "kfkb": "kFkB"}
USUAL_SCHEDULE = "1f1b"
MOST_STAGES, MOST_MICRO_BATCHES = 16, 64


@dataclass(frozen=True, slots=True)
class Slider:
    """A slider. Its steps are powers of two, so that sums in the browser are exact; None: it takes any number."""

    key: str
    """Key of the setting, in addresses of the page too."""
    name: str
    low: float
    high: float
    step: float | None
    value: float
    unit: str = ""
    zero: str = ""
    """Words that stand for the value 0."""


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

# The settings that the page shows at first.
USUAL: Settings = {"schedule": USUAL_SCHEDULE, **{slider.key: slider.value for slider in SLIDERS}}


@dataclass(frozen=True, slots=True)
class Situation:
    """A situation that a reader should see, with the settings that show it."""

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


# Colours of bars by what they show.
INKS = {"forward": FORWARD, "backward": BACKWARD, "weights": TERMS["weights"], "activations": TERMS["kept"]}
TITLE = "Explore a pipeline"


def explore_page() -> str:
    """The page for a pipeline of equal stages, with situations to begin with."""
    options = [tag("option", {"value": ""}, "settings of your own")]
    options += [tag("option", {"value": i}, entry.name) for i, entry in enumerate(SITUATIONS)]
    choice = tag("select", {"id": "situation", "autocomplete": "off"}, *options)
    head = tag(
        "header",
        None,
        tag("h1", None, TITLE),
        tag(
            "p",
            None,
            "A network in stages, one on each device, and a batch in micro-batches that pass through them.",
        ),
        tag("p", None, tag("label", {"for": "situation"}, "Situation "), choice),
        tag("p", {"id": "lesson", "aria-live": "polite"}),
    )
    groups = {"Pipeline": (STAGES, BATCHES, GROUPS), "Time": (*TIMES, SLOW, FACTOR), "Memory": (*MEMORY, LIMIT)}
    situations = [asdict(entry) for entry in SITUATIONS]
    return _page(TITLE, head, groups, _setup("ms", GIB, "GiB", None, situations))


def plan_explorer(pipeline: Pipeline, limit_bytes: float | None) -> str:
    """The explorer of a plan's own stages: their times, transfers and memory are fixed, all else can be set.

    Raises `UsageError` where the stages are more than the page shows, or no chain of single devices.
    """
    _check(pipeline)
    stages, batches = list(_stages(pipeline)), min(pipeline.passes(0), MOST_MICRO_BATCHES)
    most = 2 * max(limit_bytes or 0.0, run(pipeline).peak_memory_bytes) or 1.0
    factor, unit = IN_BYTES.like([limit_bytes]).scale(most)
    head = tag(
        "header",
        None,
        tag("h1", None, f"{TITLE}: {pipeline.name}"),
        tag("p", None, f"The {several(len(stages), 'stage')} of a plan, with its times, transfers and memory."),
    )
    groups: dict[str, tuple[Slider, ...]] = {
        "Pipeline": (replace(BATCHES, value=batches), GROUPS),
        "Time": (replace(SLOW, high=len(stages)), FACTOR),
    }
    if limit_bytes is not None:
        limit = replace(LIMIT, low=0, high=most / factor, step=None, value=limit_bytes / factor, unit=unit)
        groups["Memory"] = (limit,)
    return _page(f"{TITLE}: {pipeline.name}", head, groups, _setup(pipeline.time_unit, factor, unit, stages))


def _check(pipeline: Pipeline) -> None:
    """Refuse what the sliders cannot say: many stages, branches, replicas, groups of devices, inference."""
    count, arcs = len(pipeline.stages), {(d.source, d.target) for d in pipeline.dependencies}
    refused = {
        f"it has {several(count, 'stage')}": count > MOST_STAGES,
        "its stages are no chain": pipeline.shared or arcs != {(x, x + 1) for x in range(count - 1)},
        "a stage has several devices": any(stage.devices > 1 for stage in pipeline.stages),
        "its stages differ in their micro-batches": len({stage.micro_batch for stage in pipeline.stages}) > 1,
        "it has no backward passes": all(j > 0 for j in pipeline.stages[0].orders[0]),
    }
    for reason in (reason for reason, holds in refused.items() if holds):
        raise UsageError(
            f"The page shows training on a chain of up to {MOST_STAGES} stages with one device each, and of this plan "
            f"{reason}; `plan simulate` shows it."
        )


def _stages(pipeline: Pipeline) -> Iterator[Mapping[str, float]]:
    """Stages in the form in which `pipeline.js` reads them."""
    after = {arc.source: arc for arc in pipeline.dependencies}
    for x, stage in enumerate(pipeline.stages):
        arc = after.get(x)
        yield {
            "forward": stage.forward,
            "backward": stage.backward,
            "onward": arc.forward_delay if arc else 0.0,
            "back": arc.backward_delay if arc else 0.0,
            "weights": stage.fixed_bytes,
            "kept": stage.micro_batch * stage.sample_bytes,
        }


def _setup(
    time_unit: str | None,
    factor: float,
    unit: str,
    stages: Sequence[Mapping[str, float]] | None,
    situations: Sequence[object] = (),
) -> Mapping[str, object]:
    """The values that the script reads; `perSecond` is None where the unit of time is unknown."""
    return {
        "timeUnit": time_unit or "",
        "perSecond": float(1 / SECONDS[time_unit]) if time_unit in SECONDS else None,
        "memory": {"bytes": factor, "unit": unit},
        "stages": stages,
        "situations": situations,
        "colours": {name: {"fill": ink, "text": ink_on(ink)} for name, ink in INKS.items()},
    }


# ---- elements --------------------------------------------------------------------------------------------


def _page(title: str, head: Element, groups: Mapping[str, Sequence[Slider]], setup: Mapping[str, object]) -> str:
    fields = [
        tag("fieldset", None, tag("legend", None, name), *map(_slider, rows)) for name, rows in groups.items()
    ]
    fields[0].insert(len(fields[0]) - 1, _schedule())  # before its k
    unit = str(setup["timeUnit"])
    heard = tag("div", {"class": "heard", "aria-live": "polite"})
    data = json.dumps(setup).replace("<", "\\u003c")  # no name can end the element
    parts = [
        head,
        tag("p", {"id": "refused", "class": "verdict no", "role": "status"}),
        tag("noscript", None, tag("p", None, "This page computes in the browser; please allow its script to run.")),
        tag(
            "div",
            {"class": "explorer"},
            tag("div", {"class": "numbers"}, tag("p", {"class": "answer"}), tag("p", {"class": "verdict"})),
            section("Settings", tag("div", {"class": "settings"}, *fields)),
            tag("div", None, _timeline(f"time {unit}".rstrip()), _memory("Memory" in groups)),
        ),
        heard,
        tag("script", {"id": "setup", "type": "application/json"}, data),
    ]
    return page(title, parts, styles=["explore.css"], scripts=["pipeline.js", "explore.js"])


def _timeline(axis: str) -> Element:
    label, names = "What each device runs when", ["forward", "backward"]
    key = legend((swatch(INKS[name]), name) for name in names)
    below = [tag("div", {"class": "axis"}, axis), key]
    return section("Timeline", chart(scrolled(svg(0, label)), label, *below, above=zoom()))


def _memory(limited: bool) -> Element:
    label, names = "Memory of each device at its peak", ["weights", "activations"]
    entries = [(swatch(INKS[name]), name) for name in names] + [(line_swatch("limit"), "limit")] * limited
    return section("Memory", chart(scrolled(svg(0, label)), label, legend(entries)))


def _slider(slider: Slider) -> Element:
    """A native slider below its name and its value."""
    numbers = {"min": slider.low, "max": slider.high, "step": slider.step, "value": slider.value}
    # Every digit counts: a rounded limit would be another one.
    exact = {name: "any" if number is None else repr(number) for name, number in numbers.items()}
    input_attributes = {"id": slider.key, "type": "range", "data-setting": slider.key, "data-name": slider.name}
    output_attributes = {"for": slider.key, "data-unit": slider.unit, "data-zero": slider.zero, "aria-live": "off"}
    parts = [
        tag("label", {"for": slider.key}, slider.name),
        tag("output", output_attributes),
        tag("input", {**input_attributes, **exact}),
    ]
    return tag("div", {"class": "setting"}, *parts)


def _schedule() -> Element:
    options = [
        tag("option", {"value": key, "selected": "" if key == USUAL_SCHEDULE else None}, name)
        for key, name in SCHEDULES.items()
    ]
    choice = tag("select", {"id": "schedule", "data-setting": "schedule", "data-name": "schedule"}, *options)
    return tag("div", {"class": "setting"}, tag("label", {"for": "schedule"}, "schedule"), choice)
