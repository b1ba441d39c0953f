"""Frameworks' flags and files become configurations; what they say beside is told, what is not understood is named."""

from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path

import pytest
from problems.command_lines import LINES, Line
from yardstick import million_turns

from pipeplan import InputError, TrainingProblem
from pipeplan.instances.training import flag_options
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.flag_options import Flags, effects_of
from pipeplan.instances.training.flags import READERS, Read, configuration_from_flags
from pipeplan.instances.training.words import configuration_from_words

LLAMA = problem_of("llama-3-70b", "64xh100-80gb", batch=256, sequence=8192)
MIXTRAL = problem_of("mixtral-8x7b", "64xh100-80gb", batch=256, sequence=4096)
OURS = "--bf16 --cross-entropy-loss-fusion --attention-dropout 0 --hidden-dropout 0.0 "
UNLIKE = "Judged as the options say, unlike the problem: "
# Names of Megatron's table by which Megatron-DeepSpeed means what DeepSpeed's reader asks for.
ASKED_BY_DEEPSPEED = ("checkpoint-activations", "model-parallel-size")
QUIET = f"--use-distributed-optimizer --sequence-parallel {OURS}"


def given(line: Line, folder: Path) -> str:
    if line.file is None:
        return line.text
    path = folder / ("own.json" if line.file.lstrip().startswith("{") else "own.toml")
    path.write_text(line.file, "utf-8")
    return line.text.replace("{file}", str(path))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.source)
def test_public_command_lines(line: Line, tmp_path: Path) -> None:
    """Each is read completely, or what is not understood is named."""
    problem = line.problem()
    read = configuration_from_flags(problem, given(line, tmp_path))
    target = read.problem
    assert read.configuration == configuration_from_words(target, line.words)
    assert read.unknown == line.unknown
    assert len(read.told) == len(line.told), read.told
    for sentence, beginning in zip(read.told, line.told, strict=True):
        assert sentence.startswith(beginning)
        assert sentence.endswith(".")
    assert not set(read.aside) & set(read.understood)


def read(text: str, problem: TrainingProblem = LLAMA) -> Read:
    return configuration_from_flags(problem, text)


# ---- words ---------------------------------------------------------------------------------------------

TITAN = LLAMA.replace(framework="torchtitan")
BATCH = "--training.global_batch_size 256 --activation_checkpoint.mode none "
SPEED = LLAMA.replace(framework="deepspeed", sequence_parallel=False)


USUAL = {"megatron": (LLAMA, QUIET), "torchtitan": (TITAN, BATCH), "deepspeed": (SPEED, "")}
ROWS = tomllib.loads((Path(__file__).parents[2] / "problems" / "flags.toml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("framework", "flags"), [(name, flags) for name, rows in ROWS["configurations"].items() for flags in rows]
)
def test_flags_and_files_are_configurations(framework: str, flags: str) -> None:
    problem, usual = USUAL[framework]
    found, words = read(f"{usual} {flags}", problem), ROWS["configurations"][framework][flags]
    assert (found.configuration, found.notes) == (configuration_from_words(problem, words), ())


def test_embedding_and_head_that_count_as_layers() -> None:
    """78 layers and two more make 80 for 4 ranks."""
    problem = problem_of("llama-3-70b", "64xh100-80gb", batch=256, sequence=8192, layers=78)
    counted = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
    flags = f"{QUIET} --pipeline-model-parallel-size 4 {counted}"
    assert read(flags, problem).configuration.layout == (20,) * 4
    chunks = read(f"{flags} --num-virtual-stages-per-pipeline-rank 2", problem).configuration
    assert chunks.layout == (10,) * 8


@pytest.mark.parametrize("flags", ROWS["notes"])
def test_what_contradicts_or_has_no_words_is_a_sentence(flags: str) -> None:
    assert read(QUIET + flags).notes == (ROWS["notes"][flags].replace("{unlike}", UNLIKE),)


# ---- what options change that is not modelled ------------------------------------------------------------

# What changes bytes, seconds or the model, is asked for by the reader, and was put aside without a word.
SILENT = (
    *("--optimizer sgd", "--optimizer muon", "--data-parallel-sharding-strategy optim", "--softmax-type learnable"),
    *("--add-qkv-bias", "--qk-layernorm", "--kv-channels 256", "--window-size 128,0", "--multi-latent-attention"),
    *("--normalization LayerNorm", "--position-embedding-type learned_absolute", "--padded-vocab-size 200000"),
    *("--make-vocab-size-divisible-by 128000", "--microbatch-group-size-per-virtual-pipeline-stage 4"),
)


@pytest.mark.parametrize("flag", SILENT)
def test_no_flag_that_changes_something_is_silent(flag: str) -> None:
    found = read(f"{QUIET} {flag}")
    (note,) = found.notes
    assert flag.split()[0] in note
    assert not found.unknown


@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "deepspeed"])
def test_every_effect_is_told_and_nothing_stands_twice(framework: str) -> None:
    """A name in the table that a reader asks for would never be told."""
    effects = effects_of(framework)[0]
    unusual = {name: ("unusual",) for name in effects if name not in ASKED_BY_DEEPSPEED}
    flags = Flags(LLAMA.replace(framework=framework), unusual)
    READERS[framework](flags)
    assert not flags.asked
    flags.tell_effects(framework)
    text = " ".join(flags.told)
    assert [name for name in flags.options if f"{flags.shown(name)} unusual ("[:80] not in text] == []
    assert not flags.left()


