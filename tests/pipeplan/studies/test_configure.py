"""Losses by part, the least change, and the shortlist as `plan configure` tells it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import count, product
from typing import Any

import jsonschema
import pytest
from command_line import has
from page_samples import JUDGED, configured, small_training
from problems.trainings import random_configuration, random_training
from referencing import Registry, Resource

from pipeplan import InputError, Result, Stop, TrainingProblem, UsageError
from pipeplan.instances.schemas import NAMES, read_schema
from pipeplan.instances.stored_results import result_from_json
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.cases import ParallelismChoice
from pipeplan.instances.training.kind_functions import with_memory
from pipeplan.instances.training.model import Attention, Mlp, Model
from pipeplan.instances.training.problem import Level
from pipeplan.instances.training.referee import evaluate_configuration, memory_of_ranks, verify_configuration
from pipeplan.instances.training.scope import fit_of
from pipeplan.instances.training.words import configuration_from_words, words_of
from pipeplan.planners.contract import Request
from pipeplan.planners.run.claims import recompute
from pipeplan.planners.training.planner import guide
from pipeplan.planners.training.search import Search
from pipeplan.show.views.training import best_in_words, counted_in_words, list_in_words, lost_in_words, shortly
from pipeplan.studies.configure import search
from pipeplan.studies.configure.answer import NEAR, Answer, Asked, Prefer, by_part, configure, lost, simplicity
from pipeplan.studies.configure.judge import judge, least_change, memory_of_few
from pipeplan.studies.configure.result import MOST_CHARACTERS, MOST_JUDGED, result_of, stored_answer
from pipeplan.studies.configure.search import more_nodes, nearest_miss, search_configurations

ASKED = Asked(error=0.05, memory_error=0.03)


def tiny(memory_bytes: float = 4 * 2**30, layers: int = 8) -> TrainingProblem:
    model = Model("tiny", 1_024, layers, 32_000, Attention(8, 128, 2), Mlp(4_096))
    return problem_of(model, "4xrtx-3090", batch=16, sequence=1_024, memory_bytes=memory_bytes)


def nobody(record: object) -> None:
    pass


def interrupted(*arguments: object) -> None:
    raise KeyboardInterrupt


def test_a_difference_below_rounding_is_no_difference() -> None:
    """No sentence says that nothing is 0.0000000000000178 % faster, and one choice is one choice."""
    problem = tiny()
    fixed = ("tensor=1", "context=1", "pipeline=1", "micro-batch=1", "zero=1", "recompute=none")
    asked = replace(ASKED, fixed=fixed)
    report = search_configurations(problem, asked, None, nobody)
    assert report.best is not None
    report = replace(report, bound=report.best.seconds * (1 - 2e-16))
    answer = Answer(problem, asked, report=report)
    *_, last = best_in_words(answer)
    assert last == "Proven: no configuration in scope that is certain to fit is faster."
    assert counted_in_words(answer).startswith("1 choice in scope")


@pytest.mark.parametrize("prefer", ["simplest", "least-memory"])
def test_what_is_preferred_fits_takes_little_longer_and_says_so(prefer: Prefer) -> None:
    problem = tiny()
    answer = Answer(problem, ASKED, report=search_configurations(problem, ASKED, None, nobody))
    fastest, own = answer.best, answer.preferring(prefer)
    assert fastest is not None
    assert own.best is not None
    assert own.best.fit(ASKED.memory_error) == "yes"
    assert fastest.timing.seconds <= own.best.timing.seconds <= (1 + NEAR) * fastest.timing.seconds
    if prefer == "simplest":
        assert simplicity(own.best) <= simplicity(fastest)
    else:
        assert own.best.fullest.bytes <= fastest.fullest.bytes
    assert own.preferred is not None
    assert any("at most 1 % slower" in sentence for sentence in best_in_words(own)) == (own.preferred.near > 1)
    assert any(row.best.plan == own.best.plan for row in own.families), "it stands for its family"
    assert own.result.bound == answer.result.bound
    assert own.to_json()["preferred"]["fastest"]["words"] == words_of(fastest.plan)
    assert answer.preferring("fastest") is answer
    with pytest.raises(InputError, match="prefer is 'slowest'; give 'fastest', 'simplest' or 'least-memory'"):
        configure(problem, prefer="slowest")  # type: ignore[arg-type]


def test_near_ties_are_decided_for_the_simpler_one_and_the_fastest_is_named() -> None:
    problem = problem_of("llama-3-8b", "8xh100-80gb", batch=64, sequence=4096, layers=8)
    usual, fastest = configure(problem), configure(problem, prefer="fastest")
    assert usual.best is not None
    assert fastest.best is not None
    assert simplicity(usual.best) < simplicity(fastest.best)
    assert usual.preferred is not None
    assert usual.preferred.fastest.plan == fastest.best.plan
    assert fastest.preferred is None
    assert any("and is the simplest of" in sentence for sentence in best_in_words(usual))


def test_beside_the_best_stands_what_holds_a_tenth_less() -> None:
    answer = configure(tiny())
    for own in answer.listed:
        leaner = answer.leaner(own.plan)
        held = [answer.fullest(each.plan).full <= 0.9 * answer.fullest(own.plan).full for each in answer.listed]
        assert (leaner is None) == (not any(held))
        assert leaner is None or leaner is answer.listed[held.index(True)], "the fastest of them"
    assert answer.cover is not None
    told = [own["leaner"] and own["leaner"]["words"] for own in answer.to_json()["cover"]["families"]]
    leaner = [answer.leaner(answer.families[own.family].best.plan) for own in answer.cover.members]
    assert told == [own and words_of(own.plan) for own in leaner]


# ---- losses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_parts_add_up_to_the_iteration_and_losses_to_the_difference(seed: int) -> None:
    problem = random_training(seed)
    one, other = (evaluate_configuration(problem, random_configuration(problem, n)) for n in (seed, seed + 1))
    assert sum(by_part(one).values()) == pytest.approx(one.timing.seconds)
    assert sum(lost(one, other).values()) == pytest.approx(
        one.timing.seconds - other.timing.seconds, abs=1e-9 * one.timing.seconds
    )
    assert all(seconds >= -1e-9 * one.timing.seconds for seconds in by_part(one).values())


def test_recomputation_and_imbalance_are_told_apart() -> None:
    problem = tiny()
    plans = ("pipeline=2 layout=5/5", "pipeline=2 layout=5/5 recompute=full", "pipeline=2 layout=3/7")
    even, again, uneven = (
        evaluate_configuration(problem, configuration_from_words(problem, words)) for words in plans
    )
    assert max(lost(again, even).items(), key=lambda part: part[1])[0] == "recomputation"
    assert lost(uneven, even)["imbalance of the stages"] > 0
    assert "recomputation" not in lost(uneven, even)


# ---- the least change ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_what_is_offered_keeps_all_rules_and_fits(seed: int, share: float) -> None:
    problem = random_training(seed)
    plan = random_configuration(problem, seed)
    held = max(rank.bytes for rank in memory_of_ranks(problem, plan))
    small = with_memory(problem, share * held)
    change = least_change(small, plan, 0.03)
    if change is None:
        return
    assert change.plan != plan
    assert change.bytes == max(rank.bytes for rank in memory_of_ranks(small, change.plan))
    assert change.fits == fit_of(change.bytes, small.memory_bytes, 0.03) != "no"
    broken = {fault.rule for fault in verify_configuration(small, change.plan)}
    assert broken <= ({"memory"} if change.fits == "maybe" else set())


@pytest.mark.parametrize("seed", range(40))
def test_few_micro_batches_reach_the_fullest_moment(seed: int) -> None:
    problem = random_training(seed)
    plan = random_configuration(problem, seed)
    more = problem.replace(batch=problem.batch * 6 * plan.degrees.pipeline)
    assert memory_of_few(more, plan) == memory_of_ranks(more, plan)


# ---- the whole answer ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answer() -> Answer:
    problem = tiny()
    judged = tuple(judge(problem, words, 0.03) for words in ("pipeline=2", "tensor=4 recompute=full"))
    return Answer(problem, ASKED, judged, search_configurations(problem, ASKED, None, nobody))


def test_json_keeps_its_schema(answer: Answer) -> None:
    told: dict[str, Any] = answer.to_json()
    jsonschema.Draft202012Validator(read_schema("configurations-1")).validate(told)
    assert all(rank["parts"] for own in told["shortlist"] for rank in own["ranks"])
    assert told["best"]["words"] in [own["words"] for own in told["shortlist"]]
    assert told["considered"] == told["fit"] + told["cannot_fit"]
    named = len(told["shortlist"]) + len(told["not_excluded"])
    assert told["considered"] == named + told["cannot_fit"] + sum(told["discarded"].values())
    assert told["bound"] <= told["best"]["seconds"]
    assert sum(told["judged"][1]["lost"].values()) == pytest.approx(
        told["judged"][1]["seconds"] - told["best"]["seconds"]
    )


def test_choices_that_are_not_excluded_stand_beside_the_list(answer: Answer) -> None:
    """The theorem speaks of both together, in words and in the JSON."""
    assert answer.report is not None
    *listed, last = answer.report.listed
    other = ParallelismChoice(last.plan.degrees, last.plan.micro_batch, last.plan.zero, last.plan.schedule)
    again = ParallelismChoice(listed[0].plan.degrees, listed[0].plan.micro_batch, listed[0].plan.zero, "zb-h1")
    report = replace(answer.report, listed=tuple(listed), unsettled=((again, 0.5), (other, 1.5)))
    less = Answer(answer.problem, ASKED, (), report)
    told = less.to_json()
    jsonschema.Draft202012Validator(read_schema("configurations-1")).validate(told)
    assert [(own["zero"], own["bound"]) for own in told["not_excluded"]] == [(last.plan.zero, 1.5)]
    promise = " ".join(list_in_words(less))
    has(promise, f"among the {len(listed)} on the list or is the undecided choice", "undecided: no layout")
    assert "1 undecided" in counted_in_words(less)
    assert "undecided" not in " ".join(list_in_words(answer)) + counted_in_words(answer)


def test_no_choice_is_said_not_to_fit_where_one_is_not_excluded(answer: Answer) -> None:
    assert answer.report is not None
    own = answer.report.listed[0].plan
    gamma = ParallelismChoice(own.degrees, own.micro_batch, own.zero, own.schedule)
    report = replace(answer.report, best=None, listed=(), unsettled=((gamma, 1.0),), nothing_fits=False)
    open_end = Answer(answer.problem, ASKED, (), report)
    assert next(best_in_words(open_end)).startswith("No configuration that fits was found, but 138 of 150 ")
    assert result_of(open_end, 1.0).stop == Stop.COMPLETED
    closed = Answer(answer.problem, ASKED, (), replace(report, unsettled=(), nothing_fits=True))
    assert next(best_in_words(closed)).startswith("No configuration in scope is certain to fit")
    assert result_of(closed, 1.0).stop == Stop.INFEASIBLE


def test_the_list_holds_what_takes_no_longer_than_the_theorem_says(answer: Answer) -> None:
    assert answer.best is not None
    most = ASKED.ratio * answer.best.timing.seconds
    assert all(own.seconds <= most * (1 + 1e-6) for own in answer.listed)
    has(" ".join(list_in_words(answer)), "is among the", "1.105 times")


def test_a_list_of_one_is_called_so(answer: Answer) -> None:
    one = replace(answer, report=replace(answer.report, listed=answer.report.listed[:1], unsettled=()))
    assert next(list_in_words(one)).startswith("The fastest configuration is the one on the list, if ")


def test_everything_is_counted_in_words(answer: Answer) -> None:
    assert counted_in_words(answer).startswith(f"{answer.report.considered:,} choices in scope: ")  # type: ignore[union-attr]
    assert "recomputation" in lost_in_words(answer, answer.judged[1])


def test_a_search_without_time_says_that_its_list_may_lack_some() -> None:
    problem = tiny()
    report = search_configurations(problem, ASKED, 0.0, nobody)
    cut = Answer(problem, ASKED, (), report)
    assert not report.finished
    assert "cut short" in next(list_in_words(cut))
    assert "not yet decided" in counted_in_words(cut)


@pytest.mark.parametrize("method", ["_refine", "_raise_bounds"])
def test_a_search_that_time_cuts_is_not_completed(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """The clock passes the limit inside a method, also where the list is proven and bounds alone may still rise."""
    problem, passed = tiny(layers=22), [0.0]
    whole = getattr(Search, method)

    def slow(self: Search, *arguments: Any) -> None:
        passed[0] += 100 * self.by_thumb  # not of the search for a rough plan
        whole(self, *arguments)

    asked = replace(ASKED, fixed=("pipeline=4", "virtual=3", "micro-batch=1"))
    monkeypatch.setattr(search, "now", lambda: passed[0])
    assert (
        Answer(problem, asked, (), search_configurations(problem, asked, 50, nobody)).result.stop == Stop.COMPLETED
    )
    monkeypatch.setattr(Search, method, slow)
    report = search_configurations(problem, asked, 50, nobody)
    answer = Answer(problem, asked, (), report)
    assert report.best is not None
    assert report.finished == (method == "_raise_bounds")
    assert answer.result.stop == Stop.TIME
    again = stored_answer(problem, answer.result)
    assert again is not None
    assert again.result.stop == Stop.TIME
    monkeypatch.setattr(Search, method, interrupted)
    assert (
        Answer(problem, asked, (), search_configurations(problem, asked, 50, nobody)).result.stop
        == Stop.INTERRUPTED
    )


def test_a_rule_of_thumb_that_time_cuts_is_not_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is over when the rule's last search looks at the clock for the last time."""
    looks = count()
    monkeypatch.setattr(Request, "out_of_time", lambda own: next(looks) < 0)
    assert guide(Request(tiny())).stop == Stop.COMPLETED
    last, looks = next(looks) - 1, count()
    monkeypatch.setattr(Request, "out_of_time", lambda own: next(looks) >= last)
    cut = guide(Request(tiny()))
    assert (cut.stop, cut.plan is None) == (Stop.TIME, False)


