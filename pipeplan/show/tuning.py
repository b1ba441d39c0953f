"""Campaigns of `plan tune` in words: what was run, what it said, and what may still be the fastest."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..instances.base.fields import plain
from ..instances.base.quantities import GIB, several
from ..instances.training.words import words_of
from ..planners.training.deciding import Verdict
from ..studies.trials import in_words_of
from ..studies.tune import Campaign, Made, best_seconds, certificate, list_share, per_cent, shortest_words


def run_in_words(campaign: Campaign, run: Made) -> str:
    """One run: what came of it, beside its prediction before any run."""
    seconds = campaign.candidates[campaign.numbers[run.plan]].seconds
    whose = f" ({run.name})" if run.name else ""
    came = f"{run.seconds:.4g} s" if run.seconds is not None else run.state
    said = f"; {run.said}" if run.said else ""
    return f"run {run.id}{whose}: {shortest_words(campaign.problem, run.plan)}: {came}, predicted {seconds:.4g} s{said}"


def learnt_in_words(before: Verdict, verdict: Verdict) -> str:
    """What the last run has excluded, and the regret that it leaves."""
    excluded = len(verdict.excluded.keys() - before.excluded.keys())
    return f"  it excludes {excluded} more; the best run {_left(verdict)}"


def _left(verdict: Verdict) -> str:
    more = f", and {several(len(verdict.may), 'configuration')} may be faster by more than allowed"
    regret = (
        "is not known yet" if verdict.regret is None else f"is within {per_cent(verdict.regret)} of the fastest"
    )
    return regret + (more if verdict.may else "")


def summary(campaign: Campaign, verdict: Verdict) -> Iterator[str]:
    """What is believed, and what is known."""
    problem, first = campaign.problem, campaign.candidates[0]
    yield (
        f"{problem.model.name} on {problem.devices} {problem.gpu.name}, {problem.framework}: "
        f"{several(len(campaign.candidates), 'candidate')} within {per_cent(list_share(campaign))} of the best, which "
        f"is predicted to take {first.seconds:.4g} s an iteration."
    )
    yield (
        f"Assumed: the form of the model is right within {per_cent(verdict.rho)} for each configuration, and all times "
        f"are off by at most {math.exp(campaign.common):.3g} times together."
    )
    if campaign.undecided:
        yield f"The search has left {several(campaign.undecided, 'choice')} open: nothing is claimed of them."
    if verdict.best is not None and not verdict.certified:
        best = campaign.candidates[verdict.best].plan
        took = f"{shortest_words(problem, best)}, {best_seconds(campaign, best):.4g} s"
        yield f"The best run so far: {took}; it {_left(verdict)}."
    for note in verdict.notes:
        yield re.sub(r"candidate (\d+)", lambda found: _named(campaign, int(found[1])), note)


def next_in_words(campaign: Campaign, verdict: Verdict) -> Iterator[str]:
    """The next run, with what the framework is told of it."""
    if verdict.next is None:
        return
    own = campaign.candidates[verdict.next]
    text, _ = in_words_of(campaign.problem, own.plan)
    words, why = shortest_words(campaign.problem, own.plan), verdict.why.rstrip(".")
    yield f"Next run: {words}: {_seconds(verdict, verdict.next, own.seconds)}, {own.bytes / GIB:.1f} GiB; {why}."
    yield text.strip() if text.startswith(("[", "{")) else " ".join(text.split())


def _named(campaign: Campaign, number: int) -> str:
    """The shortest words of a candidate."""
    return shortest_words(campaign.problem, campaign.candidates[number].plan)


def _seconds(verdict: Verdict, number: int, predicted: float) -> str:
    """What is expected of a candidate after the runs so far."""
    least = f", at least {verdict.least[number]:.4g} s" if number in verdict.least else ""
    return f"{verdict.likely.get(number, predicted):.4g} s{least}"


def status(campaign: Campaign, verdict: Verdict, stopped: str | None) -> Mapping[str, Any]:
    """The same as JSON: configurations are their words."""
    words = [words_of(own.plan) for own in campaign.candidates]
    plan = None if verdict.next is None else campaign.candidates[verdict.next].plan
    named = {name: plain(getattr(verdict, name)) for name in ("regret", "certified", "rho", "why", "notes")}
    return {
        **campaign.to_json(),
        **named,
        "best": None if verdict.best is None else words[verdict.best],
        "certificate": certificate(campaign, verdict),
        "may": [words[number] for number in verdict.may],
        "excluded": {words[number]: why for number, why in verdict.excluded.items()},
        "next": None if plan is None else words_of(plan),
        "flags": None if plan is None else in_words_of(campaign.problem, plan)[0],
        "stopped": stopped,
    }
