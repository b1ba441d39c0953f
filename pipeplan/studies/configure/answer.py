"""What `plan configure` answers: the best configuration, the shortlist, what became of all others; and from Python.

`lost` divides the time that one configuration loses against another into parts, which add up to the whole difference:
a new field of a rank's time needs its words in `PARTS`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from ...instances.base.clock import now
from ...instances.base.errors import InputError, show
from ...instances.base.fields import plain_fields
from ...instances.base.kind import Displayed
from ...instances.base.quantities import GIB, listed
from ...instances.physics.efficiencies import USUAL_ERROR, USUAL_MEMORY_ERROR
from ...instances.training.build import problem_of
from ...instances.training.frameworks import check_units, even_layout
from ...instances.training.iteration import model_operations
from ...instances.training.kind_functions import facts
from ...instances.training.model import Model
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import (
    ConfigurationEvaluation,
    RankMemory,
    evaluate_configuration,
    framework_faults,
    fullest_of,
    shape_faults,
)
from ...instances.training.scope import Margin, plain_margin, read_scope, usual_errors
from ...instances.training.words import layout_in_numbers, words_of
from .judge import Judged, configuration_facts, memory_of_few
from .judge import judge as judge_one

if TYPE_CHECKING:
    from ...instances.base.result import Result
    from ...planners.training.cover import Cover
    from ...planners.training.measured import Fitted, FittedSorts
    from ...planners.training.search import Found, Report
    from .search import Alone


# Fields of a rank's time, in words.
PARTS: Mapping[str, str] = {
    "products": "products of matrices",
    "measured": "layers with measured times",
    "attention": "attention",
    "memory": "norms and activations",
    "recomputation": "recomputation",
    "tensor": "tensor communication",
    "context": "context communication",
    "expert": "expert communication",
    "host": "waiting for the host",
    "data": "data communication",
    "pipeline": "sending between stages",
    "optimizer": "the update",
}
IMBALANCE, BUBBLE = "imbalance of the stages", "the bubble"


def by_part(own: ConfigurationEvaluation) -> dict[str, float]:
    """Seconds of an iteration by part, as means over stages: idling behind the busiest is imbalance, else bubble."""
    ranks = own.timing.ranks
    parts = {words: sum(getattr(rank, name) for rank in ranks) / len(ranks) for name, words in PARTS.items()}
    idle = sum(rank.idle for rank in ranks) / len(ranks)
    imbalance = min(idle, max(rank.busy for rank in ranks) - sum(rank.busy for rank in ranks) / len(ranks))
    return {**parts, IMBALANCE: imbalance, BUBBLE: idle - imbalance}


def lost(own: ConfigurationEvaluation, best: ConfigurationEvaluation) -> dict[str, float]:
    """Seconds by which each part is longer than in the best configuration; negative where it is shorter."""
    ours, theirs = by_part(own), by_part(best)
    return {name: ours[name] - theirs[name] for name in ours if ours[name] != theirs[name]}


SCHEMA = "pipeplan.configurations/1"
# The most configurations of a shortlist whose time the referee tells; the times of the others are the
# search's own.
MOST_JUDGED = 20
# The most families of the shortlist that are shown.
MOST_SHOWN = 10
Prefer = Literal["fastest", "simplest", "least-memory"]
# A configuration that takes longer by at most this share is as good as the fastest one.
NEAR = 0.01
# What is run in place of a configuration that does not fit in reality holds at least this share less.
LEANER = 0.1


@dataclass(frozen=True)
class Asked:
    """What narrows the scope, and by which shares the model may be wrong."""

    error: float = USUAL_ERROR
    memory_error: float | Margin = USUAL_MEMORY_ERROR
    """A share to both sides, or how much more and how much less a rank may hold than predicted."""
    fixed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """The most that a configuration of the shortlist takes, as a multiple of the best one's time."""
        return (1 + self.error) / (1 - self.error)

    def to_json(self, problem: TrainingProblem) -> dict[str, Any]:
        return {
            "framework": problem.framework,
            "error": self.error,
            **plain_margin(self.memory_error),
            "measured_errors": None if (own := usual_errors(problem).measured) is None else plain_fields(own),
            "fix": list(self.fixed),
            "forbid": list(self.forbidden),
        }