def test_where_nothing_fits_there_is_no_best() -> None:
    problem = tiny(memory_bytes=2**30)
    nothing = Answer(problem, ASKED, (), search_configurations(problem, ASKED, None, nobody))
    assert nothing.best is None
    told = nothing.to_json()
    assert (told["fit"], told["shortlist"]) == (0, [])
    assert told["nearest"]["fits"] == "no"
    answer, missing, *_ = best_in_words(nothing)
    assert answer.startswith("No configuration in scope is certain to fit")
    assert "lacks" in missing


def test_where_nothing_fits_more_gpus_of_the_same_sort_are_offered() -> None:
    """Nodes of four: two and four are too few, eight are enough, and so are seven, but not five or six."""
    problem = tiny(memory_bytes=2.3e9, layers=40).replace(batch=48)
    nothing = Answer(problem, ASKED, (), search_configurations(problem, ASKED, None, nobody))
    more = nothing.on_more_nodes
    assert more is not None
    devices = more.degrees.stage_ranks * more.degrees.pipeline
    assert devices == 28
    assert f"{devices} rtx-3090 are enough, with {shortly(more)}." in list(best_in_words(nothing))
    larger = problem.replace(devices=devices, levels=(Level(devices, 1e10),))
    assert evaluate_configuration(larger, more).fit(ASKED.memory_error) == "yes"
    hopeless = tiny(memory_bytes=1.7e9)
    assert more_nodes(hopeless, ASKED) is None, "the reserve alone leaves nothing"


