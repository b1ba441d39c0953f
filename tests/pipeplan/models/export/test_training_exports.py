"""Training configurations for three frameworks: what is accepted comes back the same, the rest is refused."""

from __future__ import annotations

import json
import random
import tomllib
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from click.testing import Result as Ran
from oracles.training import configurations
from problems.exported_trainings import CASES, FRAMEWORKS, Case
from problems.trainings import random_configuration, random_own_training, random_training
from typer.testing import CliRunner

from pipeplan import solve
from pipeplan.cli.app import app
from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.base.result import Found, Result, Stop
from pipeplan.instances.files import save
from pipeplan.instances.training.flags import Read, configuration_from_flags
from pipeplan.instances.training.kind_functions import training_to_json
from pipeplan.instances.training.plan import Configuration, Recompute
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.referee import framework_faults, shape_faults
from pipeplan.models.export.registry import export, export_files

NOT_A_FAULT = "Without --use-distributed-optimizer"


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
    assert read.unknown == ()
    assert [note for note in read.notes if not note.startswith(NOT_A_FAULT)] == []


def test_every_framework_says_some_of_them() -> None:
    said = {to: sum(to not in dict(case.refused) for case in CASES) for to in FRAMEWORKS}
    assert said == {"megatron": 8, "torchtitan": 6, "deepspeed": 4}


@pytest.mark.sweeps("0", "100", "200", "300")
@pytest.mark.parametrize("first", range(0, 600, 100))
def test_random_configurations_come_back_or_are_refused_in_one_sentence(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 100):
        problem = random_training(seed)
        plan = random_configuration(problem, seed)
        for to in FRAMEWORKS:
            text, why = exported_or_why(problem, plan, to)
            if why:
                assert why.startswith(f"{to} cannot say this configuration (plan configure --framework {to} finds ")
                assert why.endswith(".")
                assert "\n" not in why
                continue
            read = read_back(problem, text, to, tmp_path)
            assert (read.configuration, read.unknown) == (plan, ()), f"seed {seed}, {to}"


def exported_or_why(problem: TrainingProblem, plan: Configuration, to: str) -> tuple[str, str]:
    try:
        return export(plan, problem, to=to), ""
    except UsageError as error:
        return "", str(error)


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_whatever_the_referee_accepts_is_written(to: str, tmp_path: Path) -> None:
    """All configurations of small problems, every one but a few left out, and what is written comes back."""
    written = 0
    for seed in range(4):
        problem = random_training(seed, devices=2 + 2 * (seed % 2), batch=4, framework=to)
        experts = problem.model.experts
        if experts is not None:
            experts = replace(experts, dense_layers=min(1, experts.dense_layers))
        problem = problem.replace(model=replace(problem.model, layers=2, experts=experts))
        plans = list(islice(configurations(problem), 1_000))
        for plan in random.Random(seed).sample(plans, min(len(plans), 30)):
            text = export(plan, problem, to=to)
            assert read_back(problem, text, to, tmp_path).configuration == plan, seed
            written += 1
    assert written > 60


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_what_is_refused_breaks_a_rule_of_the_referee_with_a_remedy(to: str) -> None:
    """But for measured layers: whoever gave them may run them, and only their names are unknown."""
    refused = 0
    for seed in range(80):
        problem = random_training(seed)
        plan = random_configuration(problem, seed)
        own = problem.replace(framework=to)
        faults = (*shape_faults(own, plan), *framework_faults(own, plan))
        why = exported_or_why(problem, plan, to)[1]
        assert bool(why) == bool(faults), (seed, why)
        if why:
            assert why.endswith(f": {faults[0]}")
            assert "; choose " in why or "; plan with " in why or "; leave " in why or "; move " in why, why
            refused += 1
    assert refused > 20


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_answers_of_a_framework_are_written_by_its_own_export(to: str) -> None:
    """Of models with and without experts and latent attention, where much does not fit and has to be computed again."""
    found = 0
    for seed in range(6):
        problem = random_training(seed, devices=2, framework=to)
        result = solve(problem, planner="exact-configuration", options={"fix": "context=1 micro-batch=1"})
        if result.plan is not None:
            assert export(result.plan, problem, to=to)
            found += 1
    assert found >= 2


# ---- the texts -----------------------------------------------------------------------------------------


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def test_megatron_in_full() -> None:
    case = case_of("dense, interleaved and uneven, some layers computed again")
    assert export(case.plan, case.problem(), to="megatron").splitlines() == [
        "--tensor-model-parallel-size 4", "--context-parallel-size 1", "--pipeline-model-parallel-size 4",
        "--sequence-parallel", "--use-distributed-optimizer", "--num-layers 80",
        '--pipeline-model-parallel-layout "Et*10|t*11|t*11|t*10|t*10|t*10|t*10|t*8,L"', "--micro-batch-size 1",
        "--global-batch-size 256", "--seq-length 4096", "--bf16", "--recompute-granularity full",
        "--recompute-method block", "--recompute-num-layers 2", "--cross-entropy-loss-fusion",
        "--attention-dropout 0.0", "--hidden-dropout 0.0", "--overlap-grad-reduce", "--overlap-param-gather",
    ]  # fmt: skip


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


