"""`plan export` and `plan import megatron-layout`: from a table to the text, and back to the referee."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Plan, done, has, refused
from export_samples import llama

import pipeplan
from pipeplan.instances.base.json_file import write_json
from pipeplan.instances.networks.profile.profile import profile_to_json
from pipeplan.models.export.contract import TARGETS

TWO = ("--devices", 2, "--memory", "none", "--bandwidth", "1GB/s")


@pytest.fixture
def folder(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A profile of a Llama with seven layers, and its best plan on two devices."""
    monkeypatch.chdir(tmp_path)
    write_json("my.json", profile_to_json(llama(7)))
    assert plan("solve", "my.json", *TWO, "-o", "best.json").code == 0
    return tmp_path


def test_the_text_goes_to_stdout_and_the_rest_to_stderr(plan: Plan, folder: Path) -> None:
    said = plan("export", "best.json", "my.json", "--to", "vllm")
    assert (said.code, said.out) == (0, "VLLM_PP_LAYER_PARTITION=4,3\n")
    assert "Note: no plan counts the memory of KV caches" in said.err
    assert said.out == pipeplan.export(
        pipeplan.load_result("best.json"), pipeplan.load_profile("my.json"), to="vllm"
    )


def test_a_result_of_a_model_with_another_name_is_told(plan: Plan, folder: Path) -> None:
    """All nodes have the same names, and yet it may be another model: only the reader knows."""
    write_json("namesake.json", profile_to_json(llama(7).replace(name="other")))
    said = done(plan("export", "best.json", "namesake.json", "--to", "megatron"))
    assert "Note: the result is about 'llama' and the profile is called 'other'" in said.err
    assert "is about" not in plan("export", "best.json", "my.json", "--to", "megatron").err


def test_files_are_written(plan: Plan, folder: Path) -> None:
    said = plan("export", "best.json", "my.json", "--to", "megatron", "-o", "args.txt")
    assert (said.code, said.out) == (0, "")
    assert "wrote args.txt" in said.err
    assert (folder / "args.txt").read_text() == (
        '--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "Et*4|t*3,L" --micro-batch-size 1 '
        "--global-batch-size 2\n"
    )
    said = plan("export", "best.json", "my.json", "--to", "torch", "--micro-batches", 4, "-o", "out/")
    has(said.err, "wrote out/stages.json", "wrote out/schedule.csv")
    told = plan("export", "best.json", "my.json", "--to", "torch", "--micro-batches", 4, "--json").json
    assert sorted(told["files"]) == ["schedule.csv", "stages.json", "train.py"]
    assert (folder / "out" / "schedule.csv").read_text().startswith("0F0,0F1,0B0,0F2,0B1")


def test_names_of_the_frameworks_own_model(plan: Plan, folder: Path) -> None:
    (folder / "names.json").write_text('{"model.layers": "layers", "model.norm": "norm"}', "utf-8")
    options = (
        "--rename", "names.json", "--rename", "lm_head=output", "--rename", "model.embed_tokens=tok_embeddings",
    )  # fmt: skip
    said = plan("export", "best.json", "my.json", "--to", "torchtitan", *options)
    assert '"layers.3"],["layers.4","layers.5","layers.6","norm","output"]]' in said.out


