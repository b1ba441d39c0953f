"""Training configurations in sentences: what they take, whether they fit, and what would make them fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..instances.base.quantities import GIB
from ..instances.base.result import met
from ..instances.physics.efficiencies import USUAL_ERROR
from ..instances.training.frameworks import one_name_each
from ..instances.training.scope import Margin, both_sides
from ..instances.training.words import recompute_word, words_of
from .words import amount, percent, several

if TYPE_CHECKING:
    from ..instances.training.plan import Configuration
    from ..instances.training.referee.evaluate import ConfigurationEvaluation
    from ..studies.configure.answer import Answer
    from ..studies.configure.judge import Judged

# Parts of a loss below this share of the whole time are summed up in one.
WORTH_TELLING = 0.002
FITS = {"yes": "fits", "maybe": "may fit", "no": "does not fit"}
PART_WORDS = {"transient": "memory that is needed for a moment", "reserve": "the reserve"}
# Letters of the degrees for narrow places; degrees that are 1 everywhere are left out.
LETTERS = {
    "t": "tensor",
    "c": "context",
    "p": "pipeline",
    "v": "virtual",
    "e": "expert",
    "et": "expert_tensor",
    "d": "data",
}
# What a rank spends its time on, in the order of the tables.
SPENT = (
    "products",
    "attention",
    "memory",
    "measured",
    "recomputation",
    "tensor",
    "context",
    "expert",
    "pipeline",
    "data",
    "optimizer",
    "idle",
)


def gib(amount_bytes: float) -> str:
    return f"{amount_bytes / GIB:.2f} GiB"


def told(judged: Judged) -> Iterator[str]:
    """Sentences on a judged configuration: the answer first, then every key, and what would make it fit."""
    memory, time = memory_in_words(judged.evaluation), time_in_words(judged.evaluation)
    yield f"{judged.asked or 'the defaults'}: {FITS[judged.fits]}; {memory}; {time}."
    yield f"in full: {words_of(judged.plan)}"
    if judged.fits != "yes":
        yield change_in_words(judged)
    yield from (f"note: {note.rstrip('.')}." for note in judged.notes)


def memory_in_words(own: ConfigurationEvaluation) -> str:
    """A phrase on the memory of the fullest rank and its largest part."""
    full = own.fullest
    part = max(full.parts, key=lambda name: full.parts[name])
    share = percent(full.parts[part] / full.bytes)
    limit = "" if own.limit_bytes is None else f" of {own.limit_bytes / GIB:.2f}"
    return (
        f"its fullest rank, on stage {full.rank}, holds {full.bytes / GIB:.2f}{limit} GiB, "
        f"{share} of it {PART_WORDS.get(part, part)}"
    )


def time_in_words(own: ConfigurationEvaluation) -> str:
    """A phrase on the time of an iteration and its rates; what is not known is left out."""
    timing = own.timing
    mfu = "" if timing.mfu is None else f", MFU {percent(timing.mfu)}"
    return (
        f"an iteration takes {amount(timing.seconds, 's', 4)} "
        f"({timing.tokens_per_second_per_gpu:,.0f} tokens per second and GPU{mfu})"
    )


def change_in_words(judged: Judged) -> str:
    """How much memory the configuration lacks, and the least change that makes it fit."""
    full, limit = judged.evaluation.fullest, judged.evaluation.limit_bytes
    assert limit is not None, "without a limit everything fits"
    first = full.rank * judged.plan.degrees.stage_ranks
    over = full.bytes - limit
    error = percent(both_sides(judged.memory_error).more)
    missed = (
        f"rank {first} is over by {gib(over)}"
        if over > 0
        else f"rank {first} has {gib(-over)} left, less than the {error} by which memory may be wrong"
    )
    change = judged.change
    if change is None:
        return f"{missed}; neither recomputation, sharding, another layout nor other degrees alone make it fit."
    return f"{missed}; {change.words} {FITS[change.fits]}, with {gib(change.bytes)} on its fullest rank."


# ---- what was found --------------------------------------------------------------------------------------


def best_in_words(answer: Answer) -> Iterator[str]:
    """The answer first: the best configuration, its time and its fullest rank; or what is missing."""
    best, report = answer.best, answer.report
    assert report is not None, "asked of a search"
    if best is None:
        yield from _nothing(answer)
        return
    yield f"{shortly(best.plan)}: {time_in_words(best)}; {memory_in_words(best)}."
    yield f"in full: {words_of(best.plan)}"
    gap = report.gap or 0.0
    if met(best.timing.seconds, report.bound):
        yield "Proven: no configuration of the scope that fits for sure is faster."
    else:
        yield (
            f"Proven: no configuration of the scope that fits for sure takes less than {amount(report.bound, 's', 4)}, "
            f"which is {percent(gap)} less."
        )


def _nothing(answer: Answer) -> Iterator[str]:
    """Sentences for a search without a best configuration: why there is none, and the nearest miss."""
    report, nearest = answer.report, answer.nearest
    assert report is not None, "asked of a search"
    if answer.why_empty is not None:
        yield answer.why_empty
    elif not report.finished:
        yield "No configuration that fits was found before the search ended."
    elif not report.nothing_fits:
        left = f"{report.fit:,} of {several(report.considered, 'choice', ',')}"
        yield f"No configuration that fits was found, and {left} may have one: no bound excludes them."
    else:
        yield f"No configuration of the scope fits for sure, out of {several(report.considered, 'choice', ',')}."
    if nearest is None or nearest.limit_bytes is None:
        return
    over = nearest.fullest.bytes - nearest.limit_bytes
    if nearest.fit(answer.asked.memory_error) == "yes":
        fits = f"{shortly(nearest.plan)}: {memory_in_words(nearest)}"
        yield f"This configuration fits, but the search did not look at it: {fits}."
        yield f"in full: {words_of(nearest.plan)}"
        return
    missing = f"lacks {gib(over)}" if over > 0 else f"has {gib(-over)} left, too little for the error of memory"
    yield f"The nearest miss is {shortly(nearest.plan)}: {memory_in_words(nearest)}, and so it {missing}."
    yield f"in full: {words_of(nearest.plan)}"


def shortly(plan: Configuration) -> str:
    """A configuration in short: degrees above 1, data parallelism, micro-batch, ZeRO stage, and any recomputation."""
    degrees = plan.degrees
    named_degrees = {
        "tensor": degrees.tensor,
        "context": degrees.context,
        "pipeline": degrees.pipeline,
        "virtual": degrees.virtual,
        "expert": degrees.expert,
        "expert-tensor": degrees.expert_tensor,
    }
    told = [f"{name}={value}" for name, value in named_degrees.items() if value > 1]
    told += [f"data={degrees.data}", f"micro-batch={plan.micro_batch}", f"zero={plan.zero}"]
    if recompute_word(plan) != "none":
        told.append(f"recompute={recompute_word(plan)}")
    return " ".join(told)


def list_in_words(answer: Answer) -> str:
    """What the shortlist means, in one sentence."""
    asked, count, report = answer.asked, len(answer.listed), answer.report
    beside = 0 if report is None else len(report.unlisted)
    if report is None or not report.finished:
        return (
            f"The search was cut short: these {count} are what it knows, and the fastest one may be none of them."
        )
    if answer.best is None:
        share = percent(both_sides(asked.memory_error).less)
        may = f"None of these {count} fits for sure; they fit if memory is wrong by up to {share}."
        return f"{may} {_beside(beside)}" if beside else may
    listed = f"these {count}" if count > 1 else "this one"
    among = f"among {listed} and {beside:,} that are not excluded" if beside else f"among {listed}"
    if not beside and count == 1:
        among = "this one"
    has = "the list has" if not beside else "together they are"
    takes = "takes" if not beside else "may take"
    theorem = (
        f"If no time is wrong by more than {percent(asked.error)} and no memory by more than "
        f"{_margin(asked.memory_error)}, the fastest one is {among}: {has} every choice of degrees, "
        f"micro-batch and ZeRO stage that may fit and {takes} at most {asked.ratio:.4g} times as long as the best."
    )
    return " ".join(filter(None, (theorem, _beside(beside) if beside else "", _one_name(answer))))


def _one_name(answer: Answer) -> str:
    """That ZeRO stages which are the same are listed once, where the list has such an entry."""
    stages = answer.problem.states
    for own in answer.listed:
        if len(one_name_each(answer.problem, own.plan.degrees, stages)) < len(stages):
            return (
                f"With data={own.plan.degrees.data} nothing is divided among data-parallel ranks, so that stages of "
                f"ZeRO are the same: such a choice is listed once, as zero={own.plan.zero}."
            )
    return ""


def _margin(error: float | Margin) -> str:
    """The margin of memory in words: one share, or those to either side."""
    margin = both_sides(error)
    if margin.more == margin.less:
        return percent(margin.more)
    return f"{percent(margin.more)} upwards or {percent(margin.less)} downwards"


def _beside(count: int) -> str:
    """Choices of which the search knows too little, in one sentence."""
    whose = "1 choice is" if count == 1 else f"{count:,} choices are"
    them = "it" if count == 1 else "them"
    return (
        f"{whose} not excluded: no layout of {them} that belongs in the list was found, and no bound rules one out."
    )


def measured_in_words(answer: Answer) -> Iterator[str]:
    """Sentences on the given runs, and on how they changed the shortlist."""
    if answer.measured is None:
        return
    yield from answer.measured.sentences()
    if answer.before is not None:
        allowed = "" if answer.before_error is None else f", for an error of {percent(answer.before_error)}"
        yield (
            f"With these runs the shortlist has {several(len(answer.listed), 'choice')}, for an error of "
            f"{percent(answer.asked.error)}; without the fit it has {len(answer.before.listed):,}{allowed}."
        )
    elif answer.report is not None:
        off = percent(answer.measured.eps_before or 0)
        yield f"Without the fit times are off by {off}: no list can allow for that."
    eps = answer.measured.eps
    if eps is not None and eps < answer.asked.error == USUAL_ERROR:
        yield (
            f"The list allows for {percent(USUAL_ERROR)} and not {percent(eps)}: these runs do not show that other "
            "configurations come as near; --error says otherwise."
        )


def counted_in_words(answer: Answer) -> str:
    """A phrase on how many choices there were, how many cannot fit, and which bounds discarded the others."""
    report = answer.report
    assert report is not None, "asked of a search"
    by = ", ".join(f"{count:,} by the bound of {name}" for name, count in report.discarded.items() if count)
    if not report.considered:
        return "0 choices in the scope."
    parts = [f"{report.unfit:,} cannot fit"]
    if report.unlisted and report.finished:
        parts.append(f"{len(report.unlisted):,} not excluded")
    if by:
        parts.append(f"discarded as too slow: {by}")
    if not report.finished:
        parts.append(f"{report.undecided:,} not decided")
    return f"{several(report.considered, 'choice', ',')} in the scope: {'; '.join(parts)}."


def lost_in_words(answer: Answer, judged: Judged) -> str:
    """Why a judged configuration is not the best: what each part costs against the best, the largest first."""
    best, lost = answer.best, answer.lost(judged)
    if best is None or lost is None:
        return ""
    seconds, least = judged.evaluation.timing.seconds, best.timing.seconds
    if judged.plan == best.plan:
        return "This is the best configuration of the scope."
    slower = seconds - least
    large = {name: value for name, value in lost.items() if abs(value) >= WORTH_TELLING * least}
    rest = slower - sum(large.values())
    order = sorted(large, key=lambda name: -abs(large[name]))
    parts = [f"{name} {large[name]:+.3g} s" for name in order]
    if abs(rest) >= WORTH_TELLING * least:
        parts.append(f"all else {rest:+.3g} s")
    word = "slower" if slower >= 0 else "faster"
    told_parts = ", ".join(parts) or "no part is worth telling"
    return f"Against the best it is {percent(abs(slower) / least)} {word} ({slower:+.4g} s): {told_parts}."
