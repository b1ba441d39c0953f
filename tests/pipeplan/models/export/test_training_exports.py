"""Training configurations for three frameworks: what is accepted comes back the same, the rest is refused."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Plan, done, refused
from problems.exported_trainings import CASES, FRAMEWORKS, Case
from problems.trainings import random_configuration, random_own_training, random_training

from pipeplan import Found, Result, Stop, TrainingProblem, UsageError, save
from pipeplan.instances.files import problem_from_json
from pipeplan.instances.training.build import MODELS, problem_of
from pipeplan.instances.training.flags import Read, configuration_from_flags
from pipeplan.instances.training.kind_functions import training_to_json
from pipeplan.instances.training.plan import Configuration, Recompute
from pipeplan.instances.training.referee import framework_faults, shape_faults
from pipeplan.instances.training.words import configuration_from_words, words_of
from pipeplan.models.export.contract import LAUNCHERS, export, export_files

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
def test_fifteen_configurations_and_three_frameworks(case: Case, to: str, tmp_path: Path) -> None:
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
        problem = random_training(seed, adapter_rank=None)
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


# ---- jobs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "case", [own for own in CASES if "megatron" not in dict(own.refused)], ids=lambda own: own.name
)
def test_a_launch_file_is_judged_as_what_it_was_made_from(case: Case, launcher: str, tmp_path: Path) -> None:
    problem = case.problem().replace(framework="megatron")
    exported = export_files(case.plan, problem, to="megatron", model_flags=True, launcher=launcher)
    (name,) = exported.files
    path = tmp_path / name
    path.write_text(exported.text, "utf-8")
    read = configuration_from_flags(problem, str(path))
    assert (read.configuration, read.problem, read.unknown) == (case.plan, problem, ())
    assert [note for note in read.notes if not note.startswith(NOT_A_FAULT)] == []
    assert "expandable_segments" in exported.text
    divided = case.plan.degrees.tensor * case.plan.degrees.context > 1
    assert ("CUDA_DEVICE_MAX_CONNECTIONS" in exported.text) == divided


NOT_BUILT = {"opt-350m": "another size than the hidden one"}


@pytest.mark.parametrize("name", MODELS)
def test_the_flags_of_a_models_shapes_describe_that_model(name: str) -> None:
    problem = problem_of(name, "1024xh100-80gb", sequence=2048, batch=1024)
    plan = configuration_from_words(problem, "tensor=1")
    if name in NOT_BUILT:
        with pytest.raises(UsageError, match=NOT_BUILT[name]):
            export(plan, problem, to="megatron", model_flags=True)
        return
    text = export(plan, problem, to="megatron", model_flags=True)
    read = configuration_from_flags(problem, text)
    assert (read.notes, read.problem) == ((), problem)
    for number in (word for line in text.splitlines() for word in line.split() if word.isdecimal()):
        if int(number) > 8:  # of every larger size another one is noticed
            assert configuration_from_flags(problem, text.replace(f" {number}\n", f" {int(number) + 1}\n")).notes


@pytest.mark.parametrize(
    ("to", "program"), [("torchtitan", "-m torchtitan.train"), ("deepspeed", '"${PROGRAM:?}"')]
)
def test_other_frameworks_get_a_script_beside_their_file(to: str, program: str, tmp_path: Path) -> None:
    problem = problem_of("llama-3-8b", "16xh100-80gb", sequence=8192, batch=64, framework=to)
    plan = configuration_from_words(problem, "zero=3")
    exported = export_files(plan, problem, to=to, launcher="slurm")
    script, own = exported.files.items()
    assert script[0] == "launch.sh"
    assert f"{program} \\\n" in script[1]
    assert own[0] in script[1]
    assert "--nnodes 2 --nproc-per-node 8" in script[1]
    with pytest.raises(UsageError, match="give torchrun or slurm"):
        export(plan, problem, to=to, launcher="mcore")


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_programs_that_train_all_weights_get_no_adapters(to: str) -> None:
    problem = problem_of("llama-3-8b", "8xl40s", sequence=4096, batch=64, adapter_rank=16)
    plan = configuration_from_words(problem, "zero=0")
    if to == "deepspeed":  # whose program is the user's
        assert "adapters of rank 16 are for your program" in export_files(plan, problem, to=to).notes[0]
        return
    with pytest.raises(
        UsageError, match="trains all weights, but this configuration trains only adapters of rank 16"
    ):
        export(plan, problem, to=to)


def test_torchtitan_knows_models_by_name() -> None:
    problem = problem_of("llama-3-8b", "8xh100-80gb", sequence=8192, batch=64, framework="torchtitan")
    text = export(configuration_from_words(problem, ""), problem, to="torchtitan", model_flags=True)
    assert tomllib.loads(text)["model"] == {"name": "llama3", "flavor": "8B"}
    cut = problem.replace(model=replace(problem.model, layers=8))
    with pytest.raises(UsageError, match="no model llama-3-8b of 8 layers"):
        export(configuration_from_words(cut, ""), cut, to="torchtitan", model_flags=True)


def test_racks_are_launched_by_their_hosts() -> None:
    problem = problem_of("llama-3-70b", "144xgb200-186gb", sequence=8192, batch=144)
    text = export(configuration_from_words(problem, "tensor=4"), problem, to="megatron", launcher="torchrun")
    assert "--nnodes 36 --nproc-per-node 4 " in text


def test_a_row_of_the_shortlist_is_exported(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "best.json"
    question = (
        "configure gpt-3-175b --devices 8xa100-80gb --sequence 2048 --batch 8 --fix pipeline=4 --layers 4 --all"
    )
    answer = done(plan(*question.split(), "-o", str(path))).out
    listed = json.loads(path.read_text("utf-8"))["choices"]["shortlist"]
    assert f"\n{2:>3} {listed[1]['seconds']:.4g}" in answer.replace("\n   ", "\n  ")
    problem = json.loads(path.read_text("utf-8"))["problem"]["whole"]
    told = done(plan("export", str(path), "--to", "megatron", "--row", "2"))
    read = configuration_from_flags(problem_from_json(problem), told.out)
    assert words_of(read.configuration) == listed[1]["words"]
    assert f"row 2 takes {listed[1]['seconds']:.4g} s per iteration" in told.err
    refused(plan("export", str(path), "--to", "megatron", "--row", "0"), f"the shortlist has {len(listed)} rows")


@pytest.mark.parametrize("launcher", ["--with-model-flags", "--launcher=slurm"])
def test_plans_of_stages_are_no_jobs(plan: Plan, tmp_path: Path, launcher: str) -> None:
    path = str(tmp_path / "best.json")
    done(plan("solve", "tiny-chain", "-o", path))
    refused(plan("export", path, "--to", "megatron", launcher), "is for training configurations")
    refused(plan("export", path, "--to", "vllm", launcher), "is not for vllm; it is for torchtitan, megatron")