TABLE = tomllib.loads(Path(flag_options.__file__).with_name("flag_effects.toml").read_text("utf-8"))
DEEPSEEK = problem_of("deepseek-v3", "64xh100-80gb", batch=256, sequence=4096, prediction_layers=0)
GPT = problem_of("gpt-3-175b", "64xh100-80gb", batch=256, sequence=2048)
# Options beside which those of the table are read.
BESIDE = {
    "megatron": QUIET,
    "torchtitan": f"{BATCH} --training.local_batch_size 4",
    "deepspeed": "--deepspeed --zero_optimization.stage 1 --bf16.enabled true",
}


def answer(problem: TrainingProblem, text: str) -> object:
    """All that memory and time follow from, with what is told; a refusal is an answer as well."""
    try:
        found = read(text, problem)
    except InputError as error:
        return str(error)
    return found.problem, found.configuration, found.hidden_share, found.notes


@pytest.mark.parametrize(
    ("framework", "name"), [(framework, name) for framework in BESIDE for name in TABLE[framework]["modelled"]]
)
def test_an_option_that_is_modelled_changes_the_answer(framework: str, name: str) -> None:
    value, dashes, more = TABLE[framework]["modelled"][name].partition("--")
    before = f"{BESIDE[framework]} {dashes}{more}"
    problems = [own.replace(framework=framework) for own in (LLAMA, DEEPSEEK, GPT)]
    assert any(answer(own, before) != answer(own, f"{before} --{name} {value}") for own in problems)


@pytest.mark.parametrize("framework", BESIDE)
def test_the_table_has_all_options_that_readers_ask_for(framework: str) -> None:
    """DeepSpeed's programs take Megatron's, and its reader passes some over that are not there."""
    modelled, seen = {*TABLE[framework]["modelled"]}, set()
    for own in (LLAMA, DEEPSEEK, GPT):
        flags = Flags(own.replace(framework=framework), {})
        READERS[framework](flags)
        seen |= flags.seen
    if framework == "deepspeed":
        assert seen <= modelled | {*TABLE["megatron"]["modelled"]}
    else:
        assert seen == modelled
    both = {*ASKED_BY_DEEPSPEED, "optimizer"}  # of which some values are modelled, and others told
    assert not (modelled & {*effects_of(framework)[0]}) - both


def test_usual_values_change_nothing() -> None:
    usual = {name: effect.usual for name, effect in effects_of("megatron")[0].items() if effect.usual}
    assert len(usual) >= 20
    for name, values in usual.items():
        for value in values:
            assert read(f"{QUIET} --{name} {value}").notes == (), (name, value)


