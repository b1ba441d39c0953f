"""Formulas are read off code: letters go in, and what comes out says how the code computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeplan.show.formulas import Term, decision, form_of, with_letters

H, T = Term("h", 8), Term("t")


def test_arithmetic_gives_a_short_formula() -> None:
    assert (2 * H * 3 + 0.0 * T).form == ["*", 6, "h"]
    assert (H + 1 + T + 2).form == ["+", "h", 1, "t", 2]
    assert (4 * H / T / 1).form == ["*", 4, ["/", "h", "t"]]
    assert np.maximum(1.0, H / T).form == ["max", 1, ["/", "h", "t"]]


def test_what_holds_under_a_condition_is_a_branch() -> None:
    assert (H * (T > 1)).form == ["if", [">", "t", 1], "h", 0]
    assert np.where((T > 1) & True, H, 0.0).form == ["if", [">", "t", 1], "h", 0]  # type: ignore[call-overload]


def test_letters_with_a_known_number_decide_at_once() -> None:
    assert H > 1
    assert H * 2 == 16
    assert bool(0 * H) is False


def test_code_that_decides_is_run_once_for_each_way() -> None:
    divides = ["==", ["%", "h", "t"], 0]
    assert decision(lambda: H % T == 0) == divides
    assert decision(lambda: T == 1 or H % T == 0) == ["if", ["==", "t", 1], True, divides]
    assert decision(lambda: H > 1 or T > 1) is True
    assert decision(lambda: Term("precision") in ("bf16",)) == ["==", "precision", ["text", "bf16"]]


def test_a_record_gets_letters_for_its_numbers_but_for_zeros() -> None:
    @dataclass(frozen=True)
    class Sizes:
        hidden: int
        rope: int = 0

    twin, numbers = with_letters(Sizes(8), {"hidden": "h", "rope": "n_r"})
    assert (form_of(twin.hidden), twin.rope, numbers) == ("h", 0, {"h": 8})
