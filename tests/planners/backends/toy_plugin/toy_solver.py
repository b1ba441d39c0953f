"""A backend in another package: this module says what it can do and is imported wherever solvers are listed."""

from pipeplan.planners.backends import Backend, Capabilities

BACKEND = Backend(
    "toy",
    "A toy (scipy's solver)",
    "toy_driver",
    Capabilities(warm_start=False, progress=False, incumbents=False, interrupt=False, threads=False, seed=False),
    package="scipy",
    distribution="toy-solver",
)
