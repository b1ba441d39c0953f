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
# JSON with a comment or an ellipsis in it is shown as it is.
suppress_warnings = ["misc.highlighting_failure"]


def _generate(app: Any) -> None:
    import generate

    generate.write_all(HERE / "reference")


def setup(app: Any) -> None:
    app.connect("builder-inited", _generate)
