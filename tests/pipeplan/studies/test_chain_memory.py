"""Period against memory: curves that never grow, proofs that are shared, journals that go on where they were cut."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import known_chains as theory
import pytest
from recipes.chain import resnet_like

from pipeplan import ChainProblem, InputError, Progress, SolveOptions, Stop, UsageError
from pipeplan.instances.chain.referee import evaluate_pattern, verify_pattern
from pipeplan.show.front import verdict
from pipeplan.studies import chain_memory as module
from pipeplan.studies.chain_memory import (
    DEFAULT_METHODS,
    EXACT_METHODS,
    Curve,
    Settings,
    best_within,
    curves,
    front,
    opened,
    pipedream_front,
    sweep,
)
from pipeplan.studies.sweep import Candidate, CurvePoint, measured

EXACT, PIPEDREAM = "exact-beaumont", "pipedream-eager"
QUICK = SolveOptions(time_limit_s=600)


def settings(levels: int = 4, methods: tuple[str, ...] = DEFAULT_METHODS) -> Settings:
    return Settings(methods=methods, levels=levels, limits=QUICK)


@pytest.fixture(scope="module")
def chain() -> ChainProblem:
    return theory.golden_chains()[3].problem


@pytest.fixture(scope="module")
def swept(chain: ChainProblem) -> Curve:
    return sweep(chain, settings())


def test_a_gap_that_rounds_to_nothing_is_said_to_be_small(swept: Curve) -> None:
    proven_point = swept.of(EXACT)[-1]
    near, far = (replace(proven_point, stop=Stop.TIME, bound=9 * (1 - gap)) for gap in (2e-5, 0.0512))
    assert [verdict(point) for point in (proven_point, near, far)] == ["*", "<0.1%", "5.1%"]


# ---- the curves ---------------------------------------------------------------------------------------------


def test_the_ends_are_the_smallest_memory_and_the_optimum_without_a_limit(swept: Curve) -> None:
    """The answers of this chain are known: 9 without a limit, 13 with 34 bytes."""
    ends = swept.ends
    assert (ends.levels[0], ends.levels[-1]) == (ends.least.need, ends.best.need)
    assert ends.least_proven
    assert (ends.best.value, ends.bound) == (9, 9)
    assert [p.value for p in swept.of(EXACT)][-1] == 9
    assert [p.value for p in swept.of(EXACT) if p.limit <= 34][-1] == 13
    assert all(point.certified for point in swept.of(EXACT))


def test_every_plan_fits_its_memory_and_has_the_numbers_that_are_told(swept: Curve) -> None:
    plans = 0
    for point in swept.points:
        if point.plan is None:
            continue
        problem = swept.problem.replace(memory_bytes=point.limit)
        assert verify_pattern(problem, point.plan) == ()
        value = evaluate_pattern(problem, point.plan)
        assert (value.period_per_batch, value.peak_bytes) == (point.value, point.need)
        plans += 1
    assert plans > len(swept.points) / 2


def test_all_exact_methods_agree() -> None:
    problem = theory.figure_5().problem
    answer = sweep(problem, Settings(methods=EXACT_METHODS, chosen=(6, 7, 8), limits=QUICK))
    periods = {method: [point.value for point in answer.of(method)] for method in EXACT_METHODS}
    assert set(map(tuple, periods.values())) == {(5, 5, 4)}
    assert all(point.certified for point in answer.points)


# ---- what is known at one memory serves others ---------------------------------------------------------------


def known(chain: ChainProblem, pareto: Curve, memory: float) -> Candidate:
    point = next(p for p in pareto.of(EXACT) if p.limit == memory)
    assert point.plan is not None
    found = measured(chain, point.plan, EXACT)
    assert found is not None
    return found


def test_plans_hold_at_larger_memories_and_bounds_at_smaller_ones(chain: ChainProblem, swept: Curve) -> None:
    ends = swept.ends
    low, middle, high, top = ends.levels
    plan = known(chain, swept, low)
    raw = [
        CurvePoint(low, Stop.TIME, plan, 9.0, method=EXACT),
        CurvePoint(middle, Stop.TIME, bound=13.0, method=EXACT),
        CurvePoint(high, Stop.TIME, method=EXACT),
        CurvePoint(top, Stop.TIME, method=EXACT),
    ]
    points = [point.settled() for point in curves(raw, ends, (), (EXACT,))]
    assert [p.value for p in points] == [13, 13, 13, 13]
    assert [p.bound for p in points] == [13, 13, 9, 9]
    assert [p.certified for p in points] == [True, True, False, False]


def test_pipedreams_plans_of_several_batches_are_taken_with_the_bound_for_them(
    chain: ChainProblem, swept: Curve
) -> None:
    """A bound on patterns of one batch says nothing about them: only the bound of the loads does."""
    ends = swept.ends
    plan = known(chain, swept, ends.levels[0])
    several = replace(plan.plan, period=22, starts=plan.plan.starts * 2, transfers=plan.plan.transfers * 2)
    rival = Candidate(several, 11.0, plan.need, PIPEDREAM)
    raw = [CurvePoint(ends.levels[0], Stop.PROVEN, plan, 13.0, method=EXACT)]
    (point,) = curves(raw, ends, (rival,), (EXACT,))
    point = point.settled()
    assert (point.value, point.bound, point.source, point.batches_per_period) == (11, 9, PIPEDREAM, 2)
    assert not point.certified


def test_pipedreams_set_is_measured_once_and_beats_itself_nowhere() -> None:
    problem = resnet_like(6, 3, seed=2)
    candidates = pipedream_front(problem)
    assert len(candidates) > 1
    for before, after in pairwise(candidates):
        assert before.need < after.need
        assert before.value > after.value
    assert front([*candidates, *candidates]) == candidates
    assert best_within(candidates, candidates[0].need / 2) is None
    assert best_within(candidates, candidates[0].need) == candidates[0]


# ---- the journal ----------------------------------------------------------------------------------------------


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Which methods are asked from now on."""
    asked: list[str | None] = []
    solve = module.solve

    def count(*arguments: object, **given: object) -> object:
        asked.append(str(given["planner"] or given["formulation"]))
        return solve(*arguments, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "solve", count)
    return asked


