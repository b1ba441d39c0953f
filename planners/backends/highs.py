"""HiGHS through highspy. Runs only inside a worker: its wheel and that of ortools exclude each other."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
from highspy import cb

from ...instances.base.errors import InputError
from ...instances.base.result import Stop
from ..options import SolveOptions
from .model import MatrixModel
from .records import Answer, finite
from .session import Session, Start, unbounded_or_infeasible

_KINDS = cb.HighsCallbackType
_STATUS = highspy.HighsModelStatus
_STOPS = {
    _STATUS.kOptimal: Stop.PROVEN,
    _STATUS.kInfeasible: Stop.INFEASIBLE,
    _STATUS.kTimeLimit: Stop.TIME,
    _STATUS.kInterrupt: Stop.INTERRUPTED,
    _STATUS.kMemoryLimit: Stop.MEMORY,
}
# Limits that only native options set.
_OWN_LIMITS = (_STATUS.kSolutionLimit, _STATUS.kIterationLimit)
FEASIBLE = 2  # HighsInfo.primal_solution_status of a feasible point
# Presolve by enumeration: with it HiGHS 1.15 loses solutions of small models, and calls some of them infeasible.
FAULTY_RULES = 1 << 16
# Passed where no gap is asked for: a relative gap of exactly 0 would wait for the last bit.
LEAST_GAP = 1e-9


class Driver:
    """One HiGHS object per run; what persists is the process with its imported library."""

    def __init__(self) -> None:
        self._threads: int | None = None

    def solve(self, model: MatrixModel, options: SolveOptions, start: Start | None, session: Session) -> Answer:
        if options.threads != self._threads:
            # The pool of threads is global and keeps its size until it is told otherwise.
            highspy.Highs.resetGlobalScheduler(True)
            self._threads = options.threads
        solver = _load(model, options, session)
        if start is not None and start.x is not None:
            everything = np.arange(model.columns, dtype=np.int32)
            # HiGHS refuses what lies outside of bounds by a hair that our tolerance allows.
            inside = np.clip(start.x, model.col_lower, model.col_upper)
            checked(solver.setSolution(model.columns, everything, inside), "the warm start")
        solver.setCallback(_Callback(model, session), None)
        for kind in _Callback.KINDS:
            solver.startCallback(kind)
        solver.run()
        status = solver.getModelStatus()
        if status in (_STATUS.kUnbounded, _STATUS.kUnboundedOrInfeasible):
            return unbounded_or_infeasible(self, model, options, session)
        return _read(solver, model)


def checked(status: highspy.HighsStatus, what: str) -> None:
    if status == highspy.HighsStatus.kError:
        raise RuntimeError(f"HiGHS refused {what}")


def _load(model: MatrixModel, options: SolveOptions, session: Session) -> Any:
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in _common_options(options, session).items():
        checked(solver.setOptionValue(name, value), f"the option {name}={value!r}")
    for name, value in options.native.items():
        _set_native(solver, name, value)
    checked(solver.passModel(linear_program(model)), "the model")
    return solver


def _common_options(options: SolveOptions, session: Session) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "log_to_console": False,
        "mip_rel_gap": max(options.rel_gap, LEAST_GAP),
        "mip_abs_gap": options.abs_gap,
        "random_seed": options.seed % (2**31),
        "presolve_rule_off": FAULTY_RULES,
    }
    left = session.solver_seconds_left()
    if left is not None:
        chosen["time_limit"] = left
    if options.threads is not None:
        chosen["threads"] = options.threads
    if options.log_path is not None:
        chosen["log_file"] = options.log_path
    return chosen


def _set_native(solver: Any, name: str, value: Any) -> None:
    """HiGHS takes no whole number for a real option and says only `kError`; so types are adapted before."""
    status, kind = solver.getOptionType(name)
    if status == highspy.HighsStatus.kError:
        raise InputError(f"native.{name}", "is not an option of HiGHS", "correct its name")
    if kind == highspy.HighsOptionType.kDouble and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    try:
        status = solver.setOptionValue(name, value)
    except TypeError:
        status = highspy.HighsStatus.kError
    if status == highspy.HighsStatus.kError:
        raise InputError(f"native.{name}", f"cannot be {value!r} in HiGHS", "give a value that this option takes")


def linear_program(model: MatrixModel) -> highspy.HighsLp:
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = model.columns, model.rows
    program.col_cost_, program.offset_ = model.costs, model.offset
    program.col_lower_, program.col_upper_ = model.col_lower, model.col_upper
    program.row_lower_, program.row_upper_ = model.row_lower, model.row_upper
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.num_col_, program.a_matrix_.num_row_ = model.columns, model.rows
    program.a_matrix_.start_ = model.row_start
    program.a_matrix_.index_ = model.col_index
    program.a_matrix_.value_ = model.coefficients
    if model.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        program.integrality_ = [kinds[whole] for whole in model.integer.tolist()]
    return program


class _Callback:
    """What HiGHS calls while it works; the flag to stop is looked at wherever it asks."""

    KINDS = (
        _KINDS.kCallbackMipImprovingSolution,
        _KINDS.kCallbackMipInterrupt,
        _KINDS.kCallbackMipLogging,
        _KINDS.kCallbackMipUserSolution,
        _KINDS.kCallbackSimplexInterrupt,
        _KINDS.kCallbackIpmInterrupt,
    )

    def __init__(self, model: MatrixModel, session: Session) -> None:
        self.model = model
        self.session = session

    def __call__(self, kind: Any, message: str, out: Any, back: Any, user: Any) -> None:
        if kind == _KINDS.kCallbackMipImprovingSolution:
            self.session.found(np.array(out.mip_solution), source="highs")
        elif kind == _KINDS.kCallbackMipUserSolution:
            self._pass_offer(back)
        elif kind == _KINDS.kCallbackMipLogging:
            self.session.progress(out.mip_dual_bound, out.mip_node_count)
        elif self.session.stop.is_set():
            back.user_interrupt = True

    def _pass_offer(self, back: Any) -> None:
        offer = self.session.take_offer()
        if offer is None:
            return
        index, values = offer
        if len(index) < self.model.columns:
            back.setSolution(index, values)
            back.repairSolution()
            return
        point = np.zeros(self.model.columns)
        point[index] = values
        if self.model.is_feasible(point) and self.session.found(point, source="offer"):
            back.setSolution(point)


def _read(solver: Any, model: MatrixModel) -> Answer:
    status, info = solver.getModelStatus(), solver.getInfo()
    stop = _STOPS.get(status)
    message = ""
    if status in _OWN_LIMITS:
        stop, message = Stop.TIME, "HiGHS stopped at a limit of the native options"
    elif stop is None:
        stop, message = Stop.ERROR, f"HiGHS ended with the status {solver.modelStatusToString(status)!r}"
    nodes = int(info.mip_node_count) if info.mip_node_count >= 0 else None
    x = None
    if stop != Stop.INFEASIBLE and info.primal_solution_status == FEASIBLE:
        x = np.array(solver.getSolution().col_value, dtype=np.float64)
    counts = {"nodes": nodes or 0, "iterations": max(0, info.simplex_iteration_count)}
    bound = model.objective(x) if stop == Stop.PROVEN and x is not None else None
    if model.integer.any() and stop != Stop.INFEASIBLE:
        bound = finite(info.mip_dual_bound)
    return Answer(stop, x=x, bound=bound, nodes=nodes, message=message, counts=counts)
