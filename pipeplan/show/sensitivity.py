"""What better clusters are worth, in plain words: a line for each, and a sentence of advice."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..instances.base.result import PROVEN_TOLERANCE, Result, Stop
from ..instances.registry import Problem, kind_of
from ..studies.sensitivity import Sensitivity, Worth
from .words import amount, memory_unit, several, singular

# Nouns for what fields count, where the noun is not the field's own name.
NOUNS = {"gpus": "GPUs", "accelerators": "accelerators", "cpus": "CPUs", "micro_batches": "micro-batches"}
# A change that saves a smaller share of the time is called no help.
WORTH_IT = 1e-3
# A change that reads as a number of devices: 10 devices.
DEVICES = re.compile(r"\d+ \w+s")
# Ends of runs whose answer no longer run can change.
SETTLED = (Stop.PROVEN, Stop.INFEASIBLE)


def lines(problem: Problem, found: Sensitivity) -> list[str]:
    """A line for the problem as it is, then one for each change."""
    unit = problem.time_unit
    itself = f"as it is ({cluster(problem)}): {_value(found.base, unit)} ({found.base.stop})"
    return [itself, *(_line(problem, worth, unit) for worth in found.changes)]


def cluster(problem: Problem) -> str:
    """Devices and memory, in words."""
    memory = _memory(problem)
    return f"{devices(problem)}, {'no limit of memory' if memory is None else _size(problem, memory)}"


def devices(problem: Problem) -> str:
    """Number of the devices, with the noun that the problem has for them."""
    field, count = _counted(problem)
    noun = NOUNS.get(field, field)
    return several(count, singular(noun))


def _counted(problem: Problem) -> tuple[str, int]:
    """What the devices are called, and how many there are."""
    kind = kind_of(problem)
    field = kind.cluster.get("devices")
    if field is None:  # the problem lists them
        return "devices", kind.facts(problem)["devices"]
    return field, getattr(problem, field)


def _memory(problem: Problem) -> float | None:
    kind = kind_of(problem)
    field = "memory_bytes" if kind.each_memory else kind.cluster.get("memory_bytes", "")
    memory: float | None = getattr(problem, field, None)
    return memory


def _size(problem: Problem, memory: float) -> str:
    """An amount in the unit in which the problem counts memory."""
    return memory_unit(getattr(problem, "memory_unit", "bytes")).like([_memory(problem)]).text(memory)


def changed(problem: Problem, worth: Worth) -> str:
    """The change in words that name what it leads to: 10 devices, 1 GB more memory (33 GB)."""
    other = worth.problem
    if other is None or type(other) is not type(problem):
        return worth.change
    if devices(other) != devices(problem) and worth.change.startswith("one more"):
        alike = not getattr(problem, "levels", ()) and not (problem.extensions & {"types"})
        return devices(other) if alike else f"{worth.change} ({devices(other)})"
    memory = _memory(other)
    if memory is not None and memory != _memory(problem) and "more memory" in worth.change:
        return f"{worth.change} ({_size(problem, memory)})"
    return worth.change


def _line(problem: Problem, worth: Worth, unit: str | None) -> str:
    phrases = [_value(worth.result, unit), *([_difference(worth)] if _difference(worth) else [])]
    return f"{changed(problem, worth)}: {', '.join(phrases)} ({worth.result.stop})"


def _value(result: Result, unit: str | None) -> str:
    return "no plan" if result.objective is None else amount(result.objective, unit)


def _difference(worth: Worth) -> str:
    if worth.makes_possible:
        return "where there was no plan"
    if worth.ratio is None:
        return ""
    if abs(1 - worth.ratio) <= PROVEN_TOLERANCE:
        return "no difference"
    return f"{100 * abs(1 - worth.ratio):.2f} % {'less' if worth.ratio < 1 else 'more'} time"


# ---- advice --------------------------------------------------------------------------------------------


def advice(problem: Problem, found: Sensitivity) -> str:
    """A sentence on which single change helps most, or that none does; empty where changes are missing."""
    if found.interrupted or not found.changes:
        return ""
    sentence = _possible(problem, found) if found.base.objective is None else _best(problem, found)
    open_runs = [run for run in (found.base, *(worth.result for worth in found.changes)) if run.stop not in SETTLED]
    return f"{sentence} Not every value is proven, so longer runs may say otherwise." if open_runs else sentence


def _possible(problem: Problem, found: Sensitivity) -> str:
    able = [changed(problem, worth) for worth in found.changes if worth.makes_possible]
    if not able:
        return "Advice: none of these changes alone makes a plan possible."
    return f"Advice: {_listed(able)} {_verb(able, 'make')} a plan possible."


def _best(problem: Problem, found: Sensitivity) -> str:
    least = min((worth.ratio for worth in found.changes if worth.ratio is not None), default=1.0)
    if 1 - least < WORTH_IT:
        return (
            f"Advice: none of these changes alone saves {100 * WORTH_IT:g} % of the time: what there is suffices."
        )
    best = [worth for worth in found.changes if worth.ratio is not None and worth.ratio <= least + PROVEN_TOLERANCE]
    names = [changed(problem, worth) for worth in best]
    saved = f"{100 * (1 - least):.2f} % less time"
    return f"Advice: {_listed(names)} {_verb(names, 'help')} most, with {saved}{_price(problem, best)}."


def _price(problem: Problem, best: Sequence[Worth]) -> str:
    """The share of devices that the best change adds, where one change is best and adds any."""
    _, count = _counted(problem)
    problems = [worth.problem for worth in best if type(worth.problem) is type(problem)]
    more = {_counted(other)[1] / count - 1 for other in problems if other is not None} - {0.0}
    return f" for {100 * min(more):.3g} % more devices" if len(best) == 1 and more and min(more) > 0 else ""


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _verb(names: Sequence[str], verb: str) -> str:
    """The verb in the number of its subject: plural for several changes, and for one change that reads `10 devices`."""
    is_plural = len(names) > 1 or (DEVICES.fullmatch(names[0]) and not names[0].startswith("1 "))
    return f"each {verb}" if len(names) > 1 and verb == "make" else verb if is_plural else f"{verb}s"
