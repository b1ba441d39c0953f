"""Costs of the units of one choice of degrees, micro-batch, ZeRO stage and schedule, as numbers.

The search asks for thousands of choices and the referee for one: a choice takes its row of the tables of units.
Communication among ranks with the same weights, and the update, are here as well:

    P       parameters of the unit in products and tables, those of experts apart: `sent` in `unit_costs`
    groups  stride t and c d ranks; of experts stride t_e e and t c d / (t_e e) ranks; `gather` as in `unit_costs`
    zero 0  all-reduce of g P bytes, g those of a gradient
    zero 1  gather of g P bytes (reduce-scatter) and of 2 P bytes (all-gather)
            frameworks with `tensors_per_layer` give every rank all sums: an all-reduce of g P bytes, and the gather
    zero 2  the first one in every backward pass of every unit, the second one as above
    zero 3  2 P bytes forward, and 2 P and g P bytes backward, in every pass of every unit
    frozen  units without a backward pass gather nothing in it
    adapters  P is that of adapters alone but for the weights that are gathered in passes; frozen weights have neither
            gradients nor optimizer
    update  (34 P / n + g P) / (memory rate), n the ranks of the group from zero 1 on, else 1; g P / n from zero 2 on

With `tensors_per_layer` a rank of p stages has count = tensors_per_layer x layers / p of them, layers of an encoder
included. Without ZeRO each is
summed by itself, in a ring in which every rank waits for the one before: count (latency + (n - 1) alpha) in place of
each latency, alpha that of the lowest level. With ZeRO each rank's part of each is copied before and after the gather:
count (n - 1) launch_seconds for either.

A share data_hidden of what the framework can hide (`frameworks`) is hidden, though no more than there is to hide it
behind: in the passes of a unit that pass itself, recomputation not included; what is left belongs to the forward pass
and to the pass for inputs. Where backward passes are divided it is hidden behind the pass for inputs alone, since the
one for weights may run at another time. At the end of an iteration it is hidden behind passes of the rank
(`iteration.py`).

Layers with measured times take those of their tensor degree and the nearest micro-batch (the smaller one of two), in
proportion to the micro-batch; half of their backward pass is for weights, whatever recomputation is asked for runs all
forward, and their update takes their own seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from ..base.errors import InputError
from ..physics.efficiencies import HALF, OWN_MOMENT, WORKSPACE_BYTES
from ..physics.optimizers import GATHERED_UNITS, StateBytes, update_bytes
from ..physics.schedules import SCHEDULES, ScheduleRule
from .frameworks import hidden_shares
from .model import MeasuredTime, OwnLayer, UnitType
from .plan import FULL, Configuration, Degrees, chunks_of_ranks
from .problem import TrainingProblem
from .unit_bytes import BytesOfUnits, UnitBytes
from .unit_costs import (
    LAYERS,
    PARTS,
    Cluster,
    Keys,
    SecondsOfUnits,
    UnitParameters,
    UnitSeconds,
    exposed,
    table_parameters,
    unit_parameters,
)

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[np.float64]]

Modules = tuple[str, ...]
NONE: Modules = ()
WHOLE: Modules = (FULL,)
# Columns of `Case.parts`: the last one of `PARTS`, and behind them exposed communication of weights and gradients, and
# measured times.
HOST, DATA, MEASURED = len(PARTS) - 1, len(PARTS), len(PARTS) + 1


# Properties of `UnitParameters`, each as it is and of experts.
NUMBERS = (
    ("trained", "trained_experts"),
    ("frozen", "frozen_experts"),
    ("sent", "sent_experts"),
    ("gathered", "shared_experts"),
)


@dataclass(frozen=True, slots=True, order=True)
class ParallelismChoice:
    """Degrees, micro-batch, ZeRO stage and schedule, which are chosen before layout and recomputation."""

    degrees: Degrees
    micro_batch: int
    zero: int
    schedule: str
    first_pool: int = 1

    @property
    def key(self) -> tuple[int, int, int, int, int]:
        d = self.degrees
        return d.tensor, d.context, d.expert, d.expert_tensor, self.micro_batch

    @classmethod
    def of(cls, plan: Configuration) -> ParallelismChoice:
        return cls(plan.degrees, plan.micro_batch, plan.zero, plan.schedule, plan.first_pool)

    def micro_batches(self, batch: int) -> int:
        return batch // (self.degrees.data * self.micro_batch)

    @property
    def rule(self) -> ScheduleRule:
        return SCHEDULES[self.schedule]

    @property
    def homes(self) -> tuple[int, ...]:
        """The rank of each chunk."""
        ranks = enumerate(chunks_of_ranks(self.schedule, self.degrees.pipeline, self.degrees.virtual))
        return tuple(rank for _, rank in sorted((j, rank) for rank, own in ranks for j in own))

    @property
    def shards(self) -> tuple[int, int]:
        """Ranks with the same weights, and with the same experts."""
        d = self.degrees
        return d.context * d.data, max(1, d.stage_ranks // (d.expert * d.expert_tensor))


@dataclass(frozen=True)
class UnitCosts:
    """Costs of each unit of the row: seconds of its passes for one micro-batch and of what they compute again, bytes of
    its stash, of its fullest moment, and of the part of the stash that gradients of weights need."""

    forward: Numbers
    inputs: Numbers
    weights: Numbers
    again: Numbers
    stash: Numbers
    moment: Numbers
    for_weights: Numbers


@dataclass(frozen=True)
class Case:
    """One choice, with all that a layout's time and memory are made of."""

    problem: TrainingProblem
    gamma: ParallelismChoice
    types: Numbers
    """The bit of each unit's type."""
    layers: Numbers
    """Which units count where a word holds for the first layers of a chunk."""
    standing: Numbers
    """Bytes of weights, gradients and optimizer of each unit."""
    gathered: Numbers
    """Bytes that a unit's whole weights take while it runs."""
    masks: Numbers
    """Bytes that types on a rank take together: cached gradients, and a copy of the embedding's table."""
    sent: Numbers
    """[unit, group]: parameters that data-parallel ranks send each other, those of experts apart."""
    update: Numbers
    """Seconds of the update of each unit."""
    update_rates: Numbers
    """The same for one parameter of each group."""
    tail: Numbers
    """[group, (gradients, weights, latency)]: seconds a parameter for one ring of each, and once."""
    received_bytes: float
    hidden_shares: tuple[float, float]
    """Shares of sums of gradients and of gathers of weights that passes hide."""
    sends: tuple[tuple[float, float], ...]
    """Seconds for each byte, and once, from each chunk to the next."""
    output_bytes: Numbers
    """What each unit sends to the next one."""
    parts: tuple[Any, Any]
    """[type of unit, part]: seconds of the forward pass and of that for inputs, as `PARTS` has them, and then exposed
    communication of weights and gradients, and measured times."""
    weights: Numbers
    """Seconds of each unit's pass for weights."""
    by_word: dict[Modules, UnitCosts]

    @property
    def micro_batches(self) -> int:
        return self.gamma.micro_batches(self.problem.batch)

    @property
    def beside_bytes(self) -> float:
        """Bytes of workspace and reserve on every rank."""
        return WORKSPACE_BYTES + self.problem.reserve_bytes

    def delays_of(self, layout: Sequence[int]) -> list[float]:
        """Seconds of a message between each two chunks that follow each other."""
        ends = [end - 1 for end in accumulate(layout)]
        return [
            each * float(self.output_bytes[end]) + once for (each, once), end in zip(self.sends, ends, strict=False)
        ]

    @property
    def alike_outputs(self) -> bool:
        """Do messages take the same time, whatever the layout is?"""
        return bool((self.output_bytes[:-1] == self.output_bytes[0]).all())


