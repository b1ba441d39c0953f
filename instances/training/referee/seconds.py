"""How long an iteration takes: the makespan of its simulated schedule, and what each rank spends on what.

A chunk's passes take what its units take (`work`). They run in the order that the schedule's name says, in the
simulator that all kinds share. Between stages that lie on different ranks there are delays, for sending 2 h S1 bytes
(measured layers: what the last one sends) from the first GPU of one stage to the first of the other, on the lowest
level that has both: (bytes / (links x bandwidth) + alpha) (1 - pipeline_hidden). Backward passes have recomputation
before them; where they come in two parts it belongs to the first.

After its last pass a rank adds up gradients with the others that have its weights, and updates its part of them:

    P       weights of the rank: N K for every product that `work` lists, those of experts apart; V / t x (size of the
            tables, or h) and positions x h for an embedding; a prediction has no head of its own; where the head's
            weight is that of the embedding and both lie on the rank, once; a measured layer's parameters / t
    groups  stride t and c d ranks; of experts stride t_e e and t c d / (t_e e) ranks; `gather` as in `work`
    zero 0  all-reduce of g P bytes, g those of a gradient
    zero 1  gather of g P bytes (reduce-scatter) and of 2 P bytes (all-gather)
    zero 2  the first one in every backward pass of every unit, the second one as above
    zero 3  2 P bytes forward, and 2 P and g P bytes backward, in every pass of every unit
    update  (34 P / n + g P) / (memory rate), n the ranks of the group from zero 1 on, else 1; g P / n from zero 2 on;
            measured layers: the sum of their own seconds instead

A share data_hidden of what the framework can hide (`frameworks`) is hidden, though no more than there is to hide it
behind: for gathers of weights at the end the rank's forward passes of one micro-batch, for gradients at the end its
backward passes of one micro-batch, recomputation included; in the passes of a unit that pass itself, recomputation
not included. What is left belongs to the forward pass and to the pass for inputs.

    seconds = max over ranks (end of its last pass + what is left of communication + update) + step_seconds

The model's operations, by which the MFU is counted: three times those of all products and of attention forward (half
of its matrix where a token sees all before it), for all tokens; recomputation is not counted. MFU = operations /
(seconds x GPUs x peak of the problem's number format).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from ...physics.kernels import HALF
from ...physics.optimizers import update_bytes
from ...physics.schedules import SCHEDULES
from ...timeline.engine import run
from ...timeline.model import Dependency, Pipeline, Stage, check_tasks
from ...timeline.model import Pass as StagePass
from ..frameworks import hidden_shares
from ..model import UnitType
from ..plan import NOTHING as NO_RECOMPUTATION
from ..plan import Configuration, Degrees
from ..problem import TrainingProblem
from .steady import LISTED, ends_of_gpipe, ends_of_ranks
from .work import (
    PART_NAMES,
    Attend,
    Clock,
    Links,
    Module,
    PassTimes,
    Product,
    Shapes,
    exposed,
    measured_time,
    sum_of,
)


@dataclass(frozen=True, slots=True)
class RankTime:
    """What one rank of each pipeline stage spends, in seconds of one iteration; together they are the iteration."""

    products: float = 0.0
    attention: float = 0.0
    memory: float = 0.0
    """Norms, activations and other traffic."""
    tensor: float = 0.0
    context: float = 0.0
    expert: float = 0.0
    pipeline: float = 0.0
    """Waiting for what other stages send."""
    data: float = 0.0
    optimizer: float = 0.0
    recomputation: float = 0.0
    measured: float = 0.0
    """Passes of layers with measured times."""
    idle: float = 0.0

    @property
    def busy(self) -> float:
        """Seconds of the passes alone, without sums of gradients, the update and waiting."""
        passes = ("products", "attention", "memory", "tensor", "context", "expert", "recomputation", "measured")
        return sum(float(getattr(self, name)) for name in passes)


@dataclass(frozen=True, slots=True)
class Timing:
    """Times and rates of one iteration."""

    seconds: float
    tokens_per_second_per_gpu: float
    mfu: float | None
    """Share of the GPUs' peak that is used; None: the operations of measured layers are not known."""
    ranks: tuple[RankTime, ...]
    """The load of a rank of each pipeline stage."""
    chunks: tuple[PassTimes, ...]
    """Times of one micro-batch through each chunk."""
    delays: tuple[float, ...]
    """Seconds of a message from each chunk but the last to the next."""
    tails: tuple[float, ...]
    """Seconds of each pipeline stage after its last pass."""


