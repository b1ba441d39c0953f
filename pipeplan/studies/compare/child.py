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
from typing import Any

from ...instances.base.errors import PipeplanError, UsageError
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
        _check_code(run)
        method = {name: run[name] for name in ("formulation", "planner", "solver", "options")}
        result = solve(problem_from_text(job["problem"]), **method, limits=SolveOptions(**run["limits"]))
    except PipeplanError as error:
        return {"refused": str(error), "versions": versions()}
    return {"result": result.to_json(), "versions": versions()}


def _check_code(run: dict[str, Any]) -> None:
    """Refuse to run other code of a plug-in than the run names."""
    from ...planners.registry import find_method
    from ..made_by import changed, plugin_code

    entry = find_method(run["formulation"] or run["planner"])
    now = {} if entry is None else plugin_code(entry.for_kind(run["kind"]), run["solver"])
    others = [name for name in changed(run["made_by"], now) if name in now]
    if others:
        raise UsageError(
            f"A plug-in has changed since the comparison began, or differs on this machine ({', '.join(others)}); "
            "the same command with --resume runs it again."
        )


def versions() -> dict[str, str | None]:
    """Versions of what computes; solvers name theirs in the result."""
    from ..made_by import own_version

    system = platform.platform(terse=True)
    return {"pipeplan": own_version(), "python": platform.python_version(), "system": system}


if __name__ == "__main__":
    main(int(sys.argv[1]))
