"""SCIP through the MathOpt layer of ortools."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt
from ortools.util.python.solve_interrupter import SolveInterrupter

from ...instances.base.errors import InputError
from ...instances.base.result import Stop
from ..options import SolveOptions
from .model import Floats, MatrixModel
from .records import Answer, finite
from .session import Session, Start, unbounded_or_infeasible

_REASON = mathopt.TerminationReason
_STOPS = {_REASON.OPTIMAL: Stop.PROVEN, _REASON.INFEASIBLE: Stop.INFEASIBLE}
_LIMITS = {
    mathopt.Limit.TIME: Stop.TIME,
    mathopt.Limit.INTERRUPTED: Stop.INTERRUPTED,
    mathopt.Limit.MEMORY: Stop.MEMORY,
}
# The dual bound in a line of SCIP's log (seen on SCIP 10): the fourth column from the end.
LOG_BOUND = re.compile(r"\|\s*([-+]?\d\.\d+e[-+]\d+)\s*\|[^|]*\|[^|]*\|[^|]*$")
# What MathOpt 9.15 says of a solution with infinite values, SCIP's proof of unboundedness.
INFINITE_SOLUTION = "invalid PrimalSolutionProto"
# The number of nodes in such a line.
LOG_NODES = re.compile(r"^[^|]*\|\s*(\d+)\s*\|")


class Driver:
    def solve(self, model: MatrixModel, options: SolveOptions, start: Start | None, session: Session) -> Answer:
        program = mathopt.Model.from_model_proto(_proto(model))
        run = _Run(program, list(program.variables()), session)
        result = run.solve(options, start)
        if result is None or result.termination.reason in (_REASON.UNBOUNDED, _REASON.INFEASIBLE_OR_UNBOUNDED):
            return unbounded_or_infeasible(self, model, options, session)
        return run.read(result)


class _Run:
    """One run of SCIP and what it tells while it runs."""

    def __init__(self, program: mathopt.Model, variables: Sequence[mathopt.Variable], session: Session) -> None:
        self.program = program
        self.variables = variables
        self.session = session

    def solve(self, options: SolveOptions, start: Start | None) -> mathopt.SolveResult | None:
        """The layer's result; None where SCIP ran off to infinity, which the layer cannot express."""
        interrupter = SolveInterrupter()
        with ExitStack() as stack:
            log = None
            if options.log_path is not None:
                log = stack.enter_context(open(options.log_path, "w", encoding="utf-8"))
            stack.enter_context(self.session.when_stopped(interrupter.interrupt))

            def on_log(lines: Sequence[str]) -> None:
                if log is not None:
                    log.writelines(line + "\n" for line in lines)
                for line in lines:
                    bound, nodes = LOG_BOUND.search(line), LOG_NODES.match(line)
                    if bound and nodes:
                        self.session.progress(_printed_bound(bound.group(1)), int(nodes.group(1)))

            parameters = _parameters(options, self.session)
            try:
                return mathopt.solve(
                    self.program,
                    mathopt.SolverType.GSCIP,
                    params=parameters,
                    model_params=self._hints(start),
                    msg_cb=on_log,
                    callback_reg=mathopt.CallbackRegistration(events={mathopt.Event.MIP_SOLUTION}),
                    cb=self._on_solution,
                    interrupter=interrupter,
                )
            except Exception as error:
                why = str(error.__context__ or error)  # the layer fails while it reports an error
                if INFINITE_SOLUTION in why:
                    return None
                raise RuntimeError(why) from error

    def _hints(self, start: Start | None) -> mathopt.ModelSolveParameters:
        if start is None:
            return mathopt.ModelSolveParameters()
        index, values = start.given()
        hint = {self.variables[j]: float(value) for j, value in zip(index, values, strict=True)}
        return mathopt.ModelSolveParameters(solution_hints=[mathopt.SolutionHint(variable_values=hint)])

    def _on_solution(self, data: mathopt.CallbackData) -> mathopt.CallbackResult:
        if data.solution is not None:
            self.session.found(self._point(data.solution), source="scip")
        return mathopt.CallbackResult()

    def _point(self, values: dict[mathopt.Variable, float]) -> Floats:
        return np.array([values[variable] for variable in self.variables], dtype=np.float64)

    def read(self, result: mathopt.SolveResult) -> Answer:
        ending, message = result.termination, ""
        stop = _STOPS.get(ending.reason)
        if stop is None and ending.limit is not None:
            stop = _LIMITS.get(ending.limit, Stop.TIME)
            if ending.limit not in _LIMITS:
                message = f"SCIP stopped at a limit of the native options ({ending.limit.name.lower()})"
        if stop is None:
            stop, message = Stop.ERROR, f"SCIP ended with {ending.reason.name.lower()}: {ending.detail}".strip(": ")
        x = None
        if result.solutions and result.solutions[0].primal_solution is not None:
            x = self._point(result.solutions[0].primal_solution.variable_values)
        bound = None if stop == Stop.INFEASIBLE else finite(ending.objective_bounds.dual_bound)
        return Answer(stop, x=x, bound=bound, nodes=result.solve_stats.node_count, message=message)


