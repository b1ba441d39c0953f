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

from ...instances.physics.efficiencies import ABOUT, WORKSPACE_BYTES
from ...instances.physics.schedules import SCHEDULES
from ...instances.training.cases import NONE, WHOLE, Modules, gradient_bytes_of
from ...instances.training.model import UnitType
from ...instances.training.plan import Configuration, chunks_of_ranks
from ...instances.training.problem import TrainingProblem
from .bounds import CERTAIN, in_flight
from .forms import (
    AMOUNTS,
    HIDDEN,
    NAMES,
    Box,
    Point,
    Timed,
    believed,
    efficiencies_at,
    linear,
    names_of,
    plausible,
    relations,
    solve,
    used,
    values_of,
)
from .space import Space

# ---- choices that are not listed ------------------------------------------------------------------------------
# What no choice of a scope can do: be faster than a cover by more than a share, wherever the cluster lies.
#
# For every choice, bounds that the search has as well are linear forms in the terms of `forms`: of the work of its
# family (`space`), and of what its ranks compute again where they must. With (1) and (2) a choice of form b is
# excluded within a share t if for some member s of the cover
#
#     (10)  (1 + t) b . y >= u_s . y  anywhere in the box, for which each term may be at either end of its own range.
#
# As with (8) that is asked twice, once of all that may fit, and once of what fits for sure alone, members included.
#
# A rank that holds n layers, of which a moment has k stashes each in the mean and e at least, computes again all but
#
#     (11)  least of n and (room - n (standing + k less)) / (e (stash - less))
#
# where `less` is what is left of a stash that is computed again; the layers of all ranks are all layers. A word that
# all layers share fits only if ranks have room for all layers with it.


# Within which shares choices are excluded: the first of them that leaves no more than FEW of all open.
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
FEW = 0.01
# More bytes than any rank has.
PLENTY = 1e18


@dataclass(frozen=True, slots=True)
class Others:
    """What holds of all choices of degrees, micro-batch, ZeRO stage, schedule and chunks."""

    choices: int
    """All that the search considered, those that cannot fit included."""
    within: float
    """None is faster than the cover by more than this share, but for those that are open."""
    open: int
    """Choices for which that is not proven."""


def others_of(space: Space, box: Box, worlds: Sequence[tuple[Any, float]]) -> Others:
    """`worlds`: what may be there together: (2) of members of the cover, [member, term], and the bytes by the model up
    to which a choice is among them."""
    works, sizes, behind = works_of(space), space.sizes, np.zeros(len(SHARES), int)
    levels = [np.where(space.bounds[1] > limit, 0, _levels(works, box, uppers)) for uppers, limit in worlds]
    left = np.flatnonzero(np.maximum.reduce(levels))
    closer = None if space.problem.model.own else Closer(space, left, works[left])
    for own, (uppers, limit) in zip(levels, worlds, strict=True):
        counts = np.zeros(len(SHARES) + 1, int)
        if closer is None:
            np.add.at(counts, own, sizes)
        else:
            counts[0] = sizes.sum() - sizes[left].sum()
            np.add.at(counts, *closer.levels(box, uppers, limit, own[left]))
        behind = np.maximum(behind, sizes.sum() - np.cumsum(counts)[: len(SHARES)])
    first = next((i for i, choices in enumerate(behind) if choices <= FEW * sizes.sum()), len(SHARES) - 1)
    return Others(int(sizes.sum()), SHARES[first], int(behind[first]))


def _levels(forms: Any, box: Box, uppers: Any) -> Any:
    """For each form the place of the first share within which (10) excludes it; that behind the last: none does."""
    lows, highs = box.terms.T
    found = np.full(len(forms), len(SHARES))
    for i in reversed(range(len(SHARES))):
        for upper in uppers:
            over = (1 + SHARES[i]) * forms - upper
            found[np.minimum(over * lows, over * highs).sum(axis=1) >= 0] = i
    return found


# ---- seconds at a point of the box ----------------------------------------------------------------------------


def works_of(space: Space) -> Any:
    """[family, term]: the work of each family, by the way of counting that is the greatest bound where all is as
    believed; of types of layers, one of which takes least, each coefficient is the least."""
    own = space.problem.efficiencies

    def seconds(at: Point) -> Any:
        moved = efficiencies_at(own, at)
        return space.with_efficiencies(moved).ways_of_bounds[0] + moved.step_seconds

    forms = linear(own, names_of(space.problem), seconds).min(axis=1)
    best = (forms @ values_of(believed(own))).argmax(axis=0)
    return np.take_along_axis(forms, best[None, :, None], axis=0)[0]


def _agains(space: Space, rows: Any, words: Sequence[Modules], at: Point) -> Any:
    """[word or type of unit, family]: seconds that all layers take again with these words, and then one layer of each
    type if it computes all again, in the mean over ranks. The last pass may be hidden."""
    moved, problem = space.with_efficiencies(efficiencies_at(space.problem.efficiencies, at)), space.problem
    found = np.zeros((len(words) + len(space.layers), len(rows)))
    gradients = space.per_zero(lambda zero: gradient_bytes_of(problem.states[zero]))[rows]
    for number in np.unique(gradients):
        here = np.flatnonzero(gradients == number)
        keys = space.key_rows[rows[here]]
        for i, name in enumerate(space.layers):
            again = moved.maker.seconds(name, number).again
            for k, word in enumerate(words):
                found[k, here] += problem.model.counted[name] * again[word][keys]
            if WHOLE in again:
                found[len(words) + i, here] = again[WHOLE][keys]
    batches = problem.batch // (space.columns["data"] * space.columns["micro_batch"])
    return found * ((batches - 1) / space.columns["pipeline"])[rows]


