"""`plan import torch`: from a file with a function to a profile, a plan, or one sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, refused

torch = pytest.importorskip("torch")

import pipeplan  # noqa: E402
from pipeplan.models import from_torch  # noqa: E402

pytestmark = pytest.mark.torch


SOURCE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, code=None, width=16):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(4))
        self.head = nn.Linear(width, 1)
        self.code = code

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.code(x) if self.code else self.head(x).mean()

def build(micro_batch=4):
    return Net(), (torch.randn(micro_batch, 16),), {}

def fixed():
    return Net(), (torch.randn(4, 16),), {}

def huge():
    return Net(width=200_000), (torch.randn(1, 200_000),), {}

def branches():
    return Net(lambda x: x.sum() if x.sum() > 0 else x.mean()), (torch.randn(4, 16),), {}

from torch.utils.checkpoint import checkpoint

def checkpointed():
    return Net(lambda x: checkpoint(torch.sigmoid, x, use_reentrant=False).sum()), (torch.randn(4, 16),), {}

answer = 42
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


DEVICE = ("--hardware", "h100-80gb")


def test_from_a_model_to_a_plan(plan: Plan, file: Path, tmp_path: Path) -> None:
    profile = tmp_path / "my.json"
    said = done(plan("import", "torch", f"{file}:build", *DEVICE, "-o", profile))
    assert "a profile of 5 nodes" in said.out
    assert re.search(r"analytic: h100-80gb, efficiency 0\.7, 4 us per kernel", " ".join(said.out.split()))
    result = plan("solve", profile, "--devices", 2, "--memory", "1GB", "--bandwidth", "1GB/s", "--json").json
    assert result["found"] == "optimal"


def test_the_profile_says_where_it_comes_from(plan: Plan, file: Path) -> None:
    figures = ("--efficiency", 0.25, "--kernel-start", "1us")
    data = plan("import", "torch", f"{file}:build", *DEVICE, *figures, "--json").json
    source = data["source"]
    assert (source["how"], source["torch"]) == ("torch-export", torch.__version__)
    assert re.fullmatch("[0-9a-f]{64}", source["graph_sha256"])
    assert source["times"] == "analytic: h100-80gb, efficiency 0.25, 1 us per kernel"
    assert data["micro_batch"] == 4
    assert [node["id"] for node in data["nodes"]] == ["blocks.0", "blocks.1", "blocks.2", "blocks.3", "head"]
    assert data["tensors"][0] == {
        "id": "relu", "producer": "blocks.0", "readers": ["blocks.1"], "bytes": 4.0 * 4 * 16, "shape": [4, 16],
        "dtype": "float32",
    }  # fmt: skip
    assert data["tensors"][-1]["readers"] == []


def test_a_model_larger_than_this_machine(file: Path) -> None:
    """800 GB of parameters, none of which exist."""
    profile = pipeplan.import_torch(f"{file}:huge", hardware="h100-80gb")
    assert profile.nodes[0].parameter_bytes == 4 * (200_000**2 + 200_000)


def test_curves_over_several_sizes(plan: Plan, file: Path) -> None:
    data = plan("import", "torch", f"{file}:build", *DEVICE, "--micro-batch", "4,1,16", "--json").json
    assert data["micro_batch"] == 4
    assert data["nodes"][0]["forward"]["samples"] == [1.0, 4.0, 16.0]
    assert data["nodes"][0]["saved_bytes"] > 0


def test_a_checkpoint_is_said(plan: Plan, file: Path) -> None:
    said = done(plan("import", "torch", f"{file}:checkpointed", *DEVICE, "--json"))
    assert "torch.utils.checkpoint" in said.err
    assert said.json["source"]["warnings"]


BAD: list[tuple[tuple[Any, ...], str]] = [
    (("nowhere.py:build", *DEVICE), r"nowhere\.py: file does not exist; check the path"),
    (("my.py", *DEVICE), r"FILE:FUNCTION is 'my\.py'; give a file and a function in it, such as my\.py:build"),
    (("my.py:biuld", *DEVICE), r"my\.py: file has no function 'biuld'.*build.*; name one that it defines"),
    (("my.py:answer", *DEVICE), r"my\.py: file has 'answer', but that is no function"),
    (("broken.py:build", *DEVICE), r"broken\.py: file cannot be run \(NameError: .*\); correct it"),
    (("notes.txt:build", *DEVICE), r"notes\.txt: file is no Python file; name one that ends in \.py"),
    (("my.py:branches", *DEVICE), r"the model, .*my\.py line 27, branches on or takes sizes .*; make it static"),
    (("my.py:build",), r"Give --hardware, one of .*h100-80gb.*, or --measure"),
    (("my.py:build", *DEVICE, "--measure"), r"not both"),
    (("my.py:build", "--measure", "--efficiency", "0.5"), r"belong to calculated times"),
    (("my.py:build", "--hardware", "h100"), r"There is no hardware named 'h100'.*h100-80gb"),
    (("my.py:build", *DEVICE, "--efficiency", "2"), r"--efficiency is 2; give a share"),
    (("my.py:build", *DEVICE, "--kernel-start", "2s"), r"--kernel-start is 2 s; give a short time"),
    (("my.py:build", *DEVICE, "--micro-batch", "4,4"), r"--micro-batch names a size twice"),
    (("my.py:build", *DEVICE, "--micro-batch", "0"), r"--micro-batch"),
    (("my.py:fixed", *DEVICE, "--micro-batch", "8"), r"takes no argument micro_batch; let it be def build"),
    (("my.py:build", "--measure", "--repeats", "0"), r"--repeats"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_ends_in_one_sentence(
    plan: Plan, file: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(file.parent)
    Path("broken.py").write_text("nonsense\n", encoding="utf-8")
    Path("notes.txt").write_text("text\n", encoding="utf-8")
    said = plan("import", "torch", *arguments, "-o", "out.json")
    refused(said)
    assert re.search(message, " ".join(said.err.split()))
    assert len(said.err.strip()) < 400  # nothing of torch's own
    assert not Path("out.json").exists()


def test_without_torch_or_somewhere_to_put_it_a_sentence_says_so(
    plan: Plan, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(plan("import", "torch", f"{file}:build", *DEVICE), "give -o my.profile.json, or --json")
    with pytest.raises(pipeplan.InputError, match=r"argument build is an int, not a function"):
        pipeplan.import_torch(3, hardware="h100-80gb")  # type: ignore[arg-type]
    monkeypatch.setattr(from_torch, "find_spec", lambda package: None)
    said = plan("import", "torch", f"{file}:build", *DEVICE, "--json")
    refused(said, "torch is not installed; run pip install 'pipeplan[torch]'")
