"""Colours are told apart by everyone, passes back are darker, and what is written on a colour can be read."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from pipeplan.instances.chain.referee import TERMS as CHAIN_TERMS
from pipeplan.show.palette import (
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

SEEN_BY = {
    "all": np.eye(3),
    "protanopes": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopes": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopes": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
"""On linear light, after Machado, Oliveira and Fernandes (2009)."""
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
PAGES = {"light": "#ffffff", "dark": "#0f141a"}


def light(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(seen: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(np.clip(TO_XYZ @ seen, 0.009, 1) / (0.9505, 1.0, 1.089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def difference(one: str, other: str, reader: str) -> float:
    """For one who sees colours so."""
    first, second = (lab(np.array(SEEN_BY[reader]) @ light(colour)) for colour in (one, other))
    return float(np.linalg.norm(first - second))


@pytest.mark.parametrize("reader", SEEN_BY)
def test_phases_are_told_apart_by_everyone(reader: str) -> None:
    assert min(difference(one, other, reader) for one, other in combinations(PHASES, 2)) > 20


@pytest.mark.parametrize("colours", [tuple(TERMS.values()), CATEGORIES], ids=["terms", "categories"])
@pytest.mark.parametrize("reader", SEEN_BY)
def test_what_lies_side_by_side_is_told_apart_by_everyone(reader: str, colours: tuple[str, ...]) -> None:
    assert min(difference(one, other, reader) for one, other in pairwise(colours)) > 18


@pytest.mark.parametrize("reader", SEEN_BY)
def test_work_is_told_apart_from_all_else_that_a_load_has_and_is_the_colour_of_no_device(reader: str) -> None:
    others = {LOADS[name] for name in ("transfers", "transfers in", "transfers out", "larger of links and inside")}
    assert min(difference(COMPUTATION, other, reader) for other in others) > 18
    assert COMPUTATION not in (*CATEGORIES, *PHASES, *MEMORY.values())


@pytest.mark.parametrize("reader", SEEN_BY)
def test_parts_of_a_training_are_told_apart_by_everyone(reader: str) -> None:
    """Any two may lie side by side; computation comes first and idling last, with something between them."""
    takes = {name: colour for name, colour in TRAINING.items() if name != "gradients"}
    assert min(difference(one, other, reader) for one, other in combinations(takes.values(), 2)) > 18
    apart = [colour for name, colour in takes.items() if name != "imbalance"]
    assert min(difference(COMPUTATION, colour, reader) for colour in apart) > 18
    holds = [TERMS["weights"], *(LOADS[name] for name in ("gradients", "optimizer")), TERMS["kept"]]
    assert min(difference(one, other, reader) for one, other in pairwise(holds)) > 18


@pytest.mark.parametrize("page", PAGES)
def test_phases_stand_out_from_light_and_dark_pages(page: str) -> None:
    assert min(contrast(colour, PAGES[page]) for colour in PHASES) > 3


@pytest.mark.parametrize("colour", dict.fromkeys((*PHASES, *TERMS.values(), *CATEGORIES, *LOADS.values())))
def test_what_is_written_on_a_colour_can_be_read(colour: str) -> None:
    assert contrast(colour, ink_on(colour)) >= 4.5


def test_forward_is_light_and_what_goes_back_is_darker() -> None:
    forward, backward, for_weights = map(luminance, PHASES[:3])
    assert forward > backward > for_weights


def test_every_phase_has_a_name_and_every_kind_of_memory_of_chains_a_colour() -> None:
    assert len(PHASES) == len(PHASE_NAMES)
    assert tuple(TERMS) == tuple(CHAIN_TERMS)
    assert set(MEMORY.values()) - {MEMORY["gradients"], MEMORY["optimizer"]} == set(TERMS.values())
