"""The report of a run: predicted and measured times of an iteration, by rank and by stage, and if to trust them.

A run is clean where the ranks' passes took hardly more wall time than CPU time. Otherwise others used the machine, and
the virtual clock is judged in place of the wall clock: the simulator once more, with the CPU time of every single pass
and with tensors on their way for bytes / bandwidth.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...instances.base.cluster import SECONDS
from ...instances.base.quantities import several
from ...instances.networks.profile.profile import Profile, ProfileNode
from ...instances.timeline.model import Pass
from .orders import Schedule

# Limit for wall time of the passes divided by their CPU time; below it nothing else used the cores.
CLEAN_RATIO = 1.06
# Gradients may differ by this share of the largest one, which the order of sums explains.
AGREEMENT = 1e-5


@dataclass(frozen=True, slots=True)
class MeasuredPass:
    """A pass of one iteration; seconds since the iteration began."""

    stage: int
    micro_batch: int
    """Signed: + forward, - backward."""
    rank: int
    start: float
    end: float
    cpu: float
    since: float
    """CPU time since the end of the pass before it: its own, and that of sending and receiving."""


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """One iteration, from the first rank that began to the last that ended."""

    seconds: float
    passes: tuple[MeasuredPass, ...]
    busy: tuple[float, ...]
    """Wall time of the passes of each rank."""
    cpu: tuple[float, ...]
    sent_bytes: tuple[int, ...]
    loss: float | None

    @property
    def ratio(self) -> float:
        """Ratio of wall time to CPU time of the passes, of the rank where it is largest."""
        return max((wall / cpu for wall, cpu in zip(self.busy, self.cpu, strict=True) if cpu), default=1.0)


@dataclass(frozen=True, slots=True)
class RankRun:
    """One rank; medians over the iterations, in seconds."""

    rank: int
    stages: tuple[str, ...]
    busy: float
    waiting: float
    cpu: float
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class StageTimes:
    """A stage's passes as the profile has them and as they were in the run, in seconds: medians."""

    name: str
    forward_predicted: float
    forward_measured: float
    backward_predicted: float
    backward_measured: float


@dataclass(frozen=True, slots=True)
class Check:
    """Losses and gradients of the pipeline, compared with those of one process."""

    loss: float | None
    expected_loss: float
    difference: float | None
    """The largest of any gradient, divided by the largest gradient of all; None: some are not finite."""
    compared: int
    """Number of gradients that were compared."""
    empty: bool = False
    """Are all gradients zero, so that nothing was checked?"""

    @property
    def agrees(self) -> bool:
        if self.loss is None or self.difference is None or self.empty or not self.compared:
            return False
        off = abs(self.loss - self.expected_loss)
        return self.difference < AGREEMENT and off <= AGREEMENT * max(1.0, abs(self.expected_loss))


@dataclass(frozen=True, slots=True)
class CaseReport:
    """What was predicted and measured of one plan; times in seconds."""

    name: str
    predicted: float
    measured: float
    """The median iteration by the wall clock."""
    virtual: float
    """The median iteration by the virtual clock."""
    ratio: float
    """Ratio of wall time to CPU time of the passes."""
    ranks: tuple[RankRun, ...]
    stages: tuple[StageTimes, ...]
    loss: float | None
    iterations: tuple[float, ...]
    check: Check | None
    passes: tuple[MeasuredPass, ...]
    """The passes of the median iteration."""
    stage_ranks: tuple[tuple[int, ...], ...]

    @property
    def clean(self) -> bool:
        """Did the ranks have the cores to themselves?"""
        return self.ratio < CLEAN_RATIO

    @property
    def judged(self) -> float:
        """The time that the prediction is compared with."""
        return self.measured if self.clean else self.virtual

    @property
    def error(self) -> float:
        """Relative error of the prediction: 0.05 where it is 5 % too long."""
        return self.predicted / self.judged - 1

    def to_json(self) -> dict[str, Any]:
        """For files, without the predicted timeline, which `plan simulate` prints."""
        return {
            "name": self.name,
            "predicted_s": self.predicted,
            "measured_s": self.measured,
            "virtual_s": self.virtual,
            "clean": self.clean,
            "wall_per_cpu": self.ratio,
            "judged_s": self.judged,
            "error": self.error,
            "loss": self.loss,
            "iterations_s": list(self.iterations),
            "check": None if self.check is None else {**asdict(self.check), "agrees": self.check.agrees},
            "ranks": [_in_seconds(rank, ("busy", "waiting", "cpu")) for rank in self.ranks],
            "stages": [_in_seconds(stage, tuple(asdict(stage))[1:]) for stage in self.stages],
            "passes": [_in_seconds(entry, ("start", "end", "cpu", "since")) for entry in self.passes],
        }