def _printed_bound(text: str) -> float:
    """The log shows seven digits: the bound itself is up to one unit of the last one lower."""
    digits, exponent = text.split("e")
    return float(text) - 10.0 ** (int(exponent) - len(digits.partition(".")[2]))


def _proto(model: MatrixModel) -> model_pb2.ModelProto:
    """The model as MathOpt's message, filled by whole arrays."""
    proto = model_pb2.ModelProto()
    variables, rows, matrix = proto.variables, proto.linear_constraints, proto.linear_constraint_matrix
    variables.ids.extend(range(model.columns))
    variables.lower_bounds.extend(model.col_lower.tolist())
    variables.upper_bounds.extend(model.col_upper.tolist())
    variables.integers.extend(model.integer.tolist())
    priced = np.flatnonzero(model.costs)
    proto.objective.offset = model.offset
    proto.objective.linear_coefficients.ids.extend(priced.tolist())
    proto.objective.linear_coefficients.values.extend(model.costs[priced].tolist())
    rows.ids.extend(range(model.rows))
    rows.lower_bounds.extend(model.row_lower.tolist())
    rows.upper_bounds.extend(model.row_upper.tolist())
    table = model.A
    table.sum_duplicates()  # sorts, too, as the message wants it
    matrix.row_ids.extend(np.repeat(np.arange(model.rows), np.diff(table.indptr)).tolist())
    matrix.column_ids.extend(table.indices.tolist())
    matrix.coefficients.extend(table.data.tolist())
    return proto


# ---- options -------------------------------------------------------------------------------------------


def _parameters(options: SolveOptions, session: Session) -> mathopt.SolveParameters:
    left = session.solver_seconds_left()
    parameters = mathopt.SolveParameters(
        time_limit=None if left is None else datetime.timedelta(seconds=left),
        relative_gap_tolerance=options.rel_gap,
        absolute_gap_tolerance=options.abs_gap,
        random_seed=options.seed % (2**31),
    )
    for name, value in options.native.items():
        _set_native(parameters, name, value)
    return parameters


def _set_native(parameters: mathopt.SolveParameters, name: str, value: Any) -> None:
    """SCIP keeps its parameters by type, and complains only when it solves: so each is tried on an empty model."""
    for section in _sections(value):
        trial = mathopt.SolveParameters()
        getattr(trial.gscip, section)[name] = value
        try:
            mathopt.solve(mathopt.Model(), mathopt.SolverType.GSCIP, params=trial)
        except Exception:
            continue
        getattr(parameters.gscip, section)[name] = value
        return
    raise InputError(
        f"native.{name}", f"with the value {value!r} is no parameter of SCIP", "correct its name or value"
    )


def _sections(value: Any) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("bool_params",)
    if isinstance(value, int):
        return ("int_params", "long_params", "real_params")
    if isinstance(value, float):
        return ("real_params",)
    return ("string_params", "char_params") if isinstance(value, str) else ()
