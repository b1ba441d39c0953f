"""Gurobi as a backend of pipeplan. Nothing here imports the solver: the driver does, in a process of its own."""

from pipeplan.planners.backends import Backend, Capabilities

BACKEND = Backend(
    "gurobi",
    "Gurobi",
    "pipeplan_gurobi.driver",
    Capabilities(takes_solutions=True),
    package="gurobipy",
    distribution="gurobipy",
    remedy="pip install gurobipy (a licence is needed for all but small models)",
)
