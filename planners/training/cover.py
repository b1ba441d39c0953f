"""A few families of configurations, one of which is nearly the best wherever the cluster lies in the plausible box.

A *family* is what a list has of the same degrees, micro-batch, ZeRO stage and recomputation; its fastest
configuration stands for it. At a point q of the box (`forms.plausible`) family f takes c_f . y(q), with `forms` (1).
Over a finite set of points P the cover is the solution of

    (7)  min sum over s of x_s,   x_s in {0, 1},   x of the fastest family that fits for sure = 1
    (8)  sum of x_s over the families s with c_s . y(p) <= (1 + delta) min over f of c_f . y(p)  >= 1   for all p of P,
         once over all families and once over those alone that fit for sure, since others may not be there

Between the points a linear program for each family f says how much the cover S may lose against it (of S those that fit
for sure where f does): with c_f . y = 1,

    (9)  max t,   t <= u_s . y  for all s of S,   y terms of the box

By (1) and (2) one of the members is no slower than f by more than the share t - 1, wherever the cluster lies. `others`
says the same of all choices of the scope, by weaker bounds. All of it is about the model, whose form may be wrong
besides (`deciding`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...instances.physics.efficiencies import ABOUT
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from .forms import AMOUNTS, HIDDEN, NAMES, Box, Point, Timed, believed, plausible, relations, solve, used, values_of
from .others import Others, others_of
from .space import Space

# By how much the fastest family may be faster than the cover at a point: the first with at most MOST_MEMBERS.
DELTAS = (0.01, 0.02, 0.03, 0.05, 0.1)
MOST_MEMBERS = 10
# The most families that are looked at: the form of each takes some hundredths of a second.
MOST_FAMILIES = 40
# Points of the box beside its middle and the ends of each coordinate.
RANDOM_POINTS = 300
# Bytes that fit where there is no limit.
ANY = (math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Condition:
    """One efficiency that alone makes a family the fastest, where it lies beyond this value."""

    name: str
    value: float
    below: bool
    known: float

    @property
    def words(self) -> str:
        side, about = "below" if self.below else "above", ABOUT[self.name]
        return f"{self.name} ({about.unit} {about.words}) is {side} {self.value:.3g}; {self.known:.3g} is believed"


@dataclass(frozen=True, slots=True)
class Member:
    """A family of the cover."""

    family: int
    """Its place among the families, the fastest first."""
    loses: float
    """By which share it is slower than the fastest family at the worst point."""
    wins: Condition | None
    """What makes it faster than the fastest family; None: it is that family, or no efficiency alone does."""


@dataclass(frozen=True, slots=True)
class Cover:
    """The members, the fastest first, and what holds of them."""

    members: tuple[Member, ...]
    families: int
    """How many were looked at."""
    points: int
    delta: float
    """One of the members is within this share of the fastest at all points."""
    proven: float
    """One of them is within this share of every family anywhere in the box."""
    others: Others


def cover_of(
    space: Space, plans: Sequence[Configuration], sure: Sequence[bool], limits: tuple[float, float] = ANY
) -> Cover:
    """The cover of families of a space, each given by its fastest configuration, the fastest first; `sure`: does it fit
    for sure? One of the first MOST_FAMILIES does. `limits`: bytes by the model up to which something fits for sure, and
    up to which it may fit."""
    problem = space.problem
    box, own = plausible(problem), believed(problem.efficiencies)
    timed = [Timed(problem, plan) for plan in plans[:MOST_FAMILIES]]
    forms = np.array([each.form for each in timed])
    points = list(_points(box, own))
    times = forms @ np.array([values_of(point) for point in points]).T
    fits = np.array(sure[: len(timed)])
    for delta in DELTAS:
        least = np.where(fits[:, None], times, np.inf).min(axis=0)
        safe = fits[:, None] & (times <= (1 + delta) * least)
        members = chosen(np.hstack([times <= (1 + delta) * times.min(axis=0), safe]), int(fits.argmax()))
        if len(members) <= MOST_MEMBERS:
            break
    told = tuple(
        Member(
            f,
            float((times[f] / times.min(axis=0)).max() - 1),
            _condition(problem, box, forms[f] - forms[int(fits.argmax())]),
        )
        for f in members
    )
    uppers = np.array([timed[s].above(box) for s in members])
    worlds = [(uppers[fits[members]], limits[0]), (uppers, limits[1])]
    others = others_of(space, box, worlds)
    return Cover(told, len(timed), len(points), delta, _proven(box, forms, members, uppers, fits), others)


def _points(box: Box, own: Point) -> Iterator[Point]:
    """The middle, the ends of each coordinate alone, and points at random; the same for the same box."""
    yield own
    for name, ends in box.ranges.items():
        yield from ({**own, name: end} for end in ends)
    draw = random.Random(0)
    for _ in range(RANDOM_POINTS):
        yield {name: draw.choice((low, high, draw.uniform(low, high))) for name, (low, high) in box.ranges.items()}


def chosen(near: Any, best: int) -> list[int]:
    """(7) and (8); `near`: [family, point]; `best` is a member."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    families = len(near)
    first = np.zeros(families)
    first[best] = 1
    found = milp(
        np.ones(families),
        integrality=np.ones(families, int),
        bounds=Bounds(first, np.ones(families)),
        constraints=LinearConstraint(np.unique(near.T.astype(float), axis=0), lb=1),
    )
    assert found.x is not None, "all families together are near every best"
    return [f for f in range(families) if found.x[f] > 0.5]


def _proven(box: Box, forms: Any, members: Sequence[int], uppers: Any, fits: Any) -> float:
    """The greatest t - 1 of (9), over all families."""
    terms = used(np.vstack([forms, uppers]))
    rows = relations(box, terms)
    costs = np.zeros(len(terms) + 2)
    costs[-1] = -1
    most = 0.0
    for f, form in enumerate(forms[:, terms]):
        if f not in members:
            one = np.array([[*form, 0.0, 0.0], [*-form, 0.0, 0.0]])
            against = [upper for s, upper in zip(members, uppers[:, terms], strict=True) if fits[s] or not fits[f]]
            own = np.array([[*-upper, 0.0, 1.0] for upper in against])
            limits = [np.zeros(len(rows)), np.zeros(len(own)), np.array([1.0, -1.0])]
            found = solve(costs, [np.hstack([rows, np.zeros((len(rows), 1))]), own, one], limits)
            most = max(most, np.inf if found is None else float(found[-1]) - 1)
    return most


def _condition(problem: TrainingProblem, box: Box, behind: Any) -> Condition | None:
    """The least change of one coordinate after which a family is no slower: `behind` is its form less the fastest's,
    and in one coordinate both are lines."""
    centre = believed(problem.efficiencies)
    values = values_of(centre)
    found: list[tuple[float, Condition]] = []
    for name in NAMES:
        low, high = box.ranges[name]
        slope = behind @ (values_of({**centre, name: centre[name] + 1}) - values)
        if low == high or slope == 0 or behind @ values <= 0:
            continue
        q = centre[name] - behind @ values / slope
        if low <= q <= high:
            known = getattr(problem.efficiencies, name)
            value = 1 - q if name in HIDDEN else known * q if name in AMOUNTS else known / q
            found.append(
                (abs(q - centre[name]) / (high - low), Condition(name, float(value), bool(value < known), known))
            )
    return min(found, key=lambda each: each[0])[1] if found else None