def test_the_nearest_miss_lacks_least_of_all_that_was_enumerated() -> None:
    """Of all degrees of a small problem, with whole layers computed again and even layouts."""
    problem = tiny(memory_bytes=2**30)
    nearest = nearest_miss(problem, ASKED)
    assert nearest is not None
    words = (
        f"tensor={t} pipeline={p} zero={zero} recompute=full"
        for t, p, zero in product((1, 2, 4), (1, 2, 4), (0, 1))
        if t * p <= 4
    )
    plans = [configuration_from_words(problem, own) for own in words]
    least = min(evaluate_configuration(problem, plan).fullest.bytes for plan in plans)
    assert evaluate_configuration(problem, nearest).fullest.bytes <= least


def test_whole_layers_are_offered_where_a_framework_knows_nothing_else() -> None:
    """torchtitan computes all layers of a chunk again or none: two of them would be a change that it cannot run."""
    problem = problem_of("llama-3-8b", "8xh100-80gb", batch=64, sequence=8192, framework="torchtitan")
    plan = configuration_from_words(problem, "tensor=4 zero=3")
    held = max(rank.bytes for rank in memory_of_few(problem, plan))
    tight = problem.replace(gpu=replace(problem.gpu, memory_bytes=0.9 * held))
    change = least_change(tight, plan, 0.03)
    assert change is not None
    assert change.words == "recompute=full"


