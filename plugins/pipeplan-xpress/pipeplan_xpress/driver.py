"""FICO Xpress through its Python package (seen on version 9.9)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import xpress

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Stop
from pipeplan.planners.backends.model import MatrixModel
from pipeplan.planners.backends.records import Answer, finite
from pipeplan.planners.backends.session import Session, Start, unbounded_or_infeasible
from pipeplan.planners.options import SolveOptions

_STOPS = {
    xpress.StopType.TIMELIMIT: Stop.TIME,
    xpress.StopType.CTRLC: Stop.INTERRUPTED,
    xpress.StopType.USER: Stop.INTERRUPTED,
    xpress.StopType.MEMORYERROR: Stop.MEMORY,
    xpress.StopType.MIPGAP: Stop.GAP,
}
_FAILURES = (xpress.StopType.GENERICERROR, xpress.StopType.LICENSELOST, xpress.StopType.NUMERICALERROR)
FOUND = (xpress.SolStatus.OPTIMAL, xpress.SolStatus.FEASIBLE)


class Driver:
    def solve(self, model: MatrixModel, options: SolveOptions, start: Start | None, session: Session) -> Answer:
        program = xpress.problem()
        program.setOutputEnabled(False)
        if options.log_path is not None:
            program.setLogFile(options.log_path)
        _configure(program, options, session)
        _fill(program, model)
        if start is not None and model.integer.any():
            index, values = start.given()
            program.addMipSol(values.tolist(), index.tolist())
        _watch(program, session)
        with ExitStack() as stack:
            stack.enter_context(session.when_stopped(lambda: program.interrupt(xpress.StopType.USER)))
            program.optimize()
        solution = program.attributes.solstatus
        if solution == xpress.SolStatus.UNBOUNDED:
            return unbounded_or_infeasible(self, model, options, session)
        return _read(program, model)


def _fill(program: Any, model: MatrixModel) -> None:
    matrix = model.A.tocsc()
    equal = model.row_lower == model.row_upper
    low, high = np.isfinite(model.row_lower), np.isfinite(model.row_upper)
    kinds = np.select([equal, low & high, high, low], ["E", "R", "L", "G"], "N")
    whole = np.flatnonzero(model.integer).tolist()
    try:
        program.loadMIP(
            "",
            rowtype=kinds.tolist(),
            rhs=np.select([high, low], [model.row_upper, model.row_lower], 0.0).tolist(),
            rng=np.where(kinds == "R", model.row_upper - model.row_lower, 0.0).tolist(),
            objcoef=model.costs.tolist(),
            start=matrix.indptr.tolist(),
            rowind=matrix.indices.tolist(),
            rowcoef=matrix.data.tolist(),
            lb=np.maximum(model.col_lower, -xpress.infinity).tolist(),
            ub=np.minimum(model.col_upper, xpress.infinity).tolist(),
            coltype=["I"] * len(whole) or None,
            entind=whole or None,
        )
    except (xpress.SolverError, xpress.ModelError) as error:
        if "license" in str(error).lower():
            raise InputError("model", "is too large for the licence of Xpress", "choose another solver") from error
        raise


def _configure(program: Any, options: SolveOptions, session: Session) -> None:
    controls: dict[str, Any] = {
        "miprelstop": options.rel_gap,
        "mipabsstop": options.abs_gap,
        "randomseed": options.seed % (2**31),
    }
    left = session.solver_seconds_left()
    if left is not None:
        controls["timelimit"] = left
    if options.threads is not None:
        controls["threads"] = options.threads
    for name, value in controls.items():
        program.setControl(name, value)
    for name, value in options.native.items():
        try:
            program.setControl(name, value)
        except (xpress.InterfaceError, xpress.SolverError, TypeError, ValueError) as error:
            what = f"with the value {value!r} is no control of Xpress"
            raise InputError(f"native.{name}", what, "correct its name or value") from error


def _watch(program: Any, session: Session) -> None:
    def on_solution(inner: Any, _: Any) -> None:
        session.found(np.array(inner.getCallbackSolution()), source="xpress")

    def on_log(inner: Any, _: Any) -> int:
        session.progress(inner.attributes.bestbound, inner.attributes.nodes)
        return 0

    program.addIntsolCallback(on_solution, None, 0)
    program.addMiplogCallback(on_log, None, 0)


def _read(program: Any, model: MatrixModel) -> Answer:
    facts = program.attributes
    stop, message = _stop(facts)
    if stop == Stop.INFEASIBLE:
        return Answer(stop)
    x = np.array(program.getSolution()) if facts.solstatus in FOUND else None
    if not model.costs.any():
        bound: float | None = model.offset
    elif model.integer.any():
        bound = finite(facts.bestbound)
        bound = None if bound is None else bound + model.offset
    else:
        bound = model.objective(x) if stop == Stop.PROVEN and x is not None else None
    return Answer(stop, x=x, bound=bound, nodes=int(facts.nodes), message=message)


def _stop(facts: Any) -> tuple[Stop, str]:
    if facts.solstatus == xpress.SolStatus.INFEASIBLE:
        return Stop.INFEASIBLE, ""
    if facts.solvestatus == xpress.SolveStatus.COMPLETED and facts.solstatus == xpress.SolStatus.OPTIMAL:
        return Stop.PROVEN, ""
    reason = xpress.StopType(facts.stopstatus)
    if reason in _STOPS:
        return _STOPS[reason], ""
    if reason in _FAILURES or reason == xpress.StopType.NONE:
        return Stop.ERROR, f"Xpress ended with {reason.name.lower()}"
    return Stop.TIME, f"Xpress stopped at a limit of the native options ({reason.name.lower()})"
