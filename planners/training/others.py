"""What no choice of a scope can do: be faster than a cover by more than a share, wherever the cluster lies.

For every choice, bounds that the search has as well are linear forms in the terms of `forms`: of the work of its family
(`space`), and of what its ranks compute again where they must. With (1) and (2) a choice of form b is excluded within a
share t if for some member s of the cover

    (10)  (1 + t) b . y >= u_s . y  anywhere in the box, for which each term may be at either end of its own range.

As with (8) that is asked twice, once of all that may fit, and once of what fits for sure alone, members included.

A rank that holds n layers, of which a moment has k stashes each in the mean and e at least, computes again all but

    (11)  least of n and (room - n (standing + k less)) / (e (stash - less))

where `less` is what is left of a stash that is computed again; the layers of all ranks are all layers. A word that all
layers share fits only if ranks have room for all layers with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...instances.physics.efficiencies import WORKSPACE_BYTES
from ...instances.physics.schedules import SCHEDULES
from ...instances.training.cases import NONE, WHOLE, Modules, gradient_bytes_of
from ...instances.training.model import UnitType
from ...instances.training.plan import chunks_of_ranks
from .bounds import CERTAIN, in_flight
from .forms import Box, Point, believed, efficiencies_at, linear, names_of, values_of
from .space import ENDS, Space

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
        for name, chunk in zip(ENDS, (0, p * v - 1), strict=True):
            if name in space.problem.model.counted:
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
