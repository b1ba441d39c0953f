"""The process of one run: ``python -P -m pipeplan.studies.compare.child PARENT``, a job on stdin, an answer on stdout.

A process of its own for each run makes limits hard, crashes harmless and times comparable: nobody inherits
another's warm caches.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...instances.base.errors import PipeplanError
from ...planners.backends.process import die_with_parent


def main(parent: int) -> None:
    die_with_parent()
    if os.getppid() != parent:
        return
    job = json.load(sys.stdin)
    # What a library prints must not get into the answer.
    with contextlib.redirect_stdout(sys.stderr):
        answer = _answer(job)
    json.dump(answer, sys.stdout, allow_nan=False)
    sys.stdout.flush()


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    from ...instances.files import problem_from_text
    from ...planners.options import SolveOptions
    from ...planners.run.solve import solve

    run = job["run"]
    try:
        method = {name: run[name] for name in ("formulation", "planner", "solver", "options")}
        result = solve(problem_from_text(job["problem"]), **method, limits=SolveOptions(**run["limits"]))
    except PipeplanError as error:
        return {"refused": str(error), "versions": versions()}
    return {"result": result.to_json(), "versions": versions()}


def versions() -> dict[str, str | None]:
    """Versions of what computes; solvers name theirs in the result. Ours is None in a checkout that is not
    installed."""
    try:
        ours = version("pipeplan")
    except PackageNotFoundError:
        ours = None
    return {"pipeplan": ours, "python": platform.python_version(), "system": platform.platform(terse=True)}


if __name__ == "__main__":
    main(int(sys.argv[1]))
