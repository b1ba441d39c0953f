"""What a solver's word is worth, and on what conditions it is taken for a proof: the one place that says so.

| backend | computes in | a bound, or "no plan below the cut-off", is taken |
| --- | --- | --- |
| cp-sat | whole numbers | as it is: the model is scaled exactly, or rounded so that no plan is lost |
| highs, scip, and plug-ins that do not say `exact` | floats | with margins, after a second opinion |

Float solvers get every model in units of its own magnitude (`units`), and with room around its cut-off and its
bounds (`FLOAT_ROOM`). Of what they tell, only the part is used that their tolerances cannot have eaten: bounds
are lowered by `BOUND_MARGIN`, and what was refuted counts for the cut-off without the room.

Solvers have faults as well, in presolve above all: `tests/planners/exact/test_float_proofs.py` has false optima of
HiGHS on small models of ours. So an answer of a float solver that would end the search is asked again: of CP-SAT on
exact whole numbers where it takes the model, else of another float solver, for a while that is counted in work, more
of it where the first answer took long. The second answer confirms the first, or refutes it by a plan (the first solver
is left out from then on, and its bounds with it), or does not come in time: then the first stands on its margins alone,
and the result says so.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...formulations.contract import FLOAT_ROOM
from .model import FEASIBILITY, MatrixModel
from .registry import backend_named
from .scaling import reaches

# Relative: a bound of a float solver counts for so much less. Rows are kept to about 1e-9 of the largest load.
BOUND_MARGIN = 1e-7

# The work that a second opinion may be in any case, about three seconds of it, as options of the solver that end it by
# what they count: a slow machine loses none that a fast one gets.
SECOND_OPINION: Mapping[str, tuple[str, float]] = {
    "cp-sat": ("max_deterministic_time", 0.5),
    "scip": ("limits/totalnodes", 1000),
    "highs": ("mip_max_nodes", 1000),
}
# Seconds that it may take, however little it counts: a single linear program can be large.
SECOND_OPINION_S = 60.0

# Share of the first answer's time that a second opinion may take if that is more, and from how many seconds on it may
# be more work in proportion.
SECOND_OPINION_SHARE, MORE_WORK_FROM_S = 0.1, 30.0


def is_exact(backend: str) -> bool:
    """Does it compute in whole numbers, so that its proofs hold as they are?"""
    return backend_named(backend).capabilities.exact


def cutoff_for(backend: str, cutoff: float | None) -> float | None:
    """The cut-off in the model of this backend, where plans of up to `cutoff` are asked for."""
    return cutoff if cutoff is None or is_exact(backend) else cutoff + FLOAT_ROOM * abs(cutoff)


def safe_bound(backend: str, bound: float) -> float:
    """The part of a backend's bound that its tolerances cannot have eaten."""
    return bound if is_exact(backend) else bound - BOUND_MARGIN * abs(bound)


def claim_rounding(backend: str, model: MatrixModel) -> float:
    """By how much the objective of a solution may be too small, since the backend keeps rows only nearly.

    A float solver keeps them, and whole numbers, up to a tolerance. Whole numbers of a rounded row are off by at most
    half a step for every column, where the row as a whole reaches so many steps.
    """
    from .scaling import ROUNDED_LIMIT

    priced = (model.costs != 0)[model.col_index] & (model.coefficients != 0)
    sizes = np.abs(model.coefficients) * np.maximum(1.0, reaches(model))[model.col_index]
    size = np.bincount(model.row_of_entry, sizes, minlength=model.rows)
    half_steps = 0.5 * np.bincount(model.row_of_entry, minlength=model.rows) / ROUNDED_LIMIT
    off = (half_steps if is_exact(backend) else FEASIBILITY) * size
    prices = np.abs(model.costs[model.col_index] / model.coefficients)
    short = off[model.row_of_entry[priced]] * prices[priced]
    return float(short.max(initial=0.0))


def second_opinions(first: str) -> tuple[str, ...]:
    """Solvers to ask after a float solver, the best first."""
    return tuple(name for name in SECOND_OPINION if name != first and backend_named(name).available())


def second_opinion_limits(second: str, first_took_s: float) -> tuple[float, Mapping[str, float]]:
    """Seconds that the second solver may take, and its own options that limit its work."""
    option, work = SECOND_OPINION[second]
    seconds = max(SECOND_OPINION_S, SECOND_OPINION_SHARE * first_took_s)
    return seconds, {option: type(work)(work * max(1.0, first_took_s / MORE_WORK_FROM_S))}


def evidence(solver: str, what: str) -> str:
    """One line of a proof: who says what, on which numbers."""
    title = backend_named(solver).title
    if is_exact(solver):
        return f"{title} {what}, in exact whole numbers"
    return f"{title} {what}, in floating point with margins for its tolerances"
