"""Our own format for chains, ``pipeplan.chain/1``: versioned, strict, with every field of the problem.

What equals its default may be omitted; an unknown key is an error.
"""

from __future__ import annotations

from typing import Any

from ..base.errors import InputError
from ..base.fields import as_own_format, require, require_list
from .problem import ChainProblem

SCHEMA = "pipeplan.chain/1"

LISTS = ("forward", "backward", "activations", "weights")
DEFAULTS: dict[str, Any] = {
    "memory": None,
    "bandwidth": None,
    "transfer_times": None,
    "duplex": "half",
    "weight_copies": 3.0,
    "memory_mode": "reserved",
    "exclusive_buffers": False,
    "name": "chain",
    "time_unit": "s",
}
KEYS = ("schema", *LISTS, "gpus", *DEFAULTS)
FIELDS = {"memory": "memory_bytes"}
"""Where the file's name of a field is not ours."""


def chain_to_json(problem: ChainProblem) -> dict[str, Any]:
    """The problem as JSON data, with every default written out but the absent list of transfer times."""
    data: dict[str, Any] = {"schema": SCHEMA, "name": problem.name, "time_unit": problem.time_unit}
    data |= {key: list(getattr(problem, key)) for key in LISTS}
    data["gpus"] = problem.gpus
    for key in DEFAULTS:
        data.setdefault(key, getattr(problem, FIELDS.get(key, key)))
    if problem.transfer_times is None:
        del data["transfer_times"]
    else:
        data["transfer_times"] = list(problem.transfer_times)
    return data


def chain_from_json(data: object) -> ChainProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    top = as_own_format(data, SCHEMA, KEYS)
    fields: dict[str, Any] = {key: require_list("", top, key) for key in LISTS}
    fields["gpus"] = require("", top, "gpus")
    fields |= {FIELDS.get(key, key): top.get(key, default) for key, default in DEFAULTS.items()}
    try:
        return ChainProblem(**fields)
    except InputError as error:
        raise error.renamed({ours: theirs for theirs, ours in FIELDS.items()}) from None
