"""Costs of the units of one choice of degrees, micro-batch, ZeRO stage and schedule, as numbers for the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations, pairwise
from typing import TYPE_CHECKING, Any

from ...instances.physics.kernels import HALF, OWN_MOMENT, WORKSPACE_BYTES
from ...instances.physics.optimizers import GATHERED_UNITS, StateBytes, update_bytes
from ...instances.physics.schedules import SCHEDULES, V_SHAPE, ScheduleRule
from ...instances.training.frameworks import fault_of_word, hidden_shares
from ...instances.training.model import UnitType
from ...instances.training.plan import FULL, Configuration, Degrees, Recompute
from ...instances.training.problem import TrainingProblem
from .costs import Seconds, UnitSeconds, exposed
from .holds import WITH_WORDS, Bytes, UnitBytes, cached_gradients
from .keys import Keys
from .links import Cluster

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[np.float64]]

Modules = tuple[str, ...]
NONE: Modules = ()
WHOLE: Modules = (FULL,)


@dataclass(frozen=True, slots=True, order=True)
class Gamma:
    """A choice: what is decided before layout and recomputation."""

    degrees: Degrees
    micro_batch: int
    zero: int
    schedule: str

    @property
    def key(self) -> tuple[int, int, int, int, int]:
        d = self.degrees
        return d.tensor, d.context, d.expert, d.expert_tensor, self.micro_batch

    @classmethod
    def of(cls, plan: Configuration) -> Gamma:
        return cls(plan.degrees, plan.micro_batch, plan.zero, plan.schedule)

    def micro_batches(self, batch: int) -> int:
        return batch // (self.degrees.data * self.micro_batch)

    @property
    def rule(self) -> ScheduleRule:
        return SCHEDULES[self.schedule]

    @property
    def homes(self) -> tuple[int, ...]:
        return homes_of(self.schedule, self.degrees.pipeline, self.degrees.virtual)


def homes_of(schedule: str, p: int, v: int) -> tuple[int, ...]:
    """The rank of each chunk."""
    if SCHEDULES[schedule].shape == V_SHAPE:
        return (*range(p), *range(p - 1, -1, -1))
    return tuple(j % p for j in range(p * v))


def all_words(problem: TrainingProblem) -> tuple[Modules, ...]:
    """Sets of modules that the framework can compute again in this model, and whole layers."""
    names = [name for name in problem.model.modules if name in problem.rules.modules]
    words = [chosen for size in range(len(names) + 1) for chosen in combinations(names, size)]
    return (*(word for word in words if can_say(problem, Recompute(word))), WHOLE)


def can_say(problem: TrainingProblem, word: Recompute) -> bool:
    """Can the framework compute this again, under a schedule whose backward passes are whole?"""
    return fault_of_word(problem, "1f1b", word) is None


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
    gamma: Gamma
    types: Numbers
    """The bit of each unit's type."""
    timed_layers: Numbers
    """Which units count where a word holds for the first layers of a chunk, for times; and for what is kept."""
    kept_layers: Numbers
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
    """[group, (reduce, gather)]: seconds a parameter and once, see `tail_seconds`."""
    received_bytes: float
    beside_bytes: float
    """Bytes of workspace and reserve on every rank."""
    hidden_shares: tuple[float, float]
    """Shares of sums of gradients and of gathers of weights that passes hide."""
    sends: tuple[tuple[float, float], ...]
    """Seconds for each byte, and once, from each chunk to the next."""
    output_bytes: Numbers
    """What each unit sends to the next one."""
    by_word: dict[Modules, UnitCosts]

    @property
    def micro_batches(self) -> int:
        return self.gamma.micro_batches(self.problem.batch)

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
        self, problem: TrainingProblem, keys: Iterable[tuple[int, int, int, int, int]], words: Sequence[Modules]
    ) -> None:
        self.problem, self.model, self.words = problem, problem.model, tuple(words)
        rows = sorted(set(keys))
        self.row_of = {key: row for row, key in enumerate(rows)}
        self.keys = Keys.of(rows)
        self.cluster = Cluster(problem.levels, problem.efficiencies.links)
        self.units = self.model.units
        self.names: tuple[UnitType, ...] = tuple(dict.fromkeys(self.units))
        self._seconds: dict[tuple[UnitType, float], UnitSeconds] = {}

    @cached_property
    def _counter(self) -> Seconds:
        return Seconds(self.problem, self.keys, self.words)

    def seconds(self, name: UnitType, gradient_bytes: float) -> UnitSeconds:
        key = name, gradient_bytes
        if key not in self._seconds:
            self._seconds[key] = self._counter.unit(*key)
        return self._seconds[key]

    @cached_property
    def bytes(self) -> dict[UnitType, UnitBytes]:
        counter = Bytes(self.problem, self.keys, self.words)
        return {name: counter.unit(name) for name in self.names}

    @cached_property
    def sent_numbers(self) -> dict[UnitType, tuple[Any, Any]]:
        """Parameters that data-parallel ranks send each other: of products and tables, without norms."""
        import numpy as np

        model, t = self.model, self.keys.tensor
        numbers: dict[UnitType, tuple[Any, Any]] = {}
        for name in self.names:
            own, none = self.bytes[name], np.zeros(len(t))
            if name == "embedding":
                table = model.vocabulary / t * (model.embedding_size or model.hidden)
                numbers[name] = table + model.positions * model.hidden, none
            elif name == "head":
                numbers[name] = none + model.vocabulary / t * model.hidden, none
            else:
                # Those of the experts come last.
                with_experts = name == "experts" or (name == "prediction" and model.experts is not None)
                shapes = own.shapes[:-2] if with_experts else own.shapes
                usual, experts = sum((rows * columns for rows, columns in shapes), none), none
                if with_experts and model.experts is not None:
                    usual = usual + model.experts.count * model.hidden
                    grouped = sum((rows * columns for rows, columns in own.shapes[-2:]), none)
                    experts = grouped * model.experts.count / self.keys.expert
                numbers[name] = usual, experts
        return numbers

    @cached_property
    def bits(self) -> Any:
        import numpy as np

        if self.model.own:
            return np.zeros(len(self.units), np.int64)
        return np.array([1 << self.names.index(name) for name in self.units])

    # ---- one case -------------------------------------------------------------------------------------------

    def with_word(self, case: Case, word: Modules) -> UnitCosts:
        """Costs of a word, kept in the case."""
        import numpy as np

        if word not in case.by_word:
            row, plain = self.row_of[case.gamma.key], case.by_word[NONE]
            seconds = [self.seconds(name, self._gradient_bytes(case)) for name in self.names]
            kept = [self.bytes[name] for name in self.names]
            again = np.array([own.again[word][row] for own in seconds])[self.positions]
            columns = [
                np.array([getattr(own, part)[word][row] for own in kept])[self.positions]
                for part in ("stash", "moment", "for_weights")
            ]
            case.by_word[word] = UnitCosts(plain.forward, plain.inputs, plain.weights, again, *columns)
        return case.by_word[word]

    def _gradient_bytes(self, case: Case) -> float:
        return gradient_bytes_of(self.problem.states[case.gamma.zero])

    @cached_property
    def positions(self) -> list[int]:
        """The type of each unit, by number."""
        return [self.names.index(name) for name in self.units]

    def case(self, gamma: Gamma, words: Iterable[Modules] | None = None) -> Case:
        """All of one choice, for these words."""
        import numpy as np

        row = -1 if self.model.own else self.row_of[gamma.key]
        states = self.problem.states[gamma.zero]
        tail = self.tails(gamma)
        if self.model.own:
            return self._own_case(gamma, states, tail)
        problem, names = self.problem, self.names
        positions = self.positions
        shards = self.shards(gamma)
        usual = np.array([self.bytes[name].usual[row] for name in names])
        experts = np.array([self.bytes[name].experts[row] for name in names])
        sent = np.array([[column[row] for column in self.sent_numbers[name]] for name in names])
        each = self.state_bytes(states, shards)
        standing = usual * each[0] + experts * each[1]
        rates = self.update_rates(gamma, states, shards)
        hidden = HALF * float(self._tokens_between[row]) * self.model.hidden
        given = self.words if words is None else tuple(words)
        columns = {word: self._columns(gamma, states, row, word, sent, tail) for word in given}
        return Case(
            problem,
            gamma,
            self.bits,
            np.array([name in ("dense", "experts", "own") for name in self.units]),
            np.array([name in WITH_WORDS for name in self.units]),
            standing[positions],
            (GATHERED_UNITS * states.gathered * (usual + experts))[positions],
            self._masks(row, each[0]),
            sent[positions],
            (sent @ rates)[positions],
            rates,
            tail,
            hidden,
            WORKSPACE_BYTES + problem.reserve_bytes,
            hidden_shares(problem, gamma.zero, gamma.degrees.pipeline),
            self.sends(gamma),
            np.full(len(self.units), hidden),
            {word: UnitCosts(*(column[positions] for column in own)) for word, own in columns.items()},
        )

    def _columns(
        self, gamma: Gamma, states: StateBytes, row: int, word: Modules, sent: Any, tail: Any
    ) -> list[Any]:
        import numpy as np

        own = [self.seconds(name, gradient_bytes_of(states)) for name in self.names]
        forward = np.array([one.forward[row] for one in own])
        inputs = np.array([one.inputs[row] for one in own])
        weights = np.array([one.weights[row] for one in own])
        if gamma.zero >= 2:
            more = self.in_passes(gamma, sent, tail, forward, inputs + weights)
            forward, inputs = forward + more[0], inputs + more[1]
        kept = [self.bytes[name] for name in self.names]
        again = np.array([one.again[word][row] for one in own])
        held = [
            np.array([getattr(one, part)[word][row] for one in kept]) for part in ("stash", "moment", "for_weights")
        ]
        return [forward, inputs, weights, again, *held]

    def in_passes(self, gamma: Gamma, sent: Any, tail: Any, forward: Any, backward: Any) -> tuple[Any, Any]:
        """What is sent in every pass of a unit, where gradients or weights are divided."""
        reduced, gathered = hidden_shares(self.problem, gamma.zero, gamma.degrees.pipeline)
        there = sent > 0
        reduce = (sent * tail[:, 0] + there * tail[:, 2]).sum(axis=1)
        gather = (sent * tail[:, 1] + there * tail[:, 2]).sum(axis=1) * (gamma.zero == 3)
        return exposed(gather, gathered, forward), exposed(gather + reduce, reduced, backward)

    def shards(self, gamma: Gamma) -> tuple[int, int]:
        """Ranks with the same weights, and with the same experts."""
        d = gamma.degrees
        return d.context * d.data, max(1, d.stage_ranks // (d.expert * d.expert_tensor))

    def state_bytes(self, states: StateBytes, shards: tuple[int, int]) -> tuple[float, float]:
        """Bytes of states for one usual parameter and for one parameter of experts, on each rank."""
        eight = float(self.problem.fp8_weight_copy and self.problem.precision == "fp8")
        usual, experts = (
            states.weights.on(count) + states.gradients.on(count) + states.optimizer.on(count) + eight
            for count in shards
        )
        return usual, experts

    def update_rates(self, gamma: Gamma, states: StateBytes, shards: tuple[int, int]) -> Any:
        """Seconds of the update for one parameter of each group."""
        import numpy as np

        rate = self.problem.efficiencies.memory * self.problem.gpu.memory_rate
        gradient = gradient_bytes_of(states)
        moved = update_bytes(self.problem.optimizer)
        size = [
            moved / (count if gamma.zero else 1) + gradient / (count if gamma.zero >= 2 else 1) for count in shards
        ]
        return np.array(size) / rate

    def tails(self, gamma: Gamma) -> Any:
        """[group, (gradients, weights, latency)]: seconds a parameter for one ring of each, and once."""
        import numpy as np

        d = gamma.degrees
        counts = self.shards(gamma)
        gradient = gradient_bytes_of(self.problem.states[gamma.zero])
        rows = []
        for stride, count in zip((d.tensor, d.expert_tensor * d.expert), counts, strict=True):
            groups = self.cluster.groups(stride, count)
            rows.append((float(groups.ring) * gradient, float(groups.ring) * HALF, float(groups.latency)))
        return np.array(rows)

    def _masks(self, row: int, each: float) -> Any:
        """Bytes for every set of types: cached gradients, and a copy of the table of words without the embedding."""
        if row not in self._known_masks:
            self._known_masks[row] = self._two_masks(row)
        gradients, tables = self._known_masks[row]
        return gradients + tables * each

    def _two_masks(self, row: int) -> tuple[Any, Any]:
        """Bytes of cached gradients, and parameters of copied tables."""
        import numpy as np

        gradients, tables = np.zeros(1 << len(self.names)), np.zeros(1 << len(self.names))
        table = self.model.vocabulary / self.keys.tensor[row] * (self.model.embedding_size or self.model.hidden)
        for mask in range(1, len(gradients)):
            names = [name for i, name in enumerate(self.names) if mask >> i & 1]
            if self.problem.rules.cached_gradients:
                shapes = [(_at(a, row), _at(b, row)) for name in names for a, b in self.bytes[name].shapes]
                gradients[mask] = cached_gradients(shapes)
            reads = ("head" in names and self.model.tied) or "prediction" in names
            if reads and "embedding" not in names:
                tables[mask] = table
        return gradients, tables

    @cached_property
    def _known_masks(self) -> dict[int, tuple[Any, Any]]:
        return {}

    @cached_property
    def _tokens_between(self) -> Any:
        return self.keys.tokens_between(self.problem)

    def sends(self, gamma: Gamma) -> tuple[tuple[float, float], ...]:
        """Seconds for each byte, and once, of messages between chunks that follow each other."""
        homes, ranks = gamma.homes, gamma.degrees.stage_ranks
        seen = 1 - self.problem.efficiencies.pipeline_hidden
        costs = []
        for a, b in pairwise(homes):
            each, once = self.cluster.message(a * ranks, b * ranks)
            costs.append((seen * each, seen * once))
        return tuple(costs)

    def _own_case(self, gamma: Gamma, states: StateBytes, tail: Any) -> Case:
        """The case of a model whose layers have measured times."""
        import numpy as np

        own, problem, d = self.model.own, self.problem, gamma.degrees
        shards = self.shards(gamma)
        numbers = np.array([layer.parameters / d.tensor for layer in own])
        times = [measured(layer.times, d.tensor, gamma.micro_batch) for layer in own]
        forward = np.array([scale * time.forward_seconds for time, scale in times])
        backward = np.array([scale * time.backward_seconds for time, scale in times])
        inputs = weights = backward / 2
        sent = np.stack([numbers, 0 * numbers], axis=1)
        full = forward
        if gamma.zero >= 2:
            more = self.in_passes(gamma, sent, tail, forward, backward)
            forward, inputs = forward + more[0], inputs + more[1]
        stash = np.array([layer.stash_bytes * gamma.micro_batch / d.tensor for layer in own])
        yes = np.ones(len(own), bool)
        return Case(
            problem,
            gamma,
            self.bits,
            yes,
            yes,
            numbers * self.state_bytes(states, shards)[0],
            GATHERED_UNITS * states.gathered * numbers,
            np.zeros(1),
            sent,
            np.array([time.update_seconds for time, _ in times]),
            np.zeros(2),
            tail,
            0.0,
            WORKSPACE_BYTES + problem.reserve_bytes,
            hidden_shares(problem, gamma.zero, gamma.degrees.pipeline),
            self.sends(gamma),
            np.array([gamma.micro_batch * layer.output_bytes for layer in own]),
            {
                word: UnitCosts(
                    forward, inputs, weights, full * bool(word), stash, (1 + OWN_MOMENT) * stash, stash / 2
                )
                for word in (NONE, WHOLE)
            },
        )

    def has_times(self, tensor: int) -> bool:
        """Was every layer measured at this degree? Shapes have times for all."""
        return all(any(time.tensor == tensor for time in layer.times) for layer in self.model.own)


def measured(times: Iterable[Any], tensor: int, micro_batch: int) -> tuple[Any, float]:
    """The times of the nearest measured micro-batch, and how often that fits into the one that is asked for."""
    of_degree = [time for time in times if time.tensor == tensor]
    nearest = min(of_degree, key=lambda time: (abs(time.micro_batch - micro_batch), time.micro_batch))
    return nearest, micro_batch / nearest.micro_batch


def gradient_bytes_of(states: StateBytes) -> float:
    return states.gradients.whole + states.gradients.shared


def _at(value: Any, row: int) -> float:
    return float(value) if not hasattr(value, "shape") or value.shape == () else float(value[row])
