"""Exact planning of pipeline-parallel DNN training and inference.

    import pipeplan

    problem = pipeplan.load("bert-large-inference")  # a packaged name, or a file
    result = pipeplan.solve(problem, formulation="ip-tarnawski", time_limit_s=60)
    print(result.found, result.objective, result.bound, result.loads)
    pipeplan.save(result, "bert.result.json")

Names are imported when they are first used: `import pipeplan` alone loads no solver and no numerics. `__init__.pyi`
lists the names with the modules that define them.
"""

from __future__ import annotations

from pathlib import Path

import lazy_loader

__version__ = "1.0.0"

_folder = Path(__file__).resolve().parent
if not (_folder / "planners").is_dir():
    # A checkout without symbolic links: the packages to which they lead stand beside this folder.
    __path__.append(str(_folder.parent))

from .instances.base.kind import shown_by  # noqa: E402

shown_by(f"{__name__}.show")

__getattr__, _, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]


def __dir__() -> list[str]:
    return sorted(__all__)
