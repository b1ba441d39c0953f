"""All choices of degrees, micro-batch and ZeRO stage that a framework can run, in columns, each with a bound.

A *family* is one such choice without the number of chunks on a rank and without the schedule; these follow in `gammas`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import copy
from functools import cached_property
from itertools import combinations, product
from operator import mul
from typing import Any

import numpy as np

from ...instances.physics.efficiencies import HALF, WORKSPACE_BYTES, Efficiencies
from ...instances.physics.schedules import LOOP, ROW, SCHEDULES, V_SHAPE
from ...instances.training.cases import (
    AT_THE_END,
    NONE,
    NUMBERS,
    WHOLE,
    CaseMaker,
    Modules,
    ParallelismChoice,
    frozen_bytes,
    gradient_bytes_of,
    state_bytes,
    update_seconds,
)
from ...instances.training.frameworks import fault_of_word, hidden_shares, one_name_each
from ...instances.training.model import UnitType
from ...instances.training.plan import LARGEST, NOTHING, Configuration, Degrees, Recompute, divisors, read_recompute
from ...instances.training.problem import TrainingProblem
from ...instances.training.scope import Scope

Column = np.ndarray[Any, np.dtype[Any]]


def all_words(problem: TrainingProblem) -> tuple[Modules, ...]:
    """Sets of modules that the framework can compute again in this model, and whole layers."""
    names = [name for name in problem.model.modules if name in problem.rules.modules]
    words = [chosen for size in range(len(names) + 1) for chosen in combinations(names, size)]
    return (*(word for word in words if can_say(problem, Recompute(word))), WHOLE)


def can_say(problem: TrainingProblem, word: Recompute) -> bool:
    """Can the framework compute this again, under a schedule whose backward passes are whole?"""
    return fault_of_word(problem, "1f1b", word) is None


class Space:
    """The families of a problem that are in a scope, one row each of the arrays in `columns`."""

    def __init__(self, problem: TrainingProblem, scope: Scope) -> None:
        self.problem, self.scope = problem, scope
        self.units = len(problem.model.units)
        sorts = range(1, len(problem.pools) + 1)
        self.orders = tuple(first for first in sorts if scope.takes("first-pool", first))
        """Which sorts of GPUs may have the first stages."""
        self.words = tuple(self._words())
        rows = list(self._rows())
        table = np.array(rows, np.int64).reshape(-1, 8)
        names = ("tensor", "context", "pipeline", "data", "expert", "expert_tensor", "micro_batch", "zero")
        self.columns = {name: table[:, i] for i, name in enumerate(names)}
        keys = np.unique(table[:, [0, 1, 4, 5, 6]], axis=0)
        self.maker = CaseMaker(problem, map(tuple, keys.tolist()), sorted({NONE, *self.words}))

    def __len__(self) -> int:
        return len(self.columns["tensor"])

    def _words(self) -> Iterator[Modules]:
        """Words for recomputation that scope and framework take: sets of modules that are computed again."""
        fixed = self.scope.fix.get("recompute")
        if fixed is not None:
            word = read_recompute("scope: recompute", fixed)
            if self.scope.takes_word(word) and can_say(self.problem, word):
                yield word.modules
            return
        for modules in all_words(self.problem):
            if self.scope.takes_word(Recompute(modules)):
                yield modules

    @property
    def leanest_word(self) -> Recompute:
        """The word that computes most again: what is fixed, whole layers, or else as many modules as can be."""
        fixed = self.scope.fix.get("recompute")
        if fixed is not None:
            return read_recompute("scope: recompute", fixed)
        return Recompute(WHOLE if WHOLE in self.words else max(self.words, key=len))

    # ---- what can be run ------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[tuple[int, ...]]:
        """One row for each family that the framework can run: tensor, context, pipeline, data, expert, expert
        tensor, micro-batch, ZeRO stage."""
        problem, devices, measured_layers = self.problem, self.problem.devices, self.problem.model.own
        if not self.words:
            return
        for t in divisors(devices):
            for c in divisors(devices // t):
                for p in divisors(devices // (t * c)):
                    d = devices // (t * c * p)
                    if (
                        p > self.units
                        or problem.batch % d
                        or not self._takes(tensor=t, context=c, pipeline=p, data=d)
                    ):
                        continue
                    sizes = [b for b in divisors(problem.batch // d) if b <= LARGEST]
                    sizes = [b for b in sizes if self.scope.takes("micro-batch", b)]
                    if measured_layers:
                        sizes = [b for b in sizes if all(layer.is_measured(t, b) for layer in measured_layers)]
                    for e, s in self._experts(t, c, p, d):
                        zeros = self._zeros(Degrees(t, c, p, 1, d, e, s))
                        yield from ((t, c, p, d, e, s, b, zero) for b in sizes for zero in zeros)

    def _takes(self, **degrees: int) -> bool:
        """Does the scope take all these degrees?"""
        return all(self.scope.takes(name.replace("_", "-"), value) for name, value in degrees.items())

    def _can(self, degrees: Degrees, zero: int | None = None, schedule: str = "1f1b", micro_batch: int = 1) -> bool:
        """Does a configuration with these degrees keep all rules of the framework?"""
        rules = self.problem.rules
        if self.problem.model.own and (degrees.context > 1 or degrees.expert > 1 or degrees.expert_tensor > 1):
            return False
        # Rules look at nothing that a choice does not have.
        asked: Any = ParallelismChoice(degrees, micro_batch, rules.usual_zero if zero is None else zero, schedule)
        return all(rule.kept(self.problem, asked) for rule in rules.rules)

    def _experts(self, t: int, c: int, p: int, d: int) -> list[tuple[int, int]]:
        """Pairs of expert degree and expert tensor degree that the scope and the framework take."""
        ranks, experts = t * c * d, self.problem.model.experts
        if experts is None:
            pairs = [(1, 1)]
        else:
            pairs = [(e, s) for s in divisors(ranks) for e in divisors(math.gcd(ranks // s, experts.count))]
        return [
            (e, s)
            for e, s in pairs
            if self._takes(expert=e, expert_tensor=s) and self._can(Degrees(t, c, p, 1, d, e, s))
        ]

    def _zeros(self, degrees: Degrees) -> list[int]:
        """ZeRO stages that the scope and the framework take with these degrees, each configuration under one name."""
        zeros = [z for z in self.problem.states if self.scope.takes("zero", z) and self._can(degrees, z)]
        return one_name_each(self.problem, degrees, zeros)

    def gammas(self, row: int) -> list[ParallelismChoice]:
        """The choices of schedule and chunks on a rank for the family in this row."""
        t, c, p, d, e, s, b, zero = (int(column[row]) for column in self.columns.values())
        batches = self.problem.batch // (d * b)
        choices = []
        for schedule, v in self.ways(p, batches):
            degrees = Degrees(t, c, p, v, d, e, s)
            if self._can(degrees, zero, schedule, b):
                choices += [ParallelismChoice(degrees, b, zero, schedule, first) for first in self.orders]
        return choices

    def ways(self, p: int, batches: int) -> list[tuple[str, int]]:
        """Schedules, each with a number of chunks on a rank, for p ranks and so many micro-batches."""
        key = p, batches
        if key not in self._ways_by_key:
            size = self.problem.batch // batches  # with one data-parallel rank it makes as many micro-batches
            self._ways_by_key[key] = [
                (schedule, v)
                for schedule in self.problem.rules.schedules
                if self.scope.takes("schedule", schedule)
                for v in self._chunks(schedule, p, batches)
                if self.scope.takes("virtual", v)
                and self.scope.takes_chunks(p * v)
                and self._can(Degrees(pipeline=p, virtual=v), schedule=schedule, micro_batch=size)
            ]
        return self._ways_by_key[key]

    @cached_property
    def _ways_by_key(self) -> dict[tuple[int, int], list[tuple[str, int]]]:
        return {}

    def _chunks(self, schedule: str, p: int, batches: int) -> Iterable[int]:
        """Numbers of chunks on a rank that a schedule can have."""
        rule = SCHEDULES[schedule]
        if rule.in_groups and batches % p:
            return ()
        if rule.shape == LOOP:
            return range(2, self.units // p + 1) if p > 1 else ()
        if rule.shape == V_SHAPE:
            return (2,) if p > 1 and 2 * p <= self.units and NONE in self.words else ()
        return (1,)

    @cached_property
    def sizes(self) -> Column:
        """Number of choices (schedule and chunks) of each family."""
        batches = self.problem.batch // (self.columns["data"] * self.columns["micro_batch"])
        pairs, index = np.unique(np.stack([self.columns["pipeline"], batches]), axis=1, return_inverse=True)
        counts = np.array([len(self.ways(int(p), int(m)) * len(self.orders)) for p, m in pairs.T], np.int64)
        return counts[np.asarray(index).ravel()] if len(counts) else np.zeros(0, np.int64)

    # ---- bounds of families ---------------------------------------------------------------------------------

    @cached_property
    def key_rows(self) -> Column:
        """For each family, its row in the tables of `maker`, which depend on five of its columns."""
        columns = self.columns
        keys = zip(
            *(columns[name].tolist() for name in ("tensor", "context", "expert", "expert_tensor", "micro_batch")),
            strict=True,
        )
        return np.array([self.maker.row_of[key] for key in keys], np.int64)

    @property
    def shards(self) -> tuple[Column, Column]:
        """For each family, the ranks with the same weights, and with the same experts."""
        columns = self.columns
        shards = columns["context"] * columns["data"]
        return shards, np.maximum(1, columns["tensor"] * shards // (columns["expert"] * columns["expert_tensor"]))

    @cached_property
    def standing(self) -> dict[UnitType, Column]:
        """For each family, bytes of weights, gradients and optimizer of one unit of each type."""
        trained, frozen = (
            [self.per_zero(lambda zero, n=n, held=held: held(self.problem, zero, n)) for n in self.shards]
            for held in (state_bytes, frozen_bytes)
        )
        each = [*trained, *frozen]
        numbers = {
            name: self.maker.numbers(name, *NUMBERS[0], *NUMBERS[1])[self.key_rows].T for name in self.maker.names
        }
        return {name: sum(map(mul, own, each)) for name, own in numbers.items()}

    def per_zero(self, value: Any) -> Column:
        """For each family, what `value` gives for its ZeRO stage: a number, or a column of which it is one row."""
        zero, numbers = self.columns["zero"], np.zeros(len(self))
        for stage in self.problem.states:
            numbers = np.where(zero == stage, value(stage), numbers)
        return numbers

    def _hidden(self, what: int, pipeline: int) -> Column:
        """For each family the share of one kind of communication that it could hide with so many stages."""
        return self.per_zero(lambda zero: hidden_shares(self.problem, zero, pipeline)[what])

    @cached_property
    def bounds(self) -> tuple[Column, Column]:
        """Lower bounds of each family: seconds of an iteration, and bytes of its fullest rank."""
        seconds, held = self.ways_of_bounds
        return seconds.min(axis=1).max(axis=0), held

    @property
    def layers(self) -> tuple[UnitType, ...]:
        """The types of units that are no ends of the row."""
        return tuple(name for name in self.problem.model.counted if name not in self.ends)

    @property
    def ends(self) -> tuple[UnitType, ...]:
        """The types of units at the ends of the row; models with measured layers have none."""
        units = self.problem.model.units
        return () if self.problem.model.own else (units[0], units[-1])

    def with_efficiencies(self, own: Efficiencies) -> Space:
        """The same families on other hardware."""
        other = copy(self)
        other.problem = self.problem.replace(efficiencies=own)
        other.maker = CaseMaker(other.problem, self.maker.row_of, self.maker.words)
        for name in ("bounds", "ways_of_bounds"):
            other.__dict__.pop(name, None)
        return other

    @cached_property
    def ways_of_bounds(self) -> tuple[Any, Column]:
        """[way, type, family]: seconds of each family by two ways of counting, each a bound with the type of layer that
        takes least by it, and bytes of its fullest rank."""
        if self.problem.model.own:
            return self._measured_bounds()
        columns, maker = self.columns, self.maker
        p, batches = columns["pipeline"], self.problem.batch // (columns["data"] * columns["micro_batch"])
        shards, expert_shards = self.shards
        dense = maker.cluster.groups(columns["tensor"], shards)
        experts = maker.cluster.groups(columns["expert_tensor"] * columns["expert"], expert_shards)
        states = self.problem.states
        gradient = self.per_zero(lambda zero: gradient_bytes_of(states[zero]))
        zero, row = columns["zero"], self.key_rows
        reduced, gathered = (
            np.where(p > 1, self._hidden(what, pipeline=2), self._hidden(what, pipeline=1)) for what in (0, 1)
        )
        busy, standing, stash = (np.zeros(len(p)) for _ in range(3))
        tails = [np.zeros(len(p)) for _ in range(4)]
        first, first_forward, first_tail = (np.zeros(len(p)) for _ in range(3))
        layers: list[tuple[Column, Column]] = []
        ranks = (shards, expert_shards)
        updates = [self.per_zero(lambda zero, n=n: update_seconds(self.problem, zero, n)) for n in ranks]
        often = [self.per_zero(lambda zero, way=way: AT_THE_END[zero][way]) for way in (0, 1)]
        one_chunk = (p == 1) | all(SCHEDULES[name].shape == ROW for name in self.problem.rules.schedules)
        for (name, count), has_backward in zip(self.problem.model.counted.items(), maker.backward, strict=True):
            forward, backward = np.zeros((2, len(p)))
            for bytes_each in {gradient_bytes_of(state) for state in states.values()}:
                unit = maker.seconds(name, bytes_each)
                ways = unit.forward.sum(axis=0)[row], (unit.inputs.sum(axis=0) + unit.weights)[row]
                forward, backward = np.where(gradient == bytes_each, ways, (forward, backward))
            seconds = forward + backward
            sent, sent_experts, whole, whole_experts = maker.numbers(name, *NUMBERS[2], *NUMBERS[3])[row].T
            if self.problem.model.tied and name == "head":
                sent, whole = 0 * sent, 0 * whole  # on one rank with the embedding it is there once
            ring = dense.ring * sent + experts.ring * sent_experts
            reduce, gather = gradient * ring, HALF * ring
            in_passes = HALF * (dense.ring * whole + experts.ring * whole_experts)
            passes = np.where(zero >= 2, reduce + np.where(zero == 3, (1 + has_backward) * in_passes, 0), 0)
            hidden = np.minimum(reduced * passes, seconds)
            seconds = seconds + passes - hidden
            sums, gathers = often[0] * reduce, often[1] * gather
            update = sent * updates[0] + sent_experts * updates[1]
            busy += count * seconds
            # Of both a share is hidden, but no more than one pass of the rank takes; with several chunks on a rank all
            # of the share of gathers.
            behind = np.where(often[0], sums - backward, 0), np.where(one_chunk * often[1], gathers - forward, 0)
            ends = product(((1 - reduced) * sums, behind[0]), ((1 - gathered) * gathers, behind[1]))
            tails = [before + count * (update + sum(way)) for before, way in zip(tails, ends, strict=True)]
            tail = update + (1 - reduced) * sums + (1 - gathered) * gathers
            standing += count * self.standing[name]
            stashes = maker.bytes[name].stash
            stash += count * np.minimum.reduce([stashes[word] for word in self.words or (NONE,)])[row]
            if name == self.ends[0]:
                first, first_forward, first_tail = seconds, forward, tail
            elif name not in self.ends:
                layers.append((forward, seconds))

        def ramp(end: Column, layer: Column) -> Column:
            return np.asarray(((p - 1) * end + (p - 1) * (p - 2) / 2 * layer) / p)

        # The mean over ranks of what each has to do, of what comes before its first pass, and of what comes after its
        # last one: its own tail, or backward passes and a tail of the ranks before it. Divided passes may end later.
        layers = layers or [(np.zeros(len(p)), np.zeros(len(p)))]
        filling = [[ramp(first_forward, forward) + np.maximum.reduce(tails) / p for forward, _ in layers]]
        if not any(SCHEDULES[name].divided for name in self.problem.rules.schedules):
            filling.append([ramp(first, seconds) + first_tail for _, seconds in layers])
        fixed = WORKSPACE_BYTES + self.problem.reserve_bytes
        return batches * busy / p + np.array(filling), (standing + stash) / p + fixed

    def _measured_bounds(self) -> tuple[Any, Column]:
        """The bounds of models with measured layers: seconds of the work alone, and bytes that are always there."""
        seconds = np.zeros(len(self))
        for i in range(len(self)):
            t, b = int(self.columns["tensor"][i]), int(self.columns["micro_batch"][i])
            batches = self.problem.batch // (int(self.columns["data"][i]) * b)
            for layer in self.problem.model.own:
                time = next(x for x in layer.times if (x.tensor, x.micro_batch) == (t, b))
                seconds[i] += batches * (time.forward_seconds + time.backward_seconds)
        return (seconds / self.columns["pipeline"])[None, None], np.zeros(
            len(self)
        ) + WORKSPACE_BYTES + self.problem.reserve_bytes


def configuration(gamma: ParallelismChoice, layout: tuple[int, ...], recompute: Any = NOTHING) -> Configuration:
    """A configuration of the choice and layout, in which every chunk computes the same again."""
    again = (recompute,) * len(layout)
    return Configuration(
        gamma.degrees, gamma.micro_batch, gamma.zero, gamma.schedule, layout, again, gamma.first_pool
    )
