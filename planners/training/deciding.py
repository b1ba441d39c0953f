"""Which configurations are worth a run, and when no other can be faster: what measured runs prove.

What is believed before any run: the real time of configuration c is exp(z) T_c(q) exp(r_c), where T is the model, q
the efficiencies, anywhere in a box (`forms.plausible`), z a factor that all times share, |z| <= common, and r_c what
the *form* of the model gets wrong for c alone, |r_c| <= rho. With `forms` (1) and (2), s = exp(z) y(q) the scaled terms
and w = exp(z), a run k of t_k seconds says

    (3)  c_k . s <= t_k exp(rho)        (4)  u_k . s >= t_k exp(-rho)

and the box says linear things of s and w:

    (5)  exp(-common) <= w <= exp(common)
    (6)  low w <= s_i <= high w for the term of one coordinate, and the four inequalities of McCormick for a product

Every (q, z) that agrees with all runs keeps (3) to (6), so a configuration really takes at least exp(-rho) times the
least c . s of this linear program. Where that is t_best / (1 + delta) or more it is excluded: it is not faster than the
fastest run by more than delta. Once nothing is left, the fastest run is *certified*.

Memory: a rank really holds (1 + m)(1 + e_c) times what is predicted, m the same for all configurations, |m| <=
memory_common, |e_c| <= memory_rho. Runs that worked and runs out of memory leave a range of m; what exceeds the limit
in all of it is excluded.

A proxy (`proxies`) is a run of another problem: it says (3) and (4) with 2 rho, is never t_best, and says nothing of
memory. Proxies that contradict the runs are dropped.

To change what is run next, change `_order`: proofs do not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from statistics import median
from typing import Any, Literal

import numpy as np

from ...instances.base.errors import InputError
from ...instances.base.quantities import GIB, listed
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import memory_of_ranks
from .forms import ROUNDING, TERMS, Timed, believed, plausible, relations, solve, used, values_of
from .proxies import TWICE, Proxy, in_terms

Outcome = Literal["measured", "out of memory", "failed"]

# How strongly the fit that picks the next run is held to what is believed: a coordinate moves where the runs together
# are off by more than so many times its change.
PULL = 0.3
# Where runs contradict each other within rho, rho becomes so many times what makes them agree.
GROWTH = 1.1
# The most that a run may be off before rho grows no more: such a run says nothing.
MOST_RHO = 3.0
# The same of memory, a share.
MOST_SHARE = 0.99
# A bound of no seconds, which divides.
NO_TIME = 1e-12
# Why a candidate without a time is none any more.
FAILED = {"measured": "its run has no time", "out of memory": "it ran out of memory", "failed": "its run failed"}


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one run of a candidate."""

    candidate: int
    """Its number among the candidates."""
    outcome: Outcome
    seconds: float | None = None
    """Of one iteration, a median over iterations; None unless it was measured."""
    peak_bytes: float | None = None
    """Allocated at most on the fullest GPU, with the reserve; None: that is not known."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be decided, and what is believed before any run; checked at construction."""

    problem: TrainingProblem
    candidates: tuple[Configuration, ...]
    delta: float = 0.02
    """The share by which the answer may be slower than the fastest."""
    rho: float = 0.1
    """The share by which the form of the model may be wrong for one configuration."""
    common: float = 0.5
    """The logarithm of the factor that all times share is at most so much, up and down."""
    memory_rho: float = 0.05
    """The share by which the bytes of one configuration may be wrong."""
    memory_common: float = 0.2
    """The share by which the bytes of all of them may be wrong."""

    def __post_init__(self) -> None:
        if not self.candidates:
            raise InputError("candidates", "are none", "give configurations, one of which may be run")
        for name in ("delta", "rho", "memory_rho", "memory_common"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise InputError(name, f"is {value:g}", "give a share from 0 to below 1")
        if not 0 <= self.common <= 3:
            raise InputError("common", f"is {self.common:g}", "give a logarithm from 0 to 3")

    def __hash__(self) -> int:
        """Equal questions share their forms."""
        return hash((self.problem.hash, self.candidates, self.delta, self.rho, self.common))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known after some runs."""

    best: int | None
    """The fastest candidate that was measured."""
    regret: float | None
    """No candidate is faster than it by more than this share; None before the first run."""
    certified: bool
    """Is the regret at most `delta`?"""
    may: tuple[int, ...]
    """Candidates without a run that may still be faster by more than `delta`, the most likely first."""
    excluded: Mapping[int, str]
    """Every other candidate without a run, with what excludes it."""
    next: int | None
    """The candidate to run next; None where nothing is left."""
    why: str
    """A sentence: why this one."""
    rho: float
    """The share that was used: greater than asked for where runs contradict it."""
    notes: tuple[str, ...] = ()
    """Sentences on runs that contradict the others."""
    likely: Mapping[int, float] = field(default_factory=dict)
    """By candidate the seconds by the fit that picks the next run."""
    least: Mapping[int, float] = field(default_factory=dict)
    """By candidate the least seconds that agree with all runs, rho included."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a proxy says, in the terms of the candidates: (1) and (2)."""

    key: tuple[str, str]
    form: Any
    above: Any
    seconds: float


class Decision:
    """One question with its forms, which are made once; `verdict` may be asked again and again."""

    def __init__(self, question: Question, forms: Any | None = None) -> None:
        """`forms`: [candidate, term], where somebody has them already."""
        self.question = question
        self.timed = [Timed(question.problem, plan) for plan in question.candidates]
        self.box = plausible(question.problem)
        centre = values_of(believed(question.problem.efficiencies))
        every = self.every = np.array([own.form for own in self.timed]) if forms is None else forms
        self.terms = used(every)
        self.forms = every[:, self.terms]
        self.centre = centre[self.terms]
        self.relations = relations(self.box, self.terms)
        self._above: dict[int, Any] = {}
        self._proxies: dict[tuple[str, str], tuple[Any, Any]] = {}
        self._known: dict[int, tuple[float, frozenset[tuple[Any, float]], float]] = {}
        """By candidate a least time with what it was proven from: rho and runs."""

    @cached_property
    def bytes(self) -> list[float]:
        """Of the fullest rank of each candidate, as predicted."""
        problem = self.question.problem
        return [max(rank.bytes for rank in memory_of_ranks(problem, own.plan)) for own in self.timed]

    def verdict(self, trials: Sequence[Trial], proxies: Sequence[Proxy] = ()) -> Verdict:
        """What these runs prove, and which one comes next."""
        question = self.question
        times = _times(trials)
        rho, contradiction = self._rho(times) if times else (question.rho, ())
        said, dropped = self._agreed(times, rho, proxies)
        unfit, low, high, notes = self._memory(trials)
        excluded = unfit | {
            trial.candidate: FAILED[trial.outcome] for trial in trials if trial.candidate not in times
        }
        likely = dict(enumerate(self.fit(times, said).tolist()))
        left = [c for c in self._order(likely, low, high) if c not in times and c not in excluded]
        if not times:
            why = "it is predicted to be the fastest that fits"
            return Verdict(
                None,
                None,
                False,
                tuple(left),
                excluded,
                left[0] if left else None,
                why,
                question.rho,
                (*notes, *dropped),
                likely,
            )
        best = min(times, key=lambda c: times[c])
        threshold = times[best] / (1 + question.delta)
        least = {c: self._least(c, times, said, rho, threshold) for c in left}
        for c in left:
            if least[c] >= threshold:
                excluded[c] = f"takes {least[c]:.4g} s at least, and {times[best]:.4g} s were measured"
        may = tuple(c for c in left if c not in excluded)
        regret = max((times[best] / max(seconds, NO_TIME) - 1 for seconds in least.values()), default=0.0)
        return Verdict(
            best,
            max(0.0, regret),
            not may,
            may,
            excluded,
            may[0] if may else None,
            "it is the most likely of those that may still be the fastest" if may else "nothing is left",
            rho,
            (*notes, *contradiction, *dropped),
            likely,
            least,
        )

    # ---- times -------------------------------------------------------------------------------------------------

    def _least(
        self, c: int, times: Mapping[int, float], said: Sequence[Said], rho: float, threshold: float
    ) -> float:
        """Seconds that candidate c takes at least. What was proven from fewer runs and a greater rho still holds, and
        is enough where it reaches the threshold."""
        runs = frozenset([*times.items(), *((own.key, own.seconds) for own in said)])
        known = self._known.get(c)
        if (
            known is not None
            and known[0] >= rho
            and known[1] <= runs
            and (known[2] >= threshold or known[1] == runs)
        ):
            return known[2]
        rows, limits = self._agreeing(times, said, rho)
        found = solve(
            [*self.forms[c], 0.0], [self.relations, rows], [np.zeros(len(self.relations)), limits], self._w
        )
        seconds = 0.0 if found is None else math.exp(-rho) * (1 - ROUNDING) * float(found[:-1] @ self.forms[c])
        self._known[c] = rho, runs, seconds
        return seconds

    @property
    def _w(self) -> tuple[float, float]:
        """(5)."""
        return math.exp(-self.question.common), math.exp(self.question.common)

    def _agreeing(self, times: Mapping[int, float], said: Sequence[Said], rho: float) -> tuple[Any, Any]:
        """(3) and (4), each divided by the measured time."""
        rows, limits = [], []
        of_runs = [(self.forms[k], self._above_of(k), seconds, rho) for k, seconds in times.items()]
        of_proxies = [(own.form, own.above, own.seconds, TWICE * rho) for own in said]
        for form, above, seconds, wrong in (*of_runs, *of_proxies):
            rows += [np.append(form / seconds, 0.0), np.append(-above / seconds, 0.0)]
            limits += [math.exp(wrong), -math.exp(-wrong)]
        return np.array(rows), np.array(limits)

    def _agreed(
        self, times: Mapping[int, float], rho: float, proxies: Sequence[Proxy]
    ) -> tuple[tuple[Said, ...], tuple[str, ...]]:
        """What proxies say in the terms of the candidates; nothing, and a sentence, where that contradicts the runs."""
        said = tuple(map(self._said, proxies))
        if not said:
            return said, ()
        rows, limits = self._agreeing(times, said, rho)
        everywhere = np.zeros(len(self.terms) + 1)
        if solve(everywhere, [self.relations, rows], [np.zeros(len(self.relations)), limits], self._w) is not None:
            return said, ()
        others = "the runs" if times else "each other"
        return (), (
            f"The proxies contradict {others}, though {TWICE:g} times the error is allowed: they do not count.",
        )

    def _said(self, proxy: Proxy) -> Said:
        if proxy.key not in self._proxies:
            form, above = (in_terms(own, self.box, self.terms, side) for side, own in enumerate(proxy.forms))
            self._proxies[proxy.key] = form, above
        assert proxy.seconds is not None, "a proxy that was run"
        form, above = self._proxies[proxy.key]
        return Said(proxy.key, form, above, proxy.seconds)

    def _above_of(self, k: int) -> Any:
        if k not in self._above:
            self._above[k] = self.timed[k].above(self.box, self.terms)
        return self._above[k]

    def _rho(self, times: Mapping[int, float]) -> tuple[float, tuple[str, ...]]:
        """The share within which all runs agree with some point, and a sentence where it is not the one asked for."""
        asked = self.question.rho
        needed = self._needed(times)
        if needed <= asked / GROWTH:
            return asked, ()
        rho = min(MOST_RHO, max(asked, GROWTH * needed))
        if rho <= asked:
            return asked, ()
        odd = "the only run"
        if len(times) > 1:
            without = {k: self._needed({i: t for i, t in times.items() if i != k}) for k in times}
            odd = f"the run of candidate {min(without, key=lambda k: without[k])}"
        return rho, (
            f"The runs agree with the form of the model only within {100 * needed:.3g} %, and {odd} is the most at "
            f"odds: {100 * rho:.3g} % are allowed now in place of {100 * asked:.3g} %.",
        )

    def _needed(self, times: Mapping[int, float]) -> float:
        """The least rho with which some point agrees with all runs."""
        found = self._fitted(times, each=False, pull=0.0)
        return 0.0 if found is None else float(-math.log(max(1e-9, 1 - found[-1])))

    def fit(self, times: Mapping[int, float], said: Sequence[Said] = ()) -> Any:
        """The time of every candidate where the runs are met best."""
        found = self._fitted(times, each=True, pull=PULL, said=said) if times or said else None
        return self.forms @ (self.centre if found is None else found[: len(self.terms)])

    def _fitted(self, times: Mapping[int, float], each: bool, pull: float, said: Sequence[Said] = ()) -> Any:
        """Terms, w, distances of terms and errors of runs, with the least sum of errors (`each`) or the least greatest
        error, and `pull` times the distances of coordinates from what is believed."""
        n, runs = len(self.terms), len(times) + len(said)
        errors = runs if each else 1
        single = [len(TERMS[i]) == 1 for i in self.terms]
        own = np.array(
            [self.forms[k] / seconds for k, seconds in times.items()]
            + [given.form / given.seconds for given in said]
        )
        above = own if each else np.array([self._above_of(k) / seconds for k, seconds in times.items()])
        zero, which = np.zeros((runs, 1)), np.eye(runs) if each else np.ones((runs, 1))
        moved = np.hstack([np.eye(n), -self.centre[:, None]])[single]
        distance = np.eye(n)[single][:, single]
        count = int(sum(single))
        rows = [
            np.hstack([self.relations, np.zeros((len(self.relations), count + errors))]),
            np.hstack([own, zero, np.zeros((runs, count)), -which]),
            np.hstack([-above, zero, np.zeros((runs, count)), -which]),
            np.hstack([moved, -distance, np.zeros((count, errors))]),
            np.hstack([-moved, -distance, np.zeros((count, errors))]),
        ]
        limits = [np.zeros(len(self.relations)), np.ones(runs), -np.ones(runs), np.zeros(count), np.zeros(count)]
        return solve([*np.zeros(n + 1), *[pull] * count, *[1.0] * errors], rows, limits, self._w, n)

    # ---- memory ------------------------------------------------------------------------------------------------

    def _memory(self, trials: Sequence[Trial]) -> tuple[dict[int, str], float, float, tuple[str, ...]]:
        """Candidates that cannot fit, the least and the greatest common share, and sentences on contradictions."""
        limit, own, most = self.question.problem.memory_bytes, self.question.memory_rho, self.question.memory_common
        if limit is None:
            return {}, 1 - most, 1 + most, ()
        # (1 + m)(1 + e) is at least, and at most, so much for these candidates.
        least, greatest = [(0.0, -1)], [(math.inf, -1)]
        for trial in trials:
            held = self.bytes[trial.candidate]
            peak = limit if trial.peak_bytes is None else trial.peak_bytes
            if trial.outcome == "out of memory" or trial.peak_bytes is not None:
                least.append((peak / held, trial.candidate))
            if trial.outcome == "measured" or trial.peak_bytes is not None:
                greatest.append((peak / held, trial.candidate))
        (low, first), (high, last) = max(least), min(greatest)
        between = (low - high) / (low + high) if high < math.inf else 0.0
        needed = max(own, between, low / (1 + most) - 1, 1 - high / (1 - most))
        notes: tuple[str, ...] = ()
        if needed > own:
            those = sorted({c for c in (first, last) if c >= 0})
            named = listed([f"candidate {c}" for c in those])
            own = min(MOST_SHARE, needed)
            notes = (
                f"Memory agrees with the predictions only within {100 * needed:.3g} % of each candidate's: {named} "
                f"{'is' if len(those) == 1 else 'are'} the most at odds.",
            )
        low, high = max(1 - most, low / (1 + own)), min(1 + most, high / (1 - own))
        unfit = {
            c: f"holds {held * low * (1 - own) / GIB:.4g} GiB at least, and {limit / GIB:.4g} GiB fit"
            for c, held in enumerate(self.bytes)
            if held * low * (1 - own) > limit
        }
        return unfit, low, high, notes

    def _order(self, likely: Mapping[int, float], low: float, high: float) -> list[int]:
        """All candidates, the one to run first: the fastest by the fit, those first that fit by the middle of what is
        known of memory."""
        limit, middle = self.question.problem.memory_bytes, (low + high) / 2
        fits = [limit is None or held * middle <= limit for held in self.bytes]
        return sorted(likely, key=lambda c: (not fits[c], likely[c], c))


def verdict(question: Question, trials: Sequence[Trial], proxies: Sequence[Proxy] = ()) -> Verdict:
    """What these runs prove, and which one comes next."""
    return _decision(question).verdict(trials, proxies)


@lru_cache(maxsize=1)
def _decision(question: Question) -> Decision:
    """Forms take some hundredths of a second a candidate, and a campaign asks after every run."""
    return Decision(question)


def _times(trials: Sequence[Trial]) -> dict[int, float]:
    """The median time of each candidate that has one."""
    times: dict[int, list[float]] = {}
    for trial in trials:
        if trial.seconds is not None:
            times.setdefault(trial.candidate, []).append(trial.seconds)
    return {c: median(own) for c, own in times.items()}
