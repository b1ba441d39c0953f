"""Documents of several lengths in a sequence: what attention does on average, and how far sequences differ."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean, pstdev

import pytest
from command_line import Plan, done, has, in_one_line, refused

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.iteration import model_operations, timing_of
from pipeplan.instances.training.lengths import Length, mean_over_tokens, slowest, spread
from pipeplan.instances.training.words import configuration_from_words

WORDS = "tensor=2 pipeline=2"
LLAMA = ("llama-3-8b", "--devices", "16xh100-80gb", "--sequence", 8192, "--batch", 64, "--judge", WORDS)


def packed(rng: random.Random, lengths: tuple[Length, ...], sequence: int) -> int:
    """The sum of squares of the documents that fill a sequence; the last one is cut off."""
    left, squares = sequence, 0
    while left:
        (own,) = rng.choices(lengths, [length.share for length in lengths])
        taken = min(own.tokens, left)
        left, squares = left - taken, squares + taken * taken
    return squares


def test_mean_and_spread_are_those_of_packed_sequences() -> None:
    """Of sequences much longer than their documents, where cutting the last one off matters little."""
    lengths, sequence, rng = (Length(100, 0.6), Length(300, 0.3), Length(900, 0.1)), 100_000, random.Random(1)
    sums = [packed(rng, lengths, sequence) for _ in range(1_500)]
    assert mean_over_tokens(lengths, sequence, float) * sequence == pytest.approx(fmean(sums), rel=0.01)
    assert spread(lengths, sequence) == pytest.approx(pstdev(sums) / fmean(sums), rel=0.07)
    largest = [max(rng.gauss(0, 1) for _ in range(64)) for _ in range(2_000)]
    assert slowest(1.0, 64) == pytest.approx(fmean(largest), rel=0.25)
    assert slowest(1.0, 1) == 0


def test_attention_alone_depends_on_the_lengths() -> None:
    given = {"devices": "16xh100-80gb", "batch": 64, "sequence": 8192}
    whole, alike, short = (problem_of("llama-3-8b", **given, lengths=text) for text in (None, "8192x2", "1024x1"))
    plan = configuration_from_words(whole, WORDS)
    one, same, less = (timing_of(own, plan) for own in (whole, alike, short))
    assert same.seconds == pytest.approx(one.seconds)
    assert whole.hash == problem_of("llama-3-8b", **given).hash != short.hash
    for before, after in zip(one.ranks, less.ranks, strict=True):
        assert after.attention == pytest.approx(before.attention / 8, rel=0.05)  # and the launches of kernels
        assert (after.products, after.memory, after.tensor) == (before.products, before.memory, before.tensor)
    assert model_operations(short) < model_operations(whole)  # type: ignore[operator]


def test_the_command_says_how_uneven_ranks_are(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lengths.csv").write_text("length\n" + "1024\n" * 9 + "8192\n", "utf-8")
    (words, file) = (
        done(plan("configure", *LLAMA, "--lengths", own)) for own in ("1024x0.9,8192x0.1", "lengths.csv")
    )
    assert words.out == file.out
    has(
        in_one_line(words.out),
        "attention does 53.7 % of its work on whole sequences",
        "The slowest of 4 data-parallel ranks is",
    )
    refused(plan("configure", *LLAMA, "--lengths", "8193x1"), "give 1 to 8192, the tokens of a sequence")


@pytest.mark.parametrize("text", ["", "x", "1024", "1024x", "0x1", "1024x0", "1024x1,", "-5x1"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="lengths"):
        problem_of("llama-3-8b", "8xh100-80gb", batch=64, sequence=8192, lengths=text)
