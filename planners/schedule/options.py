"""The options of the planners for schedules, apart from the modules that obey them."""

from __future__ import annotations

from ...formulations.contract import OptionSpec

OBJECTIVE = OptionSpec(
    "objective",
    "choice",
    "makespan",
    "What to minimise. makespan: from the first start to the last end; span: the longest time over devices from first "
    "start to last end.",
    ("makespan", "span"),
)
ANY_OBJECTIVE = OptionSpec(
    "objective",
    "choice",
    "makespan",
    "What to minimise. makespan: from the first start to the last end; span: the longest time over devices from first "
    "start to last end; period: the time between two micro-batches in the steady state.",
    ("makespan", "span", "period"),
)
