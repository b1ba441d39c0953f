"""The driver: imported in the solver's process alone, so it may import whatever it likes."""

from scipy.optimize import Bounds, LinearConstraint, milp

from pipeplan import SolveOptions, Stop
from pipeplan.planners.backends.model import MatrixModel
from pipeplan.planners.backends.records import Answer
from pipeplan.planners.backends.session import Session, Start

STOPS = {0: Stop.PROVEN, 1: Stop.TIME, 2: Stop.INFEASIBLE, 3: Stop.UNBOUNDED}


class Driver:
    def solve(self, model: MatrixModel, options: SolveOptions, start: Start | None, session: Session) -> Answer:
        limits = {"mip_rel_gap": options.rel_gap, **options.native}
        left = session.solver_seconds_left()
        if left is not None:
            limits["time_limit"] = left
        said = milp(
            model.costs,
            integrality=model.integer.astype(int),
            bounds=Bounds(model.col_lower, model.col_upper),
            constraints=LinearConstraint(model.A, model.row_lower, model.row_upper) if model.rows else None,
            options=limits,
        )
        bound = None if said.mip_dual_bound is None else said.mip_dual_bound + model.offset
        return Answer(
            STOPS.get(said.status, Stop.ERROR), x=said.x, bound=bound, message="" if said.success else said.message
        )
