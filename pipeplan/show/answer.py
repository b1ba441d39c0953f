"""The answer in sentences: the value, what limits the pipeline, how good the plan is proven to be, and what an even
split costs; what passes through one iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..instances.base.cluster import OF_ONE_SOURCE, SECONDS
from ..instances.base.errors import PipeplanError
from ..instances.base.fields import plain_fields
from ..instances.base.kind import Rules, Samples
from ..instances.base.result import Asked, Found, Result, Stop
from ..instances.registry import Plan, Problem, kind_of
from ..planners.referee import OWN_OBJECTIVE, Ruling, rule
from .views import PlanView, module_of
from .words import amount, amount_or, percent, several, singular

if TYPE_CHECKING:
    from ..instances.timeline.model import Simulation

# ---- splits that need no planner ------------------------------------------------------------------------------


def even_split(problem: Problem, rules: Rules, plans_of: str = "even_plans") -> Ruling | None:
    """The best even split by the referee; None where none keeps the rules, or the kind does not say what is even.
    `plans_of`: the function that proposes them, in the module of the kind; by `block_plans`, where the network is a row
    of numbered blocks, each device has as many of these."""
    plans: Callable[[Any], Iterable[Any]] = getattr(module_of(problem), plans_of, lambda problem: ())
    try:
        rulings = [rule(problem, plan, rules) for plan in plans(problem)]
    except PipeplanError:
        return None
    fitting = ((ruling.value, i) for i, ruling in enumerate(rulings) if ruling.value is not None)
    best = min(fitting, default=None)
    return None if best is None else rulings[best[1]]


# ---- the sentences --------------------------------------------------------------------------------------------


# The most characters for the layers of the slowest device or link.
MOST_NAMED = 48
# Amounts that differ by a smaller relative share are called the same.
SAME = 5e-4
BLOCKS = "an even split of the blocks (equally many numbered blocks on each device, as in frameworks)"
# From this share of its limit on, memory is called nearly full.
FULL = 0.95
# From this ratio on, a split is said to take so many times as long, not to be so many per cent slower.
TIMES_AS_LONG = 2.0
PASSES = {"forward": "forward passes", "backward": "backward passes"}
# Why a run that proved nothing has no plan.
NO_PLAN = {
    Stop.TIME: "the time limit was reached first",
    Stop.MEMORY: "the method exceeded its memory limit",
    Stop.INTERRUPTED: "the search was interrupted",
    Stop.ERROR: "the method failed",
    Stop.COMPLETED: "the method found none that fits",
}


def answer(problem: Problem, result: Result, view: PlanView | None, rules: Rules) -> str:
    """Sentences about the plan that the referee accepts, or about why there is none."""
    if result.plan is None:
        return no_plan(problem, result)
    if view is None or result.objective is None:
        return "The plan breaks a rule of the problem."
    start, phrases = result.warm_start, [how_good(problem, result)]
    if start.source == "user" and start.value is not None:
        phrases.append(_against("your plan", start.value, result.objective))
    if (own := result.options.get(OWN_OBJECTIVE)) is None:
        return about_plan(problem, result.plan, view, rules, result.objective, *phrases)
    phrases.insert(0, f"the minimised objective, {own}, is {result.objective:.6g}")
    return about_plan(problem, result.plan, view, rules, rules.value(problem, result.plan), *phrases)


def about_plan(problem: Problem, plan: Plan, view: PlanView, rules: Rules, value: float, *more: str) -> str:
    """A sentence each on the value of a plan with what limits it, on `more`, and on an even split to compare with."""
    parts = [f"{view.value}: {view.limits or limits(view)}", *more, even(problem, plan, rules, value)]
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)


def limits(view: PlanView) -> str:
    """The slowest device or stage, and what it is busy with."""
    slowest = view.slowest()
    if slowest is None:
        return "nothing takes any time"
    table, row = slowest
    layers = "" if row.held is None else f" ({row.held.named(table.item, MOST_NAMED)})"
    title = f"{table.what} {row.name}" if row.name[0].isdigit() else row.name
    share = (row.memory_held or 0.0) / row.limit if row.limit else 0.0
    nearly = f", its memory is nearly full ({percent(share)})" if share >= FULL else ""
    busy = ""  # with the largest part of the load, where there are several
    if len(row.parts) > 1 and row.load:
        name = max(row.parts, key=row.parts.__getitem__)
        busy = f" and spends {percent(row.parts[name] / row.load)} of its time on {PASSES.get(name, name)}"
    return f"{title}{layers} limits the pipeline{busy}{nearly}"


def even(problem: Problem, plan: Plan, rules: Rules, value: float) -> str:
    """By how much even splits are slower: one of all layers, and one of the blocks, as frameworks divide them. Empty
    where the kind does not say what is even."""
    other, blocks = even_split(problem, rules), even_split(problem, rules, "block_plans")
    words = getattr(module_of(problem), "EVEN", "")
    split = f"an even split ({words})" if words else "an even split"
    parts = []
    if other is None and words:
        parts.append(f"no even split that was tried ({words}) is valid")
    if other is not None:
        differs = getattr(module_of(problem), "even_differs", lambda plan, even: "")(plan, other.plan)
        parts.append(_compared(split + differs, other, plan, value))
    if blocks is not None and (other is None or blocks.plan != other.plan):
        parts.append(_compared(BLOCKS, blocks, plan, value))
    return "; ".join(filter(None, parts))


def _compared(split: str, other: Ruling, plan: Plan, value: float) -> str:
    """By how much another split is slower, or that the plan is this split."""
    if other.value is not None and value > 0 and other.plan == plan:
        return f"this is {split}"
    return "" if other.value is None else _against(split, other.value, value)


def _against(split: str, other: float, value: float) -> str:
    if value <= 0:
        return ""
    ratio = other / value
    if abs(ratio - 1) <= SAME:
        return f"{split} would be just as fast"
    if ratio < 1:
        return f"{split} would be {percent(1 - ratio)} faster"
    if ratio < TIMES_AS_LONG:
        return f"{split} would be {percent(ratio - 1)} slower"
    return f"{split} would take {ratio:.3g} times as long"


def how_good(problem: Problem, result: Result) -> str:
    """How near to the best the plan is proven to be, and among which plans."""
    among = _scope(problem, result)
    if (own := result.in_scope) is not None:  # a value with its proof, a proof that there is no plan, or neither
        found = no_plan(problem, own).rstrip(".")
        if own.objective is not None:
            found = f"{amount(own.objective, problem.time_unit)}, {how_good(problem, own)}"
        return f"not proven, since the plan is none of those that the method considers; among these: {found}"
    if result.gap is None:
        return "the distance from the best plan is not known"
    if result.found == Found.OPTIMAL and result.stop == Stop.PROVEN:
        more = f"; to search more plans, use {result.wider}" if result.wider else ""
        return optimal() + (f" among {among}{more}" if among else "")
    return f"proven: no plan saves more than {percent(result.gap)} of this time" + _within(among)


def _within(scope: str) -> str:
    """The scope in brackets, so that its words are not read as a part of what was proven."""
    return f" (among {scope})" if scope else ""


def _scope(problem: Problem, result: Result) -> str:
    """The scope as its kind says it to those who have not read the papers; the run's facts have its exact words."""
    if result.scope is None:
        return ""
    plainly = getattr(module_of(problem), "scope_in_words", lambda problem, scope: scope)
    return str(plainly(problem, result.scope))