def asked_of(
    problem: TrainingProblem,
    error: float | None = None,
    memory_error: float | None = None,
    fix: Iterable[str] = (),
    forbid: Iterable[str] = (),
) -> Asked:
    """What was asked; errors that nobody gives are those of published runs on such GPUs with this framework."""
    usual, forbid = usual_errors(problem), tuple(forbid)
    pairs = (word.partition("layout=") for word in fix)
    fix = tuple(f"{head}{key}{layout_in_numbers(problem, text) if key else text}" for head, key, text in pairs)
    layout = read_scope(fix, forbid).layout
    if layout is not None:
        check_units("scope: layout", layout, problem.model)
    return Asked(
        usual.time if error is None else error, usual.memory if memory_error is None else memory_error, fix, forbid
    )


@dataclass(frozen=True)
class Family:
    """Configurations of a list with the same degrees, micro-batch, ZeRO stage and recomputation."""

    best: Found
    alike: int
    """How many more the list has."""


@dataclass(frozen=True)
class Preferred:
    """What was preferred to the fastest configuration."""

    prefer: Prefer
    fastest: Found
    near: int
    """How many configurations that fit for sure take at most NEAR longer, the fastest included."""


def _family(plan: Configuration) -> tuple[Any, ...]:
    return replace(plan.degrees, virtual=1), plan.micro_batch, plan.zero, plan.recompute[0]


def _check_prefer(prefer: object) -> None:
    if prefer not in get_args(Prefer):
        raise InputError(
            "prefer", f"is {show(prefer)}", f"give {listed([show(own) for own in get_args(Prefer)], 'or')}"
        )


def _preferred_to_json(own: Preferred) -> dict[str, Any]:
    fastest = {"words": words_of(own.fastest.plan), "seconds": own.fastest.seconds}
    return {"prefer": own.prefer, "fastest": fastest, "near": own.near, "within": NEAR}


def simplicity(own: ConfigurationEvaluation) -> tuple[float, ...]:
    """Less is simpler: kinds of parallelism, an uneven layout, recomputation, chunks of a rank, and then bytes."""
    plan, degrees = own.plan, own.plan.degrees
    kinds = (degrees.tensor, degrees.context, degrees.pipeline, degrees.expert, degrees.expert_tensor)
    inner = plan.layout[1:-1]
    uneven = len({*inner}) > 1 or any(abs(end - inner[0]) > 1 for end in plan.layout if inner)
    again = sum(bool(word.modules) for word in plan.recompute)
    return sum(degree > 1 for degree in kinds), uneven, again > 0, degrees.virtual, own.fullest.bytes


