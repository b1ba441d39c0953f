"""CPLEX as a backend of pipeplan. Nothing here imports the solver: the driver does, in a process of its own."""

from pipeplan.planners.backends import Backend, Capabilities

BACKEND = Backend(
    "cplex",
    "CPLEX",
    "pipeplan_cplex.driver",
    Capabilities(),
    package="cplex",
    distribution="cplex",
    remedy="pip install cplex (a licence is needed for all but small models)",
)