def test_help_explains_every_target(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    said = "".join(char for char in plan("export", "--help").out if char not in " \n│")
    for name, target in TARGETS.items():
        assert f"{name} ({target.about})".replace(" ", "") in said


def test_what_is_run_today_stands_beside_the_optimum(plan: Plan, folder: Path) -> None:
    said = done(plan("import", "megatron-layout", "Et*2|t*5,L", "my.json", *TWO, "-o", "today.json"))
    assert "wrote today.json" in said.err
    for command in ("verify", "simulate", "show"):
        done(plan(command, "my.json", "today.json", *TWO))
    today, best = pipeplan.load_result("today.json"), pipeplan.load_result("best.json")
    assert today.objective > best.objective
    assert today.messages == ("read from the layout Et*2|t*5,L",)


def test_a_layout_in_a_file_on_too_little_memory_is_rejected(plan: Plan, folder: Path) -> None:
    """The referee says which stage holds too much: exit code 3, as of any plan that it rejects."""
    assert plan("export", "best.json", "my.json", "--to", "megatron", "-o", "args.txt").code == 0
    little = ("--devices", 2, "--memory", "100B", "--bandwidth", "1GB/s")
    said = plan("import", "megatron-layout", "args.txt", "my.json", *little, "-o", "today.json")
    assert said.code == 3
    assert "stage 0 holds" in said.out
    refused(plan("export", "today.json", "my.json", "--to", "vllm"), "rejected by the referee")


def test_a_table_without_backward_passes(plan: Plan, folder: Path) -> None:
    table = "layer,forward [ms],parameters_count,output [MB]\nlayer 0,1,1,0\nlayer 1,1,1,0\n"
    (folder / "t.csv").write_text(table, "utf-8")
    reading = ("--inference", "--bytes-per-parameter", 2)
    assert plan("solve", "t.csv", *TWO, *reading, "-o", "t.json").code == 0
    assert plan("export", "t.json", "t.csv", "--to", "vllm", *reading).out == "VLLM_PP_LAYER_PARTITION=1,1\n"
    assert plan("import", "megatron-layout", "1,1", "t.csv", *TWO, *reading, "-o", "today.json").code == 0
    refused(plan("export", "t.json", "--to", "vllm", "--inference"), "are for reading PROFILE")


BROKEN: dict[str, tuple[tuple[object, ...], str]] = {
    "unknown target": (("export", "best.json", "my.json", "--to", "megatronn"), "did you mean 'megatron'?"),
    "no target": (("export", "best.json", "my.json"), "Name the framework: --to is one of torch, torchtitan,"),
    "no such result": (("export", "gone.json", "my.json", "--to", "vllm"), "gone.json: file does not exist"),
    "a problem for a profile": (("export", "best.json", "best.json", "--to", "vllm"),
     "schema is 'pipeplan.result/1'"),
    "a profile for a result": (("export", "my.json", "my.json", "--to", "vllm"), "schema is 'pipeplan.profile/1'"),
    "another model's profile": (("export", "best.json", "other.json", "--to", "vllm"),
     "plan lacks the node 'model.layers.7', so it is no plan of the profile 'llama'; give the profile that"),
    "a result without a plan": (("export", "none.json", "my.json", "--to", "vllm"), "plan is null"),
    "no folder to write to": (("export", "best.json", "my.json", "--to", "vllm", "-o", "no/where.env"),
     "no/where.env: file cannot be written"),
    "two files in one": (("export", "best.json", "my.json", "--to", "torch", "--micro-batches", 2, "-o",
     "out.json"), "-o out.json is one file and there are stages.json, schedule.csv, train.py; name a folder."),
    "a layout of another size": (("import", "megatron-layout", "Et*3|t*3,L", "my.json", *TWO, "--json"),
     "layout holds 6 times t (a transformer layer), and the profile has 7"),
    "a letter that is none": (("import", "megatron-layout", "Et*4|d*4,L", "my.json", *TWO, "--json"),
     "layout holds 'd'; give E (the embedding)"),
    "no devices": (("import", "megatron-layout", "Et*4|t*3,L", "my.json", "--json"), "give --devices"),
    "no target file": (("import", "megatron-layout", "Et*4|t*3,L", "my.json", *TWO),
     "give -o today.json, or --json"),
    "renames that are none": (("export", "best.json", "my.json", "--to", "torch", "--rename", "my.json"),
     "my.json: training is true, not a module; give"),
    "an empty name": (("export", "best.json", "my.json", "--to", "torch", "--rename", "lm_head="),
     "give old=new, both modules"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_bad_input_is_one_sentence(plan: Plan, folder: Path, name: str) -> None:
    write_json("other.json", profile_to_json(llama(9)))
    nothing = json.loads((folder / "best.json").read_text()) | {"plan": None, "found": "nothing"}
    (folder / "none.json").write_text(json.dumps(nothing), "utf-8")
    arguments, sentence = BROKEN[name]
    refused(plan(*arguments), sentence)


TABLE = """layer,forward [ms],backward [ms],parameters [MB],activation [MB],output [MB]
embedding,1,1,10,1,1
block 1,2,4,10,1,1
block 2,2,4,10,1,1
block 3,2,4,10,1,1
block 4,2,4,10,1,1
head,3,7,10,1,1
"""


@pytest.mark.parametrize(
    ("kind", "counts"), [("staging", (2, 1, 1)), ("placement", (1, 1, 1, 1)), ("chain", (1, 2, 1))]
)
def test_every_rank_holds_a_layer_where_that_is_asked_for(
    plan: Plan, tmp_path: Path, kind: str, counts: tuple[int, ...]
) -> None:
    """The refusal names the option, and solve finds the best plan of whole layers."""
    table, result = tmp_path / "t.csv", tmp_path / "r.json"
    table.write_text(TABLE, encoding="utf-8")
    on = ("--kind", kind, "--devices", 5, "--memory", "1GB", "--bandwidth", "100GB/s", "-o", result)
    assert plan("solve", table, *on).code == 0
    said = plan("export", result, table, "--to", "vllm")
    refused(said, "every rank must hold one; plan with --option whole-layers, or for fewer --devices.")
    assert plan("solve", table, *on, "--whole-layers").code == 0
    told = plan("export", result, table, "--to", "vllm")
    assert told.out == f"VLLM_PP_LAYER_PARTITION={','.join(map(str, counts))}\n"
    layout = done(plan("export", result, table, "--to", "megatron"))
    assert '"Et' in layout.out  # the embedding is with the first layer, as it was before


def test_solve_says_which_framework_cannot_run_a_plan_as_its_export_does(plan: Plan, tmp_path: Path) -> None:
    table, result = tmp_path / "t.csv", tmp_path / "r.json"
    table.write_text(TABLE, encoding="utf-8")
    on = ("--devices", 5, "--memory", "1GB", "--bandwidth", "100GB/s", "-o", result)
    served = plan("solve", table, "--inference", *on).err
    refused = plan("export", result, table, "--inference", "--to", "vllm").err
    assert refused.removeprefix("Error: ").removesuffix(".\n") in served
    assert "Note: vllm cannot say this plan: stage 4, with the node 'head', holds no layer" in served
    trained = plan("solve", table, *on, "--data-parallel", "--memory", "80MB").err
    assert "Note: megatron cannot say this plan: stage 1, with the node 'block 3', has 3 replicas" in trained
    assert "plan with --option uniform" in trained
    assert "cannot say" not in plan("solve", table, *on).err


def test_several_files_go_into_a_folder_that_is_named_without_a_slash(plan: Plan, tmp_path: Path) -> None:
    result = tmp_path / "best.json"
    asked = ("llama-3-8b", "--devices", "8xh100-80gb", "--sequence", 2048, "--batch", 8, "--layers", 4)
    done(plan("configure", *asked, "--framework", "deepspeed", "--judge", "zero=1", "-o", result))
    done(plan("export", result, "--to", "deepspeed", "--launcher", "slurm", "-o", tmp_path / "job"))
    assert {path.name for path in (tmp_path / "job").iterdir()} == {"launch.sh", "ds_config.json"}
