"""The time of a configuration as a linear form in what the hardware does, around which everything is proven.

Each efficiency is a *coordinate* q that is 1 where it is believed to be: the believed rate over the rate, an amount
over the believed amount; of a hidden share it is what is left, 1 - share. A time is a maximum over paths of sums of
products of at most two coordinates, the *terms*: seconds of products, half_side times seconds of products, what is
left of tensor-parallel communication times seconds of links, and so on. On one path, with one argument of every
maximum on it, the time is a linear form in the terms:

    (1)  T(q) >= c . y(q) everywhere,            y(q) the values of the terms
    (2)  T(q) <= u . y(q) in a box

(1) holds since a form is one argument of the maximum. For (2): T is convex in each coordinate alone and u . y is affine
in it, so T - u . y is greatest at a corner of the box. A linear program makes it 0 or less at all corners. T is
monotone as well, so coordinates that matter little need no corners: T has them at their worst and y at their best.

To add an efficiency to the coordinates, name it below, with the range that is plausible and, where the model multiplies
it with another one, the pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ...instances.base.compiled import compiled
from ...instances.physics.efficiencies import ABOUT, Efficiencies
from ...instances.timeline.model import check_tasks
from ...instances.training.iteration import Iteration, Path
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from . import layouts_kernel
from .bounds import BRIEF_PASSES
from .judging import judged, loop_of

Point = Mapping[str, float]
Range = tuple[float, float]

# By which factor a rate or an amount may be off either way, as a logarithm: wider than what fits to published groups of
# runs found for clusters whose hardware is known.
PLAUSIBLE = {
    "products": 0.35,
    "grouped_products": 0.35,
    "products_fp8": 0.35,
    "attention": 0.5,
    "memory": 0.35,
    "links": 0.7,
    "half_side": 0.7,
    "launch_seconds": 1.2,
    "host_seconds": 1.2,
    "collective_seconds": 1.5,
}
AMOUNTS = ("half_side", "launch_seconds", "host_seconds", "collective_seconds")
# Shares of communication that may be hidden, whatever is believed.
HIDDEN = {
    "tensor_hidden": (0.0, 0.5),
    "context_hidden": (0.0, 0.9),
    "expert_hidden": (0.0, 0.5),
    "data_hidden": (0.0, 1.0),
    "pipeline_hidden": (0.0, 0.8),
}
NAMES = (*PLAUSIBLE, *HIDDEN)
TERMS: tuple[tuple[str, ...], ...] = (
    (),
    *((name,) for name in NAMES),
    *(("half_side", name) for name in ("products", "grouped_products", "products_fp8")),
    *((hidden, name) for hidden in HIDDEN for name in ("links", "collective_seconds")),
)
ALL = range(len(TERMS))
PLACE = {term: i for i, term in enumerate(TERMS)}

# Of a coordinate: the step by which slopes are measured.
STEP = 1e-4
# How often slopes are measured anew beside a point where they change, which a share of the time shows.
ATTEMPTS, KINK = 20, 1e-9
# Coordinates that get corners, and the share of the time that one without corners may change it by.
MOST_CORNERS, LITTLE = 8, 0.01
# What rounding and steps may cost (1) and (2), as a share of the time.
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Box:
    """Ranges of all coordinates."""

    ranges: Mapping[str, Range]

    @property
    def terms(self) -> Any:
        """The least and the greatest value of each term, [term, side]."""
        return np.array(
            [[math.prod(self.ranges[name][side] for name in term) for side in (0, 1)] for term in TERMS]
        )


def believed(own: Efficiencies) -> dict[str, float]:
    """The coordinates of what is believed."""
    return {name: 1 - getattr(own, name) if name in HIDDEN else 1.0 for name in NAMES}


def plausible(problem: TrainingProblem) -> Box:
    """The box around what is believed; amounts of nothing stay nothing, and no rate is above its physical bound."""
    own, ranges = problem.efficiencies, {}
    for name, width in PLAUSIBLE.items():
        value = getattr(own, name)
        low, high = (1.0, 1.0) if value == 0 else (math.exp(-width), math.exp(width))
        if name not in AMOUNTS:
            low, high = max(low, value / (ABOUT[name].most or math.inf)), min(high, value / ABOUT[name].least)
        ranges[name] = low, high
    for name, (least, most) in HIDDEN.items():
        share = getattr(own, name)
        ranges[name] = 1 - max(most, share), 1 - min(least, share)
    return Box(ranges)


def values_of(point: Point) -> Any:
    """The values of all terms."""
    return np.array([math.prod(point[name] for name in term) for term in TERMS])


def efficiencies_at(own: Efficiencies, point: Point) -> Efficiencies:
    """The efficiencies that a point stands for, `own` being what is believed."""
    changes = {}
    for name, q in point.items():
        value = getattr(own, name)
        changes[name] = 1 - q if name in HIDDEN else value * q if name in AMOUNTS else value / q
        about = ABOUT[name]
        changes[name] = max(about.least, min(changes[name], about.most or math.inf))
    return replace(own, **changes)


def names_of(problem: TrainingProblem) -> list[str]:
    """Coordinates that any time of a problem may depend on."""
    among = {"grouped_products": problem.model.experts is not None, "products_fp8": problem.precision == "fp8"}
    nothing = {name for name in AMOUNTS if not getattr(problem.efficiencies, name)}
    return [name for name in NAMES if among.get(name, True) and name not in nothing]


def linear(own: Efficiencies, names: Sequence[str], evaluate: Callable[[Point], Any], attempts: int = 1) -> Any:
    """Coefficients [..., term] of seconds that are maxima of sums of terms of these coordinates: by differences, of the
    arguments that are greatest where everything is as believed; where these change just there, further attempts look
    beside it. All of them are 0, which is a bound as well, where no attempt finds any."""
    centre = believed(own)
    found: Any = 0.0
    sure: Any = np.False_
    steps = {name: STEP * max(q, 0.1) * (-1 if name in HIDDEN and q > 0.5 else 1) for name, q in centre.items()}
    for attempt in range(attempts):
        beside = {name: q + attempt * (i + 7) * steps[name] for i, (name, q) in enumerate(centre.items())}
        form, holds = _tangent(names, evaluate, beside, steps)
        found = np.where((~sure & holds)[..., None], form, found)
        sure = sure | holds
        if np.all(sure):
            break
    return found


def _tangent(
    names: Sequence[str], evaluate: Callable[[Point], Any], at: Point, steps: Mapping[str, float]
) -> tuple[Any, Any]:
    """Coefficients [..., term] by differences at a point, and [...]: do they hold in all of the steps, so that none of
    the maxima takes another argument there?"""
    here = np.asarray(evaluate(at))

    def change(*moved: str) -> Any:
        return evaluate({**at, **{name: at[name] + steps[name] for name in moved}}) - here

    slopes = {name: change(name) / steps[name] for name in names}
    # Where a coordinate is 0, the slope of what it is multiplied with is 0 as well, and the product still counts.
    pairs = [term for term in TERMS if len(term) == 2 and {*term} <= {*slopes}]
    pairs = [term for term in pairs if any(np.any(slopes[name]) for name in term)]
    found = np.zeros((*here.shape, len(TERMS)))
    for a, b in pairs:
        both = (change(a, b) - slopes[a] * steps[a] - slopes[b] * steps[b]) / (steps[a] * steps[b])
        found[..., PLACE[a, b]] = np.where(abs(both) > ROUNDING * here, both, 0.0)
    for name, slope in slopes.items():
        others = ((term, other) for term in pairs if name in term for other in term if other != name)
        found[..., PLACE[name,]] = slope - sum(found[..., PLACE[term]] * at[other] for term, other in others)
    found[..., 0] = here * (1 - ROUNDING) - found @ values_of(at)
    further = {name: at[name] + (2 + i / len(names)) * steps[name] for i, name in enumerate(names)}
    missed = found @ values_of({**at, **further}) + ROUNDING * here - evaluate({**at, **further})
    return found, abs(missed) <= KINK * here


@dataclass(frozen=True)
class Timed:
    """A configuration whose time is asked for at many points."""

    problem: TrainingProblem
    plan: Configuration

    def _at(self, point: Point) -> Iteration:
        rates = efficiencies_at(self.problem.efficiencies, point)
        return Iteration(self.problem.replace(efficiencies=rates), self.plan)

    def seconds(self, point: Point) -> float:
        """As the search computes it, which is quicker than the referee and for plans of the search the same."""
        if len({*self.plan.recompute}) > 1:
            return float(self._at(point).seconds())
        rates = efficiencies_at(self.problem.efficiencies, point)
        return float(judged(self.problem.replace(efficiencies=rates), self.plan)[0])

    @cached_property
    def form(self) -> Any:
        """Coefficients of the terms, with which (1) holds: of the longest path where everything is as believed."""
        path = longest_path(self._at(believed(self.problem.efficiencies)))
        return linear(self.problem.efficiencies, self._names, lambda point: self._at(point).along(path), ATTEMPTS)

    @property
    def _names(self) -> list[str]:
        """Coordinates that the time may depend on. One too many costs a moment, and nothing else."""
        own, degrees = self.problem, self.plan.degrees
        experts = degrees.expert * degrees.expert_tensor > 1
        among = {
            "links": own.devices > 1,
            "collective_seconds": degrees.tensor * degrees.context > 1 or experts,
            "tensor_hidden": degrees.tensor > 1,
            "context_hidden": degrees.context > 1,
            "expert_hidden": experts,
            "data_hidden": own.devices > degrees.pipeline,
            "pipeline_hidden": degrees.pipeline > 1,
        }
        return [name for name in names_of(own) if among.get(name, True)]

    def above(self, box: Box, terms: Sequence[int] = ALL) -> Any:
        """Coefficients of these terms with which (2) holds in the box: the least around what is believed and in the
        middle of the box."""
        from scipy.optimize import linprog

        centre = believed(self.problem.efficiencies)
        time, ends = self.seconds(centre), {name: high for name, (_, high) in box.ranges.items()}
        more = {
            name: self.seconds({**centre, name: high}) - self.seconds({**centre, name: low})
            for name, (low, high) in box.ranges.items()
        }
        main = sorted((name for name in NAMES if more[name] > LITTLE * time), key=lambda name: -more[name])
        main, lows = main[:MOST_CORNERS], {name: low for name, (low, _) in box.ranges.items()}
        corners = [dict(zip(main, at, strict=True)) for at in product(*(box.ranges[name] for name in main))]
        times = np.array([self.seconds({**ends, **at}) for at in corners])
        rows = np.array([values_of({**lows, **at})[terms] for at in corners])
        # Terms of other coordinates are at their least in these rows, where only a coefficient above 0 is safe.
        free = [(None if {*TERMS[i]} <= {*main} else 0.0, None) for i in terms]
        near = np.vstack([rows / times[:, None], values_of(centre)[terms] / time])
        costs = np.append(near.mean(axis=0), 1.0)
        limits = np.hstack(
            [np.vstack([-near[:-1], near]), np.repeat([[0.0], [-1.0]], [len(rows), len(near)], axis=0)]
        )
        found = linprog(
            costs * time, limits, np.repeat([-1.0, 0.0], [len(rows), len(near)]), bounds=[*free, (0, None)]
        )
        above = np.array([times.max() * (not TERMS[i]) for i in terms]) if found.x is None else found.x[:-1]
        return above * (1 + ROUNDING + max(0.0, (times / (rows @ above)).max() - 1))


def longest_path(iteration: Iteration) -> Path:
    """The passes that wait for each other up to the end of an iteration; with its own pieces they take `seconds`."""
    plan, micro_batches = iteration.plan, iteration.plan.micro_batches(iteration.problem.batch)
    degrees, divided = plan.degrees, plan.rule.divided
    check_tasks([micro_batches] * degrees.chunks)
    loop = loop_of(plan.schedule, degrees.pipeline, degrees.virtual, micro_batches)
    times = [(own.forward, own.inputs + own.again, own.weights) for own in iteration.chunks]
    forward, inputs, weights = np.ascontiguousarray(np.array(times, float).T)
    tails = np.array([sum(tail) for tail in iteration.tails], float)
    brief = loop[0].shape[0] * loop[0].shape[1] <= BRIEF_PASSES
    _, rank, counts = compiled(layouts_kernel, "longest_path", meanwhile=brief)(
        loop, forward, inputs, weights, np.array([*iteration.delays, 0.0]), tails, micro_batches
    )
    down, up, later, messages = counts.astype(int).tolist()
    of_stages = [*zip(down, up, strict=True), *((count, 0) for count in later if divided)]
    return Path(int(rank), tuple(of_stages), tuple(messages[:-1]))


# ---- linear programs -----------------------------------------------------------------------------------------


def used(forms: Any) -> list[int]:
    """Terms that some candidate has, with the coordinates of their products and the constant."""
    own = {term for i, term in enumerate(TERMS) if not term or forms[:, i].any()}
    needed = own | {(name,) for term in own for name in term}
    return [i for i, term in enumerate(TERMS) if term in needed]


def relations(box: Box, terms: Sequence[int]) -> Any:
    """What the box says of terms and w, as rows of which each times (terms, w) is at most 0: the range of a coordinate,
    and the four inequalities of McCormick for a product of two."""
    place = {TERMS[i]: at for at, i in enumerate(terms)}
    rows: list[dict[int, float]] = []
    scale = len(terms)
    for term, at in place.items():
        if not term:
            rows += [{at: 1, scale: -1}, {at: -1, scale: 1}]
        elif len(term) == 1:
            low, high = box.ranges[term[0]]
            rows += [{at: 1, scale: -high}, {at: -1, scale: low}]
        else:
            (a_low, a_high), (b_low, b_high) = (box.ranges[name] for name in term)
            a, b = (place[name,] for name in term)
            rows += [
                {at: -1, a: b_low, b: a_low, scale: -a_low * b_low},
                {at: -1, a: b_high, b: a_high, scale: -a_high * b_high},
                {at: 1, a: -b_low, b: -a_high, scale: a_high * b_low},
                {at: 1, a: -b_high, b: -a_low, scale: a_low * b_high},
            ]
    found = np.zeros((len(rows), scale + 1))
    for i, row in enumerate(rows):
        for column, value in row.items():
            found[i, column] = value
    return found


def solve(
    costs: Any, rows: Sequence[Any], limits: Sequence[Any], w: Range | None = None, scale: int | None = None
) -> Any:
    """The point of least cost, all of it from 0 on; None: there is none, or the solver fails. `w` is the range of the
    variable at the place `scale`, by default the last."""
    from scipy.optimize import linprog

    bounds: list[tuple[float, float | None]] = [(0.0, None)] * len(costs)
    if w is not None:
        bounds[len(costs) - 1 if scale is None else scale] = w
    found = linprog(costs, np.vstack(rows), np.concatenate(limits), bounds=bounds, method="highs")
    return found.x if found.status == 0 else None
