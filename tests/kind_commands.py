"""What `plan` can be asked about every kind of problem: commands, smallest instances, and which kinds have an answer.

It is read by tests and by `.ci/plain.py`, which runs in an environment without pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pipeplan.instances.registry import KINDS
from pipeplan.planners.kinds import PLANNED
from pipeplan.planners.registry import default_method, second_methods

SMALLEST = {
    "placement": "tiny-chain", "chain": "golden-4", "staging": "tiny-stages", "graph-pipeline": "tiny-graph",
    "schedule": "v-shape-4", "training": "tiny-training",
}  # fmt: skip
"""Packaged ones."""


def always(kind: str) -> bool:
    return True


def has_a_second_method(kind: str) -> bool:
    """The methods for chains share their arithmetic, training has one exact method, and the smallest schedule asks for
    a period, whose methods share a model."""
    return kind != "schedule" and bool(second_methods(default_method(kind)))


OF_ONE_BATCH = {"placement", "chain"}
"""Kinds that do not say how many micro-batches there are: `plan simulate` asks for them."""

OF_INFERENCE = {"placement"}
"""Kinds whose smallest instance has no backward passes, which schedules need."""

OF_MODULES = {"staging"}
"""Kinds whose plans are exported with no profile of a model, which no smallest instance has: stages in a row."""


class Command(NamedTuple):
    """`INSTANCE` and `RESULT` stand for those of the kind, `METHOD` for its default, `FILE` for what is written."""

    words: str
    is_able: Callable[[str], bool] = always
    json: bool = True
    """Does it take `--json`?"""

    def spelled(self, kind: str, instance: str, result: str) -> list[str]:
        """The words for one kind."""
        method = default_method(kind).name
        stands_for: Mapping[str, str] = {"INSTANCE": instance, "RESULT": result, "FILE": "made", "METHOD": method}
        return [stands_for.get(word, word).replace("FILE.", "made.") for word in self.words.split()]


COMMANDS = {
    "solve": Command("solve INSTANCE"),
    "solve and check": Command("solve INSTANCE --cross-check", has_a_second_method),
    "verify": Command("verify INSTANCE RESULT"),
    "verify the proof": Command("verify INSTANCE RESULT --proof"),
    "show a problem": Command("show INSTANCE"),
    "show a plan": Command("show INSTANCE RESULT"),
    "simulate": Command("simulate INSTANCE RESULT",
     lambda kind: KINDS[kind].pipeline is not None and kind not in OF_ONE_BATCH),
    "schedule": Command("schedule INSTANCE RESULT --micro-batches 2",
     lambda kind: KINDS[kind].to_schedule is not None and kind not in OF_INFERENCE),
    "memory": Command("memory INSTANCE --points 2", lambda kind: PLANNED[kind].questions is not None),
    "pareto": Command("pareto INSTANCE --points 2", lambda kind: kind == "chain"),
    "export": Command("export RESULT --to torch -o stages", lambda kind: kind in OF_MODULES),
    "convert": Command("convert INSTANCE -o FILE.json"),
    "report": Command("report RESULT INSTANCE -o FILE.html", json=False),
    "compare": Command("compare INSTANCE -m METHOD -o FILE --jobs 1 --time-limit 600"),
}  # fmt: skip
