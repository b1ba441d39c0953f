"""Colours are told apart by everyone, passes back are darker, and what is written on a colour can be read."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from pipeplan.instances.chain.referee import TERMS as CHAIN_TERMS
from pipeplan.show.views import (
    CATEGORIES,
    COMPUTATION,
    LOADS,
    MEMORY,
    PHASE_NAMES,
    PHASES,
    TERMS,
    TRAINING,
    contrast,
    ink_on,
    luminance,
)

# On linear light, row after row, after Machado, Oliveira and Fernandes (2009).
SEEN_BY = {
    "all": np.eye(3),
    "protanopes": [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
    "deuteranopes": [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
    "tritanopes": [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
PAGES = ("#ffffff", "#0f141a")


def light(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(seen: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(np.clip(TO_XYZ @ seen, 0.009, 1) / (0.9505, 1.0, 1.089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def difference(one: str, other: str, reader: str) -> float:
    """For one who sees colours so."""
    first, second = (lab(np.reshape(SEEN_BY[reader], (3, 3)) @ light(colour)) for colour in (one, other))
    return float(np.linalg.norm(first - second))


MOVED = [LOADS[name] for name in ("transfers", "transfers in", "transfers out", "larger of links and inside")]
TAKES = {name: colour for name, colour in TRAINING.items() if name != "gradients"}
HOLDS = [TERMS["weights"], LOADS["gradients"], LOADS["optimizer"], TERMS["kept"]]
# What may lie side by side. Computation comes first and idling last, with something between them.
PAIRS = {
    "phases": combinations(PHASES, 2),
    "terms": pairwise(TERMS.values()),
    "categories": pairwise(CATEGORIES),
    "work and all else that a load has": ((COMPUTATION, other) for other in MOVED),
    "parts of a training's time": combinations(TAKES.values(), 2),
    "computation and these": ((COMPUTATION, colour) for name, colour in TAKES.items() if name != "imbalance"),
    "parts of a training's memory": pairwise(HOLDS),
}


@pytest.mark.parametrize("pairs", [pytest.param(list(pairs), id=name) for name, pairs in PAIRS.items()])
@pytest.mark.parametrize("reader", SEEN_BY)
def test_what_lies_side_by_side_is_told_apart_by_everyone(reader: str, pairs: list[tuple[str, str]]) -> None:
    assert min(difference(one, other, reader) for one, other in pairs) > 18


def test_phases_stand_out_from_light_and_dark_pages_and_what_goes_back_is_darker() -> None:
    assert min(contrast(colour, page) for colour in PHASES for page in PAGES) > 3
    forward, backward, for_weights = map(luminance, PHASES[:3])
    assert forward > backward > for_weights


@pytest.mark.parametrize("colour", dict.fromkeys((*PHASES, *TERMS.values(), *CATEGORIES, *LOADS.values())))
def test_what_is_written_on_a_colour_can_be_read(colour: str) -> None:
    assert contrast(colour, ink_on(colour)) >= 4.5


def test_every_phase_has_a_name_every_kind_of_memory_of_chains_a_colour_and_work_that_of_no_device() -> None:
    assert COMPUTATION not in (*CATEGORIES, *PHASES, *MEMORY.values())
    assert len(PHASES) == len(PHASE_NAMES)
    assert tuple(TERMS) == tuple(CHAIN_TERMS)
    assert set(MEMORY.values()) - {MEMORY["gradients"], MEMORY["optimizer"]} == set(TERMS.values())
