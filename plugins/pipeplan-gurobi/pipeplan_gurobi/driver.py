"""Gurobi through gurobipy (seen on version 13)."""

from __future__ import annotations

from typing import Any

import gurobipy
import numpy as np
from gurobipy import GRB

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Stop
from pipeplan.planners.backends.model import Floats, MatrixModel
from pipeplan.planners.backends.records import Answer, finite
from pipeplan.planners.backends.session import Session, Start, unbounded_or_infeasible
from pipeplan.planners.options import SolveOptions

_STOPS = {
    GRB.OPTIMAL: Stop.PROVEN,
    GRB.INFEASIBLE: Stop.INFEASIBLE,
    GRB.TIME_LIMIT: Stop.TIME,
    GRB.INTERRUPTED: Stop.INTERRUPTED,
    GRB.MEM_LIMIT: Stop.MEMORY,
}
_LIMITS = {GRB.NODE_LIMIT, GRB.ITERATION_LIMIT, GRB.SOLUTION_LIMIT, GRB.USER_OBJ_LIMIT, GRB.WORK_LIMIT, GRB.CUTOFF}


class Driver:
    """Keeps one environment, and with it one licence, for all its tasks."""

    def __init__(self) -> None:
        self._environment: Any = None

    def solve(self, model: MatrixModel, options: SolveOptions, start: Start | None, session: Session) -> Answer:
        if self._environment is None:
            self._environment = gurobipy.Env(params={"LogToConsole": 0})
        with gurobipy.Model(env=self._environment) as program:
            columns = _fill(program, model)
            _configure(program, options, session)
            if start is not None:
                index, values = start.given()
                columns[index].Start = values
            try:
                program.optimize(_Callback(model, session, columns))
            except gurobipy.GurobiError as error:
                if error.errno == GRB.Error.SIZE_LIMIT_EXCEEDED:
                    raise InputError(
                        "model", f"is too large for the licence ({error})", "choose another solver"
                    ) from error
                raise
            if program.Status in (GRB.UNBOUNDED, GRB.INF_OR_UNBD):
                return unbounded_or_infeasible(self, model, options, session)
            return _read(program, columns)


def _fill(program: Any, model: MatrixModel) -> Any:
    kinds = np.where(model.integer, GRB.INTEGER, GRB.CONTINUOUS)
    columns = program.addMVar(model.columns, lb=model.col_lower, ub=model.col_upper, obj=model.costs, vtype=kinds)
    program.ObjCon = model.offset
    equal = model.row_lower == model.row_upper
    sides = [
        ("=", equal, model.row_lower),
        (">", ~equal & np.isfinite(model.row_lower), model.row_lower),
        ("<", ~equal & np.isfinite(model.row_upper), model.row_upper),
    ]
    matrix = model.A
    for sense, rows, right in sides:
        if rows.any():
            program.addMConstr(matrix[rows], columns, sense, right[rows])
    program.update()
    return columns


def _configure(program: Any, options: SolveOptions, session: Session) -> None:
    program.Params.MIPGap = options.rel_gap
    program.Params.MIPGapAbs = options.abs_gap
    program.Params.Seed = options.seed % 2_000_000_000
    left = session.solver_seconds_left()
    if left is not None:
        program.Params.TimeLimit = left
    if options.threads is not None:
        program.Params.Threads = options.threads
    if options.log_path is not None:
        program.Params.LogFile = options.log_path
    for name, value in options.native.items():
        try:
            program.setParam(name, value)
        except (gurobipy.GurobiError, TypeError) as error:
            what = f"with the value {value!r} is no parameter of Gurobi ({error})"
            raise InputError(f"native.{name}", what, "correct its name or value") from error


class _Callback:
    def __init__(self, model: MatrixModel, session: Session, columns: Any) -> None:
        self.model = model
        self.session = session
        self.columns = columns

    def __call__(self, program: Any, where: int) -> None:
        if self.session.stop.is_set():
            program.terminate()
        elif where == GRB.Callback.MIPSOL:
            self.session.found(np.asarray(program.cbGetSolution(self.columns)), source="gurobi")
        elif where == GRB.Callback.MIP:
            nodes = int(program.cbGet(GRB.Callback.MIP_NODCNT))
            self.session.progress(program.cbGet(GRB.Callback.MIP_OBJBND), nodes)
            self._pass_offer(program)

    def _pass_offer(self, program: Any) -> None:
        offer = self.session.take_offer()
        if offer is None:
            return
        index, values = offer
        program.cbSetSolution(self.columns[index].tolist(), values.tolist())
        if len(index) == self.model.columns:
            point = np.zeros(self.model.columns)
            point[index] = values
            if self.model.is_feasible(point):
                self.session.found(point, source="offer")


def _read(program: Any, columns: Any) -> Answer:
    stop, message = _STOPS.get(program.Status), ""
    if stop is None:
        limit = program.Status in _LIMITS
        stop = Stop.TIME if limit else Stop.ERROR
        message = (
            "Gurobi stopped at a limit of the native options" if limit else f"Gurobi's status is {program.Status}"
        )
    if stop == Stop.INFEASIBLE:
        return Answer(stop)
    x: Floats | None = np.asarray(columns.X) if program.SolCount else None
    bound = finite(getattr(program, "ObjBound", None)) if program.IsMIP or stop == Stop.PROVEN else None
    return Answer(stop, x=x, bound=bound, nodes=int(program.NodeCount), message=message)