@dataclass(frozen=True, slots=True)
class Path:
    """What the time of an iteration consists of: passes that wait for each other, up to the end of one rank."""

    rank: int
    """The rank whose tail ends last."""
    passes: tuple[tuple[int, int], ...]
    """Numbers of forward and of backward passes on the path, for each stage of the simulator."""
    delays: tuple[int, ...]
    """How often each chunk's transfer to the next one, or back, is waited for."""


class Iteration:
    """The pieces of an iteration (passes, delays and tails) and the time that they take together."""

    def __init__(self, problem: TrainingProblem, plan: Configuration) -> None:
        self.problem, self.plan = problem, plan
        sharding, clock = _Sharding(problem, plan, Parameters(problem, plan)), Clock(problem, plan)
        self.chunks = tuple(
            _chunk(problem, plan, clock, sharding, j, interval) for j, interval in enumerate(plan.intervals)
        )
        self.delays = delays_of(problem, plan)
        self.tails = [sharding.tail(rank, self.chunks) for rank in range(plan.degrees.pipeline)]

    def pipeline(self, micro_batches: int) -> Pipeline:
        return pipeline_of(self.plan, self.chunks, self.delays, micro_batches)

    def seconds(self) -> float:
        """Seconds of an iteration, found by simulating passes; of very many those that repeat others are counted."""
        longest = max(end + sum(tail) for end, tail in zip(self._last_ends(), self.tails, strict=True))
        return longest + self.problem.efficiencies.step_seconds

    def _last_ends(self) -> list[float]:
        """When each rank has run its last pass."""
        ranks, micro_batches = self.plan.degrees.pipeline, self.plan.micro_batches(self.problem.batch)
        if self.plan.rule.all_first and micro_batches > LISTED * ranks:
            return ends_of_gpipe(_stages(self.chunks, divided=False), self.delays, micro_batches)
        return ends_of_ranks(self.pipeline, ranks, micro_batches)

    def path(self) -> Path:
        """A longest path: from the end back, each pass to one that it waited for."""
        micro_batches = self.plan.micro_batches(self.problem.batch)
        check_tasks([micro_batches] * self.plan.degrees.chunks)
        pipeline = self.pipeline(micro_batches)
        spans = {
            (x, task.micro_batch if task.kind == "forward" else -task.micro_batch): (task.start, task.end)
            for x, stage in enumerate(run(pipeline).stages)
            for task in stage.tasks
        }
        over = [spans[order[-1]][1] + sum(tail) for order, tail in zip(pipeline.shared, self.tails, strict=True)]
        rank = over.index(max(over))
        before = {later: order[i] for order in pipeline.shared for i, later in enumerate(order[1:])}
        passes, delays = [[0, 0] for _ in pipeline.stages], [0] * len(self.delays)
        current: StagePass | None = pipeline.shared[rank][-1]
        while current is not None:
            passes[current[0]][current[1] < 0] += 1
            current = _awaited(current, spans, before, delays)
        return Path(rank, tuple((forward, backward) for forward, backward in passes), tuple(delays))

    def along(self, path: Path) -> float:
        """Seconds of a path with the pieces of this iteration; its own path takes `seconds`, any other no longer."""
        seconds = sum(self.tails[path.rank]) + self.problem.efficiencies.step_seconds
        times = _stages(self.chunks, self.plan.rule.divided)
        for (forward, backward), (count, count_back) in zip(times, path.passes, strict=True):
            seconds += count * forward + count_back * backward
        return seconds + sum(count * delay for count, delay in zip(path.delays, self.delays, strict=True))


