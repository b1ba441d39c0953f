"""The documentation site: MyST markdown through Sphinx; pages below `reference/` are made from the code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "pipeplan"
author = "The pipeplan developers"
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "pipeplan"
exclude_patterns = ["_build"]
nitpicky = True
# The page that explores a pipeline; beside explore.html, which is its documentation.
html_extra_path = ["reference/explorer.html"]
# JSON with a comment or an ellipsis in it is shown as it is.
suppress_warnings = ["misc.highlighting_failure"]


def _generate(app: Any, config: Any) -> None:
    import generate

    generate.write_all(HERE / "reference")


def setup(app: Any) -> None:
    # Before Sphinx looks whether the extra files are there.
    app.connect("config-inited", _generate, priority=400)