@pytest.mark.sweeps("0", "1", "2")
@pytest.mark.parametrize("lines", [0, 1, 2, 3, 7, 9])
def test_a_sweep_that_was_killed_goes_on_from_its_last_whole_line(
    chain: ChainProblem, swept: Curve, tmp_path: Path, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "points.jsonl"
    methods = ("contiguous", "gpipe")
    given = settings(levels=3, methods=methods)
    whole = sweep(chain, given, path)
    text = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*text[:lines], *(line[: len(line) // 2] for line in text[lines : lines + 1])]))
    asked = counted(monkeypatch)
    again = sweep(chain, given, path)
    ends = lines < 3  # a head and two preparations, the second of which asks once; then a line for each point
    assert len(asked) == min(6, 9 - lines) + ends
    assert [(p.method, p.limit, p.value) for p in again.points] == [
        (p.method, p.limit, p.value) for p in whole.points
    ]
    assert all(json.loads(line) for line in path.read_text().splitlines())
    assert len(path.read_text().splitlines()) == 9


def test_the_journal_of_another_sweep_is_refused(chain: ChainProblem, tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    opened(chain, settings(), path)
    opened(chain.replace(memory_bytes=99, name="other"), settings(), path)  # what the levels replace
    with pytest.raises(InputError, match="problem differs from"):
        opened(chain.replace(gpus=3), settings(), path)
    with pytest.raises(InputError, match=r"settings\.levels is 4 there and 5 now"):
        opened(chain, settings(levels=5), path)
    path.write_text("notes that are not ours\n")
    with pytest.raises(InputError, match="line 1 is no line of plan pareto"):
        opened(chain, settings(), path)
    path.write_text("half a line that is not ours")
    with pytest.raises(InputError, match="not a sweep"):
        opened(chain, settings(), path)
    assert opened(chain, settings(), path, resume=False).path.read_text().count("\n") == 1


def test_what_a_journal_says_of_a_plan_is_not_believed(chain: ChainProblem, tmp_path: Path) -> None:
    """Periods are computed again, and a plan that breaks a rule is refused."""
    path, given = tmp_path / "points.jsonl", settings(levels=2, methods=("contiguous",))
    whole = sweep(chain, given, path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    honest = lines[-1]
    lines[-1] = {**honest, "period": 1}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = sweep(chain, given, path)
    assert [p.value for p in again.points] == [p.value for p in whole.points]
    lines[-1] = {**honest, "plan": {**honest["plan"], "period": 1}}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match="is rejected by the referee"):
        sweep(chain, given, path)


# ---- refusals, progress, files ---------------------------------------------------------------------------------


def test_settings_that_make_no_sense_are_refused(chain: ChainProblem) -> None:
    with pytest.raises(UsageError, match="no method to compare"):
        sweep(chain, Settings(methods=()))
    with pytest.raises(InputError, match='memory_mode is "strict"'):
        sweep(chain.replace(memory_mode="strict"))


def test_progress_names_the_point_under_way(chain: ChainProblem) -> None:
    records: list[Progress] = []
    sweep(chain, settings(levels=2, methods=("contiguous",)), on_progress=records.append)
    assert {record.source for record in records} >= {"contiguous at 29 B (1 of 2)", "contiguous at 41 B (2 of 2)"}
