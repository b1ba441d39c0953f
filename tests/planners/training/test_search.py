"""The search finds the fastest configuration of tiny problems, and its bound and list are what they say."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from oracles.training import best_configuration, configurations
from problems.asked_trainings import asked
from problems.trainings import random_own_training, random_training, with_encoder

from pipeplan import Stop, TrainingProblem, solve
from pipeplan.instances.base import compiled as machine_code
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.cases import NONE, ParallelismChoice
from pipeplan.instances.training.model import MeasuredTime, Model, OwnLayer
from pipeplan.instances.training.plan import NOTHING, Configuration
from pipeplan.instances.training.referee import evaluate_configuration, verify_configuration
from pipeplan.instances.training.scope import Scope, read_scope
from pipeplan.planners.training import ahead
from pipeplan.planners.training.bounds import LoadBound, PathBound
from pipeplan.planners.training.judging import Best, LayoutEvaluator
from pipeplan.planners.training.search import Found, Key, Report, Search, Settings

CLOSE = 1e-9


def tiny(seed: int, own: bool = False, vision: bool = False) -> TrainingProblem:
    """With few configurations, and a memory that some of them do not fit."""
    draw = random.Random(seed)
    devices = draw.choice((1, 2, 2, 3) if own else (1, 2, 2))
    problem = random_own_training(seed, devices=devices) if own else random_training(seed, devices=devices)
    model = problem.model
    if own:
        model = replace(model, own=model.own[:4])
    else:
        layers = draw.randint(1, 2)
        experts = model.experts
        if experts is not None:
            experts = replace(experts, dense_layers=min(experts.dense_layers, layers))
        model = replace(model, layers=layers, experts=experts)
        if vision:
            problem = with_encoder(problem.replace(model=model), seed)
            model = problem.model
    problem = problem.replace(model=model, batch=devices * draw.choice((1, 2)))
    held = sorted(
        max(rank.bytes for rank in evaluate_configuration(problem, plan).memory) for plan in some(problem)
    )
    limit = draw.choice((held[0] * 0.9, held[len(held) // 4], held[len(held) // 2] * 1.001, held[-1] * 2))
    # Whole bytes: the search adds doubles, so that a limit met to the last fraction of a byte may count as passed.
    return problem.replace(gpu=replace(problem.gpu, memory_bytes=float(math.ceil(limit))))


def key_of(plan: Configuration) -> Key:
    return plan.degrees, plan.micro_batch, plan.zero


def listed_key(problem: TrainingProblem, plan: Configuration) -> Key:
    """Where nothing is divided among copies all stages of ZeRO are the same, and the list has one of them."""
    copies = plan.degrees.data * plan.degrees.context
    return plan.degrees, plan.micro_batch, plan.zero if copies > 1 else problem.rules.usual_zero


def some(problem: TrainingProblem) -> list:
    plans = list(configurations(problem))
    return plans[:: max(1, len(plans) // 50)]


def found(problem: TrainingProblem, **changes: float) -> Report:
    return Search(problem, Scope(), Settings(**changes)).run()


def compare(seed: int, own: bool = False, vision: bool = False) -> bool:
    """Does anything fit?"""
    problem = tiny(seed, own, vision)
    truth = best_configuration(problem)
    report = found(problem, error=0.0, memory_error=0.0)
    assert report.finished
    if truth is None:
        assert report.best is None, (seed, report.best)
        return False
    assert report.best is not None, seed
    assert report.best.seconds == pytest.approx(truth[0], rel=CLOSE), (seed, report.best.plan, truth[1])
    assert report.bound <= truth[0] * (1 + CLOSE), seed
    assert not verify_configuration(problem, report.best.plan), seed
    return True


@pytest.mark.at_once(1)
@pytest.mark.parametrize("start", [0, 4, 8])
def test_the_best_configuration_is_that_of_enumeration(start: int) -> None:
    fit = [compare(seed) for seed in range(start, start + 4)]
    assert any(fit)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("start", [0, 3])
def test_the_best_configuration_with_a_vision_encoder_is_that_of_enumeration(start: int) -> None:
    fit = [compare(seed, vision=True) for seed in range(start, start + 3)]
    assert any(fit)


@pytest.mark.sweeps
def test_the_best_configuration_of_measured_layers_is_that_of_enumeration() -> None:
    fit = [compare(seed, own=True) for seed in range(6)]
    assert any(fit)


@pytest.mark.sweeps
@pytest.mark.parametrize("seeds", [range(start, start + 10) for start in range(100, 160, 10)], ids=str)
def test_the_best_configuration_is_that_of_enumeration_many_times(seeds: range) -> None:
    for seed in seeds:
        compare(seed, own=seed % 8 == 0)


def compare_asked(seed: int) -> bool:
    """Does anything fit? On up to 16 GPUs, with some values fixed."""
    question = asked(seed)
    truth = question.best()
    result = solve(question.problem, planner="exact-configuration", options=question.options)
    if truth is None:
        assert result.stop == Stop.INFEASIBLE, seed
        return False
    assert result.verified
    assert result.objective == pytest.approx(truth[0], rel=CLOSE), (seed, truth[1])
    assert result.bound is not None
    assert result.bound <= truth[0] * (1 + CLOSE), seed
    return True


def test_the_best_of_what_is_asked_for_is_that_of_enumeration() -> None:
    fit = [compare_asked(seed) for seed in range(4)]
    assert any(fit)


@pytest.mark.parametrize("seed", [359, 408])
def test_a_row_of_stages_may_have_its_slowest_one_first(seed: int) -> None:
    """Then less comes after its last pass than all other stages take: a bound that added them missed the best one."""
    compare_asked(seed)
    question = asked(seed)
    plans = [own for own in configurations(question.problem, question.fixed) if own.schedule == "1f1b"]
    search = Search(question.problem)
    for plan in [own for own in plans if own.degrees.pipeline > 1 and own.recompute[0] == NOTHING]:
        gamma = ParallelismChoice(plan.degrees, plan.micro_batch, plan.zero, plan.schedule)
        seconds = evaluate_configuration(question.problem, plan).timing.seconds
        assert search.loads(gamma).seconds() <= seconds * (1 + CLOSE)


@pytest.mark.sweeps
@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in range(100, 500, 20)], ids=str)
def test_the_best_of_what_is_asked_for_is_that_of_enumeration_many_times(seeds: range) -> None:
    """Twenty problems each, 400 in all."""
    for seed in seeds:
        compare_asked(seed)


@pytest.mark.at_once(2)
@pytest.mark.parametrize("share", [0.03, 0.0])
@pytest.mark.parametrize("seed", range(6))
def test_the_list_has_every_choice_that_may_be_the_fastest(seed: int, share: float) -> None:
    problem = tiny(seed)
    error = 0.05
    best = best_configuration(problem, share)
    report = found(problem, error=error, memory_error=share)
    if best is None:
        return
    most = best[0] * (1 + error) / (1 - error)
    wanted = set()
    for plan in configurations(problem):
        evaluation = evaluate_configuration(problem, plan)
        if max(rank.bytes for rank in evaluation.memory) * (1 - share) > problem.gpu.memory_bytes:
            continue
        if evaluation.timing.seconds <= most * (1 - CLOSE):
            wanted.add(listed_key(problem, plan))
    listed = {key_of(own.plan) for own in report.listed}
    assert not listed & {*report.unlisted}
    assert wanted <= listed | {*report.unlisted}, seed


def roomy(problem: TrainingProblem, share: float) -> TrainingProblem:
    """With a memory that a fast configuration may fit, and a slower one of the same degrees fits for sure."""
    facts = [(evaluate_configuration(problem, plan), plan) for plan in some(problem)]
    plans = [(key_of(plan), own.timing.seconds, own.fullest.bytes) for own, plan in facts]
    limits = [
        max(less * (1 + share), more * (1 - share))
        for (key, fast, more), (other, slow, less) in itertools.product(plans, repeat=2)
        if key == other and fast < slow < 1.2 * fast and less * (1 + share) < more * (1 + share / 2)
    ]
    limit = float(math.ceil(random.Random(problem.name).choice(limits))) if limits else None
    return problem.replace(gpu=replace(problem.gpu, memory_bytes=limit))


def least_seconds(problem: TrainingProblem, share: float) -> dict[Key, float]:
    """The least seconds of configurations that may fit, by what entries of the list differ in."""
    least: dict[Key, float] = {}
    for plan in configurations(problem):
        own = evaluate_configuration(problem, plan)
        if problem.memory_bytes is None or own.fullest.bytes * (1 - share) <= problem.memory_bytes:
            least[key_of(plan)] = min(least.get(key_of(plan), math.inf), own.timing.seconds)
    return least


def check_bounds(report: Report, least: dict[Key, float], where: object) -> None:
    for entry in report.listed:
        assert entry.bound <= min(entry.seconds, least[entry.key]) * (1 + CLOSE), (where, entry)
    for key, bound in report.unlisted.items():
        assert bound <= least.get(key, math.inf) * (1 + CLOSE), (where, key)


@pytest.mark.parametrize("seed", range(30))
def test_no_configuration_of_an_entry_is_faster_than_its_bound(seed: int) -> None:
    """Words for recomputation differ in what fits for sure: the bound is that of all that may fit."""
    share = (0.03, 0.2, 0.0)[seed % 3]
    problem = roomy(tiny(seed, own=seed % 7 == 6), share)
    least, scope = least_seconds(problem, share), Scope()
    whole = Search(problem, scope, Settings(error=0.1, memory_error=share))
    check_bounds(whole.run(), least, seed)
    truth = min((own.seconds for own in whole.report.listed if own.sure), default=math.inf)
    for name in ("_layout", "_judge", "_take", "_close"):
        for k in (1, 4, 9):
            search = Search(problem, scope, whole.settings, by_thumb=k % 2 == 0)
            interrupt(search, name, k)
            with contextlib.suppress(KeyboardInterrupt):
                search.run()
            assert search.report.bound <= truth * (1 + CLOSE), (seed, name, k)
            check_bounds(search.report, least, (seed, name, k))


def interrupt(search: Search, name: str, k: int) -> None:
    """Have the k-th call of this method of a search raise an interrupt."""
    whole, calls = getattr(search, name), itertools.count(1)

    def method(*arguments: Any, **options: Any) -> Any:
        if next(calls) == k:
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    setattr(search, name, method)


@pytest.mark.parametrize("name", ["_layout", "_with_memory"])
def test_an_interrupt_inside_a_refinement_loses_no_item(name: str) -> None:
    """The rule of thumb takes 25.1 s, and the only item left takes 20.7 s: it counts until it is dealt with."""
    problem = problem_of("llama-3-70b", "32xh100-80gb", sequence=8192, batch=64, memory_bytes=52 * 2.0**30)
    fixed = ["tensor=8", "context=1", "pipeline=4", "virtual=1", "micro-batch=1", "zero=1", "recompute=full:3"]
    search = Search(problem, read_scope(fixed), Settings(memory_error=0.0, list_all=False))
    search.rough = search.report.best = Found(search.run().listed[0].plan, 25.1, 0.0, sure=True)
    again = Search(problem, read_scope(fixed), search.settings, by_thumb=False)
    again.rough = again.report.best = search.rough
    interrupt(again, name, 1)
    with pytest.raises(KeyboardInterrupt):
        again.run()
    assert again.report.bound < 20.8
    assert not again.report.finished


def test_where_nothing_fits_every_choice_is_proven_not_to() -> None:
    problem = random_training(3, devices=2)
    report = found(problem.replace(gpu=replace(problem.gpu, memory_bytes=1e6)))
    assert report.best is None
    assert report.fit == 0
    assert report.nothing_fits


def without_layouts(search: Search, virtual: int) -> Search:
    """The same search, whose local moves find no layout with so many chunks on a rank."""
    find = search._layout

    def found_nothing(judge: LayoutEvaluator, limit: float, below: float) -> Best:
        answer = find(judge, limit, below)
        return answer if judge.case.gamma.degrees.virtual < virtual else Best(None, 0.9 * answer.bound)

    search._layout = found_nothing  # type: ignore[method-assign]
    return search


def test_what_no_bound_excludes_is_named_beside_the_list() -> None:
    """Whatever local moves miss, every choice is in the list, beside it, or discarded by a bound."""
    problem = random_training(6, devices=2, batch=4, framework="megatron", efficiencies=Efficiencies())
    whole = Search(problem).run()
    interleaved = {own.key for own in whole.listed if own.plan.degrees.virtual > 1}
    assert interleaved, "this test looks at nothing"
    report = without_layouts(Search(problem), 2).run()
    assert report.finished
    listed = {own.key for own in report.listed}
    assert interleaved <= listed | {*report.unlisted}
    assert report.unlisted
    assert not listed & {*report.unlisted}
    assert list(report.unlisted.values()) == sorted(report.unlisted.values())
    assert (
        report.unfit + sum(report.discarded.values()) + len(report.listed) + len(report.unlisted)
        <= report.considered
    )


def test_nothing_fits_only_where_that_is_proven() -> None:
    problem = random_training(6, devices=2, batch=4, framework="megatron", efficiencies=Efficiencies())
    scope = Scope({"virtual": "2"})
    assert Search(problem, scope).run().best is not None
    report = without_layouts(Search(problem, scope, by_thumb=False), 2).run()
    assert report.best is None
    assert not report.nothing_fits
    assert report.unlisted


def test_an_update_runs_beside_the_backward_passes_of_the_ranks_before() -> None:
    """The second rank's long update and the first one's long backward pass do not add up in a bound."""

    def layer(name: str, output_bytes: float, update_seconds: float) -> OwnLayer:
        return OwnLayer(name, 1, 1.0, output_bytes, (MeasuredTime(1, 1, 1.0, 7.0, update_seconds),))

    layers = layer("a", 2.0, 0.0), layer("b", 0.0, 1000.0)
    problem = random_own_training(0, devices=2).replace(
        model=Model("own", own=layers), batch=2, framework="deepspeed"
    )
    plans = [plan for plan in configurations(problem) if plan.degrees.pipeline == 2 and plan.micro_batch == 1]
    least = min(evaluate_configuration(problem, plan).timing.seconds for plan in plans)
    search = Search(problem)
    gamma = ParallelismChoice(plans[0].degrees, 1, plans[0].zero, "1f1b")
    assert search.loads(gamma).seconds() <= least
    assert LoadBound(search.loads(gamma), LayoutEvaluator(search.case(gamma), ())).seconds(1e30) <= least


@pytest.mark.at_once(1)
@pytest.mark.parametrize("seed", [248, 3])
def test_a_limit_met_to_the_byte_is_decided_by_the_referee(seed: int) -> None:
    """The search adds doubles: nearer to a limit than their rounding is off, the referee's word counts.

    Sizes in thirds of a byte lie so near to a limit that the enumeration's doubles differ from the referee's fractions:
    there no proof is claimed, and none is wrong.
    """
    problem = tiny(seed, own=True)
    for held in sorted({evaluate_configuration(problem, plan).fullest.bytes for plan in some(problem)})[:8]:
        whole = math.ceil(held)
        for limit in (whole, whole - 1, held, math.nextafter(held, 0)):
            met = problem.replace(gpu=replace(problem.gpu, memory_bytes=limit))
            truth, result = best_configuration(met), solve(met)
            if truth is None:
                assert result.plan is None
                assert result.stop == Stop.INFEASIBLE or limit not in (whole, whole - 1)
            elif result.proof or limit in (whole, whole - 1):
                assert result.proof
                assert result.verified
                assert result.objective == pytest.approx(truth[0], rel=CLOSE)
            elif result.objective is not None:
                assert result.objective >= truth[0] * (1 - CLOSE)


def test_there_is_a_plan_before_anything_else_is_looked_at() -> None:
    """Whoever stops the search at once has the plan of the rule of thumb, in the scope that was asked for."""
    problem = problem_of("qwen3-30b-a3b", "16xh100-80gb", batch=256, sequence=4096)
    scope = read_scope(["micro-batch=2"], ["tensor=8"])
    looked: list[Report] = []

    def heard(report: Report) -> None:
        if not looked:
            looked.append(report)
            raise KeyboardInterrupt

    search = Search(problem, scope, heard=heard)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    report = looked[0]
    assert report.solved == 0
    assert report.best is not None
    assert not verify_configuration(problem, report.best.plan)
    assert report.best.plan.micro_batch == 2
    assert report.best.plan.degrees.tensor == 4
    assert [entry.plan for entry in report.listed] == [report.best.plan]


# ---- Thousands of layouts ------------------------------------------------------------------------------


@pytest.mark.sweeps
def test_the_search_finds_the_fastest_layout_of_a_model_of_practice() -> None:
    """Of 34 units on four ranks, which has 5,456 layouts."""
    problem = problem_of("llama-3-8b", "8xh100-80gb", batch=16, sequence=8192)
    fixed = "tensor=2 pipeline=4 virtual=1 context=1 micro-batch=1 zero=1 schedule=1f1b recompute=none"
    result = solve(problem, options={"fix": fixed})
    assert result.proof
    best = best_configuration(problem, fixed=dict(word.split("=") for word in fixed.split()))
    assert best is not None
    assert result.objective == pytest.approx(best[0], rel=CLOSE)


# ---- ahead -------------------------------------------------------------------------------------------------
# What other processes make for the search is what it calls, with arguments of the same types.


# To make the code takes half a minute of a processor.
pytestmark = pytest.mark.sweeps


@pytest.fixture(scope="module", autouse=True)
def searched() -> None:
    """A search, and a bound that it needs for longer pipelines alone, with machine code where plain Python would do."""
    with machine_code.always_compiled():
        search = Search(load_packaged("tiny-training"))
        search.run()
        rows = (gamma for row in range(len(search.space)) for gamma in search.space.gammas(row))
        gamma = next(gamma for gamma in rows if gamma.degrees.pipeline > 1)
        PathBound(LoadBound(search.loads(gamma), LayoutEvaluator(search.case(gamma), NONE))).seconds(
            math.inf, math.inf
        )


def test_arguments_have_the_types_of_the_search() -> None:
    import numba  # half a second, which the reading of all tests need not wait for

    for unit, entry, like in ahead.calls():
        made = machine_code.dispatcher(unit, entry).signatures
        assert made == [tuple(map(numba.typeof, like))], entry


def test_nothing_is_begun_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "make_beside", lambda *asked: pytest.fail(f"{asked} was begun"))
    ahead.begin(long_rows=False)


@pytest.mark.parametrize(("processors", "long_rows", "beside"), [
    (1, False, []),
    (2, False, [["least_seconds", "longest_path", "plan_row"]]),
    (2, True, [["least_seconds", "plan_row", "longest_path"]]),
    (3, False, [["least_seconds", "plan_row"], ["longest_path"]]),
    (16, False, [["least_seconds"], ["longest_path"], ["plan_row"]]),
])  # fmt: skip
def test_processes_make_what_is_not_there(
    processors: int, long_rows: bool, beside: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[str]] = []
    made: list[str] = []

    def make_beside(command: tuple[str, ...], environment: object, entries: list[tuple[ModuleType, str]]) -> None:
        ahead.main(os.getppid(), [int(number) for number in command[3:]])
        assert made == [entry for _, entry in entries]
        begun.append(made.copy())
        made.clear()

    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(ahead, "own_python", lambda *command: command)
    monkeypatch.setattr(ahead, "die_with_parent", lambda: None)
    monkeypatch.setattr(ahead, "is_kept", lambda unit, entry: False)
    monkeypatch.setattr(ahead, "make", lambda unit, entry, *like: made.append(entry))
    monkeypatch.setattr(ahead, "make_beside", make_beside)
    ahead.begin(long_rows)
    assert begun == beside
    assert made == (["climb"] if beside else []), "one processor makes all code where it is called"


def test_no_process_is_begun_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it made would be lost."""
    monkeypatch.setattr(ahead, "can_be_kept", lambda unit, entry: False)
    monkeypatch.setattr(ahead, "is_kept", lambda unit, entry: False)
    monkeypatch.setattr(ahead, "make_beside", lambda *asked: pytest.fail(f"{asked} was begun"))
    ahead.begin(long_rows=False)
