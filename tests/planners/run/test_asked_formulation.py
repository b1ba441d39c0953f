"""Who is asked where no method is named: whoever has the objective, or the option that changes the question."""

from __future__ import annotations

from typing import Any

import pytest

from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.catalogue import load_packaged
from pipeplan.planners.run.choose import choose


@pytest.mark.parametrize(
    ("instance", "options", "name"),
    [
        ("tiny-chain", {}, "ip-tarnawski"),
        ("tiny-chain", {"objective": "max-load"}, "ip-tarnawski"),
        ("tiny-chain", {"objective": "gpipe"}, "ip-tarnawski"),
        ("tiny-chain", {"objective": "latency"}, "ip-tarnawski-latency"),
        ("tiny-chain", {"objective": "latency", "subgraphs_per_device": 2}, "ip-tarnawski-latency"),
        ("tiny-stages", {"objective": "flush"}, "dp-piper"),
        ("tiny-graph", {"objective": "time-per-sample"}, "graphpipe"),
    ],
)
def test_the_question_finds_its_method(instance: str, options: dict[str, Any], name: str) -> None:
    assert choose(load_packaged(instance), None, None, "auto", options).name == name


def test_the_exact_planner_and_a_solver_find_it_too() -> None:
    problem = load_packaged("tiny-chain")
    assert choose(problem, None, "exact", "auto", {"objective": "latency"}).name == "ip-tarnawski-latency"
    assert choose(problem, None, None, "highs", {"objective": "latency"}).name == "ip-tarnawski-latency"


def test_an_unknown_objective_names_those_that_exist() -> None:
    with pytest.raises(InputError, match="give one of max-load, gpipe, latency"):
        choose(load_packaged("tiny-chain"), None, None, "auto", {"objective": "speed"})


def test_a_named_method_is_taken_at_its_word() -> None:
    with pytest.raises(InputError, match="give one of max-load, gpipe"):
        choose(load_packaged("tiny-chain"), None, "dp", "auto", {"objective": "latency"})
    with pytest.raises(UsageError, match="it belongs to ip-tarnawski-latency"):
        choose(load_packaged("tiny-chain"), "ip-tarnawski", None, "auto", {"subgraphs_per_device": 3})
