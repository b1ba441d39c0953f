"""FICO Xpress as a backend of pipeplan. Nothing here imports the solver: the driver does, in a process of its own."""

from pipeplan.planners.backends import Backend, Capabilities

BACKEND = Backend(
    "xpress",
    "FICO Xpress",
    "pipeplan_xpress.driver",
    Capabilities(),
    package="xpress",
    distribution="xpress",
    remedy="pip install xpress (a licence is needed for all but small models)",
)