def no_plan(problem: Problem, result: Result) -> str:
    """A sentence on why there is no plan: it is proven that there is none, or the run ended too early."""
    if result.stop == Stop.INFEASIBLE:
        return f"Proven: there is no plan{_within(_scope(problem, result))}."
    return f"No plan was found: {NO_PLAN.get(result.stop, result.stop)}."


# Value and bound that differ by less are the same but for rounding.
NO_GAP = 1e-12


def run_facts(result: Result, unit: str | None) -> dict[str, str]:
    """Facts of a run by name. Absent ones are left out, but value, bound and gap say `none` or `unknown`."""
    method = " through ".join(filter(None, [result.formulation, result.planner]))
    if result.backend.get("name"):
        method += f" on {result.backend['name']} {result.backend.get('version') or ''}".rstrip()
    # `optimal` never stands alone: it holds within the gap that was proven.
    proven = result.found == Found.OPTIMAL and result.stop == Stop.PROVEN and result.gap is not None
    found = None
    if (
        inner := result.in_scope
    ) is not None:  # the method's own answer, where the plan is a better one from elsewhere
        own, among = run_facts(inner, unit), "" if inner.scope is None else f" among {inner.scope}"
        stop = "" if inner.stop in (Stop.PROVEN, Stop.COMPLETED) else f" ({inner.stop})"
        found = f"{own['found']}{stop}{among}: {own['objective']}, bound {own['bound']}"
    start = result.warm_start
    source = f" from {start.source}" if start.source else ""
    facts = {
        "method": method,
        "stop": str(result.stop),
        "found": optimal(result.gap or 0.0) if proven else str(result.found),
        "objective": amount_or(result.objective, unit, "none"),
        "bound": amount_or(result.bound, unit, "none"),
        "gap": "unknown" if result.gap is None else percent(max(0.0, result.gap)),
        "scope": result.scope,
        "in scope": found,
        "wider": result.scope and result.wider and f"to search more plans, use {result.wider}",
        "proof": None if result.proof is None else "; ".join(result.proof.checks),
        "start": f"{start.outcome}{source}" + (f" at {amount(start.value, None)}" if start.value else ""),
        "cross-check": None if result.cross_check is None else check_in_words(result.cross_check),
        "seconds": ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items()),
    }
    return {name: text for name, text in facts.items() if text is not None}


