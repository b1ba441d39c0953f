"""The colours of everything that is drawn, in one place: lessons, pictures, reports and terminals take theirs here.

Light is forward and dark is backward; each kind of memory has its own colour, the same in every picture.
"""

from __future__ import annotations

from collections.abc import Mapping

# Blue, vermilion, purple and grey: told apart by colour-blind readers as well, each darker than the one
# before it but for the last, and three times as light or as dark as a white and a dark page.
FORWARD, BACKWARD, FOR_WEIGHTS, OTHER = "#4297d3", "#cc5229", "#8442c4", "#8c8c8c"

# What a task on a timeline is: F, B (or its half I, for inputs), W, and all that is none of these.
PHASES = (FORWARD, BACKWARD, FOR_WEIGHTS, OTHER)
PHASE_NAMES = ("forward", "backward", "backward for weights", "other")

# Colours of things that share no meaning, such as methods or devices: Paul Tol's bright scheme, which colour-
# blind readers tell apart as well.
CATEGORIES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")


def colour(i: int) -> str:
    """The colour of thing number i."""
    return CATEGORIES[i % len(CATEGORIES)]


# Colours of the terms of memory.
TERMS = {"weights": "#bbbbbb", "kept": "#aa3377", "current": "#ee6677", "direct": "#228833", "buffers": "#ccbb44"}

# Colours of the terms of memory, by the words that plans of all kinds have for them.
MEMORY: Mapping[str, str] = {
    **TERMS,
    "kept activations": TERMS["kept"],
    "standing": TERMS["weights"],
    "taken by blocks": TERMS["kept"],
    "taken by micro-batches": TERMS["kept"],
    "fixed": TERMS["weights"],
    "micro-batches in flight": TERMS["kept"],
    "samples in flight": TERMS["kept"],
    "workspace": TERMS["current"],
    "held": TERMS["weights"],
    "memory": TERMS["kept"],
    "this piece": TERMS["kept"],
    "others on its device": TERMS["weights"],
    "activations": TERMS["kept"],
    "transient": TERMS["current"],
    "reserve": TERMS["buffers"],
    "gradients": CATEGORIES[0],
    "optimizer": "#8cd17d",
}

# The colour of work that is not divided into phases.
COMPUTATION = "#00806a"

# Colours of what a rank of a training holds, and of what an iteration takes besides computation: any two of
# them may lie side by side.
TRAINING: Mapping[str, str] = {
    "gradients": MEMORY["gradients"],
    "recomputation": "#aa4499",
    "tensor": "#f5a742",
    "context": "#85283a",
    "expert": "#4537b5",
    "data": "#66ccee",
    "sending": "#cc5229",
    "optimizer": MEMORY["optimizer"],
    "imbalance": OTHER,
    "bubble": "#d9d9d9",
}

# Colours of the parts of a load. Work has a colour that is no device's and no method's.
LOADS: Mapping[str, str] = {
    "forward": FORWARD,
    "backward": BACKWARD,
    "computation": COMPUTATION,
    "busy": COMPUTATION,
    "from start to finish": COMPUTATION,
    "transfers": "#ccbb44",
    "transfers in": "#ccbb44",
    "transfers out": "#66ccee",
    "synchronisation": OTHER,
    "larger of links and inside": "#bbbbbb",
    **TRAINING,
}

BLACK, WHITE = "#000000", "#ffffff"


def luminance(colour: str) -> float:
    """Luminance of a colour like #4477aa relative to white, as WCAG defines it."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """How much two colours differ: 1 if they are the same, 21 for black on white; small text needs 4.5."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: str) -> str:
    """Black or white, whichever is read better on the colour."""
    return max((BLACK, WHITE), key=lambda ink: contrast(ink, colour))