def test_a_configuration_that_breaks_a_rule_is_refused_by_its_own_sentence() -> None:
    refused: Callable[..., Any] = judge
    with pytest.raises(UsageError, match="cannot be run: Tensor parallelism divides"):
        refused(tiny().replace(framework="torchtitan"), "tensor=4", 0.03)


# ---- the shortlist in a result -----------------------------------------------------------------------


REGISTRY: Any = Registry().with_resources(
    [(read_schema(name)["$id"], Resource.from_contents(read_schema(name))) for name in NAMES]
)
VALIDATOR = jsonschema.Draft202012Validator(read_schema("result-1"), registry=REGISTRY)


@pytest.fixture(scope="module")
def written() -> Result:
    return configured(JUDGED)


def read(result: Result) -> Answer:
    answer = stored_answer(small_training(), result)
    assert answer is not None
    return answer


def test_the_list_and_what_was_judged_come_back_as_they_were_found(written: Result) -> None:
    VALIDATOR.validate(written.to_json())
    assert result_from_json(written.to_json()) == written
    answer, stored = read(written), written.choices
    assert stored is not None
    assert answer.best is not None
    assert answer.best.plan == written.plan
    assert written.plan in [own.plan for own in answer.listed]
    assert [own.seconds for own in answer.listed] == [entry["seconds"] for entry in stored["shortlist"]]
    assert [own.asked for own in answer.judged] == list(JUDGED)
    assert [own.fits for own in answer.judged] == ["yes", "yes", "no"]
    for own, entry in zip(answer.judged, stored["judged"], strict=True):
        assert own.evaluation.timing.seconds == entry["seconds"]
        assert answer.lost(own) == pytest.approx(entry["lost"])
        assert sum(entry["lost"].values()) == pytest.approx(entry["seconds"] - answer.best.timing.seconds)


