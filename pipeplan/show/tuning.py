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
from ..planners.training.forms import believed
from ..planners.training.proxies import TWICE, proxy_of
from ..studies.trials import in_words_of
from ..studies.tune import (
    Campaign,
    Made,
    best_seconds,
    certificate,
    list_share,
    per_cent,
    proxy_in_words,
    shortest_words,
)
from . import page as html

# The most candidates that a page lists.
MOST_LISTED = 40


# ---- in words ------------------------------------------------------------------------------------------


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
    return f"  it excludes {several(excluded, 'more configuration')}; the best run {_left(verdict)}"


def _left(verdict: Verdict) -> str:
    more = f", and {several(len(verdict.may), 'configuration')} may be faster by more than allowed"
    regret = (
        "cannot be compared with the fastest yet"
        if verdict.regret is None
        else f"is within {per_cent(verdict.regret)} of the fastest"
    )
    return regret + (more if verdict.may else "")


def summary(campaign: Campaign, verdict: Verdict) -> Iterator[str]:
    """What is believed, and what is known."""
    problem, first = campaign.problem, campaign.candidates[0]
    yield (
        f"{problem.model.name} on {problem.devices} {problem.gpu.name} with {problem.framework}: "
        f"{several(len(campaign.candidates), 'candidate')}, predicted to take at most {per_cent(list_share(campaign))} "
        f"longer than the best ({first.seconds:.4g} s per iteration)."
    )
    yield (
        f"Assumed: before fitting, all predicted times together may be off by a factor of "
        f"{math.exp(campaign.common):.3g}; after fitting, each of them by at most {per_cent(verdict.rho)}."
    )
    if campaign.proxies:
        count = several(len(campaign.proxies), "proxy")
        yield f"The measured times of {count} are trusted within {per_cent(TWICE * verdict.rho)}."
    if campaign.undecided:
        yield f"The search left {several(campaign.undecided, 'choice')} undecided; nothing is claimed about them."
    if verdict.best is not None and not verdict.certified:
        best = campaign.candidates[verdict.best].plan
        took = f"{shortest_words(problem, best)}, {best_seconds(campaign, best):.4g} s"
        yield f"The best run so far ({took} per iteration) {_left(verdict)}."
    for note in verdict.notes:
        yield re.sub(r"candidate (\d+)", lambda found: _named(campaign, int(found[1])), note)


def next_in_words(campaign: Campaign, verdict: Verdict) -> Iterator[str]:
    """The next run, with what the framework is told of it."""
    if verdict.next is None:
        return
    own = campaign.candidates[verdict.next]
    text, _ = in_words_of(campaign.problem, own.plan)
    words, takes = shortest_words(campaign.problem, own.plan), _seconds(verdict, verdict.next, own.seconds)
    yield f"Next run: {words}; {verdict.why.rstrip('.')} ({takes} per iteration, {own.bytes / GIB:.1f} GiB per GPU)."
    yield _on_one_line(text)
    cheap = _proxy(campaign, verdict)
    if cheap is not None:
        yield (
            f"Or first run a proxy ({cheap['differs']}; {cheap['seconds']:.4g} s per iteration), which takes "
            f"{per_cent(cheap['share'])} of the GPU time. Its time is trusted within {per_cent(TWICE * verdict.rho)}:"
        )
        yield _on_one_line(cheap["flags"])


def _proxy(campaign: Campaign, verdict: Verdict) -> dict[str, Any] | None:
    """A cheap run in place of the next one; None: there is none that was not made."""
    if verdict.next is None:
        return None
    whole, own = campaign.problem, campaign.candidates[verdict.next]
    proxy = proxy_of(whole, own.plan)
    if proxy is None or proxy.key in {cheap.of(whole).key for cheap in campaign.proxies}:
        return None
    problem, seconds = proxy.problem, proxy.timed.seconds(believed(whole.efficiencies))
    return {
        "differs": proxy_in_words(whole, problem),
        "layers": problem.model.layers,
        "devices": problem.devices,
        "batch": problem.batch,
        "words": words_of(proxy.plan),
        "seconds": seconds,
        "share": seconds * problem.devices / (own.seconds * whole.devices),
        "flags": in_words_of(problem, proxy.plan)[0],
    }


def _on_one_line(text: str) -> str:
    return text.strip() if text.startswith(("[", "{")) else " ".join(text.split())


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
        "proxy": _proxy(campaign, verdict),
        "stopped": stopped,
    }


# ---- as a page -----------------------------------------------------------------------------------------


def campaign_page(campaign: Campaign) -> str:
    """The whole page: times against predictions, the regret falling, and what is still possible."""
    verdicts = [campaign.verdict(most) for most in range(len(campaign.finished) + 1)]
    verdict, problem = verdicts[-1], campaign.problem
    title = f"Tuning {problem.model.name} on {problem.devices} {problem.gpu.name}"
    done = certificate(campaign, verdict)
    parts = [
        html.header(
            title,
            html.paragraph(done or "Not decided yet.", "verdict " + ("yes" if done else "no")),
            html.published(),
        ),
        html.section("What is known", html.listed(summary(campaign, verdict))),
    ]
    measured = [(n, run) for n, run in enumerate(campaign.finished, 1) if run.seconds is not None]
    falling = [(n, 100 * own.regret) for n, own in enumerate(verdicts) if own.regret is not None]
    if len(measured) > 1:
        real = tuple((float(n), run.seconds or 0.0) for n, run in measured)
        told = tuple((float(n), campaign.candidates[campaign.numbers[run.plan]].seconds) for n, run in measured)
        lines = [html.Line("measured", real), html.Line("predicted before any run", told)]
        curve = html.line_chart(lines, "Seconds of each run", "run", "seconds per iteration")
        parts.append(html.section("Times", curve))
    if len(falling) > 1:
        allowed = tuple((n, 100 * campaign.within) for n, _ in falling)
        lines = [
            html.Line("regret left", tuple(falling)),
            html.Line(f"allowed: {per_cent(campaign.within)}", allowed),
        ]
        curve = html.line_chart(lines, "Regret after each run", "runs", "regret, per cent", low=0.0)
        parts.append(html.section("Regret", curve))
    parts.append(html.section("Runs", _runs(campaign), *map(html.paragraph, _apart(campaign))))
    parts.append(html.section("Still possible", _possible(campaign, verdict)))
    return html.page(title, parts)


def _runs(campaign: Campaign) -> Any:
    rows = [
        [str(run.id), words_of(run.plan), run.state, "" if run.seconds is None else f"{run.seconds:.4g}",
         f"{campaign.candidates[campaign.numbers[run.plan]].seconds:.4g}",
         "" if run.peak_bytes is None else f"{run.peak_bytes / GIB:.1f}", run.name, run.said]
        for run in campaign.runs
    ]  # fmt: skip
    head = ("run", "configuration", "state", "seconds", "predicted", "peak GiB", "read from", "message")
    return html.table(head, rows, "All runs, in the order in which they were recorded")


def _apart(campaign: Campaign) -> Iterator[str]:
    return (f"{own.name} is not used: {own.why}." for own in campaign.apart)


def _possible(campaign: Campaign, verdict: Verdict) -> Any:
    rows = []
    for number in verdict.may[:MOST_LISTED]:
        own = campaign.candidates[number]
        rows.append([words_of(own.plan), _seconds(verdict, number, own.seconds), f"{own.bytes / GIB:.1f}"])
    more = len(verdict.may) - len(rows)
    caption = "Configurations that may still be the fastest by more than allowed" + f", and {more} more" * (
        more > 0
    )
    return html.table(("configuration", "expected after all runs", "GiB"), rows, caption)