# ---- what must be computed again ------------------------------------------------------------------------------


class Closer:
    """Closer bounds of the choices of some families: with what they compute again."""

    def __init__(self, space: Space, rows: Any, works: Any) -> None:
        self.space, self.rows, self.works = space, rows, works
        self.counted = space.problem.rules.counted_layers and WHOLE in space.words
        self.words = [word for word in space.words if word and not (self.counted and word == WHOLE)]
        names = names_of(space.problem)
        self.agains = linear(space.problem.efficiencies, names, lambda at: _agains(space, rows, self.words, at))

    def levels(self, box: Box, uppers: Any, limit: float, levels: Any) -> tuple[list[int], list[int]]:
        """Places of the shares within which choices are excluded, and how many choices each time; `levels` are those of
        the families without what is computed again."""
        space, words = self.space, self.words
        by_word = {word: _levels(self.works + self.agains[k], box, uppers) for k, word in enumerate(words)}
        by_word[NONE] = levels
        columns = {name: column[self.rows] for name, column in space.columns.items()}
        shapes = np.stack([columns["pipeline"], space.problem.batch // (columns["data"] * columns["micro_batch"])])
        places: list[int] = []
        counts: list[int] = []
        for p, m in np.unique(shapes, axis=1).T.tolist():
            here = np.flatnonzero((shapes[0] == p) & (shapes[1] == m))
            for schedule, v in space.ways(p, m):
                layers = Layers(space, self.rows[here], schedule, (p, v, m), limit)
                found = np.zeros(len(here), int)  # what no word makes fit is excluded
                for word in [NONE] if SCHEDULES[schedule].divided else space.words:
                    if self.counted and word == WHOLE:
                        able, more = self._whole_layers(layers, here)
                        level = np.minimum(_levels(self.works[here] + more, box, uppers), levels[here])
                    else:
                        able, level = layers.fit(word), by_word[word][here]
                    found = np.where(able, np.maximum(found, level), found)
                for told, values in zip((places, counts), np.unique(found, return_counts=True), strict=True):
                    told += values.tolist()
        return places, counts

    def _whole_layers(self, layers: Layers, here: Any) -> tuple[Any, Any]:
        """[family]: can these families fit if enough whole layers are computed again? And [family, term]: what these
        take at least."""
        again = np.stack([layers.least_again(name) for name in self.space.layers])
        able, of_layers = np.isfinite(again).all(axis=0), self.agains[len(self.words) :, here]
        return able, (np.where(able, again, 0.0)[:, :, None] * of_layers).sum(axis=0)


class Layers:
    """What layers of some families keep with one schedule, by types of units that are no ends."""

    def __init__(self, space: Space, rows: Any, schedule: str, shape: tuple[int, int, int], limit: float) -> None:
        p, v, m = shape
        self.space, self.rows = space, rows
        together, each = in_flight(schedule, p, v, m, space.units)
        there = together[:, 1:] > 0  # no rank has fewer units than chunks
        counts = np.arange(1, space.units + 1)
        self.mean, self.least = (
            np.where(there, table, np.inf).min(axis=1) for table in (together[:, 1:] / counts, each[:, 1:])
        )
        if len(space.layers) > 1:  # those of one type may be the ones that are there least
            self.mean = self.least
        # [family, rank]: bytes that are left for layers.
        self.room = np.full((len(rows), p), limit - WORKSPACE_BYTES - space.problem.reserve_bytes)
        chunks = chunks_of_ranks(schedule, p, v)
        for name, chunk in zip(space.ends, (0, p * v - 1), strict=False):
            (rank,) = (r for r in range(p) if chunk in chunks[r])
            self.room[:, rank] -= space.standing[name][rows]
        self.room = np.clip(self.room, 0.0, PLENTY)

    def _kept(self, name: UnitType, word: Modules) -> Any:
        """[family, rank]: bytes that stay, in the mean over layers of this type, with this word for all of them."""
        stash = self.space.maker.bytes[name].stash[word][self.space.key_rows[self.rows]]
        return self.space.standing[name][self.rows, None] + self.mean * stash[:, None]

    def fit(self, word: Modules) -> Any:
        """[family]: have ranks room for all layers of each type with this word?"""
        counted = self.space.problem.model.counted
        fits = [
            np.floor(self.room / self._kept(name, word) + CERTAIN).sum(axis=1) >= counted[name]
            for name in self.space.layers
        ]
        return np.logical_and.reduce(fits)

    def least_again(self, name: UnitType) -> Any:
        """[family]: of how many layers of this type at least the ranks compute all again; infinite where that is not
        enough. Each rank has as many as need nothing of it, then one more where that makes the fewest do so."""
        low = self._kept(name, WHOLE)
        plain, whole = (
            self.space.maker.bytes[name].stash[word][self.space.key_rows[self.rows]] for word in (NONE, WHOLE)
        )
        high = np.maximum(self.least * (plain - whole)[:, None], CERTAIN)
        free, most = self.room / (low + high), self.room / low
        left, again, slopes = self.space.problem.model.counted[name] - free.sum(axis=1), 0.0, 1 + low / high
        for rank in np.argsort(slopes, axis=1).T:
            at = np.arange(len(left)), rank
            taken = np.clip(left, 0.0, (most - free)[at])
            again, left = again + taken * slopes[at], left - taken
        return np.where(left > CERTAIN, np.inf, again)


# ---- the cover ------------------------------------------------------------


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
        return f"{self.name} ({about.unit} {about.words}) is {side} {self.value:.3g} (assumed: {self.known:.3g})"


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