@dataclass(frozen=True, repr=False)
class Answer(Displayed):
    """A problem with the configurations that were found for it, and those that were judged."""

    problem: TrainingProblem
    asked: Asked
    judged: tuple[Judged, ...] = ()
    report: Report | None = None
    """What the search knows; None: there was none."""
    measured: Fitted | FittedSorts | None = None
    """The fit of the efficiencies to given runs, which `problem` has already; None: no runs were given."""
    seconds: float = 0.0
    """Seconds that the search took."""
    preferred: Preferred | None = None
    """What the best configuration was preferred to; None: it is the fastest."""

    @cached_property
    def best(self) -> ConfigurationEvaluation | None:
        """The fastest configuration that fits for sure, or what is preferred to it, judged by the referee."""
        best = None if self.report is None else self.report.best
        return None if best is None else evaluate_configuration(self.problem, best.plan)

    @property
    def fastest(self) -> Found | None:
        """The fastest configuration that fits for sure, whatever is preferred to it."""
        own = None if self.report is None else self.report.best
        return own if self.preferred is None else self.preferred.fastest

    def preferring(self, prefer: Prefer) -> Answer:
        """The same answer with another best one, of those that fit for sure and take at most NEAR longer: the simplest,
        or the one that holds least. Entries of the list are there with an even layout, too."""
        _check_prefer(prefer)
        fastest = None if self.report is None else self.report.best
        if self.report is None or fastest is None or prefer == "fastest":
            return self
        near = [own.plan for own in self.listed if own.seconds <= (1 + NEAR) * fastest.seconds]
        evens = [even for plan in near if (even := self._even(plan)) is not None]
        plans = dict.fromkeys([fastest.plan, *near, *evens])
        own = [evaluate_configuration(self.problem, plan) for plan in plans]
        fit = [one for one in own if one.fit(self.asked.memory_error) == "yes"]
        fit = [one for one in fit if one.timing.seconds <= (1 + NEAR) * fastest.seconds] or own[:1]
        best = min(fit, key=lambda one: (one.fullest.bytes,) if prefer == "least-memory" else simplicity(one))
        found = replace(fastest, plan=best.plan, seconds=best.timing.seconds)
        return replace(
            self, report=replace(self.report, best=found), preferred=Preferred(prefer, fastest, len(fit))
        )

    def _even(self, plan: Configuration) -> Configuration | None:
        """The same with an even layout; None where there is none that may be run, or the scope names layouts."""
        layout = even_layout(self.problem, len(plan.layout))
        if layout is None or any("layout" in text for text in (*self.asked.fixed, *self.asked.forbidden)):
            return None
        even = replace(plan, layout=layout)
        return None if shape_faults(self.problem, even) or framework_faults(self.problem, even) else even

    @cached_property
    def result(self) -> Result:
        """The best configuration as the result that `plan configure -o` writes."""
        from .result import result_of  # imports all that solves, which judging does not need

        return result_of(self, self.seconds)

    @cached_property
    def why_empty(self) -> str | None:
        """Why nothing of the scope can be run; None where something can, or nothing was searched for."""
        if self.report is None or self.report.considered or not self.report.finished:
            return None
        from ...planners.training.empty import why_empty  # loads the search, which judging does not need
        from .search import scope_in

        return why_empty(self.problem, scope_in(self.problem, self.asked))

    @property
    def listed(self) -> Sequence[Found]:
        """The shortlist, the fastest first."""
        return () if self.report is None else self.report.listed

    @cached_property
    def shortlist(self) -> tuple[ConfigurationEvaluation, ...]:
        """The first `MOST_JUDGED` configurations of the list, judged by the referee."""
        return tuple(evaluate_configuration(self.problem, own.plan) for own in self.listed[:MOST_JUDGED])

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The shortlist by what decides: configurations that differ in layout and number of chunks alone are one
        family, for which the fastest stands, or the best configuration of all."""
        groups: dict[Any, list[Found]] = {}
        for own in self.listed:
            groups.setdefault(_family(own.plan), []).append(own)
        best = None if self.report is None else self.report.best
        if best is not None and (group := groups.get(_family(best.plan))):
            groups[_family(best.plan)] = [best, *(own for own in group if own.plan != best.plan)]
        return tuple(Family(own[0], len(own) - 1) for own in groups.values())

    @cached_property
    def cover(self) -> Cover | None:
        """Families one of which is nearly the best wherever the cluster lies, by their places among `families`; None
        where the search did not finish, no family fits for sure, or there are GPUs of two sorts."""
        if self.report is None or not self.report.finished or self.problem.second is not None:
            return None
        from ...planners.training.cover import MOST_FAMILIES, cover_of  # loads scipy
        from ...planners.training.search import Settings
        from ...planners.training.space import Space
        from .search import scope_in

        plans = [own.best.plan for own in self.families[:MOST_FAMILIES]]
        sure = [self.fullest(plan).fit(self.asked.memory_error) == "yes" for plan in plans]
        if not any(sure):
            return None
        limits = Settings(memory_error=self.asked.memory_error).limits(self.problem.memory_bytes)
        return cover_of(Space(self.problem, scope_in(self.problem, self.asked)), plans, sure, limits)

    @cached_property
    def alone(self) -> dict[str, Alone]:
        """Where there are GPUs of two sorts: what each reaches without the other one, by any schedule. Degrees and
        layouts that are asked for do not hold there."""
        if self.best is None or self.problem.second is None:
            return {}
        from .search import best_alone

        return {pool.gpus: best_alone(pool, self.asked) for pool in self.problem.pools}

    @property
    def printed(self) -> list[int]:
        """The families that are shown, by their places: those of the cover and of the best configuration, and others
        from the fastest on."""
        members = set() if self.cover is None else {own.family for own in self.cover.members}
        if self.report is not None and self.report.best is not None:
            members |= {i for i, own in enumerate(self.families) if own.best.plan == self.report.best.plan}
        others = [i for i in range(len(self.families)) if i not in members]
        return sorted([*members, *others[: MOST_SHOWN - len(members)]])

    @cached_property
    def _fullest(self) -> dict[Configuration, RankMemory]:
        return {}

    def fullest(self, plan: Configuration) -> RankMemory:
        """The fullest rank of a configuration, computed once: some take a tenth of a second."""
        if plan not in self._fullest:
            self._fullest[plan] = fullest_of(memory_of_few(self.problem, plan))
        return self._fullest[plan]

    def leaner(self, plan: Configuration) -> Found | None:
        """The fastest configuration of the list that holds at least LEANER less, should this one not fit in reality."""
        most = (1 - LEANER) * self.fullest(plan).full
        return next((own for own in self.listed if self.fullest(own.plan).full <= most), None)

    def _leaner_to_json(self, plan: Configuration) -> dict[str, Any] | None:
        if (own := self.leaner(plan)) is None:
            return None
        return {"words": words_of(own.plan), "seconds": own.seconds, "bytes": self.fullest(own.plan).bytes}

    @cached_property
    def nearest(self) -> ConfigurationEvaluation | None:
        """The configuration that lacks least memory; None where any fits or may fit, or nothing was searched for."""
        if self.report is None or self.report.best is not None or self.listed:
            return None
        from .search import nearest_miss  # imports the search, which judging does not need

        plan = nearest_miss(self.problem, self.asked)
        return None if plan is None else evaluate_configuration(self.problem, plan)

    @cached_property
    def on_more_nodes(self) -> Configuration | None:
        """A configuration that fits on more GPUs of the same sort, where nothing fits on these."""
        if self.nearest is None or self.report is None or not self.report.nothing_fits or self.problem.second:
            return None
        from .search import more_nodes

        return more_nodes(self.problem, self.asked)

    def lost(self, own: Judged) -> dict[str, float] | None:
        """Seconds that a configuration loses against the best one, by part; None without a best one."""
        return None if self.best is None else lost(own.evaluation, self.best)

    def _cover_to_json(self) -> dict[str, Any] | None:
        """Families of which one is nearly the best anywhere, and by how much others may be faster."""
        cover = None if self.report is None or self.report.best is None else self.cover
        if cover is None:
            return None
        members = [
            {
                "words": words_of(self.families[own.family].best.plan),
                "best_if": plain_fields(own.wins) if own.wins else None,
                "leaner": self._leaner_to_json(self.families[own.family].best.plan),
            }
            for own in cover.members
        ]
        return {
            "families": members,
            **{"of": cover.families, "points": cover.points, "within_at_points": cover.delta},
            "within_anywhere": cover.proven,
            "others": plain_fields(cover.others),
        }

    def to_json(self) -> dict[str, Any]:
        """The answer as `pipeplan.configurations/1`; fields of a search are None where there was none."""
        problem, report, error = self.problem, self.report, self.asked.memory_error
        rest = [_brief(problem, own, error) for own in self.listed[MOST_JUDGED:]]
        fitted = {} if self.measured is None else {"measured": self.measured.to_json()}
        return {
            "schema": SCHEMA,
            "problem": {"kind": problem.kind, "name": problem.name, "hash": problem.hash, **facts(problem)},
            "scope": self.asked.to_json(problem),
            "considered": None if report is None else report.considered,
            "fit": None if report is None else report.fit,
            "cannot_fit": None if report is None else report.unfit,
            "discarded": {} if report is None else dict(report.discarded),
            "undecided": None if report is None else report.undecided,
            "best": None if self.best is None else configuration_facts(self.best, error),
            "shortlist": [*(configuration_facts(own, error) for own in self.shortlist), *rest],
            "preferred": None if (own := self.preferred) is None else _preferred_to_json(own),
            "cover": self._cover_to_json(),
            "not_excluded": None if report is None else not_excluded(report),
            "nearest": None if self.nearest is None else configuration_facts(self.nearest, error),
            "judged": [{**own.to_json(), "lost": self.lost(own)} for own in self.judged],
            "bound": None if report is None or report.best is None else report.bound,
            "gap": None if report is None else report.gap,
            **({"alone": {gpus: asdict(own) for gpus, own in self.alone.items()}} if self.alone else {}),
            **fitted,
        }


def not_excluded(report: Report) -> list[dict[str, Any]]:
    """The choices that are not excluded, which the theorem of the shortlist counts in."""
    return [
        {"degrees": asdict(degrees), "micro_batch": micro_batch, "zero": zero, "bound": bound}
        for (degrees, micro_batch, zero), bound in report.unlisted.items()
    ]


def _brief(problem: TrainingProblem, own: Found, memory_error: float | Margin) -> Mapping[str, Any]:
    """A configuration of the list in JSON: its time is the search's own, and its memory is the referee's."""
    plan = {name: value for name, value in own.plan.to_json().items() if name != "kind"}
    memory = memory_of_few(problem, own.plan)
    full = fullest_of(memory)
    operations = model_operations(problem)
    work = own.seconds * problem.devices
    return {
        **plan,
        "words": words_of(own.plan),
        "seconds": own.seconds,
        "tokens_per_second_per_gpu": problem.batch * problem.sequence / work,
        "mfu": None if operations is None else operations / (work * problem.peak),
        "micro_batches": own.plan.micro_batches(problem.batch),
        "ranks": [
            {
                "rank": rank.rank * own.plan.degrees.stage_ranks,
                "stage": rank.rank,
                "bytes": rank.bytes,
                "parts": dict(rank.parts),
            }
            for rank in memory
        ],
        "fits": full.fit(memory_error),
        "limited_by": f"memory of stage {full.rank}: {full.bytes / GIB:.2f} GiB",
    }


# ---- from Python ----------------------------------------------------------------------------------------------


# The usual shares by which times and memory may be wrong.


def configure(
    model: str | os.PathLike[str] | Model | TrainingProblem,
    devices: str | None = None,
    *,
    sequence: int | None = None,
    batch: int | None = None,
    fix: Sequence[str] = (),
    forbid: Sequence[str] = (),
    judge: Sequence[str] = (),
    error: float | None = None,
    memory_error: float | None = None,
    time_limit_s: float | None = None,
    prefer: Prefer = "simplest",
    **more: Any,
) -> Answer:
    """Find the fastest configuration of a training framework, as `plan configure` does, and judge given ones.

    Parameters
    ----------
    model : str, PathLike, Model or TrainingProblem
        A packaged model's name, a `config.json`, a profile or a table; or a whole problem, as `load` returns it.
    devices : str, optional
        The GPUs, as in "64xh100-80gb". None, here and below: `model` is a whole problem, which gives them.
    sequence : int, optional
        Tokens of a sequence; None for a whole problem.
    batch : int, optional
        Sequences between two updates; None for a whole problem.
    fix : sequence of str
        Consider only configurations with all of these values: ["tensor=4"].
    forbid : sequence of str
        Consider no configuration with any of these values.
    judge : sequence of str
        Configurations to judge as well: ["tensor=4 pipeline=2"].
    error : float, optional
        The share by which times may be wrong, which the shortlist allows for. None, here and below: what runs of
        others showed, and 5 % and 3 % at least.
    memory_error : float, optional
        The share by which memory may be wrong.
    time_limit_s : float, optional
        Seconds that the search may take. None: no limit.
    prefer : "simplest", "fastest" or "least-memory"
        Which configuration is the best one, of those that take at most 1 % longer than the fastest.
    more : str, float or bool
        Further fields of the problem: gpu, levels, memory_bytes, reserve_bytes, precision, framework, optimizer,
        layers, dense_layers, prediction_layers, efficiencies, name, adapter_rank (of LoRA), lengths,
        encoder, frozen, flash_attention, sequence_parallel, dropout, fp8_weight_copy.

    Returns
    -------
    Answer
        `best`, `shortlist` and `judged` are configurations with the numbers of the referee; `result` is what
        `plan configure -o` writes, and `show()` prints all.

    Raises
    ------
    InputError
        A model, a cluster or a configuration cannot have a value that was given.
    UsageError
        There is no such model or GPU, or a configuration breaks a rule.
    """
    from .search import search_configurations

    for name, share in (("error", error), ("memory_error", memory_error)):
        is_share = isinstance(share, (int, float)) and not isinstance(share, bool) and 0 <= share < 1
        if share is not None and not is_share:
            raise InputError(name, f"is {show(share)}", "give a share from 0 to below 1")
    _check_prefer(prefer)
    problem = model if isinstance(model, TrainingProblem) else problem_given(model, devices, sequence, batch, more)
    asked, begun = asked_of(problem, error, memory_error, fix, forbid), now()
    judged = tuple(judge_one(problem, text, asked.memory_error) for text in judge)
    report = search_configurations(problem, asked, time_limit_s, lambda record: None)
    return Answer(problem, asked, judged, report, seconds=now() - begun).preferring(prefer)


def problem_given(model: Any, devices: Any, sequence: Any, batch: Any, more: Any) -> TrainingProblem:
    """The problem of the arguments of a function."""
    examples = (("devices", devices, '"64xh100-80gb"'), ("sequence", sequence, "8192"), ("batch", batch, "256"))
    for name, value, example in examples:
        if value is None:
            raise InputError(name, "is missing", f"give it, {name}={example} say")
    return problem_of(model, devices, sequence=sequence, batch=batch, **more)
