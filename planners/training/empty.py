"""Why nothing of a scope can be run, in a sentence: the rule that the nearest candidate breaks, with a remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from ...instances.base.errors import Violation
from ...instances.training.frameworks import even_layout, spread
from ...instances.training.plan import Configuration, Degrees, Recompute, divisors, read_recompute
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import framework_faults, shape_faults
from ...instances.training.scope import Scope
from .pools import WAY_IN_WORDS
from .space import all_words

# The most candidates that are looked at: each breaks a rule, and any of them is an example.
MOST_TRIED = 2_000
# The most values of a key that are tried where the scope leaves it open, but for the degrees that make the ranks.
FEW = 3


def why_empty(problem: TrainingProblem, scope: Scope) -> str:
    """Why no choice of the scope can be run; asked where there is none."""
    asked = " ".join(f"{key}={value}" for key, value in scope.fix.items())
    answer = f"No configuration with {asked} can be run." if asked else "No configuration in scope can be run."
    known = _known(problem)
    for key in ("tensor", "context", "pipeline", "data"):
        if key in scope.fix and scope.fix[key] not in known[key]:
            return (
                f"{answer} {scope.fix[key]} does not divide {problem.devices} GPUs; give {', '.join(known[key])}."
            )
    for key in known:
        if not _left(known, scope, key):
            values = " or ".join(known[key][:FEW])
            return f"{answer} Every value of {key} is forbidden; drop a --forbid, as of {key}={values}."
    tried = [_faults(problem, plan) for plan in islice(_candidates(problem, scope, known), MOST_TRIED)]
    nearest = min((broken for broken in tried if broken.faults), default=None)
    why = "The forbidden values leave nothing; drop a --forbid." if nearest is None else str(nearest.faults[0])
    if problem.second is not None and not all(broken.faults for broken in tried):
        why = f"With GPUs of two sorts, the search considers only {WAY_IN_WORDS}; drop what asks for anything else."
    return f"{answer} {why}"


@dataclass(frozen=True, slots=True)
class _Broken:
    """The rules that a candidate breaks whatever its layout is: those of arithmetic, or else the framework's."""

    arithmetic: bool
    faults: list[Violation]

    def __lt__(self, other: _Broken) -> bool:
        """Is it nearer to what can be run?"""
        return (self.arithmetic, len(self.faults)) < (other.arithmetic, len(other.faults))


def _known(problem: TrainingProblem) -> dict[str, list[str]]:
    """The values of each key that some configuration may have."""
    experts, ranks = problem.model.experts, divisors(problem.devices)
    values: dict[str, Sequence[object]] = {
        **dict.fromkeys(("tensor", "context", "pipeline", "data"), ranks),
        "virtual": range(1, len(problem.model.units) + 1),
        "expert": [1] if experts is None else divisors(experts.count),
        "expert-tensor": [1] if experts is None else ranks,
        "micro-batch": divisors(problem.batch),
        "zero": sorted(problem.states, key=lambda zero: zero != problem.rules.usual_zero),
        "schedule": list(problem.rules.schedules),
        "first-pool": range(1, len(problem.pools) + 1),
        "recompute": [Recompute(word).word for word in all_words(problem)],
    }
    return {key: list(map(str, each)) for key, each in values.items()}


def _left(known: dict[str, list[str]], scope: Scope, key: str) -> list[str]:
    """The values that the scope leaves: the one that is fixed, or those that are not forbidden."""
    values = [scope.fix[key]] if key in scope.fix else known[key]
    if key == "recompute":
        return [word for word in values if scope.takes_word(read_recompute(key, word))]
    return [value for value in values if scope.takes(key, value)]


def _candidates(problem: TrainingProblem, scope: Scope, known: dict[str, list[str]]) -> Iterator[Configuration]:
    """Configurations with values that the scope takes, whatever rules they break."""
    left = {key: _left(known, scope, key) for key in known}
    whole = {key: list(map(int, left[key])) for key in left if key not in ("schedule", "recompute")}
    word, first = read_recompute("recompute", left["recompute"][0]), whole["first-pool"][0]
    for t, c, p in product(whole["tensor"], whole["context"], whole["pipeline"]):
        d = int(scope.fix.get("data", max(1, problem.devices // (t * c * p))))
        shards = [s for s in whole["expert-tensor"] if s in (1, t) or "expert-tensor" in scope.fix]
        sizes = [b for b in whole["micro-batch"] if problem.batch % (d * b) == 0 or "micro-batch" in scope.fix]
        if not scope.takes("data", d):
            continue
        for zero, schedule, v, b, e, s in product(
            whole["zero"],
            left["schedule"],
            whole["virtual"][:FEW],
            (sizes or [1])[:FEW],
            whole["expert"][:FEW],
            shards,
        ):
            degrees = Degrees(t, c, p, v, d, e, s)
            units = len(problem.model.units)
            layout = even_layout(problem, degrees.chunks) or (
                spread(units, degrees.chunks) if degrees.chunks <= units else ()
            )
            yield Configuration(degrees, b, zero, schedule, layout, (word,) * len(layout), first)


def _faults(problem: TrainingProblem, plan: Configuration) -> _Broken:
    chunks, units = plan.degrees.chunks, len(problem.model.units)
    if not plan.layout:
        fault = f"{chunks} chunks need as many units, and there are {units}; choose fewer of them."
        return _Broken(True, [Violation("layout", fault)])
    shape = list(shape_faults(problem, plan))
    own = [fault for fault in framework_faults(problem, plan) if fault.rule != "layout"]
    return _Broken(bool(shape), shape or own)
