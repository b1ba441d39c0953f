"""CBC and GLPK as backends of pipeplan: each is a program, which its driver starts in a process of its own."""

from pipeplan.planners.backends import Backend, Capabilities

CBC = Backend(
    "cbc",
    "COIN-OR CBC",
    "pipeplan_programs.cbc",
    Capabilities(progress=False, incumbents=False),
    program="cbc",
    # CBC has no option for it: it prints its version first and then obeys `quit`.
    version_option="-quit",
    remedy="install the program cbc (package coinor-cbc on Debian and Ubuntu)",
)
GLPK = Backend(
    "glpk",
    "GLPK",
    "pipeplan_programs.glpk",
    Capabilities(
        warm_start=False,
        progress=False,
        incumbents=False,
        interrupt=False,
        threads=False,
        seed=False,
        absolute_gap=False,
    ),
    program="glpsol",
    remedy="install the program glpsol (package glpk-utils on Debian and Ubuntu)",
)
