"""Runs under short limits, `benchmarks/proofs.py --limits`: every kind has its methods and a larger problem."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from problems.nasty import KINDS

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("proofs")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_larger_problem(proofs: ModuleType, kind: str) -> None:
    larger = proofs._larger(kind)
    methods = [method for method in proofs._every_method() if method.kind == kind]
    assert methods
    assert proofs._ending(larger, methods[0], 0.0)[0] != "error"