def test_tensor_parallel_communication_is_hidden_if_the_plan_counts_on_it() -> None:
    case = case_of("dense, interleaved")
    problem = case.problem()
    assert "--tp-comm-overlap" not in export(case.plan, problem, to="megatron")
    hidden = problem.replace(efficiencies=replace(problem.efficiencies, tensor_hidden=0.5))
    assert "--tp-comm-overlap" in export(case.plan, hidden, to="megatron")


def test_layers_alike_need_no_layout() -> None:
    case = case_of("dense, interleaved")
    text = export(case.plan, case.problem(), to="megatron")
    assert "--num-virtual-stages-per-pipeline-rank 5\n" in text
    assert "layout" not in text


def test_prediction_layers_stand_before_the_head() -> None:
    case = case_of("latent attention, experts, prediction, uneven")
    text = export(case.plan, case.problem(), to="megatron")
    assert '--pipeline-model-parallel-layout "Et*6|t*8|t*8|t*8|t*9|t*9|t*8|t*5,m,L"' in text
    assert "--mtp-num-layers 1\n" in text
    assert "--expert-model-parallel-size 64\n--expert-tensor-parallel-size 1\n" in text
    assert "--recompute-modules mla_up_proj moe_act\n--moe-grouped-gemm\n" in text


def test_torchtitan_in_full() -> None:
    case = case_of("gathered weights in an uneven interleaved pipeline")
    data = tomllib.loads(export(case.plan, case.problem(), to="torchtitan"))
    parts = data["parallelism"].pop("module_fqns_per_model_part")
    assert data == {
        "training": {"local_batch_size": 32, "global_batch_size": 256, "seq_len": 4096},
        "parallelism": {
            "tensor_parallel_degree": 2,
            "context_parallel_degree": 1,
            "data_parallel_replicate_degree": 1,
            "data_parallel_shard_degree": 8,
            "fsdp_reshard_after_forward": "never",
            "expert_parallel_degree": 4,
            "expert_tensor_parallel_degree": 2,
            "pipeline_parallel_degree": 4,
            "pipeline_parallel_schedule": "Interleaved1F1B",
            "pipeline_parallel_microbatch_size": 1,
        },
        "activation_checkpoint": {"mode": "none"},
    }
    assert parts[0] == ["tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3"]
    assert parts[-1] == ["layers.29", "layers.30", "layers.31", "norm", "output"]


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


def test_chunks_that_differ_have_no_words() -> None:
    case = case_of("dense, interleaved")
    words = (Recompute(("full",)), *case.plan.recompute[1:])
    plan = replace(case.plan, recompute=words)
    assert sentence(case, "megatron", plan) == (
        "megatron computes the same again in every chunk; choose one word for all."
    )


def test_modules_in_some_layers_have_no_words() -> None:
    case = case_of("dense, modules computed again, fp8")
    plan = replace(case.plan, recompute=(Recompute(("mlp",), 3),) * 2)
    assert sentence(case, "megatron", plan) == (
        "mlp:3 computes modules again in some layers of a chunk, and megatron does so in all; choose mlp, or full:3."
    )


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


@pytest.mark.parametrize(
    ("options", "told"), [({"legacy": True}, "with layouts"), ({"micro_batches": 4}, "is not for megatron")]
)
def test_options_of_other_plans_are_refused(options: dict[str, object], told: str) -> None:
    case = case_of("dense, interleaved")
    with pytest.raises(UsageError, match=told):
        export_files(case.plan, case.problem(), to="megatron", **options)  # type: ignore[arg-type]


def test_other_targets_are_refused() -> None:
    case = case_of("dense, interleaved")
    with pytest.raises(UsageError, match="give --to megatron or torchtitan or deepspeed"):
        export(case.plan, case.problem(), to="vllm")


# ---- the command ---------------------------------------------------------------------------------------


def run(*arguments: str) -> Ran:
    return CliRunner().invoke(app, ["export", *arguments])


def test_a_result_brings_its_problem_along(tmp_path: Path) -> None:
    case = case_of("dense, interleaved")
    problem = case.problem()
    facts = {"kind": "training", "name": problem.name, "whole": training_to_json(problem)}
    path = tmp_path / "best.json"
    save(Result(facts, Stop.COMPLETED, Found.FEASIBLE, plan=case.plan), path)
    ran = run(str(path), "--to", "megatron")
    assert (ran.exit_code, ran.stdout) == (0, export(case.plan, problem, to="megatron"))
    folder = tmp_path / "out"
    folder.mkdir()
    assert run(str(path), "--to", "megatron", "-o", str(folder)).exit_code == 0
    assert (folder / "megatron.args").read_text("utf-8") == ran.stdout


def test_a_mere_configuration_is_exported_with_its_problem(tmp_path: Path) -> None:
    case = case_of("full sharding")
    save(case.plan, tmp_path / "plan.json")
    save(case.problem(), tmp_path / "problem.json")
    ran = run(str(tmp_path / "plan.json"), str(tmp_path / "problem.json"), "--to", "torchtitan")
    assert (ran.exit_code, ran.stdout) == (0, export(case.plan, case.problem(), to="torchtitan"))
    ran = run(str(tmp_path / "plan.json"), "--to", "torchtitan")
    assert ran.exit_code == 2
    assert "name that after the plan" in ran.stderr