def test_losses_and_times_of_judged_configurations_are_never_taken_from_the_file(written: Result) -> None:
    first, *_ = read(
        changed(written, lambda top: top["judged"][0].update(seconds=1e-9, lost={"the bubble": -9.0}))
    ).judged
    assert first.evaluation.timing.seconds == read(written).judged[0].evaluation.timing.seconds


def test_a_plan_that_the_referee_has_not_accepted_is_no_best_one(written: Result) -> None:
    assert read(recompute(small_training(), written).result).best is not None
    assert read(replace(written, verified=False)).best is None


def test_results_of_other_commands_have_no_list(written: Result) -> None:
    other = replace(written, choices=None)
    assert stored_answer(small_training(), other) is None
    assert "choices" not in other.to_json()


BROKEN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a share beyond all": (lambda top: top.update(error=1.5), "choices.error is 1.5; give a share"),
    "a count below zero": (lambda top: top.update(considered=-1), "choices.considered is -1; give a count from 0"),
    "no list": (lambda top: top.pop("shortlist"), "choices.shortlist is missing"),
    "a list that is none": (lambda top: top.update(shortlist={}), "choices.shortlist is an object, not a list"),
    "words that say nothing": (lambda top: top["shortlist"][1].update(words="fast=yes"),
     "choices.shortlist[1].words says configuration, which has the key 'fast'"),
    "another cluster": (lambda top: top["shortlist"][0].update(words="tensor=8"),
     "choices.shortlist[0].words says configuration, which has 8 x 1 x 1 ranks for 4 GPUs"),
    "what cannot be run": (lambda top: top["shortlist"][0].update(words="tensor=1 data=4 zero=0 schedule=zb-v"),
     "choices.shortlist[0].words cannot be run"),
    "flags for words": (lambda top: top["judged"][0].update(words="--tensor-model-parallel-size 2"),
     "choices.judged[0].words says configuration, which holds"),
    "an unknown framework": (lambda top: top["judged"][0].update(framework="x"),
     "choices.judged[0].framework is 'x'"),
    "endless words": (lambda top: top["judged"][0].update(words="x" * (MOST_CHARACTERS + 1)),
     f"choices.judged[0].words has {MOST_CHARACTERS + 1} characters"),
    "too many": (lambda top: top.update(judged=top["judged"][:1] * (MOST_JUDGED + 1)),
     f"choices.judged has {MOST_JUDGED + 1} entries; give at most {MOST_JUDGED}"),
    "time that is none": (lambda top: top["shortlist"][0].update(seconds="1"),
     "choices.shortlist[0].seconds is '1'"),
}  # fmt: skip


def changed(result: Result, change: Callable[[Any], Any]) -> Result:
    data = deepcopy(result.to_json())
    change(data["choices"])
    return result_from_json(data)


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_is_refused_with_its_place(written: Result, name: str) -> None:
    change, told = BROKEN[name]
    with pytest.raises(InputError) as said:
        read(changed(written, change))
    assert told in str(said.value)