class CaseMaker:
    """Costs of every type of unit for all keys at once; a case takes its row."""

    def __init__(
        self,
        problem: TrainingProblem,
        keys: Iterable[tuple[int, int, int, int, int]],
        words: Sequence[Modules],
        whole: TrainingProblem | None = None,
    ) -> None:
        """`whole`: the problem with GPUs of two sorts, of which `problem` has one."""
        self.problem, self.model, self.words = problem, problem.model, tuple(words)
        self.whole = problem if whole is None else whole
        rows = sorted(set(keys))
        self.row_of = {key: row for row, key in enumerate(rows)}
        self.keys = Keys.of(rows)
        self.cluster = Cluster(problem.levels, problem.efficiencies)
        self.units = self.model.units
        self.names: tuple[UnitType, ...] = tuple(dict.fromkeys(self.units))
        own = range(len(self.units)) if self.model.own else map(self.names.index, self.units)
        self.positions = list(own)
        """The type of each unit, by number; every measured layer has a type of its own."""
        self._seconds: dict[tuple[UnitType, float], UnitSeconds] = {}
        self._masks: dict[int, Any] = {}

    def seconds(self, name: UnitType, gradient_bytes: float) -> UnitSeconds:
        key = name, gradient_bytes
        if key not in self._seconds:
            counter = SecondsOfUnits(self.problem, self.keys, gradient_bytes, self.words)
            self._seconds[key] = counter.unit(name)
        return self._seconds[key]

    @cached_property
    def bytes(self) -> dict[UnitType, UnitBytes]:
        counter = BytesOfUnits(self.problem, self.keys, self.words)
        return {name: counter.unit(name) for name in self.names}

    @cached_property
    def parameters(self) -> dict[UnitType, UnitParameters]:
        rank = self.problem.adapter_rank
        return {
            name: unit_parameters(self.model, self.keys, name, rank, frozen=self.problem.only_forward(name))
            for name in self.names
        }

    def numbers(self, name: UnitType, *columns: str) -> Any:
        """[row, column]: these properties of the unit's parameters."""
        import numpy as np

        return np.stack([0.0 * self.keys.tensor + getattr(self.parameters[name], one) for one in columns], axis=1)

    @cached_property
    def _all_numbers(self) -> tuple[Any, ...]:
        import numpy as np

        return tuple(np.stack([self.numbers(name, *pair) for name in self.names], axis=1) for pair in NUMBERS)

    # ---- types of units for one choice ----------------------------------------------------------------------

    def numbers_of(self, gamma: ParallelismChoice) -> tuple[Any, ...]:
        """[type, group] for each of `NUMBERS`: parameters on a rank that are trained, that are frozen, whose gradients
        data-parallel ranks send each other, and whose weights they gather in passes."""
        import numpy as np

        if not self.model.own:
            return tuple(numbers[self.row_of[gamma.key]] for numbers in self._all_numbers)
        own = np.array([[layer.parameters / gamma.degrees.tensor, 0.0] for layer in self.model.own])
        return own, 0.0 * own, own, own

    def kept_of(
        self, gamma: ParallelismChoice, word: Modules
    ) -> list[tuple[float, float, list[tuple[float, float]]]]:
        """For each type the bytes of its stash, the part of it that gradients of weights need, and the moments of its
        way back: what of the stash is still kept, and what is there besides."""
        if not self.model.own:
            row, kept = self.row_of[gamma.key], [self.bytes[name] for name in self.names]
            return [
                (
                    float(own.stash[word][row]),
                    float(own.for_weights[word][row]),
                    [(float(left[row]), float(beside[row])) for left, beside in own.moments[word]],
                )
                for own in kept
            ]
        stashes = [layer.stash_bytes * gamma.micro_batch / gamma.degrees.tensor for layer in self.model.own]
        return [(stash, stash / 2, [(stash, OWN_MOMENT * stash)]) for stash in stashes]

    def _passes(self, gamma: ParallelismChoice) -> tuple[Any, Any, Any]:
        """[type, part] of the forward pass and of that for inputs, as `Case.parts`, and [type] of that for weights."""
        import numpy as np

        forward, inputs = np.zeros((2, max(self.positions) + 1, len(PARTS) + 2))
        if self.model.own:
            times = [measured_time(layer, gamma.degrees.tensor, gamma.micro_batch) for layer in self.model.own]
            forward[:, MEASURED] = [scale * time.forward_seconds for time, scale in times]
            inputs[:, MEASURED] = [scale * time.backward_seconds / 2 for time, scale in times]
            return forward, inputs, inputs[:, MEASURED].copy()
        row, own = self.row_of[gamma.key], self._seconds_of(gamma)
        forward[:, :DATA] = [one.forward[:, row] for one in own]
        inputs[:, :DATA] = [one.inputs[:, row] for one in own]
        weights = np.array([one.weights[row] for one in own])
        host = np.array([one.host[:, row] + self._in_step(gamma) * one.late[:, row] for one in own]).T
        forward[:, HOST] = np.maximum(0, host[0] - forward[:, :HOST].sum(axis=1))
        behind = weights * (not gamma.rule.divided)
        inputs[:, HOST] = np.maximum(0, host[1] - inputs[:, :HOST].sum(axis=1) - behind)
        return forward, inputs, weights

    def _in_step(self, gamma: ParallelismChoice) -> bool:
        """Does the host wait for messages between nodes?"""
        return self.problem.rules.in_step and gamma.degrees.pipeline > 1 and len(self.problem.levels) > 1

    def _seconds_of(self, gamma: ParallelismChoice) -> list[UnitSeconds]:
        gradient = gradient_bytes_of(self.problem.states[gamma.zero])
        return [self.seconds(name, gradient) for name in self.names]

    # ---- one case -------------------------------------------------------------------------------------------

    def with_word(self, case: Case, word: Modules) -> UnitCosts:
        """Costs of a word, kept in the case."""
        import numpy as np

        if word not in case.by_word:
            gamma, at = case.gamma, self.positions
            forward, inputs = (way.sum(axis=1)[at] for way in case.parts)
            again = case.parts[0][at, MEASURED] * bool(word)
            if not self.model.own:
                again = np.array([own.again[word][self.row_of[gamma.key]] for own in self._seconds_of(gamma)])[at]
            kept = self.kept_of(gamma, word)
            stash, for_weights = (np.array([own[i] for own in kept])[at] for i in (0, 1))
            moment = np.array([max(map(sum, moments)) for _, _, moments in kept])[at]
            case.by_word[word] = UnitCosts(forward, inputs, case.weights, again, stash, moment, for_weights)
        return case.by_word[word]

    def case(self, gamma: ParallelismChoice, words: Iterable[Modules] | None = None) -> Case:
        """All of one choice, for these words."""
        import numpy as np

        problem, own, at = self.problem, self.model.own, self.positions
        states, shares = problem.states[gamma.zero], hidden_shares(problem, gamma.zero, gamma.degrees.pipeline)
        (trained, frozen, sent, whole), tail = self.numbers_of(gamma), self.tails(gamma)
        rates = np.array([update_seconds(problem, gamma.zero, count) for count in gamma.shards])
        forward, inputs, weights = self._passes(gamma)
        if gamma.zero >= 2:
            reduce, gather = (own @ tail[:, way] + (own > 0) @ tail[:, 2] for way, own in enumerate((sent, whole)))
            gather = gather * (gamma.zero == 3)
            forward[:, DATA] = exposed(gather, shares[1], forward.sum(axis=1))
            behind = inputs.sum(axis=1) + weights * (not gamma.rule.divided)
            inputs[:, DATA] = exposed(gather * self.backward + reduce, shares[0], behind)
        update, row = sent @ rates, 0 if own else self.row_of[gamma.key]
        received = 0.0 if own else float(self._messages[row])
        output = np.full(len(self.units), received)
        if own:
            times = [measured_time(layer, gamma.degrees.tensor, gamma.micro_batch)[0] for layer in own]
            update, rates = np.array([time.update_seconds for time in times]), np.zeros(2)
            output = np.array([gamma.micro_batch * layer.output_bytes for layer in own])
        case = Case(
            problem,
            gamma,
            np.zeros(len(own), np.int64) if own else np.array([1 << position for position in at]),
            np.array([name in LAYERS for name in self.units]),
            sum(
                numbers @ np.array([each(problem, gamma.zero, count) for count in gamma.shards])
                for numbers, each in ((trained, state_bytes), (frozen, frozen_bytes))
            )[at],
            (GATHERED_UNITS * states.gathered * (trained + frozen).sum(axis=1))[at],
            np.zeros(1) if own else self._masks_of(gamma, row),
            sent[at],
            update[at],
            rates,
            tail,
            received,
            shares,
            self.sends(gamma),
            output,
            (forward, inputs),
            weights[at],
            {},
        )
        for word in self.words if words is None else words:
            self.with_word(case, word)
        return case

    def tails(self, gamma: ParallelismChoice) -> Any:
        """[group, (gradients, weights, latency)]: seconds a parameter for one ring of each, and once."""
        import numpy as np

        d, gradient = gamma.degrees, gradient_bytes_of(self.problem.states[gamma.zero])
        groups = self.cluster.groups(np.array([d.tensor, d.expert_tensor * d.expert]), np.array(gamma.shards))
        latency, tensors = groups.latency, self.problem.rules.tensors_per_layer
        if tensors is not None:
            count, hops = tensors * self.model.transformer_layers / d.pipeline, np.array(gamma.shards) - 1
            if gamma.zero:
                gradient, latency = 2 * gradient, latency + count * hops * self.problem.efficiencies.launch_seconds
            else:
                latency = count * (latency + hops * self.problem.levels[0].latency_seconds)
        return np.stack([groups.ring * gradient, groups.ring * HALF, latency], axis=1)

    def sends(self, gamma: ParallelismChoice) -> tuple[tuple[float, float], ...]:
        """Seconds for each byte, and once, of messages between chunks that follow each other."""
        sorts = self.whole.sorts(gamma.degrees.pipeline, gamma.first_pool)
        return tuple(self._send(sorts, gamma.degrees.stage_ranks, a, b) for a, b in pairwise(gamma.homes))

    def _send(self, sorts: tuple[int, ...], ranks: int, a: int, b: int) -> tuple[float, float]:
        """The same from stage a to stage b. Between two sorts of GPUs collectives' shares are the smaller ones."""
        sort, link = sorts[a], self.whole.second
        rates = [self.whole.pools[i].efficiencies for i in {sort, sorts[b]}]
        seen = 1 - min(own.pipeline_hidden for own in rates)
        if link is not None and len(rates) > 1:
            share = min(own.links * own.network for own in rates)
            return seen / (share * link.bandwidth), seen * link.latency_seconds
        first = sorts.index(sort)
        each, once = self._clusters[sort].message((a - first) * ranks, (b - first) * ranks)
        return seen * each, seen * once

    @cached_property
    def _clusters(self) -> tuple[Cluster, ...]:
        return tuple(Cluster(pool.levels, pool.efficiencies) for pool in self.whole.pools)

    @cached_property
    def _messages(self) -> Any:
        """[row]: bytes that stages send each other, all as many as the largest message."""
        import numpy as np

        sent = HALF * self.keys.tokens_between(self.problem) * self.model.hidden
        if self.model.encoder is None:
            return sent
        own = self.problem.of_encoder
        return np.maximum(sent, HALF * self.keys.tokens_between(own) * own.model.hidden)

    @cached_property
    def backward(self) -> Any:
        """[type]: has this type of unit a backward pass?"""
        import numpy as np

        return np.array([not self.problem.only_forward(name) for name in self.names])

    # ---- what types on a rank have together -----------------------------------------------------------------

    def _masks_of(self, gamma: ParallelismChoice, row: int) -> Any:
        """Bytes for every set of types: cached gradients, and a copy of the table of words without the embedding."""
        import numpy as np

        if row not in self._masks:
            sets = [
                [name for i, name in enumerate(self.names) if mask >> i & 1] for mask in range(1 << len(self.names))
            ]
            self._masks[row] = np.array([self.together(names, row) for names in sets]).T
        gradients, tables = self._masks[row]
        each = state_bytes if self.problem.adapter_rank is None else frozen_bytes
        return gradients + tables * each(self.problem, gamma.zero, gamma.shards[0])

    def together(self, names: Sequence[UnitType], row: int) -> tuple[float, float]:
        """Bytes of one buffer for each shape of weights, however many layers have it; and parameters of a copy of the
        table of words, where a head or a prediction reads it whose embedding is on another rank."""
        gradients = 0.0
        if self.problem.rules.cached_gradients:
            own = [self.parameters[name] for name in names if self.parameters[name].adapters is None]
            pairs = [pair for one in own for pair in (*one.shapes, *one.expert_shapes)]
            shapes = {(_at(rows, row), _at(columns, row)) for rows, columns in pairs}
            gradients = HALF * sum(rows * columns for rows, columns in sorted(shapes))
        if "embedding" in names or not (("head" in names and self.model.tied) or "prediction" in names):
            return gradients, 0.0
        return gradients, table_parameters(self.model, float(self.keys.tensor[row]))