def _awaited(
    current: StagePass,
    spans: Mapping[StagePass, tuple[float, float]],
    before: Mapping[StagePass, StagePass],
    delays: list[int],
) -> StagePass | None:
    """The pass whose end, with its transfer, is this pass's start; None: it starts with the iteration."""
    (x, j), start = current, spans[current][0]
    previous = before.get(current)
    if start == 0:
        return None
    if previous is not None and spans[previous][1] == start:
        return previous
    arc, source = (x - 1, (x - 1, j)) if j > 0 else (x, (x + 1, j))
    if not 0 <= arc < len(delays):
        return None
    delays[arc] += 1
    return source


def timing_of(problem: TrainingProblem, plan: Configuration) -> Timing:
    """Times and rates of an iteration, whether or not the framework's rules allow the configuration."""
    iteration = Iteration(problem, plan)
    chunks, seconds = iteration.chunks, iteration.seconds()
    ranks = tuple(
        _rank(problem, plan, rank, chunks, iteration.delays, tail, seconds)
        for rank, tail in enumerate(iteration.tails)
    )
    tokens = problem.batch * problem.sequence / (seconds * problem.devices)
    operations = model_operations(problem)
    mfu = None if operations is None else operations / (seconds * problem.devices * problem.peak)
    tails = tuple(sum(tail) for tail in iteration.tails)
    return Timing(seconds, tokens, mfu, ranks, chunks, iteration.delays, tails)


def model_operations(problem: TrainingProblem) -> float | None:
    """Floating-point operations of an iteration on all GPUs; None where the model has measured layers, whose
    shapes are unknown."""
    model = problem.model
    if model.own:
        return None
    alone = replace(problem, efficiencies=replace(problem.efficiencies, expert_imbalance=1.0))
    one = Configuration(Degrees(), 1, 0, "1f1b", (len(model.units),), (NO_RECOMPUTATION,))
    shapes = Shapes(replace(alone, flash_attention=True), one)
    operations = 0.0
    for unit, count in model.counted.items():
        operations += count * sum(_operations(module) for module in shapes.of(unit))
    return 3 * problem.batch * operations


def _operations(module: Module) -> float:
    operations = 0.0
    for item in module.items:
        if isinstance(item, Product):
            operations += 2 * item.count * item.rows * item.columns * item.inner
        elif isinstance(item, Attend):
            operations += item.operations
    return operations


# ---- weights and what is done with them once ---------------------------------------------------------------


class Parameters:
    """Numbers of parameters on one rank, by unit; those of experts are counted apart."""

    def __init__(self, problem: TrainingProblem, plan: Configuration) -> None:
        self.problem, self.plan = problem, plan
        self.shapes = Shapes(problem, plan)
        self.by_type: dict[UnitType, tuple[float, float]] = {}

    def unit(self, position: int) -> tuple[float, float]:
        """Dense parameters and parameters of experts of a unit."""
        model = self.problem.model
        if model.own:
            return model.own[position].parameters / self.plan.degrees.tensor, 0.0
        unit = model.units[position]
        if unit not in self.by_type:
            self.by_type[unit] = self._count(unit)
        return self.by_type[unit]

    def _count(self, unit: UnitType) -> tuple[float, float]:
        model, t = self.problem.model, self.plan.degrees.tensor
        if unit == "embedding":
            words = model.vocabulary / t * (model.embedding_size or model.hidden)
            return words + model.positions * model.hidden, 0.0
        dense = experts = 0.0
        modules = self.shapes.of(unit)
        if unit == "prediction":
            modules = tuple(module for module in modules if module.name != "head")  # it has no head of its own
        for module in modules:
            for item in module.items:
                if isinstance(item, Product) and item.weights:
                    size = item.count * item.columns * item.inner
                    dense, experts = (dense, experts + size) if item.grouped else (dense + size, experts)
        return dense, experts

    def rank(self, rank: int) -> tuple[float, float]:
        """Dense parameters and parameters of experts of all units of a rank."""
        model, units = (
            self.problem.model,
            [x for j in self.plan.chunks_of_ranks[rank] for x in self.plan.intervals[j]],
        )
        dense, experts = (sum(column) for column in zip((0.0, 0.0), *map(self.unit, units), strict=True))
        if model.tied and not model.own and {0, len(model.units) - 1} <= {*units}:
            dense -= self.unit(len(model.units) - 1)[0]
        return dense, experts


