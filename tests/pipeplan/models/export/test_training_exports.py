"""Training configurations for three frameworks: what is accepted comes back the same, the rest is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Plan, done, refused
from problems.exported_trainings import CASES, FRAMEWORKS, Case
from problems.trainings import random_configuration, random_own_training, random_training

from pipeplan import Found, Result, Stop, TrainingProblem, UsageError, save
from pipeplan.instances.training.flags import Read, configuration_from_flags
from pipeplan.instances.training.kind_functions import training_to_json
from pipeplan.instances.training.plan import Configuration, Recompute
from pipeplan.instances.training.referee import framework_faults, shape_faults
from pipeplan.models.export.contract import export, export_files

NOT_A_FAULT = "Without --use-distributed-optimizer"


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def read_back(problem: TrainingProblem, text: str, to: str, folder: Path) -> Read:
    """As --judge reads it."""
    own = problem.replace(framework=to)
    if to != "torchtitan":
        return configuration_from_flags(own, text)
    path = folder / "own.toml"
    path.write_text(text, "utf-8")
    return configuration_from_flags(own, str(path))


@pytest.mark.parametrize("to", FRAMEWORKS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_twelve_configurations_and_three_frameworks(case: Case, to: str, tmp_path: Path) -> None:
    why = dict(case.refused).get(to)
    if why is not None:
        with pytest.raises(UsageError, match=why):
            export(case.plan, case.problem(), to=to)
        return
    text = export(case.plan, case.problem(), to=to)
    read = read_back(case.problem(), text, to, tmp_path)
    assert read.configuration == case.plan
    assert read.problem == case.problem().replace(framework=to)
    assert read.unknown == ()
    assert [note for note in read.notes if not note.startswith(NOT_A_FAULT)] == []


@pytest.mark.sweeps("0", "100", "200", "300")
@pytest.mark.parametrize("first", range(0, 600, 100))
def test_random_configurations_come_back_or_are_refused_in_one_sentence(first: int, tmp_path: Path) -> None:
    """What is refused breaks a rule of the referee, with a remedy; few things are refused to all."""
    count_of = dict.fromkeys(FRAMEWORKS, 0)
    for seed in range(first, first + 100):
        problem = random_training(seed)
        plan = random_configuration(problem, seed)
        for to in FRAMEWORKS:
            own = problem.replace(framework=to)
            faults = (*shape_faults(own, plan), *framework_faults(own, plan))
            try:
                text = export(plan, problem, to=to)
            except UsageError as error:
                why = str(error)
                assert faults, (seed, why)
                assert why == (
                    f"{to} cannot say this configuration (plan configure --framework {to} finds one that it can): "
                    f"{faults[0]}"
                )
                assert any(word in why for word in ("; choose ", "; plan with ", "; leave ", "; move ")), why
                assert "\n" not in why
                count_of[to] += 1
                continue
            assert not faults, seed
            read = read_back(problem, text, to, tmp_path)
            assert (read.configuration, read.problem, read.unknown) == (plan, own, ()), f"seed {seed}, {to}"
    assert all(20 < count < 100 for count in count_of.values())


# ---- the texts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_what_is_hidden_is_written(to: str, tmp_path: Path) -> None:
    """Flags hide as much as the plan counts."""
    for case in CASES:
        problem = case.problem()
        if to in dict(case.refused):
            continue
        exported = export_files(case.plan, problem, to=to)
        read = read_back(problem, exported.text, to, tmp_path)
        assert read.hidden_share == 1
        alone = problem.replace(efficiencies=replace(problem.efficiencies, data_hidden=0))
        assert "overlap" not in export(case.plan, alone, to=to)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize(
    "optimizer", ["muon:gradients=", "adam-precision-aware:gradients=", "adam-precision-aware:first=fp8"]
)
def test_number_formats_of_the_optimizer_are_written(optimizer: str, precision: str, tmp_path: Path) -> None:
    case = case_of("dense, interleaved")
    name = f"{optimizer}{precision}" if optimizer.endswith("=") else optimizer
    problem = case.problem().replace(optimizer=name, precision=precision)
    read = read_back(problem, export(case.plan, problem, to="megatron"), "megatron", tmp_path)
    assert (read.problem.states, read.unknown) == (problem.states, ())


def test_layers_alike_need_no_layout_and_tensor_parallel_communication_is_hidden_if_that_is_counted_on() -> None:
    case = case_of("dense, interleaved")
    problem = case.problem()
    text = export(case.plan, problem, to="megatron")
    assert "--num-virtual-stages-per-pipeline-rank 5\n" in text
    assert "layout" not in text
    assert "--tp-comm-overlap" not in text
    hidden = problem.replace(efficiencies=replace(problem.efficiencies, tensor_hidden=0.5))
    assert "--tp-comm-overlap" in export(case.plan, hidden, to="megatron")


def test_deepspeed_in_full() -> None:
    case = case_of("dense, even by units")
    exported = export_files(case.plan, case.problem(), to="deepspeed")
    assert json.loads(exported.text) == {
        "train_batch_size": 256,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 32,
        "zero_optimization": {"stage": 1},
        "bf16": {"enabled": True},
        "tensor_parallel": {"autotp_size": 4},
        "pipeline": {"stages": 2, "partition": "uniform", "activation_checkpoint_interval": 1},
    }
    assert any("num_stages=2" in note and "82 layers" in note for note in exported.notes)


# ---- what has no words ---------------------------------------------------------------------------------


def sentence(case: Case, to: str, plan: Configuration | None = None, **changes: object) -> str:
    with pytest.raises(UsageError) as found:
        export(plan or case.plan, case.problem().replace(**changes), to=to)
    return str(found.value).partition(": ")[2]


@pytest.mark.parametrize(("name", "words", "said"), [
    ("dense, interleaved", (Recompute(("full",)), *case_of("dense, interleaved").plan.recompute[1:]),
     "megatron computes the same again in every chunk; choose one word for all."),
    (
        "dense, modules computed again, fp8",
        (Recompute(("mlp",), 3),) * 2,
        "mlp:3 computes modules again in some layers of a chunk, and megatron does so in all; choose mlp, or "
        "full:3.",
    ),
])  # fmt: skip
def test_recomputation_that_has_no_words(name: str, words: tuple[Recompute, ...], said: str) -> None:
    case = case_of(name)
    assert sentence(case, "megatron", replace(case.plan, recompute=words)) == said


def test_prediction_layers_have_their_places() -> None:
    """A chunk of their own is fine in a rank's last chunk, and nowhere else."""
    case = case_of("latent attention, experts, prediction, uneven")
    apart = replace(case.plan, layout=(8, 8, 8, 9, 9, 10, 11, 1))
    assert '|t*10,m|L"' in export(apart, case.problem(), to="megatron")
    degrees = replace(case.plan.degrees, pipeline=2, virtual=3)
    early = replace(case.plan, degrees=degrees, layout=(8, 18, 18, 18, 1, 1), recompute=case.plan.recompute[:6])
    assert sentence(replace(case, devices="128xb200-180gb"), "megatron", early) == (
        "megatron keeps the layers of multi-token prediction together, in the last chunk of a rank after the first; "
        "move them into the chunk of the head."
    )


