"""What to run when nodes are lost: every rung is what a search for the smaller cluster answers."""

from __future__ import annotations

from dataclasses import replace

import jsonschema
import pytest
from command_line import Plan, done, in_one_line, refused

from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.schemas import read_schema
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.model import Attention, Mlp, Model
from pipeplan.instances.training.problem import Level, TrainingProblem
from pipeplan.instances.training.referee import verify_configuration
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.studies.configure.answer import Answer, Asked, configure
from pipeplan.studies.configure.ladder import ladder, lost_nodes, tokens_per_second, without_nodes

MODEL = Model("tiny", 1_024, 8, 32_000, Attention(8, 128, 2), Mlp(4_096))


FIXED = ("context=1", "micro-batch=1", "recompute=none")


def small(nodes: int) -> TrainingProblem:
    return problem_of(MODEL, f"{nodes}x2xa100-80gb", batch=24, sequence=1_024)


def test_every_rung_is_the_answer_for_its_cluster() -> None:
    searched: list[TrainingProblem] = []

    def search(problem: TrainingProblem) -> Answer:
        searched.append(problem)
        return configure(problem, fix=FIXED)

    answer = configure(small(4), fix=FIXED)
    assert answer.best is not None
    rungs = list(ladder(answer, answer.best.plan, (0, 1, 2), search))
    assert [rung.devices for rung in rungs] == [8, 6, 4]
    assert [problem.hash for problem in searched] == [small(3).hash, small(2).hash]
    for rung, problem in zip(rungs, [small(4), *searched], strict=True):
        alone = configure(problem, fix=FIXED).best
        assert alone is not None
        assert rung.best is not None
        assert (rung.best.plan, rung.finished) == (alone.plan, True)


@pytest.mark.parametrize("words", ["tensor=2", "pipeline=2", "tensor=2 pipeline=2", "", "pipeline=4"])
def test_what_only_drops_replicas_keeps_its_degrees_and_divides_its_batch(words: str) -> None:
    answer = Answer(small(4), Asked())
    plan = configuration_from_words(small(4), words)
    for rung in ladder(answer, plan, (1, 2, 3), lambda problem: answer):
        own = rung.fewer
        replica = 8 // plan.degrees.data
        data = max((n for n in range(9) if n * replica <= rung.devices and n * replica % 2 == 0), default=0)
        if not data:
            assert own is None
            continue
        assert own is not None
        assert own.plan == replace(plan, degrees=replace(plan.degrees, data=data))
        assert own.problem.devices == data * replica
        assert own.problem.batch == max(size for size in range(25) if size % data == 0)
        assert not verify_configuration(own.problem, own.plan)
        assert tokens_per_second(own) == pytest.approx(own.problem.batch * 1_024 / own.timing.seconds)


def test_groups_that_are_no_longer_whole_have_the_slowest_links() -> None:
    levels = (Level(2, 3e11), Level(2, 1e11), Level(3, 2e10))
    whole = small(6).replace(devices=12, levels=levels)
    assert without_nodes(whole, 2).levels == (Level(2, 3e11), Level(2, 1e11), Level(2, 2e10))
    assert without_nodes(whole, 1).levels == (Level(2, 3e11), Level(5, 2e10))
    assert without_nodes(whole, 5).levels == (Level(2, 3e11),)
    assert without_nodes(whole, 0) is whole


@pytest.mark.parametrize(("text", "numbers"), [("2", (1, 2)), ("0..3", (0, 1, 2, 3)), (" 2 .. 2 ", (2,))])
def test_numbers_of_nodes_in_words(text: str, numbers: tuple[int, ...]) -> None:
    assert lost_nodes(text, small(4)) == numbers


@pytest.mark.parametrize("text", ["4", "x", "", "2..1", "-1", "1..", "²"])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--lose is "):
        lost_nodes(text, small(4))


QUESTION = "configure gpt-3-175b --layers 4 --devices 2x8xa100-80gb --sequence 2048 --batch 16 --fix tensor=8"
FEW = ("--fix", "zero=1", "--fix", "context=1", "--fix", "pipeline=1")


def test_the_command_prints_a_table_and_json(plan: Plan) -> None:
    text = in_one_line(done(plan(*QUESTION.split(), *FEW, "--lose", "0..1")).out)
    assert "when nodes are lost" in text
    assert "fewer replicas: tensor=8 data=2" in text
    told = done(plan(*QUESTION.split(), *FEW, "--lose", "1", "--json")).json
    jsonschema.Draft202012Validator(read_schema("configurations-1")).validate(told)
    (rung,) = told["ladder"]
    assert (rung["lost_nodes"], rung["devices"], rung["fewer_replicas"]["batch"]) == (1, 8, 16)
    two = ("--judge", "tensor=8", "--judge", "tensor=4")
    refused(
        plan(*QUESTION.split(), *FEW, "--lose", "1", *two), "--lose needs a single configuration, but 2 are judged"
    )


def test_a_judged_script_has_its_ladder(plan: Plan) -> None:
    """Its own configuration with fewer replicas beside the best of what is left, by the same script's problem."""
    flags = (
        "--tensor-model-parallel-size 4 --use-distributed-optimizer --bf16 --sequence-parallel --micro-batch-size 1"
    )
    asked = (*QUESTION.split(), *FEW, "--judge", flags, "--json")
    alone = done(plan(*asked)).json["judged"][0]
    told = done(plan(*asked, "--lose", "0..1")).json
    assert told["judged"][0]["seconds"] == alone["seconds"]
    whole, fewer = told["ladder"]
    assert whole["fewer_replicas"]["seconds"] == alone["seconds"]
    assert "tensor=4" in fewer["fewer_replicas"]["words"]
    assert (fewer["devices"], fewer["fewer_replicas"]["batch"]) == (8, 16)
    assert all("tensor=8" in rung["best"]["words"] for rung in told["ladder"])
    assert "fewer replicas: tensor=4" in in_one_line(done(plan(*asked[:-1], "--lose", "1")).out)
