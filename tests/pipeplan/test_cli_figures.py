"""Figures of hardware on the command line and in files: a million times off is another unit, and is asked back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import Plan, refused

LLAMA = ("--devices", "8xh100-80gb", "--sequence", "8192", "--batch", "128")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("convert", "bert-large-training", "-o", "out.json", "--memory", 80), "80GB"),
        (("convert", "bert-large-stages", "-o", "out.json", "--memory", 80), "80GB"),
        (("solve", "case-study", "--memory", 80), "80GB"),
        (("solve", "resnet18-training-chain", "--bandwidth", 12), "12GB/s"),
        (("solve", "bert-large-stages", "--levels", "2x450,4x50"), "450GB/s"),
        (("solve", "llama-3-8b-8xh100", "--levels", "8x450"), "450GB/s"),
        (("solve", "resnet-50", "--devices", "2xa100-80gb", "--bandwidth", 25), "25GB/s"),
        (("solve", "resnet-50", "--devices", 2, "--memory", 16, "--bandwidth", "25GB/s"), "16GB"),
        (("memory", "bert-large-stages", "--bandwidth", 12), "12GB/s"),
        (("sensitivity", "bert-large-stages", "--more-memory", 2), "2GB"),
        (("compare", "bert-large-stages", "-m", "dp-piper", "--memory", "80"), "80GB"),
        (("pareto", "resnet18-training-chain", "--memory", "80"), "80GB"),
        (("configure", "llama-3-8b", *LLAMA, "--levels", "8x450"), "450GB/s"),
        (("configure", "llama-3-8b", *LLAMA, "--levels", "8x450000000GB/s"), "450GB/s"),
        (("configure", "llama-3-8b", *LLAMA, "--memory", "80"), "80GB"),
        (("configure", "llama-3-8b", *LLAMA, "--reserve", "2"), "2GB"),
        (("configure", "llama-3-8b", *LLAMA, "--efficiency", "launch_seconds=4"), "4e-06"),
        (("solve", "tiny-chain", "--memory-limit", "8"), "8GB"),
    ],
)
def test_figures_a_million_times_off_are_asked_back_in_all_commands(
    plan: Plan, words: tuple[str | int, ...], meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(plan(*words), f"write {meant} if ")


@pytest.mark.parametrize("name", ["tiny-stages", "tiny-graph", "figure-4"])
def test_small_examples_count_in_units_of_their_own(plan: Plan, name: str, tmp_path: Path) -> None:
    assert plan("convert", name, "-o", tmp_path / "out.json", "--memory", 30).code == 0


@pytest.mark.parametrize(
    ("field", "before", "after", "meant"),
    [
        ("memory_bytes", "4294967296", "4", "write 4GB if"),
        ("bandwidth", "32000000000.0", "32", "write 32GB/s if"),
        ("memory_rate", "936000000000.0", "936", "write 9.36e+11 if you mean 936 GB/s"),
        ("bf16", "71000000000000.0", "71", "write 7.1e+13 if you mean 71 TFLOP/s"),
        ("latency_seconds", "2.5e-06", "2.5", "write 2.5e-06 if you mean 2.5 us"),
    ],
)
def test_files_of_named_gpus_have_figures_of_hardware(
    plan: Plan, field: str, before: str, after: str, meant: str, tmp_path: Path
) -> None:
    """A GPU of an unknown name may be anything."""
    path = tmp_path / "problem.json"
    assert plan("convert", "tiny-training", "-o", path).code == 0
    text, count = re.subn(rf'"{field}": ?{re.escape(before)}', f'"{field}": {after}', path.read_text("utf-8"))
    assert count
    path.write_text(text, "utf-8")
    refused(plan("show", path), meant)
    path.write_text(text.replace('"rtx-3090"', '"mine"'), "utf-8")
    assert plan("show", path).code == 0