def test_fp16_and_measured_layers() -> None:
    case = case_of("full sharding")
    assert "fp16" not in export(case.plan, case.problem(), to="torchtitan")
    flops = {**case.problem().gpu.flops, "fp16": 1e15}
    gpu = replace(case.problem().gpu, flops=flops)
    assert sentence(case, "torchtitan", precision="fp16", gpu=gpu).startswith("torchtitan does not train in fp16;")
    own = random_own_training(0, devices=4)
    with pytest.raises(UsageError, match=r"measured layers"):
        export(random_configuration(own, 0), own, to=own.framework)


# ---- the command ---------------------------------------------------------------------------------------


def test_a_result_brings_its_problem_along(plan: Plan, tmp_path: Path) -> None:
    case = case_of("dense, interleaved")
    problem = case.problem()
    facts = {"kind": "training", "name": problem.name, "whole": training_to_json(problem)}
    path, folder = tmp_path / "best.json", tmp_path / "out"
    save(Result(facts, Stop.COMPLETED, Found.FEASIBLE, plan=case.plan), path)
    assert done(plan("export", path, "--to", "megatron")).out == export(case.plan, problem, to="megatron")
    folder.mkdir()
    done(plan("export", path, "--to", "megatron", "-o", folder))
    assert (folder / "megatron.args").read_text("utf-8") == export(case.plan, problem, to="megatron")


def test_a_mere_configuration_is_exported_with_its_problem(plan: Plan, tmp_path: Path) -> None:
    case = case_of("full sharding")
    files = [tmp_path / "plan.json", tmp_path / "problem.json"]
    save(case.plan, files[0])
    save(case.problem(), files[1])
    text = export(case.plan, case.problem(), to="torchtitan")
    assert done(plan("export", *files, "--to", "torchtitan")).out == text
    refused(plan("export", files[0], "--to", "torchtitan"), "name that after the plan")