class _Sharding:
    """Communication among ranks with the same weights, and the update."""

    def __init__(self, problem: TrainingProblem, plan: Configuration, parameters: Parameters) -> None:
        self.problem, self.plan, self.parameters = problem, plan, parameters
        self.links, self.hidden = Links(problem), hidden_shares(problem, plan.zero, plan.degrees.pipeline)
        d = plan.degrees
        inner = d.expert_tensor * d.expert
        self.groups = ((d.tensor, d.context * d.data), (inner, max(1, d.stage_ranks // inner)))
        gradients = problem.states[plan.zero].gradients
        self.gradient_bytes = gradients.whole + gradients.shared

    def gather(self, counts: tuple[float, float], each_bytes: float) -> float:
        """Seconds to gather so many bytes of every parameter; `counts`: dense parameters, and those of experts."""
        pairs = zip(counts, self.groups, strict=True)
        return sum(self.links.gather(each_bytes * count, *group) for count, group in pairs if count)

    def in_passes(self, position: int, times: PassTimes) -> PassTimes:
        """A unit's passes with the collectives of gradients and weights that ZeRO runs in every one of them."""
        zero = self.plan.zero
        if zero < 2:
            return times
        counts = self.parameters.unit(position)
        gradients = self.gather(counts, self.gradient_bytes)
        weights = self.gather(counts, HALF) if zero == 3 else 0.0
        reduced, gathered = self.hidden
        forward = exposed(weights, gathered, times.forward.total)
        backward = exposed(weights + gradients, reduced, times.inputs.total + times.weights.total)
        return replace(
            times,
            forward=replace(times.forward, data=forward),
            inputs=replace(times.inputs, data=backward),
        )

    def tail(self, rank: int, chunks: tuple[PassTimes, ...]) -> tuple[float, float]:
        """Seconds of exposed communication and of the update, after the rank's last pass."""
        counts, own = self.parameters.rank(rank), self.plan.chunks_of_ranks[rank]
        reduced, gathered = self.hidden
        forward = sum(chunks[j].forward.total for j in own)
        backward = sum(chunks[j].backward_seconds for j in own)
        zero, sent = self.plan.zero, 0.0
        if zero <= 1:
            gradients = self.gather(counts, self.gradient_bytes) * (2 if zero == 0 else 1)
            sent += exposed(gradients, reduced, backward)
        if zero in (1, 2):
            sent += exposed(self.gather(counts, HALF), gathered, forward)
        return sent, self._update(rank, counts)

    def _update(self, rank: int, counts: tuple[float, float]) -> float:
        model, plan = self.problem.model, self.plan
        if model.own:
            units = [x for j in plan.chunks_of_ranks[rank] for x in plan.intervals[j]]
            return sum(
                measured_time(model.own[x], plan.degrees.tensor, plan.micro_batch)[0].update_seconds for x in units
            )
        size = 0.0
        for count, (_, ranks) in zip(counts, self.groups, strict=True):
            shards = ranks if plan.zero else 1
            size += update_bytes(self.problem.optimizer) * count / shards
            size += self.gradient_bytes * count / (ranks if plan.zero >= 2 else 1)
        return size / (self.problem.efficiencies.memory * self.problem.gpu.memory_rate)


# ---- the schedule ------------------------------------------------------------------------------------------


def _chunk(
    problem: TrainingProblem,
    plan: Configuration,
    clock: Clock,
    sharding: _Sharding,
    chunk: int,
    interval: range,
) -> PassTimes:
    """Times of one micro-batch through a chunk."""
    units, times_of = problem.model.units, {}
    total, layer = PassTimes(), 0
    for position in interval:
        unit = units[position]
        is_layer = unit in ("dense", "experts", "own")
        again = plan.recompute[chunk].of_layer(layer) if is_layer else ()
        layer += is_layer
        key = (unit, position if unit == "own" else 0, again)
        if key not in times_of:
            times_of[key] = sharding.in_passes(position, clock.unit(unit, position, again))
        total += times_of[key]
    return total


def delays_of(problem: TrainingProblem, plan: Configuration) -> tuple[float, ...]:
    """Seconds between the end of each chunk but the last and the beginning of the next."""
    links, d, model = Links(problem), plan.degrees, problem.model
    home = {j: rank for rank, own in enumerate(plan.chunks_of_ranks) for j in own}
    seen = 1 - problem.efficiencies.pipeline_hidden
    shapes = Shapes(problem, plan)
    intervals, delays = plan.intervals, []
    for j in range(d.chunks - 1):
        size = HALF * model.hidden * shapes.own_tokens
        if model.own:
            last = intervals[j].stop - 1
            size = plan.micro_batch * model.own[last].output_bytes if last >= 0 else 0.0
        source, target = home[j] * d.stage_ranks, home[j + 1] * d.stage_ranks
        delays.append(seen * links.send(size, source, target))
    return tuple(delays)


def pipeline_of(
    plan: Configuration, chunks: tuple[PassTimes, ...], delays: tuple[float, ...], micro_batches: int
) -> Pipeline:
    """The schedule for the simulator.

    A chunk is a stage. Where backward passes come in two parts, its own is the one for inputs. Those for weights are
    another stage, which only runs forward; each stands behind its other part in the order of the device.
    """
    shared, orders = _orders(plan.schedule, plan.degrees, plan.chunks_of_ranks, micro_batches)
    names = [f"{what}chunk {x}" for what in ("", "weights of ") for x in range(len(chunks))]
    stages = tuple(
        Stage(names[x], 1, forward, backward, (orders[x],))
        for x, (forward, backward) in enumerate(_stages(chunks, plan.rule.divided))
    )
    arcs = tuple(Dependency(x, x + 1, delay, delay) for x, delay in enumerate(delays))
    return Pipeline(stages, arcs, micro_batches, shared=shared)


def _stages(chunks: tuple[PassTimes, ...], divided: bool) -> list[tuple[float, float]]:
    """Forward and backward seconds of each chunk's stage, and then of those that have passes for weights."""
    if not divided:
        return [(own.forward.total, own.backward_seconds) for own in chunks]
    found = [(own.forward.total, own.inputs.total + own.again.total) for own in chunks]
    return found + [(own.weights.total, 0.0) for own in chunks]


@lru_cache(maxsize=8)  # a fit runs the same orders again and again
def _orders(
    schedule: str, degrees: Degrees, chunks_of_ranks: tuple[tuple[int, ...], ...], micro_batches: int
) -> tuple[tuple[tuple[StagePass, ...], ...], dict[int, tuple[int, ...]]]:
    """The passes of every device and of every stage, in their order, as the simulator numbers them."""
    shared = []
    orders: dict[int, list[int]] = {}
    for rank, own in enumerate(chunks_of_ranks):
        order = []
        for kind, stage, batch in SCHEDULES[schedule].order(rank, degrees.pipeline, degrees.virtual, micro_batches):
            x = own[stage] + (degrees.chunks if kind == "W" else 0)
            j = batch + 1 if kind in "FW" else -batch - 1
            order.append((x, j))
            orders.setdefault(x, []).append(j)
        shared.append(tuple(order))
    return tuple(shared), {x: tuple(passes) for x, passes in orders.items()}


def _rank(
    problem: TrainingProblem,
    plan: Configuration,
    rank: int,
    chunks: tuple[PassTimes, ...],
    delays: tuple[float, ...],
    tail: tuple[float, float],
    seconds: float,
) -> RankTime:
    """The seconds that a rank of this stage spends on each thing."""
    m, own = plan.micro_batches(problem.batch), plan.chunks_of_ranks[rank]
    passes = sum_of(part for j in own for part in (chunks[j].forward, chunks[j].inputs, chunks[j].weights))
    spent = {name: m * getattr(passes, name) for name in PART_NAMES}
    spent["data"] += tail[0]
    again = m * sum(chunks[j].again.total for j in own)
    left = max(0.0, seconds - sum(spent.values()) - again - tail[1])
    waited = sum(delays[j - 1] for j in own if j) + sum(delays[j] for j in own if j < len(delays))
    pipeline = min(left, m * waited)
    return RankTime(**spent, optimizer=tail[1], recomputation=again, pipeline=pipeline, idle=left - pipeline)