def options_of(result: Result) -> dict[str, str]:
    """The options that were asked for, by name; options that say nothing are left out."""
    return {name: str(value) for name, value in result.options.items() if value is not None and value != {}}


def optimal(gap: float = 0.0) -> str:
    """Says how near the bound is to a value that it meets."""
    return "proven optimal" if gap <= NO_GAP else f"proven optimal within {percent(gap)}"


def check_in_words(facts: Mapping[str, Any]) -> str:
    """What a second method said, and whether it contradicts the first."""
    method = facts.get("planner") or facts.get("formulation")
    word = "no contradiction" if facts["contradiction"] is None else "CONTRADICTS"
    if "message" in facts:
        return f"{method}: no check, {facts['message']}"
    value, bound = (amount_or(facts.get(name), None, "none") for name in ("objective", "bound"))
    return f"{method}: {facts.get('stop')}, value {value}, bound {bound}: {word}"


# ---- one iteration --------------------------------------------------------------------------------------------


# Micro-batches of each stage in an iteration, where neither the plan nor the problem says how many there are.
FOR_EACH_STAGE = 4
# Passes that are simulated in a second or two.
MOST_PASSES = 100_000


def iteration_of(problem: Problem, plan: Plan) -> Simulation | None:
    """A simulated iteration. None for plans without backward passes, and where a simulation fails or takes long."""
    if not _trains(problem):
        return None
    from ..instances.simulate import pipeline_of, simulate
    from ..instances.timeline.engine import DeadlockError

    batch = kind_of(problem).batch
    try:
        pipeline = pipeline_of(problem, plan, micro_batches=None if batch else 1)
        count = None if batch else FOR_EACH_STAGE * len(pipeline.stages)
        if len(pipeline.stages) * (count or pipeline.mini_batch) > MOST_PASSES:
            return None
        simulation = simulate(problem, plan, micro_batches=count)
    except (PipeplanError, DeadlockError):
        return None
    trains = any(task.kind == "backward" for stage in simulation.stages for task in stage.tasks)
    return simulation if trains and simulation.iteration > 0 else None