def measured_time(layer: OwnLayer, tensor: int, micro_batch: int) -> tuple[MeasuredTime, float]:
    """The entry with that tensor degree and the nearest micro-batch, and by how much to multiply it."""
    entries = [entry for entry in layer.times if entry.tensor == tensor]
    if not entries:
        have = ", ".join(str(x) for x in sorted({entry.tensor for entry in layer.times}))
        raise InputError(
            "degrees.tensor", f"is {tensor}, for which {layer.name} was not measured", f"give one of {have}"
        )
    entry = min(entries, key=lambda entry: (abs(entry.micro_batch - micro_batch), entry.micro_batch))
    return entry, micro_batch / entry.micro_batch


# How often gradients are added up and weights gathered after the last pass, by ZeRO stage.
AT_THE_END: Mapping[int, tuple[int, int]] = {0: (2, 0), 1: (1, 1), 2: (0, 1), 3: (0, 0)}


def state_bytes(problem: TrainingProblem, zero: int, shards: Any) -> Any:
    """Bytes of weights, gradients and optimizer for one parameter that so many ranks have alike; also in columns."""
    states: StateBytes = problem.states[zero]
    eight = float(problem.fp8_weight_copy and problem.precision == "fp8")
    return sum(state.on(shards) for state in (states.weights, states.gradients, states.optimizer)) + eight


