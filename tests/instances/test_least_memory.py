"""Amounts of memory that a command line takes, which are never less than needed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pipeplan.instances.base.amounts import as_written
from pipeplan.instances.base.quantities import size
from pipeplan.instances.least_memory import in_one_unit, option


@pytest.mark.parametrize(("needed", "said"), [
    (18.0, "--memory 18"), (0.3, "--memory 1"), (4236279820, "--memory 3.946GiB"),
    (165214976.0, "--memory 157.6MiB"), (12382200000, "--memory 11.54GiB"), (80e9, "--memory 80GB"),
    (1e16 + 2, "--memory 9095TiB"), (Fraction(10**9) + Fraction(1, 3), "--memory 953.7MiB"),
])  # fmt: skip
def test_amounts_are_rounded_up_to_what_can_be_read(needed: float | Fraction, said: str) -> None:
    assert option(needed) == said
    assert size(said.removeprefix("--memory ")) >= as_written(needed)


def test_what_is_not_bytes_has_no_unit() -> None:
    assert option(20e6, "half-activation") == "--memory 20000000"


def test_what_is_not_bytes_is_asked_for_exactly() -> None:
    """A whole unit more would ask for 1 GiB where 0.3 GiB are the least."""
    assert option(0.3, "GiB") == "--memory 0.3"


@pytest.mark.parametrize(("amounts", "texts"), [
    ((2**31, 40 * 10**9, 5 * 2**30), ["2 GiB", "37.26 GiB", "5 GiB"]),  # in the order in which they are given
    ((4 * 10**9, 80 * 10**9), ["4 GB", "80 GB"]),
    ((2**29, 2**34), ["512 MiB", "16384 MiB"]),
    ((18, 50), ["18 bytes", "50 bytes"]),
    ((), []),
])  # fmt: skip
def test_amounts_of_a_table_are_in_one_unit(amounts: tuple[int, ...], texts: list[str]) -> None:
    assert list(in_one_unit(amounts).values()) == texts