def _trains(problem: Problem) -> bool:
    """Does the problem train? True as well where its kind does not say, and a simulation must tell."""
    trains = kind_of(problem).trains
    return trains is None or trains(problem)


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of a training plan, and what passes through it in a second."""

    time: float
    """Time of the iteration, in `time_unit`."""
    time_unit: str | None
    count: int
    """Amount that passes through the pipeline in one iteration, in units of `counted`."""
    counted: str
    is_usual_count: bool
    """Does nothing say how many there are, so that `count` is a usual number?"""
    idle: float
    """The share of the time in which the devices of the plan wait."""
    counted_per_second: float | None
    """Amount of `counted` in a second; None: `time_unit` is not a known unit."""
    samples_per_second: float | None
    """None: nothing says how many samples a micro-batch has."""
    tokens_per_second: float | None

    def in_words(self) -> str:
        usual = f" ({FOR_EACH_STAGE} per stage; `plan simulate` takes any number)" if self.is_usual_count else ""
        rates: tuple[tuple[float | None, str], ...] = (
            (self.samples_per_second, "samples"),
            (self.tokens_per_second, "tokens"),
        )
        if self.samples_per_second is None:
            rates = ((self.counted_per_second, self.counted),)
        # From 1000 on as a whole number with commas, not as a power of ten.
        texts = (
            (f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}", what) for rate, what in rates if rate is not None
        )
        facts = ", ".join([amount(self.time, self.time_unit), *(f"{rate} {what}/s" for rate, what in texts)])
        return (
            f"One iteration of {several(self.count, singular(self.counted))}{usual}: {facts}. "
            f"The plan's devices are idle for {percent(self.idle)} of that time."
        )


def describe_iteration(problem: Problem, plan: Plan, samples: Samples | None = None) -> Iteration | None:
    """The facts of one iteration of the plan; None where there is none to speak of, as in inference."""
    if samples is not None and not samples.training:
        return None
    run = iteration_of(problem, plan)
    if run is None:
        return None
    counted, rate = kind_of(problem).counted, None
    if run.time_unit in SECONDS:
        rate = run.mini_batch / (run.iteration * float(SECONDS[run.time_unit]))
    each, length = (None, None) if samples is None else (samples.micro_batch, samples.tokens)
    each = 1 if counted == "samples" else each
    in_samples = None if rate is None or each is None else rate * each
    tokens = None if in_samples is None or length is None else in_samples * length
    usual = kind_of(problem).batch is None
    return Iteration(
        run.iteration, run.time_unit, run.mini_batch, counted, usual, run.bubble, rate, in_samples, tokens
    )


def iteration_json(problem: Problem, plan: Plan | None, samples: Samples | None = None) -> dict[str, Any]:
    """The entry `iteration` of a JSON object; empty where there is none to speak of."""
    iteration = None if plan is None else describe_iteration(problem, plan, samples)
    return {} if iteration is None else {"iteration": plain_fields(iteration)}


def unused_devices(problem: Problem, plan: Plan) -> str | None:
    """A sentence where a plan leaves devices without work, which is easily overlooked."""
    if not _trains(problem):
        return None
    from ..instances.simulate import pipeline_of

    field = kind_of(problem).cluster.get("devices")
    try:
        stages = pipeline_of(problem, plan, micro_batches=None if kind_of(problem).batch else 1)
    except PipeplanError:
        return None
    available = getattr(problem, field) if field else 0
    used = len(stages.shared) or sum(stage.devices for stage in stages.stages)
    if used >= available:
        return None
    return f"the plan uses {used} of {several(available, 'device')}; the others stay unused"


# ---- what was asked -------------------------------------------------------------------------------------------


def cluster_words(asked: Asked) -> Iterator[str]:
    """Options of the cluster and of the table as they were typed."""
    for field, value in asked.cluster.items():
        name = field.replace("_", "-")
        text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        if field in OF_ONE_SOURCE:
            yield from ("--option", name if value is True else f"{name}={text.lower() if value is False else text}")
        elif isinstance(value, bool):
            yield f"--{name}" if value else f"--no-{name}"
        else:
            yield from (f"--{name}", text)
