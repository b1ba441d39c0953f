"""Our own format for chains, ``pipeplan.chain/1``: versioned, strict, with every field of the problem.

What equals its default may be omitted; an unknown key is an error.
"""

from __future__ import annotations

from typing import Any

from ..base.errors import InputError
from ..base.fields import as_list, as_object, read_problem, write_problem
from .problem import ChainProblem

SCHEMA = "pipeplan.chain/1"
LISTS = ("forward", "backward", "activations", "weights")
# Where the file's name of a field is not ours.
FIELDS = {"memory_bytes": "memory"}


def chain_to_json(problem: ChainProblem) -> dict[str, Any]:
    """The problem as JSON data, with every default written out but the absent list of transfer times."""
    later = ("bandwidth", "duplex", "weight_copies", "memory_mode", "exclusive_buffers")
    data = write_problem(problem, SCHEMA, ("name", "time_unit", *LISTS, "gpus", "memory_bytes", *later))
    return {FIELDS.get(name, name): value for name, value in data.items()}


def chain_from_json(data: object) -> ChainProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    top = as_object("", data)
    try:
        readers: dict[str, Any] = dict.fromkeys(LISTS, as_list)
        return read_problem(ChainProblem, SCHEMA, data, FIELDS, **readers)
    except InputError as error:
        raise (error if error.field in top else error.renamed(FIELDS)) from None  # the file's own word, or ours