def frozen_bytes(problem: TrainingProblem, zero: int, shards: Any) -> Any:
    """Bytes of one parameter that is not trained: its weight alone."""
    eight = float(problem.fp8_weight_copy and problem.precision == "fp8")
    return problem.states[zero].weights.on(shards) + eight


def update_seconds(problem: TrainingProblem, zero: int, shards: Any) -> Any:
    """Seconds of the update for one parameter that so many ranks have alike; also in columns.

    The search bounds families by it; an oracle among the tests writes the formula anew.
    """
    gradient, moved = gradient_bytes_of(problem.states[zero]), update_bytes(problem.optimizer)
    size = moved / (shards if zero else 1) + gradient / (shards if zero >= 2 else 1)
    return size / (problem.efficiencies.memory * problem.gpu.memory_rate)


def words_of_chunk(problem: TrainingProblem, plan: Configuration, chunk: int) -> Iterator[tuple[int, Modules]]:
    """Positions of the units of a chunk, each with the modules that it computes again."""
    units, layer = problem.model.units, 0
    for position in plan.intervals[chunk]:
        is_layer = units[position] in LAYERS
        yield position, plan.recompute[chunk].of_layer(layer) if is_layer else NONE
        layer += is_layer


def gradient_bytes_of(states: StateBytes) -> float:
    return states.gradients.whole + states.gradients.shared


def _at(value: Any, row: int) -> float:
    return float(value[row]) if getattr(value, "shape", ()) else float(value)