def test_layers_with_experts_are_compared() -> None:
    problem = problem_of("deepseek-v3", "64xh100-80gb", batch=256, sequence=4096, prediction_layers=0)
    asked = "--moe-grouped-gemm --expert-tensor-parallel-size 1 --moe-layer-freq "
    assert read(QUIET + asked + "'([0]*3+[1]*58)'", problem).notes == ()
    for pattern in ("'([0]*4+[1]*57)'", "2", "'[1'", "'[1]*99999999999999'"):
        assert "--moe-layer-freq" in read(QUIET + asked + pattern, problem).notes[0]


def test_what_defaults_leave_out_is_left_out() -> None:
    """Multi-token prediction and hidden tensor-parallel communication need their flags."""
    efficiencies = {"tensor_hidden": 0.5}
    problem = problem_of("deepseek-v3", "64xh100-80gb", batch=256, sequence=4096, efficiencies=efficiencies)
    bare = read(f"{QUIET} --moe-grouped-gemm --expert-tensor-parallel-size 1", problem)
    assert (bare.problem.model.prediction_layers, bare.problem.efficiencies.tensor_hidden) == (0, 0)
    assert bare.notes == (
        UNLIKE + "no layer for multi-token prediction (no --mtp-num-layers), tensor-parallel communication that "
        "nothing hides (no --tp-comm-overlap).",
    )
    asked = f"{QUIET} --moe-grouped-gemm --expert-tensor-parallel-size 1 --tp-comm-overlap --mtp-num-layers"
    assert read(f"{asked} 1", problem).problem == problem
    assert read(f"{asked} 2", problem).problem.model.prediction_layers == 2
    with pytest.raises(InputError, match=r"model\.prediction_layers is 200; give"):
        read(f"{asked} 200", problem)
    titan = read(f"{BATCH} --training.local_batch_size 4 --parallelism.expert_parallel_degree 8", problem)
    assert titan.problem.model.prediction_layers == 0


def test_a_strategy_of_sharding_counts_with_its_flag_alone() -> None:
    found = read(f"{QUIET} --use-custom-fsdp --data-parallel-sharding-strategy no_shard")
    assert found.configuration.zero == 0
    assert found.notes == (
        "With --use-custom-fsdp, --data-parallel-sharding-strategy no_shard decides what is divided (zero=0).",
    )
    found = read(f"{QUIET} --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params")
    assert found.configuration.zero == 1
    (note,) = found.notes
    assert note.startswith("With --use-megatron-fsdp, --data-parallel-sharding-strategy optim_grads_params divides")
    assert "not modelled here" in note
    alone = read(f"{QUIET} --data-parallel-sharding-strategy optim_grads")
    assert alone.configuration.zero == 1
    assert "counts only with --use-megatron-fsdp" in alone.notes[0]


def test_absent_flags_that_mean_something_else_in_megatron() -> None:
    """A spare command line has whole optimizers, and experts divided as all else is."""
    bare = read("--use-distributed-optimizer --tensor-model-parallel-size 2")
    precision, unlike = bare.notes
    assert precision == "Without --bf16 and --fp16 Megatron trains in fp32; memory and time here are of bf16."
    assert unlike == UNLIKE + (
        "no sequence parallelism (no --sequence-parallel), dropout (--attention-dropout absent, --hidden-dropout "
        "absent), an unfused loss (no --cross-entropy-loss-fusion)."
    )
    own = bare.problem
    assert (own.sequence_parallel, own.dropout, own.fused_loss) == (False, True, False)
    (experts,) = read(f"{QUIET} --expert-model-parallel-size 4", MIXTRAL).notes
    assert experts == (
        "In Megatron without --moe-token-dispatcher-type alltoall tokens are gathered for the experts, and without "
        "--moe-grouped-gemm experts are computed one after the other, which is not modelled here."
    )
    flags = f"{OURS} --moe-grouped-gemm --tensor-model-parallel-size 2 --expert-model-parallel-size 4 "
    flags += "--sequence-parallel"
    found = read(f"{flags} --moe-token-dispatcher-type alltoall", MIXTRAL)
    assert (found.configuration.zero, found.configuration.degrees.expert_tensor) == (0, 2)
    assert [note.partition(" ")[0] for note in found.notes] == ["Without", "Without"]