def _in_seconds(record: Any, times: Sequence[str]) -> dict[str, Any]:
    """The record for a file, where the names of times end in their unit."""
    return {f"{key}_s" if key in times else key: value for key, value in asdict(record).items()}


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run of a plan, and of the even split where it was asked for and is another."""

    name: str
    """Name of the profile."""
    plan: CaseReport
    even: CaseReport | None
    micro_batches: int
    torch: str
    bandwidth: float
    """Bytes per second that the prediction reckons with."""
    profile: Profile
    """The profile with the times of each node scaled by those that were measured of its stage."""
    context: float
    """Time of all passes in the run, divided by their time in the profile."""
    notes: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[CaseReport, ...]:
        return (self.plan,) if self.even is None else (self.plan, self.even)

    @property
    def gain_predicted(self) -> float | None:
        """The even split's iteration, divided by the plan's; None where it was not run."""
        return None if self.even is None else self.even.predicted / self.plan.predicted

    @property
    def gain_measured(self) -> float | None:
        """Gain by the wall clock where both runs were clean, else by the virtual clock of both."""
        if self.even is None:
            return None
        is_clean = all(case.clean for case in self.cases)
        even, plan = (case.measured if is_clean else case.virtual for case in (self.even, self.plan))
        return even / plan

    @property
    def agrees(self) -> bool | None:
        """Did every check succeed? None: there was none."""
        checks = [case.check for case in self.cases if case.check is not None]
        return all(check.agrees for check in checks) if checks else None

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "pipeplan.run/1",
            **{name: getattr(self, name) for name in ("name", "micro_batches", "torch")},
            "bandwidth_bytes_per_s": self.bandwidth,
            "in_context": self.context,
            "gain_predicted": self.gain_predicted,
            "gain_measured": self.gain_measured,
            "notes": list(self.notes),
            "plan": self.plan.to_json(),
            "even": None if self.even is None else self.even.to_json(),
        }


# ---- from what the ranks measured ----------------------------------------------------------------------


def case_report(name: str, schedule: Schedule, answers: Sequence[Mapping[str, Any]]) -> CaseReport:
    """The report of one case, from the answers of all ranks."""
    by_rank = [answer["cases"][name] for answer in answers]
    steps = [_step(entries) for entries in zip(*by_rank, strict=True)]
    middle = sorted(steps, key=lambda step: step.seconds)[(len(steps) - 1) // 2]
    return CaseReport(
        name=name,
        predicted=schedule.predicted.iteration,
        measured=statistics.median(step.seconds for step in steps),
        virtual=statistics.median(_replayed(schedule, step) for step in steps),
        ratio=statistics.median(step.ratio for step in steps),
        ranks=tuple(_rank(schedule, steps, rank) for rank in range(len(answers))),
        stages=tuple(_stage(schedule, steps, x) for x in range(len(schedule.stages))),
        loss=steps[-1].loss,
        iterations=tuple(step.seconds for step in steps),
        check=_check([answer["checks"].get(name) for answer in answers]),
        passes=middle.passes,
        stage_ranks=tuple(stage.ranks for stage in schedule.stages),
    )


def _step(entries: Sequence[Mapping[str, Any]]) -> MeasuredStep:
    """One iteration, put together from the entries of all ranks, whose clocks agree."""
    start = min(entry["begin"][0] for entry in entries)
    end = max(entry["end"][0] for entry in entries)
    passes = [measured for rank, entry in enumerate(entries) for measured in _passes(rank, entry, start)]
    own = [[p for p in passes if p.rank == rank] for rank in range(len(entries))]
    losses = [entry["loss"] for entry in entries if entry["loss"] is not None]
    return MeasuredStep(
        end - start,
        tuple(sorted(passes, key=lambda p: (p.start, p.rank))),
        tuple(sum(p.end - p.start for p in ps) for ps in own),
        tuple(sum(p.cpu for p in ps) for ps in own),
        tuple(entry["sent_bytes"] for entry in entries),
        sum(losses) if losses else None,
    )


def _passes(rank: int, entry: Mapping[str, Any], start: float) -> list[MeasuredPass]:
    passes, before = [], entry["begin"][1]
    for span in entry["spans"]:
        (begin, cpu_begin), (end, cpu_end) = span["begin"], span["end"]
        where = (span["stage"], span["micro_batch"], rank)
        passes.append(MeasuredPass(*where, begin - start, end - start, cpu_end - cpu_begin, cpu_end - before))
        before = cpu_end
    return passes


def _replayed(schedule: Schedule, step: MeasuredStep) -> float:
    """The iteration by the virtual clock: each pass takes its own CPU time."""
    return schedule.replayed({Pass(p.stage, p.micro_batch): p.since for p in step.passes}).iteration


def _rank(schedule: Schedule, steps: Sequence[MeasuredStep], rank: int) -> RankRun:
    busy = statistics.median(step.busy[rank] for step in steps)
    return RankRun(
        rank,
        tuple(stage.name for stage in schedule.stages if rank in stage.ranks),
        busy,
        max(0.0, statistics.median(step.seconds for step in steps) - busy),
        statistics.median(step.cpu[rank] for step in steps),
        steps[-1].sent_bytes[rank],
    )


def _stage(schedule: Schedule, steps: Sequence[MeasuredStep], x: int) -> StageTimes:
    planned = schedule.pipeline.stages[x]
    forward, backward = (_median_pass(steps, x, forward=forward) for forward in (True, False))
    return StageTimes(planned.name, planned.forward, forward, planned.backward, backward)


def _median_pass(steps: Sequence[MeasuredStep], x: int, *, forward: bool) -> float:
    """Median CPU time of a stage's passes, which leaves out what others did."""
    times = [p.cpu for step in steps for p in step.passes if p.stage == x and (p.micro_batch > 0) == forward]
    return statistics.median(times) if times else 0.0


