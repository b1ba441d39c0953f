"""CPLEX through its Python package (seen on version 22.2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import cplex
import numpy as np
from cplex.exceptions import CplexError

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Stop
from pipeplan.planners.backends.model import MatrixModel
from pipeplan.planners.backends.records import Answer, finite
from pipeplan.planners.backends.session import Session, Start, unbounded_or_infeasible
from pipeplan.planners.options import SolveOptions

SIZE_LIMIT = "1016"
"""CPLEX's error number for a model that the free edition does not take."""
INFINITE = 1e20


class Driver:
    def solve(self, model: MatrixModel, options: SolveOptions, start: Start | None, session: Session) -> Answer:
        with ExitStack() as stack:
            program = stack.enter_context(cplex.Cplex())
            _quiet(program)
            _configure(program, options, session)
            _fill(program, model)
            if options.log_path is not None:
                log = stack.enter_context(open(options.log_path, "w", encoding="utf-8"))
                program.set_log_stream(log)
                program.set_results_stream(log)
            if start is not None and model.integer.any():
                _pass_start(program, start)
            aborter = program.use_aborter(cplex.Aborter())
            stack.enter_context(session.when_stopped(aborter.abort))
            if model.integer.any():
                watched = cplex.callbacks.Context.id.global_progress
                program.set_callback(_Callback(session), watched)
            try:
                program.solve()
            except CplexError as error:
                if SIZE_LIMIT in str(error):
                    raise InputError(
                        "model", f"is too large for the licence ({error})", "choose another solver"
                    ) from error
                raise
            if _is_unbounded_or_infeasible(program):
                return unbounded_or_infeasible(self, model, options, session)
            return _read(program, model, session)


def _quiet(program: Any) -> None:
    for stream in (
        program.set_log_stream, program.set_results_stream, program.set_warning_stream, program.set_error_stream
    ):  # fmt: skip
        stream(None)


def _fill(program: Any, model: MatrixModel) -> None:
    kinds = {"types": ["I" if whole else "C" for whole in model.integer]} if model.integer.any() else {}
    program.variables.add(
        obj=model.costs.tolist(),
        lb=np.maximum(model.col_lower, -cplex.infinity).tolist(),
        ub=np.minimum(model.col_upper, cplex.infinity).tolist(),
        **kinds,
    )
    program.objective.set_offset(model.offset)
    rows = list(_rows(model))
    program.linear_constraints.add(
        lin_expr=[row for row, _, _, _ in rows],
        senses="".join(sense for _, sense, _, _ in rows),
        rhs=[right for _, _, right, _ in rows],
        range_values=[width for _, _, _, width in rows],
    )


def _rows(model: MatrixModel) -> Iterator[tuple[Any, str, float, float]]:
    """Left side, sense, right side, width; rows without sides are left out."""
    for i, (low, high) in enumerate(zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)):
        index, coefficients = model.row(i)
        left = cplex.SparsePair(index.tolist(), coefficients.tolist())
        if low == high:
            yield left, "E", low, 0.0
        elif np.isfinite(low) and np.isfinite(high):
            yield left, "R", low, high - low
        elif np.isfinite(high):
            yield left, "L", high, 0.0
        elif np.isfinite(low):
            yield left, "G", low, 0.0


def _configure(program: Any, options: SolveOptions, session: Session) -> None:
    parameters = program.parameters
    parameters.mip.tolerances.mipgap.set(min(options.rel_gap, 1.0))
    parameters.mip.tolerances.absmipgap.set(options.abs_gap)
    parameters.randomseed.set(options.seed % (2**31 - 1))
    left = session.solver_seconds_left()
    if left is not None:
        parameters.timelimit.set(left)
    if options.threads is not None:
        parameters.threads.set(options.threads)
    for name, value in options.native.items():
        _set_native(parameters, name, value)


def _set_native(parameters: Any, name: str, value: Any) -> None:
    """Parameters are named by their path, like `mip.tolerances.mipgap`."""
    try:
        parameter = parameters
        for part in name.split("."):
            parameter = getattr(parameter, part)
        parameter.set(value)
    except (AttributeError, CplexError, TypeError, ValueError) as error:
        what = f"with the value {value!r} is no parameter of CPLEX"
        raise InputError(f"native.{name}", what, "correct its path or value") from error


def _pass_start(program: Any, start: Start) -> None:
    index, values = start.given()
    pair = cplex.SparsePair(index.tolist(), values.tolist())
    program.MIP_starts.add(pair, program.MIP_starts.effort_level.auto)


class _Callback:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.best = INFINITE

    def invoke(self, context: Any) -> None:
        objective = context.get_incumbent_objective()
        if objective < self.best:
            self.best = objective
            self.session.found(np.array(context.get_incumbent()), source="cplex")
        bound = context.get_double_info(context.info.best_bound)
        self.session.progress(bound, context.get_int_info(context.info.node_count))


def _is_unbounded_or_infeasible(program: Any) -> bool:
    solution = program.solution
    names = ("unbounded", "infeasible_or_unbounded", "MIP_unbounded", "MIP_infeasible_or_unbounded")
    return solution.get_status() in {getattr(solution.status, name) for name in names}


def _read(program: Any, model: MatrixModel, session: Session) -> Answer:
    solution = program.solution
    stop, message = _stop(solution, session)
    if stop == Stop.INFEASIBLE:
        return Answer(stop)
    x = np.array(solution.get_values()) if solution.is_primal_feasible() else None
    if not model.costs.any():
        bound: float | None = model.offset
    elif model.integer.any():
        bound = finite(solution.MIP.get_best_objective())
    else:
        bound = model.objective(x) if stop == Stop.PROVEN and x is not None else None
    nodes = solution.progress.get_num_nodes_processed() if model.integer.any() else None
    return Answer(stop, x=x, bound=bound, nodes=nodes, message=message)


def _stop(solution: Any, session: Session) -> tuple[Stop, str]:
    status, code = solution.status, solution.get_status()
    if code in (status.optimal, status.MIP_optimal, status.optimal_tolerance):
        return Stop.PROVEN, ""
    if code in (status.infeasible, status.MIP_infeasible):
        return Stop.INFEASIBLE, ""
    if code in (status.abort_time_limit, status.MIP_time_limit_feasible, status.MIP_time_limit_infeasible):
        return Stop.TIME, ""
    if code in (status.abort_user, status.MIP_abort_feasible, status.MIP_abort_infeasible) or session.stop.is_set():
        return Stop.INTERRUPTED, ""
    return Stop.ERROR, f"CPLEX ended with {solution.get_status_string()}"