# ---- torchtitan ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "told"), [
    ("", "activation_checkpoint.mode selective computes every layer whose number 2 divides again"),
    (BATCH + "--parallelism.data_parallel_replicate_degree 4",
     "Weights are divided within each of 4 groups of replicas"),
    (BATCH + "--parallelism.pipeline_parallel_degree 2", "The pipeline is emptied 2 times"),
])  # fmt: skip
def test_torchtitan_says_what_has_no_words_here(flags: str, told: str) -> None:
    """Its usual recomputation, its groups of replicas, and pipelines that are emptied several times."""
    assert read(f"{flags} --training.local_batch_size 4", TITAN).notes[0].startswith(told)


def test_experts_follow_the_tensor_degree_without_expert_parallelism() -> None:
    problem = MIXTRAL.replace(framework="torchtitan")
    flags = BATCH + "--training.local_batch_size 1 --parallelism.tensor_parallel_degree 2"
    for more, degree in (("", 2), (" --parallelism.expert_parallel_degree 4", 1)):
        assert read(flags + more, problem).configuration.degrees.expert_tensor == degree


# ---- whose flags they are --------------------------------------------------------------------------------


def test_flags_of_another_framework_say_so() -> None:
    found = read('{"train_batch_size": 256, "zero_optimization": {"stage": 1}}')
    assert found.problem.framework == "deepspeed"
    assert (
        found.notes[0]
        == "These are flags of deepspeed, whose rules count for them; the problem is one of megatron."
    )


# ---- mistakes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ROWS["mistakes"])
def test_mistakes_are_one_sentence_with_the_flag(text: str) -> None:
    with pytest.raises(InputError) as found:
        read(text)
    assert str(found.value).startswith(ROWS["mistakes"][text])
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("content", ["[parallelism", "[a]\nb = 1\n[a]\n", "x = " + "[" * 100_000])
def test_files_that_are_no_toml(content: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(content, "utf-8")
    with pytest.raises(InputError, match="is no TOML"):
        read(str(path))


SCRIPT = """
#!/bin/bash
#SBATCH --nodes=2
GPUS_PER_NODE=8   # of "each" node (8)
NODES=${NODES:-8}
WORLD=$(($GPUS_PER_NODE * NODES))
DATA=$1; SAVE=${2:-/tmp}
if true; then
  declare -i TP=$((2 * 2)); readonly MICRO=1
fi
LAUNCH="--nproc_per_node $GPUS_PER_NODE --nnodes $NODES --master_addr ${MASTER_ADDR}"
PARALLEL=(
    --tensor-model-parallel-size ${TP} --sequence-parallel   # (fast)
    --pipeline-model-parallel-size ${PP:-2}
)
PARALLEL+=(--micro-batch-size "$MICRO" --global-batch-size $((GPUS_PER_NODE * NODES * 4)))
srun torchrun $LAUNCH pretrain_gpt.py "$@" \\
  "${PARALLEL[@]}" --data-path $DATA --save $HOME/$RUN QUIET
"""


def test_a_script_is_read_with_the_values_of_its_variables(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT.replace("\\\\", "\\").replace("QUIET", QUIET), "utf-8")
    found = read(str(path))
    assert found.configuration == configuration_from_words(LLAMA, "tensor=4 pipeline=2")
    assert found.notes == ()
    path.write_text(SCRIPT.replace("${PP:-2}", "$PP"), "utf-8")
    with pytest.raises(InputError, match=r"--pipeline-model-parallel-size is '\$PP'; give a whole number"):
        read(str(path))


@pytest.mark.timing
def test_huge_texts_end_soon(tmp_path: Path) -> None:
    with million_turns() as spent:
        doubled = "A=--xxxxxxxx\n" + "A=$A$A\n" * 10_000
        for script in (doubled, "A=(\n" * 9_000, "A=\"'\n" * 9_000, "A=$((9*9" * 9_000):
            (tmp_path / "run.sh").write_text(script + "--bf16 $A", "utf-8")
            with contextlib.suppress(InputError):
                read(str(tmp_path / "run.sh"))
        with pytest.raises(InputError):
            read("--pipeline-model-parallel-layout " + "(t|)*999999" * 10)
        with pytest.raises(InputError):
            read("--a " * 1_000_000)
        assert spent() < 20