def _check(entries: Sequence[Mapping[str, Any] | None]) -> Check | None:
    checks = [entry for entry in entries if entry is not None]
    if not checks:
        return None
    losses = [entry["loss"] for entry in checks if entry["loss"] is not None]
    largest = max(entry["largest"] for entry in checks)
    differences = [entry["difference"] for entry in checks]
    return Check(
        sum(losses) if losses else None,
        next(entry["expected"] for entry in checks if entry["expected"] is not None),
        None if None in differences else max(differences) / (largest or 1.0),
        sum(entry["compared"] for entry in checks),
        empty=largest == 0 and None not in differences,
    )


# ---- the profile of what was measured ------------------------------------------------------------------


def in_context(profile: Profile, schedule: Schedule, case: CaseReport) -> tuple[Profile, float]:
    """The profile with the times of the run, and these divided by the predicted times, for all passes together.

    A run knows the time of whole stages; within one, nodes keep their shares of it.
    """
    unit = float(SECONDS[profile.time_unit])
    nodes: dict[str, ProfileNode] = {node.id: node for node in profile.nodes}
    predicted = measured = 0.0
    for stage, times in zip(schedule.stages, case.stages, strict=True):
        for side in ("forward", "backward"):
            before, now = (getattr(times, f"{side}_{how}") for how in ("predicted", "measured"))
            predicted, measured = predicted + before, measured + now
            for node_id in stage.nodes:
                # Where nothing was predicted there is nothing to scale: nodes get equal shares.
                time = profile.time(getattr(nodes[node_id], side)) * (now / before) if before else None
                share = now / (unit * len(stage.nodes)) if time is None else time
                nodes[node_id] = replace(nodes[node_id], **{side: share})
    words = f"measured: in a run of {several(len(schedule.stages), 'stage')}, by stage"
    changed = profile.replace(nodes=tuple(nodes.values()), source={**profile.source, "times": words})
    return changed, measured / predicted if predicted else 1.0
